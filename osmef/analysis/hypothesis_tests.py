"""Hypothesis tests: of two samples, paired by block, of non-inferiority; multiple testing."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from osmef.analysis.distributions import (
    binomial_cdf,
    normal_cdf,
    normal_quantile,
    student_cdf,
)
from osmef.analysis.effects import cliffs_delta, hedges_g
from osmef.analysis.null_distributions import EXACT_UP_TO, doubled_ranks, rank_sums
from osmef.analysis.quantiles import ConfidenceInterval, finite, quantile_interval
from osmef.analysis.replication import has_pairs
from osmef.analysis.trends import common_autocorrelation


@dataclass(frozen=True)
class TwoSampleTest:
    """A two-tailed test of two samples.

    ``statistic`` is t or U, ``p`` the probability of one at least as far off if there is no
    difference, ``method`` how it was had. Where the test can't be made, the numbers are None and
    ``reason`` says why.
    """

    __test__ = False  # pytest: this is no test case

    statistic: float | None
    p: float | None
    method: str
    degrees_of_freedom: float | None = None
    reason: str | None = None


def welch(a: Sequence[float], b: Sequence[float]) -> TwoSampleTest:
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
        return TwoSampleTest(None, None, "welch", reason="each sample needs 2 values")
    parts = [statistics.variance(one) / len(one) for one in (first, second)]
    error = sum(parts)
    if error == 0:
        return TwoSampleTest(None, None, "welch", reason="neither sample has any spread")
    t = (statistics.fmean(first) - statistics.fmean(second)) / math.sqrt(error)
    shares = [part / error for part in parts]  # squares of tiny variances would vanish
    freedom = 1 / sum(
        share**2 / (len(one) - 1) for share, one in zip(shares, (first, second), strict=True)
    )
    return TwoSampleTest(t, 2 * student_cdf(-abs(t), freedom), "welch", freedom)


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> TwoSampleTest:
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
        return TwoSampleTest(None, None, "mann-whitney", reason="each sample needs a value")
    ranks = doubled_ranks([*first, *second])
    total = int(ranks[:n_a].sum())
    u = (total - n_a * (n_a + 1)) / 2
    if n_a * n_b <= EXACT_UP_TO:
        sums = rank_sums(tuple(sorted(ranks.tolist())), n_a)
        p = min(1.0, 2 * min(sums.at_most(total), sums.at_least(total)))
        return TwoSampleTest(u, p, "mann-whitney, exact")
    return TwoSampleTest(u, _approximate(u, n_a, n_b, ranks), "mann-whitney, normal approximation")


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
    return min(1.0, 2 * normal_cdf(-max(0.0, abs(u - n_a * n_b / 2) - 0.5) / sigma))


Array = npt.NDArray[np.float64]

EXACT_BLOCKS = 200
"""Beyond this number of pairs the normal approximation is used."""

_ORDERS = 9999
_SEED = 19450101


@dataclass(frozen=True)
class Paired:
    """Paired comparison of two cells: number of blocks, estimate, its interval, and p.

    ``value`` is a difference in the metric's unit, or a ratio. What is unknown is None.
    """

    n: int
    value: float | None
    interval: ConfidenceInterval
    p: float | None


def blocks(trials: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the values of a metric by block and cell: a row a block, a column a cell.

    ``trials`` are those of ``osmef.load``. A block is a group of a run that holds several cells,
    each of them once, as the random order makes them (docs/decisions/random-blocks.md); a run in
    sequential order has none, and neither has one with a single group. Of several pairs of
    endpoints, whose trials share their machines, each is one block, with the medians of its cells.
    Values are in the metric's unit, NaN for failed trials; the index is (run, group), in the order
    of time, or (run, pair).

    Assumed is that trials of one block are neighbours in time, on the same machines.

    Source: Fisher, "The Design of Experiments", 1935, chapter 4.
    """
    empty = pd.DataFrame(index=pd.MultiIndex.from_tuples([], names=["run", "group"]))
    if metric not in trials or not {"run", "group", "cell"} <= set(trials.columns):
        return empty
    known = trials[trials["group"].notna()]
    counts = known.groupby(["run", "group", "cell"], sort=False).size()
    if counts.empty or counts.max() > 1:
        return empty
    cells = counts.groupby(level=["run", "group"], sort=False).size()
    if cells.size < 2 or cells.max() < 2:
        return empty
    values = known.set_index(["run", "group", "cell"])[metric].astype("float64")
    # pandas 2 confuses cells where unstack does not sort.
    columns = values.index.unique("cell")
    found = values.unstack("cell").reindex(index=cells.index, columns=columns)
    return _by_pair(found, known) if has_pairs(known) else found


