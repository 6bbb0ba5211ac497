"""Peers that sleep, limits that are low, clocks that jump, counters that wrap: never a hang."""

from __future__ import annotations

import itertools
import os
import re
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from osmef.agent.messages import BulkResult, IntervalEvent
from tests.agents.faulty import FaultyAgent
from tests.agents.lab import (
    TIMEOUT_S,
    Agent,
    Event,
    StartAgent,
    arm,
    connect,
    dial,
    header,
    job,
    succeed,
)

LONG_S = 60
DAY_S = 86400


def error_of(agent: Agent) -> Event:
    event = agent.ending()[1]
    assert event["event"] == "error", event
    return event


@contextmanager
def suspended(agent: Agent) -> Iterator[None]:
    agent.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        agent.process.send_signal(signal.SIGCONT)


# --- peers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sleeper", ["sender", "receiver"])
@pytest.mark.parametrize("flows", [1, 8])
def test_a_suspended_peer_is_a_stall(start: StartAgent, sleeper: str, flows: int) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver, connections=flows, duration_s=LONG_S, stall_timeout_s=0.5)
    sender.command("start", id="job-1")
    sender.expect("interval")
    receiver.expect("interval")
    asleep, other = (sender, receiver) if sleeper == "sender" else (receiver, sender)
    with suspended(asleep):
        event = error_of(other)
        assert event["kind"] == "stalled"
        assert "peer alive" in event["message"]
        other.idle()
    # It wakes up to connections that are reset.
    assert error_of(asleep)["kind"] in {"reset", "stalled"}
    asleep.idle()


def test_a_suspension_that_is_shorter_than_the_limit_is_none(start: StartAgent) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver, duration_s=0.6, stall_timeout_s=10)
    sender.command("start", id="job-1")
    sender.expect("interval")
    with suspended(receiver):
        sender.expect("interval")
    succeed(sender, receiver)


@pytest.mark.parametrize("asleep", ["listening", "connecting"])
def test_a_peer_that_sleeps_before_the_start(start: StartAgent, asleep: str) -> None:
    sender, receiver = start(), start()
    if asleep == "listening":
        port = arm(receiver)
        with suspended(receiver):
            sender.command(
                "bulk", side="connect", host="127.0.0.1", port=port, **job(arm_timeout_s=1)
            )
            assert error_of(sender)["kind"] == "arm-timeout"
    else:
        connect(sender, receiver, arm_timeout_s=1)
        with suspended(sender):
            assert error_of(receiver)["kind"] == "arm-timeout"


@contextmanager
def admitted_pair(
    start: StartAgent, **changes: object
) -> Iterator[tuple[Agent, list[socket.socket]]]:
    """A sender of two flows, and the connections of the receiver that we play."""
    sender = start()
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as server:
        keys = job(**{"connections": 2, "duration_s": LONG_S, "stall_timeout_s": 0.5, **changes})
        port = server.getsockname()[1]
        sender.command("bulk", side="connect", host="127.0.0.1", port=port, **keys)
        peers: dict[int, socket.socket] = {}
        for _ in range(2):
            peer = stack.enter_context(server.accept()[0])
            peer.settimeout(TIMEOUT_S)
            said = peer.recv(len(header(0, 2)), socket.MSG_WAITALL)
            peers[int.from_bytes(said[6:8])] = peer
            peer.sendall(b"+")
        sender.expect("connected")
        sender.command("start", id="job-1")
        yield sender, [peers[0], peers[1]]


def read_all(peer: socket.socket) -> None:
    """Read what has arrived, but not for ever from a sender that is faster."""
    peer.setblocking(False)
    with suppress(BlockingIOError):
        for _ in range(16):
            peer.recv(1 << 20)


def test_a_flow_that_starves_beside_another_is_no_stall(start: StartAgent) -> None:
    with admitted_pair(start, stall_timeout_s=2) as (sender, (read, _unread)):
        for _ in range(45):  # of 0.1 s: more than twice the limit
            sender.expect("interval")
            read_all(read)
        assert error_of(sender)["kind"] == "stalled"


def test_a_peer_that_half_closes_and_reads_no_more(start: StartAgent) -> None:
    with admitted_pair(start) as (sender, peers):
        sender.expect("interval")  # a peer that leaves before the start has gone
        for peer in peers:
            peer.shutdown(socket.SHUT_WR)
        assert error_of(sender)["kind"] == "stalled"
        sender.idle()


# --- limits -----------------------------------------------------------------------------------


def limit(agent: Agent, what: int, value: int) -> None:
    resource.prlimit(agent.process.pid, what, (value, value))


def test_too_few_descriptors_to_admit_all_flows(start: StartAgent) -> None:
    receiver, sender = start(), start()
    limit(receiver, resource.RLIMIT_NOFILE, 20)
    keys = {"connections": 64, "arm_timeout_s": 1}
    port = arm(receiver, **keys)
    sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job(**keys))
    event = error_of(receiver)
    assert event["kind"] == "resource"
    assert "raise the limits" in event["message"]
    assert error_of(sender)["kind"] in {"cookie", "connect", "reset", "arm-timeout"}
    receiver.idle()


