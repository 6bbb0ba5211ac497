"""Trends and autocorrelation of a series: in the order of measurement, and over bytes carried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from osmef.analysis.distributions import normal_cdf, normal_quantile
from osmef.analysis.null_distributions import chi_squared_sf, doubled_ranks, exact_p, s_variance
from osmef.analysis.quantiles import ConfidenceInterval, finite

Array = npt.NDArray[np.float64]

_SHORTEST = 5
_LONGEST = 1000
_ORDERS = 999
_MANY = 100
_SEED = 19430414
_COUNTED_OUT = 33


@dataclass(frozen=True)
class Autocorrelation:
    """Autocorrelation of a series.

    ``coefficients`` holds those of lag 1, 2 and so on, from -1 to 1. In a series without
    autocorrelation each lies within -``bound`` to ``bound`` with 95 %; ``p`` is the probability of
    coefficients at least as large together.
    """

    coefficients: Array
    bound: float
    p: float


@dataclass(frozen=True)
class CommonAutocorrelation:
    """Lag-1 autocorrelation of several series together.

    ``coefficient`` is the autocorrelation of lag 1 of the ranks, corrected for the mean of each
    series being its own, ``p`` the probability of one as far from 0 in independent series.
    """

    coefficient: float
    p: float


@dataclass(frozen=True)
class Drift:
    """Monotonic trend of a series.

    ``slope`` is the median one, in the values' unit per unit of the positions; ``tau`` Kendall's,
    from -1 for always falling to 1 for always rising; ``p`` the probability of one as far from 0
    without a drift.
    """

    slope: float
    interval: ConfidenceInterval
    tau: float
    p: float


def autocorrelation(values: Sequence[float], lags: int = 1) -> Autocorrelation | None:
    """Return the autocorrelation of a series, up to a lag, with the test of Ljung and Box.

    ``values`` are n observations in the order in which they were made, at equal steps, in any one
    unit. The coefficients are those around the series' own mean; the bound is 1.96/sqrt(n). Assumed
    is that there is no drift or step, which look like autocorrelation. None where the values are
    all the same. Raises ValueError for a value that is not finite, and for fewer than ``lags`` + 2
    values.

    Source: Box and Jenkins, "Time Series Analysis", 1976, chapter 2; Ljung and Box, Biometrika 65,
    1978.
    """
    series = np.asarray(finite(values))
    if not 1 <= lags <= series.size - 2:
        raise ValueError(f"{series.size} values are too few for {lags} lags")
    if np.ptp(series) == 0:
        return None
    centred = (series - series.mean()) / np.ptp(series)
    power = float(centred @ centred)
    found = [float(centred[lag:] @ centred[:-lag]) / power for lag in range(1, lags + 1)]
    squares = sum(one**2 / (series.size - lag) for lag, one in enumerate(found, 1))
    p = chi_squared_sf(series.size * (series.size + 2) * squares, lags)
    return Autocorrelation(np.asarray(found), 1.96 / math.sqrt(series.size), p)


def common_autocorrelation(series: Sequence[Sequence[float]]) -> CommonAutocorrelation | None:
    """Return the lag-1 autocorrelation of several short series together.

    ``series`` are those of the cells of a run, say, each in its order, in units of their own; in
    ten values an autocorrelation that makes an interval far too narrow is not significant, in ten
    values of each of 24 cells it is. The ranks within each series count. p compares them with the
    same values in other orders, which holds for independent values of any distribution: of fewer
    than ``_MANY`` values in ``_ORDERS`` orders, of more by the exact mean and variance over all
    orders, since a sum of so many is normal. Series of fewer than 5 values, and such without any
    spread, don't count, and of long ones the first ``_LONGEST``; None where none is left. Raises
    ValueError for a value that is not finite.

    Assumed is that all series have the same autocorrelation. A drift looks like one.

    Source: Wald and Wolfowitz, "An Exact Test for Randomness in the Non-parametric Case Based on
    Serial Correlation", Ann. Math. Statist. 14, 1943; Bartels, J. Am. Stat. Assoc. 77, 1982.
    """
    known = [np.asarray(finite(values[:_LONGEST])) for values in series]
    known = [values for values in known if values.size >= _SHORTEST and np.ptp(values)]
    if not known:
        return None
    scores = [(ranks - ranks.mean()) / ranks.std() for ranks in map(doubled_ranks, known)]
    found = sum(float(of[1:] @ of[:-1]) for of in scores)
    expected = -float(len(scores))  # each series alone has a mean of -1
    count = sum(of.size for of in scores)
    coefficient = (found - expected) / count
    if count >= _MANY:
        spread = math.sqrt(sum(_order_variance(of) for of in scores))
        return CommonAutocorrelation(coefficient, 2 * normal_cdf(-abs(found - expected) / spread))
    chance, others = np.random.default_rng(_SEED), np.zeros(_ORDERS)
    for of in scores:
        orders = chance.permuted(np.tile(of, (_ORDERS, 1)), axis=1)
        others += (orders[:, 1:] * orders[:, :-1]).sum(axis=1)
    far = int((np.abs(others - expected) >= abs(found - expected) * (1 - 1e-9)).sum())
    return CommonAutocorrelation(coefficient, (1 + far) / (1 + _ORDERS))


def _order_variance(scores: Array) -> float:
    """Return the variance of the sum of products of neighbours over all orders of the scores."""
    n = scores.size
    second, fourth = float((scores**2).sum()), float((scores**4).sum())
    same = (second**2 - fourth) / n
    shared = 2 * (2 * fourth - second**2) / (n * (n - 1))
    apart = (3 * second**2 - 6 * fourth) / (n * (n - 1))
    return same + shared + apart - 1


def drift(
    values: Sequence[float], positions: Sequence[float] | None = None, confidence: float = 0.95
) -> Drift:
    """Return the trend of a series: Theil and Sen's slope, and Mann and Kendall's test.

    ``values`` are n >= 3 observations in any one unit; ``positions`` say when each was made, or its
    place in the order, all different; 0, 1, 2 ... without. Assumed is that the observations are
    independent but for the trend, which itself need not be a line; outliers do little. p is exact
    up to 33 values without ties. Raises ValueError for a value that is not finite, too few, and for
    positions that repeat.

    Source: Sen, J. Am. Stat. Assoc. 63, 1968; Mann, Econometrica 13, 1945; Kendall, "Rank
    Correlation Methods", 1948.
    """
    series = np.asarray(finite(values))
    at = np.arange(series.size, dtype=np.float64)
    if positions is not None:
        at = np.asarray(finite(positions))
    if series.size < 3 or at.size != series.size:
        raise ValueError("a drift needs at least 3 values, each with its position")
    if np.unique(at).size < at.size:
        raise ValueError("two values have the same position")
    first, second = np.triu_indices(series.size, 1)
    rises, steps = series[second] - series[first], at[second] - at[first]
    slopes = np.sort(rises / steps)
    slope, interval = float(np.median(slopes)), _slope_interval(series, slopes, confidence)
    if np.ptp(series) == 0:
        return Drift(0.0, interval, 0.0, 1.0)
    s = int((np.sign(rises) * np.sign(steps)).sum())
    tied = slopes.size - int(np.count_nonzero(rises))
    tau = s / math.sqrt(slopes.size * (slopes.size - tied))
    if not tied and series.size <= _COUNTED_OUT:
        return Drift(slope, interval, tau, exact_p(s, [series.size]))
    spread = math.sqrt(s_variance(at, series))
    return Drift(slope, interval, tau, 2 * normal_cdf(-abs(s) / spread))


def _slope_interval(series: Array, slopes: Array, confidence: float) -> ConfidenceInterval:
    """Return the interval of the median of the sorted slopes between every two values."""
    counts = np.unique(series, return_counts=True)[1].astype("float64")
    tied = float((counts * (counts - 1) * (2 * counts + 5)).sum())
    n = series.size
    reach = -normal_quantile((1 - confidence) / 2) * math.sqrt(
        (n * (n - 1) * (2 * n + 5) - tied) / 18
    )
    low = max(round((slopes.size - reach) / 2) - 1, 0)
    high = min(round((slopes.size + reach) / 2), slopes.size - 1)
    return ConfidenceInterval(float(slopes[low]), float(slopes[high]), confidence)


def outliers(values: Sequence[float], reach: float = 1.5) -> npt.NDArray[np.bool_]:
    """Return which values lie outside of Tukey's fences; they should be examined, never removed.

    ``values`` are n observations in any one unit; the answer has one bool for each, in their order.
    The fences stand ``reach`` interquartile ranges below the first and above the third quartile
    (Hyndman and Fan's definition 7), as the whiskers of a box plot. Assumed is a roughly symmetric
    distribution: of a normal one 0.7 % lie outside, of a skewed one many more. Fewer than 5 values
    have none. Raises ValueError for a value that is not finite.

    Source: Tukey, "Exploratory Data Analysis", 1977, chapter 2.
    """
    known = np.asarray(finite(values))
    if known.size < 5:
        return np.zeros(known.size, dtype=np.bool_)
    low, high = np.quantile(known, [0.25, 0.75])
    fence = reach * (high - low)
    flags: npt.NDArray[np.bool_] = (known < low - fence) | (known > high + fence)
    return flags


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
    def is_reportable(self) -> bool:
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
class _CellTrend:
    n: int
    s: int
    variance: float
    tied: bool
    change: float


def _of_cell(values: Sequence[float], before: Sequence[float]) -> _CellTrend | None:
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
    return _CellTrend(y.size, s, s_variance(x, y), tied, change)


def _normal_p(total: int, cells: Sequence[_CellTrend]) -> float:
    spread = math.sqrt(sum(one.variance for one in cells))
    return min(1.0, 2 * normal_cdf(-max(0, abs(total) - 1) / spread))
