"""The agent's histogram: what it reads back is within the error that it states."""

from __future__ import annotations

import ctypes
import json
import math
import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.shared import load

ERROR = 1 / 64
RANGE_NS = 2**47
DURATIONS = st.lists(st.integers(0, RANGE_NS - 1) | st.integers(0, 200), min_size=1, max_size=60)


class Histogram(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_uint64),
        ("min_ns", ctypes.c_int64),
        ("max_ns", ctypes.c_int64),
        ("buckets", ctypes.c_uint64 * (64 + 32 * 41)),
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    agent = load(tmp_path_factory.mktemp("histogram"), "histogram.c", "out.c")
    agent.histogram_add.argtypes = [ctypes.POINTER(Histogram), ctypes.c_int64]
    agent.histogram_quantile.argtypes = [ctypes.POINTER(Histogram), ctypes.c_double]
    agent.histogram_quantile.restype = ctypes.c_int64
    return agent


def filled(library: ctypes.CDLL, durations: Iterable[int]) -> Histogram:
    histogram = Histogram()
    for ns in durations:
        library.histogram_add(histogram, ns)
    return histogram


def told(library: ctypes.CDLL, histogram: Histogram) -> dict[str, Any]:
    """Return what histogram_write() prints, as the agent would print it."""
    reader, writer = os.pipe()
    stdout = os.dup(1)
    try:
        os.dup2(writer, 1)
        library.out_format(b"{")
        library.histogram_write(ctypes.byref(histogram))
        library.out_format(b"}")
        library.out_line()
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(writer)
    with os.fdopen(reader, encoding="ascii") as text:
        value: dict[str, Any] = json.load(text)["histogram"]
        return value


@given(DURATIONS, st.floats(0, 1))
def test_quantile_is_that_of_the_sorted_values(
    library: ctypes.CDLL, durations: list[int], q: float
) -> None:
    exact = sorted(durations)[max(math.ceil(q * len(durations)), 1) - 1]
    got = library.histogram_quantile(filled(library, durations), q)
    assert abs(got - exact) <= ERROR * exact


@given(DURATIONS)
def test_buckets_hold_every_value(library: ctypes.CDLL, durations: list[int]) -> None:
    table = told(library, filled(library, durations))
    buckets = list(zip(table["lower_ns"], table["upper_ns"], table["count"], strict=True))
    assert table["error_percent"] == 100 * ERROR
    assert sum(table["count"]) == len(durations)
    for lower, upper, count in buckets:
        assert count == sum(lower <= ns < upper for ns in durations)
        assert (upper - lower) / 2 <= max(ERROR * lower, 0.5)


@given(DURATIONS, DURATIONS)
def test_merged_histograms_equal_a_single_one(
    library: ctypes.CDLL, some: list[int], others: list[int]
) -> None:
    merged = filled(library, some)
    library.histogram_merge(ctypes.byref(merged), ctypes.byref(filled(library, others)))
    assert bytes(merged) == bytes(filled(library, some + others))


def test_an_empty_histogram_has_no_quantile_and_adds_nothing(library: ctypes.CDLL) -> None:
    assert library.histogram_quantile(Histogram(), 0.5) == -1
    assert told(library, Histogram())["count"] == []
    merged = filled(library, [5])
    library.histogram_merge(ctypes.byref(merged), ctypes.byref(Histogram()))
    assert bytes(merged) == bytes(filled(library, [5]))


@pytest.mark.parametrize("ns", [RANGE_NS, 2**62, 2**63 - 1])
def test_beyond_the_range_the_maximum_is_known(library: ctypes.CDLL, ns: int) -> None:
    histogram = filled(library, [7, ns, ns])
    assert library.histogram_quantile(histogram, 0.5) == ns
    assert told(library, histogram)["count"] == [1, 2]


def test_below_zero_is_zero(library: ctypes.CDLL) -> None:
    assert library.histogram_quantile(filled(library, [-1]), 0) == 0
