from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.similarity import (
    COMPONENTS,
    counterparts,
    machine_vectors,
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
def test_what_a_similarity_is(table: pd.DataFrame, factor: float) -> None:
    matrix = similarity_matrix(table).to_numpy()
    assert np.all((matrix >= 0) & (matrix <= 1))
    assert np.all(np.diag(matrix) == 1)
    assert np.all(matrix == matrix.T)
    # Neither the unit of a component nor its direction matters.
    np.testing.assert_array_equal(similarity_matrix(table.assign(a=factor * table["a"])), matrix)
    np.testing.assert_allclose(similarity_matrix(1 / table), matrix, atol=1e-9)


def test_by_hand() -> None:
    matrix = similarity_matrix(machines(aws_m=[2, 10], gce_n=[4, 10]))
    assert matrix.iat[0, 1] == 1 - 0.5**2 / 2


@pytest.mark.parametrize(("bad", "said"), [(0, "0"), (-1, "-1"), (math.nan, "missing")])
def test_what_is_not_positive_is_named(bad: float, said: str) -> None:
    table = machines(aws_m=[2, 10], gce_n=[4, bad]).set_axis(["threads", "cpu_s"], axis=1)
    with pytest.raises(InputError, match=f"gce n: cpu_s is {said}"):
        similarity_matrix(table)


def test_counterparts_are_of_other_providers_the_most_similar_first() -> None:
    matrix = similarity_matrix(
        machines(aws_s=[1, 1], aws_l=[8, 8], gce_s=[1, 2], gce_l=[8, 7], gce_twin=[8, 7])
    )
    table = counterparts(matrix)
    assert len(table) == 2 * 3 * 2
    assert table["machine"].iloc[0] == "aws s"
    large = table[table["machine"] == "aws l"]
    assert large["counterpart"].tolist() == ["gce l", "gce twin", "gce s"]
    assert large["rank"].tolist() == [1, 1, 3]
    assert counterparts(similarity_matrix(machines(aws_s=[1, 1]))).empty


def test_a_vector_holds_the_medians() -> None:
    rows = [
        {"provider": "a", "flavor": "m", "network_mb_per_s": rate, "threads": 4}
        for rate in (10.0, 90.0, 20.0)
    ]
    measured = pd.DataFrame(rows).reindex(columns=["provider", "flavor", *COMPONENTS])
    vector = machine_vectors(measured)
    assert vector[["network_mb_per_s", "threads"]].to_numpy().tolist() == [[20.0, 4.0]]
    assert vector["cpu_s"].isna().all()
    with pytest.raises(InputError, match="a m: cpu_s is missing"):
        similarity_matrix(machine_vectors(measured))
