"""Counterparts: their order, what decides, what can't be told apart, and what they cost."""

from __future__ import annotations

import pandas as pd
import pytest

from osmef.analysis.similarity import cheapest, counterparts
from osmef.errors import InputError
from tests.analysis.test_similarity import measured


def exact(**vectors: tuple[float, float]) -> pd.DataFrame:
    return measured(
        **{name: {"threads": [one], "cpu_s": [two] * 6} for name, (one, two) in vectors.items()}
    )


FIVE = exact(aws_s=(1, 1), aws_l=(8, 8), gce_s=(1, 2), gce_l=(8, 7), gce_twin=(8, 7))


def test_they_are_of_other_providers_the_most_similar_first() -> None:
    table = counterparts(FIVE)
    assert len(table) == 2 * 3 * 2
    large = table[table["machine"] == "aws l"]
    assert large["counterpart"].tolist() == ["gce l", "gce twin", "gce s"]
    assert large["rank"].tolist() == [1, 1, 3]
    assert large["tied"].tolist() == [False, True, False]
    assert counterparts(exact(aws_s=(1, 1))).empty


def test_the_components_that_decide_are_named_with_their_ratio() -> None:
    table = counterparts(exact(a_m=(2, 10), b_n=(8, 5))).set_index("machine")
    first, second = table["decided_by"]["a m"]
    assert (first["component"], first["ratio"]) == ("threads", 4)
    assert (second["component"], second["ratio"]) == ("cpu_s", 0.5)
    assert first["share"] == pytest.approx(0.75**2 / (0.75**2 + 0.5**2))
    assert first["share"] + second["share"] == pytest.approx(1)
    assert table["decided_by"]["b n"][0]["ratio"] == 0.25
    assert counterparts(exact(a_m=(2, 10), b_n=(2, 10)))["decided_by"].tolist() == [[], []]


def test_noise_ties_what_it_hides() -> None:
    near = {"cpu_s": [10, 10.6, 9.4, 10.3, 9.7, 10]}
    far = {"cpu_s": [20, 21, 19, 20.5, 19.5, 20]}
    other = {"cpu_s": [10.1, 10.7, 9.5, 10.4, 9.8, 10.1]}
    table = counterparts(measured(a_m=near, b_one=near, b_two=other, b_far=far))
    of = table[table["machine"] == "a m"].set_index("counterpart")
    assert of["tied"].to_dict() == {"b one": False, "b two": True, "b far": False}
    assert of["ci95_low"]["b two"] < of["similarity"]["b two"] <= 1


def prices(**known: float) -> pd.DataFrame:
    rows = [(*name.split("_"), amount, "USD", None, None, "x") for name, amount in known.items()]
    columns = ["provider", "flavor", "price_per_hour", "currency", "region", "date", "source"]
    return pd.DataFrame(rows, columns=columns)


def test_the_cheapest_that_is_not_worse_in_any_component() -> None:
    """Less time is better, more threads are; a tenth less does not matter."""
    machines = exact(a_m=(8, 10), b_slow=(8, 12), b_same=(8, 10.9), b_fast=(16, 5), b_few=(7, 8))
    known = prices(a_m=1.0, b_slow=0.1, b_same=0.8, b_fast=0.9, b_few=0.2)
    table = cheapest(machines, known).set_index("machine")
    assert table["counterpart"]["a m"] == "b same"
    assert table["saving"]["a m"] == pytest.approx(0.2)
    assert pd.isna(table["counterpart"]["b few"])
    assert table["counterpart"]["b slow"] == "a m"
    assert table["saving"]["b slow"] == pytest.approx(-9)
    assert (
        cheapest(machines, known, tolerance=0.05).set_index("machine").loc["a m"].counterpart
        == "b fast"
    )


def test_what_has_no_price_is_left_out() -> None:
    machines = exact(a_m=(8, 10), b_n=(8, 10))
    assert cheapest(machines, prices(a_m=1.0))["counterpart"].isna().all()
    assert cheapest(machines, prices()).empty
    mixed = prices(a_m=1.0, b_n=1.0).assign(currency=["USD", "EUR"])
    with pytest.raises(InputError, match="several currencies: EUR, USD"):
        cheapest(machines, mixed)
