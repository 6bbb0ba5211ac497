"""What a difference means: better, worse, the same, or nobody can tell."""

from __future__ import annotations

from enum import StrEnum

from osmef.analysis.quantiles import Interval
from osmef.results.measure import Better


class Verdict(StrEnum):
    """What a difference means."""

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


def verdict(
    interval: Interval, margin: float, better: Better, p: float = 0.0, level: float = 0.05
) -> Verdict:
    """Return what the interval of a difference, in a metric's unit, means.

    ``margin`` >= 0, in the same unit, is how large a difference does not matter. The same: the
    whole interval is within -margin to margin. Better or worse, or different where a metric has no
    better way: the whole interval is beyond, and ``p``, of a difference beyond the margin and
    corrected for all verdicts that are given together, is at most ``level``. Inconclusive: anything
    else, or no interval.

    Assumed is what the interval assumes: see ``hodges_lehmann``.

    Source: Hoefler and Belli, "Scientific Benchmarking of Parallel Computing Systems", SC 2015,
    rule 7, on comparing by intervals; the margin: Schuirmann, J. Pharmacokin. Biopharm. 15, 1987.
    """
    low, high = interval.low, interval.high
    if low is None or high is None:
        return Verdict.INCONCLUSIVE
    if -margin <= low and high <= margin:
        return Verdict.SAME
    if (low <= margin and high >= -margin) or p > level:
        return Verdict.INCONCLUSIVE
    if better is Better.NEITHER:
        return Verdict.DIFFERENT
    return Verdict.BETTER if (low > margin) == (better is Better.HIGHER) else Verdict.WORSE
