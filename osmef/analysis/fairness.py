"""Jain's fairness index."""

from __future__ import annotations

import math
from collections.abc import Sequence


def jain_fairness(xs: Sequence[float]) -> float | None:
    """Return Jain's fairness index J = (sum x)^2 / (n * sum x^2), with 1/n <= J <= 1.

    ``xs`` holds one rate a connection, all in one unit; J has none and does not change with the
    unit. J = 1 for equal shares and for n = 1, J = k/n when k of n share evenly and the others get
    nothing. None where it is not defined: without connections, or when all of them got nothing.
    Raises ValueError for a rate that is negative, infinite or not a number.

    Nothing is assumed: it describes what was measured.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource
    Allocation in Shared Computer Systems", DEC-TR-301, 1984.
    """
    for x in xs:
        if not (math.isfinite(x) and x >= 0):
            raise ValueError(f"a rate must be finite and not negative, and {x!r} is not")
    largest = max(xs, default=0.0)
    if largest == 0:
        return None
    # Relative to the largest, squares can neither overflow nor all vanish.
    shares = [x / largest for x in xs]
    j = math.fsum(shares) ** 2 / (len(shares) * math.fsum(share**2 for share in shares))
    return min(j, 1.0)
