"""Similarity of machine types, and counterparts.

Their order, what decides, what can't be told apart, and what they cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.similarity import (
    COMPONENTS,
    GIVEN,
    cheapest,
    counterparts,
    machine_vectors,
    resampled,
    similarity_interval,
    similarity_matrix,
)
from osmef.errors import InputError

vectors = st.lists(
    st.lists(st.floats(1e-3, 1e6), min_size=4, max_size=4), min_size=1, max_size=6
).map(lambda rows: pd.DataFrame(rows, columns=["a", "b", "c", "d"]))


def machines(**rows: list[float]) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples(
        [tuple(name.split("_")) for name in rows], names=["provider", "flavor"]
    )
    return pd.DataFrame(list(rows.values()), index=index)


@given(vectors, st.sampled_from([0.125, 8.0, 1024.0]))
def test_similarity_is_symmetric_between_0_and_1_and_independent_of_units(
    table: pd.DataFrame, factor: float
) -> None:
    matrix = similarity_matrix(table).to_numpy()
    assert np.all((matrix >= 0) & (matrix <= 1))
    assert np.all(np.diag(matrix) == 1)
    assert np.all(matrix == matrix.T)
    # Neither the unit of a component nor its direction matters.
    np.testing.assert_array_equal(similarity_matrix(table.assign(a=factor * table["a"])), matrix)
    np.testing.assert_allclose(similarity_matrix(1 / table), matrix, atol=1e-9)


def test_a_similarity_is_that_computed_by_hand() -> None:
    matrix = similarity_matrix(machines(aws_m=[2, 10], gce_n=[4, 10]))
    assert matrix.iat[0, 1] == 1 - 0.5**2 / 2


@pytest.mark.parametrize(
    ("bad", "said"),
    [(0, "0"), (-1, "-1"), (math.nan, "missing"), (1e308, r"1e\+308"), (1e-308, "1e-308")],
)
def test_a_value_without_a_ratio_is_named_in_the_error(bad: float, said: str) -> None:
    table = machines(aws_m=[2, 10], gce_n=[4, bad]).set_axis(["threads", "cpu_s"], axis=1)
    with pytest.raises(InputError, match=f"gce n: cpu_s is {said}"):
        similarity_matrix(table)


def measured(**rows: dict[str, list[float]]) -> pd.DataFrame:
    """Make measurements of the machine types ``PROVIDER_FLAVOR``."""
    return pd.DataFrame(
        [
            (*name.split("_"), component, value)
            for name, components in rows.items()
            for component, values in components.items()
            for value in values
        ],
        columns=["provider", "flavor", "component", "value"],
    )


def test_a_vector_holds_the_medians() -> None:
    table = measured(a_m={"network_mb_per_s": [10, 90, 20], "threads": [4]}, b_n={"threads": [2]})
    vectors = machine_vectors(table)
    assert list(vectors.columns) == ["threads", "network_mb_per_s"]
    assert vectors.to_numpy()[0].tolist() == [4, 20]
    with pytest.raises(InputError, match="b n: network_mb_per_s is missing"):
        similarity_matrix(vectors)


def intervals(table: pd.DataFrame) -> tuple[float, float] | None:
    one, other = resampled(table, machine_vectors(table)).values()
    return similarity_interval(one, other)


def test_an_interval_holds_the_similarity_and_is_a_point_where_nothing_spreads() -> None:
    table = measured(a_m={"threads": [2], "cpu_s": [5] * 6}, b_n={"threads": [4], "cpu_s": [5] * 6})
    assert intervals(table) == pytest.approx((1 - 0.5**2 / 2,) * 2)
    noisy = {"cpu_s": [5, 5.1, 4.9, 5.2, 4.8, 5]}
    found = intervals(measured(a_m=noisy, b_n=noisy))
    assert found is not None
    assert found[0] < 1
    assert found[1] == 1
    assert intervals(measured(a_m=noisy, b_n=noisy)) == found, "the seed is fixed"


@pytest.mark.parametrize("bad", [0.0, -3.0])
def test_a_measurement_that_is_not_positive_leaves_no_interval(bad: float) -> None:
    usual = [9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]
    found = counterparts(
        measured(
            aws_m={"network_mb_per_s": usual},
            gce_n={"network_mb_per_s": [bad, bad, bad, 12.0, 13.0, 14.0, 15.0]},
        )
    )
    assert found["similarity"].tolist() == [1.0, 1.0]
    assert found[["ci95_low", "ci95_high"]].isna().all(axis=None)


def test_too_few_measurements_have_no_interval() -> None:
    assert intervals(measured(a_m={"cpu_s": [5] * 6}, b_n={"cpu_s": [5] * 5})) is None
    assert intervals(measured(a_m={"threads": [2]}, b_n={"threads": [2]})) == (1, 1)


KINDS: dict[str, Callable[[np.random.Generator, int], npt.NDArray[np.float64]]] = {
    "normal": lambda r, n: 1 + 0.05 * r.standard_normal(n),
    "skewed": lambda r, n: np.exp(0.2 * r.standard_normal(n)),
    "bimodal": lambda r, n: r.choice([0.9, 1.1], n) + 0.02 * r.standard_normal(n),
    "rounded": lambda r, n: np.round(1 + 0.03 * r.standard_normal(n), 2),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ratio", [1.0, 1.1])
def test_intervals_cover_the_true_similarity_at_their_stated_rate(kind: str, ratio: float) -> None:
    """Five components of six measurements each; the median of each kind is 1."""
    random, cases, held = np.random.default_rng(7), 60, 0
    truth = 1 - (1 - 1 / ratio) ** 2
    names = [name for name in COMPONENTS if name not in GIVEN]
    for _ in range(cases):
        one = {str(name): list(KINDS[kind](random, 6)) for name in names}
        other = {str(name): list(ratio * KINDS[kind](random, 6)) for name in names}
        found = intervals(measured(a_m=one, b_n=other))
        assert found is not None
        held += found[0] <= truth <= found[1]
    assert held / cases >= 0.9


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


def test_counterparts_within_the_noise_are_marked_as_tied() -> None:
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


def test_machines_without_a_price_are_omitted() -> None:
    machines = exact(a_m=(8, 10), b_n=(8, 10))
    assert cheapest(machines, prices(a_m=1.0))["counterpart"].isna().all()
    assert cheapest(machines, prices()).empty
    mixed = prices(a_m=1.0, b_n=1.0).assign(currency=["USD", "EUR"])
    with pytest.raises(InputError, match="several currencies: EUR, USD"):
        cheapest(machines, mixed)
