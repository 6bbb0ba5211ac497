"""How numbers of a measure are written in tables, on pages and in comparisons."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.results.measure import Measure

COUNT = Measure(name="retransmits", unit="1", better="lower", help="a count", digits=".0f")


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.5, "0.5"), (1.5, "1.5"), (0, "0"), (7, "7"), (-2.5, "-2.5"), (12.5, "12"), (89.6, "90")],
)
def test_a_small_median_of_counts_keeps_its_half(value: float, written: str) -> None:
    assert COUNT.written(value) == written


@given(st.integers(-19, 19))
def test_halves_of_small_counts_are_distinguished(halves: int) -> None:
    assert float(COUNT.written(halves / 2)) == halves / 2
