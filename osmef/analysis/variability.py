"""Variability of a platform's results between sessions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pandas as pd

from osmef.analysis.chi_squared import chi_squared_quantiles
from osmef.analysis.describe import describe
from osmef.analysis.quantiles import ConfidenceInterval, finite


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

    ``sessions`` is what ``session_results`` gives; a platform is what ``by`` tells apart. Columns:
    those of ``by``; sessions, their number; median, the platform's result, with ci95_low and
    ci95_high (``quantile_interval``); mean; stdev, with n - 1; cov_percent = 100 * stdev / mean;
    min and max; all but the CoV in the unit of ``value``. What is unknown is NaN. Assumed is that
    sessions are independent. Of the CoV of 4 sessions little is known: of normal results, the true
    one may be from 0.6 to 3.7 times as large (95 %).

    Source: Deval 2017, sections 5.3 and 6; Schad, Dittrich and Quiane-Ruiz, "Runtime Measurements
    in the Cloud", VLDB 2010.
    """
    rows = []
    for key, group in sessions.groupby(list(by), sort=False):
        metric = describe(group[value].dropna().tolist())
        names = dict(zip(by, key, strict=True))
        rows.append({**names, "sessions": metric.n, **metric.model_dump(exclude={"n"})})
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
