"""Throughput: RFC 2544's search for the highest rate with an allowed loss, and size sweeps.

It is the throughput of RFC 1242, searched as in RFC 2544, with an addition: a short search trial
that refuses a rate, maybe by chance, is confirmed by one of full length, too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from osmef.results.observations import EndpointUse, SizePoint


@dataclass(frozen=True)
class Bounds:
    """Bounds of a search: rates in bits per second, shares from 0 to 1.

    The result is known once the lowest refused rate is at most ``resolution`` above the highest
    passed one. No more than ``most`` trials are made.
    """

    lowest_bps: float
    highest_bps: float
    loss: float
    resolution: float
    most: int


@dataclass(frozen=True)
class SearchTrial:
    """A search trial: the offered rate, and its result.

    ``sent_bps`` is the rate that the sender reached, ``loss`` the share of the datagrams that were
    lost, ``is_full`` whether the trial had its full length.
    """

    offered_bps: float
    sent_bps: float
    loss: float
    is_full: bool


@dataclass(frozen=True)
class NextTrial:
    """The next search trial: the rate to offer, and whether for the full length."""

    offered_bps: float
    is_full: bool


class SearchEnd(StrEnum):
    """Why a search has ended."""

    FOUND = "found"
    HIGHEST = "highest"
    LOWEST = "lowest"
    SENDER = "sender"
    STEPS = "steps"


@dataclass(frozen=True)
class FoundThroughput:
    """The result of a search, in bits per second.

    ``passed_bps`` is the rate sent in the search trial of full length at the highest rate that
    passed, ``refused_bps`` the lowest rate above that was refused in its longest trial: the
    throughput is between both. None where there is no such rate. ``confirmed`` is the trial of
    ``passed_bps``.
    """

    passed_bps: float | None
    refused_bps: float | None
    ended: SearchEnd
    confirmed: SearchTrial | None = None


_SENT = 0.95
"""The share of a rate that has to be sent: a sender that lacks CPU time is not the path's fault."""


def _falls_short(tried: SearchTrial) -> bool:
    """Return whether the sender did not reach the offered rate."""
    return tried.sent_bps < _SENT * tried.offered_bps


def passes(tried: SearchTrial, bounds: Bounds) -> bool:
    """Return whether a search trial offered its rate and lost no more than allowed.

    Assumed is that a sender which reached 95 % of a rate has tried it.

    Source: that of ``next_trial``.
    """
    return not _falls_short(tried) and tried.loss <= bounds.loss


def next_trial(bounds: Bounds, tried: Sequence[SearchTrial]) -> NextTrial | None:
    """Return the next search trial, None once the search is over.

    First the highest rate is offered; then the middle, on a logarithmic scale, between the highest
    rate that has passed and the lowest above it that has not, in short trials; and once these are
    close enough, each of both for the full length, unless it was; so is the last trial of all. A
    trial of full length overrides short ones of its rate, and a rate that it refuses bounds the
    search from above for good. If it refuses a rate that a short one has passed, as with a token
    bucket, no passed short trial counts: such rates are tried again from the highest on, and all
    further trials are full. A trial whose sender alone fell short, by more than 5 %, is repeated
    once before it counts as one that did not pass.

    Assumed is that more is lost at higher rates; otherwise the lowest rate at which too much was
    lost in a trial of full length counts, and passed rates above it do not.

    Source: RFC 2544, sections 24 (short trials for the search, and full ones for the final
    determination) and 26.1; RFC 1242, section 3.17.
    """
    if len(tried) >= bounds.most:
        return None
    if tried and _sender_fell_short(tried[-1], bounds) and not _is_repeated(tried):
        return NextTrial(tried[-1].offered_bps, tried[-1].is_full)
    passed, refused = _around(bounds, tried)
    if len(tried) == bounds.most - 1 and passed is not None and not passed.is_full:
        return NextTrial(passed.offered_bps, is_full=True)
    only_full = _only_full(bounds, tried)
    between = _hint(bounds, tried, passed, refused) if only_full else None
    between = between or _untried(bounds, passed, refused)
    if between is not None:
        return NextTrial(between, is_full=only_full)
    unsure = (one for one in (passed, refused) if one is not None and not one.is_full)
    return next((NextTrial(one.offered_bps, is_full=True) for one in unsure), None)


def _sender_fell_short(tried: SearchTrial, bounds: Bounds) -> bool:
    return _falls_short(tried) and tried.loss <= bounds.loss


def _is_repeated(tried: Sequence[SearchTrial]) -> bool:
    """Return whether the last search trial had the rate and the length of the previous one."""
    last = [(one.offered_bps, one.is_full) for one in tried[-2:]]
    return len(last) == 2 and last[0] == last[1]


