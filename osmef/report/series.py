"""What the figures and the table show, taken from a summary: places, variants and points."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from osmef.results.summary import CellInfo, Metric, Summary
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.study import Scalar

AXES = ("placement", "tenancy", "connections")
"""Sweep keys that a figure has its axes and lines for; all others make a panel of their own."""

_PLACEMENTS = {Placement.SAME_HOST: "same host", Placement.DIFFERENT_HOST: "different hosts"}
_TENANCIES = {
    Tenancy.SAME_TENANT: "same tenant",
    Tenancy.DIFFERENT_TENANT: "different tenants",
}

_BACKGROUND = "background."

Variant = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True)
class Place:
    """Where both ends stand to each other, as achieved where that is known."""

    distance: int | None
    placement: str
    tenancy: str | None

    @property
    def order(self) -> tuple[bool, int, bool, str, str]:
        """What places are sorted by: near before far, unknown last."""
        far = self.placement == _PLACEMENTS[Placement.DIFFERENT_HOST]
        unknown = self.distance is None
        return (unknown, self.distance or 0, far, self.placement, self.tenancy or "")

    @property
    def lines(self) -> tuple[str, ...]:
        """The place in words, a line each."""
        distance = "unknown" if self.distance is None else self.distance
        return (f"distance {distance}", self.placement, *filter(None, [self.tenancy]))


@dataclass(frozen=True)
class Point:
    """The median of a metric over the trials of a cell, with a bar; NaN where there is none.

    The bar is the 95 % interval of the median if ``exact``, else minimum to maximum.
    """

    x: float
    median: float
    low: float
    high: float
    exact: bool


def place(cell: CellInfo, summary: Summary) -> Place:
    """Return where the ends of a cell stand to each other."""
    if cell.senders == cell.receivers:
        return Place(cell.distance, "loopback", None)
    placement = _PLACEMENTS[cell.achieved_placement or cell.placement]
    kinds = {e.kind for e in summary.endpoints if e.name in (*cell.senders, *cell.receivers)}
    if EndpointKind.HOST in kinds:  # which belongs to no tenant
        return Place(cell.distance, placement, None)
    return Place(cell.distance, placement, _TENANCIES[cell.achieved_tenancy or cell.tenancy])


def variant(cell: CellInfo) -> Variant:
    """Return the swept values of a cell that are on no axis, such as flavors."""
    return tuple((key, value) for key, value in cell.values.items() if not _has_axis(key))


def _has_axis(key: str) -> bool:
    return key.rpartition(".")[2] in AXES and not key.startswith(_BACKGROUND)


def by_variant(summary: Summary) -> dict[Variant, list[CellInfo]]:
    """Return the cells of each variant, in the order of the summary."""
    cells: dict[Variant, list[CellInfo]] = defaultdict(list)
    for cell in summary.cells:
        cells[variant(cell)].append(cell)
    return dict(cells)


def point(x: float, metric: Metric | None) -> Point:
    """Return a metric as a point at ``x``."""
    nan = float("nan")
    if metric is None or metric.median is None:
        return Point(x, nan, nan, nan, exact=False)
    if metric.ci95_low is not None and metric.ci95_high is not None:
        return Point(x, metric.median, metric.ci95_low, metric.ci95_high, exact=True)
    low = metric.median if metric.min is None else metric.min
    high = metric.median if metric.max is None else metric.max
    return Point(x, metric.median, low, high, exact=False)


def written(value: Scalar) -> str:
    """Return a swept value as people write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Return each dotted key by its last words, as few as tell it from the others.

    What is the background's is always called so.
    """
    words = {key: key.split(".") for key in keys}

    def shortest(key: str) -> str:
        for count in range(1 + key.startswith(_BACKGROUND), len(words[key])):
            ending = words[key][-count:]
            if sum(other[-count:] == ending for other in words.values()) == 1:
                return ".".join(ending)
        return key

    return {key: shortest(key) for key in words}
