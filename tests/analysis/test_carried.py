from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from osmef.analysis.carried import carried_trend

values = st.lists(st.integers(10**6, 2 * 10**6), min_size=5, max_size=9, unique=True)


@given(rows=values)
def test_of_one_cell_it_is_kendalls_exact_test(rows: list[int]) -> None:
    found = carried_trend([(rows, range(len(rows)))])
    assert found is not None
    expected = kendalltau(range(len(rows)), rows, method="exact").pvalue
    assert found.p == pytest.approx(expected, rel=1e-9)


def test_two_cells_have_the_exact_distribution_of_their_sum() -> None:
    def s(order: tuple[int, ...]) -> int:
        pairs = itertools.combinations(order, 2)
        return sum(1 if later > earlier else -1 for earlier, later in pairs)

    orders = list(itertools.permutations(range(5)))
    sums = [s(one) + s(other) for one in orders for other in orders]
    one, other = (0, 1, 3, 2, 4), (1, 0, 2, 3, 4)
    found = carried_trend([([10 + v for v in of], range(5)) for of in (one, other)])
    assert found is not None
    expected = np.mean([abs(of) >= s(one) + s(other) for of in sums])
    assert found.p == pytest.approx(float(expected))


def test_a_bucket_that_empties_is_told() -> None:
    rates = [10.0, 9.9, 10.1, 6.0, 2.0, 2.1, 1.9, 1.8]
    found = carried_trend([(rates, [10.0 * number for number in range(8)])])
    assert found is not None
    assert found.is_told
    assert found.change < -0.5


def test_many_cells_tell_what_one_cannot() -> None:
    chance = np.random.default_rng(3)
    cells = []
    for _ in range(24):
        before = np.sort(chance.uniform(0, 1e9, 6))
        rates = chance.normal(100, 2, 6) * (1 - 0.05 * before / 1e9)
        cells.append((rates.tolist(), before.tolist()))
    single = [carried_trend([cell]) for cell in cells]
    assert sum(one is not None and one.is_told for one in single) < 12
    together = carried_trend(cells)
    assert together is not None
    assert together.is_told
    assert together.change == pytest.approx(-0.05, abs=0.02)


def test_a_small_change_is_none() -> None:
    rows = [100 - 0.01 * number for number in range(20)]
    found = carried_trend([(rows, range(20))])
    assert found is not None
    assert found.p < 1e-6
    assert not found.is_told


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(([1.0, 2.0, 3.0, 4.0], range(4)), id="few"),
        pytest.param(([5.0] * 8, range(8)), id="no-spread"),
        pytest.param(([1.0, 2.0, 3.0, 4.0, 5.0], [7.0] * 5), id="nothing-carried"),
        pytest.param(([], []), id="none"),
    ],
)
def test_cells_that_tell_nothing(cell: tuple[list[float], list[float]]) -> None:
    assert carried_trend([cell]) is None


def test_long_cells_and_ties_take_little_time() -> None:
    chance = np.random.default_rng(1)
    rows = chance.integers(90, 110, 50_000).tolist()
    found = carried_trend([(rows, range(50_000))])
    assert found is not None
    assert not found.is_told
