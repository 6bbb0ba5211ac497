"""Trends of results over what endpoints had carried before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from osmef.analysis.distributions import normal_below
from osmef.analysis.quantiles import finite
from osmef.analysis.ranks import exact_p, s_variance

LEVEL = 0.01
"""Of runs without a trend at most this share is warned of ..."""
LEAST = 0.02
"""... and of changes that are smaller none."""
FEWEST = 5
"""Of values in a cell; fewer don't count."""
_MOST = 500
_MOST_INVERSIONS = 20_000


@dataclass(frozen=True)
class Trend:
    """Trend of values over past traffic: ``change`` is relative, -0.1 for a drop by a tenth.

    It is that from the least to the most that was carried in a cell, the median over the cells;
    ``p`` is the probability of an order that is as far from chance.
    """

    change: float
    p: float

    @property
    def is_told(self) -> bool:
        """Whether the trend is significant and large enough for a warning."""
        return self.p <= LEVEL and abs(self.change) >= LEAST


def carried_trend(cells: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Trend | None:
    """Return the trend of a metric over past traffic, in all cells together.

    Of each cell are given its values, in any unit, and the bytes that its endpoints had carried
    before each. Compared are trials of one cell alone: the statistic is the sum of Kendall's S over
    the cells, with its exact distribution where nothing is tied and the cells are small, and the
    normal one with the variance for ties else. The change is the median of all slopes between two
    trials of a cell, over the range of what was carried there. Cells of fewer than ``FEWEST``
    values, without a spread of either, or of a median of 0, don't count; of long ones about
    ``_MOST`` values at equal steps do. None where no cell is left. Raises ValueError for a value
    that is not finite.

    Assumed is that without a trend all orders of a cell's values are equally likely: values that
    remember each other seem to have one more often.

    Source: Hirsch, Slack and Smith, "Techniques of Trend Analysis for Monthly Water Quality Data",
    Water Resources Research 18, 1982: Mann and Kendall's test over seasons, which are cells here.
    """
    found = [one for values, before in cells if (one := _of_cell(values, before)) is not None]
    if not found:
        return None
    total = sum(one.s for one in found)
    exact = not any(one.tied for one in found)
    exact = exact and sum(one.n * (one.n - 1) // 2 for one in found) <= _MOST_INVERSIONS
    p = exact_p(total, [one.n for one in found]) if exact else _normal_p(total, found)
    return Trend(float(np.median([one.change for one in found])), p)


@dataclass(frozen=True)
class _Cell:
    n: int
    s: int
    variance: float
    tied: bool
    change: float


def _of_cell(values: Sequence[float], before: Sequence[float]) -> _Cell | None:
    step = math.ceil(len(values) / _MOST) or 1
    y, x = np.asarray(finite(values))[::step], np.asarray(finite(before))[::step]
    if y.size < FEWEST or not np.ptp(y) or not np.ptp(x):
        return None
    middle = float(np.median(y))
    if not middle:
        return None
    rows, columns = np.triu_indices(y.size, 1)
    dx, dy = x[columns] - x[rows], y[columns] - y[rows]
    s = int((np.sign(dx) * np.sign(dy)).sum())
    slopes = dy[dx != 0] / dx[dx != 0]
    change = float(np.median(slopes) * np.ptp(x) / abs(middle))
    tied = bool((dx == 0).any() or (dy == 0).any())
    return _Cell(y.size, s, s_variance(x, y), tied, change)


def _normal_p(total: int, cells: Sequence[_Cell]) -> float:
    spread = math.sqrt(sum(one.variance for one in cells))
    return min(1.0, 2 * normal_below(-max(0, abs(total) - 1) / spread))
