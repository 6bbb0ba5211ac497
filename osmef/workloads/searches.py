"""Searches: for token buckets, and by search trials for the highest rate at an allowed loss.

Bulk transfers empty a token bucket, and repeat that after pauses.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from osmef.agent.messages import BulkResult
from osmef.analysis.throughput import Bounds, NextTrial, SearchTrial, next_trial, passes, throughput
from osmef.analysis.token_bucket import (
    Bucket,
    Estimate,
    Refill,
    find_bucket,
    find_refill,
    has_settled,
    is_proved,
    refill_rate,
)
from osmef.results.measure import Measure
from osmef.results.observations import (
    BucketFound,
    Datagrams,
    Direction,
    Emptied,
    Ending,
    Filling,
    Ranged,
    RateSearch,
    RateTried,
    SearchEnding,
)
from osmef.results.trial import Interval
from osmef.workloads.base import Enough, PartResult

_BUCKET_SOURCE = "the model of Uta et al., NSDI 2020, section 4"
_BUCKET = (
    Measure(
        name="sustained_bps", unit="bit/s", better="higher", label="sustained rate",
        head="sustained\nrate", over_pairs="sum", leading=True, component="network_mb_per_s",
        help="median rate of the intervals after the bucket was empty, payload that the receiver"
        " got; `null` where none was emptied",
        source=_BUCKET_SOURCE,
    ),
    Measure(
        name="burst_bps", unit="bit/s", better="higher", label="burst rate", head="burst\nrate",
        over_pairs="sum",
        help="the same of the intervals before; of all of them where no bucket was emptied",
        source=_BUCKET_SOURCE,
    ),
    Measure(
        name="bucket_mb", unit="MB", better="higher", label="bucket", head="bucket\nMB",
        over_pairs="sum", digits=".1f",
        help="payload that passed beyond the sustained rate until the bucket was empty, in 10^6"
        " bytes",
        source=_BUCKET_SOURCE,
    ),
    Measure(
        name="fell_after_s", unit="s", better="higher", label="burst", head="fell\nafter s",
        digits=".1f", over_pairs="mean", help="when the bucket was empty, from the start",
        source=_BUCKET_SOURCE,
    ),
)  # fmt: skip
_FILLING = Measure(
    name="filling_bps", unit="bit/s", better="higher", label="refill rate", head="refill\nrate",
    over_pairs="sum",
    help="rate at which the bucket fills while nothing is sent: the slope of what passed after each"
    " rest beyond the sustained rate, over the length of the rest",
    source="OSMeF, least squares through the origin",
)  # fmt: skip


def bucket_measures(*, refilled: bool) -> tuple[Measure, ...]:
    """Return the measures of a bucket."""
    return (*_BUCKET, *([_FILLING] if refilled else []))


@dataclass(frozen=True)
class Series:
    """A receiver's intervals over all connections: seconds, and payload bytes."""

    lengths_s: list[float]
    sizes: list[int]

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> Series:
        """Sum a receiver's intervals over its connections."""
        lengths: dict[float, float] = {}
        sizes: defaultdict[float, int] = defaultdict(int)
        for one in intervals:
            if one.role == "receiver":
                lengths[one.start_s] = one.length_s
                sizes[one.start_s] += one.bytes
        order = sorted(lengths)
        return cls([lengths[at] for at in order], [sizes[at] for at in order])


def has_bucket(first: PartResult) -> bool:
    """Return whether a transfer has emptied a bucket."""
    series = Series.of(first.intervals)
    return find_bucket(series.lengths_s, series.sizes) is not None


def median_rate(ran: PartResult) -> float:
    """Return the median rate of a transfer's intervals, bits per second."""
    series = Series.of(ran.intervals)
    pairs = zip(series.lengths_s, series.sizes, strict=True)
    return statistics.median(8 * size / length for length, size in pairs if length > 0)


def enough_of(firsts: Sequence[PartResult]) -> Enough:
    """Return the condition that ends transfers: a proven bucket, later the sustained rate.

    ``firsts`` are the first ones of all pairs, which have emptied a bucket; nothing before them.
    """
    if not firsts:
        return lambda _pair, lengths_s, sizes: is_proved(lengths_s, sizes)
    rates = [_sustained_bps(one) for one in firsts]
    return lambda pair, lengths_s, sizes: has_settled(lengths_s, sizes, rates[pair])