def _by_pair(values: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the medians of each pair over its blocks; a block without a pair stays one."""
    pair = trials.groupby(["run", "group"], sort=False)["pair"].first().reindex(values.index)
    group = values.index.get_level_values("group")
    names = [f"group {one}" if pd.isna(of) else of for of, one in zip(pair, group, strict=True)]
    runs = values.index.get_level_values("run")
    found = values.groupby([runs, pd.Index(names, dtype="object", name="pair")], sort=False)
    return found.median()


def paired_difference(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Paired:
    """Return the paired difference of ``a`` and ``b`` over the blocks that have both.

    ``a`` and ``b`` are n observations each in one unit, which is that of the result, the i-th of
    both of one block. It is the median of the means of each two differences; the interval and p are
    those of Wilcoxon's signed ranks, exact up to ``EXACT_BLOCKS`` blocks, p also with ties;
    differences of 0 don't count for p. For 95 % it needs 6 blocks. Raises ValueError for a value
    that is not finite, and for samples of unequal length.

    Assumed is that the differences are independent, and distributed symmetrically around one value;
    the blocks may differ at will.

    Source: Wilcoxon, Biometrics Bulletin 1, 1945; Hodges and Lehmann, Ann. Math. Statist. 34, 1963;
    Lehmann, "Nonparametrics", 1975, sections 3.2 and 4.3; Streitberg and Roehmel, 1986 (ties).
    """
    first, second = _pairs(a, b)
    return _signed_ranks(first - second, confidence)


def paired_ratio(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Paired:
    """Return the paired ratio of ``a`` to ``b`` over the blocks that have both.

    ``a`` and ``b`` are as those of ``paired_difference``, ``a`` at least 0 and ``b`` above 0: it is
    that of their logarithms. Where values of ``a`` are 0, and so ratios, it is the median of the
    ratios with its exact interval (``quantile_interval``). Raises ValueError for a value that is
    not finite or too low, and for samples of unequal length.

    Assumed is what ``paired_difference`` assumes, of the logarithms; with a value of 0 only that
    the ratios are independent, as they are not distributed symmetrically then.

    Source: those of ``paired_difference`` and ``quantile_interval``.
    """
    first, second = _pairs(a, b)
    if first.size and (first.min() < 0 or second.min() <= 0):
        raise ValueError("a ratio needs a divisor above 0, and no value below 0")
    with np.errstate(divide="ignore"):  # of 0
        logs = np.log(first) - np.log(second)
    if not np.isfinite(logs).all():
        ratios = first / second
        interval = quantile_interval(ratios.tolist(), 0.5, confidence)
        return Paired(logs.size, float(np.median(ratios)), interval, _signed_p(logs))
    found = _signed_ranks(logs, confidence)
    low, high, value = found.interval.low, found.interval.high, found.value
    interval = found.interval
    if low is not None and high is not None:
        interval = ConfidenceInterval(math.exp(low), math.exp(high), interval.coverage)
    return Paired(found.n, None if value is None else math.exp(value), interval, found.p)


def _pairs(a: Sequence[float], b: Sequence[float]) -> tuple[Array, Array]:
    first, second = np.asarray(finite(a)), np.asarray(finite(b))
    if first.size != second.size:
        raise ValueError(f"{first.size} and {second.size} values are no pairs")
    return first, second


def _signed_ranks(apart: Array, confidence: float) -> Paired:
    n = apart.size
    if n == 0:
        return Paired(0, None, ConfidenceInterval(None, None, None, "no block has both"), None)
    rows, columns = np.triu_indices(n)
    means = np.sort((apart[rows] + apart[columns]) / 2)
    c, coverage = _rank(n, confidence)
    interval = ConfidenceInterval(
        None, None, None, f"n = {n} pairs are too few for {100 * confidence:g} %"
    )
    if c >= 1:
        interval = ConfidenceInterval(float(means[c - 1]), float(means[-c]), coverage)
    return Paired(n, float(np.median(means)), interval, _signed_p(apart))


def friedman(table: pd.DataFrame) -> float | None:
    """Return the p-value of Friedman's test of all cells; None for fewer than 2 of either.

    ``table`` is that of ``blocks``; only whole blocks count. The statistic is Friedman's, of the
    ranks within blocks, and p the share of random orders within blocks with one at least as large.

    Assumed is that the blocks are independent.

    Source: Friedman, J. Am. Stat. Assoc. 32, 1937.
    """
    whole = table.dropna().to_numpy(dtype="float64")
    if min(whole.shape) < 2:
        return None
    ranks = np.stack([doubled_ranks(row) for row in whole]) / 2
    found = float((ranks.sum(axis=0) ** 2).sum())
    chance, above, done = np.random.default_rng(_SEED), 0, 0
    at_once = max(1, 1_000_000 // ranks.size)
    while done < _ORDERS:
        count = min(at_once, _ORDERS - done)
        orders = chance.permuted(np.broadcast_to(ranks, (count, *ranks.shape)).copy(), axis=2)
        above += int(((orders.sum(axis=1) ** 2).sum(axis=1) >= found * (1 - 1e-9)).sum())
        done += count
    return (1 + above) / (1 + done)


def _signed_p(apart: Array) -> float:
    known = apart[apart != 0]
    if not known.size:
        return 1.0
    ranks = doubled_ranks(np.abs(known).tolist())
    total = int(ranks[known > 0].sum())
    if known.size > EXACT_BLOCKS:
        off = max(0.0, abs(total - float(ranks.sum()) / 2) - 1)
        return min(1.0, 2 * normal_cdf(-off / math.sqrt(float((ranks**2).sum()) / 4)))
    chances = _sums(tuple(sorted(ranks.tolist())))
    tails = float(chances[: total + 1].sum()), float(chances[total:].sum())
    return min(1.0, 2 * min(tails))


@lru_cache(maxsize=64)
def _sums(ranks: tuple[int, ...]) -> Array:
    """Return the null distribution of the signed-rank sum."""
    chances = np.zeros(sum(ranks) + 1)
    chances[0] = 1.0
    for rank in ranks:
        chances[rank:] = (chances[rank:] + chances[: chances.size - rank]) / 2
        chances[:rank] /= 2
    return chances


def _rank(n: int, confidence: float) -> tuple[int, float]:
    """Return the rank of the interval's ends, 0 without one, and the coverage."""
    if n > EXACT_BLOCKS:
        sigma = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        half = n * (n + 1) / 4
        return math.floor(half + normal_quantile((1 - confidence) / 2) * sigma), confidence
    below = np.cumsum(_sums(tuple(range(1, n + 1))))
    c = int(np.count_nonzero(below[: below.size // 2] <= (1 - confidence) / 2 * (1 + 1e-12)))
    return c, 1 - 2 * float(below[c - 1]) if c else 0.0


MOST_AUTOCORRELATION = 0.8
"""The largest autocorrelation that is allowed for."""

_PROVED = 0.05
_FEWEST = 5
_LEAST = 0.25
_FEW_VALUES = 100
"""With so many values relevant autocorrelation is significant; with fewer its limit counts."""
_MOST_OF_FEW = 0.5
_LIKELY = 1.96
_UNLIKE, _FAR_APART = 2.0, 9.0
"""From these ratios of variances on spreads are taken for different, and for very different."""
_UNEQUAL = 2
"""From this ratio of their sizes on samples are few against many."""
_TRIMMED = 0.2


def lower_p(a: Sequence[float], b: Sequence[float], rho: float = 0.0) -> float | None:
    """Return the p-value of ``b`` not being lower than ``a``, one-tailed; None without 2 values.

    ``a`` and ``b`` are observations in one unit. It is the largest one of several: that of Mann and
    Whitney's test, which is exact for equal distributions of any shape, and that of Welch's, which
    holds where the spreads differ; each alone would alarm where the other one does not. Where one
    variance is twice the other, or one sample twice as large, Yuen's counts as well, which holds
    without tails, too; of few against many both have the degrees of freedom of the few. Where one
    spread is three times the other, so does the sign test of the wider sample. ``rho`` is the lag-1
    autocorrelation of the values (``allowed_autocorrelation``), which inflates the standard errors.
    Raises ValueError for a value that is not finite.

    Assumed is that observations are independent but for ``rho``. Where the spreads differ, and the
    distributions are far from normal, the rate of false alarms is as simulated (docs/methods.md).

    Source: Mann and Whitney, Ann. Math. Statist. 18, 1947; Welch, Biometrika 34, 1947; Yuen,
    "The Two-Sample Trimmed t for Unequal Population Variances", Biometrika 61, 1974.
    """
    first, second = finite(a), finite(b)
    if min(len(first), len(second)) < 2:
        return None
    few = max(len(first), len(second)) >= _UNEQUAL * min(len(first), len(second))
    found = [_ranked(first, second), _welch(first, second, rho, few=few)]
    narrow, wide = sorted((statistics.variance(first), statistics.variance(second)))
    narrow *= 1 + 1e-9  # the unit does not matter
    if few or wide > _UNLIKE * narrow:
        found.append(_welch(first, second, rho, few=few, trimmed=_TRIMMED))
    if wide > _FAR_APART * narrow:
        found.append(_signs(first, second))
    return max(found)


def allowed_autocorrelation(series: Sequence[Sequence[float]]) -> float:
    """Return the lag-1 autocorrelation common to all series that tests have to allow for, or 0.

    ``series`` are those of the cells of a table, each in its order. It is the significant one
    (``proved_autocorrelation``). With fewer than 100 values hardly any is significant: the upper
    limit at 2.5 % is allowed for then, up to 0.5.

    Assumed is that all are first-order autoregressive processes with the same coefficient.

    Source: that of ``proved_autocorrelation``.
    """
    found, proved = common_autocorrelation(series), proved_autocorrelation(series)
    count = sum(len(of) for of in series if len(of) >= _FEWEST)
    if found is None or count >= _FEW_VALUES:
        return proved
    likely = found.coefficient + _LIKELY / math.sqrt(count)
    return max(proved, min(_MOST_OF_FEW, likely), 0.0)


def proved_autocorrelation(series: Sequence[Sequence[float]]) -> float:
    """Return the lag-1 autocorrelation common to all series if it is significant, or 0.

    ``series`` are those of ``allowed_autocorrelation``. The level is 5 %
    (``common_autocorrelation``); its coefficient is corrected for how few values each series has,
    up to ``MOST_AUTOCORRELATION``.

    Assumed is what ``allowed_autocorrelation`` assumes.

    Source: Marriott and Pope, "Bias in the Estimation of Autocorrelations", Biometrika 41, 1954.
    """
    found = common_autocorrelation(series)
    if found is None or found.p > _PROVED or found.coefficient <= 0:
        return 0.0
    size = statistics.fmean(len(of) for of in series if len(of) >= _FEWEST)
    return min(MOST_AUTOCORRELATION, found.coefficient / max(_LEAST, 1 - 4 / size))


def _inflation(count: int, rho: float) -> float:
    """Return the variance inflation of a mean by autocorrelation."""
    lags = np.arange(1, count)
    mean = 1 + 2 * float(((1 - lags / count) * rho**lags).sum())
    return mean * (count - 1) / (count - mean)


def _ranked(a: list[float], b: list[float]) -> float:
    """Return the p-value of the rank-sum test for ``b`` being lower."""
    ranks = doubled_ranks([*b, *a])
    total, n, m = int(ranks[: len(b)].sum()), len(b), len(a)
    if n * m <= EXACT_UP_TO:
        return rank_sums(tuple(sorted(ranks.tolist())), n).at_most(total)
    sigma = math.sqrt(n * m / (n + m) * float(ranks.var(ddof=1)))
    if sigma == 0:
        return 1.0
    return normal_cdf((total + 1 - n * float(ranks.mean())) / sigma)


def _welch(a: list[float], b: list[float], rho: float, *, few: bool, trimmed: float = 0.0) -> float:
    """Return the p-value of Welch's test, or of Yuen's, for ``b`` being lower."""
    (mean_a, variance_a, n_a), (mean_b, variance_b, n_b) = (_mean(of, trimmed) for of in (a, b))
    parts = [
        variance * (_inflation(len(of), rho) if rho else 1.0)
        for variance, of in ((variance_b, b), (variance_a, a))
    ]
    error, apart = sum(parts), mean_b - mean_a
    if error == 0:
        return 0.0 if apart < 0 else 1.0
    shares = [part / error for part in parts]
    freedom = 1 / sum(share**2 / (n - 1) for share, n in zip(shares, (n_b, n_a), strict=True))
    if few and apart < 0:
        freedom = min(n_a, n_b) - 1.0
    return student_cdf(apart / math.sqrt(error), freedom)


def _mean(values: list[float], trimmed: float) -> tuple[float, float, int]:
    """Return the trimmed mean, its variance from the winsorised one, and the remaining count."""
    cut = int(trimmed * len(values))
    ordered = sorted(values)
    kept = ordered[cut : len(ordered) - cut]
    bounded = [kept[0]] * cut + kept + [kept[-1]] * cut
    squares = statistics.variance(bounded) * (len(values) - 1)
    return statistics.fmean(kept), squares / (len(kept) * (len(kept) - 1)), len(kept)


def _signs(a: list[float], b: list[float]) -> float:
    """Return the p-value of the sign test of the wider sample against the median of the other."""
    if statistics.variance(b) > statistics.variance(a):
        below, n = sum(x < statistics.median(a) for x in b), len(b)
    else:
        below, n = sum(x > statistics.median(b) for x in a), len(a)
    return binomial_cdf(n - below, n, 0.5)


def hommel(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values corrected for multiple testing by Hommel's procedure.

    A test without a p-value (None) stays None, and does not belong to the family. If many p-values
    are small it finds more than Holm's correction: all of 24, say, if each is 0.03.

    Assumed is that the tests are independent, or depend on each other positively, as cells that
    are all slow at once do.

    Source: Hommel, "A Stagewise Rejective Multiple Test Procedure Based on a Modified Bonferroni
    Test", Biometrika 75, 1988; Simes, Biometrika 73, 1986.
    """
    made = [p for p in p_values if p is not None]
    if len(made) < 2:
        return list(p_values)
    order = np.argsort(made)
    p = np.asarray(made)[order]
    corrected = p.copy()
    for size in range(p.size, 1, -1):  # Simes's test of every family of the largest p-values
        largest = float((size * p[-size:] / np.arange(1, size + 1)).min())
        corrected[-size:] = np.maximum(corrected[-size:], largest)
        rest = np.minimum(size * p[:-size], largest)
        corrected[:-size] = np.maximum(corrected[:-size], rest)
    found = np.empty(p.size)
    found[order] = np.minimum(1.0, corrected)
    left = iter(found.tolist())
    return [None if p is None else next(left) for p in p_values]
