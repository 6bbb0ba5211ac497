"""What a layer costs, as summaries have it."""

from __future__ import annotations

from pydantic import Field

from osmef.results.measure import Better, Measure
from osmef.scenario.base import Model
from osmef.scenario.study import Scalar

CPU_PER_GB = Measure(
    name="cpu_s_per_gb", unit="s/GB", better=Better.LOWER, label="CPU per GB",
    help="CPU time of both endpoints, all that was not idle there, divided by the data that came,"
    " in 10^9 bytes; that of an encryption or a bridge, which the kernel does, is in it",
    source="proc(5), `/proc/stat`",
)  # fmt: skip


class LayerCost(Model):
    """How many times as large a number is with a layer as without."""

    values: dict[str, Scalar] = Field(
        description="all else that was swept, and the place, where they differ: both are the same"
    )
    layer: str = Field(description="the layer, as cells have it")
    reference: str = Field(description="the layer that it is compared with")
    metric: str = Field(description="name of the metric")
    unit: str | None = Field(description="the metric's unit")
    n: int = Field(description="how many were compared")
    compared: str = Field(
        description="what n counts: `blocks`, in each of which both have a trial; `pairs` of"
        " endpoints with trials of their own; or `trials`, unpaired, where the run has less than"
        " two blocks"
    )
    reference_median: float = Field(description="median of all trials of the reference")
    median: float = Field(description="median of all trials with the layer")
    ratio: float | None = Field(description="layer to reference, of Hodges and Lehmann")
    ci95_low: float | None = Field(
        description="lower end of the 95 % interval of the ratio; null of too few"
    )
    ci95_high: float | None = Field(description="upper end of that interval")
    p: float | None = Field(description="of a ratio of 1 (Wilcoxon; unpaired: Mann and Whitney)")
    p_holm: float | None = Field(description="the same, corrected over the whole list (Holm)")
