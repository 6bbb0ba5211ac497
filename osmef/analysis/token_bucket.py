"""Token buckets: the change-point of a transfer that empties one, burst, rate and refill."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from osmef.analysis.distributions import student_quantile
from osmef.analysis.quantiles import quantile_interval

PLATEAU_INTERVALS = 6
PLATEAU_SPREAD = 0.1
FASTER = 1.5
SPREADS = 6.0
# Of a normal distribution, the standard deviation over the median absolute deviation.
_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class Knee:
    """The point at which a bucket ran empty. Rates are payload, in bits per second.

    ``burst_bytes`` is what passed beyond the plateau's rate, which is what the bucket held at the
    start, payload only. ``burst_bps`` is too low if the burst lasted less than an interval.
    ``cut`` is how many intervals stand before the fall, of those that have a length; the next one
    may hold its end.
    """

    at_s: float
    burst_bytes: float
    burst_bps: float
    plateau_bps: float
    cut: int


def find_knee(lengths_s: Sequence[float], sizes: Sequence[int]) -> Knee | None:
    """Return the knee of a series of intervals, or None when it has none.

    ``lengths_s`` are the intervals' measured lengths in seconds, ``sizes`` the payload bytes in
    them; both in order and without gaps. The cut is the one that leaves the least sum of squares
    around two means. Assumed is one burst, then a plateau, in noise without autocorrelation. It
    must be followed by a plateau of at least 6 intervals: a spread of at most 10 %, both halves
    alike. Before it the rate is higher by half and by six spreads (robust: 1.4826 * median absolute
    deviation). Linear time.

    Flat series with noise of any spread have a knee in less than 1 of 100 cases, long ones in less
    than 1 of 500 (tests/analysis/test_token_bucket.py).

    Source: OSMeF; the cut by binary segmentation, Scott and Knott, Biometrics 30, 1974.
    """
    rates = [8 * size / length for length, size in zip(lengths_s, sizes, strict=True) if length > 0]
    lengths = [length for length in lengths_s if length > 0]
    if len(rates) <= PLATEAU_INTERVALS:
        return None
    cut = _cut(rates, lengths)
    # The interval behind the cut may hold the end of the burst.
    plateau = rates[cut + 1 :]
    if len(plateau) < PLATEAU_INTERVALS:
        return None
    low = statistics.median(plateau)
    spread = _MAD_TO_SIGMA * statistics.median(abs(rate - low) for rate in plateau)
    high = statistics.median(rates[:cut])
    if not _is_flat(plateau, low, spread) or high < max(FASTER * low, low + SPREADS * spread):
        return None
    excess = sum(
        (rate - low) * length / 8
        for rate, length in zip(rates[: cut + 1], lengths[: cut + 1], strict=True)
    )
    # The bucket runs empty somewhere within an interval: the excess gives the time.
    at_s = min(8 * excess / (high - low), sum(lengths[: cut + 1]))
    return Knee(at_s, excess, high, low, cut)


def _cut(rates: Sequence[float], lengths: Sequence[float]) -> int:
    """Return the number of intervals before the best cut, at least 1.

    Least squares within both parts is the same as the largest n1 * n2 * (mean1 - mean2)^2.
    """
    times = list(accumulate(lengths))
    areas = list(accumulate(rate * length for rate, length in zip(rates, lengths, strict=True)))

    def gain(cut: int) -> float:
        before, after = times[cut - 1], times[-1] - times[cut - 1]
        step = areas[cut - 1] / before - (areas[-1] - areas[cut - 1]) / after
        return before * after * step * step

    return max(range(1, len(rates)), key=gain)


def _is_flat(plateau: Sequence[float], level: float, spread: float) -> bool:
    half = len(plateau) // 2
    drift = statistics.median(plateau[:half]) - statistics.median(plateau[half:])
    return level > 0 and spread <= PLATEAU_SPREAD * level and abs(drift) <= PLATEAU_SPREAD * level


LEAST_INTERVALS = 8
"""So many intervals at the lower rate prove it ..."""
LEAST_S = 5.0
"""... if they last as long, in seconds: a neighbour may take its share for a moment."""
NARROW = 0.05
"""... and the interval of the lower rate is no wider than this share of it."""
_SETTLED_INTERVALS = 6
_SETTLED_WITHIN = 0.1


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval, which is open where the data are too few."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Bucket:
    """A bucket that was emptied: payload rates in bits per second, size in bytes.

    ``fell_s`` is when it was empty, in seconds from the start.
    """

    burst_bps: Estimate
    sustained_bps: Estimate
    size_bytes: Estimate
    fell_s: Estimate


@dataclass(frozen=True)
class Refill:
    """Refill of a bucket during a rest: its length in seconds, and the payload bytes."""

    rest_s: float
    bytes: Estimate


def find_bucket(lengths_s: Sequence[float], sizes: Sequence[int]) -> Bucket | None:
    """Return the bucket that a transfer has emptied, None where its rate has no knee.

    ``lengths_s`` are the intervals' lengths in seconds, ``sizes`` the payload bytes in them, in
    order, from the start of the transfer. Both rates are medians of intervals, with the exact
    interval of a median; it needs 6. The size is what passed until the fall beyond the sustained
    rate; as that is all that is uncertain of it, its interval comes from there. When it fell
    follows from the three, and its interval is the widest that theirs allow.

    Assumed is what ``find_knee`` assumes, and that the bucket was full. Of intervals that remember
    each other the intervals are too narrow.

    Source: the model of a token bucket, Uta et al., "Is Big Data Performance Reproducible in Modern
    Cloud Networks?", NSDI 2020, section 4; David and Nagaraja as ``quantile_interval``.
    """
    whole = [(length, size) for length, size in zip(lengths_s, sizes, strict=True) if length > 0]
    knee = find_knee([length for length, _ in whole], [size for _, size in whole])
    if knee is None:
        return None
    rates = [8 * size / length for length, size in whole]
    burst, sustained = _median(rates[: knee.cut]), _median(rates[knee.cut + 1 :])
    passed = sum(size for _, size in whole[: knee.cut + 1])
    lasted_s = sum(length for length, _ in whole[: knee.cut + 1])
    size = _beyond(passed, lasted_s, sustained)
    return Bucket(burst, sustained, size, _fall(burst, sustained, size, lasted_s))


def is_proved(lengths_s: Sequence[float], sizes: Sequence[int]) -> bool:
    """Return whether a transfer so far has shown both the burst and the sustained rate.

    Arguments and assumptions are those of ``find_bucket``. Wanted are 8 intervals and 5 s at the
    lower rate, known within 5 %. docs/methods.md has the error rate when it is called after each
    interval of a steady transfer.

    Source: OSMeF.
    """
    knee = find_knee(lengths_s, sizes)
    if knee is None:
        return False
    lengths = [length for length in lengths_s if length > 0]
    behind = lengths[knee.cut + 1 :]
    if len(behind) < LEAST_INTERVALS or sum(behind) < LEAST_S:
        return False
    found = _sustained(lengths_s, sizes, knee)
    if found.low is None or found.high is None:
        return False
    return found.high - found.low <= NARROW * found.value


def has_settled(lengths_s: Sequence[float], sizes: Sequence[int], sustained_bps: float) -> bool:
    """Return whether a transfer after a rest is back at the sustained rate, in bits per second.

    That are 6 intervals in a row within a tenth of it. ``lengths_s`` and ``sizes`` are those of
    ``find_bucket``. Assumed is that the burst is faster than that by more than a tenth.

    Source: OSMeF.
    """
    return _settled(lengths_s, sizes, sustained_bps) is not None


def find_refill(
    lengths_s: Sequence[float], sizes: Sequence[int], sustained: Estimate
) -> Estimate | None:
    """Return the bytes above the sustained rate after a rest, None if that rate was not reached.

    ``lengths_s`` and ``sizes`` are those of a transfer that began after a rest, until it
    ``has_settled``. Assumed is that the sustained rate is still the same.

    Source: OSMeF.
    """
    settled = _settled(lengths_s, sizes, sustained.value)
    if settled is None:
        return None
    return _beyond(sum(sizes[:settled]), sum(lengths_s[:settled]), sustained)


def _settled(lengths_s: Sequence[float], sizes: Sequence[int], sustained_bps: float) -> int | None:
    """Return after how many intervals a transfer is back at the sustained rate."""
    run = 0
    for number, (length, size) in enumerate(zip(lengths_s, sizes, strict=True), 1):
        off = abs(8 * size / length - sustained_bps) if length > 0 else math.inf
        run = run + 1 if off <= _SETTLED_WITHIN * sustained_bps else 0
        if run == _SETTLED_INTERVALS:
            return number
    return None


def refill_rate(filled: Sequence[Refill], size_bytes: float) -> Estimate | None:
    """Return the refill rate of a bucket, in bits per second, None where it is unknown.

    ``filled`` is what it gave after each rest. It was empty before, so the line through what it
    gave goes through the origin, and its slope is that of least squares; its interval is that of
    Student and needs 3 rests. A bucket that gave nine tenths of its size or more may have been full
    for some time, and does not count. Assumed is one rate of filling, and normal errors of what
    was given.

    Source: Draper and Smith, "Applied Regression Analysis", 3rd ed., 1998, section 1.
    """
    known = [one for one in filled if one.rest_s > 0 and one.bytes.value < 0.9 * size_bytes]
    if not known:
        return None
    square = sum(one.rest_s**2 for one in known)
    slope = sum(one.rest_s * one.bytes.value for one in known) / square
    left = sum((one.bytes.value - slope * one.rest_s) ** 2 for one in known)
    free = len(known) - 1
    if free < 2:  # its interval would be 12.7 standard errors wide
        return Estimate(8 * slope, None, None)
    off = student_quantile(0.975, free) * math.sqrt(left / free / square)
    return Estimate(8 * slope, 8 * (slope - off), 8 * (slope + off))


def _sustained(lengths_s: Sequence[float], sizes: Sequence[int], knee: Knee) -> Estimate:
    pairs = zip(lengths_s, sizes, strict=True)
    rates = [8 * size / length for length, size in pairs if length > 0]
    return _median(rates[knee.cut + 1 :])


def _median(rates: Sequence[float]) -> Estimate:
    found = quantile_interval(rates)
    return Estimate(statistics.median(rates), found.low, found.high)


def _beyond(passed: float, lasted_s: float, sustained: Estimate) -> Estimate:
    """Return the bytes above a rate in a time."""

    def beyond(rate_bps: float | None) -> float | None:
        return None if rate_bps is None else passed - rate_bps * lasted_s / 8

    return Estimate(
        passed - sustained.value * lasted_s / 8, beyond(sustained.high), beyond(sustained.low)
    )


def _fall(burst: Estimate, sustained: Estimate, size: Estimate, longest_s: float) -> Estimate:
    """Return when the bucket ran empty."""

    def at(held: float, high: float, low: float) -> float:
        return min(8 * held / (high - low), longest_s) if high > low else longest_s

    value = at(size.value, burst.value, sustained.value)
    ends = (burst.low, burst.high, sustained.low, sustained.high, size.low, size.high)
    if None in ends:
        return Estimate(value, None, None)
    corners = [
        at(held, high, low)
        for high in (burst.low, burst.high)
        for low, held in ((sustained.low, size.high), (sustained.high, size.low))
        if high is not None and low is not None and held is not None
    ]
    return Estimate(value, min(*corners, value), max(*corners, value))
