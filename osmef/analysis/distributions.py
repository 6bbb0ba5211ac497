"""Probability distributions for tests and intervals, without the import of scipy and NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
_TINY = 1e-300
_PRECISION = 1e-15
_MOST_TERMS = 100_000


def normal_cdf(x: float) -> float:
    """Return the probability that a standard normal variable is at most x."""
    return math.erfc(-x / math.sqrt(2)) / 2


def normal_quantile(share: float) -> float:
    """Return the x that a standard normal variable is at most with a probability in (0, 1)."""
    return _NORMAL.inv_cdf(share)


def binomial_cdf(k: int, n: int, share: float) -> float:
    """Return the probability of at most k successes of n, each with a probability in (0, 1)."""
    if k < 0 or k >= n:
        return float(k >= 0)
    if k == 0:
        return (1 - share) ** n
    return beta_cdf(1 - share, n - k, k + 1)


def binomial_sf(k: int, n: int, share: float) -> float:
    """Return the probability of more than k successes of n, exact also where it is small."""
    if k < 0 or k >= n:
        return float(k < 0)
    if k == n - 1:
        return share**n
    return beta_cdf(share, k + 1, n - k)


def student_cdf(t: float, freedom: float) -> float:
    """Return the probability that a variable of Student's t is at most t; freedom is above 0."""
    if abs(t) < 1:  # what lies near the middle would be lost to rounding
        return 0.5 + math.copysign(beta_cdf(t * t / (freedom + t * t), 0.5, freedom / 2), t) / 2
    tail = beta_cdf(freedom / (freedom + t * t), freedom / 2, 0.5) / 2
    return 1 - tail if t > 0 else tail


def student_quantile(share: float, freedom: float) -> float:
    """Return the t that a variable of Student's t is at most with a probability in (0, 1)."""
    reach = 2.0
    while student_cdf(-reach, freedom) > min(share, 1 - share):
        reach *= 2
    return root(lambda t: student_cdf(t, freedom) - share, -reach, reach)


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b) for a, b > 0 and 0 <= x <= 1.

    Source: DLMF (https://dlmf.nist.gov/8.17), 8.17.22, its continued fraction, evaluated as in
    Lentz, Applied Optics 15, 1976.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) - math.log(a)
    front += a * math.log(x) + b * math.log1p(-x)
    up, down = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    found = down
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            down = 1 / _nonzero(1 + term * down)
            up = _nonzero(1 + term / up)
            found *= up * down
        if abs(up * down - 1) < _PRECISION:
            break
    return math.exp(front) * found


@lru_cache(maxsize=4096)
def beta_quantile(share: float, a: float, b: float) -> float:
    """Return the x at which ``beta_cdf`` is a share in (0, 1)."""
    return root(lambda x: beta_cdf(x, a, b) - share, 0.0, 1.0)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that rises or falls between low and high is 0.

    Source: Ridders, IEEE Trans. Circuits and Systems 26, 1979.
    """
    at_low, at_high = function(low), function(high)
    if at_low == 0 or at_high == 0:
        return low if at_low == 0 else high
    found = math.inf
    for _ in range(200):
        middle = (low + high) / 2
        at_middle = function(middle)
        curve = math.sqrt(at_middle**2 - at_low * at_high)
        if curve == 0:
            return middle
        before = found
        found = middle + (middle - low) * math.copysign(at_middle / curve, at_middle * at_low)
        at_found = function(found)
        if at_found == 0 or abs(found - before) <= 1e-14 * abs(found):
            return found
        for x, at in ((middle, at_middle), (found, at_found)):
            if low < x < high:
                low, at_low, high, at_high = (
                    (x, at, high, at_high) if at * at_low > 0 else (low, at_low, x, at)
                )
    return found


def _nonzero(value: float) -> float:
    """Return a value, or a tiny one instead of zero, as a divisor."""
    return value if abs(value) > _TINY else _TINY
