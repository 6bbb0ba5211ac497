from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.effects import hodges_lehmann
from osmef.analysis.pairs import mann_whitney
from osmef.analysis.strata import stratified_shift

samples = st.lists(st.integers(1, 20).map(float), min_size=1, max_size=12)


@given(samples, samples)
def test_one_stratum_is_the_plain_test(a: list[float], b: list[float]) -> None:
    found, shift = stratified_shift([(a, b)]), hodges_lehmann(a, b)
    assert found.value == shift.value
    assert (found.interval.low, found.interval.high) == (shift.interval.low, shift.interval.high)
    assert found.p == pytest.approx(mann_whitney(a, b).p)
    assert (found.n_a, found.n_b) == (len(a), len(b))


@pytest.mark.parametrize("seed", range(4))
def test_p_is_the_share_of_all_ways_to_divide_each_stratum(seed: int) -> None:
    chance = np.random.default_rng(seed)
    strata = [(chance.integers(0, 9, 3).tolist(), chance.integers(0, 9, 2).tolist())
              for _ in range(2)]  # fmt: skip

    def above(a: list[float], b: list[float]) -> float:
        return sum((x > y) + (x == y) / 2 for x in a for y in b)

    observed = sum(above(a, b) for a, b in strata)
    ways = []
    for a, b in strata:
        values = [*a, *b]
        ways.append(
            [
                above([values[i] for i in one], [values[i] for i in range(5) if i not in one])
                for one in itertools.combinations(range(5), 3)
            ]
        )
    sums = [first + second for first, second in itertools.product(*ways)]
    tails = [sum(x <= observed for x in sums), sum(x >= observed for x in sums)]
    assert stratified_shift(strata).p == pytest.approx(min(1.0, 2 * min(tails) / len(sums)))


def test_what_differs_between_strata_does_not_hide_a_difference_within_them() -> None:
    chance = np.random.default_rng(1)
    strata, pooled = [], ([], [])  # type: ignore[var-annotated]
    for level in (100.0, 160.0):
        a, b = (chance.normal(mean * level, 2, 8).tolist() for mean in (1.05, 1.0))
        strata.append((a, b))
        pooled[0].extend(a)
        pooled[1].extend(b)
    apart, mixed = stratified_shift(strata), mann_whitney(*pooled)
    assert apart.p is not None
    assert mixed.p is not None
    assert apart.p < 1e-4
    assert mixed.p > 0.01
    assert apart.interval.low is not None
    assert apart.interval.low > 0


def test_a_stratum_of_one_side_does_not_count() -> None:
    found = stratified_shift([([1.0, 2.0], []), ([], [9.0])])
    assert (found.value, found.p, found.interval.reason) == (
        None,
        None,
        "no stratum has values of both",
    )
    both = stratified_shift([([3.0, 4.0], [1.0]), ([100.0], [])])
    assert (both.n_a, both.n_b, both.value) == (2, 1, 2.5)


def test_intervals_hold_the_truth_and_noise_is_not_found() -> None:
    chance, held, alarms = np.random.default_rng(3), 0, 0
    for _ in range(400):
        strata = [
            (chance.normal(level + 1, 1, 5).tolist(), chance.normal(level, 1, 3).tolist())
            for level in (0, 50)
        ]
        found = stratified_shift(strata)
        assert found.interval.low is not None
        assert found.interval.high is not None
        held += found.interval.low <= 1 <= found.interval.high
        none = stratified_shift([([x - 1 for x in a], b) for a, b in strata])
        alarms += none.p is not None and none.p <= 0.05
    assert held >= 370
    assert alarms <= 30


def test_many_values_are_approximated() -> None:
    chance = np.random.default_rng(5)
    strata = [(chance.normal(0, 1, 60).tolist(), chance.normal(0.2, 1, 60).tolist())] * 2
    found = stratified_shift(strata)
    assert found.interval.coverage == 0.95
    assert found.p is not None
    assert 0 < found.p < 0.05
    assert stratified_shift([([1.0] * 60, [1.0] * 60)]).p == 1
