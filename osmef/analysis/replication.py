"""Replication: its units, the variability between sessions, and the number of repetitions.

Trials of one session share its hour, its hosts and its neighbours, so where there are sessions the
session is the unit of replication, and its result is the median of its trials (Deval, "Empirical
Evaluation of Cloud IaaS Platforms using System-level Benchmarks", 2017, chapter 5).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pandas as pd

from osmef.analysis.describe import describe, describe_trials
from osmef.analysis.distributions import beta_quantile, normal_quantile
from osmef.analysis.null_distributions import chi_squared_quantiles
from osmef.analysis.quantiles import ConfidenceInterval, check, finite, interval_ranks, minimum_n
from osmef.results.summary import MetricSummary

PLATFORM = ("platform", "scenario", "provider", "sender_flavors", "receiver_flavors")
"""What may distinguish two platforms, of the columns of ``osmef.load``, the broadest first."""


PLACE = ("achieved_placement", "achieved_tenancy")
"""Where its ends stood, which a cloud may decide again for each run."""

_ALIKE = (("run", "cell"), ("scenario", "platform", "provider", "cell"))
_OF_RUN = ("platform", "scenario", "provider")


def fill_platforms(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with ``PLATFORM`` and ``PLACE`` of failed ones filled in from their cell.

    A trial that failed early may lack it. Then it gets the value of all others of its cell in its
    run, or, for flavors and places, of its platform, if these have only one value. What a
    successful trial lacks stays unknown: it may be of any platform.
    """
    if "status" not in trials:
        return trials
    filled, failed = trials.copy(deep=False), trials["status"] != "ok"
    for name in (name for name in (*PLATFORM, *PLACE) if name in trials):
        for keys in _ALIKE[:1] if name in _OF_RUN else _ALIKE:
            unknown = filled[name].isna()
            if unknown.all() or not (unknown & failed).any():
                break
            there = [key for key in keys if key in filled and key != name]
            groups = filled.groupby(there, sort=False, dropna=False)[name]
            only = groups.transform("first").where(groups.transform("nunique") == 1)
            filled[name] = filled[name].where(~(unknown & failed), only)
    return filled


def is_loopback(trials: pd.DataFrame) -> pd.Series[bool]:
    """Return which trials of ``osmef.load`` are of a machine with itself."""
    if "senders" not in trials or "receivers" not in trials:
        return pd.Series(data=False, index=trials.index)
    return trials["senders"].notna() & trials["senders"].eq(trials["receivers"])


def has_sessions(*trials: pd.DataFrame) -> bool:
    """Return whether any trial of these frames of ``osmef.load`` is of a session."""
    return any("session" in frame and bool(frame["session"].notna().any()) for frame in trials)


def has_pairs(*trials: pd.DataFrame) -> bool:
    """Return whether any trial of these frames of ``osmef.load`` is on one pair of several."""
    return any("pair" in frame and bool(frame["pair"].notna().any()) for frame in trials)


def has_runs(trials: pd.DataFrame) -> bool:
    """Return whether trials of one cell are of several runs, each of which counts as one value."""
    return "run" in trials and trials["run"].nunique() > 1


def independent(
    trials: pd.DataFrame, metric: str, *, by_session: bool | None = None
) -> list[float]:
    """Return the independent replicates of a metric, in its unit and in their order.

    ``trials`` are those of one cell of one platform. ``by_session``: the median of each session, a
    run without sessions being one; else that of each pair of endpoints, where each has trials of
    its own, or each trial that has the metric; without, as the trials are.

    Assumed is that trials of one session, or on one pair, are not independent, and sessions and
    pairs are.

    Source: Hurlbert, "Pseudoreplication and the Design of Ecological Field Experiments", Ecological
    Monographs 54, 1984; Deval, 2017, chapter 5.
    """
    if metric not in trials:
        return []
    known = trials[trials[metric].notna()]
    sessions = has_sessions(trials) if by_session is None else by_session
    if not sessions and has_pairs(known):
        keys = [name for name in ("run", "pair") if name in known]
        medians = known.groupby(keys, sort=False, dropna=False)[metric].median()
        return [float(value) for value in medians]
    if not sessions:
        return [float(value) for value in known[metric]]
    return list(session_medians(known, metric).values())


def describe_replicates(
    trials: pd.DataFrame, metric: str, *, by_session: bool | None = None
) -> MetricSummary:
    """Return the statistics of the independent replicates of a metric (``independent``).

    Those of single trials are ``describe_trials``. Assumed and raised is what these assume and
    raise.

    Source: those of ``independent`` and ``describe``.
    """
    if metric not in trials:
        return describe([])
    nested = has_sessions(trials) if by_session is None else by_session
    if nested or has_pairs(trials[trials[metric].notna()]):
        return describe(independent(trials, metric, by_session=by_session))
    return describe_trials(trials, metric)


