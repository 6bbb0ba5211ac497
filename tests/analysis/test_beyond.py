from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from osmef.analysis.hypothesis_tests import holm, hommel, lower_p, memory_of
from tests.simulate.shapes import SHAPES, correlated

samples = st.lists(st.integers(0, 50).map(float), min_size=2, max_size=12)


@given(samples, samples)
def test_it_is_the_larger_p_of_both_tests(a: list[float], b: list[float]) -> None:
    found = lower_p(a, b)
    assert found is not None
    if 1 in {len({*a}), len({*b})}:
        return
    assert found >= stats.ttest_ind(b, a, equal_var=False, alternative="less").pvalue - 1e-9
    if len({*a, *b}) == len(a) + len(b):
        exact = stats.mannwhitneyu(b, a, alternative="less", method="exact").pvalue
        assert found >= exact - 1e-9
    assert lower_p([3 * x for x in a], [3 * x for x in b]) == pytest.approx(found)


def test_many_values_are_approximated_and_few_tell_nothing() -> None:
    chance = np.random.default_rng(1)
    a, b = chance.normal(1, 1, 80).tolist(), chance.normal(0, 1, 80).tolist()
    assert (lower_p(a, b) or 1) < 1e-6
    assert (lower_p(b, a) or 0) > 0.99
    assert lower_p([1.0], [1.0, 2.0]) is None
    assert lower_p([1.0] * 60, [1.0] * 60) == 1.0


SYMMETRIC = ("normal", "rounded", "heavy tails (t of 2)")
SKEWED = ("bimodal, 80/20", "lognormal of 0.5", "5 % outliers")


@pytest.mark.parametrize(
    ("shape", "spread"),
    [*((name, 1.0) for name in (*SYMMETRIC, *SKEWED)), *((name, 4.0) for name in SYMMETRIC)],
)
def test_twenty_four_equal_cells_seldom_alarm(shape: str, spread: float) -> None:
    """Cells of 6 against 6, also where B varies more than A around the same level."""
    chance, alarms, times = np.random.default_rng(5), 0, 60
    for _ in range(times):
        a, b = (SHAPES[shape](chance, (24, 6)) for _ in range(2))
        b = 100 + spread * (b - 100)
        found = hommel([lower_p(x.tolist(), y.tolist()) for x, y in zip(a, b, strict=True)])
        alarms += min(p for p in found if p is not None) <= 0.05
    assert alarms <= 8  # at 5 % more have less than a chance in 100


def test_one_cell_that_may_remember_seldom_alarms() -> None:
    chance, alarms = np.random.default_rng(6), 0
    for _ in range(200):
        a, b = correlated(0.5)(chance, (2, 6)).tolist()
        alarms += (lower_p(a, b, memory_of([a, b])) or 0.0) <= 0.05
    assert alarms <= 19  # at 5 % more have less than a chance in 100


def test_a_wide_sample_of_six_proves_no_more_than_its_signs() -> None:
    narrow, wide = [10.0, 10.1, 10.2, 10.05, 10.15, 10.25], [5.0, 5.1, 4.9, 3.0, 7.0, 5.2]
    assert lower_p(narrow, wide) == pytest.approx(1 / 2**6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_hommel_never_finds_less_than_holm(p_values: list[float]) -> None:
    found, least = hommel(p_values), holm(p_values)
    for p, one, other in zip(p_values, found, least, strict=True):
        assert one is not None
        assert other is not None
        assert p - 1e-12 <= one <= other + 1e-9


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_hommel_is_the_closed_test_of_simes(p_values: list[float]) -> None:
    count = len(p_values)
    simes = {
        some: min(size * p / rank for rank, p in enumerate(sorted(p_values[i] for i in some), 1))
        for size in range(1, count + 1)
        for some in itertools.combinations(range(count), size)
    }
    for i, found in enumerate(hommel(p_values)):
        assert found == pytest.approx(min(1, max(p for some, p in simes.items() if i in some)))


def test_a_table_of_equal_cells_with_a_memory_seldom_alarms() -> None:
    chance, alarms, times = np.random.default_rng(5), 0, 60
    for _ in range(times):
        a, b = (correlated(0.5)(chance, (24, 6)).tolist() for _ in range(2))
        memory = memory_of([*a, *b])
        found = hommel([lower_p(x, y, memory) for x, y in zip(a, b, strict=True)])
        alarms += min(p for p in found if p is not None) <= 0.05
    assert alarms <= 10


def test_memory_is_told_about_as_large_as_it_is_and_not_where_there_is_none() -> None:
    chance = np.random.default_rng(7)
    known = [memory_of(correlated(0.5)(chance, (48, 10)).tolist()) for _ in range(30)]
    assert 0.4 < float(np.median(known)) < 0.6
    none = [memory_of(SHAPES["bimodal, 80/20"](chance, (48, 10)).tolist()) for _ in range(60)]
    assert sum(memory > 0 for memory in none) <= 6
    assert memory_of([[1.0, 2.0]]) == 0


def test_unknown_ones_are_not_of_the_family() -> None:
    assert hommel([None, 0.04, None]) == [None, 0.04, None]
    assert hommel([None, 0.03, 0.04])[0] is None
