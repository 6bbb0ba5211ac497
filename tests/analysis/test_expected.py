"""Whether a median is where it was expected."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.describe import judge
from osmef.analysis.quantiles import quantile_interval
from osmef.results.summary import Verdict

NUMBERS = st.floats(-1e12, 1e12)


@pytest.mark.parametrize(
    ("low", "high", "at_least", "verdict"),
    [
        (5.0, 6.0, True, Verdict.MET),
        (4.9, 6.0, True, Verdict.UNDECIDED),
        (4.0, 5.0, True, Verdict.UNDECIDED),
        (4.0, 4.9, True, Verdict.MISSED),
        (4.0, 5.0, False, Verdict.MET),
        (4.0, 5.1, False, Verdict.UNDECIDED),
        (5.1, 6.0, False, Verdict.MISSED),
        (None, None, True, Verdict.UNDECIDED),
    ],
)
def test_the_whole_interval_decides(
    low: float | None, high: float | None, at_least: bool, verdict: Verdict
) -> None:
    assert judge(low, high, 5.0, at_least=at_least) is verdict


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_bound_is_never_met_and_missed_from_both_sides(a: float, b: float, bound: float) -> None:
    low, high = sorted((a, b))
    found = {judge(low, high, bound, at_least=side) for side in (True, False)}
    if low < bound < high:
        assert found == {Verdict.UNDECIDED}
    else:
        assert Verdict.MET in found


@pytest.mark.parametrize("n", [6, 20])
def test_a_median_at_the_bound_is_seldom_called_missed(n: int) -> None:
    chance = np.random.default_rng(20261123)
    missed = 0
    for row in chance.lognormal(sigma=0.5, size=(4000, n)):
        interval = quantile_interval(row.tolist(), 0.5)
        verdict = judge(interval.low, interval.high, 1.0, at_least=True)
        missed += verdict is Verdict.MISSED
    assert missed / 4000 < 0.025 + 0.007
