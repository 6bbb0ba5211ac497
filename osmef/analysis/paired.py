"""Paired tests of the cells of one run, block by block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from osmef.analysis.distributions import normal_below, normal_quantile
from osmef.analysis.quantiles import ConfidenceInterval, finite
from osmef.analysis.ranks import doubled_ranks
from osmef.analysis.replicates import has_pairs

Array = npt.NDArray[np.float64]

EXACT_UP_TO = 200
"""More pairs than these are told by the normal approximation."""

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
    NaN is what failed, in the metric's unit else; the index is (run, group), in the order of time,
    or (run, pair).

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
    found = values.unstack("cell", sort=False)
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
    those of Wilcoxon's signed ranks, exact up to ``EXACT_UP_TO`` blocks, p also with ties;
    differences of 0 don't count for p. For 95 % it needs 6 blocks. Raises ValueError for a value
    that is not finite, and for samples of unequal length.

    Assumed is that the differences are independent, and distributed symmetrically around one value;
    the blocks may differ at will.

    Source: Wilcoxon, Biometrics Bulletin 1, 1945; Hodges and Lehmann, Ann. Math. Statist. 34, 1963;
    Lehmann, "Nonparametrics", 1975, sections 3.2 and 4.3; Streitberg and Roehmel, 1986 (ties).
    """
    first, second = finite(a), finite(b)
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} values are no pairs")
    apart = np.asarray(first) - np.asarray(second)
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


def paired_ratio(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Paired:
    """Return the paired ratio of ``a`` to ``b`` over the blocks that have both.

    ``a`` and ``b`` are as those of ``paired_difference``, all above 0: it is that of their
    logarithms. Raises ValueError for a value that is not finite or not above 0.

    Assumed is what ``paired_difference`` assumes, of the logarithms.

    Source: that of ``paired_difference``.
    """
    if min([*a, *b], default=1.0) <= 0:
        raise ValueError("a ratio needs values above 0")
    found = paired_difference([math.log(x) for x in a], [math.log(x) for x in b], confidence)
    low, high, value = found.interval.low, found.interval.high, found.value
    if low is None or high is None:
        return Paired(found.n, None if value is None else math.exp(value), found.interval, found.p)
    interval = ConfidenceInterval(math.exp(low), math.exp(high), found.interval.coverage)
    return Paired(found.n, math.exp(value or 0.0), interval, found.p)


def friedman(table: pd.DataFrame) -> float | None:
    """Return the p-value of Friedman's test of all cells; None for fewer than 2 of either.

    ``table`` is that of ``blocks``; only whole blocks count. The statistic is Friedman's, of the
    ranks within blocks, and p the share of random orders within blocks whose is at least as large.

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
    if known.size > EXACT_UP_TO:
        off = max(0.0, abs(total - float(ranks.sum()) / 2) - 1)
        return min(1.0, 2 * normal_below(-off / math.sqrt(float((ranks**2).sum()) / 4)))
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
    if n > EXACT_UP_TO:
        sigma = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        half = n * (n + 1) / 4
        return math.floor(half + normal_quantile((1 - confidence) / 2) * sigma), confidence
    below = np.cumsum(_sums(tuple(range(1, n + 1))))
    c = int(np.count_nonzero(below[: below.size // 2] <= (1 - confidence) / 2 * (1 + 1e-12)))
    return c, 1 - 2 * float(below[c - 1]) if c else 0.0
