"""Content of a summary for figures, tables and pages: placements, variants, points, and sentences.

The sentences state the cost of a run, expected medians, and doubts about a number.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from osmef.analysis.throughput import contended
from osmef.results.measure import Measure
from osmef.results.summary import CellInfo, Cost, Expectation, MetricSummary, Summary, Verdict
from osmef.results.trial import Bottleneck
from osmef.scenario.fields import EndpointKind, Money, Placement, Tenancy
from osmef.scenario.study import Scalar
from osmef.units import counted, format_duration

if TYPE_CHECKING:
    import pandas as pd  # slow to load


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
    Bottleneck.SENDER_CPU: "sender CPU",
    Bottleneck.RECEIVER_CPU: "receiver CPU",
    Bottleneck.RECEIVE_WINDOW: "receive window",
    Bottleneck.SEND_BUFFER: "send buffer",
    Bottleneck.NETWORK: "network",
    Bottleneck.SENDER_IDLE: "idle sender",
    Bottleneck.SHAPER: "shaper",
    Bottleneck.INCONCLUSIVE: "inconclusive",
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
        reported = (self.tenancy, self.asked and f"asked for: {self.asked}")
        return (f"distance {distance}", self.placement, *filter(None, reported))


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
    reported = [words[key] for key in other_than_asked(cell)]
    if not reported and cell.mismatch:
        reported = [f"distance {cell.requested_distance}"]
    return ", ".join(reported) or None


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
    reported = {
        key: f"{achieved or 'unclear'} (asked for: {asked})"
        for key, (achieved, asked) in other_than_asked(cell).items()
    }
    return {**cell.values, **reported}


def variant(cell: CellInfo) -> Variant:
    """Return the swept values of a cell that are on no axis, such as flavors."""
    return tuple((key, value) for key, value in cell.values.items() if not has_axis(key))


def has_axis(key: str) -> bool:
    """Return whether figures have an axis or lines for a swept key."""
    return key.rpartition(".")[2] in AXES and not key.startswith(_BACKGROUND)


def point(x: float, metric: MetricSummary | None) -> Point:
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
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_PART = re.compile(rf'(?:(?<==){_STRING.pattern}(?=,|$)|[^,]|,(?![^\s,="]+=))+')
"""A value with its key; commas in a quoted value, or with no key after them, belong to it."""


def parts_of(cell: str) -> list[str]:
    """Split a cell's key at the commas between its values, not at those within them.

    The words of a platform before the first value are parts as well; the last one has that value.
    """
    first, *others = _PART.findall(cell) or [""]
    platform, key = platform_of(first)
    if not platform:
        return [key, *others]
    *words, last = platform.split(", ")
    return [*words, f"{last}: {key}", *others]


def platform_of(cell: str) -> tuple[str, str]:
    """Split the name of a cell into its platform, or its run, and its key."""
    platform, colon, _name = cell.partition("=")[0].rpartition(": ")
    return platform, cell[len(platform) + len(colon) :]


def short_cells(cells: Iterable[str]) -> tuple[dict[str, str], str]:
    """Return short labels of cells by key, and their common values.

    A placement, a tenancy, a workload and a layer are known by their word, such as ``same-host``;
    all other values have the shortest name of their key (``short_names``).
    """
    parts = {cell: parts_of(cell) for cell in cells}
    if not parts:
        return {}, ""
    first = next(iter(parts.values()))
    shared = [part for part in first if len(parts) > 1 and all(part in of for of in parts.values())]
    names = short_names(_split(part)[1] for of in parts.values() for part in of)
    short = {
        cell: ", ".join(_part_alone(part, names) for part in of if part not in shared)
        for cell, of in parts.items()
    }
    if len(set(short.values())) < len(short):  # the part that was cut off distinguishes them
        short = {
            cell: ", ".join(_readable(part) for part in of if part not in shared)
            for cell, of in parts.items()
        }
    return {cell: name or "all" for cell, name in short.items()}, ", ".join(map(_readable, shared))


def _split(part: str) -> tuple[str, str, str]:
    """Return the platform of a part, with its colon, the key, and the value with its equals."""
    before, equals, value = part.partition("=")
    if not equals:
        return before, "", ""
    platform, colon, key = before.rpartition(": ")
    return f"{platform}{colon}", key, f"{equals}{value}"


def _part_alone(part: str, names: Mapping[str, str]) -> str:
    platform, key, value = _split(_readable(part))
    if key.rpartition(".")[2] in _KNOWN_BY_VALUE:
        return f"{platform}{value[1:]}"
    return f"{platform}{names[key]}{value}"


def _readable(part: str) -> str:
    """Return a part with the letters of a quoted value as they are, not as JSON's escapes."""
    name, equals, value = part.partition("=")
    if not _STRING.fullmatch(value):
        return part
    try:
        text = str(json.loads(value))
    except ValueError:  # an imported value that is no JSON
        return part
    return f"{name}{equals}{json.dumps(text, ensure_ascii=not text.isprintable())}"


def cost_text(summary: Summary) -> str | None:
    """Describe the cost of a run by list price; None without any price."""
    hours = summary.run.vm_hours
    if hours is None or not any(end.price for end in summary.endpoints):
        return None
    reported = "unknown" if summary.run.cost is None else money(summary.run.cost)
    return f"{reported} for {hours:.3g} VM hours, without traffic, disks and addresses"


def money(cost: Cost) -> str:
    """Format a sum: ``12.35 USD``."""
    return str(Money(cost.amount, cost.currency))


_MOST_CELLS = 4


