"""Null distributions of rank statistics: rank sums, and Kendall's S."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from osmef.analysis.distributions import normal_quantile

Array = npt.NDArray[np.float64]


def s_variance(x: Array, y: Array) -> float:
    """Return the variance of S of two series of one length over all orders, with ties.

    Assumed is that all orders are equally likely.

    Source: Kendall, "Rank Correlation Methods", 1948.
    """
    n = x.size
    ties = [np.unique(of, return_counts=True)[1].astype("float64") for of in (x, y)]
    first = [float((t * (t - 1) * (2 * t + 5)).sum()) for t in ties]
    second = [float((t * (t - 1) * (t - 2)).sum()) for t in ties]
    third = [float((t * (t - 1)).sum()) for t in ties]
    found = (n * (n - 1) * (2 * n + 5) - first[0] - first[1]) / 18
    found += second[0] * second[1] / (9 * n * (n - 1) * (n - 2))
    return found + third[0] * third[1] / (2 * n * (n - 1))


def exact_p(total: int, counts: Sequence[int]) -> float:
    """Return the chance of a sum of S as far from 0, of series of so many values each.

    It is counted from the numbers of inversions of all orders. Assumed is that these are equally
    likely, and that nothing is tied.

    Source: that of ``s_variance``.
    """
    chances = np.ones(1)
    for n in counts:
        for size in range(2, n + 1):  # the last of so many may pass 0 to size - 1 others
            sums = np.fromiter(accumulate([*chances.tolist(), *[0.0] * (size - 1)]), "float64")
            sums[size:] -= sums[:-size].copy()
            chances = sums / size
    inversions = (chances.size - 1 - abs(total)) // 2  # S is what is not inverted less what is
    return min(1.0, 2 * float(chances[: inversions + 1].sum()))


EXACT_UP_TO = 2500
"""The largest product of two sample sizes for which the distribution is counted out."""


@dataclass(frozen=True)
class RankSums:
    """The sum of the doubled ranks of n values out of more: each sum's probability, from 0 on."""

    probabilities: Array

    def at_most(self, doubled: int) -> float:
        """Return the probability of a sum of doubled ranks of at most this."""
        return min(1.0, float(self.probabilities[: doubled + 1].sum()))

    def at_least(self, doubled: int) -> float:
        """Return the probability of a sum of doubled ranks of at least this."""
        return min(1.0, float(self.probabilities[doubled:].sum()))


@lru_cache(maxsize=64)
def rank_sums(doubled_ranks: tuple[int, ...], n: int) -> RankSums:
    """Return the exact distribution of the sum of n of the ranks, each choice equally likely.

    ``doubled_ranks`` are two times the ranks of all values, so that the mean rank of tied values is
    whole. Assumed is nothing but that the values may be exchanged. Time and memory grow with the
    number of ranks times n times the largest sum.

    Source: Streitberg and Roehmel, "Exact Distributions for Permutation and Rank Tests",
    Statistical Software Newsletter 12, 1986 (the shift algorithm).
    """
    most = sum(sorted(doubled_ranks)[-n:])
    ways = np.zeros((n + 1, most + 1))
    ways[0, 0] = 1.0
    for rank in doubled_ranks:
        # Every choice so far, and the same with this rank in it.
        ways[1:, rank:] += ways[:-1, : most + 1 - rank].copy()
    return RankSums(ways[n] / math.comb(len(doubled_ranks), n))


def doubled_ranks(values: Sequence[float] | Array) -> npt.NDArray[np.int64]:
    """Return two times the rank of each value, counted from 1; tied values share their mean.

    Assumed is that equal values are ties, and not rounded others.

    Source: that of ``rank_sums``.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    first = np.searchsorted(ordered, values, side="left")
    last = np.searchsorted(ordered, values, side="right")
    return (first + last + 1).astype(np.int64)


@lru_cache(maxsize=1024)
def shift_rank(n_a: int, n_b: int, confidence: float) -> tuple[int, float]:
    """Return c and the coverage of the interval between the c-th smallest and largest difference.

    Of the ``n_a`` times ``n_b`` differences between two samples; c is 0 where no interval covers
    the confidence. Exact up to ``EXACT_UP_TO`` differences, the normal approximation beyond.
    See ``hodges_lehmann``.

    Assumed is what ``hodges_lehmann`` assumes.

    Source: that of ``hodges_lehmann``.
    """
    if n_a * n_b > EXACT_UP_TO:
        sigma = math.sqrt(n_a * n_b * (n_a + n_b + 1) / 12)
        return math.floor(n_a * n_b / 2 + normal_quantile((1 - confidence) / 2) * sigma), confidence
    ranks = tuple(range(2, 2 * (n_a + n_b) + 1, 2))
    # U = (sum of ranks) - n(n + 1)/2
    below = np.cumsum(rank_sums(ranks, n_a).probabilities[n_a * (n_a + 1) :: 2])
    c = int(np.count_nonzero(below[: n_a * n_b // 2] <= (1 - confidence) / 2 * (1 + 1e-12)))
    return c, 1 - 2 * float(below[c - 1]) if c else 0.0
