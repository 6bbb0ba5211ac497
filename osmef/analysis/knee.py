"""Change-point of a long transfer that empties a token bucket: burst, then sustained rate."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

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
    around two means. Assumed is one burst, then a plateau, in noise without memory. Behind it must
    be a plateau of at least 6 intervals: a spread of at most 10 %, both halves alike. Before it the
    rate is higher by half and by six spreads (robust: 1.4826 * median absolute deviation). Linear
    time.

    Flat series with noise of any spread have a knee in less than 1 of 100 cases, long ones in less
    than 1 of 500 (tests/analysis/test_knee.py).

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
    # The bucket runs empty somewhere in an interval: the excess tells where.
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
