"""A transfer between two agents: what they report, and that it fits together."""

from __future__ import annotations

import itertools
import math
import os
import time
from pathlib import Path

import pytest

from osmef.agent.messages import BulkResult, IntervalEvent
from tests.agents.lab import TIMEOUT_S, Agent, Event, StartAgent, connect, succeed, way


def transfer(sender: Agent, receiver: Agent, **changes: object) -> tuple[list[Event], list[Event]]:
    """Run a job; return the events of the sender and of the receiver, the result last."""
    connect(sender, receiver, **changes)
    sender.command("start", id="job-1")
    sent, received = succeed(sender, receiver)
    return [*sent[0], sent[1]], [*received[0], received[1]]


def test_hello_names_protocol_and_process(start: StartAgent) -> None:
    agent = start()
    assert agent.hello["event"] == "hello"
    assert agent.hello["protocol"] == 2
    assert agent.hello["machine"] == os.uname().machine
    assert agent.hello["pid"] == agent.process.pid


def test_clock_is_this_machines(start: StartAgent) -> None:
    agent = start()
    before = time.time_ns(), time.monotonic_ns()
    agent.command("clock")
    clock = agent.event()
    assert before[0] <= clock["realtime_ns"] <= time.time_ns()
    assert before[1] <= clock["monotonic_ns"] <= time.monotonic_ns()


@pytest.mark.parametrize("flows", [1, 8, 128])
def test_intervals_add_up_to_the_result(start: StartAgent, flows: int) -> None:
    # So many threads need more than the usual moment until each has had its turn on few CPUs.
    ends = transfer(start(), start(), connections=flows, duration_s=2 if flows == 128 else 0.3)
    results = [end[-1] for end in ends]
    for *intervals, result in ends:
        sums = [sum(values) for values in zip(*(i["bytes"] for i in intervals), strict=True)]
        assert sums == [flow["bytes"] for flow in way(result)["flows"]]
        for earlier, later in itertools.pairwise(intervals):
            assert math.isclose(
                earlier["start_s"] + earlier["length_s"], later["start_s"], abs_tol=1e-6
            )
        for flow in way(result)["flows"]:
            own_s = flow["end_s"] - flow["start_s"]
            assert math.isclose(flow["goodput_bps"] * own_s, 8 * flow["bytes"], rel_tol=1e-6)
        last = intervals[-1]
        assert math.isclose(last["start_s"] + last["length_s"], result["elapsed_s"], abs_tol=1e-6)
    sent, received = ([flow["bytes"] for flow in way(result)["flows"]] for result in results)
    assert sent == received
    assert all(count > 0 for count in sent)


def test_a_flow_whose_thread_starts_late_still_sends(start: StartAgent) -> None:
    """The deadline of so many threads is over before each of them has run."""
    sender, receiver = start(), start()
    connect(sender, receiver, connections=512, duration_s=0.01)
    sender.command("start", id="job-1")
    _, sent = sender.ending()  # that not all are there at once may be an error of the receiver's
    first = 1024  # is sent for all threads at the start
    assert all(flow["bytes"] > first for flow in way(sent)["flows"])


@pytest.mark.parametrize("flows", [1, 8])
def test_common_interval_lies_within_every_flow(start: StartAgent, flows: int) -> None:
    *_, result = transfer(start(), start(), connections=flows, duration_s=0.5)[1]
    received = way(result)
    begin, length = received["common_start_s"], received["common_length_s"]
    assert begin >= max(flow["start_s"] for flow in way(result)["flows"])
    assert 0 < length < result["elapsed_s"]
    for flow in way(result)["flows"]:
        assert 0 < flow["common_bytes"] <= flow["bytes"]
    common_bps = sum(f["common_bytes"] for f in way(result)["flows"]) * 8 / length
    whole_bps = sum(f["bytes"] for f in way(result)["flows"]) * 8 / result["elapsed_s"]
    # All flows run nearly all of the time on loopback: both rates say the same.
    assert 0.5 < common_bps / whole_bps < 2


