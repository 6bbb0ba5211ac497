"""Change-points of the level and of the spread of a series, with a stated false-alarm rate.

A change of level counts only if all tests find it. One compares the series with itself in other
orders: that is exact for independent values of any distribution, be it bimodal, rounded or
heavy-tailed. One measures it by the spread around it, since another part of the series may vary
more. The others compare it with autocorrelated series: otherwise the slow movement of an
autoregression, or several sessions on one slow host, would be taken for steps
(``osmef.analysis.null_distributions``).

Changes of spread are changes of level in how far each value is from the median of its own level,
found by two such tests: the same distances in other orders, and those of series whose neighbours
are correlated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from osmef.analysis.hypothesis_tests import holm
from osmef.analysis.null_distributions import ar1_p, ar1_series, doubled_ranks, two_state_p
from osmef.analysis.quantiles import finite

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

SHORTEST = 5
"""The fewest values of a level."""

LEVEL = 0.05
_ORDERS = 9999
_FEW_ORDERS = 49
_FIRST_ORDERS = 199
_ENOUGH = 20
"""After this many orders that are at least as extreme p is precise enough."""
_FINEST = 40
"""Number of places of a part of a series at which its clearest change is searched first."""
_AT_ONCE = 2_000_000
_SEED = 20120705
_WARY = 0.3
"""The autocorrelation that the clearest t allows for, so that it holds if a part varies more."""


@dataclass(frozen=True)
class LevelShift:
    """The most likely change of level of a series, and its p-value.

    ``at`` is the index of the first value of the new level, ``p`` the probability of a change at
    least as clear in a series without any. For a series that is too short both are None.
    """

    at: int | None
    p: float | None


def find_step(values: Sequence[float], shortest: int = SHORTEST) -> LevelShift:
    """Return the most likely change of level of a series, and the p-value of none.

    ``values`` are n observations in their order, in any one unit. Compared are the mean ranks of
    any two neighbouring stretches of at least ``shortest`` values, of the whole series and of
    shorter parts of it. p is the largest one of four: that among the same values in random orders,
    exact for independent values of any distribution; that of the clearest t of such stretches among
    normal values; that of steps against an autoregression (``ar1_p``); and that of steps against
    two kinds of hosts (``two_state_p``). The smallest possible p of 10 values is 0.008. Fewer than
    2 ``shortest`` values, and such without any spread, have none. Raises ValueError for a value
    that is not finite.

    Assumed is that values are independent, or correlated with the one before by no more than
    ``null_distributions.AUTOCORRELATION``, and by ``null_distributions.PERSISTENCE`` if there are
    two kinds of hosts: with longer stays on one kind, that is a level. A slow drift looks like
    steps, so see ``drift``.

    Source: Pettitt, Applied Statistics 28, 1979 (ranks); Matteson and James, J. Am. Stat. Assoc.
    109, 2014 (random orders); Kovacs, Buehlmann, Li and Munk, Biometrika 110, 2023 (seeded
    intervals); Besag and Clifford, Biometrika 78, 1991 (when enough orders were tried).
    """
    series = np.asarray(finite(values))
    if series.size < 2 * shortest or np.ptp(series) == 0:
        return LevelShift(None, None)
    scores, cuts = scores_of(series), cuts_of(series.size, shortest)
    found = cuts.scan(scores[None, :])[0]
    best = int(np.argmax(found))
    begin, end = int(cuts.begin[best]), int(cuts.end[best])
    at = _clearest_cut(series, begin, end, shortest)
    levels = float(np.median(series[begin:at])), float(np.median(series[at:end]))

    def autocorrelated_p() -> float:
        p = max(ar1_p(series, shortest), _local_p(series, cuts, shortest))
        return p if p > LEVEL else max(p, two_state_p(series, levels, shortest))

    return LevelShift(at, larger_p(scores, cuts, float(found[best]), autocorrelated_p))


def larger_p(
    scores: Array, cuts: Cuts, found: float, autocorrelated_p: Callable[[], float]
) -> float:
    """Return the larger p of two tests; the second runs only if the first is significant.

    ``found`` is the largest of ``cuts.scan`` of the scores. Assumed is what ``find_step`` assumes.

    Source: that of ``find_step``.
    """
    p = _order_p(scores, cuts, found, _FIRST_ORDERS)
    if p > LEVEL:  # the rest is not worth its time
        return p
    other = autocorrelated_p()
    most = _ORDERS if other <= LEVEL else _FIRST_ORDERS
    return max(other, _order_p(scores, cuts, found, most))


def _clearest_cut(series: Array, begin: int, end: int, shortest: int) -> int:
    """Return the cut of a part at which its values are nearest to both levels' medians.

    Ranks show that there is a change, but not how far apart the levels are, so a value or two
    between these seem to belong to either.
    """
    middles = range(begin + shortest, end - shortest + 1)
    return min(middles, key=lambda at: _far(series[begin:at]) + _far(series[at:end]))


def _far(values: Array) -> float:
    return float(np.abs(values - np.median(values)).sum())


def change_points(
    values: Sequence[float], level: float = LEVEL, shortest: int = SHORTEST
) -> list[int]:
    """Return the change-points of the level of a series: the first index of each new level.

    ``values`` are as those of ``find_step``. A series is divided at the clearest change if its p is
    at most ``level``, and so is each part, at its share of the level by its length: of series
    without a change at most that share has any. What is assumed, and errors, are those of
    ``find_step``.

    Source: Vostrikova, Soviet Math. Dokl. 24, 1981 (binary segmentation); those of ``find_step``.
    """
    return binary_segmentation(finite(values), level, lambda part: find_step(part, shortest))


def binary_segmentation(
    known: Sequence[float], level: float, find: Callable[[Sequence[float]], LevelShift]
) -> list[int]:
    """Return the change-points found by binary segmentation, as ``change_points`` does.

    ``find`` returns the clearest change of a part, as ``find_step`` does. Assumed is what it
    assumes.

    Source: that of ``change_points``.
    """
    found: list[int] = []
    parts = [(0, len(known))]
    while parts:
        begin, end = parts.pop()
        step = find(known[begin:end])
        if step.at is None or step.p is None or step.p > level * (end - begin) / len(known):
            continue
        at = begin + step.at
        found.append(at)
        parts += [(begin, at), (at, end)]
    return sorted(found)


def all_change_points(
    series: Sequence[Sequence[float]], level: float = LEVEL, shortest: int = SHORTEST
) -> list[list[int]]:
    """Return ``change_points`` of several series, with one false-alarm rate over all of them.

    If no series has a change, one is found in any of them with at most ``level``, for all of them
    together: the p of their first changes are corrected after Holm. What is assumed, and errors,
    are those of ``change_points``; the series may depend on each other.

    Source: those of ``change_points`` and ``holm``.
    """
    return binary_segmentation_all(
        list(map(finite, series)), level, lambda part: find_step(part, shortest)
    )


def binary_segmentation_all(
    series: Sequence[Sequence[float]], level: float, find: Callable[[Sequence[float]], LevelShift]
) -> list[list[int]]:
    """Return ``binary_segmentation`` of several series, at one level for all of them together.

    Assumed is what ``find`` assumes.

    Source: that of ``all_change_points``.
    """
    found = [find(values).p for values in series]
    every = []
    for values, p, corrected in zip(series, found, holm(found), strict=True):
        if p is None or corrected is None or corrected > level:
            every.append(list[int]())
            continue
        every.append(binary_segmentation(values, level * p / corrected * (1 + 1e-9), find))
    return every


class Cuts(NamedTuple):
    """Candidate cuts: pairs of neighbouring stretches, begin to middle and middle to end."""

    begin: Indices
    middle: Indices
    end: Indices

    def scan(self, rows: Array) -> Array:
        """Return the difference of both stretches' means, in standard errors.

        ``rows`` are series of one spread; the answer has a row for each, a column for each cut.
        """
        before, after = self.middle - self.begin, self.end - self.middle
        sums = _sums(rows)
        first = (sums[:, self.middle] - sums[:, self.begin]) / before
        second = (sums[:, self.end] - sums[:, self.middle]) / after
        apart: Array = np.abs(first - second) / np.sqrt(1 / before + 1 / after)
        return apart

    def t(self, rows: Array, at: Indices) -> Array:
        """Return Student's |t| of each row at its own cut, infinite without spread."""
        begin, middle, end = (one[at][:, None] for one in self)
        indices = np.arange(rows.shape[1])[None, :]
        total = np.zeros(len(rows))
        means, counts = [], []
        for low, high in ((begin, middle), (middle, end)):
            inside = (indices >= low) & (indices < high)
            count = inside.sum(axis=1)
            mean = (rows * inside).sum(axis=1) / count
            total += (((rows - mean[:, None]) * inside) ** 2).sum(axis=1)
            means.append(mean)
            counts.append(count)
        freedom = counts[0] + counts[1] - 2
        error = np.sqrt(total / freedom * (1 / counts[0] + 1 / counts[1]))
        apart = np.abs(means[0] - means[1])
        t: Array = np.where(error > 1e-12, apart / np.maximum(error, 1e-12), np.inf)
        return t


