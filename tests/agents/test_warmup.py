"""The warm-up is sent and kept, but not measured."""

from __future__ import annotations

import math

import pytest

from tests.agents.lab import Event, StartAgent, transfer, way

WARMUP_S = 0.25


def warm_and_measured(intervals: list[Event]) -> tuple[list[Event], list[Event]]:
    flags = [event["warmup"] for event in intervals]
    assert flags == sorted(flags, reverse=True), "the warm-up comes first"
    warm = flags.count(True)
    return intervals[:warm], intervals[warm:]


@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize("interval_s", [0.1, 10])
def test_an_interval_ends_with_the_warmup(
    start: StartAgent, threads: int | None, interval_s: float
) -> None:
    ends = transfer(
        start(), start(), connections=3, warmup_s=WARMUP_S, interval_s=interval_s, threads=threads
    )
    assert ends[0][1]["elapsed_s"] >= WARMUP_S + 0.3  # the receiver may begin late
    for intervals, result in ends:
        warm, measured = warm_and_measured(intervals)
        assert warm
        assert measured
        border = measured[0]["start_s"]
        assert math.isclose(warm[-1]["start_s"] + warm[-1]["length_s"], border, abs_tol=1e-6)
        assert border >= WARMUP_S
        flows = way(result)["flows"]
        assert result["elapsed_s"] > border
        for flow in flows:
            index = flow["flow"]
            assert sum(event["bytes"][index] for event in intervals) == flow["bytes"]
            counted = sum(event["bytes"][index] for event in measured)
            assert counted == flow["measured"]["bytes"] < flow["bytes"]


def test_the_common_interval_begins_after_the_warmup(start: StartAgent) -> None:
    _, (intervals, result) = transfer(start(), start(), connections=2, warmup_s=WARMUP_S)
    received = way(result)
    _, measured = warm_and_measured(intervals)
    assert math.isclose(received["common_start_s"], measured[0]["start_s"], abs_tol=1e-6)
    for flow in received["flows"]:
        assert flow["common_bytes"] <= flow["measured"]["bytes"]


def test_the_resource_usage_is_reported_with_and_without_the_warmup(start: StartAgent) -> None:
    for _, result in transfer(start(), start(), warmup_s=WARMUP_S):
        part = result["measured"]
        assert part["start_s"] >= WARMUP_S
        assert math.isclose(part["start_s"] + part["length_s"], result["elapsed_s"], abs_tol=1e-6)
        for key in ("cpu_user_s", "cpu_system_s"):
            assert 0 <= part["process"][key] <= result["process"][key]
            flow = way(result)["flows"][0]
            assert 0 <= flow["measured"][key] <= flow[key]
        assert part["endpoint"]["elapsed_s"] < result["endpoint"]["elapsed_s"]


def test_only_a_sender_has_tcp_counters_without_the_warmup(start: StartAgent) -> None:
    sent, received = (
        way(result)["flows"][0]["measured"]
        for _, result in transfer(start(), start(), warmup_s=WARMUP_S)
    )
    assert sent["retransmits"] >= 0
    assert received["retransmits"] is None


def test_without_a_warmup_all_is_measured(start: StartAgent) -> None:
    for intervals, result in transfer(start(), start(), connections=2):
        assert not any(event["warmup"] for event in intervals)
        assert result["measured"]["start_s"] == 0
        assert result["measured"]["process"] == result["process"]
        for flow in way(result)["flows"]:
            assert flow["measured"]["bytes"] == flow["bytes"]


@pytest.mark.parametrize("threads", [None, 1])
def test_a_transfer_that_ends_within_the_warmup_measures_nothing(
    start: StartAgent, threads: int | None
) -> None:
    for intervals, result in transfer(
        start(), start(), connections=2, bytes=1000, warmup_s=5, threads=threads
    ):
        assert all(event["warmup"] for event in intervals)
        assert way(result)["common_length_s"] is None
        assert result["measured"]["start_s"] == pytest.approx(result["elapsed_s"], abs=1e-6)
        assert result["measured"]["length_s"] == pytest.approx(0, abs=1e-6)
        for flow in way(result)["flows"]:
            assert flow["bytes"] == 1000
            assert flow["measured"]["bytes"] == 0
            assert flow["measured"]["retransmits"] in {0, None}
        for one in way(result)["threads"] or way(result)["flows"]:
            assert one["measured"]["cpu_system_s"] <= 0.001
