"""Ping-pong by message size."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.pingpong import (
    QUANTILES,
    VALUES,
    by_bin,
    by_size,
    message_times,
    relative,
    relative_ends,
)
from osmef.analysis.quantiles import quantile_interval

COLUMNS = ["size", "duration_s", "relay_s", "length", "retries", "error"]


def frame(*rows: tuple[Any, ...]) -> pd.DataFrame:
    """Return requests: size, duration, time at ping, length, retries, error."""
    return pd.DataFrame(rows, columns=pd.Index(COLUMNS)).convert_dtypes()


def test_the_time_is_ping_s_or_else_siege_s() -> None:
    found = message_times(
        frame(
            (10, 0.5, 0.25, 10, 0, None), (10, 0.5, None, 10, None, None), (9, 1, 1, 0, 3, "status")
        )
    )
    assert found["time_us"].tolist() == [250_000, 500_000]
    assert found["transfer_rate_bytes_per_s"].tolist() == [40, 20]
    assert found["requests_per_s"].tolist() == [4, 2]


def test_a_size_without_a_good_answer_has_no_times() -> None:
    found = by_size(
        frame((5, 0.1, 0.1, 5, 0, None), (2, None, None, None, None, "timeout"))
    ).set_index("size")
    assert found.index.tolist() == [2, 5]
    assert found.loc[[2], ["n", "failed"]].to_numpy().tolist() == [[1, 1]]
    assert found.drop(columns=["n", "failed"]).loc[[2]].isna().all(axis=None)
    assert found.loc[5, "time_median_us"] == pytest.approx(100_000)
    assert found.loc[5, "failed"] == 0


requests = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.floats(1e-6, 10),
        st.integers(0, 10**6),
        st.integers(0, 10),
        st.sampled_from([None, None, "timeout"]),
    ),
    min_size=1,
)


@given(rows=requests)
def test_the_formulas_are_those_of_ppbench(
    rows: list[tuple[int, float, int, int, str | None]],
) -> None:
    found = by_size(
        frame(*((size, 2 * s, s, length, again, error) for size, s, length, again, error in rows))
    ).set_index("size")
    assert found.index.tolist() == sorted({row[0] for row in rows})
    for size in found.index:
        same = [row for row in rows if row[0] == size]
        ms = [1000 * s for _, s, _, _, error in same if error is None]
        lengths = [length for _, _, length, _, error in same if error is None]
        row = found.loc[size]
        assert (row["n"], row["failed"]) == (len(same), len(same) - len(ms))
        assert row["retries"] == sum(again for _, _, _, again, _ in same)
        if not ms:
            assert np.isnan(row["requests_per_s"])
            continue
        assert row["time_mean_us"] / 1000 == pytest.approx(statistics.fmean(ms))
        assert row["time_median_us"] / 1000 == pytest.approx(statistics.median(ms))
        assert row["length_median_bytes"] == statistics.median(lengths)
        assert row["requests_per_s"] == pytest.approx(1000 / statistics.fmean(ms))
        assert row["transfer_rate_bytes_per_s"] == pytest.approx(sum(lengths) * 1000 / sum(ms))
        interval = quantile_interval(ms)
        for end, value in (("low", interval.low), ("high", interval.high)):
            wanted = math.nan if value is None else value
            assert row[f"time_ci95_{end}_us"] / 1000 == pytest.approx(wanted, nan_ok=True)
        for name, q in QUANTILES.items():
            assert row[f"time_{name}_us"] / 1000 == pytest.approx(np.quantile(ms, q))


def test_an_empty_bin_is_a_gap() -> None:
    rows = message_times(frame(*((size, 1.0, size, 1, 0, None) for size in (1, 3, 25))))
    bins = by_bin(rows, "time_us", np.array([0, 10, 20, 30]))
    assert bins["size"].tolist()[::2] == [2, 25]
    assert bins["median"].tolist()[::2] == [2e6, 25e6]
    assert bins.loc[1].isna().all()


def test_the_ratio_of_medians_is_nan_where_either_has_nothing() -> None:
    edges = np.array([0, 10, 20, 30])
    one, other = (
        by_bin(message_times(frame(*rows)), "time_us", edges)
        for rows in (
            [(1, 2.0, 2.0, 1, 0, None), (11, 1.0, 1.0, 1, 0, None)],
            [(2, 0.5, 0.5, 1, 0, None), (25, 1.0, 1.0, 1, 0, None)],
        )
    )
    assert relative(one, one)["ratio"].tolist()[:2] == [1.0, 1.0]
    found = relative(one, other)
    assert found["ratio"].tolist()[0] == 4.0
    assert found["ratio"].isna().tolist() == [False, True, True]
    assert found["size"].tolist()[:2] == [1, 11]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(("time", "length"), [(0.0, 10), (0.01, 0), (0.0, 0)])
def test_times_and_lengths_of_0_give_no_infinite_ratio(
    value: str, which: int, time: float, length: int
) -> None:
    """Programs that round the time to milliseconds report 0, and an answer may be empty."""
    usual = [(10, 0.01 * (n + 1), None, 10, None, None) for n in range(8)]
    odd = [(10, time, None, length, None, None)] * 6
    sides = [message_times(frame(*usual)), message_times(frame(*usual[:2], *odd))]
    if which:
        sides.reverse()
    edges = np.array([1, 20])
    bins = [by_bin(of, value, edges) for of in sides]
    ratio = relative(bins[0], bins[1])["ratio"]
    assert not np.isinf(ratio).any()
    ends = relative_ends(sides[0], sides[1], value, edges)
    assert np.isfinite(ends).all(axis=None) or ends.isna().all(axis=None)
