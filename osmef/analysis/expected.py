"""Verdict on an expected bound of a median, by its interval."""

from __future__ import annotations

from osmef.results.summary import Verdict


def judge(low: float | None, high: float | None, bound: float, *, at_least: bool) -> Verdict:
    """Return whether an interval is wholly within a bound, wholly beyond it, or neither.

    Where the bound lies within the interval, or there is none, nobody can tell. ``low`` and
    ``high`` are the ends of the 95 % interval of the median.

    Assumed is what the interval assumes. A median that is at the bound exactly is called met, or
    missed, in at most 2.5 % of cases each; one beyond it on the wrong side is met less often.

    Source: Conover, "Practical Nonparametric Statistics", 1999, section 3.2, on tests by intervals.
    """
    if low is None or high is None:
        return Verdict.UNDECIDED
    if not at_least:
        low, high, bound = -high, -low, -bound
    if low >= bound:
        return Verdict.MET
    return Verdict.MISSED if high < bound else Verdict.UNDECIDED
