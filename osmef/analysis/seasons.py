"""Longitudinal analysis of a campaign: platforms, windows, drift and changes over weeks.

A session's result is the median of its trials (``replication.session_results``), and the session is
the unit of replication here: trials of one session share its time, its VMs and its neighbours.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pandas as pd

from osmef.analysis.change_points import SHORTEST, all_change_points, all_spread_changes
from osmef.analysis.describe import describe_trials
from osmef.analysis.distributions import normal_cdf, normal_quantile
from osmef.analysis.hypothesis_tests import holm, pairwise
from osmef.analysis.null_distributions import EXACT_UP_TO, doubled_ranks, rank_sums
from osmef.analysis.quantiles import ConfidenceInterval, finite
from osmef.analysis.replication import (
    cell_names,
    fill_platforms,
    place_columns,
    session_results,
    variability,
)
from osmef.analysis.trends import autocorrelation, drift
from osmef.errors import InputError
from osmef.results.frame import described_like

Array = npt.NDArray[np.float64]
Pair = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Shift:
    """Stratified shift of one sample over another; ``least_p`` is the smallest possible p.

    Where no stratum has values of both, the numbers are None, and the interval says why.
    """

    value: float | None
    interval: ConfidenceInterval
    p: float | None
    least_p: float | None
    n_a: int
    n_b: int


def stratified_shift(strata: Sequence[Pair], confidence: float = 0.95) -> Shift:
    """Return the shift of ``a`` over ``b``, compared within strata.

    ``strata`` are pairs of samples, all in one unit; a stratum that lacks one side does not count.
    The value is the median of the differences within strata, the interval goes from the c-th
    smallest to the c-th largest of them, and p, two-tailed, is that of the sum over the strata of
    Mann and Whitney's U. With one stratum they are ``hodges_lehmann`` and ``mann_whitney``. Up to
    ``EXACT_UP_TO`` differences both are exact, p also with ties; beyond that by the normal
    approximation. Raises ValueError for a value that is not finite.

    Assumed are independent values and, for the interval, that within each stratum the two
    distributions have one shape, shifted by the same everywhere; the strata may differ at will.

    Source: van Elteren, Bull. Inst. Int. Stat. 37, 1960 (with equal weights); Lehmann,
    "Nonparametrics", 1975, sections 2.5 and 3.3.
    """
    kept = [(finite(a), finite(b)) for a, b in strata if len(a) and len(b)]
    n_a, n_b = (sum(len(pair[side]) for pair in kept) for side in (0, 1))
    if not kept:
        reason = "no stratum has values of both"
        return Shift(None, ConfidenceInterval(None, None, None, reason), None, None, 0, 0)
    apart = np.sort(np.concatenate([np.subtract.outer(a, b).ravel() for a, b in kept]))
    c, coverage = _rank(kept, apart.size, confidence)
    interval = ConfidenceInterval(
        None, None, None, f"n = {n_a} and {n_b} are too few for {confidence:.0%}"
    )
    if c >= 1:
        interval = ConfidenceInterval(float(apart[c - 1]), float(apart[-c]), coverage)
    least = min(1.0, 2 / math.prod(math.comb(len(a) + len(b), len(a)) for a, b in kept))
    return Shift(float(np.median(apart)), interval, _p(kept, apart.size), least, n_a, n_b)


def _rank(strata: Sequence[Pair], count: int, confidence: float) -> tuple[int, float]:
    """Return the rank of the interval's ends, 0 without one, and the coverage."""
    if count > EXACT_UP_TO:
        sizes = [(len(a), len(b)) for a, b in strata]
        sigma = math.sqrt(sum(n * m * (n + m + 1) / 12 for n, m in sizes))
        return math.floor(count / 2 + normal_quantile((1 - confidence) / 2) * sigma), confidence
    each = [
        rank_sums(tuple(range(2, 2 * (len(a) + len(b)) + 1, 2)), len(a)).probabilities[
            len(a) * (len(a) + 1) :: 2
        ]
        for a, b in strata
    ]
    below = np.cumsum(reduce(np.convolve, each))
    c = int(np.count_nonzero(below[: count // 2] <= (1 - confidence) / 2 * (1 + 1e-12)))
    return c, 1 - 2 * float(below[c - 1]) if c else 0.0


def _p(strata: Sequence[Pair], count: int) -> float:
    ranks = [doubled_ranks([*a, *b]) for a, b in strata]
    total = sum(int(of[: len(a)].sum()) for of, (a, _b) in zip(ranks, strata, strict=True))
    if count > EXACT_UP_TO:
        return _approximate(strata, ranks, total)
    each = [
        rank_sums(tuple(sorted(of.tolist())), len(a)).probabilities
        for of, (a, _b) in zip(ranks, strata, strict=True)
    ]
    chances: Array = reduce(np.convolve, each)
    tails = float(chances[: total + 1].sum()), float(chances[total:].sum())
    return min(1.0, 2 * min(tails))


def _approximate(
    strata: Sequence[Pair], ranks: Sequence[npt.NDArray[np.int64]], total: int
) -> float:
    mean = variance = 0.0
    for of, (a, b) in zip(ranks, strata, strict=True):
        n, m = len(a), len(b)
        mean += n * float(of.mean())
        variance += n * m / (n + m) * float(of.var(ddof=1)) if n + m > 1 else 0.0
    if variance == 0:
        return 1.0  # all values of each stratum are the same
    off = max(0.0, abs(total - mean) - 1)  # half a rank, doubled, for continuity
    return min(1.0, 2 * normal_cdf(-off / math.sqrt(variance)))


KEY = ["platform", "cell", "metric"]
"""What a session's result is of: what was measured, in which cell of its sweep, and the number."""

_SIDES = (("weekday", "weekend"), ("peak", "offpeak"))


def session_trials(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of ``osmef.load`` that are of a session, each with its platform.

    Without a recorded platform it is their scenario and provider. If a cell of a platform was
    measured at several achieved places, each is a cell of its own, and its name begins with the
    place. Raises InputError where there are none.

    Assumed is that runs of one scenario and provider are of one platform if none is recorded.

    Source: OSMeF.
    """
    known = trials[trials["session"].notna()]
    if known.empty:
        raise InputError(
            "no trial is of a session",
            cure="give a campaign, or what `osmef import sessions` made",
        )
    usual_names = known["scenario"].str.cat(known["provider"].astype("string"), sep=" ", na_rep="")
    known = fill_platforms(known.assign(platform=known["platform"].fillna(usual_names.str.strip())))
    return known.assign(cell=cell_names(known, place_columns(known)))


def session_table(trials: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Return one row for each session, platform, cell and metric, in order of time.

    ``trials`` are those of ``session_trials``; those without the metric do not count. Columns:
    ``KEY``, session, window, began (of its first trial, UTC), trials (how many have the metric)
    and value, their median in the metric's unit, with ci95_low and ci95_high, its interval
    (``describe_trials``), NaN with too few trials. ``attrs`` say what the metrics are, as those of
    the trials do.

    Assumed is that the trials of a session are of one moment.

    Source: that of ``replication.session_results``.
    """
    frames = [_sessions_of(trials, metric) for metric in metrics]
    table = pd.concat(frames, ignore_index=True)[[*KEY, *_ABOUT, "value", *_ENDS]]
    table = table.sort_values("began", kind="stable", ignore_index=True)
    return described_like(table, trials)


_ABOUT = ("session", "window", "began", "trials")
_ENDS = ("ci95_low", "ci95_high")


def _sessions_of(trials: pd.DataFrame, metric: str) -> pd.DataFrame:
    points = trials[trials[metric].notna()]
    by = ["platform", "cell"]
    results = session_results(points, metric, by).rename(columns={metric: "value"})
    about = points.groupby([*by, "session"], sort=False).agg(
        window=("window", "first"), began=("started_at", "min"), trials=(metric, "size")
    )
    results = results.merge(about.reset_index(), on=[*by, "session"]).assign(metric=metric)
    return results.merge(_intervals(points, metric, [*by, "session"]), how="left")


def _intervals(points: pd.DataFrame, metric: str, by: list[str]) -> pd.DataFrame:
    """Return the interval of the median of each group that has one."""
    rows = []
    for key, trials in points.groupby(by, sort=False):
        description = describe_trials(trials, metric)
        if description.ci95_low is not None:
            rows.append((*key, description.ci95_low, description.ci95_high))
    return pd.DataFrame(rows, columns=pd.Index([*by, *_ENDS])).astype(dict.fromkeys(_ENDS, float))


def platform_table(sessions: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row for each of ``KEY`` and ``by``, such as window: columns of ``variability``.

    Sorted by these. ``sessions`` is what ``session_table`` gives, as in every function here.

    Assumed is what ``variability`` assumes: independent sessions.

    Source: that of ``variability``.
    """
    rows = sessions.dropna(subset=list(by))
    table = variability(rows, "value", [*KEY, *by])
    table = table.sort_values([*KEY, *by], kind="stable", ignore_index=True)
    return described_like(table, sessions)


def pair_table(sessions: pd.DataFrame) -> pd.DataFrame:
    """Return the tests of every two platforms in one cell and metric: columns of ``pairwise``.

    Before them: cell, metric, and the medians of both over their sessions. Holm's correction is
    over the pairs of one cell and metric. ``least_p`` is the smallest p that the test of Mann and
    Whitney can have with so few sessions. Assumed is that sessions are independent, also those of
    two platforms in one slot.

    Source: those of ``hypothesis_tests.welch``, ``mann_whitney`` and ``holm``.
    """
    frames = []
    for (cell, metric), rows in sessions.groupby(["cell", "metric"], sort=False):
        samples = {str(name): of["value"].tolist() for name, of in _platforms(rows)}
        table = pairwise(samples)
        medians = rows.groupby("platform")["value"].median()
        table.insert(0, "metric", str(metric))
        table.insert(0, "cell", str(cell))
        table["median_a"] = table["a"].map(medians)
        table["median_b"] = table["b"].map(medians)
        sizes = zip(table["n_a"], table["n_b"], strict=True)
        table["least_p"] = [_least_p(a, b) for a, b in sizes]
        frames.append(table)
    return pd.concat(frames, ignore_index=True)


def _platforms(rows: pd.DataFrame) -> Iterator[tuple[object, pd.DataFrame]]:
    """Yield the sessions of each platform by name, in order of time."""
    return iter(sorted(rows.groupby("platform"), key=lambda one: str(one[0])))


def _least_p(n_a: int, n_b: int) -> float:
    return min(1.0, 2 / math.comb(n_a + n_b, n_a))


def sides_of(window: str | None) -> set[str]:
    """Return which sides a window is on by its name: weekday, weekend, peak, offpeak.

    Assumed is that windows are called so.

    Source: Deval, 2017, chapter 4, for the four windows.
    """
    words = set((window or "").split("-"))
    return {side for pair in _SIDES for side in pair if side in words}


def contrast_table(sessions: pd.DataFrame) -> pd.DataFrame:
    """Return weekday against weekend, and peak against off-peak, for each of ``KEY``.

    Which side a session is on, its window's name says (``sides_of``); where ``sessions`` has a
    column ``day``, that one says weekday or weekend. Windows of other names are compared two by
    two. Weekday and weekend are compared within peak and within off-peak, and these within weekday
    and within weekend (``stratified_shift``): so that neither hides the other, or looks like it.
    Sessions whose hours only one side has don't count. Columns: ``KEY``, a, b, n_a, n_b, median_a,
    median_b; difference, low, high: of a over b with its exact 95 % interval, in the metric's unit;
    difference_percent, of the median of b; p, and p_holm, corrected over all rows of the table;
    least_p, the smallest that so few sessions can have. What is unknown is NaN.

    Assumed is that sessions are independent, and that the difference is the same at all hours.

    Source: Deval, "Empirical Evaluation of Cloud IaaS Platforms using System-level Benchmarks",
    2017, chapter 4, for the four windows; Schad, Dittrich and Quiane-Ruiz, VLDB 2010, for the
    question; that of ``stratified_shift``.
    """
    rows = [
        {**dict(zip(KEY, key, strict=True)), "a": a, "b": b, **_contrast(strata)}
        for key, of in sessions.groupby(KEY)
        for a, b, strata in _sides(of)
    ]
    names = ["a", "b", "n_a", "n_b", *_NUMBERS]
    table = pd.DataFrame(rows, columns=pd.Index([*KEY, *names]))
    table = table.astype(dict.fromkeys(_NUMBERS, "float64"))
    corrected = holm([None if pd.isna(p) else float(p) for p in table["p"]])
    column = list(table.columns).index("p") + 1
    table.insert(column, "p_holm", pd.Series(corrected, index=table.index, dtype="float64"))
    return table


_NUMBERS = (
    *("median_a", "median_b", "difference", "low", "high", "difference_percent"),
    *("p", "least_p"),
)
_Strata = list[tuple[list[float], list[float]]]


def _sides(rows: pd.DataFrame) -> Iterator[tuple[str, str, _Strata]]:
    """Yield both sides of each comparison: their names, and their values by stratum."""
    named = pd.Series([_words(window) for window in rows["window"]], rows.index)
    days = pd.Series([_first(of, _SIDES[0]) for of in named], rows.index, dtype=object)
    hours = pd.Series([_first(of, _SIDES[1]) for of in named], rows.index, dtype=object)
    if "day" in rows:
        days = rows["day"].astype(object).where(rows["day"].isin(_SIDES[0]), None)
    for (a, b), side, other in ((_SIDES[0], days, hours), (_SIDES[1], hours, days)):
        if side.eq(a).any() and side.eq(b).any():
            of = rows["value"].groupby([other.fillna(""), side])
            found = {key: values.tolist() for key, values in of}
            strata = sorted({str(key[0]) for key in found})
            yield a, b, [(found.get((one, a), []), found.get((one, b), [])) for one in strata]
    plain = rows.loc[~named.map(bool), "window"].dropna()
    windows = {str(name): rows["value"][rows["window"] == name].tolist() for name in set(plain)}
    for a, b in itertools.combinations(sorted(windows), 2):
        yield a, b, [(windows[a], windows[b])]


def _words(window: object) -> set[str]:
    return sides_of(window if isinstance(window, str) else None)


def _first(found: set[str], of: tuple[str, str]) -> str | None:
    return next((side for side in of if side in found), None)


def _contrast(strata: _Strata) -> dict[str, object]:
    shift = stratified_shift(strata)
    used = [pair for pair in strata if all(pair)]
    a, b = ([value for pair in used for value in pair[side]] for side in (0, 1))
    middle = statistics.median(b) if b else None
    share = 100 * shift.value / abs(middle) if shift.value is not None and middle else None
    return {
        "n_a": shift.n_a,
        "n_b": shift.n_b,
        "median_a": statistics.median(a) if a else None,
        "median_b": middle,
        "difference": shift.value,
        "low": shift.interval.low,
        "high": shift.interval.high,
        "difference_percent": share,
        "p": shift.p,
        "least_p": shift.least_p,
    }


def seasonally_adjusted(rows: pd.DataFrame) -> pd.Series:
    """Return the values of one of ``KEY``, adjusted for the seasonal effect of their windows.

    Usual for a window is the median of how far its values are from the mean of the week around
    each; it is taken away, else the change from day to night would look like noise, or like steps.
    Medians of whole windows would not do: a step moves them, each in another way. Without times,
    the week is as many sessions as there would be in one with a session of each window a day. With
    fewer than ``SHORTEST`` sessions a window nothing is taken away, for it would be mostly chance.
    In the metric's unit, in the order of the rows.

    Assumed is that windows differ by the same amount all the time.

    Source: OSMeF, after classical seasonal decomposition (Kendall and Stuart, "The Advanced Theory
    of Statistics", vol. 3, 1966), with medians.
    """
    windows, values = rows["window"].fillna(""), rows["value"]
    kinds = windows.nunique()
    if kinds == 1 or len(rows) < SHORTEST * kinds:
        return values
    return values - (values - _around(rows, kinds)).groupby(windows).transform("median")


def _around(rows: pd.DataFrame, windows: int) -> pd.Series:
    """Return the moving mean of a week around each value."""
    if rows["began"].isna().any():
        return rows["value"].rolling(7 * windows, center=True, min_periods=1).mean()
    timed = pd.Series(rows["value"].to_numpy(), pd.DatetimeIndex(rows["began"]))
    around = timed.rolling("7D", center=True).mean()
    return pd.Series(around.to_numpy(), rows.index)


def course_table(sessions: pd.DataFrame) -> pd.DataFrame:
    """Return drift, autocorrelation and changes of each of ``KEY`` over the weeks.

    Columns: ``KEY``; sessions; drift with drift_low and drift_high, by the trend from the first
    session to the last, in the metric's unit, and drift_p (``trends.drift``; NaN for fewer than 3
    sessions, or without their times); memory, the autocorrelation from one session to the next,
    with memory_bound (``autocorrelation``; lags are counted in existing sessions, so gaps make it
    too small); changes, how many there are (``with_stretches``). All of them are of
    ``seasonally_adjusted``: the usual value of a window is subtracted. Also memory_p, of Ljung and
    Box, and drift_p_holm and memory_p_holm, corrected over the whole table together. Fewer than 10
    sessions can't show a change: changes is <NA> then.

    Assumed is what these functions assume, and that windows differ by the same amount all the time.

    Source: those of ``trends.drift``, ``autocorrelation``, ``with_stretches`` and
    ``seasonally_adjusted``.
    """
    rows = [
        {**dict(zip(KEY, key, strict=True)), **_course(of)}
        for key, of in with_stretches(sessions).groupby(KEY)
    ]
    numbers = ["drift", "drift_low", "drift_high", "drift_p", "memory", "memory_bound", "memory_p"]
    table = pd.DataFrame(rows, columns=pd.Index([*KEY, "sessions", *numbers, "changes"]))
    table = table.astype({**dict.fromkeys(numbers, "float64"), "changes": "Int64"})
    known = [None if math.isnan(p) else p for name in _TESTS for p in table[name].tolist()]
    corrected = holm(known)
    for number, name in enumerate(_TESTS):
        of = corrected[number * len(table) : (number + 1) * len(table)]
        table[f"{name}_holm"] = pd.Series(of, index=table.index, dtype="float64")
    return table


_TESTS = ("drift_p", "memory_p")


def _course(rows: pd.DataFrame) -> dict[str, object]:
    values = seasonally_adjusted(rows).tolist()
    found: dict[str, object] = {"sessions": len(values)}
    seconds = _seconds(rows)
    if len(values) >= 3 and seconds is not None and len(set(seconds)) == len(seconds):
        trend = drift(values, [second / max(seconds) for second in seconds])
        found |= {"drift": trend.slope, "drift_p": trend.p}
        found |= {"drift_low": trend.interval.low, "drift_high": trend.interval.high}
    if len(values) >= SHORTEST and (memory := autocorrelation(values)) is not None:
        found |= {"memory": float(memory.coefficients[0]), "memory_bound": memory.bound}
        found["memory_p"] = memory.p
    if len(values) >= 2 * SHORTEST:
        found["changes"] = int(rows["stretch"].max())
    return found


def _seconds(rows: pd.DataFrame) -> list[float] | None:
    """Return the starts of sessions, in seconds from the first; None where one is unknown."""
    if rows["began"].isna().any():
        return None
    seconds: list[float] = (rows["began"] - rows["began"].min()).dt.total_seconds().tolist()
    return seconds


def change_table(sessions: pd.DataFrame) -> pd.DataFrame:
    """Return each change of level: the sessions before and after it, and both levels.

    Columns: ``KEY``; last, the last session of the old level, and first, the first of the new one,
    with last_began and first_began: where sessions are missing between them, it is unknown when in
    that time it was; before and after, the medians of ``seasonally_adjusted`` between the changes,
    in the metric's unit; difference_percent of before. Assumed is what ``with_stretches`` assumes.

    Source: that of ``with_stretches``.
    """
    rows = [
        {**dict(zip(KEY, key, strict=True)), **change}
        for key, of in with_stretches(sessions).groupby(KEY)
        for change in _changes(of)
    ]
    names = ["last", "first", "last_began", "first_began", "before", "after", "difference_percent"]
    return pd.DataFrame(rows, columns=pd.Index([*KEY, *names]))


def spread_table(sessions: pd.DataFrame) -> pd.DataFrame:
    """Return each change of spread: the sessions before and after it, and both spreads.

    Columns: ``KEY``, last, first, last_began and first_began are those of ``change_table``; before
    and after, the median distance of a session from the median of its ``seasonally_adjusted``
    between the changes, in percent of that. Found at 5 % over the whole table
    (``all_spread_changes``). Assumed is what that and ``with_stretches`` assume.

    Source: that of ``change_points.spread_changes``.
    """
    names = ["last", "first", "last_began", "first_began", "before", "after"]
    groups = dict(iter(with_stretches(sessions).groupby(KEY)))
    cuts = [[begin for begin, _, _ in level_segments(of)][1:] for of in groups.values()]
    series = [seasonally_adjusted(of).tolist() for of in groups.values()]
    rows = []
    for (key, of), changes in zip(groups.items(), all_spread_changes(series, cuts), strict=True):
        far = pd.Series(
            [
                100 * abs(value - middle) / abs(middle) if middle else math.nan
                for begin, end, middle in level_segments(of)
                for value in seasonally_adjusted(of).iloc[begin:end]
            ]
        )
        ends = itertools.pairwise([0, *changes, len(of)])
        sizes = [float(far.iloc[begin:end].median()) for begin, end in ends]
        for cut, (before, after) in zip(changes, itertools.pairwise(sizes), strict=True):
            found = dict(zip(KEY, key, strict=True)) | _between(of, cut)
            rows.append({**found, "before": before, "after": after})
    return pd.DataFrame(rows, columns=pd.Index([*KEY, *names]))


def with_stretches(sessions: pd.DataFrame) -> pd.DataFrame:
    """Return the sessions with a column ``stretch``: the number of changes of level before each.

    An existing such column is kept. Found at 5 % over the whole table
    (``change_points.all_change_points``, of ``seasonally_adjusted``). What is assumed is what these
    assume.

    Source: those of ``change_points.change_points`` and ``seasonally_adjusted``.
    """
    if "stretch" in sessions:
        return sessions
    groups = [of for _key, of in sessions.groupby(KEY)]
    found = all_change_points([seasonally_adjusted(of).tolist() for of in groups])
    stretch = pd.Series(0, index=sessions.index, dtype="int64")
    for of, cuts in zip(groups, found, strict=True):
        for cut in cuts:
            stretch[of.index[cut:]] += 1
    return described_like(sessions.assign(stretch=stretch), sessions)


def level_segments(rows: pd.DataFrame) -> list[tuple[int, int, float]]:
    """Return the levels of one of ``KEY``: first row, the row after the last one, the median.

    ``rows`` are of ``with_stretches``. Assumed is what that assumes.

    Source: that of ``with_stretches``.
    """
    values, stretch = seasonally_adjusted(rows), with_stretches(rows)["stretch"].to_numpy()
    cuts = [0, *(np.flatnonzero(np.diff(stretch)) + 1).tolist(), len(values)]
    return [
        (begin, end, float(values.iloc[begin:end].median()))
        for begin, end in itertools.pairwise(cuts)
    ]


def _changes(rows: pd.DataFrame) -> Iterator[dict[str, object]]:
    found = level_segments(rows)
    for (_, cut, before), (_, _, after) in itertools.pairwise(found):
        yield {
            **_between(rows, cut),
            "before": before,
            "after": after,
            "difference_percent": 100 * (after - before) / abs(before) if before else math.nan,
        }


def _between(rows: pd.DataFrame, cut: int) -> dict[str, object]:
    """Return the sessions before and after a change, with their starts."""
    last, first = rows.iloc[cut - 1], rows.iloc[cut]
    return {
        "last": last["session"],
        "first": first["session"],
        "last_began": last["began"],
        "first_began": first["began"],
    }


def price_table(platforms: pd.DataFrame, prices: pd.DataFrame) -> pd.DataFrame:
    """Return the price-performance of each platform: median over the hourly price of one VM.

    ``platforms`` is what ``platform_table`` gives, ``prices`` has platform, cell, price_per_hour
    and currency. Columns: ``KEY``, median, price_per_hour, currency, per_price, in the metric's
    unit for a unit of the currency an hour, and rank from 1 within one metric, cell and currency.
    What has no price is there with NaN and without a rank: unknown is not 0.

    Assumed is that the price was the same for all sessions.

    Source: Deval 2017, section 5.2.
    """
    table = platforms[[*KEY, "median"]].merge(
        prices, on=["platform", "cell"], how="left", validate="many_to_one"
    )
    hourly = table["price_per_hour"].where(table["price_per_hour"] > 0)
    table["per_price"] = table["median"] / hourly
    groups = table.groupby(["metric", "cell", "currency"], sort=False)["per_price"]
    table["rank"] = groups.rank(method="min", ascending=False).astype("Int64")
    return table
