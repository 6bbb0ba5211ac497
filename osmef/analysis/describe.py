"""Descriptive statistics of a metric, with a distribution-free interval, and of each cell.

Also the variance components of trials that are nested in pairs of endpoints.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from osmef.analysis.distributions import student_quantile
from osmef.analysis.quantiles import (
    ConfidenceInterval,
    confidence_sequence,
    finite,
    quantile_interval,
)
from osmef.results.summary import MetricSummary, Verdict

if TYPE_CHECKING:  # slow to load
    import pandas as pd


class NextSample(StrEnum):
    """Which level of replication narrows the interval over pairs more, for its time."""

    PAIRS = "pairs"
    TRIALS = "trials"


@dataclass(frozen=True)
class VarianceComponents:
    """Variance components of a cell. Standard deviations are in the unit of the values.

    ``trials`` are those of a pair, in the mean over pairs as the variances need it; ``median`` and
    ``interval`` are those of the medians of pairs; ``mean`` is that of the means of pairs, each of
    which counts once, and ``mean_interval`` Student's, which takes few pairs, but normal ones;
    ``between_share`` is that of the variance of one trial on one pair which is from the pair, 0 to
    1, None where there is no spread at all.
    """

    pairs: int
    trials: float
    mean: float
    median: float
    interval: ConfidenceInterval
    mean_interval: ConfidenceInterval
    between: float
    within: float

    @property
    def between_share(self) -> float | None:
        """The share of the variance that is between pairs (intraclass correlation)."""
        total = self.between**2 + self.within**2
        return self.between**2 / total if total else None

    def standard_error(self, pairs: float | None = None, trials: float | None = None) -> float:
        """Return the standard error of the mean, also with other numbers of pairs and trials."""
        count = self.pairs if pairs is None else pairs
        each = self.trials if trials is None else trials
        return math.sqrt(self.between**2 / count + self.within**2 / (count * each))

    def interval_reduction(self, pairs: int = 0, trials: int = 0) -> float:
        """Return the share by which further pairs, or trials on each, narrow ``mean_interval``."""
        now, then = self._reach(), self._reach(pairs, trials)
        return 1 - then / now if now else 0.0

    def _reach(self, pairs: int = 0, trials: int = 0) -> float:
        count = self.pairs + pairs
        return student_quantile(0.975, count - 1) * self.standard_error(count, self.trials + trials)

    def next_sample(self, pair_cost: float, trial_cost: float) -> NextSample:
        """Return what to replicate: another pair with as many trials, or a trial on each pair.

        ``pair_cost`` is that of making a pair, ``trial_cost`` that of a trial, in one unit, such as
        seconds. The choice is the one that reduces the squared error most for its cost.
        """
        now = self.standard_error() ** 2
        by_pair = now - self.standard_error(pairs=self.pairs + 1) ** 2
        by_trials = now - self.standard_error(trials=self.trials + 1) ** 2
        of_pair = by_pair / (pair_cost + self.trials * trial_cost)
        of_trials = by_trials / (self.pairs * trial_cost)
        return NextSample.PAIRS if of_pair >= of_trials else NextSample.TRIALS


def variance_components(values: Mapping[str, Sequence[float]]) -> VarianceComponents | None:
    """Return the variance components of nested trials; None without two pairs of trials.

    ``values`` are those of each pair's trials, in any one unit; pairs may have unlike numbers. The
    variances are those of the analysis of variance, and that between pairs is 0 where it would be
    below. The interval is ``quantile_interval`` of the medians of pairs: that of a cell whose pairs
    are drawn independently, and needs 6; ``mean_interval`` needs 2, and is wide then. With one pair
    there is no interval: its trials describe only that pair. Raises ValueError for a value that is
    not finite.

    Assumed is that pairs are independent of each other, and trials within a pair; for the standard
    error, too, that both spreads are alike everywhere, and for ``mean_interval`` that the means of
    pairs are normally distributed.

    Source: Searle, Casella and McCulloch, "Variance Components", 1992, section 3.6.
    """
    known = [finite(rows) for rows in values.values() if rows]
    counts, total = [len(rows) for rows in known], sum(map(len, known))
    if len(known) < 2 or total <= len(known):
        return None
    middle = sum(map(sum, known)) / total
    means = [statistics.fmean(rows) for rows in known]
    inner = sum((value - m) ** 2 for rows, m in zip(known, means, strict=True) for value in rows)
    outer = sum(n * (m - middle) ** 2 for n, m in zip(counts, means, strict=True))
    within = inner / (total - len(known))
    each = (total - sum(n * n for n in counts) / total) / (len(known) - 1)
    between = max(0.0, (outer / (len(known) - 1) - within) / each)
    medians = [statistics.median(rows) for rows in known]
    return VarianceComponents(
        pairs=len(known),
        trials=each,
        mean=statistics.fmean(means),
        median=statistics.median(medians),
        interval=quantile_interval(medians),
        mean_interval=_student(means),
        between=math.sqrt(between),
        within=math.sqrt(within),
    )


def _student(means: Sequence[float], confidence: float = 0.95) -> ConfidenceInterval:
    """Return the interval of the mean that these are drawn around."""
    centre, error = statistics.fmean(means), statistics.stdev(means) / math.sqrt(len(means))
    reach = student_quantile((1 + confidence) / 2, len(means) - 1) * error
    return ConfidenceInterval(centre - reach, centre + reach, confidence)


def describe(values: Iterable[float | None], *, often_looked_at: bool = False) -> MetricSummary:
    """Return the statistics of a metric over trials; ``n`` counts the values that are not None.

    The interval is ``quantile_interval`` of the median at 95 %, which assumes that the values are
    independent; the rest assumes nothing. With ``often_looked_at`` it is ``confidence_sequence``,
    as it has to be where the values themselves said when to stop. Raises ValueError for a value
    that is not finite.

    Source: those of ``quantile_interval`` and ``confidence_sequence``; Jain, "The Art of Computer
    Systems Performance Analysis", 1991, chapter 12, on indices of location and spread.
    """
    known = finite([value for value in values if value is not None])
    interval = confidence_sequence(known) if often_looked_at else quantile_interval(known)
    mean = statistics.fmean(known) if known else None
    stdev = statistics.stdev(known) if len(known) > 1 else None
    return MetricSummary(
        n=len(known),
        median=statistics.median(known) if known else None,
        mean=mean,
        stdev=stdev,
        cov_percent=100 * stdev / abs(mean) if mean and stdev is not None else None,
        min=min(known, default=None),
        max=max(known, default=None),
        ci95_low=interval.low,
        ci95_high=interval.high,
        ci95_reason=interval.reason,
    )


def describe_pairs(values: Mapping[int, Sequence[float]]) -> MetricSummary:
    """Return the statistics of trials nested in pairs of endpoints, by the pair's number.

    Median and interval are those of the medians of pairs, as pairs are what is independent; all
    else is that of ``describe`` of all trials, and the spread is split by ``variance_components``.

    Assumed is that pairs are independent of each other.

    Source: those of ``describe`` and ``variance_components``.
    """
    known = {str(pair): list(rows) for pair, rows in values.items() if rows}
    description = describe([value for rows in known.values() for value in rows])
    over = describe([statistics.median(rows) for rows in known.values()])
    reason = over.ci95_reason
    update: dict[str, object] = {
        "pairs": len(known),
        "median": over.median,
        "ci95_low": over.ci95_low,
        "ci95_high": over.ci95_high,
        "ci95_reason": None if reason is None else f"of pairs, {reason}",
    }
    if (found := variance_components(known)) is not None and found.mean:
        update["between_percent"] = 100 * found.between / abs(found.mean)
        update["within_percent"] = 100 * found.within / abs(found.mean)
    return description.model_copy(update=update)


def describe_sessions(values: Mapping[str, Sequence[float]]) -> MetricSummary:
    """Return the statistics of trials nested in several sessions, by the session's name.

    Median and interval are those of the medians of sessions, as sessions are what is independent;
    all else is that of ``describe`` of all trials.

    Assumed is that sessions are independent of each other.

    Source: that of ``describe``.
    """
    known = [list(rows) for rows in values.values() if rows]
    description = describe([value for rows in known for value in rows])
    over = describe([statistics.median(rows) for rows in known])
    reason = over.ci95_reason
    update: dict[str, object] = {
        "sessions": len(known),
        "median": over.median,
        "ci95_low": over.ci95_low,
        "ci95_high": over.ci95_high,
        "ci95_reason": None if reason is None else f"of sessions, {reason}",
    }
    return description.model_copy(update=update)


def judge(low: float | None, high: float | None, bound: float, *, at_least: bool) -> Verdict:
    """Return whether an interval is wholly within a bound, wholly beyond it, or neither.

    Where the bound lies within the interval, or there is none, it is undecided. ``low`` and
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


