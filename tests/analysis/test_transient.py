"""Warm-ups that nobody has left out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from osmef.analysis.diagnostics import _p, find_warm_up, warm_ups
from tests.simulate.shapes import SHAPES


def slow_start(trials: int = 6, seconds: int = 2) -> list[list[float]]:
    chance = np.random.default_rng(1)
    rows = 100 * (1 + 0.02 * chance.standard_normal((trials, 10)))
    rows[:, :seconds] *= 0.6
    return [[float(rate) for rate in row] for row in rows]


def test_a_slow_start_is_told_with_its_length_and_what_it_costs() -> None:
    found = find_warm_up(slow_start())
    assert found is not None
    assert found.intervals == 2
    assert found.loss == pytest.approx(0.08, abs=0.01)
    assert found.p < 1e-3


def test_the_p_is_that_of_all_ways() -> None:
    for first in range(1, 5):
        for second in range(1, 4):
            ways = [a + b <= first + second for a in range(1, 5) for b in range(1, 4)]
            assert _p([first, second], [4, 3]) == pytest.approx(np.mean(ways))


@pytest.mark.parametrize("name", SHAPES)
def test_noise_has_no_warm_up(name: str) -> None:
    chance = np.random.default_rng(7)
    found = [find_warm_up(SHAPES[name](chance, (6, 10)).tolist()) for _ in range(300)]
    alarms = sum(one is not None and one.p <= 0.05 for one in found)
    assert stats.binomtest(alarms, 300, 0.05, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("series", [[], [[1.0] * 7], [[0.0] * 10], [[]]])
def test_too_little_tells_nothing(series: list[list[float]]) -> None:
    assert find_warm_up(series) is None


def test_a_burst_is_none() -> None:
    found = find_warm_up([[300.0, 200.0, *([100.0] * 8)]] * 6)
    assert found is not None
    assert (found.p, found.intervals, found.loss) == (1.0, 0, 0.0)


rates = st.lists(st.floats(0, 1e12), max_size=30)


@given(series=st.lists(rates, max_size=6))
def test_whatever_the_rates_are(series: list[list[float]]) -> None:
    found = find_warm_up(series)
    assert found is None or 0 < found.p <= 1 + 1e-9


ENDS = (("receiver", "measured"), ("receiver", "background"), ("sender", "measured"))


def intervals(series: dict[str, list[list[float]]], warmup: int = 0) -> pd.DataFrame:
    rows = [
        {"run": "r", "cell": cell, "trial": trial, "purpose": purpose, "endpoint": "vm-2",
         "peer": "vm-1", "role": role, "flow": flow, "start_s": 0.5 * second, "length_s": 0.5,
         "warmup": second < warmup, "bytes": int(1e6 * rate * (1 if purpose == "measured" else 9))}
        for cell, trials in series.items()
        for trial, rates in enumerate(trials)
        for second, rate in enumerate(rates)
        for role, purpose in ENDS
        for flow in (0, 1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_cells_with_a_slow_start_are_told() -> None:
    flat = [[100.0] * 10] * 6
    table = warm_ups(intervals({"a=1": slow_start(), "a=2": flat}))
    (row,) = table.to_dict("records")
    assert row["cell"] == "a=1"
    assert row["trials"] == 6
    assert row["warmup_s"] == pytest.approx(1.0)
    assert row["loss_percent"] == pytest.approx(8, abs=1)


def test_what_was_given_as_warm_up_is_left_out() -> None:
    assert warm_ups(intervals({"a=1": slow_start()}, warmup=2)).empty


def test_no_intervals() -> None:
    assert warm_ups(intervals({"": []}).reindex(columns=intervals({"a": [[1.0]]}).columns)).empty