def session_medians(trials: pd.DataFrame, metric: str) -> dict[str, float]:
    """Return the median of each session in the order in which they occur, by its name.

    A session is one of one run, and a run without any is one; the name is that of the run where
    several sessions are called alike.

    Assumed is what ``independent`` assumes.

    Source: that of ``independent``.
    """
    keys = [name for name in ("run", "session") if name in trials]
    known = trials[trials[metric].notna()]
    medians = known.groupby(keys, sort=False, dropna=False)[metric].median()
    sessions = medians.index.to_frame(index=False).astype(object)
    short = sessions[keys[-1]]
    names = [str(one) for one in (short.where(short.notna(), sessions[keys[0]]))]
    if len(set(names)) < len(names):
        names = [" ".join(map(str, row)) for row in sessions.to_numpy()]
    return dict(zip(names, map(float, medians), strict=True))


def platform_columns(*frames: pd.DataFrame, columns: Sequence[str] = PLATFORM) -> list[str]:
    """Return the columns that distinguish the platforms of frames of trials.

    A column is needed if trials of one cell have several values of it in any of the frames; that of
    scenarios if a whole frame has several, since cells of two scenarios may have the same name. A
    column that a frame lacks, or that is empty, does not count.
    """
    found: list[str] = []
    for name in columns:
        if any(name not in frame or frame[name].isna().all() for frame in frames):
            continue
        within = found if name == "scenario" else [*found, "cell"]
        if any(_several(frame, within, name) for frame in frames):
            found.append(name)
    return found


def _several(frame: pd.DataFrame, within: Sequence[str], name: str) -> bool:
    if not within:
        return bool(frame[name].nunique(dropna=False) > 1)
    return bool((frame.groupby(list(within), dropna=False)[name].nunique(dropna=False) > 1).any())


def place_columns(trials: pd.DataFrame) -> list[str]:
    """Return the columns of ``PLACE`` with several values in a cell of a platform."""
    return [name for name in platform_columns(trials, columns=(*PLATFORM, *PLACE)) if name in PLACE]