def describe_cells(
    trials: pd.DataFrame, metrics: Sequence[str], by: Sequence[str] = ("cell",)
) -> pd.DataFrame:
    """Return one row a cell and metric: ``by``, ``metric``, and the fields of ``MetricSummary``.

    ``trials`` are those of ``osmef.load``, one row a trial; NaN is unknown and not counted, as are
    metrics of a failed trial. Cells stand in the order in which they first occur. Numbers are in
    the metric's unit, ``cov_percent`` is in percent. Raises KeyError for a column that is not
    there, and ValueError for an infinite value. Assumed is what ``describe`` assumes: that the
    trials of a cell are independent.

    Source: that of ``describe``.
    """
    import pandas as pd  # noqa: PLC0415

    rows = [
        {
            **dict(zip(by, key, strict=True)),
            "metric": name,
            **describe_trials(cell, name).model_dump(),
        }
        for key, cell in trials.groupby(list(by), sort=False, dropna=False)
        for name in metrics
    ]
    return pd.DataFrame(rows, columns=pd.Index([*by, "metric", *MetricSummary.model_fields]))


def describe_trials(trials: pd.DataFrame, metric: str) -> MetricSummary:
    """Return the statistics of a metric over trials of ``osmef.load``, as ``describe`` does.

    NaN is unknown and not counted. Where the values themselves ended the trials of a cell
    (``repeat_until``), the interval is ``confidence_sequence``. Raises KeyError for a column that
    is not there, and ValueError for an infinite value. Assumed is what ``describe`` assumes.

    Source: that of ``describe``.
    """
    until = "repeat_until" in trials and bool(trials["repeat_until"].notna().any())
    values = trials[metric].dropna().astype("float64").tolist()
    return describe(values, often_looked_at=until)
