import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.describe import describe, median_interval

numbers = st.floats(min_value=-1e9, max_value=1e9)

# Ranks (counting from 1) of the symmetric 95 % interval of the median, as tabled in Conover,
# "Practical Nonparametric Statistics", and in Documenta Geigy, "Scientific Tables".
RANKS = [
    (6, 1, 6),
    (7, 1, 7),
    (8, 1, 8),
    (9, 2, 8),
    (10, 2, 9),
    (12, 3, 10),
    (15, 4, 12),
    (20, 6, 15),
    (25, 8, 18),
    (30, 10, 21),
    (50, 18, 33),
    (100, 40, 61),
]


@pytest.mark.parametrize(("n", "low", "high"), RANKS)
def test_ranks_of_the_published_table(n: int, low: int, high: int) -> None:
    interval = median_interval(range(1, n + 1))
    assert (interval.low, interval.high) == (low, high)


@pytest.mark.parametrize("n", range(2, 13))
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.99])
def test_coverage_by_brute_force(n: int, confidence: float) -> None:
    """Each observation is above or below the true median with equal probability: try all ways."""
    interval = median_interval(range(1, n + 1), confidence)
    worlds = [sum(world) for world in itertools.product((0, 1), repeat=n)]

    def coverage(k: int) -> float:
        return sum(k <= below <= n - k for below in worlds) / len(worlds)

    if interval.low is None:
        assert coverage(1) < confidence
    else:
        k = round(interval.low)
        assert interval.coverage == pytest.approx(coverage(k))
        assert coverage(k) >= confidence
        assert k + 1 > n // 2 or coverage(k + 1) < confidence


@pytest.mark.parametrize("n", range(6))
def test_too_few_give_no_interval_but_a_reason(n: int) -> None:
    interval = median_interval([1.0] * n)
    assert (interval.low, interval.high, interval.coverage) == (None, None, None)
    assert interval.reason == f"n = {n}; 95 % needs n >= 6"


@given(st.floats(min_value=0.01, max_value=0.9999))
def test_the_reason_names_the_smallest_number_that_is_enough(confidence: float) -> None:
    reason = median_interval([], confidence).reason
    assert reason is not None
    needed = int(reason.rsplit(" ", 1)[1])
    assert median_interval([1.0] * needed, confidence).reason is None
    assert median_interval([1.0] * (needed - 1), confidence).reason is not None


@given(st.lists(numbers, min_size=6, max_size=200))
def test_the_interval_holds_the_median_of_the_sample(values: list[float]) -> None:
    interval = median_interval(values)
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low <= statistics.median(values) <= interval.high
    assert {interval.low, interval.high} <= set(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan])
def test_an_impossible_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        median_interval([1.0] * 10, confidence)


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