def cell_names(trials: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the name of each trial's cell, after its ``platform_names`` by ``columns``."""
    pairs = zip(platform_names(trials, columns), trials["cell"], strict=True)
    return [f"{name}: {cell}" if name else str(cell) for name, cell in pairs]


def platform_names(trials: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the name of each trial's platform: the values of the columns that distinguish it.

    Flavors of both ends that are the same stand once.
    """
    texts = [["unknown" if one is None or one != one else str(one) for one in trials[name]]  # noqa: PLR0124 - NaN is not itself
             for name in columns]  # fmt: skip
    rows = zip(*texts, strict=True) if texts else [()] * len(trials)
    return [", ".join(dict.fromkeys(row)) for row in rows]


def session_results(points: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """Return the result of each session: the median of its data points.

    ``points`` has the columns of ``by``, ``session`` and ``value``, one row a data point, such as a
    trial of ``osmef.load``; NaN is unknown and not counted. One row for each of ``by`` and session:
    these, and ``value`` in its unit.

    Assumed is that the data points of a session are of one moment.

    Source: Deval, "Empirical Evaluation of Cloud IaaS Platforms using System-level Benchmarks",
    2017, chapter 5.
    """
    groups = points.groupby([*by, "session"], sort=False)[value]
    return groups.median().dropna().reset_index()


def variability(sessions: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """Return one row a platform: its result, and its variability between sessions.

    ``sessions`` is a result of ``session_results``; a platform is a combination of the columns
    ``by``. Columns: those of ``by``; sessions, their number; median, the platform's result, with
    ci95_low and ci95_high (``quantile_interval``); mean; stdev, with n - 1; cov_percent = 100 *
    stdev / |mean|; min and max; all but the CoV in the unit of ``value``. Unknown values are NaN.
    Assumed is that sessions are independent. The CoV of 4 sessions is uncertain: of normal results,
    the true one may be from 0.6 to 3.7 times as large (95 %).

    Source: Deval 2017, sections 5.3 and 6; Schad, Dittrich and Quiane-Ruiz, "Runtime Measurements
    in the Cloud", VLDB 2010.
    """
    rows = []
    for key, group in sessions.groupby(list(by), sort=False):
        metric = describe(group[value].dropna().tolist())
        names = dict(zip(by, key, strict=True))
        rows.append({**metric.model_dump(exclude={"n"}), **names, "sessions": metric.n})
    numbers = ["median", "mean", "stdev", "cov_percent", "min", "max", "ci95_low", "ci95_high"]
    table = pd.DataFrame(rows, columns=pd.Index([*by, "sessions", *numbers]))
    return table.astype(dict.fromkeys(numbers, "float64"))


def cov_interval(values: Sequence[float], confidence: float = 0.95) -> ConfidenceInterval:
    """Return the interval of the coefficient of variation, in percent.

    ``values`` are session results or trials, in any one unit. Assumed is that they are independent
    and normally distributed, and that the CoV is below a third or so, above which it is only rough.
    There is none for fewer than 2 values, or a mean that is not above 0. Raises ValueError for a
    value that is not finite.

    Source: Vangel, "Confidence Intervals for a Normal Coefficient of Variation", The American
    Statistician 50, 1996 (McKay's method, modified).
    """
    known = finite(values)
    if len(known) < 2 or statistics.fmean(known) <= 0:
        return ConfidenceInterval(None, None, None, "2 values with a mean above 0 are needed")
    n, ratio = len(known), statistics.stdev(known) / statistics.fmean(known)
    ends = []
    tails = np.array([(1 + confidence) / 2, (1 - confidence) / 2])
    for quantile in chi_squared_quantiles(tails, n - 1).tolist():
        below = ((quantile + 2) / n - 1) * ratio**2 + quantile / (n - 1)
        ends.append(100 * ratio / math.sqrt(below) if below > 0 else math.inf)
    return ConfidenceInterval(ends[0], ends[1], confidence)


MOST = 100_000
"""More repetitions than these are not looked for."""

ASSURANCE = 0.8
"""In so large a share of cases at least ``repetitions_for_median`` are enough."""

_CAUTION = 0.6  # standard errors that give the assurance, by simulation
_IQR_ERROR = 1.36  # the squared relative error of an interquartile range, times n, if normal


def repetitions_for_mean(
    values: Sequence[float], relative_error: float, confidence: float = 0.95
) -> int | None:
    """Return how many trials give the mean to within a share of it, by Jain's formula.

    ``values`` are trials that were made, in any one unit; ``relative_error`` r is half of the
    interval's width over the mean, 0.05 for +-5 %. n = (z s / (r mean))^2, rounded up, at least 2.
    Assumed is that trials are independent, their mean is normally distributed, and their standard
    deviation s is known well: with few trials it is not, so ask again as they come in. None where
    the mean is 0. Raises ValueError for fewer than 2 values, a value that is not finite, and a
    relative error that is not above 0.

    Source: Jain, "The Art of Computer Systems Performance Analysis", 1991, section 13.9.1.
    """
    known = _pilot(values, relative_error, confidence)
    mean = statistics.fmean(known)
    if mean == 0:
        return None
    z = normal_quantile((1 + confidence) / 2)
    wanted = (z * statistics.stdev(known) / (relative_error * abs(mean))) ** 2
    # Rounding must not turn a whole number into the next one.
    return max(2, math.ceil(wanted * (1 - 1e-12)))


def repetitions_for_median(
    values: Sequence[float], relative_error: float, confidence: float = 0.95
) -> int | None:
    """Return how many trials give the median to within a share of it, by order statistics.

    ``values`` are trials that were made, in any one unit; ``relative_error`` r is half of the width
    of the median's exact interval over the median, 0.05 for +-5 %. The returned number is enough in
    at least ``ASSURANCE`` of cases: a number that is enough on average would be too small in half
    of all cases. The interval of n trials goes from their l-th to their u-th value
    (``interval_ranks``), expected at the quantiles l/(n+1) and u/(n+1), which are estimated from
    the values (Hyndman and Fan's definition 6), but no narrower than their interquartile range
    implies; the errors of both, of few values and of the n trials, are added, and each end may be
    as far off as in one of five cases. Simulated from 6 to 40 values, normal, skewed, bimodal,
    heavy-tailed and correlated ones (docs/methods.md). Assumed is that trials are independent and
    as spread as the values, with any distribution. None where the median is 0, or ``MOST`` trials
    are not enough. Raises ValueError as ``repetitions_for_mean`` does.

    Source: OSMeF; the idea, by resampling, is that of Maricq et al., "Taming Performance
    Variability", OSDI 2018 (CONFIRM); the assurance: Kupper and Hafner,
    The American Statistician 43, 1989.
    """
    known = np.asarray(_pilot(values, relative_error, confidence))
    median = abs(float(np.median(known)))
    if median == 0:
        return None

    def enough(n: int) -> bool:
        return _width(known, n, confidence) <= 2 * relative_error * median * (1 + 1e-12)

    least = minimum_n(0.5, confidence)
    if enough(least):
        return least
    most = least
    while not enough(most):
        least, most = most, 2 * most
        if least > MOST:
            return None
    # The ranks jump, so that one more trial may widen the interval a little; that is accepted.
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def _width(known: np.ndarray, n: int, confidence: float) -> float:
    """Return the expected upper bound of the interval's width for n trials."""
    low, high = interval_ranks(n, 0.5, confidence) or (1, n)
    far = (
        beta_quantile(1 - ASSURANCE, low, n - low + 1),
        beta_quantile(ASSURANCE, high, n - high + 1),
    )
    at = [low / (n + 1), high / (n + 1), *far, 0.25, 0.75]
    ends = np.quantile(known, at, method="weibull")
    expected, assured, quarters = (float(width) for width in ends[1::2] - ends[::2])
    smooth = (high - low) / (n + 1) * 2 * quarters
    error = math.exp(_CAUTION * math.sqrt(_IQR_ERROR / known.size + 0.5 / math.sqrt(n)))
    return max(assured, error * max(expected, smooth))


def _pilot(values: Sequence[float], relative_error: float, confidence: float) -> list[float]:
    check(0.5, confidence)
    if not relative_error > 0:
        raise ValueError(f"a relative error is above 0, and {relative_error!r} is not")
    known = finite(values)
    if len(known) < 2:
        raise ValueError("a spread needs at least 2 values")
    return known
