"""Published similarities and vectors of machine types; they are no part of this repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from osmef.analysis.similarity import (
    COMPONENTS,
    machine_vectors,
    resampled,
    similarity_interval,
    similarity_matrix,
)
from osmef.importers import import_files
from osmef.report.data import Data
from osmef.report.machine_types import measured_machines
from tests.published import published

ROUNDED = 0.005
Floats = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Table IV of Kratzke and Quint: 504 similarities, with threads and memory of each type."""
    return pd.read_csv(published("easycompare-2015/similarity-table4.csv"))


def apart(table: pd.DataFrame) -> Floats:
    """Return 1 - min/max of the threads and of the memory, and 0 for the other five components."""
    known = [(table["aws_threads"], table["gce_threads"]), (table["aws_gib"], table["gce_gib"])]
    found = [1 - np.minimum(one, other) / np.maximum(one, other) for one, other in known]
    return np.column_stack([*found, *(np.zeros(len(table)),) * (len(COMPONENTS) - 2)])


def test_no_published_similarity_is_above_what_threads_and_memory_allow(
    table: pd.DataFrame,
) -> None:
    assert len(table) == 504
    for row in table.to_dict("records"):
        types = {"aws": (row["aws_threads"], row["aws_gib"]),
                 "gce": (row["gce_threads"], row["gce_gib"])}  # fmt: skip
        vectors = pd.DataFrame([[*known, 1, 1, 1, 1, 1] for known in types.values()])
        bound = float(similarity_matrix(vectors).to_numpy()[0, 1])
        assert bound == pytest.approx(row["upper_bound"], abs=0.0006)
        assert row["similarity"] <= bound + ROUNDED


VARIANTS: dict[str, Callable[[Floats], Floats]] = {
    "the root of the mean": lambda d: 1 - np.sqrt((d**2).mean(axis=1)),
    "of the two alone": lambda d: 1 - (d[:, :2] ** 2).mean(axis=1),
    "the sum": lambda d: 1 - (d**2).sum(axis=1),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_other_formulas_are_not_the_published_one(table: pd.DataFrame, variant: str) -> None:
    bounds = VARIANTS[variant](apart(table))
    assert (table["similarity"] > bounds + ROUNDED).any()


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    out: Path = tmp_path_factory.mktemp("cwb")
    (run,) = import_files("cwb2018", [published("cwb-2018/data-interim.csv")], out).runs
    return measured_machines(Data(run.path))


PAIRS = {
    ("c3.large", "c4.large"): 0.98,
    ("c3.xlarge", "c4.xlarge"): 0.97,
    ("m3.large", "m4.large"): 0.96,
    ("m3.medium", "m1.medium"): 0.98,
    ("m1.small", "c1.xlarge"): 0.50,
}


def test_eleven_types_of_ec2_are_as_similar_as_they_are_known_to_be(machines: pd.DataFrame) -> None:
    vectors = machine_vectors(machines)
    assert len(vectors) == 11
    assert list(vectors) == list(COMPONENTS)
    matrix = similarity_matrix(vectors)
    found = {pair: matrix[("aws", pair[0])][("aws", pair[1])] for pair in PAIRS}
    assert found == pytest.approx(PAIRS, abs=ROUNDED)


def test_many_vms_of_two_types_give_a_narrow_interval(machines: pd.DataFrame) -> None:
    draws = resampled(machines, machine_vectors(machines))
    found = similarity_interval(draws["aws", "m1.small"], draws["aws", "m3.medium"])
    assert found is not None
    assert 0 < found[1] - found[0] < 0.1
    few = similarity_interval(draws["aws", "c1.xlarge"], draws["aws", "m3.medium"])
    assert few is None, "one VM of a type says nothing of the others"
