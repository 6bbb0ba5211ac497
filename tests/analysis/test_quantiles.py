"""Quantiles, their intervals, and the interval that may be looked at again and again."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from osmef.analysis.quantiles import (
    confidence_sequence,
    confidence_sequence_rank,
    ecdf,
    interval_ranks,
    minimum_n,
    quantile_interval,
)
from tests.simulate.shapes import SHAPES

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
    interval = quantile_interval(range(1, n + 1))
    assert (interval.low, interval.high) == (low, high)


@pytest.mark.parametrize("n", range(2, 13))
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.99])
def test_coverage_by_brute_force(n: int, confidence: float) -> None:
    """Each observation is above or below the true median with equal probability: try all ways."""
    interval = quantile_interval(range(1, n + 1), confidence=confidence)
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
    interval = quantile_interval([1.0] * n)
    assert (interval.low, interval.high, interval.coverage) == (None, None, None)
    assert interval.reason == f"n = {n}; 95 % needs n >= 6"


@given(st.floats(min_value=0.01, max_value=0.9999))
def test_the_reason_names_the_smallest_number_that_is_enough(confidence: float) -> None:
    reason = quantile_interval([], confidence=confidence).reason
    assert reason is not None
    needed = int(reason.rsplit(" ", 1)[1])
    assert quantile_interval([1.0] * needed, confidence=confidence).reason is None
    assert quantile_interval([1.0] * (needed - 1), confidence=confidence).reason is not None


@given(st.lists(numbers, min_size=6, max_size=200))
def test_the_interval_holds_the_median_of_the_sample(values: list[float]) -> None:
    interval = quantile_interval(values)
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low <= statistics.median(values) <= interval.high
    assert {interval.low, interval.high} <= set(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan])
def test_an_impossible_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile_interval([1.0] * 10, confidence=confidence)


# Smallest n, as in Le Boudec, "Performance Evaluation", 2010, appendix A, for quartiles and more.
SMALLEST = [(0.5, 6), (0.25, 11), (0.75, 11), (0.9, 29), (0.95, 59), (0.99, 299)]


@pytest.mark.parametrize(("quantile", "needed"), SMALLEST)
def test_the_smallest_number_for_a_quantile(quantile: float, needed: int) -> None:
    assert minimum_n(quantile) == needed
    low, high = interval_ranks(needed, quantile) or (0, 0)
    assert {low, high} & {1, needed}
    assert interval_ranks(needed - 1, quantile) is None


@given(
    st.integers(2, 400), st.floats(0.01, 0.99), st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
)
def test_the_interval_ranks_reach_the_confidence_and_no_closer_ranks_do(
    n: int, quantile: float, confidence: float
) -> None:
    ranks = interval_ranks(n, quantile, confidence)
    below = stats.binom(n, quantile)
    if ranks is None:
        assert below.pmf(0) + below.pmf(n) > 1 - confidence
        return
    low, high = ranks
    assert 1 <= low < high <= n
    assert below.cdf(high - 1) - below.cdf(low - 1) >= confidence - 1e-9
    missing = 1 - confidence
    # One rank further in on a side, and it would miss too often; but the one that shares with an
    # outermost value has less to spend.
    if below.pmf(n) <= missing / 2:
        assert below.cdf(low) > missing / 2 * (1 - 1e-9)
    if below.pmf(0) <= missing / 2:
        assert below.sf(high - 2) > missing / 2 * (1 - 1e-9)


@given(st.lists(numbers, min_size=60, max_size=120), st.sampled_from([0.05, 0.3, 0.9]))
def test_an_interval_turns_with_its_values(values: list[float], quantile: float) -> None:
    interval = quantile_interval(values, quantile)
    mirrored = quantile_interval([-value for value in values], 1 - quantile)
    assert interval.low is not None
    assert interval.high is not None
    assert (mirrored.low, mirrored.high) == (-interval.high, -interval.low)


@pytest.mark.parametrize("quantile", [0.5, 0.75, 0.95])
def test_the_quantile_interval_covers_the_true_quantile_at_its_stated_rate(quantile: float) -> None:
    chance = np.random.default_rng(7)
    truth = float(stats.lognorm.ppf(quantile, 1))
    intervals = [
        quantile_interval(chance.lognormal(0, 1, 80).tolist(), quantile) for _ in range(2000)
    ]
    held = sum(one.low is not None and one.low <= truth <= (one.high or 0) for one in intervals)
    assert intervals[0].coverage is not None
    assert held / 2000 == pytest.approx(intervals[0].coverage, abs=0.02)


@pytest.mark.parametrize("quantile", [0.0, 1.0, math.nan])
def test_an_impossible_quantile_is_refused(quantile: float) -> None:
    with pytest.raises(ValueError, match="a quantile lies between 0 and 1"):
        minimum_n(quantile)


@given(st.lists(numbers, min_size=1, max_size=60))
def test_the_distribution_function_is_that_of_scipy(values: list[float]) -> None:
    mine, theirs = ecdf(reversed(values)), stats.ecdf(values).cdf
    assert mine.values.tolist() == theirs.quantiles.tolist()
    np.testing.assert_allclose(mine.share, theirs.probabilities)
    assert np.all(mine.low <= mine.share)
    assert np.all(mine.share <= mine.high)


def test_the_ecdf_band_covers_the_whole_distribution_at_its_stated_rate() -> None:
    chance, held = np.random.default_rng(3), 0
    for _ in range(1000):
        found = ecdf(chance.uniform(0, 1, 30))
        before = np.r_[0.0, found.high[:-1]]
        # The true function is x itself; a step's band reaches up to the next value.
        held += bool(np.all(found.low <= found.values) and np.all(found.values[1:] <= before[1:]))
    assert held >= 930


def test_a_distribution_function_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        ecdf([])


INDEPENDENT = [name for name in SHAPES if "autocorrelation" not in name]


def stopped(values: list[float], width: float) -> tuple[int, float, float] | None:
    """Look after each value; return n and the interval where it is narrow enough."""
    for n in range(6, len(values) + 1):
        found = confidence_sequence(values[:n])
        if found.low is not None and found.high is not None and found.high - found.low <= width:
            return n, found.low, found.high
    return None


@pytest.mark.parametrize("shape", INDEPENDENT)
def test_the_interval_covers_the_median_even_with_optional_stopping(shape: str) -> None:
    chance, missed, times = np.random.default_rng(3), 0, 200
    truth = float(np.median(SHAPES[shape](np.random.default_rng(0), (100_001,))))
    ended = 0
    for row in SHAPES[shape](chance, (times, 60)):
        found = stopped(row.tolist(), 60.0 if "lognormal" in shape else 5.0)
        ended += found is not None
        missed += found is not None and not found[1] <= truth <= found[2]
    assert ended > times / 4
    assert missed <= 19


@given(st.integers(1, 400), st.floats(0.5, 0.999))
def test_it_is_wider_than_the_interval_of_a_single_look(n: int, confidence: float) -> None:
    rank, single = confidence_sequence_rank(n, confidence), interval_ranks(n, 0.5, confidence)
    assert rank <= (single[0] if single else 0)
    assert rank <= confidence_sequence_rank(n + 1, confidence) <= rank + 1


def test_the_expected_wealth_of_the_sequential_test_is_the_stake() -> None:
    """Over all 2^n ways of falling below or above, the mean wealth is the stake."""
    for n in range(1, 12):
        wealth = [2**n / ((n + 1) * math.comb(n, s)) for s in range(n + 1)]
        mean = sum(w * math.comb(n, s) for s, w in enumerate(wealth)) / 2**n
        assert mean == pytest.approx(1)
        assert confidence_sequence_rank(n) == sum(
            w >= 20 * (1 - 1e-12) for w in wealth[: n // 2 + 1]
        )


def test_few_values_have_none_and_many_have_a_narrow_one() -> None:
    few = confidence_sequence([1.0] * 7)
    assert (few.low, few.reason) == (None, "n = 7; 95 % at every n needs n >= 8")
    assert confidence_sequence([1.0, 2, 3, 4, 5, 6, 7, 8]).high == 8
    many = np.random.default_rng(1).normal(0, 1, 2000).tolist()
    one, other = confidence_sequence(many), quantile_interval(many)
    assert (one.low or 0) < (other.low or 0) < (other.high or 0) < (one.high or 0) < 0.15
