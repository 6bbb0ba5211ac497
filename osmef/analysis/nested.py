"""Variance components of trials nested in pairs of endpoints, and which level to replicate."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from osmef.analysis.quantiles import ConfidenceInterval, finite, quantile_interval


class More(StrEnum):
    """Which level of replication narrows the interval over pairs more, for its time."""

    PAIRS = "pairs"
    TRIALS = "trials"


@dataclass(frozen=True)
class Split:
    """Variance components of a cell. Standard deviations are in the unit of the values.

    ``trials`` are those of a pair, in the mean over pairs as the variances need it; ``median`` and
    ``interval`` are those of the medians of pairs; ``between_share`` is that of the variance of one
    trial on one pair which is from the pair, 0 to 1, None where there is no spread at all.
    """

    pairs: int
    trials: float
    mean: float
    median: float
    interval: ConfidenceInterval
    between: float
    within: float

    @property
    def between_share(self) -> float | None:
        """The share of the variance that is between pairs (intraclass correlation)."""
        total = self.between**2 + self.within**2
        return self.between**2 / total if total else None

    def error(self, pairs: float | None = None, trials: float | None = None) -> float:
        """Return the standard error of the mean over so many pairs, of so many trials each."""
        count = self.pairs if pairs is None else pairs
        each = self.trials if trials is None else trials
        return math.sqrt(self.between**2 / count + self.within**2 / (count * each))

    def more(self, pair_cost: float, trial_cost: float) -> More:
        """Return what to replicate: another pair with as many trials, or a trial on each pair.

        ``pair_cost`` is that of making a pair, ``trial_cost`` that of a trial, in one unit, such as
        seconds. It is what takes most of the error's square away for its cost.
        """
        now = self.error() ** 2
        by_pair = now - self.error(pairs=self.pairs + 1) ** 2
        by_trials = now - self.error(trials=self.trials + 1) ** 2
        of_pair = by_pair / (pair_cost + self.trials * trial_cost)
        of_trials = by_trials / (self.pairs * trial_cost)
        return More.PAIRS if of_pair >= of_trials else More.TRIALS


def split(values: Mapping[str, Sequence[float]]) -> Split | None:
    """Return the variance components of nested trials; None without two pairs of trials.

    ``values`` are those of each pair's trials, in any one unit; pairs may have unlike numbers. The
    variances are those of the analysis of variance, and that between pairs is 0 where it would be
    below. The interval is ``quantile_interval`` of the medians of pairs: that of a cell whose pairs
    are drawn anew. With one pair there is none: its trials tell of that pair alone. Raises
    ValueError for a value that is not finite.

    Assumed is that pairs are independent of each other, and trials within a pair; for the standard
    error, too, that both spreads are alike everywhere.

    Source: Searle, Casella and McCulloch, "Variance Components", 1992, section 3.6.
    """
    known = [finite(rows) for rows in values.values() if rows]
    counts, total = [len(rows) for rows in known], sum(map(len, known))
    if len(known) < 2 or total <= len(known):
        return None
    mean = sum(map(sum, known)) / total
    means = [statistics.fmean(rows) for rows in known]
    inner = sum((value - m) ** 2 for rows, m in zip(known, means, strict=True) for value in rows)
    outer = sum(n * (m - mean) ** 2 for n, m in zip(counts, means, strict=True))
    within = inner / (total - len(known))
    each = (total - sum(n * n for n in counts) / total) / (len(known) - 1)
    between = max(0.0, (outer / (len(known) - 1) - within) / each)
    medians = [statistics.median(rows) for rows in known]
    return Split(
        pairs=len(known),
        trials=each,
        mean=mean,
        median=statistics.median(medians),
        interval=quantile_interval(medians),
        between=math.sqrt(between),
        within=math.sqrt(within),
    )
