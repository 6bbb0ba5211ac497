from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from osmef.analysis.distributions import (
    beta_cdf,
    beta_quantile,
    binomial_cdf,
    binomial_sf,
    normal_cdf,
    normal_quantile,
    root,
    student_cdf,
    student_quantile,
)
from osmef.analysis.null_distributions import chi_squared_quantiles, chi_squared_sf

inside = st.floats(0.001, 0.999)
freedoms = st.floats(1, 5000)


@given(st.floats(-37, 10), inside)
def test_the_normal_distribution_is_that_of_scipy(x: float, share: float) -> None:
    assert normal_cdf(x) == pytest.approx(float(special.ndtr(x)), rel=1e-12)
    assert normal_quantile(share) == pytest.approx(float(special.ndtri(share)), abs=1e-12)


@given(st.data(), st.integers(1, 5000), inside)
def test_the_binomial_distribution_is_that_of_scipy(
    data: st.DataObject, n: int, share: float
) -> None:
    k = data.draw(st.integers(-1, n))
    expected = 0.0 if k < 0 else float(special.bdtr(k, n, share))
    assert binomial_cdf(k, n, share) == pytest.approx(expected, rel=1e-9, abs=1e-250)
    expected = 1.0 if k < 0 else float(special.bdtrc(k, n, share))
    assert binomial_sf(k, n, share) == pytest.approx(expected, rel=1e-9, abs=1e-250)


def test_binomial_tails_are_correct_for_a_million_requests() -> None:
    for k in (949_564, 950_000, 950_430):
        found = binomial_cdf(k, 1_000_000, 0.95)
        assert found == pytest.approx(float(special.bdtr(k, 1_000_000, 0.95)), rel=1e-7)


@given(st.floats(-1000, 1000), freedoms, inside)
def test_students_distribution_is_that_of_scipy(t: float, freedom: float, share: float) -> None:
    expected = float(special.stdtr(freedom, t))
    assert student_cdf(t, freedom) == pytest.approx(expected, rel=1e-8, abs=1e-250)
    quantile = float(special.stdtrit(freedom, share))
    assert student_quantile(share, freedom) == pytest.approx(quantile, rel=1e-8, abs=1e-8)


@given(st.floats(0, 500), st.lists(inside, min_size=1, max_size=5), freedoms)
def test_chi_squared_is_that_of_scipy(x: float, shares: list[float], freedom: float) -> None:
    assert chi_squared_sf(x, freedom) == pytest.approx(float(special.chdtrc(freedom, x)), abs=1e-12)
    np.testing.assert_allclose(
        chi_squared_quantiles(np.array(shares), freedom), stats.chi2.ppf(shares, freedom), rtol=1e-9
    )


@given(st.floats(0, 0.999), inside, st.floats(0.5, 300), st.floats(0.5, 300))
def test_the_beta_distribution_is_that_of_scipy(x: float, share: float, a: float, b: float) -> None:
    expected = float(special.betainc(a, b, x))
    assert beta_cdf(x, a, b) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    quantile = float(special.betaincinv(a, b, share))
    assert beta_quantile(share, a, b) == pytest.approx(quantile, rel=1e-9)


@given(st.floats(-5, 5), st.sampled_from([1.0, -1.0]))
def test_a_root_is_found_of_what_rises_and_of_what_falls(zero: float, sign: float) -> None:
    found = root(lambda x: sign * ((x - zero) ** 3 + (x - zero)), -6.0, 7.0)
    assert found == pytest.approx(zero, abs=1e-9)


def test_a_root_at_an_end() -> None:
    assert root(lambda x: x - 1, 1.0, 2.0) == 1.0
    assert root(lambda x: x - 2, 1.0, 2.0) == 2.0
