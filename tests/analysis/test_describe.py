import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.describe import describe

numbers = st.floats(min_value=-1e9, max_value=1e9)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        describe([1.0, bad])


def test_describe_a_small_sample() -> None:
    metric = describe([2.0, 4.0, None, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert (metric.n, metric.median, metric.mean) == (8, 4.5, 5.0)
    assert metric.stdev == pytest.approx(math.sqrt(32 / 7))
    assert metric.cov_percent == pytest.approx(100 * math.sqrt(32 / 7) / 5)
    assert (metric.min, metric.max) == (2.0, 9.0)
    assert (metric.ci95_low, metric.ci95_high, metric.ci95_reason) == (2.0, 9.0, None)


def test_what_is_unknown_is_none_and_never_zero() -> None:
    nothing = describe([None, None])
    assert nothing.n == 0
    known = nothing.model_dump(exclude={"n", "ci95_reason"}).values()
    assert set(known) == {None}
    assert describe([3.0]).stdev is None
    assert describe([0.0, 0.0]).cov_percent is None


@given(st.lists(numbers, min_size=1, max_size=50))
def test_the_order_of_the_trials_does_not_matter(values: list[float]) -> None:
    assert describe(reversed(values)) == describe(values)
