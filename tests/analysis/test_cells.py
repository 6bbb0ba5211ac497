import math

import pandas as pd
import pytest

from osmef.analysis.describe import describe_cells

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


def test_what_is_unknown_is_missing() -> None:
    table = describe_cells(TRIALS, ["retransmits"])
    assert table[["median", "mean", "stdev", "ci95_low"]].isna().all(axis=None)


def test_cells_without_a_key_are_kept() -> None:
    odd = TRIALS.assign(connections=pd.array([2, 2, None, None, 2], dtype="Int64"))
    assert len(describe_cells(odd, ["retransmits"], ["connections"])) == 2


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(KeyError, match="goodput"):
        describe_cells(TRIALS, ["goodput_bps"])
