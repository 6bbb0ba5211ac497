"""Quantiles of a sample, its distribution function, and intervals; also a sequential interval.

The sequential confidence interval of the median is valid under repeated checks.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING

from osmef.analysis.distributions import binomial_cdf, binomial_sf

if TYPE_CHECKING:
    import numpy as np  # NumPy is slow to load
    import numpy.typing as npt


# So that a tail of just the allowed probability is not lost to rounding.
_ROUNDING = 1 + 1e-12


@dataclass(frozen=True)
class ConfidenceInterval:
    """An interval of a parameter, in the unit of its values.

    ``coverage`` is the probability with which such an interval holds the true value: the exact one
    where the method knows it, else the confidence that was asked for. Where no interval exists, the
    numbers are None and ``reason`` says why.
    """

    low: float | None
    high: float | None
    coverage: float | None
    reason: str | None = None


def quantile_interval(
    values: Sequence[float], quantile: float = 0.5, confidence: float = 0.95
) -> ConfidenceInterval:
    """Return the exact order-statistic interval [X(l), X(u)] of a quantile, by default the median.

    ``values`` are n observations of any one unit, in any order. Assumed is only that they are
    independent and of one continuous distribution, whatever its shape; ties make the interval
    wider than it need be. The number of observations under the quantile is then binomial
    (n, quantile); see ``interval_ranks``. Without enough observations, see ``minimum_n``, there is
    none. Raises ValueError for a value that is not finite, and for a quantile or a confidence
    outside (0, 1).

    Source: David and Nagaraja, "Order Statistics", 3rd ed., 2003, section 7.1; Le Boudec,
    "Performance Evaluation of Computer and Communication Systems", 2010, theorem 2.1.
    """
    ordered = sorted(finite(values))
    n = len(ordered)
    ranks = interval_ranks(n, quantile, confidence)
    if ranks is None:
        needed = minimum_n(quantile, confidence)
        return ConfidenceInterval(
            None, None, None, f"n = {n}; {100 * confidence:g} % needs n >= {needed}"
        )
    low, high = ranks
    missed = binomial_cdf(low - 1, n, quantile) + binomial_sf(high - 1, n, quantile)
    return ConfidenceInterval(ordered[low - 1], ordered[high - 1], 1 - missed)


@lru_cache(maxsize=4096)
def interval_ranks(
    n: int, quantile: float = 0.5, confidence: float = 0.95
) -> tuple[int, int] | None:
    """Return the ranks (l, u), counted from 1, of the interval of a quantile of n values, or None.

    Each end may miss with half of 1 - confidence: l is the largest and u the smallest rank that
    keep to it. Where the largest value misses more often than that, it is the end nevertheless, and
    the other end gets the rest; likewise the smallest. None where n is less than ``minimum_n``.
    Raises ValueError as ``quantile_interval`` does, whose assumptions and source these are.

    Source: that of ``quantile_interval``.
    """
    check(quantile, confidence)
    if n < minimum_n(quantile, confidence):
        return None
    missing = 1 - confidence
    above, below = quantile**n, (1 - quantile) ** n
    left = missing - above if above > missing / 2 else max(missing / 2, below)
    right = missing - below if below > missing / 2 else max(missing / 2, above)
    low = bisect_right(range(n), left * _ROUNDING, key=lambda k: binomial_cdf(k, n, quantile))
    high = bisect_left(range(n), -right * _ROUNDING, key=lambda k: -binomial_sf(k, n, quantile))
    return low, high + 1


@lru_cache(maxsize=256)
def minimum_n(quantile: float = 0.5, confidence: float = 0.95) -> int:
    """Return how many observations an interval of a quantile needs at least.

    The widest interval goes from the smallest to the largest of n; it misses the quantile with
    quantile^n + (1 - quantile)^n, which may be at most 1 - confidence. For 95 %: 6 for the median,
    59 for the 95th and 299 for the 99th percentile. Assumed is what
    ``quantile_interval`` assumes. Raises ValueError for a quantile or a confidence outside (0, 1).

    Source: that of ``quantile_interval``.
    """
    check(quantile, confidence)
    missing = 1 - confidence
    n = max(2, math.ceil(math.log(missing) / math.log(max(quantile, 1 - quantile))))
    while quantile**n + (1 - quantile) ** n > missing * _ROUNDING:
        n += 1
    return n


def finite(values: Sequence[float]) -> list[float]:
    """Return the values as floats. Raises ValueError for one that is infinite or not a number."""
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"an observation must be finite, and {value!r} is not")
    return [float(value) for value in values]


def check(quantile: float, confidence: float) -> None:
    """Raise ValueError for a quantile or a confidence outside (0, 1)."""
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, and {confidence!r} does not")
    if not 0 < quantile < 1:
        raise ValueError(f"a quantile lies between 0 and 1, and {quantile!r} does not")


@dataclass(frozen=True)
class Ecdf:
    """An empirical distribution function.

    Four arrays of one length: ``values``, the different ones in order and in their unit; ``share``
    of the sample up to each; ``low`` and ``high``, a band that holds the whole true function.
    """

    values: npt.NDArray[np.float64]
    share: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


def ecdf(values: Iterable[float], confidence: float = 0.95) -> Ecdf:
    """Return the empirical distribution function of a sample with its confidence band.

    ``values`` are n >= 1 observations of one unit. Assumed is that they are independent and of one
    distribution, of any shape. The band is share +- sqrt(ln(2 / (1 - confidence)) / 2n), cut at 0
    and 1; it holds the whole function at once, so it is wider than the interval of one quantile.
    Raises ValueError for none, for a value that is not finite, and for a confidence outside (0, 1).

    Source: Dvoretzky, Kiefer and Wolfowitz, Ann. Math. Statist. 27, 1956, with the constant of
    Massart, Ann. Probab. 18, 1990.
    """
    import numpy as np  # noqa: PLC0415 - slow to load

    check(0.5, confidence)
    known = finite(list(values))
    if not known:
        raise ValueError("a distribution function needs at least one value")
    different, counts = np.unique(np.asarray(known), return_counts=True)
    share = np.cumsum(counts) / len(known)
    reach = math.sqrt(math.log(2 / (1 - confidence)) / (2 * len(known)))
    return Ecdf(different, share, np.maximum(share - reach, 0.0), np.minimum(share + reach, 1.0))


def confidence_sequence(values: Sequence[float], confidence: float = 0.95) -> ConfidenceInterval:
    """Return a confidence sequence of the median: it covers at all n simultaneously.

    ``values`` are the n observations so far, of any one unit. It contains the true median with the
    confidence even if it is evaluated after each observation, and measuring stops once it is narrow
    enough; ``quantile_interval``, which is narrower, does not: of 20 values it goes from the 4th
    to the 17th, not from the 6th to the 15th. It is [X(l), X(n - l + 1)], where l is the smallest
    rank for which a bet on too few values on one side of the median has not won 1 / (1 -
    confidence) times its stake; the bet is an even mixture over all probabilities. For 95 % it
    needs 8 values. Raises ValueError for a value that is not finite, and for a confidence outside
    (0, 1).

    Assumed is that the values are independent and of one continuous distribution of any shape; ties
    make the interval wider.

    Source: Ville, "Etude critique de la notion de collectif", 1939; Robbins, Ann. Math. Statist.
    41, 1970; for quantiles Howard and Ramdas, Bernoulli 28, 2022.
    """
    ordered = sorted(finite(values))
    rank = confidence_sequence_rank(len(ordered), confidence)
    if rank == 0:
        needed = next(n for n in count(1) if confidence_sequence_rank(n, confidence) > 0)
        reason = f"n = {len(ordered)}; {100 * confidence:g} % at every n needs n >= {needed}"
        return ConfidenceInterval(None, None, None, reason)
    return ConfidenceInterval(ordered[rank - 1], ordered[-rank], confidence)


def is_narrow_enough(values: Sequence[float], width: float) -> bool:
    """Return whether ``confidence_sequence`` is no wider than a share of the median.

    ``width`` is that of the whole interval, as a share of the median: 0.1 for +-5 %. Values that
    are not finite don't count. The interval has its 95 % also if measuring stops because of it.

    Assumed is what ``confidence_sequence`` assumes.

    Source: that of ``confidence_sequence``.
    """
    known = [value for value in values if math.isfinite(value)]
    found = confidence_sequence(known)
    if found.low is None or found.high is None:
        return False
    return found.high - found.low <= width * abs(statistics.median(known))


@lru_cache(maxsize=4096)
def confidence_sequence_rank(n: int, confidence: float = 0.95) -> int:
    """Return the rank l of ``confidence_sequence``, with its assumptions; 0 without an interval.

    The wealth of the bet after n values, s of them below, is 2^n s! (n - s)! / (n + 1)!.

    Source: that of ``confidence_sequence``.
    """
    check(0.5, confidence)
    sure = -math.log(1 - confidence) - n * math.log(2) + math.lgamma(n + 2)
    return sum(
        math.lgamma(below + 1) + math.lgamma(n - below + 1) >= sure for below in range(n // 2 + 1)
    )
