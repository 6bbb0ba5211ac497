"""Metrics of requests and responses, from the agents' histograms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from osmef.results.observations import Exchange, Histogram, RoundTrips


def round_trips(
    histogram: Histogram, low_us: float | None, mean_us: float | None, high_us: float | None
) -> RoundTrips:
    """Return the distribution of round-trip times: quantiles within the observed range."""
    p50, p90, p99, p999 = (_within(quantile_us(histogram, q), low_us, high_us) for q in _QUANTILES)
    return RoundTrips(
        min_us=low_us,
        mean_us=mean_us,
        p50_us=p50,
        p90_us=p90,
        p99_us=p99,
        p999_us=p999,
        max_us=high_us,
        histogram=histogram,
    )


_QUANTILES = (0.5, 0.9, 0.99, 0.999)


def quantile_us(histogram: Histogram, q: float) -> float | None:
    """Return the q-quantile in microseconds: the middle of its bucket.

    It is the smallest value that at least a share q of all do not exceed (the inverse of the
    empirical distribution function; Hyndman and Fan, "Sample Quantiles in Statistical Packages",
    The American Statistician 50, 1996, definition 1), right within the histogram's error. None
    without any value.
    """
    rank = max(1, math.ceil(q * sum(histogram.count)))
    seen = 0
    for lower, upper, count in zip(
        histogram.lower_ns, histogram.upper_ns, histogram.count, strict=True
    ):
        seen += count
        if seen >= rank:
            return (lower + upper) / 2 / 1000
    return None


def _within(value: float | None, low: float | None, high: float | None) -> float | None:
    if value is None or low is None or high is None:
        return value
    return min(max(value, low), high)


def exchange_metrics(exchanges: Sequence[Exchange]) -> dict[str, float | None]:
    """Return the metrics of concurrent exchanges, one for each pair of endpoints.

    Times are of all pairs together: quantiles of the sum of their histograms, whose buckets are
    alike. ``exchanges_per_s`` is the sum over the pairs of count over time.
    """
    found = _together([one.rtt for one in exchanges], [one.count for one in exchanges])
    rate = sum(one.count / one.elapsed_s for one in exchanges if one.elapsed_s > 0)
    return {**{f"rtt_{name}": value for name, value in found.items()}, "exchanges_per_s": rate}


def response_metrics(exchanges: Sequence[Exchange]) -> dict[str, float | None]:
    """Return the times of such exchanges from when each request was due.

    They are None unless all agents told them.
    """
    told = [one.response for one in exchanges if one.response is not None]
    if len(told) < len(exchanges):
        told = []
    found = _together(told, [one.count for one in exchanges][: len(told)])
    return {f"response_{name}": found[name] for name in ("mean_us", "p50_us", "p99_us", "max_us")}


def _together(each: Sequence[RoundTrips], counts: Sequence[int]) -> dict[str, float | None]:
    total = sum(counts)
    means = zip((one.mean_us for one in each), counts, strict=True)
    weighted = [mean * count for mean, count in means if mean is not None]
    times = round_trips(
        merged([one.histogram for one in each]),
        min((one.min_us for one in each if one.min_us is not None), default=None),
        sum(weighted) / total if total else None,
        max((one.max_us for one in each if one.max_us is not None), default=None),
    )
    return times.model_dump(exclude={"histogram"})


def late_percent(exchanges: Sequence[Exchange]) -> float | None:
    """Return the share of due requests that were sent late or never.

    In percent, over all pairs; None where none was due, or an agent did not tell.
    """
    told = [(one.count, one.late, one.unsent) for one in exchanges]
    due = sum(count + (unsent or 0) for count, _, unsent in told)
    if not due or any(late is None or unsent is None for _, late, unsent in told):
        return None
    return 100 * sum((late or 0) + (unsent or 0) for _, late, unsent in told) / due


def lost_percent(exchanges: Sequence[Exchange]) -> float | None:
    """Return the share of requests without a response in time.

    In percent, over all pairs; None where none was sent, or they could not get lost.
    """
    told = [(one.count, one.lost) for one in exchanges]
    lost = [lost for _, lost in told if lost is not None]
    sent = sum(count for count, _ in told) + sum(lost)
    return 100 * sum(lost) / sent if sent and len(lost) == len(told) else None


def merged(histograms: Sequence[Histogram]) -> Histogram:
    """Return the sum of histograms with equal buckets."""
    buckets: Counter[tuple[int, int]] = Counter()
    for one in histograms:
        for lower, upper, count in zip(one.lower_ns, one.upper_ns, one.count, strict=True):
            buckets[lower, upper] += count
    ordered = sorted(buckets)
    return Histogram(
        error_percent=max((one.error_percent for one in histograms), default=0.0),
        lower_ns=[lower for lower, _ in ordered],
        upper_ns=[upper for _, upper in ordered],
        count=[buckets[bucket] for bucket in ordered],
    )


def us(ns: float | None) -> float | None:
    """Convert nanoseconds to microseconds."""
    return None if ns is None else ns / 1000
