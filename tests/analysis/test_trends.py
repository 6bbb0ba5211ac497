"""Autocorrelation, drift, and values far from the others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.diagnostic import acorr_ljungbox
from statsmodels.tsa.stattools import acf

from osmef.analysis.trends import autocorrelation, common_autocorrelation, drift, outliers
from tests.simulate.shapes import SHAPES, correlated

series = st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 2)), min_size=8, max_size=60)


@given(series, st.integers(1, 5))
def test_autocorrelation_is_that_of_statsmodels(values: list[float], lags: int) -> None:
    found = autocorrelation(values, lags)
    if found is None:
        assert len(set(values)) == 1
        return
    np.testing.assert_allclose(found.coefficients, acf(values, nlags=lags)[1:], atol=1e-6)
    assert found.bound == 1.96 / math.sqrt(len(values))
    expected = acorr_ljungbox(values, lags=[lags])["lb_pvalue"].iloc[0]
    assert found.p == pytest.approx(expected, abs=1e-6)


def test_a_series_without_memory_seldom_seems_to_have_one_and_one_with_it_does() -> None:
    chance, alarms, missed = np.random.default_rng(8), 0, 0
    for _ in range(100):
        noise = chance.normal(0, 1, 60)
        memory = np.empty(60)
        memory[0] = noise[0]
        for i in range(1, 60):
            memory[i] = 0.6 * memory[i - 1] + noise[i]
        plain, bound = autocorrelation(noise.tolist()), autocorrelation(memory.tolist())
        assert plain is not None
        assert bound is not None
        alarms += plain.p < 0.05
        missed += bound.p >= 0.05
    assert alarms <= 12
    assert missed <= 5


@pytest.mark.parametrize("shape", [name for name in SHAPES if "autocorrelation" not in name])
def test_many_short_series_without_a_memory_seldom_have_a_common_one(shape: str) -> None:
    chance, alarms = np.random.default_rng(2), 0
    for _ in range(100):
        found = common_autocorrelation(SHAPES[shape](chance, (8, 6)).tolist())
        alarms += found is not None and found.p <= 0.05
    assert alarms <= 11


def test_common_autocorrelation_of_many_short_series_is_found() -> None:
    chance, found = np.random.default_rng(2), []
    for _ in range(30):
        memory = common_autocorrelation(
            [(9 * row).tolist() for row in correlated(0.5)(chance, (24, 10))]
        )
        assert memory is not None
        found.append(memory)
    assert sum(one.p <= 0.01 for one in found) >= 29
    assert 0.2 < float(np.median([one.coefficient for one in found])) < 0.5
    assert common_autocorrelation([[1.0] * 9, [1.0, 2.0]]) is None


@pytest.mark.parametrize("cells", [4, 40])
def test_a_common_memory_is_as_odd_as_it_is_among_other_orders(cells: int) -> None:
    """Few values by random orders, many by the mean and variance over all of them."""
    chance = np.random.default_rng(9)
    draw = SHAPES["bimodal, 80/20"]
    found = [common_autocorrelation(draw(chance, (cells, 8)).tolist()) for _ in range(150)]
    p_values = [one.p for one in found if one is not None]
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


def test_too_few_values_for_the_lags_are_refused() -> None:
    with pytest.raises(ValueError, match="3 values are too few for 2 lags"):
        autocorrelation([1.0, 2.0, 3.0], 2)


@given(series, st.floats(0.1, 10), st.floats(-100, 100))
def test_drift_turns_with_its_series(values: list[float], scale: float, offset: float) -> None:
    found, back = drift(values), drift(values[::-1])
    assert back.slope == pytest.approx(-found.slope)
    assert back.tau == pytest.approx(-found.tau)
    assert back.p == pytest.approx(found.p)
    moved = drift([scale * x + offset for x in values])
    assert moved.slope == pytest.approx(scale * found.slope, abs=1e-6)
    assert found.interval.low is not None
    assert found.interval.high is not None
    assert found.interval.low <= found.slope <= found.interval.high


@given(st.lists(st.integers(-9, 9).map(float), min_size=3, max_size=40))
def test_drift_is_that_of_scipy(values: list[float]) -> None:
    found, at = drift(values), range(len(values))
    line, rank = stats.theilslopes(values, at, alpha=0.95), stats.kendalltau(at, values)
    assert found.slope == pytest.approx(line.slope)
    assert (found.interval.low, found.interval.high) == pytest.approx(line[2:4])
    if len(set(values)) > 1:
        assert (found.tau, found.p) == pytest.approx((rank.statistic, rank.pvalue))


@given(st.permutations(range(12)))
def test_the_p_of_a_short_drift_without_ties_is_exact(values: list[int]) -> None:
    expected = stats.kendalltau(range(12), values, method="exact").pvalue
    assert drift([float(one) for one in values]).p == pytest.approx(expected)


def test_a_drift_is_found_at_its_slope_in_spite_of_outliers() -> None:
    chance = np.random.default_rng(6)
    values = 10 - 0.5 * np.arange(40) + chance.normal(0, 1, 40)
    values[[5, 30]] = 1000
    found = drift(values.tolist())
    assert found.slope == pytest.approx(-0.5, abs=0.1)
    assert found.p < 1e-6


def test_drift_uses_uneven_positions() -> None:
    found = drift([0.0, 2.0, 20.0, 22.0], positions=[0, 1, 10, 11])
    assert found.slope == pytest.approx(2)
    assert found.tau == pytest.approx(1)
    assert found.p == pytest.approx(2 / math.factorial(4))  # of all orders, this and its reverse


def test_a_constant_series_has_no_drift() -> None:
    found = drift([3.0] * 5)
    assert (found.slope, found.tau, found.p) == (0, 0, 1)


def test_noise_shows_a_drift_at_most_at_the_stated_rate() -> None:
    chance = np.random.default_rng(9)
    alarms = sum(drift(chance.lognormal(0, 1, 15).tolist()).p < 0.05 for _ in range(200))
    assert alarms <= 20


@pytest.mark.parametrize(
    ("values", "positions"),
    [([1.0, 2.0], None), ([1.0, 2.0, 3.0], [1, 2]), ([1.0, 2.0, 3.0], [1, 1, 2])],
)
def test_a_drift_of_what_has_no_order_is_refused(
    values: list[float], positions: list[float] | None
) -> None:
    with pytest.raises(ValueError, match="position"):
        drift(values, positions)


@given(series, st.floats(0.5, 8), st.integers(-1000, 1000))
def test_outliers_are_those_of_a_box_plot(values: list[float], scale: float, offset: int) -> None:
    flags = outliers(values)
    low, high = np.quantile(values, [0.25, 0.75])
    reach = 1.5 * stats.iqr(values)
    for value, flag in zip(values, flags, strict=True):
        assert flag == (value < low - reach or value > high + reach)
    assert outliers([8 * value for value in values]).tolist() == flags.tolist()


def test_an_outlier_is_flagged_in_its_place() -> None:
    assert outliers([1.0, 2.0, 99.0, 2.0, 1.0, 2.0]).tolist() == [False] * 2 + [True] + [False] * 3
    assert not outliers([1.0, 2.0, 99.0]).any()
