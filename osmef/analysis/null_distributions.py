"""Null distributions of tests: chi-squared, rank sums, Kendall's S, autocorrelated series.

They are computed without importing scipy. Simulated autocorrelated series without a step show how
clear a step may look by chance. One kind is a first-order autoregression with an autocorrelation
of up to ``AUTOCORRELATION``; the other has two kinds of hosts, and consecutive values often come
from the same kind (``PERSISTENCE``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from osmef.analysis.distributions import normal_quantile

Array = npt.NDArray[np.float64]

_TINY = 1e-300
_PRECISION = 1e-15
_MOST_TERMS = 100_000


def chi_squared_sf(x: float, freedom: float) -> float:
    """Return the probability that a variable of chi squared is above x >= 0."""
    return max(0.0, 1 - float(_gamma_below(freedom / 2, np.array([x / 2]))[0]))


def chi_squared_quantiles(shares: Array, freedom: float) -> Array:
    """Return the x that a variable of chi squared is at most with each probability in (0, 1).

    Newton's steps, from Wilson and Hilferty's values or, where these are too small, from those of
    the first term of the series.

    Source: Wilson and Hilferty, Proc. Nat. Acad. Sci. 17, 1931.
    """
    shape, of_normal = freedom / 2, np.array([normal_quantile(one) for one in shares.tolist()])
    ninth = 2 / (9 * freedom)
    cubes = freedom * np.maximum(0, 1 - ninth + of_normal * math.sqrt(ninth)) ** 3
    first = 2 * np.exp((np.log(shares) + math.lgamma(shape + 1)) / shape)
    x: Array = np.maximum(cubes, np.maximum(first, _TINY)) / 2
    for _ in range(100):
        log_density = (shape - 1) * np.log(x) - x - math.lgamma(shape)
        off = (_gamma_below(shape, x) - shares) / np.maximum(np.exp(log_density), _TINY)
        step = np.clip(off, -3 * x, 0.75 * x)
        x -= step
        if (np.abs(step) <= 1e-12 * x).all():
            break
    return 2 * x


def _gamma_below(a: float, x: Array) -> Array:
    """Return the regularised lower incomplete gamma function P(a, x) of every x >= 0.

    All terms of the series are positive, so that nothing cancels (DLMF, 8.7.1).
    """
    positive = np.maximum(x, _TINY)
    term: Array = np.exp(a * np.log(positive) - positive - math.lgamma(a + 1))
    found = term.copy()
    for n in range(1, _MOST_TERMS):
        term = term * positive / (a + n)
        found += term
        if a + n > positive.max() and (term <= _PRECISION * found).all():
            break
    return np.minimum(1.0, found)


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
        for size in range(2, n + 1):  # the last value may precede 0 to size - 1 others
            sums = np.fromiter(accumulate([*chances.tolist(), *[0.0] * (size - 1)]), "float64")
            sums[size:] -= sums[:-size].copy()
            chances = sums / size
    inversions = (
        chances.size - 1 - abs(total)
    ) // 2  # S is the concordant pairs minus the discordant ones
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
    whole. Assumed is only that the values are exchangeable. Time and memory grow with the number of
    ranks times n times the largest sum.

    Source: Streitberg and Roehmel, "Exact Distributions for Permutation and Rank Tests",
    Statistical Software Newsletter 12, 1986 (the shift algorithm).
    """
    most = sum(sorted(doubled_ranks)[-n:])
    ways = np.zeros((n + 1, most + 1))
    ways[0, 0] = 1.0
    for rank in doubled_ranks:
        # All choices so far, and each of them with this rank added.
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


Indices = npt.NDArray[np.intp]

AUTOCORRELATION = 0.9
"""The correlation of neighbours up to which the rate of false alarms holds."""

PERSISTENCE = 0.5
"""The same for the kind of host that a value is from."""

