"""Sequential confidence interval of the median, valid under repeated looks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

from osmef.analysis.quantiles import ConfidenceInterval, check, finite


def lasting_interval(values: Sequence[float], confidence: float = 0.95) -> ConfidenceInterval:
    """Return a confidence sequence of the median: it covers at all n simultaneously.

    ``values`` are the n observations so far, of any one unit. Whoever looks after each observation
    and stops when the interval pleases has the truth in it with the confidence nevertheless; that
    is not so of ``quantile_interval``, which it is wider than: of 20 values it goes from the 4th to
    the 17th, not from the 6th to the 15th. It is [X(l), X(n - l + 1)], where fewer than l values on
    one side of the median would make a bet on there being too few there win 1 / (1 - confidence)
    times its stake; the bet is an even mixture of all chances. For 95 % it needs 8 values. Raises
    ValueError for a value that is not finite, and for a confidence outside (0, 1).

    Assumed is that the values are independent and of one continuous distribution of any shape; ties
    make the interval wider.

    Source: Ville, "Etude critique de la notion de collectif", 1939; Robbins, Ann. Math. Statist.
    41, 1970; for quantiles Howard and Ramdas, Bernoulli 28, 2022.
    """
    ordered = sorted(finite(values))
    rank = lasting_rank(len(ordered), confidence)
    if rank == 0:
        reason = f"n = {len(ordered)}; {100 * confidence:g} % at every n needs more"
        return ConfidenceInterval(None, None, None, reason)
    return ConfidenceInterval(ordered[rank - 1], ordered[-rank], confidence)


def is_known(values: Sequence[float], width: float) -> bool:
    """Return whether ``lasting_interval`` is no wider than a share of the median.

    ``width`` is that of the whole interval, as a share of the median: 0.1 for +-5 %. Values that
    are not finite don't count. Whoever measures until this is so has the truth in the interval with
    95 % nevertheless.

    Assumed is what ``lasting_interval`` assumes.

    Source: that of ``lasting_interval``.
    """
    known = [value for value in values if math.isfinite(value)]
    found = lasting_interval(known)
    if found.low is None or found.high is None:
        return False
    return found.high - found.low <= width * abs(statistics.median(known))


@lru_cache(maxsize=4096)
def lasting_rank(n: int, confidence: float = 0.95) -> int:
    """Return the rank l of ``lasting_interval``, with its assumptions; 0 without an interval.

    The wealth of the bet after n values, s of them below, is 2^n s! (n - s)! / (n + 1)!.

    Source: that of ``lasting_interval``.
    """
    check(0.5, confidence)
    sure = -math.log(1 - confidence) - n * math.log(2) + math.lgamma(n + 2)
    return sum(
        math.lgamma(below + 1) + math.lgamma(n - below + 1) >= sure for below in range(n // 2 + 1)
    )