def _untried(
    bounds: Bounds, passed: SearchTrial | None, refused: SearchTrial | None
) -> float | None:
    """Return the next rate between passed and refused ones, None within the resolution."""
    if refused is None:
        return None if passed is not None else bounds.highest_bps
    low = bounds.lowest_bps if passed is None else passed.offered_bps
    if refused.offered_bps > low * (1 + bounds.resolution):
        return math.sqrt(low * refused.offered_bps)
    return low if passed is None and refused.offered_bps > low else None


def _hint(
    bounds: Bounds,
    tried: Sequence[SearchTrial],
    passed: SearchTrial | None,
    refused: SearchTrial | None,
) -> float | None:
    """Return the highest rate between two that a short trial has passed, not near the upper one.

    As a binary search leaves them, their distances grow with that from the result.
    """
    low = 0.0 if passed is None else passed.offered_bps
    high = math.inf if refused is None else refused.offered_bps / (1 + bounds.resolution)
    known = (one.offered_bps for one in tried if not one.is_full and passes(one, bounds))
    return max((rate for rate in known if low < rate < high), default=None)


def _only_full(bounds: Bounds, tried: Sequence[SearchTrial]) -> bool:
    """Return whether a trial of full length has refused a rate that a short one had passed."""
    passed = {one.offered_bps for one in tried if not one.is_full and passes(one, bounds)}
    return any(
        one.is_full and one.offered_bps in passed and not passes(one, bounds) for one in tried
    )


def throughput(bounds: Bounds, tried: Sequence[SearchTrial]) -> FoundThroughput:
    """Return the result of a search so far. Arguments are those of ``next_trial``.

    Assumed is what it assumes.

    Source: that of ``next_trial``.
    """
    full = [one for one in tried if one.is_full]
    passed, _ = _around(bounds, full)
    _, refused = _around(bounds, tried)
    return FoundThroughput(
        min(passed.sent_bps, passed.offered_bps) if passed else None,
        refused.offered_bps if refused else None,
        _ended(bounds, tried, passed, refused),
        passed,
    )


def _ended(
    bounds: Bounds,
    tried: Sequence[SearchTrial],
    passed: SearchTrial | None,
    refused: SearchTrial | None,
) -> SearchEnd:
    if next_trial(bounds, tried) is not None or not tried:
        return SearchEnd.STEPS
    if refused is None:
        is_highest = passed is not None and passed.offered_bps >= bounds.highest_bps
        return SearchEnd.HIGHEST if is_highest else SearchEnd.STEPS
    low = bounds.lowest_bps if passed is None else passed.offered_bps
    if not refused.is_full or refused.offered_bps > low * (1 + bounds.resolution):
        return SearchEnd.STEPS
    if passed is None:
        return SearchEnd.LOWEST if refused.offered_bps <= bounds.lowest_bps else SearchEnd.STEPS
    return SearchEnd.SENDER if _sender_fell_short(refused, bounds) else SearchEnd.FOUND


def expected_trials(bounds: Bounds) -> tuple[int, int]:
    """Return the expected numbers of short and full trials of a search.

    Assumed is that no two trials disagree, and that the result is between the bounds.

    Source: as many halves as make the logarithmic distance of the bounds that of the resolution.
    """
    distance = math.log(bounds.highest_bps / bounds.lowest_bps)
    halves = math.ceil(math.log2(max(1.0, distance / math.log1p(bounds.resolution))))
    return 1 + halves, 2


def _around(
    bounds: Bounds, tried: Sequence[SearchTrial]
) -> tuple[SearchTrial | None, SearchTrial | None]:
    """Return the highest rate that has passed, and the lowest refused one above it.

    For each rate the last trial of full length counts, or without one the last.
    """
    known: dict[float, SearchTrial] = {}
    only_full = _only_full(bounds, tried)
    for one in tried:
        if only_full and not one.is_full and passes(one, bounds):
            continue
        before = known.get(one.offered_bps)
        if before is None or one.is_full or not before.is_full:
            known[one.offered_bps] = one
    rates = sorted(known)
    good = {rate: passes(known[rate], bounds) for rate in rates}
    least_bad = next((rate for rate in rates if known[rate].is_full and not good[rate]), math.inf)
    below = [rate for rate in rates if rate < least_bad]
    floor = max((rate for rate in below if known[rate].is_full and good[rate]), default=0.0)
    top = next((rate for rate in rates if floor < rate <= least_bad and not good[rate]), None)
    least = math.inf if top is None else top
    bottom = max((rate for rate in below if good[rate] and floor <= rate < least), default=None)
    return (
        None if bottom is None else known[bottom],
        None if top is None else known[top],
    )


