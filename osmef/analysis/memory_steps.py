"""Tells steps from memory: two null distributions of series that wander without any step.

One is an autoregression whose neighbours are correlated by up to ``MEMORY``; the other is of two
kinds of hosts, of which the next value often has the same one as the last (``STAYS``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

MEMORY = 0.9
"""The correlation of neighbours up to which the rate of false alarms holds."""

STAYS = 0.5
"""The same, of which kind of host a value is from."""

_TRIED = (-0.5, -0.2, 0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
_SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
_STEPS = 3
"""How many steps a series is described by at most, at once."""
_MOST, _LEAST, _VALUES = 9999, 1999, 400_000
_AT_ONCE = 500
_EQUAL = 0.98
"""At this quantile of noise descriptions by one, two and three steps count alike."""
_NOTHING = 1e-12
_SEED = 20120705


def wandering_p(series: Array, shortest: int) -> float:
    """Return the p-value of steps, if neighbours are correlated by up to ``MEMORY``.

    ``series`` are n values in their order, not all equal, n at least 2 ``shortest``. Compared are
    the likelihoods of an autoregression of first order without and with up to three steps, each
    with the memory that suits it best: a step leaves no memory within its levels, and a memory
    does. p is the share of simulated series without a step that look as clear at a memory of
    ``MEMORY``; with less of it fewer do.
    They are rounded to half a standard deviation, as rounded values look clearer than others.

    Assumed are normal values; of others see the simulations in docs/methods.md.

    Source: Robbins, Gallagher, Lund and Aue, J. Time Ser. Anal. 32, 2011 (change-points and
    autocorrelation); Box and Jenkins, "Time Series Analysis", 1970 (first-order autoregression).
    """
    count = series.size
    scaled = ((series - np.median(series)) / np.ptp(series))[None, :]
    return _share(likelihoods(scaled, shortest)[0], _wandering(count, shortest))


def staying_p(series: Array, levels: tuple[float, float], shortest: int) -> float:
    """Return the p-value of steps, if values are of two kinds of hosts that stay for a while.

    Arguments are as those of ``wandering_p``; ``levels`` are those before and after the clearest
    step. Each value is of the one kind or of the other, by which side of the levels' middle it is
    on, or of the widest gap between them, whichever is clearer. p is the share of simulated series
    of two kinds, of which each value is correlated with the one before by ``STAYS``, that up to
    three steps describe as well.

    Assumed is nothing of how the values of one kind are distributed.

    Source: Braun and Mueller, "Statistical Methods for DNA Sequence Segmentation", Statist. Sci.
    13, 1998 (steps of a share).
    """
    low, high = sorted(levels)
    between = np.unique(np.r_[low, series[(series >= low) & (series <= high)], high])
    widest = int(np.argmax(np.diff(between))) if between.size > 1 else 0
    borders = {(low + high) / 2, float(between[widest : widest + 2].mean())}
    return min(_kinds_p(series > border, shortest) for border in borders)


def _kinds_p(above: npt.NDArray[np.bool_], shortest: int) -> float:
    share = min(float(above.mean()), 1 - float(above.mean()))
    nearest = min(_SHARES, key=lambda one: abs(one - share))
    found = _shares_told(above[None, :].astype(float), shortest)[0]
    return _share(found, _staying(above.size, shortest, nearest))


def _share(found: Array, null: tuple[Array, Array]) -> float:
    offsets, known = null
    clearest = float((found - offsets).max())
    above = known.size - int(np.searchsorted(known, clearest - 1e-9))
    return (1 + above) / (1 + known.size)


def _null(rows: Iterator[Array], told: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Return what each number of steps has more than one, and the sorted clearest of noise."""
    found = np.concatenate([told(some) for some in rows])
    known = np.quantile(found, _EQUAL, axis=0)
    offsets = known - known[0]
    return offsets, np.sort((found - offsets).max(axis=1))


