"""Descriptive statistics of a metric, and of the cells of a frame."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.describe import describe, describe_cells

numbers = st.floats(min_value=-1e9, max_value=1e9)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_non_finite_values_are_rejected(bad: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        describe([1.0, bad])


def test_describe_a_small_sample() -> None:
    metric = describe([2.0, 4.0, None, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert (metric.n, metric.median, metric.mean) == (8, 4.5, 5.0)
    assert metric.stdev == pytest.approx(math.sqrt(32 / 7))
    assert metric.cov_percent == pytest.approx(100 * math.sqrt(32 / 7) / 5)
    assert (metric.min, metric.max) == (2.0, 9.0)
    assert (metric.ci95_low, metric.ci95_high, metric.ci95_reason) == (2.0, 9.0, None)


def test_the_coefficient_of_variation_of_negative_values_is_positive() -> None:
    assert describe([-8.0, -12.0]).cov_percent == describe([8.0, 12.0]).cov_percent


def test_unknown_statistics_are_none_and_never_zero() -> None:
    nothing = describe([None, None])
    assert nothing.n == 0
    known = nothing.model_dump(exclude={"n", "ci95_reason"}).values()
    assert set(known) == {None}
    assert describe([3.0]).stdev is None
    assert describe([0.0, 0.0]).cov_percent is None


@given(st.lists(numbers, min_size=1, max_size=50))
def test_the_order_of_the_trials_does_not_matter(values: list[float]) -> None:
    assert describe(reversed(values)) == describe(values)


TRIALS = pd.DataFrame(
    {
        "cell": ["b", "b", "a", "a", "b"],
        "connections": pd.array([2, 2, 1, 1, 2], dtype="Int64"),
        "aggregate_btc_bps": [1e9, 3e9, 5e9, math.nan, 2e9],
        "retransmits": [math.nan] * 5,
    }
)


def test_one_row_a_cell_and_metric_in_the_order_of_the_trials() -> None:
    table = describe_cells(TRIALS, ["aggregate_btc_bps", "retransmits"], ["cell", "connections"])
    assert table[["cell", "metric", "n"]].values.tolist() == [
        ["b", "aggregate_btc_bps", 3],
        ["b", "retransmits", 0],
        ["a", "aggregate_btc_bps", 1],
        ["a", "retransmits", 0],
    ]
    first = table.iloc[0]
    assert (first["median"], first["mean"], first["cov_percent"]) == (2e9, 2e9, 50.0)
    assert first["ci95_reason"] == "n = 3; 95 % needs n >= 6"


def test_unknown_statistics_are_missing_in_the_table() -> None:
    table = describe_cells(TRIALS, ["retransmits"])
    assert table[["median", "mean", "stdev", "ci95_low"]].isna().all(axis=None)


def test_cells_without_a_key_are_kept() -> None:
    odd = TRIALS.assign(connections=pd.array([2, 2, None, None, 2], dtype="Int64"))
    assert len(describe_cells(odd, ["retransmits"], ["connections"])) == 2


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError, match="goodput"):
        describe_cells(TRIALS, ["goodput_bps"])
