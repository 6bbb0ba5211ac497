"""Trials nested in pairs: the split of their spread, and the interval over pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.nested import More, split

Rows = dict[str, list[float]]


def drawn(
    chance: np.random.Generator, pairs: int, trials: int, between: float, within: float
) -> Rows:
    levels = 100 + between * chance.standard_normal(pairs)
    rows = levels[:, None] + within * chance.standard_normal((pairs, trials))
    return {str(number): row.tolist() for number, row in enumerate(rows)}


def test_both_parts_of_the_spread_are_found() -> None:
    found = split(drawn(np.random.default_rng(1), 400, 3, 14, 5))
    assert found is not None
    assert found.between == pytest.approx(14, rel=0.1)
    assert found.within == pytest.approx(5, rel=0.1)
    assert found.between_share == pytest.approx(14**2 / (14**2 + 5**2), abs=0.03)


def test_the_parts_are_right_in_the_mean_also_of_few_pairs_of_unlike_numbers() -> None:
    chance, parts = np.random.default_rng(2), []
    for _ in range(2000):
        rows = drawn(chance, 5, 6, 10, 10)
        rows["0"], rows["1"] = rows["0"][:2], rows["1"][:1]
        found = split(rows)
        assert found is not None
        parts.append((found.between**2, found.within**2))
    between, within = np.mean(parts, axis=0)
    assert within == pytest.approx(100, rel=0.05)
    assert between == pytest.approx(100, rel=0.1)


def test_by_hand() -> None:
    found = split({"a": [1.0, 3.0], "b": [7.0, 9.0]})
    assert found is not None
    # Means 2 and 8: the square between is 2 * (9 + 9) = 36, that within is 4 / 2 = 2.
    assert found.within**2 == pytest.approx(2)
    assert found.between**2 == pytest.approx((36 - 2) / 2)
    assert (found.pairs, found.trials, found.mean, found.median) == (2, 2, 5, 5)
    assert found.error() ** 2 == pytest.approx(17 / 2 + 2 / 4)


def test_the_interval_over_pairs_holds_where_that_of_all_trials_does_not() -> None:
    from osmef.analysis.quantiles import quantile_interval  # noqa: PLC0415

    chance, held, pooled = np.random.default_rng(3), 0, 0
    for _ in range(300):
        rows = drawn(chance, 10, 6, 14, 5)
        found = split(rows)
        assert found is not None
        interval = found.interval
        held += (interval.low or 0) <= 100 <= (interval.high or 0)
        every = quantile_interval([value for row in rows.values() for value in row])
        pooled += (every.low or 0) <= 100 <= (every.high or 0)
    assert held / 300 > 0.94
    assert pooled / 300 < 0.8


@pytest.mark.parametrize(
    ("between", "within", "pair_cost", "expected"),
    [(14, 5, 60, More.PAIRS), (1, 20, 60, More.TRIALS), (14, 5, 1e6, More.TRIALS)],
)
def test_what_to_add(between: float, within: float, pair_cost: float, expected: More) -> None:
    found = split(drawn(np.random.default_rng(4), 40, 4, between, within))
    assert found is not None
    assert found.more(pair_cost, 10) is expected


@pytest.mark.parametrize("rows", [{}, {"a": [1.0, 2.0]}, {"a": [1.0], "b": [2.0]}, {"a": []}])
def test_too_little_for_a_split(rows: Rows) -> None:
    assert split(rows) is None


def test_no_spread_at_all() -> None:
    found = split({"a": [5.0, 5.0], "b": [5.0]})
    assert found is not None
    assert (found.between, found.within, found.between_share) == (0, 0, None)


numbers = st.floats(-1e9, 1e9)


@given(rows=st.dictionaries(st.text(max_size=3), st.lists(numbers, max_size=5), max_size=5))
def test_any_values(rows: Rows) -> None:
    found = split(rows)
    assert found is None or (found.within >= 0 and found.between >= 0)