def _sustained_bps(first: PartResult) -> float:
    series = Series.of(first.intervals)
    found = find_bucket(series.lengths_s, series.sizes)
    return found.sustained_bps.value if found is not None else math.nan


def bucket_found(
    transfers: Sequence[PartResult], direction: Direction, most_bytes: int | None, limit: Ending
) -> BucketFound:
    """Return the bucket by a pair's first transfer, and its refill by those after pauses.

    ``most_bytes`` is how much was to be sent at most on all connections, ``limit`` why.
    """
    first, *later = transfers
    series = Series.of(first.intervals)
    found, passed = find_bucket(series.lengths_s, series.sizes), sum(series.sizes)
    ended = Ending.TIME
    if found is not None and is_proved(series.lengths_s, series.sizes):
        ended = Ending.PROVED
    elif most_bytes is not None and passed >= most_bytes:
        ended = limit
    fillings = _fillings(transfers, found) if found is not None and later else []
    filled = [Refill(one.rest_s, _estimate(one.bytes)) for one in fillings if one.bytes is not None]
    rate = refill_rate(filled, found.size_bytes.value) if found is not None else None
    ends = (first.sender, first.receiver)
    sender, receiver = ends if direction is Direction.FORWARD else ends[::-1]
    return BucketFound(
        sender=sender,
        receiver=receiver,
        direction=direction,
        ended=ended,
        elapsed_s=sum(series.lengths_s),
        bytes=passed,
        emptied=_emptied(found) if found is not None else None,
        fillings=fillings,
        filling_bps=_ranged(rate) if rate is not None else None,
    )


def _fillings(transfers: Sequence[PartResult], found: Bucket) -> list[Filling]:
    fillings = []
    for before, after in itertools.pairwise(transfers):
        series = Series.of(after.intervals)
        given = find_refill(series.lengths_s, series.sizes, found.sustained_bps)
        amount = _ranged(given) if given is not None else None
        fillings.append(Filling(rest_s=_rest_s(before, after), bytes=amount))
    return fillings


def _rest_s(before: PartResult, after: PartResult) -> float:
    """Return the idle time between two transfers."""
    ended = before.results[-1]
    if not isinstance(ended, BulkResult):
        return math.nan  # no job of a transfer has another result
    return max(0.0, after.start_s - before.start_s - ended.elapsed_s)


def bucket_metrics(
    found: Sequence[BucketFound], rates_bps: Sequence[float], refilled: bool
) -> dict[str, float | None]:
    """Return the metrics of buckets over all pairs: rates and sizes summed, and the mean time.

    ``rates_bps`` are the median rates of the pairs' transfers, for those without a bucket.
    """
    known = [one.emptied for one in found]
    emptied = [one for one in known if one is not None]
    bursts = [
        one.burst_bps.value if one is not None else rate
        for one, rate in zip(known, rates_bps, strict=True)
    ]
    metrics: dict[str, float | None] = dict.fromkeys(("sustained_bps", "bucket_mb", "fell_after_s"))
    metrics["burst_bps"] = sum(bursts)
    if len(emptied) == len(known):
        metrics |= {
            "sustained_bps": sum(one.sustained_bps.value for one in emptied),
            "bucket_mb": sum(one.size_bytes.value for one in emptied) / 1e6,
            "fell_after_s": sum(one.fell_s.value for one in emptied) / len(emptied),
        }
    if refilled:
        rates = [one.filling_bps.value for one in found if one.filling_bps is not None]
        metrics["filling_bps"] = sum(rates) if len(rates) == len(found) else None
    return metrics


def _emptied(found: Bucket) -> Emptied:
    return Emptied(
        burst_bps=_ranged(found.burst_bps),
        sustained_bps=_ranged(found.sustained_bps),
        size_bytes=_ranged(found.size_bytes),
        fell_s=_ranged(found.fell_s),
    )


def _ranged(estimate: Estimate) -> Ranged:
    return Ranged(value=estimate.value, low=estimate.low, high=estimate.high)


def _estimate(ranged: Ranged) -> Estimate:
    return Estimate(ranged.value, ranged.low, ranged.high)


