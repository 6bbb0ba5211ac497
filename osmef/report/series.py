"""Content of figures and the table, from a summary: placements, variants and points."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from osmef.results.summary import CellInfo, Metric, Summary
from osmef.results.trial import Limit
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.study import Scalar

AXES = ("placement", "tenancy", "connections")
"""Sweep keys that a figure has its axes and lines for; all others make a panel of their own."""

PLACEMENTS = {
    Placement.SAME_HOST: "same host",
    Placement.DIFFERENT_HOST: "different hosts",
    Placement.ANY: "any hosts",
    None: "hosts unclear",
}
TENANCIES = {
    Tenancy.SAME_TENANT: "same tenant",
    Tenancy.DIFFERENT_TENANT: "different tenants",
    None: "tenants unclear",
}

LIMITS = {
    Limit.SENDER_CPU: "sender CPU",
    Limit.RECEIVER_CPU: "receiver CPU",
    Limit.RECEIVE_WINDOW: "receive window",
    Limit.SEND_BUFFER: "send buffer",
    Limit.NETWORK: "network",
    Limit.SENDER_IDLE: "idle sender",
    Limit.SHAPER: "shaper",
    Limit.INCONCLUSIVE: "inconclusive",
}
"""What limited a connection, as pages and figures call it."""

_BACKGROUND = "background."

Variant = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True)
class ShownPlacement:
    """Achieved placement of a pair; ``asked`` is a differing requested one."""

    distance: int | None
    placement: str
    tenancy: str | None
    asked: str | None = None

    @property
    def order(self) -> tuple[bool, int, bool, str, str, str]:
        """The sort key of placements: near before far, unknown last."""
        far = self.placement == PLACEMENTS[Placement.DIFFERENT_HOST]
        unknown = self.distance is None
        return (
            unknown,
            self.distance or 0,
            far,
            self.placement,
            self.tenancy or "",
            self.asked or "",
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of its label."""
        distance = "unknown" if self.distance is None else self.distance
        told = (self.tenancy, self.asked and f"asked for: {self.asked}")
        return (f"distance {distance}", self.placement, *filter(None, told))


@dataclass(frozen=True)
class Point:
    """The median of a metric of a cell, with a bar; NaN without one.

    The bar is the 95 % interval of the median if ``exact``, else minimum to maximum. ``values`` are
    those of the trials, or of the sessions.
    """

    x: float
    median: float
    low: float
    high: float
    exact: bool
    values: tuple[float, ...] = ()


def pair_placement(cell: CellInfo, summary: Summary) -> ShownPlacement:
    """Return the achieved placement of a cell."""
    if is_alone(cell):
        return ShownPlacement(cell.distance, "loopback", None)
    placement, asked = PLACEMENTS[cell.achieved_placement], _asked(cell)
    kinds = {e.kind for e in summary.endpoints if e.name in (*cell.senders, *cell.receivers)}
    if EndpointKind.HOST in kinds:  # which belongs to no tenant
        return ShownPlacement(cell.distance, placement, None, asked)
    return ShownPlacement(cell.distance, placement, TENANCIES[cell.achieved_tenancy], asked)


def is_alone(cell: CellInfo) -> bool:
    """Return whether a cell is a loopback of one endpoint."""
    return len({*cell.senders, *cell.receivers}) == 1


def _asked(cell: CellInfo) -> str | None:
    """Return the requested placement if it was not achieved, else None."""
    words = {"placement": PLACEMENTS[cell.placement], "tenancy": TENANCIES[cell.tenancy]}
    told = [words[key] for key in other_than_asked(cell)]
    if not told and cell.mismatch:
        told = [f"distance {cell.requested_distance}"]
    return ", ".join(told) or None


def other_than_asked(cell: CellInfo) -> dict[str, tuple[Scalar, Scalar]]:
    """Return placement and tenancy that differ from the requested: achieved, and requested."""
    pairs: dict[str, tuple[Placement | Tenancy | None, Placement | Tenancy | None]] = {
        "placement": (cell.achieved_placement, cell.placement),
        "tenancy": (cell.achieved_tenancy, cell.tenancy),
    }
    decided = cell.placement is Placement.ANY and not is_alone(cell)
    return {
        key: pair
        for key, pair in pairs.items()
        if key in cell.mismatch or (key == "placement" and decided)
    }


def shown_values(cell: CellInfo) -> dict[str, Scalar]:
    """Return the swept values for a label; placement and tenancy as achieved."""
    told = {
        key: f"{achieved or 'unclear'} (asked for: {asked})"
        for key, (achieved, asked) in other_than_asked(cell).items()
    }
    return {**cell.values, **told}


def variant(cell: CellInfo) -> Variant:
    """Return the swept values of a cell that are on no axis, such as flavors."""
    return tuple((key, value) for key, value in cell.values.items() if not has_axis(key))


def has_axis(key: str) -> bool:
    """Return whether figures have an axis or lines for a swept key."""
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
    """Format a swept value as users write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Return each dotted key's shortest unambiguous suffix.

    What is the background's is always called so, and a number in a list with the list's name.
    """
    words = {key: key.split(".") for key in keys}

    def shortest(key: str) -> str:
        for count in range(1 + key.startswith(_BACKGROUND), len(words[key])):
            ending = words[key][-count:]
            alone = sum(other[-count:] == ending for other in words.values()) == 1
            if alone and not ending[0].isdecimal():
                return ".".join(ending)
        return key

    return {key: shortest(key) for key in words}


_KNOWN_BY_VALUE = {"placement", "tenancy", "workload", "kind", "layer"}


def short_cells(cells: Iterable[str]) -> tuple[dict[str, str], str]:
    """Return short labels of cells by key, and their common values.

    A placement, a tenancy, a workload and a layer are known by their word, such as ``same-host``;
    all other values have the last word of their key.
    """
    parts = {cell: cell.split(",") for cell in cells}
    if not parts:
        return {}, ""
    first = next(iter(parts.values()))
    shared = [part for part in first if len(parts) > 1 and all(part in of for of in parts.values())]
    short = {
        cell: ", ".join(_part_alone(part) for part in of if part not in shared)
        for cell, of in parts.items()
    }
    if len(set(short.values())) < len(short):  # what was cut off tells them apart
        short = {cell: ", ".join(p for p in of if p not in shared) for cell, of in parts.items()}
    return {cell: name or "all" for cell, name in short.items()}, ", ".join(shared)


def _part_alone(part: str) -> str:
    key, equals, value = part.partition("=")
    name = key.rpartition(".")[2]
    return value if equals and name in _KNOWN_BY_VALUE else f"{name}{equals}{value}"
