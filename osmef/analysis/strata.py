"""Whether two samples differ, compared only within strata, such as hours of the day."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from osmef.analysis.quantiles import Interval, finite
from osmef.analysis.ranksum import EXACT_UP_TO, doubled_ranks, rank_sums

Array = npt.NDArray[np.float64]
Pair = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Shift:
    """By how much one sample is larger, over all strata; ``least_p`` is the smallest possible p.

    Where no stratum has values of both, the numbers are None, and the interval says why.
    """

    value: float | None
    interval: Interval
    p: float | None
    least_p: float | None
    n_a: int
    n_b: int


def stratified_shift(strata: Sequence[Pair], confidence: float = 0.95) -> Shift:
    """Return by how much ``a`` is larger than ``b`` where both are compared stratum by stratum.

    ``strata`` are pairs of samples, all in one unit; a stratum that lacks one side does not count.
    The value is the median of the differences within strata, the interval goes from the c-th
    smallest to the c-th largest of them, and p, two-tailed, is that of the sum over the strata of
    Mann and Whitney's U. With one stratum they are ``hodges_lehmann`` and ``mann_whitney``. Up to
    ``EXACT_UP_TO`` differences both are exact, p also with ties; beyond that by the normal
    approximation. Raises ValueError for a value that is not finite.

    Assumed are independent values and, for the interval, that within each stratum the two
    distributions have one shape, shifted by the same everywhere; the strata may differ at will.

    Source: van Elteren, Bull. Inst. Int. Stat. 37, 1960 (with equal weights); Lehmann,
    "Nonparametrics", 1975, sections 2.5 and 3.3.
    """
    kept = [(finite(a), finite(b)) for a, b in strata if len(a) and len(b)]
    n_a, n_b = (sum(len(pair[side]) for pair in kept) for side in (0, 1))
    if not kept:
        reason = "no stratum has values of both"
        return Shift(None, Interval(None, None, None, reason), None, None, 0, 0)
    apart = np.sort(np.concatenate([np.subtract.outer(a, b).ravel() for a, b in kept]))
    c, coverage = _rank(kept, apart.size, confidence)
    interval = Interval(None, None, None, f"n = {n_a} and {n_b} are too few for {confidence:.0%}")
    if c >= 1:
        interval = Interval(float(apart[c - 1]), float(apart[-c]), coverage)
    least = min(1.0, 2 / math.prod(math.comb(len(a) + len(b), len(a)) for a, b in kept))
    return Shift(float(np.median(apart)), interval, _p(kept, apart.size), least, n_a, n_b)


def _rank(strata: Sequence[Pair], count: int, confidence: float) -> tuple[int, float]:
    """Return c, 0 where no interval covers the confidence, and what the interval covers."""
    if count > EXACT_UP_TO:
        from scipy.special import ndtri  # noqa: PLC0415 - slow to load

        sizes = [(len(a), len(b)) for a, b in strata]
        sigma = math.sqrt(sum(n * m * (n + m + 1) / 12 for n, m in sizes))
        return math.floor(count / 2 + float(ndtri((1 - confidence) / 2)) * sigma), confidence
    each = [
        rank_sums(tuple(range(2, 2 * (len(a) + len(b)) + 1, 2)), len(a)).probabilities[
            len(a) * (len(a) + 1) :: 2
        ]
        for a, b in strata
    ]
    below = np.cumsum(reduce(np.convolve, each))
    c = int(np.count_nonzero(below[: count // 2] <= (1 - confidence) / 2 * (1 + 1e-12)))
    return c, 1 - 2 * float(below[c - 1]) if c else 0.0


def _p(strata: Sequence[Pair], count: int) -> float:
    ranks = [doubled_ranks([*a, *b]) for a, b in strata]
    total = sum(int(of[: len(a)].sum()) for of, (a, _b) in zip(ranks, strata, strict=True))
    if count > EXACT_UP_TO:
        return _approximate(strata, ranks, total)
    each = [
        rank_sums(tuple(sorted(of.tolist())), len(a)).probabilities
        for of, (a, _b) in zip(ranks, strata, strict=True)
    ]
    chances: Array = reduce(np.convolve, each)
    tails = float(chances[: total + 1].sum()), float(chances[total:].sum())
    return min(1.0, 2 * min(tails))


def _approximate(
    strata: Sequence[Pair], ranks: Sequence[npt.NDArray[np.int64]], total: int
) -> float:
    from scipy.special import ndtr  # noqa: PLC0415 - slow to load

    mean = variance = 0.0
    for of, (a, b) in zip(ranks, strata, strict=True):
        n, m = len(a), len(b)
        mean += n * float(of.mean())
        variance += n * m / (n + m) * float(of.var(ddof=1)) if n + m > 1 else 0.0
    if variance == 0:
        return 1.0  # all values of each stratum are the same
    off = max(0.0, abs(total - mean) - 1)  # half a rank, doubled, for continuity
    return min(1.0, 2 * float(ndtr(-off / math.sqrt(variance))))
