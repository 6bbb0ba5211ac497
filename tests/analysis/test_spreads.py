"""Changes of spread: where they are, and that noise seldom has one."""

from __future__ import annotations

import numpy as np
import pytest

from osmef.analysis.change_points import (
    all_spread_changes,
    change_points,
    find_spread,
    spread_changes,
)
from tests.simulate.shapes import SHAPES


def wider(count: int, times: float, seed: int = 1, level: float = 100.0) -> list[float]:
    """Return normal values of which the second half varies so many times as much."""
    noise = np.random.default_rng(seed).standard_normal(count)
    noise[count // 2 :] *= times
    values: list[float] = (level + noise).tolist()
    return values


@pytest.mark.real("simulations")
@pytest.mark.parametrize("shape", list(SHAPES))
def test_noise_of_any_shape_seldom_has_a_change(shape: str) -> None:
    rows = SHAPES[shape](np.random.default_rng(10), (200, 30)).tolist()
    found = [spread_changes(row, change_points(row)) for row in rows]
    # Of 200 series at a rate of 5 % more than 19 have less than a chance in 100.
    assert sum(map(bool, found)) <= 19


@pytest.mark.real("simulations")
def test_a_spread_that_changes_is_found_where_it_does() -> None:
    rows = [wider(80, 6.0, seed) for seed in range(50)]
    found = [spread_changes(row) for row in rows]
    assert sum(bool(one) for one in found) >= 48
    assert sum(any(abs(at - 40) <= 6 for at in one) for one in found) >= 40


def test_a_spread_is_found_whatever_the_unit_and_direction() -> None:
    row = wider(80, 10.0)
    found = spread_changes(row)
    assert len(found) == 1
    assert abs(found[0] - 40) <= 3
    assert spread_changes([-1e9 * value for value in row]) == found
    assert change_points(row) == []


def test_a_level_that_changes_is_no_spread() -> None:
    row = [*wider(20, 1.0, 3), *wider(40, 1.0, 4, level=80.0)]
    cuts = change_points(row)
    assert cuts == [20]
    assert spread_changes(row, cuts) == []
    assert find_spread(row, []).p == pytest.approx(find_spread(row[::-1], []).p, abs=0.2)


def test_both_may_change_at_once() -> None:
    row = [*wider(40, 1.0, 5), *(80 + 12 * (value - 100) for value in wider(40, 1.0, 6))]
    cuts = change_points(row)
    assert len(cuts) == 1
    (at,) = spread_changes(row, cuts)
    assert abs(at - 40) <= 4


@pytest.mark.parametrize("values", [[], [1.0] * 50, [1.0, 2.0] * 4, [1.0] * 9])
def test_a_series_too_short_or_constant_has_no_changes(values: list[float]) -> None:
    assert spread_changes(values) == []
    assert find_spread(values).p is None


def test_p_values_of_many_series_are_corrected_together() -> None:
    row = wider(60, 3.0, 1)
    p = find_spread(row).p
    assert p is not None
    assert 0.0005 < p < 0.05
    same = [wider(30, 1.0, seed) for seed in range(20, 120)]
    assert all_spread_changes([row], [[]])[0]
    assert all_spread_changes([row, *same], [[]] * 101)[0] == []


def test_a_value_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        spread_changes([1.0] * 10 + [float("nan")])
