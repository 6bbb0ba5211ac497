"""The chi-squared distribution, without the import of scipy."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from osmef.analysis.distributions import normal_quantile

Array = npt.NDArray[np.float64]

_TINY = 1e-300
_PRECISION = 1e-15
_MOST_TERMS = 100_000


def chi_squared_above(x: float, freedom: float) -> float:
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