def _sums(rows: Array) -> Array:
    sums = np.zeros((rows.shape[0], rows.shape[1] + 1))
    np.cumsum(rows, axis=1, out=sums[:, 1:])
    return sums


@lru_cache(maxsize=64)
def cuts_of(count: int, shortest: int) -> Cuts:
    """Return the cuts of the whole series and of parts, each shorter by sqrt 2 than the one above.

    Parts of one length overlap by half or more. Nothing is assumed about the values.

    Source: Kovacs et al., as ``find_step``.
    """
    parts = {(0, count): None}
    length = count / math.sqrt(2)
    while length >= 2 * shortest:
        number = 2 * math.ceil(count / length) - 1
        shift = (count - length) / max(1, number - 1)
        for window in range(number):
            begin = math.floor(window * shift)
            parts[begin, min(count, math.ceil(window * shift + length))] = None
        length /= math.sqrt(2)
    return _joined([_candidate_cuts(begin, end, shortest, _FINEST) for begin, end in parts])


def _candidate_cuts(begin: int, end: int, shortest: int, most: int) -> Indices:
    """Return begin, middle and end of the cuts of a part, at about ``most`` places or all."""
    step = max(1, (end - begin) // most)
    middles = np.arange(begin + shortest, end - shortest + 1, step)
    return np.stack([np.full(middles.size, begin), middles, np.full(middles.size, end)])


def _joined(parts: Sequence[Indices]) -> Cuts:
    begin, middle, end = np.concatenate(parts, axis=1)
    return Cuts(begin, middle, end)


def scores_of(values: Array) -> Array:
    """Return standardised mid-ranks. Assumed is that not all values are equal.

    Source: Pettitt, as ``find_step``.
    """
    ranks = doubled_ranks(values.tolist())
    scaled: Array = (ranks - ranks.mean()) / ranks.std()
    return scaled


def _order_p(scores: Array, cuts: Cuts, found: float, most: int) -> float:
    """Return the permutation p-value of the clearest change.

    ``found`` is the largest of ``cuts.scan`` in their own order; ``most`` orders are tried.
    """
    chance = np.random.default_rng(_SEED)
    at_once = max(1, _AT_ONCE // cuts.middle.size)
    tried, above = 0, 0
    while tried < most and above < _ENOUGH:
        until = next(one for one in (_FEW_ORDERS, _FIRST_ORDERS, most) if one > tried)
        count = min(at_once, until - tried)
        orders = chance.permuted(np.tile(scores, (count, 1)), axis=1)
        above += int((cuts.scan(orders).max(axis=1) >= found * (1 - 1e-9)).sum())
        tried += count
    return (1 + above) / (1 + tried)


def _local_p(series: Array, cuts: Cuts, shortest: int) -> float:
    """Return the p-value of the clearest change by the spread of its own two stretches.

    That is where the means themselves are farthest apart: with stretches of unlike lengths, ranks
    place the cut of a clear step next to it.
    """
    scaled = ((series - np.median(series)) / np.ptp(series))[None, :]
    t = float(cuts.t(scaled, cuts.scan(scaled).argmax(axis=1))[0])
    found = _local(series.size, shortest)
    above = found.size - int(np.searchsorted(found, t * (1 - 1e-9)))
    return (1 + above) / (1 + found.size)


@lru_cache(maxsize=64)
def _local(count: int, shortest: int) -> Array:
    """Return the null distribution of the t of the clearest change, of normal values, sorted."""
    cuts = cuts_of(count, shortest)
    found = [cuts.t(rows, cuts.scan(rows).argmax(axis=1)) for rows in ar1_series(count, _WARY)]
    return np.sort(np.concatenate(found))


SPREAD_AUTOCORRELATION = 0.5
"""The correlation of neighbours up to which the rate of false alarms holds."""


def find_spread(values: Sequence[float], cuts: Sequence[int] = ()) -> LevelShift:
    """Return the most likely change of spread of a series, and the p-value of none.

    ``values`` are n observations in their order, in any one unit; ``cuts`` is where their level
    changes, from ``change_points``: a changed level is no change of spread. Compared are the mean
    ranks of the distances from the medians of the levels, in any two neighbouring stretches of at
    least 5 values. p is the larger one of two, as that of ``find_step`` is: among the same
    distances in random orders, and among those of normal series with an autocorrelation of
    ``SPREAD_AUTOCORRELATION``. Fewer than 10 values, and such without any spread, have none. Raises
    ValueError for a value that is not finite.

    Assumed is that values are independent, or have an autocorrelation of no more than that;
    and that the levels are right: a drift looks like a change of spread.

    Source: that of ``find_step``; Levene, "Robust tests for equality of variances", 1960, with the
    medians of Brown and Forsythe, J. Am. Stat. Assoc. 69, 1974 (a spread as a level of distances).
    """
    return _find(_distances(values, cuts))


def spread_changes(
    values: Sequence[float], cuts: Sequence[int] = (), level: float = LEVEL
) -> list[int]:
    """Return the change-points of the spread of a series: the first index of each new spread.

    Arguments, assumptions and errors are those of ``find_spread``. Of series without a change at
    most the share ``level`` has any, as with ``change_points``.

    Source: those of ``find_spread`` and ``change_points``.
    """
    return binary_segmentation(_distances(values, cuts), level, _find)


def all_spread_changes(
    series: Sequence[Sequence[float]], cuts: Sequence[Sequence[int]], level: float = LEVEL
) -> list[list[int]]:
    """Return ``spread_changes`` of several series, with one false-alarm rate over all of them.

    If none has, one is found in any of them with at most ``level``, for all of them together.
    ``cuts`` are those of each. What is assumed, and errors, are those of ``spread_changes``.

    Source: those of ``spread_changes`` and ``all_change_points``.
    """
    return binary_segmentation_all(list(map(_distances, series, cuts)), level, _find)


def _distances(values: Sequence[float], cuts: Sequence[int]) -> list[float]:
    """Return the distance of each value from the median of its level.

    A short level's median is nearer to its own values, which a factor corrects.
    """
    series = np.asarray(finite(values))
    found: list[float] = []
    for begin, end in pairwise([0, *cuts, series.size] if series.size else []):
        count = end - begin
        factor = math.sqrt(count / (count - 1)) if count > 1 else 1.0
        found += (factor * np.abs(series[begin:end] - np.median(series[begin:end]))).tolist()
    return found


def _find(distances: Sequence[float]) -> LevelShift:
    series = np.asarray(distances)
    if series.size < 2 * SHORTEST or np.ptp(series) == 0:
        return LevelShift(None, None)
    scores, cuts = scores_of(series), cuts_of(series.size, SHORTEST)
    found = cuts.scan(scores[None, :])[0]
    best = int(np.argmax(found))
    p = larger_p(scores, cuts, float(found[best]), lambda: _spread_p(series.size, found[best]))
    return LevelShift(int(cuts.middle[best]), p)


def _spread_p(count: int, found: float) -> float:
    known = _spread_null(count)
    above = known.size - int(np.searchsorted(known, found * (1 - 1e-9)))
    return (1 + above) / (1 + known.size)


@lru_cache(maxsize=64)
def _spread_null(count: int) -> Array:
    """Return the null distribution of the change of spread for autocorrelated series, sorted."""
    cuts = cuts_of(count, SHORTEST)
    found = []
    for rows in ar1_series(count, SPREAD_AUTOCORRELATION):
        far = np.abs(rows - np.median(rows, axis=1, keepdims=True))
        ranks = far.argsort(axis=1).argsort(axis=1)
        scores = (ranks - ranks.mean()) / ranks[0].std()
        found.append(cuts.scan(scores).max(axis=1))
    return np.sort(np.concatenate(found))
