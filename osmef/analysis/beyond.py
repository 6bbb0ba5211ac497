"""Non-inferiority: whether a sample is lower than another by more than a margin."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from osmef.analysis.course import common_memory
from osmef.analysis.distributions import binomial_at_most, normal_below, student_below
from osmef.analysis.quantiles import finite
from osmef.analysis.ranks import EXACT_UP_TO, doubled_ranks, rank_sums

MOST_MEMORY = 0.8
"""More memory than this is not allowed for."""

_PROVED = 0.05
_FEWEST = 5
_LEAST = 0.25
_FEW_VALUES = 100
"""With so many values a memory that matters is proved; of fewer the largest likely one counts."""
_FEW_MEMORY = 0.5
_LIKELY = 1.96
_UNLIKE, _FAR_APART = 2.0, 9.0
"""From these ratios of variances on spreads are taken for different, and for very different."""
_UNEQUAL = 2
"""From this ratio of their sizes on samples are few against many."""
_TRIMMED = 0.2


def lower_p(a: Sequence[float], b: Sequence[float], memory: float = 0.0) -> float | None:
    """Return the p-value of ``b`` not being lower than ``a``, one-tailed; None without 2 values.

    ``a`` and ``b`` are observations in one unit. It is the largest one of several: that of Mann and
    Whitney's test, which is exact for equal distributions of any shape, and that of Welch's, which
    holds where the spreads differ; each alone would alarm where the other one does not. Where one
    variance is twice the other, or one sample twice as large, Yuen's counts as well, which holds
    without tails, too; of few against many both have the degrees of freedom of the few. Where one
    spread is three times the other, so does the sign test of the wider sample. ``memory``
    is how much a value is correlated with the one before (``memory_of``): the standard errors
    are made larger by what that does to means and spreads. Raises ValueError for a value that is
    not finite.

    Assumed is that observations are independent but for the memory. Where the spreads differ, and
    the distributions are far from normal, the rate of false alarms is as simulated
    (docs/methods.md).

    Source: Mann and Whitney, Ann. Math. Statist. 18, 1947; Welch, Biometrika 34, 1947; Yuen,
    "The Two-Sample Trimmed t for Unequal Population Variances", Biometrika 61, 1974.
    """
    first, second = finite(a), finite(b)
    if min(len(first), len(second)) < 2:
        return None
    few = max(len(first), len(second)) >= _UNEQUAL * min(len(first), len(second))
    found = [_ranked(first, second), _welch(first, second, memory, few=few)]
    narrow, wide = sorted((statistics.variance(first), statistics.variance(second)))
    narrow *= 1 + 1e-9  # the unit does not matter
    if few or wide > _UNLIKE * narrow:
        found.append(_welch(first, second, memory, few=few, trimmed=_TRIMMED))
    if wide > _FAR_APART * narrow:
        found.append(_signs(first, second))
    return max(found)


def memory_of(series: Sequence[Sequence[float]]) -> float:
    """Return how much lag-1 autocorrelation in common to all series is to be allowed for, or 0.

    ``series`` are those of the cells of a table, each in its order. It is what is proved
    (``proved_memory``). Of fewer than 100 values no test can prove much: what they do not exclude
    at 2.5 % is allowed for, up to 0.5.

    Assumed is that all of them remember alike, as an autoregressive process of first order does.

    Source: that of ``proved_memory``.
    """
    found, proved = common_memory(series), proved_memory(series)
    count = sum(len(of) for of in series if len(of) >= _FEWEST)
    if found is None or count >= _FEW_VALUES:
        return proved
    likely = found.coefficient + _LIKELY / math.sqrt(count)
    return max(proved, min(_FEW_MEMORY, likely), 0.0)


def proved_memory(series: Sequence[Sequence[float]]) -> float:
    """Return the lag-1 autocorrelation that all series have in common if it is proved, or 0.

    ``series`` are those of ``memory_of``. It is proved at 5 % (``common_memory``); its coefficient
    is corrected for how few values each series has, up to ``MOST_MEMORY``.

    Assumed is what ``memory_of`` assumes.

    Source: Marriott and Pope, "Bias in the Estimation of Autocorrelations", Biometrika 41, 1954.
    """
    found = common_memory(series)
    if found is None or found.p > _PROVED or found.coefficient <= 0:
        return 0.0
    size = statistics.fmean(len(of) for of in series if len(of) >= _FEWEST)
    return min(MOST_MEMORY, found.coefficient / max(_LEAST, 1 - 4 / size))


def _inflation(count: int, memory: float) -> float:
    """Return the variance inflation of a mean by autocorrelation."""
    lags = np.arange(1, count)
    mean = 1 + 2 * float(((1 - lags / count) * memory**lags).sum())
    return mean * (count - 1) / (count - mean)


def _ranked(a: list[float], b: list[float]) -> float:
    """Return the p-value of the rank-sum test for ``b`` being lower."""
    ranks = doubled_ranks([*b, *a])
    total, n, m = int(ranks[: len(b)].sum()), len(b), len(a)
    if n * m <= EXACT_UP_TO:
        return rank_sums(tuple(sorted(ranks.tolist())), n).at_most(total)
    sigma = math.sqrt(n * m / (n + m) * float(ranks.var(ddof=1)))
    if sigma == 0:
        return 1.0
    return normal_below((total + 1 - n * float(ranks.mean())) / sigma)


def _welch(
    a: list[float], b: list[float], memory: float, *, few: bool, trimmed: float = 0.0
) -> float:
    """Return the p-value of Welch's test, or of Yuen's, for ``b`` being lower."""
    (mean_a, variance_a, n_a), (mean_b, variance_b, n_b) = (_mean(of, trimmed) for of in (a, b))
    parts = [
        variance * (_inflation(len(of), memory) if memory else 1.0)
        for variance, of in ((variance_b, b), (variance_a, a))
    ]
    error, apart = sum(parts), mean_b - mean_a
    if error == 0:
        return 0.0 if apart < 0 else 1.0
    shares = [part / error for part in parts]
    freedom = 1 / sum(share**2 / (n - 1) for share, n in zip(shares, (n_b, n_a), strict=True))
    if few and apart < 0:
        freedom = min(n_a, n_b) - 1.0
    return student_below(apart / math.sqrt(error), freedom)


def _mean(values: list[float], trimmed: float) -> tuple[float, float, int]:
    """Return the trimmed mean, its variance by the winsorised one, and how many values are left."""
    cut = int(trimmed * len(values))
    ordered = sorted(values)
    kept = ordered[cut : len(ordered) - cut]
    bounded = [kept[0]] * cut + kept + [kept[-1]] * cut
    squares = statistics.variance(bounded) * (len(values) - 1)
    return statistics.fmean(kept), squares / (len(kept) * (len(kept) - 1)), len(kept)


def _signs(a: list[float], b: list[float]) -> float:
    """Return the p-value of the sign test of the wider sample against the median of the other."""
    if statistics.variance(b) > statistics.variance(a):
        below, n = sum(x < statistics.median(a) for x in b), len(b)
    else:
        below, n = sum(x > statistics.median(b) for x in a), len(a)
    return binomial_at_most(n - below, n, 0.5)


def hommel(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for multiple testing by Hommel's procedure.

    A test that could not be made (None) stays None, and does not belong to the family. Where many
    are small together it finds more than Holm's correction: all of 24, say, where each has 0.03.

    Assumed is that the tests are independent, or depend on each other positively, as cells that
    are all slow at once do.

    Source: Hommel, "A Stagewise Rejective Multiple Test Procedure Based on a Modified Bonferroni
    Test", Biometrika 75, 1988; Simes, Biometrika 73, 1986.
    """
    made = [p for p in p_values if p is not None]
    if len(made) < 2:
        return list(p_values)
    order = np.argsort(made)
    p = np.asarray(made)[order]
    corrected = p.copy()
    for size in range(p.size, 1, -1):  # Simes's test of every family of the largest p-values
        largest = float((size * p[-size:] / np.arange(1, size + 1)).min())
        corrected[-size:] = np.maximum(corrected[-size:], largest)
        rest = np.minimum(size * p[:-size], largest)
        corrected[:-size] = np.maximum(corrected[:-size], rest)
    found = np.empty(p.size)
    found[order] = np.minimum(1.0, corrected)
    left = iter(found.tolist())
    return [None if p is None else next(left) for p in p_values]
