"""Findings of the summary: token buckets, results of searches, and what layers cost."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from osmef.engine.plan import PlannedCell
from osmef.results.measure import Better, Component, Measure
from osmef.results.observations import (
    BucketFound,
    Emptied,
    Ranged,
    RateSearch,
    RateTried,
    SearchEnding,
)
from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo, EndpointInfo, LayerCost
from osmef.results.trial import Status, Trial
from osmef.scenario.study import Scalar
from osmef.units import format_duration, format_rate, format_size
from osmef.workloads import TrialWorkload

_MOST_BUCKETS = 12
_LONGEST_BURST_S = 3600.0
"""So long a burst may last: of Amazon's VMs 5 to 60 minutes ("Amazon EC2 instance network
bandwidth")."""


def bucket_findings(trials: Sequence[Trial]) -> list[str]:
    """Describe the found buckets with their intervals, and the trials without one."""
    found = [(trial, one) for trial in trials for one in trial.buckets]
    reported = [
        f"{_where(trial, one)}: {_words(one.emptied, one.filling_bps)}"
        for trial, one in found
        if one.emptied
    ]
    reported = reported if len(reported) <= _MOST_BUCKETS else []
    empty = [(trial, one) for trial, one in found if not one.emptied]
    if empty:
        trial, one = empty[0]
        others = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        seen = f"{format_size(one.bytes)} in {format_duration(one.elapsed_s)}"
        before = f"{format_size(_carried(trial))} before"
        reported.append(
            f"{_where(trial, one)}{others}: no bucket was emptied by {seen}; its endpoints had"
            f" carried {before}, so one may hold more, or have been empty from the start"
        )
    return reported


def _where(trial: Trial, one: BucketFound) -> str:
    return f"trial {trial.index}, {one.sender} to {one.receiver}"


def _words(one: Emptied, filling_bps: Ranged | None) -> str:
    """Describe burst, size, sustained rate and refill with their intervals."""
    reported = (
        f"{_ranged(one.burst_bps, format_rate)} until {_ranged(one.size_bytes, format_size)}"
        f" were used up after {_ranged(one.fell_s, format_duration)}, then"
        f" {_ranged(one.sustained_bps, format_rate)}"
    )
    if filling_bps is not None:
        reported += f"; it fills at {_ranged(filling_bps, format_rate)}"
    if one.burst_bps.low is None:
        reported += "; with shorter intervals the burst would have an interval, too"
    return reported


def _ranged(number: Ranged, shown: Callable[[float], str]) -> str:
    """Return a number with its interval: ``801 Mbit/s [731 Mbit/s, 851 Mbit/s]``."""
    if number.low is None or number.high is None:
        return shown(number.value)
    return f"{shown(number.value)} [{shown(number.low)}, {shown(number.high)}]"


def _carried(trial: Trial) -> int:
    return sum(one.received_bytes + one.sent_bytes for one in trial.carried)


def past_traffic_warnings(cells: Sequence[PlannedCell], trials: Sequence[Trial]) -> list[str]:
    """Warn where a metric depends on the previous traffic of endpoints."""
    leading = {planned.cell.key: _leading(planned) for planned in cells}
    series: dict[str, dict[tuple[str, int | None], list[tuple[float, float]]]] = {}
    known: dict[str, Measure] = {}
    for trial in trials:
        measure = leading.get(trial.cell)
        value = trial.metrics.get(measure.name) if measure is not None else None
        if measure is None or value is None or trial.status is not Status.OK or not trial.carried:
            continue
        known[measure.name] = measure
        of_cell = series.setdefault(measure.name, defaultdict(list))
        of_cell[trial.cell, trial.pair].append((value, float(_carried(trial))))
    return [
        reported
        for name, of in series.items()
        for reported in _of_trend(known[name], list(of.values()))
    ]


def _leading(planned: PlannedCell) -> Measure | None:
    """Return the leading metric, unless it is known to be of no network."""
    measures = TrialWorkload(planned.cell.scenario).measures
    leading = next((one for one in measures if one.leading), None)
    of_network = leading is not None and leading.component in {None, Component.NETWORK}
    return leading if of_network else None


def _of_trend(measure: Measure, cells: Sequence[Sequence[tuple[float, float]]]) -> Iterator[str]:
    if all(len(rows) == 1 for rows in cells):
        return
    from osmef.analysis.trends import carried_trend  # noqa: PLC0415 - NumPy is slow to load

    found = carried_trend([tuple(zip(*rows, strict=True)) for rows in cells])  # type: ignore[misc]
    if found is None or not found.is_reportable:
        return
    most = max(carried for rows in cells for _, carried in rows)
    falls = found.change < 0
    worse = measure.better is (Better.HIGHER if falls else Better.LOWER)
    bucket = "a token bucket may empty, which `until: knee` would show, or "
    cause = f"{bucket if worse else ''}something else changes with time"
    yield (
        f"{measure.words} {'falls' if falls else 'rises'} by {100 * abs(found.change):.0f} % as"
        f" endpoints have sent and received more (up to {format_size(most)}, p = {found.p:.2g}):"
        f" {cause}"
    )


