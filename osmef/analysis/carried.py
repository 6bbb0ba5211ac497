"""Whether results follow what their endpoints have sent and received before: buckets that empty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from osmef.analysis.quantiles import finite

Array = npt.NDArray[np.float64]

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
    """How values follow what was carried before: ``change`` is a share of them, -0.1 for a tenth.

    It is that from the least to the most that was carried in a cell, the median over the cells;
    ``p`` is the probability of an order that is as far from chance.
    """

    change: float
    p: float

    @property
    def is_told(self) -> bool:
        """Whether it is worth a warning."""
        return self.p <= LEVEL and abs(self.change) >= LEAST


def carried_trend(cells: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Trend | None:
    """Return the trend of a metric over what was carried, in all cells together.

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
    p = _exact_p(total, [one.n for one in found]) if exact else _normal_p(total, found)
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
    middle = float(np.median(y)) if y.size else 0.0
    if y.size < FEWEST or not np.ptp(y) or not np.ptp(x) or not middle:
        return None
    rows, columns = np.triu_indices(y.size, 1)
    dx, dy = x[columns] - x[rows], y[columns] - y[rows]
    s = int((np.sign(dx) * np.sign(dy)).sum())
    slopes = dy[dx != 0] / dx[dx != 0]
    change = float(np.median(slopes) * np.ptp(x) / abs(middle))
    tied = bool((dx == 0).any() or (dy == 0).any())
    return _Cell(y.size, s, _variance(x, y), tied, change)


def _variance(x: Array, y: Array) -> float:
    """Return the variance of S over all orders, with ties (Kendall, "Rank Correlation Methods")."""
    n = x.size
    ties = [np.unique(of, return_counts=True)[1].astype("float64") for of in (x, y)]
    first = [float((t * (t - 1) * (2 * t + 5)).sum()) for t in ties]
    second = [float((t * (t - 1) * (t - 2)).sum()) for t in ties]
    third = [float((t * (t - 1)).sum()) for t in ties]
    found = (n * (n - 1) * (2 * n + 5) - first[0] - first[1]) / 18
    found += second[0] * second[1] / (9 * n * (n - 1) * (n - 2))
    return found + third[0] * third[1] / (2 * n * (n - 1))


def _normal_p(total: int, cells: Sequence[_Cell]) -> float:
    from scipy.special import ndtr  # noqa: PLC0415 - slow to load

    spread = math.sqrt(sum(one.variance for one in cells))
    return min(1.0, 2 * float(ndtr(-max(0, abs(total) - 1) / spread)))


def _exact_p(total: int, counts: Sequence[int]) -> float:
    """Return the chance of a sum of S as far from 0, from the numbers of inversions of orders."""
    chances = np.ones(1)
    for n in counts:
        for size in range(2, n + 1):  # the last of so many may pass 0 to size - 1 others
            sums = np.fromiter(accumulate([*chances.tolist(), *[0.0] * (size - 1)]), "float64")
            sums[size:] -= sums[:-size].copy()
            chances = sums / size
    inversions = (chances.size - 1 - abs(total)) // 2  # S is what is not inverted less what is
    return min(1.0, 2 * float(chances[: inversions + 1].sum()))
