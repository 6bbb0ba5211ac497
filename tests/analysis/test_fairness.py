import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.bulk_transfer import jain_fairness

rates = st.lists(st.floats(min_value=0, max_value=1e300), min_size=1, max_size=128)


@pytest.mark.parametrize(
    ("xs", "expected"),
    [
        ([5.0], 1.0),
        ([3.0, 3.0, 3.0], 1.0),
        ([1.0, 0.0], 0.5),
        ([1.0, 1.0, 0.0, 0.0, 0.0], 0.4),
        ([1.0, 2.0, 3.0], 36 / (3 * 14)),
        ([], None),
        ([0.0, 0.0], None),
    ],
)
def test_known_values(xs: list[float], expected: float | None) -> None:
    assert jain_fairness(xs) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_a_rate_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="must be finite and not negative"):
        jain_fairness([1.0, bad])


@given(rates)
def test_it_lies_between_one_share_and_one(xs: list[float]) -> None:
    j = jain_fairness(xs)
    if any(xs):
        assert j is not None
        assert 1 / len(xs) * (1 - 1e-9) <= j <= 1
    else:
        assert j is None


@given(st.lists(st.floats(min_value=1e-3, max_value=1e12), min_size=1))
def test_unit_and_order_do_not_matter(xs: list[float]) -> None:
    assert jain_fairness([8e6 * x for x in xs]) == pytest.approx(jain_fairness(xs))
    assert jain_fairness(list(reversed(xs))) == pytest.approx(jain_fairness(xs))


@given(st.integers(1, 100), st.integers(0, 100), st.floats(min_value=1e-300, max_value=1e300))
def test_k_of_n_that_share_evenly_give_k_over_n(k: int, idle: int, x: float) -> None:
    assert jain_fairness([x] * k + [0.0] * idle) == pytest.approx(k / (k + idle))
