"""What a summary tells of token buckets: those that were found, and those that may be there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from osmef.analysis.carried import carried_trend
from osmef.engine.plan import PlannedCell
from osmef.results.bucket import BucketFound, Emptied, Ranged
from osmef.results.measure import Component
from osmef.results.summary import EndpointInfo
from osmef.results.trial import Status, Trial
from osmef.units import format_duration, format_rate, format_size
from osmef.workloads import Programme

_MOST_TOLD = 12
_LONGEST_BURST_S = 3600.0
"""So long a burst may last: of Amazon's VMs 5 to 60 minutes ("Amazon EC2 instance network
bandwidth")."""


def of_buckets(trials: Sequence[Trial]) -> list[str]:
    """Tell each bucket with its intervals, of a few trials, and where none was emptied."""
    found = [(trial, one) for trial in trials for one in trial.buckets]
    told = [
        f"{_where(trial, one)}: {_words(one.emptied, one.filling_bps)}"
        for trial, one in found
        if one.emptied
    ]
    told = told if len(told) <= _MOST_TOLD else []
    empty = [(trial, one) for trial, one in found if not one.emptied]
    if empty:
        trial, one = empty[0]
        others = f" (and {len(empty) - 1} more)" if len(empty) > 1 else ""
        seen = f"{format_size(one.bytes)} in {format_duration(one.elapsed_s)}"
        before = f"{format_size(_carried(trial))} before"
        told.append(
            f"{_where(trial, one)}{others}: no bucket was emptied by {seen}; its endpoints had"
            f" carried {before}, so one may hold more, or have been empty from the start"
        )
    return told


def _where(trial: Trial, one: BucketFound) -> str:
    return f"trial {trial.index}, {one.sender} to {one.receiver}"


def _words(one: Emptied, filling_bps: Ranged | None) -> str:
    """Tell burst, size, fall, sustained rate and refill with their intervals."""
    told = (
        f"{_ranged(one.burst_bps, format_rate)} until {_ranged(one.size_bytes, format_size)} were"
        f" gone after {_ranged(one.fell_s, format_duration)}, then"
        f" {_ranged(one.sustained_bps, format_rate)}"
    )
    if filling_bps is not None:
        told += f"; it fills at {_ranged(filling_bps, format_rate)}"
    if one.burst_bps.low is None:
        told += "; shorter intervals would tell how well the burst is known"
    return told


def _ranged(number: Ranged, shown: Callable[[float], str]) -> str:
    """Return a number with its interval: ``801 Mbit/s [731 Mbit/s, 851 Mbit/s]``."""
    if number.low is None or number.high is None:
        return shown(number.value)
    return f"{shown(number.value)} [{shown(number.low)}, {shown(number.high)}]"


def _carried(trial: Trial) -> int:
    return sum(one.received_bytes + one.sent_bytes for one in trial.carried)


def of_carried(cells: Sequence[PlannedCell], trials: Sequence[Trial]) -> list[str]:
    """Warn where a metric follows what endpoints had sent and received before."""
    leading = {planned.cell.key: _leading(planned) for planned in cells}
    series: dict[str, dict[tuple[str, int | None], list[tuple[float, float]]]] = {}
    for trial in trials:
        measure = leading.get(trial.cell)
        value = trial.metrics.get(measure) if measure is not None else None
        if value is None or trial.status is not Status.OK or not trial.carried:
            continue
        of_cell = series.setdefault(str(measure), defaultdict(list))
        of_cell[trial.cell, trial.pair].append((value, float(_carried(trial))))
    return [told for name, of in series.items() for told in _of_trend(name, list(of.values()))]


def _leading(planned: PlannedCell) -> str | None:
    measures = Programme(planned.cell.scenario).measures
    return next((one.name for one in measures if one.leading), None)


def _of_trend(name: str, cells: Sequence[Sequence[tuple[float, float]]]) -> Iterator[str]:
    found = carried_trend([tuple(zip(*rows, strict=True)) for rows in cells])  # type: ignore[misc]
    if found is None or not found.is_told:
        return
    most = max(carried for rows in cells for _, carried in rows)
    way = "falls" if found.change < 0 else "rises"
    yield (
        f"{name} {way} by {100 * abs(found.change):.0f} % as endpoints have sent and received more"
        f" (up to {format_size(most)}, p = {found.p:.2g}): a token bucket may empty, which `until:"
        " knee` would show, or something else changes with time"
    )


def of_limits(cells: Sequence[PlannedCell], endpoints: Mapping[str, EndpointInfo]) -> list[str]:
    """Tell where a short trial may have seen no more than a burst: a rate is "up to" so much."""
    found: dict[str, dict[str, None]] = {}
    for planned in cells:
        programme = Programme(planned.cell.scenario)
        is_rate = any(one.component is Component.NETWORK for one in programme.measures)
        short = (
            programme.duration_s < _LONGEST_BURST_S
            and not planned.cell.scenario.workload.is_for_once
        )
        for end in planned.endpoints if is_rate and short else ():
            info = endpoints.get(end.name)
            if info is not None and info.network and info.network.lower().startswith("up to"):
                flavor = f"{info.flavor}, " if info.flavor else ""
                what = f"{flavor}whose network is {info.network!r}"
                found.setdefault(what, {})[format_duration(programme.duration_s)] = None
    return [
        f"{what}: trials of {', '.join(lengths)} may have seen the burst alone, which a token"
        " bucket allows; `until: knee` shows what is left then"
        for what, lengths in found.items()
    ]
