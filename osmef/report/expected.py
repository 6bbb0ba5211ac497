"""What a scenario expected of medians, in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from osmef.report.series import short_cells
from osmef.results.expected import Verdict
from osmef.results.measure import Measure
from osmef.results.summary import CellInfo, Expectation, Summary

_MOST_CELLS = 4


def expectations(summary: Summary) -> Iterator[tuple[Verdict, str]]:
    """Give what became of each bound: the cells that miss it first, and whether any does."""
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
    rest = f" and {more} more cells" if more > 0 else ""
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
    ends = " to ".join(map(measure.written, (metric.ci95_low, metric.ci95_high)))
    return f"{measure.with_unit(metric.median)} [{ends}]"
