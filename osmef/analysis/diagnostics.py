"""Diagnostics of each cell: independence of its trials, initial transient, and repetitions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from osmef.analysis.change_points import change_points, find_spread, find_step, spread_changes
from osmef.analysis.describe import NextSample, VarianceComponents, variance_components
from osmef.analysis.hypothesis_tests import (
    blocks,
    friedman,
    holm,
    paired_difference,
    paired_ratio,
    pairwise,
)
from osmef.analysis.quantiles import minimum_n
from osmef.analysis.replication import (
    PLACE,
    PLATFORM,
    cell_names,
    fill_platforms,
    has_pairs,
    has_sessions,
    independent,
    platform_columns,
    repetitions_for_median,
    session_medians,
)
from osmef.analysis.trends import autocorrelation, common_autocorrelation, drift, outliers
from osmef.results.observations import Purpose

FEWEST_INTERVALS = 8
SLOWER = 0.95
"""An interval is of the warm-up while its median over the trials is below this, of the level."""


LEVEL = 0.05
LOSS = 0.005
"""A warm-up that costs less than this share of the mean is not reported."""


@dataclass(frozen=True)
class WarmUp:
    """The initial transient of a cell's trials.

    ``p`` is the probability of such a beginning in series without one; the first ``intervals`` are
    slower than the later ones, and ``loss`` is what they cost of the mean rate, as a share of it.
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

    Assumed is that intervals are exchangeable where there is no warm-up; they may have
    an autocorrelation of 0.5 (simulated: docs/methods.md).

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

    ``intervals`` are those of ``osmef.load_intervals``. Intervals of a configured warm-up are left
    out. warmup_s is how long the trials are slower than what follows, in seconds; loss_percent what
    that costs of their mean rate; p that of ``find_warm_up``, corrected after Holm over all cells.
    Only cells with a p of at most ``LEVEL`` and a loss of at least ``LOSS`` are returned.

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


FEWEST = 10
"""Fewer values can't show autocorrelation, and hardly a drift."""

MOST = 1000
"""With more values, drift is computed from the medians of so many blocks of neighbours."""

MOST_STEPPING = 200
"""With more values, steps are found in the medians of so many blocks of neighbours."""

_MOST_NAMED = 3
_COLUMNS = (
    *("cell", "metric", "n", "pairs", "repetitions", "autocorrelation", "autocorrelation_p"),
    *("drift_percent", "drift_p", "common_memory", "common_memory_p", "steps", "steps_p"),
    *("spreads", "spreads_p", "outliers", "doubts"),
)


def data_quality(
    trials: pd.DataFrame, metrics: Sequence[str], relative_error: float = 0.05
) -> pd.DataFrame:
    """Return diagnostics, one row a cell and metric: dependence, changes, outliers, repetitions.

    ``trials`` are those of ``osmef.load``; the values are those of the trials in the order in which
    they began, or the medians of the sessions, where there are any. Columns: cell; metric; n;
    pairs, how many pairs of endpoints have trials of their own, where any have; repetitions, how
    many values give the median to within ``relative_error`` of it (``repetitions_for_median``), or
    how many pairs do, by the medians of these; autocorrelation, that of lag 1, with its p;
    drift_percent, the median slope over the whole series in percent of the median, with its p;
    common_memory, the autocorrelation common to all cells of the metric, with its p
    (``common_autocorrelation``); steps, the names of the trials or sessions that begin another
    level (``change_points``), with steps_p, that of the first one; spreads and spreads_p, the same
    of changes of spread (``spread_changes``), nothing where there is a drift, which looks like one;
    outliers, the names of values far from the others, which are flagged, never removed, and cause
    no doubt: the median and its interval are valid with them; doubts, in words. Unknown values are
    NaN or empty, with fewer than ``FEWEST`` values all those of the order; with more than ``MOST``
    or ``MOST_STEPPING``, drift and changes are those of the medians of blocks. All p, of
    autocorrelation, drift, steps and spreads, are corrected after Holm over the whole table
    together, and lead to a doubt below ``LEVEL``: at most this share of tables without a cause has
    any doubt.

    Assumed is what these functions assume; normal values nowhere.

    Source: the functions of these names, in ``osmef.analysis``; Hoefler and Belli, SC 2015, rule 5.
    """
    groups = cells(trials)
    series = {
        (cell, metric): _series(group, metric)
        for cell, group in groups.items()
        for metric in metrics
        if metric in group and group[metric].notna().any()
    }
    rows = [
        {"cell": cell, "metric": metric, "n": len(values)}
        | _enough(groups[cell], metric, values, relative_error)
        | _series_checks(values)
        for (cell, metric), values in series.items()
    ]
    for metric in metrics:
        _note_autocorrelation(
            rows, metric, [of for (_cell, name), of in series.items() if name == metric]
        )
    _correct(rows, list(series.values()))
    for row in rows:
        row["doubts"] = _doubts(row)
    table = pd.DataFrame(rows, columns=pd.Index(_COLUMNS))
    return table.astype(dict.fromkeys((*_COLUMNS[3:11], "steps_p", "spreads_p"), "float64"))