def test_events_are_what_the_controller_reads(start: StartAgent) -> None:
    ends = transfer(start(), start(), connections=3)
    for *intervals, result in ends:
        assert all(IntervalEvent.model_validate(event) for event in intervals)
        parsed = BulkResult.model_validate(result)
        assert parsed.start_realtime_ns <= time.time_ns()
        assert parsed.process.cpu_system_s >= 0
        assert parsed.endpoint.cpus == len(os.sched_getaffinity(0))
        for flow in parsed.way.flows:
            assert flow.tcp.congestion_control
            assert flow.tcp.mss is not None
            assert flow.tcp.mss > 500
            assert flow.tcp.retransmits is not None
            assert flow.tcp.send_buffer
            assert flow.tcp.receive_buffer
        used = [(f.cpu_user_s or 0) + (f.cpu_system_s or 0) for f in parsed.way.flows]
        thread_s = sum(used)
        assert thread_s <= parsed.process.cpu_user_s + parsed.process.cpu_system_s + 0.1


def test_each_end_reports_the_usage_of_each_thread_and_cpu(start: StartAgent) -> None:
    for *_, result in transfer(start(), start(), connections=3):
        parsed = BulkResult.model_validate(result)
        each = parsed.endpoint.each
        assert each is not None
        assert set(each.cpu) == os.sched_getaffinity(0)
        assert sum(each.idle_s) == pytest.approx(
            parsed.endpoint.idle_s + parsed.endpoint.iowait_s, abs=0.05 * len(each.cpu)
        )
        assert len(each.interrupts_s) == len(each.steal_s) == len(each.cpu)
        for flow in parsed.way.flows:
            assert flow.last_cpu in each.cpu
            assert (flow.cpu_wait_s is not None) == kernel_counts_waiting()
            assert flow.cpu_wait_s is None or 0 < flow.cpu_wait_s < TIMEOUT_S


def kernel_counts_waiting() -> bool:
    """Say whether schedstat is there and counts: whoever has run has waited, if only to start."""
    schedstat = Path("/proc/self/schedstat")
    return schedstat.exists() and schedstat.read_text().split()[1] != "0"


def test_only_the_sender_has_retransmits_rtt_and_cwnd(start: StartAgent) -> None:
    (sent, *_), (received, *_) = transfer(start(), start(), connections=2)
    for key in ("retransmits", "rtt_us", "cwnd"):
        assert received[key] is None
        assert len(sent[key]) == 2
    assert all(rtt > 0 for rtt in sent["rtt_us"])


def test_a_sender_has_no_common_interval(start: StartAgent) -> None:
    *_, result = transfer(start(), start())[0]
    assert way(result)["common_length_s"] is None
    assert way(result)["flows"][0]["common_bytes"] is None


def test_intervals_keep_their_deadlines(start: StartAgent) -> None:
    *intervals, result = transfer(start(), start(), duration_s=0.54, interval_s=0.1)[0]
    # 0.1 ... 0.4; the rest is less than an interval and a half, and so the last one.
    assert len(intervals) <= 5
    for index, interval in enumerate(intervals):
        assert interval["start_s"] >= index * 0.1
        assert interval["length_s"] > 0
    assert result["elapsed_s"] >= 0.54


def test_an_agent_takes_either_side_again_and_again(start: StartAgent) -> None:
    one, two = start(), start()
    for sender, receiver in ((one, two), (two, one), (one, two)):
        transfer(sender, receiver, duration_s=0.1, connections=2)


def test_ipv6_carries_data_too(start: StartAgent) -> None:
    receiver, sender = start(), start()
    keys = {"id": "six", "cookie": "ab" * 16, "connections": 2, "duration_s": 0.2, "interval_s": 1}
    keys |= {"arm_timeout_s": 5, "stall_timeout_s": 5}
    receiver.command("bulk", side="listen", bind="::1", port=0, **keys)
    answer = receiver.event()
    if answer["event"] == "error":
        pytest.skip(f"no IPv6 here: {answer['message']}")
    sender.command("bulk", side="connect", host="::1", port=answer["port"], **keys)
    sender.expect("connected")
    sender.command("start", id="six")
    receiver.expect("connected")
    succeed(sender, receiver)