def total_rates(points: Iterable[SizePoint]) -> dict[int, float]:
    """Return the throughput of all connections together by size, bits per second.

    The connections of a pair begin together and transfer the same amount, which is complete when
    the slowest is done: their rate is ``pair_throughput_bps``. The sum of single rates would exceed
    the capacity of the path, as the slowest has it alone at the end. Where it is unknown it is
    their number times the rate of the slowest, which is too high if another one is slowest in each
    trial. The rates of pairs are added. Only for sizes that every connection has measured.

    Assumed is that the connections of a pair begin a size together.

    Source: OSMeF; the rate of one connection as in NetPIPE (Snell, Mikler and Gustafson, 1996).
    """
    found: dict[int, dict[tuple[str, str], list[SizePoint]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for point in points:
        found[point.size][point.sender, point.receiver].append(point)
    counts = {size: sum(map(len, pairs.values())) for size, pairs in found.items()}
    most_connections = max(counts.values(), default=0)
    return {
        size: sum(map(_of_pair, pairs.values()))
        for size, pairs in sorted(found.items())
        if counts[size] == most_connections
    }


def _of_pair(points: Sequence[SizePoint]) -> float:
    known = points[0].pair_throughput_bps
    return len(points) * min(one.throughput_bps for one in points) if known is None else known


def shortest_times(points: Iterable[SizePoint]) -> dict[int, float]:
    """Return the shortest time of a message on any connection by size, microseconds.

    Assumed is that whatever lengthens a time is no part of the network, as in NetPIPE.

    Source: Snell, Mikler and Gustafson, "NetPIPE: A Network Protocol Independent Performance
    Evaluator", 1996.
    """
    times: dict[int, float] = {}
    for point in points:
        times[point.size] = min(times.get(point.size, point.time_min_us), point.time_min_us)
    return dict(sorted(times.items()))


def half_performance_length(rates: Mapping[int, float]) -> float | None:
    """Return the message size at which half of the highest rate is reached, in bytes.

    Hockney's n_1/2 (R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko
    CS-2", Parallel Computing 20, 1994), read from the measured rates by size: between the first
    size that reaches half of the highest rate and the one before, linear in size and rate. None
    where already the smallest size is that fast, or nothing was measured.

    Assumed is that the rate grows with the size up to there.

    Source: Hockney, as named.
    """
    half = max(rates.values(), default=0.0) / 2
    below: int | None = None
    for size in sorted(rates):
        if rates[size] >= half:
            if below is None:
                return None
            share = (half - rates[below]) / (rates[size] - rates[below])
            return below + share * (size - below)
        below = size
    return None


OTHERS_PERCENT = 10.0
"""Of all CPUs of an endpoint that programs of others use: from there on it is reported."""
STEAL_PERCENT = 5.0
"""Of all CPUs of an endpoint that its hypervisor gives to others: likewise."""
TEN_TICKS_S = 0.1
"""USER_HZ is 100 on every Linux architecture but Alpha."""


@dataclass(frozen=True)
class Contention:
    """CPU shares used by others, in percent of the CPUs of the busiest endpoint.

    ``others`` is what programs that are not of the trial used in user mode, ``steal`` what the
    hypervisor gave to others. None where it is unknown.
    """

    others: float | None
    steal: float | None


def contention(uses: Iterable[EndpointUse], own_user_s: float) -> Contention:
    """Return the CPU contention of endpoints during a trial.

    ``own_user_s`` is the user CPU time of the trial's own programs, at all ends. It is subtracted
    at each endpoint, as several may be one machine; so ``others`` is too small rather than too
    large. System CPU time of others can't be distinguished from the network's own work, and is not
    included.

    Assumed is that the agents were watched as long as their endpoints, but for some milliseconds.
    One that was not watched for ten ticks counts not: one tick more or less is a tenth of a CPU.

    Source: proc(5), ``/proc/stat``, where user time holds that of guests.
    """
    watched = [use for use in uses if use.elapsed_s >= TEN_TICKS_S and use.cpus > 0]
    others = [_percent(max(0.0, use.user_s + use.nice_s - own_user_s), use) for use in watched]
    steal = [_percent(use.steal_s, use) for use in watched if use.steal_s is not None]
    return Contention(max(others, default=None), max(steal, default=None))


def _percent(seconds: float, use: EndpointUse) -> float:
    return 100 * seconds / (use.cpus * use.elapsed_s)


def contended(others: Sequence[float], steal: Sequence[float]) -> str:
    """Describe the CPU contention over all trials, if it was substantial; "" otherwise.

    The middle of them counts: one busy trial of many is what the interval of a median allows for.

    Assumed is that what others take makes a result worse from ``OTHERS_PERCENT`` on, and
    ``STEAL_PERCENT``; these are choices, and no test.

    Source: OSMeF.
    """
    found = []
    if (share := _middle(others)) >= OTHERS_PERCENT:
        found.append(f"other programs used {share:.0f} % of an endpoint's CPUs")
    if (share := _middle(steal)) >= STEAL_PERCENT:
        found.append(f"the hypervisor gave {share:.0f} % of an endpoint's CPUs to others")
    return ", and ".join(found)


def _middle(values: Sequence[float]) -> float:
    """Return the lower median, 0 of nothing."""
    return sorted(values)[(len(values) - 1) // 2] if values else 0.0
