"""ioping: how long single requests to a disk take, one after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from osmef.formats.ioping import read
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Duration, Size
from osmef.supply.program import Program
from osmef.workloads.programs import DirectSettings, EndedProgram, ProgramRun
from osmef.workloads.tool import Tool

_QUANTILES = {"p50_us": 0.5, "p99_us": 0.99}
_OF_A_REQUEST = 600
"""Bytes at most that ioping prints of one."""


class IopingSettings(DirectSettings):
    """ioping: latency of single requests to the sender's disk."""

    kind: Literal["ioping"] = Field(default="ioping", description="the kind of workload")
    duration: Duration = Field(
        default=10.0, ge=1, le=86400.0, description="how long it makes requests (-w)"
    )
    operation: Literal["read", "write"] = Field(
        default="read", description="read, or write and wait for the disk (-W)"
    )
    block: Size = Field(default=4096, ge=512, le=2**30, description="of each request (-s)")
    size: Size = Field(
        default=64 * 2**20, ge=2**20, le=2**50, description="of the file in which they are (-S)"
    )
    interval: Duration = Field(
        default=0.01,
        ge=0,
        le=3600,
        description="from one request to the next (-i); there are percentiles where all requests"
        " can be printed within `most_output`, 600 bytes each",
    )
    linear: bool = Field(
        default=False, description="true: one place behind the other, and not at random (-L)"
    )

    @property
    def is_cached(self) -> bool:
        """Whether memory may serve requests: ioping drops the page cache itself."""
        return False

    @property
    def is_told(self) -> bool:
        """Whether each single request is printed."""
        return self.duration * _OF_A_REQUEST <= self.most_output * self.interval


class Ioping(Tool[IopingSettings]):
    """One ioping on the sender."""

    Settings = IopingSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: ioping, interval: 100ms}"
    programs = (Program("ioping", version=("-v",)),)
    told = (
        Measure(
            name="latency_mean_us", unit="us", better=Better.LOWER, label="mean latency",
            head="mean\nµs", digits=".1f", over_pairs=OverPairs.WORST, leading=True,
            source="ioping(1), avg", help="mean of how long a request took, without the first one",
        ),
        Measure(
            name="latency_p50_us", unit="us", better=Better.LOWER, label="median latency",
            head="p50\nµs", digits=".1f", over_pairs=OverPairs.WORST, source="OSMeF",
            help="median of the same, where each request is reported",
        ),
        Measure(
            name="latency_p99_us", unit="us", better=Better.LOWER, label="latency, 99 %",
            head="p99\nµs", digits=".1f", over_pairs=OverPairs.WORST, source="OSMeF",
            help="99th percentile of the same: the smallest time that 99 % did not exceed",
        ),
        Measure(
            name="latency_min_us", unit="us", better=Better.LOWER, label="lowest latency",
            over_pairs=OverPairs.WORST, source="ioping(1), min", help="the shortest request",
        ),
        Measure(
            name="latency_max_us", unit="us", better=Better.LOWER, label="highest latency",
            head="max\nµs", digits=".0f", over_pairs=OverPairs.WORST, source="ioping(1), max",
            help="the longest request",
        ),
        Measure(
            name="iops", unit="1/s", better=Better.HIGHER, label="requests", head="requests\n/s",
            digits=".0f", over_pairs=OverPairs.SUM, source="ioping(1), iops",
            help="requests per second of the time that they took: one after the other, no pauses",
        ),
    )  # fmt: skip

    def runs(self) -> Sequence[ProgramRun]:
        """Return ioping at the sender, in a file of its own."""
        s = self._settings
        options = {
            "-w": f"{s.duration:g}s",
            "-i": f"{1e9 * s.interval:.0f}ns",
            "-s": f"{s.block}",
            "-S": f"{s.size}",
        }
        flags = {"-D": s.direct, "-W": s.operation == "write", "-L": s.linear, "-q": not s.is_told}
        argv = ["ioping", "-J", *(word for pair in options.items() for word in pair)]
        return (s.run_of([*argv, *(flag for flag, given in flags.items() if given), "{dir}"]),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the JSON, with percentiles of single requests if they are printed."""
        told = read(ended[-1].printed.text_of_stdout)
        ordered = sorted(told.times_us)
        return {
            "latency_mean_us": told.mean_us,
            **{
                f"latency_{name}": ordered[math.ceil(share * len(ordered)) - 1] if ordered else None
                for name, share in _QUANTILES.items()
            },
            "latency_min_us": told.min_us,
            "latency_max_us": told.max_us,
            "iops": told.iops,
        }
