"""The distribution of a sum of ranks when two samples do not differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

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


def doubled_ranks(values: Sequence[float]) -> npt.NDArray[np.int64]:
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
        from scipy.special import ndtri  # noqa: PLC0415 - slow to load

        sigma = math.sqrt(n_a * n_b * (n_a + n_b + 1) / 12)
        return math.floor(n_a * n_b / 2 + float(ndtri((1 - confidence) / 2)) * sigma), confidence
    ranks = tuple(range(2, 2 * (n_a + n_b) + 1, 2))
    # U = (sum of ranks) - n(n + 1)/2
    below = np.cumsum(rank_sums(ranks, n_a).probabilities[n_a * (n_a + 1) :: 2])
    c = int(np.count_nonzero(below[: n_a * n_b // 2] <= (1 - confidence) / 2 * (1 + 1e-12)))
    return c, 1 - 2 * float(below[c - 1]) if c else 0.0
