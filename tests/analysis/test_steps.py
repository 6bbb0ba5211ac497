from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from osmef.analysis.change_points import change_points, find_step
from tests.simulate.shapes import COV, SHAPES, Draw, correlated, normal, staying

SLOW = pytest.mark.real("simulations")


def alarms(draw: Draw, count: int, times: int) -> int:
    rows = draw(np.random.default_rng(10), (times, count))
    return sum(bool(change_points(row.tolist())) for row in rows)


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("count", [15, 30])
def test_noise_of_any_shape_seldom_has_a_change(shape: str, count: int) -> None:
    # Of 200 series at a rate of 5 % more than 19 have less than a chance in 100.
    assert alarms(SHAPES[shape], count, 200) <= 19


@pytest.mark.parametrize(
    "memory", [0.9, *(pytest.param(one, marks=SLOW) for one in (0.6, 0.7, 0.8))]
)
def test_an_autocorrelated_series_rarely_shows_a_change(memory: float) -> None:
    assert alarms(correlated(memory), 30, 200) <= 19


def test_staying_on_a_host_for_a_while_is_rarely_taken_for_a_change() -> None:
    assert alarms(staying(0.5), 30, 200) <= 19


def test_a_level_for_a_while_is_found() -> None:
    rows = normal()(np.random.default_rng(5), (40, 30))
    rows[:, 10:20] *= 0.9
    assert sum(bool(change_points(row.tolist())) for row in rows) >= 33


def test_two_kinds_of_hosts_are_no_changes() -> None:
    chance = np.random.default_rng(7)
    slow = chance.random((100, 120)) < 0.15
    rows = np.where(slow, 60.0, 100.0) * (1 + COV * chance.standard_normal((100, 120)))
    assert sum(bool(change_points(row.tolist())) for row in rows) <= 12


@pytest.mark.real("simulations")
@pytest.mark.parametrize(("count", "least"), [(10, 85), (15, 85), (30, 97)])
def test_a_tenth_less_is_found_at_a_spread_of_two_percent(count: int, least: int) -> None:
    rows = normal()(np.random.default_rng(4), (100, count))
    rows[:, count // 2 :] *= 0.9
    found = [change_points(row.tolist()) for row in rows]
    assert sum(bool(one) for one in found) >= least
    assert sum(any(abs(at - count // 2) <= 1 for at in one) for one in found) >= least


@pytest.mark.real("simulations")
@settings(max_examples=20)
@given(st.integers(10, 60), st.integers(10, 60), st.floats(8, 50), st.integers(0, 2**32 - 1))
@example(20, 10, 8.0, 0)  # the last two before the step are the largest of their level
@example(30, 12, 12.0, 29)
@example(20, 10, 8.0, 125)
def test_a_step_is_found_where_it_is(before: int, after: int, height: float, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 1, before + after)
    values = noise + np.r_[np.zeros(before), np.full(after, height)]
    found = change_points(values.tolist())
    assert any(abs(at - before) <= 1 for at in found)
    # Unit and direction do not matter.
    assert change_points((-1e9 * values).tolist()) == found


def test_several_levels_without_any_noise() -> None:
    assert change_points([1.0] * 10 + [5.0] * 10 + [2.0] * 10) == [10, 20]


def test_a_level_that_comes_back_is_two_changes() -> None:
    noise = np.random.default_rng(3).normal(0, 1, 60)
    noise[20:40] += 6
    assert change_points(noise.tolist()) == [20, 40]


def test_a_single_value_is_no_level() -> None:
    assert change_points([0.0] * 3 + [16.0] + [0.0] * 6) == []


@pytest.mark.parametrize("values", [[], [1.0] * 50, [1.0, 2.0] * 4])
def test_a_series_too_short_or_constant_has_no_changes(values: list[float]) -> None:
    assert change_points(values) == []
    step = find_step(values)
    assert (step.at, step.p) == (None, None)


def test_ten_values_can_not_be_sure() -> None:
    step = find_step([0.0, 0.1, 0.2, 0.1, 0.0, 9.0, 9.1, 9.2, 9.1, 9.0])
    assert step.at == 5
    assert 0.7 * 2 / 252 <= (step.p or 0) <= 0.05  # of the orders alone 2 of 252 are as odd
    assert change_points([0.0] * 5 + [9.0] * 5, level=0.005) == []


def test_a_value_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        change_points([1.0] * 10 + [float("nan")])
