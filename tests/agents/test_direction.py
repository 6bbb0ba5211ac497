"""Forward, in reverse and both ways at once: who sends what, by time and by bytes."""

from __future__ import annotations

import itertools
import socket

import pytest

from osmef.agent.messages import IntervalEvent, ResultEvent
from tests.agents.lab import (
    Event,
    StartAgent,
    arm,
    connect,
    dial,
    header,
    job,
    succeed,
    transfer,
)

WAYS = {"sender": "sending", "receiver": "receiving"}


def assert_same_bytes(sent: Event, received: Event, flows: int) -> None:
    assert [flow["flow"] for flow in sent["flows"]] == list(range(flows))
    counts = [[flow["bytes"] for flow in end["flows"]] for end in (sent, received)]
    assert counts[0] == counts[1]
    assert all(count > 0 for count in counts[0])


def assert_adds_up(intervals: list[Event], result: Event) -> None:
    for role, name in WAYS.items():
        of_role = [event["bytes"] for event in intervals if event["role"] == role]
        sums = [sum(flow) for flow in zip(*of_role, strict=True)]
        assert sums == [flow["bytes"] for flow in (result[name] or {"flows": []})["flows"]]


@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
@pytest.mark.parametrize(("flows", "threads"), [(1, None), (3, None), (8, 2)])
def test_both_ends_report_the_same_bytes_in_each_direction(
    start: StartAgent, direction: str, flows: int, threads: int | None
) -> None:
    ends = transfer(start(), start(), direction=direction, connections=flows, threads=threads)
    for intervals, result in ends:
        assert_adds_up(intervals, result)
        assert result["direction"] == direction
        assert all(IntervalEvent.model_validate(event) for event in intervals)
        assert ResultEvent.model_validate(result)
    connecting, listening = (result for _, result in ends)
    if direction != "reverse":
        assert_same_bytes(connecting["sending"], listening["receiving"], flows)
    if direction != "forward":
        assert_same_bytes(listening["sending"], connecting["receiving"], flows)
    assert (connecting["receiving"] is None) == (direction == "forward")
    assert (listening["receiving"] is None) == (direction == "reverse")
    for result, way in itertools.product((connecting, listening), ("sending", "receiving")):
        if result[way] is not None:
            assert (result[way]["common_length_s"] is None) == (way == "sending")


@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
@pytest.mark.parametrize("threads", [None, 1])
def test_by_bytes_exactly_that_many_arrive(
    start: StartAgent, direction: str, threads: int | None
) -> None:
    wanted = 1_000_003
    ends = transfer(
        start(),
        start(),
        direction=direction,
        connections=3,
        threads=threads,
        bytes=wanted,
        duration_s=60,
    )
    for _, result in ends:
        for way in ("sending", "receiving"):
            flows = [] if result[way] is None else result[way]["flows"]
            assert all(flow["bytes"] == wanted for flow in flows)
        assert result["elapsed_s"] < 60


def test_bytes_that_take_too_long_are_a_timeout(start: StartAgent) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver, bytes=2**53, duration_s=0.2)
    sender.command("start", id="job-1")
    assert sender.ending()[1]["kind"] == "timeout"
    assert receiver.ending()[1]["kind"] == "reset"


@pytest.mark.parametrize("sent", [999, 1001])
def test_another_number_of_bytes_is_a_reset(start: StartAgent, sent: int) -> None:
    receiver = start()
    with dial(arm(receiver, bytes=1000)) as peer:
        peer.sendall(header(0, 1))
        assert peer.recv(1) == b"+"
        receiver.expect("connected")
        peer.sendall(bytes(sent))
        peer.shutdown(socket.SHUT_WR)
        error = receiver.ending()[1]
    assert error["kind"] == "reset"
    assert f"{sent} bytes, not 1000" in error["message"]


def test_both_ways_need_connections_for_each(start: StartAgent) -> None:
    agent = start()
    agent.command(
        "bulk", side="listen", bind="127.0.0.1", port=0, **job(connections=501, direction="both")
    )
    error = agent.expect("error")
    assert error["kind"] == "protocol"
    assert "500" in error["message"]


def test_an_end_that_is_to_send_waits_for_the_start(start: StartAgent) -> None:
    connecting, listening = start(), start()
    connect(connecting, listening, direction="reverse", arm_timeout_s=1)
    kinds = {agent.ending()[1]["kind"] for agent in (connecting, listening)}
    assert "arm-timeout" in kinds
    assert kinds <= {"arm-timeout", "reset"}


@pytest.mark.parametrize("direction", ["reverse", "both"])
@pytest.mark.parametrize("victim", ["connecting", "listening"])
def test_an_abort_ends_the_other_end_too(start: StartAgent, direction: str, victim: str) -> None:
    connecting, listening = start(), start()
    connect(connecting, listening, direction=direction, connections=2, duration_s=60)
    connecting.command("start", id="job-1")
    connecting.expect("interval")
    ends = (connecting, listening) if victim == "connecting" else (listening, connecting)
    ends[0].command("abort", id="job-1")
    assert ends[0].ending()[1]["kind"] == "aborted"
    assert ends[1].ending()[1]["kind"] == "reset"
    connect(connecting, listening, duration_s=0.1)
    connecting.command("start", id="job-1")
    succeed(connecting, listening)


def test_the_other_end_leaves_before_the_start(start: StartAgent) -> None:
    listening = start()
    with dial(arm(listening, direction="reverse")) as peer:
        peer.sendall(header(0, 1)[:11] + b"\1" + header(0, 1)[12:])
        assert peer.recv(1) == b"+"
        listening.expect("connected")
    assert listening.ending()[1]["kind"] == "reset"


def test_odd_connections_can_not_go_both_ways(start: StartAgent) -> None:
    listening = start()
    odd = header(0, 3)[:11] + b"\2" + header(0, 3)[12:]
    with dial(arm(listening, direction="both", connections=2)) as peer:
        peer.sendall(odd)
        assert peer.recv(1) == b""