def burst_warnings(
    cells: Sequence[PlannedCell], endpoints: Mapping[str, EndpointInfo]
) -> list[str]:
    """Warn where a short trial may have measured only a burst."""
    found: dict[str, dict[str, None]] = {}
    for planned in cells:
        workload = TrialWorkload(planned.cell.scenario)
        is_rate = any(one.component is Component.NETWORK for one in workload.measures)
        short = (
            workload.duration_s < _LONGEST_BURST_S
            and not planned.cell.scenario.workload.changes_next_trial
        )
        for end in planned.endpoints if is_rate and short else ():
            info = endpoints.get(end.name)
            if info is not None and info.network and info.network.lower().startswith("up to"):
                flavor = f"{info.flavor}, " if info.flavor else ""
                what = f"{flavor}with a network of {info.network!r}"
                found.setdefault(what, {})[format_duration(workload.duration_s)] = None
    return [
        f"{what}: trials of {', '.join(lengths)} may have seen the burst alone, which a token"
        " bucket allows; `until: knee` shows what is left then"
        for what, lengths in found.items()
    ]


_MOST_SEARCHES = 12


def search_findings(trials: Sequence[Trial]) -> list[str]:
    """Describe the results of searches: each of a few trials, of many one per ending."""
    found = [(trial, trial.search) for trial in trials if trial.search is not None]
    if len(found) <= _MOST_SEARCHES:
        return [f"trial {trial.index}: {_search_text(one)}" for trial, one in found]
    number = Counter(one.ended for _, one in found)
    first = {one.ended: (trial, one) for trial, one in reversed(found)}
    return [
        f"trial {trial.index}{_and_more(number[ended] - 1)}: {_search_text(one)}"
        for ended, (trial, one) in sorted(first.items())
        if ended is not SearchEnding.FOUND
    ]


def _and_more(count: int) -> str:
    return f" (and {count} more)" if count else ""


def _search_text(one: RateSearch) -> str:
    low = None if one.passed_bps is None else format_rate(one.passed_bps)
    high = None if one.refused_bps is None else format_rate(one.refused_bps)
    lost = f"at most {one.loss_percent:g} % lost"
    match one.ended:
        case SearchEnding.FOUND:
            return f"{low} pass with {lost}, {high} do not{_where_lost(one)}"
        case SearchEnding.SENDER:
            return f"{low} pass with {lost}, and the sender reaches no {high}: the path may take it"
        case SearchEnding.HIGHEST:
            return f"{low} pass with {lost}, and no more was tried: write a higher rate"
        case SearchEnding.LOWEST:
            where = _where_lost(one)
            return f"not even {high} pass with {lost}: write a lower search.lowest{where}"
        case SearchEnding.STEPS:
            passed = f"{low} pass with {lost}" if low else f"no rate was confirmed with {lost}"
            bound = f", {high} do not" if high else ""
            return f"{passed}{bound}; {len(one.tried)} steps were too few to know it better"


def _where_lost(one: RateSearch) -> str:
    """Describe where the receiver lost datagrams at the refused rate."""
    at = [step for step in one.tried if step.offered_bps == one.refused_bps and not step.passed]
    return "; the receiver dropped most of that" if at and _dropped(at[-1]) else ""


def _dropped(step: RateTried) -> bool:
    return step.receiver_drops is not None and 2 * step.receiver_drops > step.lost > 0


_LAYER, _BARE = "layer", "bare"


def layer_costs_of(cells: Sequence[CellInfo], directory: RunDirectory) -> list[LayerCost]:
    """Return what the layers of a run cost, if it has swept them."""
    layers = list(dict.fromkeys(cell.values.get(_LAYER) for cell in cells if cell.n_ok))
    if len(layers) < 2 or _BARE not in layers:
        return []
    from osmef.analysis.layers import comparable, layer_overheads  # noqa: PLC0415 - pandas is slow
    from osmef.results.frame import load, original_name  # noqa: PLC0415

    trials, measures = comparable(load(directory.path))
    units = {one.name: one.unit for one in measures}
    table = layer_overheads(trials, list(units))
    others = table.attrs["by"]
    shown = [name for name in others if table[name].nunique(dropna=False) > 1]
    found = [
        LayerCost(
            values={original_name(name): _plain(row[name]) for name in shown},
            layer=row["layer"],
            reference=row["reference"],
            metric=original_name(row["metric"]),
            unit=units[row["metric"]],
            n=row["n"],
            compared=row["unit"],
            reference_median=row["reference_median"],
            median=row["median"],
            ratio=_number(row["ratio"]),
            ci95_low=_number(row["ratio_low"]),
            ci95_high=_number(row["ratio_high"]),
            p=_number(row["p"]),
            p_holm=_number(row["p_holm"]),
        )
        for row in table.to_dict("records")
    ]
    return ordered(found, cells)


def ordered(costs: Sequence[LayerCost], cells: Sequence[CellInfo]) -> list[LayerCost]:
    """Return ratios in the order of the cells, by layer; trials come in random order."""
    layers = list(dict.fromkeys(cell.values.get(_LAYER) for cell in cells))
    return sorted(costs, key=lambda one: (layers.index(one.layer), _index_of(one, cells)))


def _index_of(cost: LayerCost, cells: Sequence[CellInfo]) -> int:
    """Return the number of the first cell that has the values of a ratio."""
    for number, cell in enumerate(cells):
        if all(cell.values.get(name, value) == value for name, value in cost.values.items()):
            return number
    return len(cells)


def _number(number: float | None) -> float | None:
    return None if number is None or math.isnan(number) else number


def _plain(value: Any) -> Scalar:
    """Return a value of a frame as one of a cell."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    plain: Scalar = value.item() if hasattr(value, "item") else value
    return plain
