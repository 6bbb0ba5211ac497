"""The agents of all machines, foreign ones emulated, against the one of this machine.

What differs between them is what a transfer shows: byte order on the wire, the layout of what the
kernel answers, system call numbers. Speed and CPU time of an emulated agent mean nothing.
"""

from __future__ import annotations

import pytest

from osmef.agent.messages import BulkResult, IntervalEvent
from tests.agents import programs, two_ended_jobs, udp_peer, web
from tests.agents.lab import Agent, Event, StartAgent, arm, connect, dial, header, job, succeed, way


def transfer(sender: Agent, receiver: Agent) -> list[tuple[list[Event], Event]]:
    connect(sender, receiver, connections=3, duration_s=0.5)
    sender.command("start", id="job-1")
    return succeed(sender, receiver)


@pytest.mark.parametrize("foreign_sends", [True, False], ids=["it-sends", "it-receives"])
def test_a_transfer_between_architectures_counts_the_same_bytes(
    start: StartAgent, start_any: StartAgent, *, foreign_sends: bool
) -> None:
    sender, receiver = (start_any(), start()) if foreign_sends else (start(), start_any())
    ends = transfer(sender, receiver)
    sent, received = ([flow["bytes"] for flow in way(result)["flows"]] for _, result in ends)
    assert sent == received
    for intervals, raw in ends:
        result = BulkResult.model_validate(raw)
        parsed = [IntervalEvent.model_validate(event) for event in intervals]
        sums = [sum(counts) for counts in zip(*(i.bytes for i in parsed), strict=True)]
        assert sums == [flow.bytes for flow in result.way.flows]
        assert 0.4 < result.elapsed_s < 20
        assert result.process.cpu_user_s + result.process.cpu_system_s < 20
    assert ends[1][1]["refused"] == 0


def test_the_tcp_info_of_a_flow_is_plausible_or_unknown(
    start: StartAgent, start_any: StartAgent, any_binary: tuple[str, ...]
) -> None:
    """The emulator hands on four bytes of TCP_INFO: what lies beyond them is unknown, never 0."""
    (_, result), _ = transfer(start_any(), start())
    emulated = len(any_binary) > 1
    for flow in BulkResult.model_validate(result).way.flows:
        figures = flow.tcp.model_dump(
            exclude={"congestion_control", "send_buffer", "receive_buffer"}
        )
        if emulated and flow.tcp.mss is None:
            assert set(figures.values()) == {None}
            continue
        assert flow.tcp.congestion_control
        assert 500 < figures["mss"] < 65536
        assert 0 < figures["rtt_us"] < 1e6
        assert 0 < figures["cwnd"] < 1e6
        assert 0 <= figures["retransmits"] < 1e4


def test_the_machine_names_itself(start_any: StartAgent, any_binary: tuple[str, ...]) -> None:
    agent = start_any()
    assert any_binary[-1].endswith(f"-{agent.hello['machine']}")
    agent.idle()
    assert agent.close_input() == 0


@pytest.mark.parametrize("foreign_sends", [True, False], ids=["it-sends", "it-receives"])
def test_a_wrong_cookie_is_refused_between_architectures(
    start: StartAgent, start_any: StartAgent, *, foreign_sends: bool
) -> None:
    sender, receiver = (start_any(), start()) if foreign_sends else (start(), start_any())
    port = arm(receiver)
    sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job(cookie="ff" * 16))
    assert sender.ending()[1]["kind"] == "cookie"
    receiver.command("abort", id="job-1")
    assert receiver.ending()[1]["kind"] == "aborted"


def test_the_header_is_big_endian_everywhere(start_any: StartAgent) -> None:
    port = arm(start_any(), connections=2)
    with dial(port) as good, dial(port) as swapped:
        good.sendall(header(1, 2))
        assert good.recv(1) == b"+"
        swapped.sendall(header(0, 2)[:6] + b"\0\0\2\0" + header(0, 2)[10:])
        assert swapped.recv(1) == b""


@pytest.mark.parametrize("foreign_leads", [True, False], ids=["it-leads", "it-follows"])
def test_checked_messages_are_right_between_architectures(
    start: StartAgent, start_any: StartAgent, *, foreign_leads: bool
) -> None:
    """Byte order again: what is announced, and what the messages hold."""
    leader, follower = (start_any(), start()) if foreign_leads else (start(), start_any())
    keys = {"max_size": 48, "point_s": 0.001, "min_repetitions": 1, "duration_s": 60}
    two_ended_jobs.join("sizes", leader, follower, check=True, **keys)
    points, _ = two_ended_jobs.result(leader)
    assert [point["size"] for point in points][-2:] == [45, 48]
    two_ended_jobs.result(follower)


def test_both_architectures_count_the_same_exchanges(
    start: StartAgent, start_any: StartAgent
) -> None:
    asking, answering = start_any(), start()
    two_ended_jobs.join("exchange", asking, answering, rate_per_s=100)
    _, asked = two_ended_jobs.result(asking)
    assert asked["count"] + asked["unsent"] == 30
    assert asked["count"] == two_ended_jobs.result(answering)[1]["count"]


@pytest.mark.parametrize("foreign_sends", [True, False], ids=["it-sends", "it-receives"])
def test_both_architectures_account_for_every_datagram(
    start: StartAgent, start_any: StartAgent, *, foreign_sends: bool
) -> None:
    sender, receiver = (start_any(), start()) if foreign_sends else (start(), start_any())
    udp_peer.run(sender, receiver, rate_bps=4e5, burst=4, connections=2)
    (_, sent), (_, received) = succeed(sender, receiver)
    for one, other in zip(sent["flows"], received["flows"], strict=True):
        assert one["sent"] == other["sent"] > 0
        assert other["datagrams"] + other["lost"] == other["sent"]
        assert other["datagrams"] > 0
        assert other["foreign"] == other["reordered"] == other["duplicates"] == 0


def test_siege_is_served_by_ping_and_pong_on_any_architecture(start_any: StartAgent) -> None:
    web.besiege_in_a_row(start_any(), start_any(), start_any())


def test_programs_run_on_any_architecture(start_any: StartAgent) -> None:
    programs.try_all(start_any)