def test_few_descriptors_are_enough_for_few_flows(start: StartAgent) -> None:
    """poll(2) takes no more entries than the process may have descriptors."""
    receiver, sender = start(), start()
    limit(receiver, resource.RLIMIT_NOFILE, 20)
    with ExitStack() as stack:
        port = arm(receiver, connections=2)
        # One that speaks later than it connects has to be heard by poll().
        late = stack.enter_context(dial(port))
        receiver.idle()
        late.sendall(header(0, 2))
        assert late.recv(1) == b"+"
        for _ in range(40):
            stack.enter_context(dial(port))
        other = stack.enter_context(dial(port))
        other.sendall(header(1, 2))
        assert other.recv(1) == b"+"
        receiver.expect("connected")
    assert error_of(receiver)["kind"] == "reset"
    sender.idle()


def address_space(agent: Agent) -> int:
    pages = int(Path(f"/proc/{agent.process.pid}/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("short", ["sender", "receiver"])
def test_too_little_memory_for_threads_and_buffers(start: StartAgent, short: str) -> None:
    sender, receiver = start(), start()
    poor, other = (sender, receiver) if short == "sender" else (receiver, sender)
    limit(poor, resource.RLIMIT_AS, address_space(poor) + (2 << 20))
    port = arm(receiver, connections=64)
    sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job(connections=64))
    event = error_of(poor)
    assert event["kind"] == "resource"
    assert re.search("connections|flows", event["message"])
    poor.idle()
    other.expect("connected")
    other.command("abort", id="job-1")
    assert error_of(other)["kind"] in {"aborted", "reset"}


# --- time and counters ------------------------------------------------------------------------


def measured(sender: Agent, receiver: Agent) -> list[tuple[list[IntervalEvent], BulkResult]]:
    sender.command("start", id="job-1")
    return [
        ([IntervalEvent.model_validate(i) for i in intervals], BulkResult.model_validate(result))
        for intervals, result in succeed(sender, receiver)
    ]


@pytest.mark.real("agents")
def test_a_clock_that_is_set_changes_no_measurement(start_faulty: FaultyAgent) -> None:
    """The real-time clock jumps by hours at every look: nothing is timed by it."""
    sender, receiver = start_faulty(FAULT_STEP_S=3600), start_faulty(FAULT_STEP_S=3600)
    sender.command("clock")
    first = sender.expect("clock")
    sender.command("clock")
    second = sender.expect("clock")
    assert abs(second["realtime_ns"] - first["realtime_ns"]) > 3600e9, "the clock was not set"
    assert 0 <= second["monotonic_ns"] - first["monotonic_ns"] < 60e9
    connect(sender, receiver, connections=2, duration_s=0.5)
    for intervals, result in measured(sender, receiver):
        assert 0.4 < result.elapsed_s < TIMEOUT_S
        assert 3 <= len(intervals) <= 5
        assert all(0 < interval.length_s < TIMEOUT_S for interval in intervals)


def test_a_transfer_of_24_hours(start: StartAgent, start_faulty: FaultyAgent) -> None:
    """In two seconds: the sender's clock runs that much faster. The receiver's is the usual one."""
    sender, receiver = start_faulty(FAULT_SPEED=DAY_S // 2), start()
    keys: dict[str, object] = {"arm_timeout_s": 900_000, "stall_timeout_s": 900_000}
    port = arm(receiver, duration_s=1)
    keys = job(duration_s=DAY_S, interval_s=3600) | keys
    sender.command("bulk", side="connect", host="127.0.0.1", port=port, **keys)
    sender.expect("connected")
    (intervals, result), (_, received) = measured_after_connected(sender, receiver)
    assert DAY_S <= result.elapsed_s < 3 * DAY_S
    assert 12 <= len(intervals) <= 24
    assert intervals[-1].start_s + intervals[-1].length_s == pytest.approx(result.elapsed_s)
    for earlier, later in itertools.pairwise(intervals):
        assert later.start_s == pytest.approx(earlier.start_s + earlier.length_s)
    sent_bytes = result.way.flows[0].bytes
    assert sum(i.bytes[0] for i in intervals) == sent_bytes == received.way.flows[0].bytes


def measured_after_connected(
    sender: Agent, receiver: Agent
) -> list[tuple[list[IntervalEvent], BulkResult]]:
    receiver.expect("connected")
    return measured(sender, receiver)


def test_a_counter_that_wraps_in_the_kernel(start: StartAgent, start_faulty: FaultyAgent) -> None:
    """The kernel counts retransmissions with 32 bits; an interval's are a difference."""
    sender, receiver = start_faulty(FAULT_RETRANSMITS=2**32 - 7), start()
    connect(sender, receiver, duration_s=0.6)
    (intervals, _), _ = measured(sender, receiver)
    assert len(intervals) >= 4
    counts = [i.retransmits for i in intervals]
    assert counts[0] == [2**32 - 7]
    # The end of the flow looks once more.
    assert all(count in ([3], [6]) for count in counts[1:])
