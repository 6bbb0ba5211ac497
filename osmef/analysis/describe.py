"""Descriptive statistics of a metric, with a distribution-free interval, and its verdict."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from osmef.analysis.looks import lasting_interval
from osmef.analysis.nested import split
from osmef.analysis.quantiles import finite, quantile_interval
from osmef.results.summary import Metric, Verdict


def describe(values: Iterable[float | None], *, often_looked_at: bool = False) -> Metric:
    """Return the statistics of a metric over trials; ``n`` counts the values that are not None.

    The interval is ``quantile_interval`` of the median at 95 %, which assumes that the values are
    independent; the rest assumes nothing. With ``often_looked_at`` it is ``lasting_interval``, as
    it has to be where the values themselves said when to stop. Raises ValueError for a value that
    is not finite.

    Source: those of ``quantile_interval`` and ``lasting_interval``; Jain, "The Art of Computer
    Systems Performance Analysis", 1991, chapter 12, on indices of location and spread.
    """
    known = finite([value for value in values if value is not None])
    interval = lasting_interval(known) if often_looked_at else quantile_interval(known)
    mean = statistics.fmean(known) if known else None
    stdev = statistics.stdev(known) if len(known) > 1 else None
    return Metric(
        n=len(known),
        median=statistics.median(known) if known else None,
        mean=mean,
        stdev=stdev,
        cov_percent=100 * stdev / mean if mean and stdev is not None else None,
        min=min(known, default=None),
        max=max(known, default=None),
        ci95_low=interval.low,
        ci95_high=interval.high,
        ci95_reason=interval.reason,
    )


def describe_pairs(values: Mapping[int, Sequence[float]]) -> Metric:
    """Return the statistics of trials nested in pairs of endpoints, by the pair's number.

    Median and interval are those of the medians of pairs, as pairs are what is independent; all
    else is as ``describe`` has it of all trials, and the spread is split as ``split`` does.

    Assumed is that pairs are independent of each other.

    Source: those of ``describe`` and ``split``.
    """
    known = {str(pair): list(rows) for pair, rows in values.items() if rows}
    told = describe([value for rows in known.values() for value in rows])
    over = describe([statistics.median(rows) for rows in known.values()])
    reason = over.ci95_reason
    update: dict[str, object] = {
        "pairs": len(known),
        "median": over.median,
        "ci95_low": over.ci95_low,
        "ci95_high": over.ci95_high,
        "ci95_reason": None if reason is None else f"of pairs, {reason}",
    }
    if (found := split(known)) is not None and found.mean:
        update["between_percent"] = 100 * found.between / abs(found.mean)
        update["within_percent"] = 100 * found.within / abs(found.mean)
    return told.model_copy(update=update)


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
