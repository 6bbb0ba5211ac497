from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from osmef.analysis.effects import hodges_lehmann
from osmef.analysis.hypothesis_tests import blocks, friedman, paired_difference, paired_ratio
from tests.simulate.shapes import SHAPES

pairs = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=9)


@given(pairs)
def test_p_is_the_share_of_all_signs(both: list[tuple[int, int]]) -> None:
    a, b = [float(x) for x, _ in both], [float(y) for _, y in both]
    apart = np.array([x - y for x, y in both if x != y])
    ranks = stats.rankdata(np.abs(apart))
    found = paired_difference(a, b).p
    if not apart.size:
        assert found == 1
        return
    sums = [float(ranks @ signs) for signs in itertools.product((0, 1), repeat=apart.size)]
    observed = float(ranks @ (apart > 0))
    tails = [sum(s <= observed + 1e-9 for s in sums), sum(s >= observed - 1e-9 for s in sums)]
    assert found == pytest.approx(min(1.0, 2 * min(tails) / len(sums)))


@given(pairs, st.floats(0.1, 10))
def test_both_ways_round_are_opposite(both: list[tuple[int, int]], factor: float) -> None:
    a, b = [float(x) for x, _ in both], [float(y) for _, y in both]
    one, other = paired_difference(a, b), paired_difference(b, a)
    assert one.value == pytest.approx(-(other.value or 0.0))
    assert one.p == other.p
    assert (one.interval.low is None) == (len(both) < 6)
    ratio = paired_ratio([factor * x for x in a], b)
    assert ratio.value == pytest.approx(factor * (paired_ratio(a, b).value or 0))


def test_without_ties_it_is_that_of_scipy() -> None:
    chance = np.random.default_rng(1)
    for n in (8, 30, 60):
        a, b = chance.normal(0.3, 1, (2, n))
        exact = stats.wilcoxon(a, b, method="exact").pvalue
        assert paired_difference(a.tolist(), b.tolist()).p == pytest.approx(exact)
    a, b = chance.normal(0.1, 1, (2, 300))
    near = stats.wilcoxon(a, b, method="approx", correction=True).pvalue
    assert paired_difference(a.tolist(), b.tolist()).p == pytest.approx(near, rel=0.02)


@pytest.mark.parametrize("shape", [name for name in SHAPES if "correlated" not in name])
def test_intervals_hold_the_ratio_and_noise_is_not_found(shape: str) -> None:
    chance, held, alarms, times = np.random.default_rng(3), 0, 0, 300
    for a, b in np.abs(SHAPES[shape](chance, (times, 2, 8))):
        found = paired_ratio((0.8 * a).tolist(), b.tolist())
        low, high = found.interval.low, found.interval.high
        held += (
            low is not None and high is not None and low <= 0.8 * (1 + 1e-9) <= high * (1 + 2e-9)
        )
        alarms += (paired_ratio(a.tolist(), b.tolist()).p or 0) <= 0.05
    assert held >= 0.92 * times
    assert alarms <= 26


def test_a_drift_that_hides_a_difference_from_unpaired_cells_does_not_from_pairs() -> None:
    chance, found, unpaired = np.random.default_rng(5), 0, 0
    for _ in range(40):
        drift = 1 - 0.2 * np.arange(8) / 7
        a, b = (100 * level * drift * (1 + 0.02 * chance.standard_normal(8)) for level in (0.95, 1))
        high = paired_ratio(a.tolist(), b.tolist()).interval.high
        found += high is not None and high < 1
        shift = hodges_lehmann(a.tolist(), b.tolist()).interval.high
        unpaired += shift is not None and shift < 0
    assert found >= 36
    assert unpaired <= 8


def trials(rows: list[tuple[str, int, str, float | None]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["run", "group", "cell", "goodput_bps"])


def test_a_block_has_each_cell_once() -> None:
    found = blocks(
        trials([("r", 1, "a", 1.0), ("r", 1, "b", 2.0), ("r", 2, "b", 4.0), ("r", 2, "a", None)]),
        "goodput_bps",
    )
    assert found["b"].tolist() == [2.0, 4.0]
    assert found["a"].isna().tolist() == [False, True]
    sequential = trials([("r", 1, "a", 1.0), ("r", 1, "a", 2.0), ("r", 2, "b", 4.0)])
    assert blocks(sequential, "goodput_bps").empty
    assert blocks(trials([("r", 1, "a", 1.0), ("r", 2, "b", 4.0)]), "goodput_bps").empty
    assert blocks(sequential, "other").empty


def test_many_cells_that_are_alike_seldom_differ_and_one_that_does_is_found() -> None:
    chance, alarms = np.random.default_rng(6), 0
    for _ in range(100):
        level = 100 * (1 + 0.1 * chance.standard_normal((6, 1)))
        table = level * (1 + 0.02 * chance.standard_normal((6, 4)))
        alarms += (friedman(pd.DataFrame(table)) or 0) <= 0.05
        table[:, 2] *= 1.1
    assert alarms <= 11
    assert (friedman(pd.DataFrame(table)) or 1) < 0.01
    assert friedman(pd.DataFrame(table[:, :1])) is None


def test_what_is_no_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        paired_difference([1.0], [])
    with pytest.raises(ValueError, match="above 0"):
        paired_ratio([0.0], [1.0])
    assert paired_difference([], []).value is None