def expectations(summary: Summary) -> Iterator[tuple[Verdict, str]]:
    """Yield verdict and text of each expected bound: missed ones first."""
    names, _shared = short_cells(cell.key for cell in summary.cells)
    measures = {one.name: one for one in summary.measures}
    found: dict[tuple[str, str], list[tuple[Verdict, str]]] = defaultdict(list)
    for cell in summary.cells:
        for one in cell.expectations:
            shown = f"{_cell(names[cell.key])}{_shown(cell, one, measures[one.metric])}"
            found[one.metric, one.expected].append((one.verdict, shown))
    for (metric, bound), cells in found.items():
        verdicts = [verdict for verdict, _ in cells]
        worst = next(one for one in _ORDER if one in verdicts)
        parts = [
            _part(one, [shown for verdict, shown in cells if verdict is one], len(cells))
            for one in _ORDER
            if one in verdicts
        ]
        yield worst, f"{metric} {bound}: {'; '.join(parts)}"


_ORDER = (Verdict.MISSED, Verdict.UNDECIDED, Verdict.MET)


def _part(verdict: Verdict, shown: list[str], count: int) -> str:
    if verdict is Verdict.MET:
        return f"met in {len(shown)} of {count} cells" if count > 1 else f"met: {shown[0]}"
    more = len(shown) - _MOST_CELLS
    rest = f" and {counted(more, 'more cell')}" if more > 0 else ""
    return f"{verdict} in {len(shown)} of {count} cells: {', '.join(shown[:_MOST_CELLS])}{rest}"


def _cell(name: str) -> str:
    return "" if name == "all" else f"{name}: "


def _shown(cell: CellInfo, one: Expectation, measure: Measure) -> str:
    """Return the median with its interval."""
    metric = cell.metrics.get(one.metric)
    if metric is None or metric.median is None:
        return "not measured"
    if metric.ci95_low is None or metric.ci95_high is None:
        return f"{measure.with_unit(metric.median)}, n = {metric.n} is too few for an interval"
    ends = measure.between(metric.ci95_low, metric.ci95_high)
    return f"{measure.with_unit(metric.median)} [{ends}]"


def doubts_of(
    row: Mapping[Any, Any], error_percent: float = 5.0, busy: Mapping[str, str] | None = None
) -> str:
    """Describe the doubts about a row of ``data_quality``, the most severe first; "" for none.

    ``error_percent`` is that for which ``repetitions`` are needed: a median of fewer values may be
    further off, whatever its interval says of the noise. ``busy`` is the result of ``busy_cells``.
    """
    found = []
    if too_few := needs_more(row):
        found.append(f"too few for ±{error_percent:g} %: {too_few}")
    if others := (busy or {}).get(str(row.get("cell"))):
        found.append(others)
    return "; ".join([*found, *filter(None, [str(row["doubts"])])])


def needs_more(row: Mapping[Any, Any]) -> str:
    """Describe how many values, or pairs, a row of ``data_quality`` has and needs, or ""."""
    pairs, needed = _number_of(row.get("pairs")), _number_of(row["repetitions"])
    count = float(row["n"]) if pairs is None else pairs
    if needed is None:  # one value has no spread that would tell how many are enough
        return "" if count > 1 else f"{count:.0f} of an unknown number"
    if needed <= count:
        return ""
    return f"{count:.0f} of {needed_of(row)}"


def needed_of(row: Mapping[Any, Any]) -> str:
    """Describe how many values a row of ``data_quality`` needs, or how many pairs."""
    needed = _number_of(row["repetitions"])
    if needed is None:
        return "unknown"
    return f"{needed:.0f}" if _number_of(row.get("pairs")) is None else f"{needed:.0f} pairs"


def _number_of(number: object) -> float | None:
    return float(number) if isinstance(number, float | int) and not math.isnan(number) else None


def pairs_of(row: Mapping[Any, Any], measure: Measure) -> str:
    """Return a row of ``variance_table`` in words: the split of the spread, and what to add."""
    ends = measure.between(row["mean_low"], row["mean_high"])
    split = (
        f"{measure.name} varies by {row['between_percent']:.3g} % between its {row['pairs']} pairs"
        f" and by {row['within_percent']:.3g} % within one"
    )
    if (share := row["between_share"]) is not None:
        split += f": {100 * share:.0f} % of the variance is between pairs"
    several = f"{row['trials']:.3g} trials{_spent(row, 'pair')}"
    return (
        f"{split}; mean over pairs {measure.with_unit(row['mean'])} [{ends}] (95 %, Student)."
        f" One pair more ({several}) would narrow this by {row['pair_narrows_percent']:.2g} %,"
        f" one trial more on each ({row['pairs']} trials{_spent(row, 'trials')}) by"
        f" {row['trials_narrow_percent']:.2g} %: more {row['more']}"
        + (", and 6 give the interval of the median" if row["pairs"] < _FEWEST_PAIRS else "")
    )


_FEWEST_PAIRS = 6


def _spent(row: Mapping[Any, Any], what: str) -> str:
    """Return the time of an addition, and its cost where there is a price."""
    seconds, cost, currency = (row[name] for name in (f"{what}_s", f"{what}_cost", "currency"))
    reported = "" if seconds is None else f", {format_duration(seconds)}"
    if cost is not None and currency is not None:
        reported += f", {money(Cost(amount=cost, currency=currency))}"
    return reported


def busy_cells(cells: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Describe the CPU contention of each cell's endpoints, where it was substantial.

    ``cells`` has the trials of each by its name.
    """
    reported = {
        cell: contended(*(_known(trials, f"cpu_{name}_percent") for name in ("others", "steal")))
        for cell, trials in cells.items()
    }
    return {cell: words for cell, words in reported.items() if words}


def _known(trials: pd.DataFrame, name: str) -> list[float]:
    return [float(value) for value in trials[name].dropna()] if name in trials else []