@lru_cache(maxsize=64)
def _wandering(count: int, shortest: int) -> tuple[Array, Array]:
    grain = 0.5 / math.sqrt(1 - MEMORY**2)
    series = (grain * np.round(rows / grain) for rows in wanderers(count, MEMORY))
    return _null(series, lambda rows: likelihoods(rows, shortest))


@lru_cache(maxsize=256)
def _staying(count: int, shortest: int, share: float) -> tuple[Array, Array]:
    return _null(stayers(count, share), lambda rows: _shares_told(rows, shortest))


def _batches(count: int) -> Iterator[int]:
    left = max(_LEAST, min(_MOST, _VALUES // count))
    while left > 0:
        yield min(_AT_ONCE, left)
        left -= _AT_ONCE


def wanderers(count: int, memory: float) -> Iterator[Array]:
    """Yield simulated normal series of that lag-1 autocorrelation, in batches.

    Assumed is that each value follows from the one before.

    Source: Box and Jenkins, as ``wandering_p``.
    """
    chance = np.random.default_rng(_SEED)
    for some in _batches(count):
        noise = chance.standard_normal((some, count))
        noise[:, 0] /= math.sqrt(1 - memory**2)
        for at in range(1, count):
            noise[:, at] += memory * noise[:, at - 1]
        yield noise


def stayers(count: int, share: float) -> Iterator[Array]:
    """Yield simulated series of 0 and 1, which is that share of them, in batches.

    Assumed is a Markov chain: each value is that of the one before, or drawn anew.

    Source: Norris, "Markov Chains", 1997.
    """
    chance = np.random.default_rng(_SEED)
    for some in _batches(count):
        rows = (chance.random((some, count)) < share).astype(float)
        stays = chance.random((some, count)) < STAYS
        for at in range(1, count):
            rows[:, at] = np.where(stays[:, at], rows[:, at - 1], rows[:, at])
        yield rows


def likelihoods(rows: Array, shortest: int) -> Array:
    """Return twice the log-likelihood ratio of one, two and three steps against none.

    ``rows`` are series; the answer has a row for each. The second and third step are the best ones
    beside those before, and the first is looked for again beside the second. Assumed is what
    ``wandering_p`` assumes.

    Source: that of ``wandering_p``.
    """
    best = np.full((len(rows), 1 + _STEPS), -np.inf)
    for memory in _TRIED:
        sums = _squares(rows, memory, shortest)
        fit = math.log(1 - memory**2) - rows.shape[1] * np.log(np.maximum(sums, _NOTHING))
        np.maximum(best, fit, out=best)
    ratios: Array = best[:, 1:] - best[:, :1]
    return ratios


def _squares(rows: Array, memory: float, shortest: int) -> Array:
    """Return the sums of squares left by none, one, two and three steps, at one memory."""
    count = rows.shape[1]
    first, rest = math.sqrt(1 - memory**2), 1 - memory
    white = rows.copy()
    white[:, 1:] -= memory * rows[:, :-1]
    white[:, 0] *= first
    tail = np.zeros((len(rows), count + 1))
    tail[:, :-1] = white[:, ::-1].cumsum(axis=1)[:, ::-1]
    middles = np.arange(shortest, count - shortest + 1)
    after = count - 1 - middles
    level = first**2 + rest**2 * (count - 1)
    shared = rest + rest**2 * after  # of a step's column with that of the level
    level_fit = first * white[:, 0] + rest * tail[:, 1]
    fits = white[:, middles] + rest * tail[:, middles + 1] - shared / level * level_fit[:, None]
    later = np.maximum.outer(middles, middles)
    products = rest + rest**2 * (count - 1 - later) - np.outer(shared, shared) / level
    products[np.diag_indices(middles.size)] = 1 + rest**2 * after - shared**2 / level
    none = (white**2).sum(axis=1) - level_fit**2 / level
    left: Array = none[:, None] - _taken(fits, products, shortest)
    return left


def _taken(fits: Array, products: Array, shortest: int) -> Array:
    """Return what none, one, two and three steps take off the sum of squares."""
    every = np.arange(len(fits))
    norms = products.diagonal()
    alone = fits**2 / norms
    one = alone.argmax(axis=1)
    second, _ = _beside(fits, products, (one,), shortest)
    first, two = _beside(fits, products, (second,), shortest)
    two = two + alone[every, second]
    _, three = _beside(fits, products, (first, second), shortest)
    most = alone[every, one]
    two = np.maximum(two, most)
    return np.stack([np.zeros(len(fits)), most, two, two + three], axis=1)


def _beside(
    fits: Array, products: Array, chosen: tuple[Indices, ...], shortest: int
) -> tuple[Indices, Array]:
    """Return the best step beside one or two others, and what it takes off."""
    every, places = np.arange(len(fits)), np.arange(fits.shape[1])
    left, norms = fits, np.broadcast_to(products.diagonal(), fits.shape)
    done: list[Array] = []
    far = np.ones(fits.shape, dtype=bool)
    for at in chosen:
        column = products[at]
        for earlier, place in zip(done, chosen, strict=False):
            column = column - earlier * (earlier[every, at] / earlier[every, place])[:, None]
        norm = np.maximum(column[every, at], _NOTHING)[:, None]
        left = left - column * (left[every, at][:, None] / norm)
        norms = norms - column**2 / norm
        done.append(column)
        far &= np.abs(places - at[:, None]) >= shortest
    taken = np.where(far & (norms > 1e-9), left**2 / np.maximum(norms, 1e-9), 0.0)
    best = taken.argmax(axis=1)
    return best, taken[every, best]


def _shares_told(rows: Array, shortest: int) -> Array:
    """Return twice the log-likelihood ratio of shares with one, two and three steps against one."""
    size, count = rows.shape
    sums = np.zeros((size, count + 1))
    np.cumsum(rows, axis=1, out=sums[:, 1:])
    ends = (np.zeros(size, dtype=int), np.full(size, count))
    none = _surprise(sums, *ends)
    one, least = _cut_again(sums, ends, shortest)
    second, two = _cut_again(sums, (ends[0], one, ends[1]), shortest)
    first, again = _cut_again(sums, (ends[0], second, ends[1]), shortest)
    low, high = np.minimum(first, second), np.maximum(first, second)
    _, three = _cut_again(sums, (ends[0], low, high, ends[1]), shortest)
    two = np.minimum(two, again)
    left = np.stack([least, two, np.minimum(two, three)], axis=1)
    ratios: Array = 2 * (none[:, None] - left)
    return ratios


def _cut_again(sums: Array, bounds: tuple[Indices, ...], shortest: int) -> tuple[Indices, Array]:
    """Return the best further cut of parts, and the surprise that all parts leave then."""
    count = sums.shape[1] - 1
    places = np.broadcast_to(np.arange(count + 1), sums.shape)
    parts = list(pairwise(bounds))
    whole = [_surprise(sums, begin, end) for begin, end in parts]
    total = np.sum(whole, axis=0)
    gain = np.zeros(sums.shape)
    for (begin, end), before in zip(parts, whole, strict=True):
        low, high = begin[:, None], end[:, None]
        inside = (places >= low + shortest) & (places <= high - shortest)
        wide = np.where(inside, places, low + 1), np.broadcast_to(low, sums.shape)
        split = _surprise(sums, wide[1], wide[0]) + _surprise(
            sums, wide[0], np.broadcast_to(high, sums.shape)
        )
        gain = np.where(inside, before[:, None] - split, gain)
    best = gain.argmax(axis=1)
    return best, total - gain[np.arange(len(sums)), best]


def _surprise(sums: Array, begin: Indices, end: Indices) -> Array:
    """Return the negative log-likelihood of parts, each with its own share."""
    flat = begin.ndim == 1
    low, high = (one[:, None] if flat else one for one in (begin, end))
    ones = np.take_along_axis(sums, high, axis=1) - np.take_along_axis(sums, low, axis=1)
    count = np.maximum(high - low, 1)
    share = np.clip(ones / count, _NOTHING, 1 - _NOTHING)
    told: Array = -count * (share * np.log(share) + (1 - share) * np.log1p(-share))
    return told[:, 0] if flat else told
