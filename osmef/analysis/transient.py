"""Detection of an initial transient: a warm-up that the settings did not remove."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from osmef.analysis.pairs import holm
from osmef.results.observations import Purpose

FEWEST_INTERVALS = 8
SLOWER = 0.95
"""An interval is of the warm-up while its median over the trials is below this, of the level."""


LEVEL = 0.05
LOSS = 0.005
"""A warm-up that costs less than this share of the mean is not worth a word."""


@dataclass(frozen=True)
class WarmUp:
    """The initial transient of a cell's trials.

    ``p`` is how odd such beginnings are in series that have none; ``intervals`` are slower than
    those behind them, and ``loss`` is what they cost of the mean rate, as a share of it.
    """

    p: float
    intervals: int
    loss: float


def find_warm_up(series: Sequence[Sequence[float]]) -> WarmUp | None:
    """Return the initial transient of trials, or None without 8 intervals in one.

    ``series`` holds the rates of each trial's intervals, all flows together, in any one unit; the
    trials may be of unlike lengths. Their level is the median of their second half. The test asks
    whether the first intervals have too low ranks among those of their trials: the sum of the ranks
    against its exact distribution where all orders are as likely. Where ranks are tied, the higher
    one counts.

    Assumed is that intervals are exchangeable where there is no warm-up; neighbours may be
    correlated by 0.5 (simulated: docs/methods.md).

    Source: OSMeF; the rank of an observation in its block as in Friedman, JASA 32, 1937; that
    transients be removed: Jain, "The Art of Computer Systems Performance Analysis", 1991, 25.3.
    """
    known = [list(rates) for rates in series if len(rates) >= FEWEST_INTERVALS]
    levels = [statistics.median(rates[len(rates) // 2 :]) for rates in known]
    known = [rates for rates, level in zip(known, levels, strict=True) if level > 0]
    levels = [level for level in levels if level > 0]
    if not known:
        return None
    ranks = [sum(rate <= rates[0] for rate in rates) for rates in known]
    shares = [[rate / level for rate in rates] for rates, level in zip(known, levels, strict=True)]
    slow = 0
    most = min(len(rates) for rates in known) // 2
    while slow < most and statistics.median(one[slow] for one in shares) < SLOWER:
        slow += 1
    losses = [sum(1 - share for share in one[:slow]) / len(one) for one in shares]
    return WarmUp(_p(ranks, [len(rates) for rates in known]), slow, statistics.median(losses))


def warm_ups(intervals: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with an initial transient: run, cell, trials, warmup_s, loss_percent, p.

    ``intervals`` are those of ``osmef.load_intervals``. What was given as a warm-up is left out.
    warmup_s is how long the trials are slower than what follows, in seconds; loss_percent what that
    costs of their mean rate; p that of ``find_warm_up``, corrected after Holm over all cells. Only
    cells with a p of at most ``LEVEL`` and a loss of at least ``LOSS`` are told.

    Assumed is what ``find_warm_up`` assumes.

    Source: those of ``find_warm_up`` and ``holm``.
    """
    columns = pd.Index(["run", "cell", "trials", "warmup_s", "loss_percent", "p"])
    found = {
        key: (warm_up, series, lengths)
        for key, (series, lengths) in _by_cell(intervals).items()
        if (warm_up := find_warm_up(series)) is not None
    }
    corrected = holm([warm_up.p for warm_up, *_ in found.values()])
    rows = [
        {"run": run, "cell": cell, "trials": len(series), "p": p,
         "warmup_s": warm_up.intervals * statistics.median(lengths),
         "loss_percent": 100 * warm_up.loss}
        for ((run, cell), (warm_up, series, lengths)), p in zip(
            found.items(), corrected, strict=True
        )
        if p is not None and p <= LEVEL and warm_up.loss >= LOSS
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _by_cell(
    intervals: pd.DataFrame,
) -> dict[tuple[str, str], tuple[list[list[float]], list[float]]]:
    """Return each cell's series of rates, all flows together, and the lengths of its intervals."""
    known = intervals[
        (intervals["role"] == "receiver")
        & ~(intervals["purpose"] == Purpose.BACKGROUND.value)
        & ~(intervals["warmup"].fillna(value=False).astype("bool"))
        & (intervals["length_s"] > 0)
    ]
    flow = ["run", "cell", "trial", "endpoint", "peer", "flow"]
    known = known.sort_values("start_s", kind="stable")
    known = known.assign(
        number=known.groupby(flow, sort=False, dropna=False).cumcount(),
        rate=8 * known["bytes"] / known["length_s"],
    )
    cells: dict[tuple[str, str], tuple[list[list[float]], list[float]]] = {}
    for (run, cell), rows in known.groupby(["run", "cell"], sort=False):
        rates = rows.pivot_table(index="trial", columns="number", values="rate", aggfunc="sum")
        series = [row.dropna().tolist() for _, row in rates.iterrows()]
        cells[str(run), str(cell)] = series, rows["length_s"].tolist()
    return cells


def _p(ranks: Sequence[int], lengths: Sequence[int]) -> float:
    """Return the probability of a rank sum that is as low."""
    chances = np.ones(1)
    for length in lengths:
        chances = np.convolve(chances, np.full(length, 1 / length))
    return min(1.0, float(chances[: sum(ranks) - len(ranks) + 1].sum()))
