"""Ping-pong by message size: times, transfer rates, and requests per second."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from osmef.analysis.effects import median_ratio
from osmef.analysis.quantiles import interval_ranks

Numbers = npt.NDArray[np.float64]

QUANTILES = {"p5": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}
"""The quantiles that are given; between p25 and p75 is half of the data, p5 to p95 hold 90 %."""

VALUES = ("time_us", "transfer_rate_bytes_per_s", "requests_per_s")
"""What a single request gives."""


def message_times(requests: pd.DataFrame) -> pd.DataFrame:
    """Return the requests that succeeded, with the values of each.

    ``requests`` has the columns of ``requests.parquet``. ``time_us`` is what ping measured, or
    siege where there was no ping; ``transfer_rate_bytes_per_s`` the length over that time, and
    ``requests_per_s`` one over it.

    Nothing is assumed: each request is a row of its own.

    Source: ppbench (Kratzke and Quint, CLOSER 2016).
    """
    good = requests[requests["error"].isna()]
    time_s = good["relay_s"].fillna(good["duration_s"]).astype("float64")
    return good.assign(
        time_us=1e6 * time_s,
        transfer_rate_bytes_per_s=good["length"].astype("float64") / time_s,
        requests_per_s=1 / time_s,
    )


def by_size(requests: pd.DataFrame) -> pd.DataFrame:
    """Return one row a message size, in order; NaN without a successful request.

    ``requests`` has the columns of ``requests.parquet``. Columns:

    - size; n, all requests; failed; retries, NaN without ping;
    - length_bytes, the sum of those that went well, as everything below is, and
      length_median_bytes, the median of one;
    - time_mean_us, and time_p5_us, time_p25_us, time_median_us, time_p75_us, time_p95_us;
    - time_ci95_low_us, time_ci95_high_us, the interval of the median, see ``group_quantiles``;
    - transfer_rate_bytes_per_s = sum(length) / sum(time);
    - requests_per_s = 1 / mean time.

    The formulas are those of ppbench (Kratzke and Quint, "ppbench, A Visualizing Network Benchmark
    for Microservices", CLOSER 2016); quantiles are Hyndman and Fan's definition 7.

    Assumed for the interval is that single requests are independent, which those of one process
    hardly are.

    Source: as named, and that of ``quantile_interval``.
    """
    asked = requests.assign(failed=requests["error"].notna()).groupby("size")
    good = message_times(requests)
    sizes = good.groupby("size")
    times = sizes["time_us"]
    mean = times.mean()
    spread = group_quantiles(good["time_us"], good["size"].to_numpy(), QUANTILES)
    spread = spread.rename_axis("size")
    length = sizes["length"].sum().astype("float64")
    columns = {
        "failed": asked["failed"].sum(),
        "retries": asked["retries"].sum(min_count=1).astype("float64"),
        "length_bytes": length,
        "length_median_bytes": sizes["length"].median().astype("float64"),
        "time_mean_us": mean,
        **{f"time_{name}_us": spread[name] for name in spread},
        "transfer_rate_bytes_per_s": 1e6 * length / times.sum(),
        "requests_per_s": 1e6 / mean,
    }
    return pd.DataFrame({"n": asked.size(), **columns}).reset_index()


def by_bin(
    requests: pd.DataFrame,
    value: str,
    edges: np.ndarray,
    quantiles: Mapping[str, float] = QUANTILES,
) -> pd.DataFrame:
    """Return the quantiles of a value of single requests over bins of the message size.

    ``value`` is one of ``VALUES``, ``requests`` what ``message_times`` gives; a bin goes from an
    edge to below the next. One row a bin: ``size``, the mean size of what is in it, a column for
    each of ``quantiles``, and those of ``group_quantiles``. An empty bin has NaN in all of them: a
    gap, not an error. Assumed for the interval is that single requests are independent, which those
    of one process hardly are.

    Source: ppbench's plots (Kratzke and Quint, CLOSER 2016); that of ``quantile_interval``.
    """
    bins = _bins(requests, edges)
    found = group_quantiles(requests[value], bins, quantiles)
    found.insert(0, "size", requests["size"].groupby(bins).mean())
    return found.reindex(range(1, len(edges))).reset_index(drop=True)


def group_quantiles(
    values: pd.Series[float], groups: np.ndarray, quantiles: Mapping[str, float]
) -> pd.DataFrame:
    """Return quantiles of the values of each group, and the 95 % interval of its median.

    ``groups`` has the number of each value's group; NaN among the values is left out. One row a
    group that has any, in order, in the unit of the values: a column for each of ``quantiles``
    (definition 7 of Hyndman and Fan, 1996); ``ci95_low`` and ``ci95_high``, the order statistics of
    ``quantile_interval``, which takes the values of a group for independent, NaN for fewer than 6.

    Source: Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician
    50, 1996; that of ``quantile_interval``.
    """
    numbers = values.to_numpy(dtype="float64")
    known = ~np.isnan(numbers)
    numbers, keys = numbers[known], groups[known]
    if keys.size and keys.min() >= 0 and keys.max() < 2**16:
        keys = keys.astype("uint16")  # which numpy sorts by radix
    order = np.argsort(keys, kind="stable")
    found, starts, counts = np.unique(keys[order], return_index=True, return_counts=True)
    ordered = numbers[order]
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        ordered[start : start + count].sort()
    columns = {name: _at(ordered, starts + q * (counts - 1)) for name, q in quantiles.items()}
    ranks = {n: interval_ranks(n) for n in np.unique(counts).tolist()}
    for side, name in enumerate(("ci95_low", "ci95_high")):
        at = np.array([rank[side] if (rank := ranks[n]) else 0 for n in counts.tolist()], dtype=int)
        columns[name] = np.where(at > 0, ordered[starts + np.maximum(at, 1) - 1], math.nan)
    return pd.DataFrame(columns, index=found.astype("int64"))


def _at(ordered: npt.NDArray[np.floating], rank: npt.NDArray[np.floating]) -> Numbers:
    """Return linearly interpolated elements."""
    below = np.floor(rank).astype(int)
    low, high = ordered[below], ordered[np.ceil(rank).astype(int)]
    with np.errstate(invalid="ignore"):  # both may be infinite
        between: Numbers = low + (rank - below) * (high - low)
    return np.where(low == high, low, between)


def relative(bins: pd.DataFrame, reference: pd.DataFrame) -> pd.DataFrame:
    """Return the ratio of two median lines over the same bins, of ``by_bin`` each.

    Columns: ``size``, of ``bins``; ``ratio`` = median / median of the reference, which is 1.0
    against itself, as in ppbench's relative plots (Kratzke and Quint, CLOSER 2016). NaN where
    either has nothing, or a median is infinite, as of times that a program rounds to 0, or that of
    the reference is 0.

    Assumed is that both lines are of the same bins.

    Source: ppbench (Kratzke and Quint, CLOSER 2016).
    """
    ratio = bins["median"].astype("float64") / reference["median"].astype("float64")
    return pd.DataFrame({"size": bins["size"], "ratio": ratio.where(np.isfinite(ratio))})


def relative_ends(
    requests: pd.DataFrame, reference: pd.DataFrame, value: str, edges: np.ndarray
) -> pd.DataFrame:
    """Return the 95 % interval of the ratio of the medians in each bin (``effects.median_ratio``).

    The arguments are those of ``by_bin``. One row a bin: ``low`` and ``high``, NaN where either
    side has fewer than 6 requests, or an infinite value, or the reference one of 0. Assumed is what
    ``by_bin`` and ``median_ratio`` assume.

    Source: that of ``median_ratio``.
    """
    ends = np.full((len(edges) - 1, 2), math.nan)
    sides = [
        {int(str(number)): rows.tolist() for number, rows in of[value].groupby(_bins(of, edges))}
        for of in (requests, reference)
    ]
    for number in set(sides[0]) & set(sides[1]) & set(range(1, len(edges))):
        one, other = sides[0][number], sides[1][number]
        if not all(map(math.isfinite, one + other)) or min(other) <= 0:
            continue
        interval = median_ratio(one, other).interval
        if interval.low is not None and interval.high is not None:
            ends[number - 1] = interval.low, interval.high
    return pd.DataFrame(ends, columns=pd.Index(["low", "high"]))


def _bins(requests: pd.DataFrame, edges: np.ndarray) -> npt.NDArray[np.intp]:
    sizes: Numbers = requests["size"].to_numpy(dtype="float64")
    return np.digitize(sizes, edges)
