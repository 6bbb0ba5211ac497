"""Two-sample tests, and corrections for multiple testing."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from osmef.analysis.distributions import normal_below, student_below
from osmef.analysis.effects import cliffs_delta, hedges_g
from osmef.analysis.quantiles import finite
from osmef.analysis.ranks import EXACT_UP_TO, doubled_ranks, rank_sums


@dataclass(frozen=True)
class PairTest:
    """A two-tailed test of two samples.

    ``statistic`` is t or U, ``p`` the probability of one at least as far off if there is no
    difference, ``method`` how it was had. Where the test can't be made, the numbers are None and
    ``reason`` says why.
    """

    __test__ = False  # it is no test case, whatever pytest thinks of its name

    statistic: float | None
    p: float | None
    method: str
    degrees_of_freedom: float | None = None
    reason: str | None = None


def welch(a: Sequence[float], b: Sequence[float]) -> PairTest:
    """Return Welch's t-test of the means of two samples with unequal variances, two-tailed.

    ``a`` and ``b`` are observations in one unit, at least 2 each. Assumed is that they are
    independent and that the means are normally distributed, which few or skewed observations are
    not: see ``mann_whitney``. The statistic is (mean a - mean b) / standard error, the degrees of
    freedom are Welch and Satterthwaite's. Raises ValueError for a value that is not finite.

    Source: Welch, Biometrika 34, 1947; as Deval, "Empirical Evaluation of Cloud IaaS Platforms
    using System-level Benchmarks", 2017, section 5.3 (two samples, unequal variance, two tails).
    """
    first, second = finite(a), finite(b)
    if min(len(first), len(second)) < 2:
        return PairTest(None, None, "welch", reason="each sample needs 2 values")
    parts = [statistics.variance(one) / len(one) for one in (first, second)]
    error = sum(parts)
    if error == 0:
        return PairTest(None, None, "welch", reason="neither sample has any spread")
    t = (statistics.fmean(first) - statistics.fmean(second)) / math.sqrt(error)
    shares = [part / error for part in parts]  # squares of tiny variances would vanish
    freedom = 1 / sum(
        share**2 / (len(one) - 1) for share, one in zip(shares, (first, second), strict=True)
    )
    return PairTest(t, 2 * student_below(-abs(t), freedom), "welch", freedom)


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> PairTest:
    """Return the Mann-Whitney (Wilcoxon rank sum) test of two samples, two-tailed.

    ``a`` and ``b`` are observations in one unit, at least 1 each. Assumed is that they are
    independent, and nothing of their shape; it asks whether one tends to larger values. The
    statistic is U of ``a``: how many pairs have the larger value there, ties half. Up to
    ``EXACT_UP_TO`` pairs p is exact, also with ties (twice the smaller tail); beyond it is the
    normal approximation, corrected for ties and continuity. Raises ValueError for a value that is
    not finite.

    Source: Mann and Whitney, Ann. Math. Statist. 18, 1947; Lehmann, "Nonparametrics", 1975, ch. 1;
    for the exact distribution see ``rank_sums``.
    """
    first, second = finite(a), finite(b)
    n_a, n_b = len(first), len(second)
    if not n_a or not n_b:
        return PairTest(None, None, "mann-whitney", reason="each sample needs a value")
    ranks = doubled_ranks([*first, *second])
    total = int(ranks[:n_a].sum())
    u = (total - n_a * (n_a + 1)) / 2
    if n_a * n_b <= EXACT_UP_TO:
        sums = rank_sums(tuple(sorted(ranks.tolist())), n_a)
        p = min(1.0, 2 * min(sums.at_most(total), sums.at_least(total)))
        return PairTest(u, p, "mann-whitney, exact")
    return PairTest(u, _approximate(u, n_a, n_b, ranks), "mann-whitney, normal approximation")


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for multiple testing by Holm's procedure.

    A test that could not be made (None) stays None and does not belong to the family. Assumed is
    nothing of how the tests depend on each other.

    Source: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scand. J. Statist. 6,
    1979.
    """
    made = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for done, (p, i) in enumerate(made):
        highest = max(highest, min(1.0, (len(made) - done) * p))
        corrected[i] = highest
    return corrected


def pairwise(samples: Mapping[str, Sequence[float]], confidence: float = 0.95) -> pd.DataFrame:
    """Return one row for each pair of the samples, with tests and effect sizes.

    ``samples`` are observations of one metric by name, in one unit. Columns: a, b, n_a, n_b;
    welch_p and mann_whitney_p, and after Holm's correction over all pairs welch_p_holm and
    mann_whitney_p_holm; hedges_g and cliffs_delta of a against b, with _low and _high at the given
    confidence. What is unknown is NaN. ``attrs["tests"]`` is how many pairs there are. What is
    assumed, and errors, are those of the functions of the same names.

    Source: those of these functions; Hoefler and Belli, SC 2015, rule 7.
    """
    pairs = list(itertools.combinations(samples.items(), 2))
    tests = {
        "welch_p": [welch(first, second).p for (_, first), (_, second) in pairs],
        "mann_whitney_p": [mann_whitney(first, second).p for (_, first), (_, second) in pairs],
    }
    sizes = {
        "hedges_g": [hedges_g(first, second, confidence) for (_, first), (_, second) in pairs],
        "cliffs_delta": [
            cliffs_delta(first, second, confidence) for (_, first), (_, second) in pairs
        ],
    }
    numbers: dict[str, list[float | None]] = {}
    for name, p_values in tests.items():
        numbers |= {name: p_values, f"{name}_holm": holm(p_values)}
    for name, effects in sizes.items():
        numbers[name] = [effect.value for effect in effects]
        numbers[f"{name}_low"] = [effect.interval.low for effect in effects]
        numbers[f"{name}_high"] = [effect.interval.high for effect in effects]
    names = pd.DataFrame(
        {
            "a": [a for (a, _), _ in pairs],
            "b": [b for _, (b, _) in pairs],
            "n_a": [len(first) for (_, first), _ in pairs],
            "n_b": [len(second) for _, (_, second) in pairs],
        }
    )
    table = names.assign(**pd.DataFrame(numbers, dtype="float64"))
    table.attrs["tests"] = len(pairs)
    return table


def _approximate(u: float, n_a: int, n_b: int, ranks: np.ndarray) -> float:
    n = n_a + n_b
    _, counts = np.unique(ranks, return_counts=True)
    ties = float(((counts.astype(float) ** 3 - counts) / (n * (n - 1))).sum())
    sigma = math.sqrt(max(0.0, n_a * n_b / 12 * (n + 1 - ties)))
    if sigma == 0:
        return 1.0  # all values are the same
    return min(1.0, 2 * normal_below(-max(0.0, abs(u - n_a * n_b / 2) - 0.5) / sigma))
