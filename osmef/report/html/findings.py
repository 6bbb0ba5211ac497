"""Findings: sentences from a run's summary, at the top of its page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from osmef.report.sentences import expectations
from osmef.report.series import LIMITS, short_cells
from osmef.results.measure import Better, Measure
from osmef.results.summary import CellInfo, Metric, Summary
from osmef.results.trial import Limit
from osmef.units import counted

_MOST_NAMES = 3
_MOST = 12
_PLACE = ("placement", "tenancy")


def findings(summary: Summary) -> list[str]:
    """Return the findings of a run, expected medians first.

    A distance costs something where the 95 % intervals of two medians do not overlap. Of two equal
    cells of 6 trials each that is so in 0.2 % of cases, of 12 such pairs in 2 %.
    """
    names, _shared = short_cells(cell.key for cell in summary.cells)
    return [
        *(f"Expected of {text}." for _verdict, text in expectations(summary)),
        *_range(summary, names),
        *_limits(summary, names),
        *_distances(summary),
        *_failed(summary, names),
    ][:_MOST]


def _leading(summary: Summary) -> Iterator[tuple[Measure, list[CellInfo]]]:
    """Yield the leading measures, each with the cells that have a median of it."""
    for measure in summary.measures:
        cells = [cell for cell in summary.cells if _median(cell, measure.name) is not None]
        if measure.leading and cells:
            yield measure, cells


def _range(summary: Summary, names: Mapping[str, str]) -> Iterator[str]:
    for measure, cells in _leading(summary):
        ordered = sorted(cells, key=lambda cell: _median(cell, measure.name) or 0.0)
        low, high = ordered[0], ordered[-1]
        what = f"{measure.words[0].upper()}{measure.words[1:]}"
        if low is high:
            yield f"{what}: {_with_interval(low, measure)}."
        else:
            yield (
                f"{what}: medians from {_with_interval(low, measure)} ({names[low.key]}) to"
                f" {_with_interval(high, measure)} ({names[high.key]})."
            )


def _limits(summary: Summary, names: Mapping[str, str]) -> Iterator[str]:
    """Describe the bottleneck of most connections of each cell, if it has one."""
    found: dict[Limit, list[CellInfo]] = defaultdict(list)
    for cell in summary.cells:
        if cell.limited_by:
            limit = max(cell.limited_by, key=lambda one: cell.limited_by[one])
            most = 2 * cell.limited_by[limit] > sum(cell.limited_by.values())
            if most and limit is not Limit.INCONCLUSIVE:
                found[limit].append(cell)
    for limit, of in found.items():
        where = f" in {_where(of, summary, names)}" if len(summary.cells) > 1 else ""
        yield f"The limit was the {LIMITS[limit]}{where}."


def _distances(summary: Summary) -> Iterator[str]:
    """Describe the cost of each distance relative to the nearest, all else equal."""
    for measure, cells in _leading(summary):
        if measure.better is Better.NEITHER:
            continue
        ratios: dict[tuple[int, int], list[float]] = defaultdict(list)
        alike: dict[tuple[int, int], int] = defaultdict(int)
        groups: dict[tuple[object, ...], list[CellInfo]] = defaultdict(list)
        for cell in cells:
            if cell.distance is not None:
                groups[_settings(cell)].append(cell)
        for of in groups.values():
            near = min(of, key=lambda cell: cell.distance or 0)
            for far in of:
                if (near.distance or 0) < (far.distance or 0):
                    pair = near.distance or 0, far.distance or 0
                    a, b = near.metrics[measure.name], far.metrics[measure.name]
                    if _apart(a, b) and a.median and b.median:
                        ratios[pair].append(b.median / a.median)
                    else:
                        alike[pair] += 1
        for near_at, far_at in dict.fromkeys([*ratios, *alike]):
            yield _cost(measure, (near_at, far_at), ratios[near_at, far_at], alike[near_at, far_at])


def _cost(measure: Measure, pair: tuple[int, int], ratios: list[float], alike: int) -> str:
    """Return the cost of a distance, by the ratios that are significant."""
    what = f"At distance {pair[1]} {measure.words} is"
    if not ratios:
        return f"{what} not clearly different from that at distance {pair[0]}."
    ends = [f"{100 * end:.3g}" for end in (min(ratios), max(ratios))]
    share = f"{ends[0]} %" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} %"
    others = "1 other setting" if alike == 1 else f"{alike} other settings"
    rest = f"; in {others} they are not clearly different" if alike else ""
    return f"{what} {share} of that at distance {pair[0]}{rest}."


def _failed(summary: Summary, names: Mapping[str, str]) -> Iterator[str]:
    failed = [cell for cell in summary.cells if cell.n_failed]
    if failed:
        count = sum(cell.n_failed for cell in failed)
        are = "trial" if count == 1 else "trials"
        yield f"{count} {are} failed, in {_where(failed, summary, names)}."


def _settings(cell: CellInfo) -> tuple[object, ...]:
    """Return the settings of a cell without its placement."""
    own = {key: value for key, value in cell.values.items() if key not in _PLACE}
    return (cell.workload, cell.background, *sorted(map(str, own.items())))


def _apart(a: Metric, b: Metric) -> bool:
    """Return whether the intervals of two medians are disjoint."""
    ends = (a.ci95_low, a.ci95_high, b.ci95_low, b.ci95_high)
    if None in ends:
        return False
    a_low, a_high, b_low, b_high = (float(end or 0.0) for end in ends)
    return a_high < b_low or b_high < a_low


def _median(cell: CellInfo, name: str) -> float | None:
    metric = cell.metrics.get(name)
    return metric.median if metric else None


def _with_interval(cell: CellInfo, measure: Measure) -> str:
    metric = cell.metrics[measure.name]
    shown = measure.with_unit(metric.median or 0.0)
    if metric.ci95_low is None or metric.ci95_high is None:
        return f"{shown} (n = {metric.n}, too few for an interval)"
    return f"{shown} [{measure.between(metric.ci95_low, metric.ci95_high)}]"


def _where(of: list[CellInfo], summary: Summary, names: Mapping[str, str]) -> str:
    """Return which cells these are: all, those that one value makes, or their names."""
    if len(of) == len(summary.cells) > 1:
        return f"{_all(of)} cells"
    keys = [cell.key for cell in of]
    for part in of[0].key.split(","):
        if len(of) > 1 and keys == [one.key for one in summary.cells if part in _parts(one)]:
            word = short_cells([part])[0][part]
            return f"{_all(of)} cells with {word}" if "=" in word else f"{_all(of)} {word} cells"
    return _listed([names[key] for key in keys])


def _all(of: list[CellInfo]) -> str:
    return "both" if len(of) == 2 else f"all {len(of)}"


def _parts(cell: CellInfo) -> list[str]:
    return cell.key.split(",")


def _listed(names: list[str]) -> str:
    left = len(names) - _MOST_NAMES
    more = f" and {counted(left, 'more cell')}" if left > 0 else ""
    return "; ".join(names[:_MOST_NAMES]) + more
