from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.quantiles import (
    interval_ranks,
    lasting_interval,
    lasting_rank,
    quantile_interval,
)
from tests.simulate.shapes import SHAPES

INDEPENDENT = [name for name in SHAPES if "correlated" not in name]


def stopped(values: list[float], width: float) -> tuple[int, float, float] | None:
    """Look after each value; return n and the interval where it is narrow enough."""
    for n in range(6, len(values) + 1):
        found = lasting_interval(values[:n])
        if found.low is not None and found.high is not None and found.high - found.low <= width:
            return n, found.low, found.high
    return None


@pytest.mark.parametrize("shape", INDEPENDENT)
def test_who_looks_after_each_value_and_stops_has_the_median_in_it(shape: str) -> None:
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
    rank, single = lasting_rank(n, confidence), interval_ranks(n, 0.5, confidence)
    assert rank <= (single[0] if single else 0)
    assert rank <= lasting_rank(n + 1, confidence) <= rank + 1


def test_the_bet_is_fair() -> None:
    """Over all 2^n ways of falling below or above, the mean wealth is the stake."""
    for n in range(1, 12):
        wealth = [2**n / ((n + 1) * math.comb(n, s)) for s in range(n + 1)]
        mean = sum(w * math.comb(n, s) for s, w in enumerate(wealth)) / 2**n
        assert mean == pytest.approx(1)
        assert lasting_rank(n) == sum(w >= 20 * (1 - 1e-12) for w in wealth[: n // 2 + 1])


def test_few_values_have_none_and_many_have_a_narrow_one() -> None:
    few = lasting_interval([1.0] * 7)
    assert (few.low, few.reason) == (None, "n = 7; 95 % at every n needs more")
    assert lasting_interval([1.0, 2, 3, 4, 5, 6, 7, 8]).high == 8
    many = np.random.default_rng(1).normal(0, 1, 2000).tolist()
    one, other = lasting_interval(many), quantile_interval(many)
    assert (one.low or 0) < (other.low or 0) < (other.high or 0) < (one.high or 0) < 0.15
