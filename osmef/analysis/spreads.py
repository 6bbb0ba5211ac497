"""Change-points of the spread of a series, with a stated false-alarm rate.

Looked for are changes of level in how far each value is from the median of its own level, by two
tests as those of ``osmef.analysis.steps``: the same distances in other orders, which is exact for
independent values of any distribution; and those of series whose neighbours are correlated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from osmef.analysis.memory_steps import wanderers
from osmef.analysis.quantiles import finite
from osmef.analysis.steps import (
    LEVEL,
    SHORTEST,
    LevelShift,
    both_p,
    cuts_of,
    divide,
    divide_all,
    scores_of,
)

Array = npt.NDArray[np.float64]

MEMORY = 0.5
"""The correlation of neighbours up to which the rate of false alarms holds."""


def find_spread(values: Sequence[float], cuts: Sequence[int] = ()) -> LevelShift:
    """Return the most likely change of spread of a series, and the p-value of none.

    ``values`` are n observations in their order, in any one unit; ``cuts`` is where their level
    changes, as ``change_points`` tells: a level that changed is no spread. Compared are the mean
    ranks of the distances from the medians of the levels, in any two neighbouring stretches of at
    least 5 values. p is the larger one of two, as that of ``find_step`` is: among the same
    distances in random orders, and among those of normal series whose neighbours are correlated by
    ``MEMORY``. Fewer than 10 values, and such without any spread, have none. Raises
    ValueError for a value that is not finite.

    Assumed is that values are independent, or correlated with the one before by no more than that;
    and that the levels are right: a drift looks like a spread.

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
    return divide(_distances(values, cuts), level, _find)


def all_spread_changes(
    series: Sequence[Sequence[float]], cuts: Sequence[Sequence[int]], level: float = LEVEL
) -> list[list[int]]:
    """Return ``spread_changes`` of several series, with one false-alarm rate over all of them.

    If none has, one is found in any of them with at most ``level``, for all of them together.
    ``cuts`` are those of each. What is assumed, and errors, are those of ``spread_changes``.

    Source: those of ``spread_changes`` and ``all_change_points``.
    """
    return divide_all(list(map(_distances, series, cuts)), level, _find)


def _distances(values: Sequence[float], cuts: Sequence[int]) -> list[float]:
    """Return the distance of each value from the median of its level.

    A short level's median is nearer to its own values, which the factor makes up for.
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
    p = both_p(scores, cuts, float(found[best]), lambda: _wandering_p(series.size, found[best]))
    return LevelShift(int(cuts.middle[best]), p)


def _wandering_p(count: int, found: float) -> float:
    known = _wandering(count)
    above = known.size - int(np.searchsorted(known, found * (1 - 1e-9)))
    return (1 + above) / (1 + known.size)


@lru_cache(maxsize=64)
def _wandering(count: int) -> Array:
    """Return the null distribution of the change of spread for autocorrelated series, sorted."""
    cuts = cuts_of(count, SHORTEST)
    found = []
    for rows in wanderers(count, MEMORY):
        far = np.abs(rows - np.median(rows, axis=1, keepdims=True))
        ranks = far.argsort(axis=1).argsort(axis=1)
        scores = (ranks - ranks.mean()) / ranks[0].std()
        found.append(cuts.scan(scores).max(axis=1))
    return np.sort(np.concatenate(found))
