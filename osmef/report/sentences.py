"""Sentences for terminal and page: cost of a run, expected medians, doubts about a number."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from osmef.analysis.contention import contended
from osmef.report.series import short_cells
from osmef.results.measure import Measure
from osmef.results.summary import CellInfo, Cost, Expectation, Summary, Verdict
from osmef.scenario.fields import Money
from osmef.units import counted, format_duration

if TYPE_CHECKING:
    import pandas as pd  # slow to load


def cost_text(summary: Summary) -> str | None:
    """Describe the cost of a run by list price; None without any price."""
    hours = summary.run.vm_hours
    if hours is None or not any(end.price for end in summary.endpoints):
        return None
    told = "unknown" if summary.run.cost is None else money(summary.run.cost)
    return f"{told} for {hours:.3g} VM hours, without traffic, disks and addresses"


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
    """Describe the doubts about a row of ``trust``, the most severe first; "" for none.

    ``error_percent`` is that for which ``repetitions`` are needed: a median that fewer values give
    may be further off, whatever its interval says of the noise. ``busy`` is what ``busy_cells``
    tells.
    """
    found = []
    if too_few := needs_more(row):
        found.append(f"too few for ±{error_percent:g} %: {too_few}")
    if others := (busy or {}).get(str(row.get("cell"))):
        found.append(others)
    return "; ".join([*found, *filter(None, [str(row["doubts"])])])


def needs_more(row: Mapping[Any, Any]) -> str:
    """Describe how many values, or pairs, a row of ``trust`` has of those it needs, or ""."""
    pairs, needed = _number_of(row.get("pairs")), _number_of(row["repetitions"])
    count = float(row["n"]) if pairs is None else pairs
    if needed is None or needed <= count:
        return ""
    return f"{count:.0f} of {needed_of(row)}"


def needed_of(row: Mapping[Any, Any]) -> str:
    """Describe how many values a row of ``trust`` needs, or how many pairs."""
    needed = _number_of(row["repetitions"])
    if needed is None:
        return "unknown"
    return f"{needed:.0f}" if _number_of(row.get("pairs")) is None else f"{needed:.0f} pairs"


def _number_of(number: object) -> float | None:
    return float(number) if isinstance(number, float | int) and not math.isnan(number) else None


def pairs_of(row: Mapping[Any, Any], measure: Measure) -> str:
    """Return a row of ``nested_pairs`` in words: the split of the spread, and what to add."""
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
    told = "" if seconds is None else f", {format_duration(seconds)}"
    if cost is not None and currency is not None:
        told += f", {money(Cost(amount=cost, currency=currency))}"
    return told


def busy_cells(cells: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Describe the CPU contention of each cell's endpoints, where it was substantial.

    ``cells`` has the trials of each by its name.
    """
    told = {
        cell: contended(*(_known(trials, f"cpu_{name}_percent") for name in ("others", "steal")))
        for cell, trials in cells.items()
    }
    return {cell: words for cell, words in told.items() if words}


def _known(trials: pd.DataFrame, name: str) -> list[float]:
    return [float(value) for value in trials[name].dropna()] if name in trials else []