_SOURCE = "RFC 1242, section 3.17, with a loss that is allowed; RFC 2544, section 26.1"
FOUND = (
    Measure(
        name="throughput_bps", unit="bit/s", better="higher", label="throughput",
        head="throughput", over_pairs="sum", leading=True,
        help="the highest rate of payload at which no more was lost than `search.loss`, for"
        " `duration`; `null` where there was none",
        source=_SOURCE,
    ),
    Measure(
        name="throughput_datagrams_per_s", unit="1/s", better="higher",
        label="throughput in datagrams", head="datagrams\n/s", digits=".0f", over_pairs="sum",
        help="the same in datagrams per second; one is a packet up to the path's MTU",
        source=_SOURCE,
    ),
    Measure(
        name="refused_bps", unit="bit/s", better="neither", label="refused rate",
        head="refused\nat", over_pairs="sum", spare=True,
        help="the lowest rate above that which did not pass: the highest one is in between; `null`"
        " where the highest that was tried passed",
        source=_SOURCE,
    ),
    Measure(
        name="search_steps", unit="1", better="neither", label="steps of the search",
        over_pairs="only", least=1, help="rates that were tried", source="OSMeF",
    ),
)  # fmt: skip

SearchTrials = Sequence[Sequence[Datagrams]]
"""The flows of all pairs in each search trial, in order."""


def trials_so_far(bounds: Bounds, trials: SearchTrials) -> list[SearchTrial]:
    """Return the result of each search trial, at rates of one flow.

    The rate that was offered in each follows from what came before it.
    """
    tried: list[SearchTrial] = []
    for records in trials:
        wanted = next_trial(bounds, tried)
        if wanted is None:  # every trial was requested
            break
        tried.append(_tried(wanted, records))
    return tried


def _tried(wanted: NextTrial, records: Sequence[Datagrams]) -> SearchTrial:
    sending = [flow.sent_bps or 0.0 for one in records for flow in one.sender.flows]
    sent, lost, _ = _counts(records)
    return SearchTrial(
        offered_bps=wanted.offered_bps,
        sent_bps=sum(sending) / len(sending),
        loss=lost / sent if sent else 0.0,
        is_full=wanted.is_full,
    )


def _counts(records: Sequence[Datagrams]) -> tuple[int, int, int | None]:
    """Return the numbers of sent, lost, and receiver-dropped datagrams."""
    flows = [flow for one in records for flow in one.receiver.flows]
    known = [flow.dropped for flow in flows if flow.dropped is not None]
    drops = sum(known) if len(known) == len(flows) else None
    return sum(flow.sent for flow in flows), sum(flow.lost for flow in flows), drops


def search_result(
    bounds: Bounds, trials: SearchTrials, lengths_s: tuple[float, float]
) -> RateSearch:
    """Return the result of a search, of all flows together.

    ``lengths_s`` are those of a short and of a full search trial.
    """
    tried = trials_so_far(bounds, trials)
    found, flows = (
        throughput(bounds, tried),
        len([f for one in trials[0] for f in one.sender.flows]),
    )
    counted = zip(tried, map(_counts, trials), strict=True)
    return RateSearch(
        loss_percent=100 * bounds.loss,
        ended=SearchEnding(found.ended.value),
        passed_bps=None if found.passed_bps is None else flows * found.passed_bps,
        refused_bps=None if found.refused_bps is None else flows * found.refused_bps,
        tried=[
            RateTried(
                offered_bps=flows * one.offered_bps,
                sent_bps=flows * one.sent_bps,
                length_s=lengths_s[one.is_full],
                datagrams=sent,
                lost=lost,
                receiver_drops=drops,
                passed=passes(one, bounds),
            )
            for one, (sent, lost, drops) in counted
        ],
    )


def best_trial(bounds: Bounds, trials: SearchTrials) -> int | None:
    """Return the index of the search trial that confirmed the highest rate; None without any."""
    tried = trials_so_far(bounds, trials)
    confirmed = throughput(bounds, tried).confirmed
    return None if confirmed is None else tried.index(confirmed)


def search_metrics(found: RateSearch, size: int) -> dict[str, float | None]:
    """Return the metrics of a search with datagrams of so many bytes of payload."""
    passed = found.passed_bps
    return {
        "throughput_bps": passed,
        "throughput_datagrams_per_s": None if passed is None else passed / (8 * size),
        "refused_bps": found.refused_bps,
        "search_steps": float(len(found.tried)),
    }
