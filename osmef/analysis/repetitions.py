"""Number of repetitions for a wanted interval width, estimated from existing trials."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from osmef.analysis.distributions import beta_quantile, normal_quantile
from osmef.analysis.quantiles import check, finite, interval_ranks, minimum_n

MOST = 100_000
"""More repetitions than these are not looked for."""

ASSURANCE = 0.8
"""In so large a share of cases at least ``repetitions_for_median`` are enough."""

_CAUTION = 0.6  # standard errors that make up the assurance, by simulation
_IQR_ERROR = 1.36  # the squared relative error of an interquartile range, times n, if normal


def repetitions_for_mean(
    values: Sequence[float], relative_error: float, confidence: float = 0.95
) -> int | None:
    """Return how many trials give the mean to within a share of it, by Jain's formula.

    ``values`` are trials that were made, in any one unit; ``relative_error`` r is half of the
    interval's width over the mean, 0.05 for +-5 %. n = (z s / (r mean))^2, rounded up, at least 2.
    Assumed is that trials are independent, their mean is normally distributed, and their standard
    deviation s is known well: with few trials it is not, so ask again as they come in. None where
    the mean is 0. Raises ValueError for fewer than 2 values, a value that is not finite, and a
    relative error that is not above 0.

    Source: Jain, "The Art of Computer Systems Performance Analysis", 1991, section 13.9.1.
    """
    known = _pilot(values, relative_error, confidence)
    mean = statistics.fmean(known)
    if mean == 0:
        return None
    z = normal_quantile((1 + confidence) / 2)
    wanted = (z * statistics.stdev(known) / (relative_error * abs(mean))) ** 2
    # Rounding must not turn a whole number into the next one.
    return max(2, math.ceil(wanted * (1 - 1e-12)))


def repetitions_for_median(
    values: Sequence[float], relative_error: float, confidence: float = 0.95
) -> int | None:
    """Return how many trials give the median to within a share of it, by order statistics.

    ``values`` are trials that were made, in any one unit; ``relative_error`` r is half of the width
    of the median's exact interval over the median, 0.05 for +-5 %. So many trials are enough in at
    least ``ASSURANCE`` of cases: with the number that is enough in the mean, half of all would have
    to measure again. The interval of n trials goes from their l-th to their u-th value
    (``interval_ranks``), expected at the quantiles l/(n+1) and u/(n+1), which the values at hand
    tell (Hyndman and Fan's definition 6), but it is taken to be no narrower than their range from
    quarter to quarter makes it; to that comes the error of both, of few values and of the n trials,
    and each end is allowed to be as far off as it is in one of five cases. Simulated from 6 to 40
    values, normal, skewed, bimodal, heavy-tailed and correlated ones (docs/methods.md). Assumed is
    that trials are independent and as spread as the values, of whatever shape. None where the
    median is 0, or ``MOST`` trials are not enough. Raises ValueError as ``repetitions_for_mean``
    does.

    Source: OSMeF; the idea, by resampling, is that of Maricq et al., "Taming Performance
    Variability", OSDI 2018 (CONFIRM); the assurance: Kupper and Hafner,
    The American Statistician 43, 1989.
    """
    known = np.asarray(_pilot(values, relative_error, confidence))
    median = abs(float(np.median(known)))
    if median == 0:
        return None

    def enough(n: int) -> bool:
        return _width(known, n, confidence) <= 2 * relative_error * median * (1 + 1e-12)

    least = minimum_n(0.5, confidence)
    if enough(least):
        return least
    most = least
    while not enough(most):
        least, most = most, 2 * most
        if least > MOST:
            return None
    # The ranks jump, so that one more trial may widen the interval a little; that is let be.
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def _width(known: np.ndarray, n: int, confidence: float) -> float:
    """Return the expected upper bound of the interval's width for n trials."""
    low, high = interval_ranks(n, 0.5, confidence) or (1, n)
    far = (
        beta_quantile(1 - ASSURANCE, low, n - low + 1),
        beta_quantile(ASSURANCE, high, n - high + 1),
    )
    at = [low / (n + 1), high / (n + 1), *far, 0.25, 0.75]
    ends = np.quantile(known, at, method="weibull")
    expected, unlucky, quarters = (float(width) for width in ends[1::2] - ends[::2])
    smooth = (high - low) / (n + 1) * 2 * quarters
    error = math.exp(_CAUTION * math.sqrt(_IQR_ERROR / known.size + 0.5 / math.sqrt(n)))
    return max(unlucky, error * max(expected, smooth))


def _pilot(values: Sequence[float], relative_error: float, confidence: float) -> list[float]:
    check(0.5, confidence)
    if not relative_error > 0:
        raise ValueError(f"a relative error is above 0, and {relative_error!r} is not")
    known = finite(values)
    if len(known) < 2:
        raise ValueError("a spread needs at least 2 values")
    return known
