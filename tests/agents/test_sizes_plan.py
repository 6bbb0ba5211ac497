"""The schedule of a size sweep: which sizes, and how often each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.workloads.kinds.size_sweep import sweep_sizes
from tests.agents.shared import load

LARGEST = 2**30
Plan = Callable[[int, int, int], list[int]]

# What NPtcp 3.7.2 measures with -u 1024 and its usual perturbation, up to that size.
# fmt: off
NETPIPE = [
    1, 2, 3, 4, 6, 8, 12, 13, 16, 19, 21, 24, 27, 29, 32, 35, 45, 48, 51, 61, 64, 67, 93, 96, 99,
    125, 128, 131, 189, 192, 195, 253, 256, 259, 381, 384, 387, 509, 512, 515, 765, 768, 771, 1021,
    1024,
]
# fmt: on


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    agent = load(tmp_path_factory.mktemp("plan"), "sizes_plan.c")
    agent.sizes_plan.argtypes = [ctypes.c_uint64] * 3 + [ctypes.POINTER(ctypes.c_uint64)]
    agent.sizes_repetitions.argtypes = [ctypes.c_double, ctypes.c_double, ctypes.c_uint64]
    agent.sizes_repetitions.restype = ctypes.c_uint64
    return agent


@pytest.fixture(scope="module")
def plan(library: ctypes.CDLL) -> Plan:
    def sizes(low: int, high: int, perturbation: int) -> list[int]:
        room = (ctypes.c_uint64 * 192)()
        return list(room[: library.sizes_plan(low, high, perturbation, room)])

    return sizes


def test_the_sizes_are_those_of_netpipe(plan: Plan) -> None:
    assert plan(1, 1024, 3) == NETPIPE


def test_without_perturbation_there_are_two_steps_in_an_octave(plan: Plan) -> None:
    assert plan(1, 64, 0) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


@pytest.mark.parametrize("size", [1, 3, 1000, LARGEST])
def test_a_sweep_may_be_of_one_size(plan: Plan, size: int) -> None:
    assert plan(size, size, 3) == [size]


ranges = st.tuples(st.integers(1, LARGEST), st.integers(1, LARGEST)).map(sorted)


@given(ranges, st.integers(0, 100_000))
def test_sizes_ascend_from_end_to_end(plan: Plan, ends: list[int], perturbation: int) -> None:
    low, high = ends
    sizes = plan(low, high, perturbation)
    assert (sizes[0], sizes[-1]) == (low, high)
    assert sizes == sorted(set(sizes))
    assert {2**n for n in range(31) if low <= 2**n <= high} <= set(sizes)
    assert sizes == sweep_sizes(low, high, perturbation)


@given(st.integers(1, 1000))
def test_each_size_is_perturbed_where_its_neighbours_are_far(plan: Plan, by: int) -> None:
    sizes = set(plan(1, LARGEST, by))
    for n in range(1, 30):
        for size in (2**n, 2**n + 2 ** (n - 1)):
            assert {size - by, size + by} <= sizes or 2 ** (n - 1) <= 2 * by


@given(st.floats(1e-3, 1e3), st.floats(1e-9, 1e6), st.integers(1, 1000))
def test_repetitions_fill_the_time(
    library: ctypes.CDLL, wanted_s: float, each_s: float, least: int
) -> None:
    repetitions = library.sizes_repetitions(wanted_s, each_s, least)
    assert least <= repetitions <= 10**9
    assert repetitions * each_s <= wanted_s * (1 + 1e-9) or repetitions == least
    assert (repetitions + 1) * each_s > wanted_s * (1 - 1e-9) or repetitions == 10**9


def test_a_size_that_takes_no_time_gets_the_most_repetitions(library: ctypes.CDLL) -> None:
    assert library.sizes_repetitions(1.0, 0.0, 3) == 10**9