def pairwise_comparisons(trials: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Return the pairwise comparisons of cells, one row a metric and pair.

    ``trials`` are those of ``osmef.load``, their sessions' medians where there are any, or those of
    several pairs of endpoints: a cell without several counts as one value then. The correction is
    over the pairs of a metric. Cells without a value are left out. Cells of one run
    that were measured in blocks are also compared block by block, which a drift does not disturb:
    method is "paired" then, and "unpaired" else; blocks, how many have both; ratio of a to b with
    ratio_low and ratio_high (``paired_ratio``; NaN where a value is not above 0), paired_p and
    paired_p_holm. ``attrs["friedman_p"]`` has the p of all cells being alike, by metric
    (``friedman``).

    Assumed is what ``pairwise`` and ``paired_ratio`` assume.

    Source: those of ``pairwise``, ``paired_ratio`` and ``friedman``.
    """
    groups = cells(trials)
    tables = []
    for metric in metrics:
        samples = {
            cell: _replicates(group, metric, on_pairs=has_pairs(*groups.values()))
            for cell, group in groups.items()
            if metric in group and group[metric].notna().any()
        }
        if len(samples) > 1:
            tables.append(_with_blocks(pairwise(samples).assign(metric=metric), groups, metric))
    if not tables:
        return pd.DataFrame()
    alike = {metric: p for table in tables for metric, p in table.attrs["friedman_p"].items()}
    for table in tables:
        table.attrs = {}
    found = pd.concat(tables, ignore_index=True)
    found.attrs["friedman_p"] = alike
    return found


def _replicates(group: pd.DataFrame, metric: str, *, on_pairs: bool) -> list[float]:
    """Return the independent values of a cell; trials of one pair share its machines."""
    if not on_pairs or has_sessions(group):
        return list(_series(group, metric).values())
    return independent(group, metric, by_session=not has_pairs(group))


def _with_blocks(
    table: pd.DataFrame, groups: Mapping[str, pd.DataFrame], metric: str
) -> pd.DataFrame:
    """Return a table of pairs of cells with their paired comparisons."""
    every = [rows.assign(cell=cell) for cell, rows in groups.items()]
    values = pd.DataFrame() if has_sessions(*every) else blocks(pd.concat(every), metric)
    rows = [_paired(values, str(a), str(b)) for a, b in zip(table["a"], table["b"], strict=True)]
    more = pd.DataFrame(rows, columns=pd.Index(_PAIRED), index=table.index)
    more["paired_p_holm"] = holm([row["paired_p"] for row in rows])  # type: ignore[misc]
    more = more.astype(dict.fromkeys((*_PAIRED[2:], "paired_p_holm"), "float64"))
    found = pd.concat([table, more], axis=1)
    found.attrs = {**table.attrs, "friedman_p": {} if values.empty else {metric: friedman(values)}}
    return found


_PAIRED = ("method", "blocks", "ratio", "ratio_low", "ratio_high", "paired_p")


def _paired(values: pd.DataFrame, a: str, b: str) -> dict[str, object]:
    both = values[[a, b]].dropna() if {a, b} <= set(values.columns) else values.iloc[:0]
    if both.empty:
        return {"method": "unpaired", "blocks": 0, "paired_p": None}
    first, second = both[a].tolist(), both[b].tolist()
    columns = {"method": "paired", "blocks": len(both)}
    if min(*first, *second) <= 0:
        return columns | {"paired_p": paired_difference(first, second).p}
    found = paired_ratio(first, second)
    ends = {"ratio_low": found.interval.low, "ratio_high": found.interval.high}
    return columns | {"ratio": found.value, **ends, "paired_p": found.p}


def variance_table(trials: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Return the variance components of cells with several pairs, one row a cell and metric.

    ``trials`` are those of ``osmef.load``. Columns: cell; metric; pairs; trials, of a pair;
    between_percent and within_percent, standard deviations in percent of the mean; between_share,
    the share of the variance between pairs; mean, with the ends of its interval over pairs,
    mean_low and mean_high (``mean_interval``), in the metric's unit; more, "pairs" or
    "trials", whichever narrows it more for its time; always pairs with fewer than 6, which give no
    interval of the median; pair_narrows_percent, by how much one more pair narrows it, pair_s, the
    seconds of its trials, and pair_cost, what the VMs cost more; trials_narrow_percent, trials_s
    and trials_cost, the same of one more trial on each pair; currency. The creation of a pair is
    not counted, and all VMs exist from the first trial to the last. NaN is unknown, such as a cost
    without a price.

    Assumed is what ``variance_components`` assumes, and that pairs are measured in turn.

    Source: that of ``variance_components``.
    """
    rows = []
    for cell, group in cells(trials).items():
        for metric in metrics if has_pairs(group) and not has_sessions(group) else ():
            if metric not in group:
                continue
            known = group[group["pair"].notna() & group[metric].notna()]
            found = variance_components(
                {str(pair): of[metric].tolist() for pair, of in known.groupby("pair")}
            )
            if found is None or not found.mean:
                continue
            more = (
                found.next_sample(0.0, 1.0) if found.interval.low is not None else NextSample.PAIRS
            )
            rows.append(
                {"cell": cell, "metric": metric, "pairs": found.pairs, "trials": found.trials,
                 "between_percent": 100 * found.between / abs(found.mean),
                 "within_percent": 100 * found.within / abs(found.mean),
                 "between_share": found.between_share, "mean": found.mean,
                 "mean_low": found.mean_interval.low, "mean_high": found.mean_interval.high,
                 "more": more.value, **_additions(found, known)}
            )  # fmt: skip
    return pd.DataFrame(rows)


def _additions(found: VarianceComponents, trials: pd.DataFrame) -> dict[str, object]:
    """Return the benefit and cost of one more pair, and of one more trial on each."""
    one_s = _median_of(trials, "wall_s")
    hour = _median_of(trials, "price_per_hour") / found.pairs
    pair_s, trials_s = found.trials * one_s, found.pairs * one_s
    return {
        "pair_narrows_percent": 100 * found.interval_reduction(pairs=1),
        "pair_s": pair_s,
        "pair_cost": (2 * found.pairs + 1) * pair_s / 3600 * hour,
        "trials_narrow_percent": 100 * found.interval_reduction(trials=1),
        "trials_s": trials_s,
        "trials_cost": found.pairs * trials_s / 3600 * hour,
        "currency": next(iter(trials["currency"].dropna()), None) if "currency" in trials else None,
    }


def _median_of(trials: pd.DataFrame, column: str) -> float:
    return float(trials[column].median()) if column in trials else math.nan


def cells(trials: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the trials of each cell by unambiguous names, in the order of time."""
    trials = fill_platforms(trials)
    apart = trials["run"].nunique() > 1 and not has_sessions(trials)
    columns = ["run"] if apart else platform_columns(trials, columns=(*PLATFORM, *PLACE))
    ordered = trials.assign(_cell=cell_names(trials, columns))
    groups = {str(cell): rows for cell, rows in ordered.groupby("_cell", sort=False)}
    return {
        cell: rows.sort_values("started_at", kind="stable") if "started_at" in rows else rows
        for cell, rows in groups.items()
    }


def _series(group: pd.DataFrame, metric: str) -> dict[str, float]:
    """Return the values of a cell in the order of time, by the name of their trial or session."""
    known = group[group[metric].notna()]
    if has_sessions(group):
        return session_medians(known, metric)
    if has_pairs(known):  # differences between pairs are no autocorrelation and no drift
        level = known.groupby("pair", dropna=False)[metric].transform("median")
        known = known.assign(**{metric: known[metric] - level + known[metric].median()})
    names = known["trial"] if "trial" in known else range(len(known))
    return {str(name): float(value) for name, value in zip(names, known[metric], strict=True)}


def _enough(
    group: pd.DataFrame, metric: str, series: Mapping[str, float], relative_error: float
) -> dict[str, object]:
    """Return how many pairs of endpoints there are, if several, and what is needed."""
    on_pairs = has_pairs(group) and not has_sessions(group)
    values = independent(group, metric) if on_pairs else list(series.values())
    enough = repetitions_for_median(values, relative_error) if len(values) > 1 else None
    return {"pairs": len(values) if on_pairs else None, "repetitions": enough}


def _series_checks(series: Mapping[str, float]) -> dict[str, object]:
    values, names = list(series.values()), list(series)
    middle = statistics.median(values)
    stepping = _blocks(values, MOST_STEPPING)
    checks: dict[str, object] = {
        **dict.fromkeys(("autocorrelation", "autocorrelation_p", "drift_percent", "drift_p")),
        "steps": list[str](),
        "steps_p": find_step(stepping).p,
        "spreads": list[str](),
        "spreads_p": find_spread(stepping, change_points(stepping)).p,
        "outliers": [name for name, far in zip(names, outliers(values), strict=True) if far],
    }
    if len(values) < FEWEST:
        return checks
    if correlation := autocorrelation(values):
        checks["autocorrelation"] = float(correlation.coefficients[0])
        checks["autocorrelation_p"] = correlation.p
    blocks = _blocks(values, MOST)
    trend = drift(blocks)
    if middle:
        checks["drift_percent"] = 100 * trend.slope * (len(blocks) - 1) / abs(middle)
    checks["drift_p"] = trend.p
    return checks


def _blocks(values: Sequence[float], most: int) -> list[float]:
    """Return medians of neighbouring values, at most so many: the tests take quadratic time."""
    size = math.ceil(len(values) / most)
    return [statistics.median(values[at : at + size]) for at in range(0, len(values), size)]


def _note_autocorrelation(
    rows: Sequence[dict[str, object]], metric: str, series: Sequence[Mapping[str, float]]
) -> None:
    """Write the common autocorrelation into the rows of a metric."""
    found = common_autocorrelation([list(of.values()) for of in series])
    for row in rows:
        if row["metric"] == metric:
            row["common_memory"] = found.coefficient if found else None
            row["common_memory_p"] = found.p if found else None


def _correct(rows: Sequence[dict[str, object]], series: Sequence[Mapping[str, float]]) -> None:
    """Correct all p-values of the rows, and name the significant changes."""
    names = ("autocorrelation_p", "drift_p", "steps_p", "spreads_p")
    tests = [(row, name, p) for row in rows for name in names
            if isinstance(p := row[name], float)]  # fmt: skip
    first = {row["metric"]: row for row in reversed(rows)}  # it is the same for all cells
    tests += [(row, "common_memory_p", p) for row in first.values()
             if isinstance(p := row["common_memory_p"], float)]  # fmt: skip
    levels: dict[tuple[int, str], float] = {}
    for (row, name, p), corrected in zip(tests, holm([p for *_, p in tests]), strict=True):
        row[name] = corrected
        if name in {"steps_p", "spreads_p"} and corrected is not None and corrected <= LEVEL:
            levels[id(row), name] = LEVEL * p / corrected * (1 + 1e-9)
    for row in rows:
        row["common_memory_p"] = first[row["metric"]]["common_memory_p"]
    for row, of in zip(rows, series, strict=True):
        steps, spreads = (levels.get((id(row), name), 0.0) for name in ("steps_p", "spreads_p"))
        _name_changes(row, of, steps, 0.0 if _below(row, "drift_p") else spreads)


def _name_changes(
    row: dict[str, object], series: Mapping[str, float], steps: float, spreads: float
) -> None:
    """Write the change-points of level and spread at these levels of p."""
    if not steps and not spreads:
        return
    values, labels = _blocks(list(series.values()), MOST_STEPPING), list(series)
    size = math.ceil(len(labels) / MOST_STEPPING)
    if steps:
        row["steps"] = [labels[cut * size] for cut in change_points(values, steps)]
    if spreads:
        found = spread_changes(values, change_points(values), spreads)
        row["spreads"] = [labels[cut * size] for cut in found]


def _below(row: Mapping[str, object], name: str) -> bool:
    p = row[name]
    return isinstance(p, float) and p < LEVEL


def _doubts(row: Mapping[str, object]) -> str:
    found, has_interval = [], int(str(row["pairs"] or row["n"])) >= minimum_n()
    if _below(row, "autocorrelation_p"):
        negative = float(str(row["autocorrelation"])) <= 0
        found.append(
            f"consecutive values are {'negatively ' * negative}correlated"
            + f", so the interval is too {'wide' if negative else 'narrow'}" * has_interval
        )
    elif _below(row, "common_memory_p") and float(str(row["common_memory"])) > 0:
        found.append(
            "over all cells consecutive values are correlated, so the intervals are too narrow"
        )
    if _below(row, "drift_p"):
        found.append("there is a drift" + ", so the interval is too narrow" * has_interval)
    if row["steps"]:
        found.append(f"the level changes at {_few(row['steps'])}")
    if row["spreads"]:
        at = _few(row["spreads"])
        found.append(f"the spread changes at {at}, so the interval is that of no part of them")
    return "; ".join(found)


def _few(names: object) -> str:
    """Return the first names of a list."""
    known = [str(name) for name in names] if isinstance(names, list) else []
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    return ", ".join(known[:_MOST_NAMED]) + more