_TRIED = (-0.5, -0.2, 0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
_SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
_STEPS = 3
"""The largest number of steps that describe a series."""
_MOST, _LEAST, _VALUES = 9999, 1999, 400_000
_AT_ONCE = 500
_EQUAL = 0.98
"""At this quantile of noise descriptions by one, two and three steps count alike."""
_NOTHING = 1e-12
_SEED = 20120705


def ar1_p(series: Array, shortest: int) -> float:
    """Return the p-value of steps, for an autocorrelation of up to ``AUTOCORRELATION``.

    ``series`` are n values in their order, not all equal, n at least 2 ``shortest``. Compared are
    the likelihoods of an autoregression of first order without and with up to three steps, each
    with the autocorrelation that fits it best: with a step the values within its levels are not
    correlated, without one they are. p is the share of simulated series without a step, correlated
    by ``AUTOCORRELATION``, that look as clear; at a lower autocorrelation fewer do. They are
    rounded to half a standard deviation, as rounded values look clearer than others.

    Assumed are normal values; docs/methods.md has simulations of others.

    Source: Robbins, Gallagher, Lund and Aue, J. Time Ser. Anal. 32, 2011 (change-points and
    autocorrelation); Box and Jenkins, "Time Series Analysis", 1970 (first-order autoregression).
    """
    count = series.size
    scaled = ((series - np.median(series)) / np.ptp(series))[None, :]
    return _share(log_likelihood_ratios(scaled, shortest)[0], _ar1_null(count, shortest))


def two_state_p(series: Array, levels: tuple[float, float], shortest: int) -> float:
    """Return the p-value of steps, if values are of two kinds of hosts, each for some time.

    Arguments are as those of ``ar1_p``; ``levels`` are those before and after the clearest step. A
    value's kind is the side of a border on which it is: the middle of the levels, or the widest gap
    between them, whichever is clearer. p is the share of simulated series of two kinds, with a
    lag-1 autocorrelation of ``PERSISTENCE``, that up to three steps describe as well.

    Assumed is no distribution of the values of one kind.

    Source: Braun and Mueller, "Statistical Methods for DNA Sequence Segmentation", Statist. Sci.
    13, 1998 (steps of a share).
    """
    low, high = sorted(levels)
    between = np.unique(np.r_[low, series[(series >= low) & (series <= high)], high])
    widest = int(np.argmax(np.diff(between))) if between.size > 1 else 0
    borders = {(low + high) / 2, float(between[widest : widest + 2].mean())}
    return min(_two_state_p(series > border, shortest) for border in borders)


def _two_state_p(above: npt.NDArray[np.bool_], shortest: int) -> float:
    share = min(float(above.mean()), 1 - float(above.mean()))
    nearest = min(_SHARES, key=lambda one: abs(one - share))
    found = _level_shift_ratios(above[None, :].astype(float), shortest)[0]
    return _share(found, _two_state_null(above.size, shortest, nearest))


def _share(found: Array, null: tuple[Array, Array]) -> float:
    offsets, known = null
    clearest = float((found - offsets).max())
    above = known.size - int(np.searchsorted(known, clearest - 1e-9))
    return (1 + above) / (1 + known.size)


def _null(rows: Iterator[Array], statistic: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Return the excess of each number of steps over one, and the sorted maxima of noise."""
    found = np.concatenate([statistic(some) for some in rows])
    known = np.quantile(found, _EQUAL, axis=0)
    offsets = known - known[0]
    return offsets, np.sort((found - offsets).max(axis=1))


@lru_cache(maxsize=64)
def _ar1_null(count: int, shortest: int) -> tuple[Array, Array]:
    grain = 0.5 / math.sqrt(1 - AUTOCORRELATION**2)
    series = (grain * np.round(rows / grain) for rows in ar1_series(count, AUTOCORRELATION))
    return _null(series, lambda rows: log_likelihood_ratios(rows, shortest))


@lru_cache(maxsize=256)
def _two_state_null(count: int, shortest: int, share: float) -> tuple[Array, Array]:
    return _null(two_state_series(count, share), lambda rows: _level_shift_ratios(rows, shortest))


def _batches(count: int) -> Iterator[int]:
    left = max(_LEAST, min(_MOST, _VALUES // count))
    while left > 0:
        yield min(_AT_ONCE, left)
        left -= _AT_ONCE


def ar1_series(count: int, rho: float) -> Iterator[Array]:
    """Yield simulated normal series with a lag-1 autocorrelation of ``rho``, in batches.

    Assumed is a first-order autoregression: each value depends on the previous one.

    Source: Box and Jenkins, as ``ar1_p``.
    """
    chance = np.random.default_rng(_SEED)
    for some in _batches(count):
        noise = chance.standard_normal((some, count))
        noise[:, 0] /= math.sqrt(1 - rho**2)
        for at in range(1, count):
            noise[:, at] += rho * noise[:, at - 1]
        yield noise


def two_state_series(count: int, share: float) -> Iterator[Array]:
    """Yield simulated series of 0 and 1, with that share of ones, in batches.

    Assumed is a Markov chain: each value is the previous one, or an independent draw.

    Source: Norris, "Markov Chains", 1997.
    """
    chance = np.random.default_rng(_SEED)
    for some in _batches(count):
        rows = (chance.random((some, count)) < share).astype(float)
        stays = chance.random((some, count)) < PERSISTENCE
        for at in range(1, count):
            rows[:, at] = np.where(stays[:, at], rows[:, at - 1], rows[:, at])
        yield rows


def log_likelihood_ratios(rows: Array, shortest: int) -> Array:
    """Return twice the log-likelihood ratio of one, two and three steps against none.

    ``rows`` are series; the answer has a row for each. Steps are added one by one, each at its best
    place, and the first is then placed again given the second. Assumed is what ``ar1_p`` assumes.

    Source: that of ``ar1_p``.
    """
    best = np.full((len(rows), 1 + _STEPS), -np.inf)
    for rho in _TRIED:
        sums = _squares(rows, rho, shortest)
        fit = math.log(1 - rho**2) - rows.shape[1] * np.log(np.maximum(sums, _NOTHING))
        np.maximum(best, fit, out=best)
    ratios: Array = best[:, 1:] - best[:, :1]
    return ratios


def _squares(rows: Array, rho: float, shortest: int) -> Array:
    """Return the residual sums of squares of 0 to 3 steps, at one autocorrelation."""
    count = rows.shape[1]
    first, rest = math.sqrt(1 - rho**2), 1 - rho
    white = rows.copy()
    white[:, 1:] -= rho * rows[:, :-1]
    white[:, 0] *= first
    tail = np.zeros((len(rows), count + 1))
    tail[:, :-1] = white[:, ::-1].cumsum(axis=1)[:, ::-1]
    middles = np.arange(shortest, count - shortest + 1)
    after = count - 1 - middles
    level = first**2 + rest**2 * (count - 1)
    shared = rest + rest**2 * after  # product of the columns of a step and of the level
    level_fit = first * white[:, 0] + rest * tail[:, 1]
    fits = white[:, middles] + rest * tail[:, middles + 1] - shared / level * level_fit[:, None]
    later = np.maximum.outer(middles, middles)
    products = rest + rest**2 * (count - 1 - later) - np.outer(shared, shared) / level
    products[np.diag_indices(middles.size)] = 1 + rest**2 * after - shared**2 / level
    none = (white**2).sum(axis=1) - level_fit**2 / level
    left: Array = none[:, None] - _explained(fits, products, shortest)
    return left


def _explained(fits: Array, products: Array, shortest: int) -> Array:
    """Return the reduction of the sum of squares by none, one, two and three steps."""
    every = np.arange(len(fits))
    norms = products.diagonal()
    alone = fits**2 / norms
    one = alone.argmax(axis=1)
    second, _ = _best_further_step(fits, products, (one,), shortest)
    first, two = _best_further_step(fits, products, (second,), shortest)
    two = two + alone[every, second]
    _, three = _best_further_step(fits, products, (first, second), shortest)
    most = alone[every, one]
    two = np.maximum(two, most)
    return np.stack([np.zeros(len(fits)), most, two, two + three], axis=1)


def _best_further_step(
    fits: Array, products: Array, chosen: tuple[Indices, ...], shortest: int
) -> tuple[Indices, Array]:
    """Return the best step given one or two others, and its reduction of the sum of squares."""
    every, indices = np.arange(len(fits)), np.arange(fits.shape[1])
    left, norms = fits, np.broadcast_to(products.diagonal(), fits.shape)
    done: list[Array] = []
    far = np.ones(fits.shape, dtype=bool)
    for at in chosen:
        column = products[at]
        for earlier, index in zip(done, chosen, strict=False):
            column = column - earlier * (earlier[every, at] / earlier[every, index])[:, None]
        norm = np.maximum(column[every, at], _NOTHING)[:, None]
        left = left - column * (left[every, at][:, None] / norm)
        norms = norms - column**2 / norm
        done.append(column)
        far &= np.abs(indices - at[:, None]) >= shortest
    taken = np.where(far & (norms > 1e-9), left**2 / np.maximum(norms, 1e-9), 0.0)
    best = taken.argmax(axis=1)
    return best, taken[every, best]


def _level_shift_ratios(rows: Array, shortest: int) -> Array:
    """Return twice the log-likelihood ratio of shares with one, two and three steps against one."""
    size, count = rows.shape
    sums = np.zeros((size, count + 1))
    np.cumsum(rows, axis=1, out=sums[:, 1:])
    ends = (np.zeros(size, dtype=int), np.full(size, count))
    none = _negative_log_likelihood(sums, *ends)
    one, least = _further_cut(sums, ends, shortest)
    second, two = _further_cut(sums, (ends[0], one, ends[1]), shortest)
    first, again = _further_cut(sums, (ends[0], second, ends[1]), shortest)
    low, high = np.minimum(first, second), np.maximum(first, second)
    _, three = _further_cut(sums, (ends[0], low, high, ends[1]), shortest)
    two = np.minimum(two, again)
    left = np.stack([least, two, np.minimum(two, three)], axis=1)
    ratios: Array = 2 * (none[:, None] - left)
    return ratios


def _further_cut(sums: Array, bounds: tuple[Indices, ...], shortest: int) -> tuple[Indices, Array]:
    """Return the best further cut of parts, and the negative log-likelihood of all parts then."""
    count = sums.shape[1] - 1
    indices = np.broadcast_to(np.arange(count + 1), sums.shape)
    parts = list(pairwise(bounds))
    whole = [_negative_log_likelihood(sums, begin, end) for begin, end in parts]
    total = np.sum(whole, axis=0)
    gain = np.zeros(sums.shape)
    for (begin, end), before in zip(parts, whole, strict=True):
        low, high = begin[:, None], end[:, None]
        inside = (indices >= low + shortest) & (indices <= high - shortest)
        wide = np.where(inside, indices, low + 1), np.broadcast_to(low, sums.shape)
        split = _negative_log_likelihood(sums, wide[1], wide[0]) + _negative_log_likelihood(
            sums, wide[0], np.broadcast_to(high, sums.shape)
        )
        gain = np.where(inside, before[:, None] - split, gain)
    best = gain.argmax(axis=1)
    return best, total - gain[np.arange(len(sums)), best]


def _negative_log_likelihood(sums: Array, begin: Indices, end: Indices) -> Array:
    """Return the negative log-likelihood of parts, each with its own share of ones."""
    flat = begin.ndim == 1
    low, high = (one[:, None] if flat else one for one in (begin, end))
    ones = np.take_along_axis(sums, high, axis=1) - np.take_along_axis(sums, low, axis=1)
    count = np.maximum(high - low, 1)
    share = np.clip(ones / count, _NOTHING, 1 - _NOTHING)
    result: Array = -count * (share * np.log(share) + (1 - share) * np.log1p(-share))
    return result[:, 0] if flat else result
