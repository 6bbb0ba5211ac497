from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmef.analysis.quantiles import quantile_interval
from osmef.analysis.replication import repetitions_for_mean, repetitions_for_median
from tests.simulate.shapes import bimodal, correlated, lognormal, normal

values = st.lists(st.floats(1, 100), min_size=6, max_size=40)


def test_the_example_in_jains_book() -> None:
    """Example 13.7: mean 20 s, standard deviation 5 s, +-5 % at 95 %: 1.960 gives 96.04, so 97."""
    pilot = [20 - 5, 20.0, 20 + 5]
    assert np.std(pilot, ddof=1) == 5
    assert repetitions_for_mean(pilot, 0.05) == 97


@pytest.mark.parametrize("needed", [repetitions_for_mean, repetitions_for_median])
@settings(max_examples=50)
@given(pilot=values, error=st.floats(0.02, 0.5), factor=st.sampled_from([2.0**-20, 8.0, 2.0**30]))
def test_unit_and_order_do_not_matter_and_narrower_needs_more(
    needed: type, pilot: list[float], error: float, factor: float
) -> None:
    n = needed(pilot, error)
    assert needed(sorted(pilot), error) == n
    assert needed([factor * x for x in pilot], error) == n
    assert n is None or (needed(pilot, 2 * error) or 0) <= 1.1 * n + 2


SHAPES = {
    "normal": normal(0.1),
    "lognormal": lognormal(0.3),
    "bimodal": bimodal(0.8, 70.0),
    "correlated": correlated(0.5, 0.1),
}


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("pilot", [10, 40])
def test_that_many_trials_are_enough_in_four_of_five_cases(shape: str, pilot: int) -> None:
    chance, held, times = np.random.default_rng(4), 0, 100
    for values in SHAPES[shape](chance, (times, pilot)):
        n = repetitions_for_median(values.tolist(), 0.05)
        assert n is not None
        sample = SHAPES[shape](chance, (n,)).tolist()
        interval = quantile_interval(sample)
        assert interval.low is not None
        assert interval.high is not None
        held += interval.high - interval.low <= 0.1 * float(np.median(sample))
    assert held >= 0.7 * times  # of 80 % less have a chance in 100


@pytest.mark.parametrize("error", [0.1, 0.3])
def test_of_many_values_not_many_more_are_wanted_than_are_needed(error: float) -> None:
    chance = np.random.default_rng(4)
    n = repetitions_for_median(chance.lognormal(0, 0.5, 4000).tolist(), error)
    assert n is not None
    widths = []
    for _ in range(300):
        sample = chance.lognormal(0, 0.5, n).tolist()
        interval = quantile_interval(sample)
        assert interval.low is not None
        assert interval.high is not None
        widths.append((interval.high - interval.low) / 2 / float(np.median(sample)))
    assert np.mean(np.array(widths) <= error) >= 0.8
    assert 0.65 * error < np.mean(widths) < error


def test_even_trials_need_only_the_fewest() -> None:
    assert repetitions_for_median([5.0] * 6, 0.01) == 6
    assert repetitions_for_mean([5.0] * 6, 0.01) == 2


def test_where_no_number_is_enough() -> None:
    assert repetitions_for_median([1.0, 1.0, 1.0, 9.0, 9.0, 9.0], 0.001) is None
    assert repetitions_for_median([-1.0, 0.0, 1.0], 0.1) is None
    assert repetitions_for_mean([-1.0, 1.0], 0.1) is None


@pytest.mark.parametrize("needed", [repetitions_for_mean, repetitions_for_median])
def test_what_makes_no_sense_is_refused(needed: type) -> None:
    with pytest.raises(ValueError, match="at least 2 values"):
        needed([1.0], 0.1)
    with pytest.raises(ValueError, match="above 0"):
        needed([1.0, 2.0], 0.0)
