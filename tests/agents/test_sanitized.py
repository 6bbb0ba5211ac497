"""The main cases once more in builds that watch memory, undefined behaviour and data races."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.agents import programs, two_ended_jobs, udp_peer, web
from tests.agents.compiling import compile_agent
from tests.agents.lab import Agent, StartAgent, arm, connect, dial, header, job, succeed

# A line for each kind of job between two ends: its command, and its keys beside those of job().
PAIRS: dict[str, tuple[str, dict[str, object]]] = {
    "one flow": ("bulk", {"connections": 1}),
    "many flows": ("bulk", {"connections": 32, "duration_s": 1}),
    "classes": (
        "bulk",
        {"connections": 3, "each_dscp": ["8", "46"], "each_congestion_control": ["reno"]},
    ),
    "options": (
        "bulk",
        {"connections": 2, "window": 65536, "mss": 1000, "dscp": 8, "pacing_bps": 1e9},
    ),
}


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def sanitized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sanitized") / "osmef-agent"
    flags = ["-O1", "-g", f"-fsanitize={request.param}", "-fno-sanitize-recover=all"]
    return compile_agent("gcc", path, flags)


@pytest.fixture
def start(sanitized: Path) -> Iterator[StartAgent]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Agent(sanitized))


def leave(*agents: Agent) -> None:
    """End the agents properly: a leak is found at the end, and a finding changes the status."""
    for agent in agents:
        assert agent.close_input() == 0


@pytest.mark.parametrize("pair", PAIRS)
def test_each_kind_of_job_leaves_no_memory_error(start: StartAgent, pair: str) -> None:
    sender, receiver = start(), start()
    command, keys = PAIRS[pair]
    for _ in range(2):  # what a job leaves behind meets the next one
        connect(sender, receiver, command, **keys)
        sender.command("start", id="job-1")
        succeed(sender, receiver)
    leave(sender, receiver)


@pytest.mark.parametrize(
    "changes",
    [
        {"direction": "both", "warmup_s": 0.3, "mode": "zerocopy-discard"},
        {"direction": "both", "threads": 2, "warmup_s": 0.3},
        {"direction": "reverse", "threads": 2, "bytes": 1_000_003, "mode": "zerocopy"},
        {"active_s": 0.1, "idle_s": 0.2, "pacing_bps": 1e9, "dscp": 8, "window": 30_000},
    ],
)
def test_every_path_of_a_transfer_leaves_no_memory_error(
    start: StartAgent, changes: dict[str, object]
) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver, **({"connections": 8, "duration_s": 1} | changes))
    sender.command("start", id="job-1")
    succeed(sender, receiver)
    assert sender.close_input() == 0
    assert receiver.close_input() == 0


def test_malformed_commands_and_unrelated_connections_leave_no_memory_error(
    start: StartAgent,
) -> None:
    receiver = start()
    receiver.write(b'{"cmd":"bulk","id":"\\u0041\n\n{}\n' + b"x" * 40000 + b"\n")
    for _ in range(4):
        receiver.expect("error")
    port = arm(receiver, arm_timeout_s=1)
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(dial(port)).sendall(header(7, 3))
        assert receiver.ending()[1]["kind"] == "arm-timeout"
    leave(receiver)


@pytest.mark.parametrize("victim", ["sender", "receiver"])
def test_abort_and_loss_in_a_transfer(start: StartAgent, victim: str) -> None:
    sender, receiver = start(), start()
    one, other = (sender, receiver) if victim == "sender" else (receiver, sender)
    for _ in range(2):
        connect(sender, receiver, connections=16, duration_s=60)
        sender.command("start", id="job-1")
        sender.expect("interval")
        one.command("abort", id="job-1")
        assert one.ending()[1]["kind"] == "aborted"
        assert other.ending()[1]["kind"] == "reset"
    one.command("bulk", side="listen", bind="127.0.0.1", port=0, **job())
    one.expect("listening")
    leave(one, other)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_udp_and_its_abort_leave_no_memory_error(start: StartAgent, direction: str) -> None:
    one, other = start(), start()
    for changes in (
        {"connections": 8},
        {"rate_bps": 0, "warmup_s": 0.1},
        {"burst": 8, "connections": 2},
    ):
        udp_peer.run(one, other, direction=direction, **changes)
        succeed(one, other)
    udp_peer.run(one, other, direction=direction, connections=8, duration_s=60)
    one.expect("interval")
    other.command("abort", id="job-1")
    assert other.ending()[1]["kind"] == "aborted"
    assert one.ending()[1]["kind"] == "reset"
    leave(one, other)


def test_udp_that_arrives_in_any_way(start: StartAgent) -> None:
    receiver = start()
    for sequences, sent in (([5, 5, 2, 200000, 1, 70000], 300000), ([], 0), ([2**60], 9)):
        with udp_peer.playing_sender(receiver) as peer:
            peer.send(sequences)
            peer.data.send(b"not ours")
            peer.end(sent)
            assert receiver.ending()[1]["event"] == "result"
    leave(receiver)


def test_exchanges_and_their_abort_leave_no_memory_error(start: StartAgent) -> None:
    asking, answering = start(), start()
    for keys in ({"request_size": 100_000}, {"rate_per_s": 500, "warmup_s": 0.1}, {"gap_s": 0.01}):
        two_ended_jobs.join("exchange", asking, answering, connections=8, interval_s=0.02, **keys)
        assert two_ended_jobs.result(asking)[1]["count"] > 0
        two_ended_jobs.result(answering)
    two_ended_jobs.join("exchange", asking, answering, connections=8, duration_s=60)
    asking.expect("exchanges")
    answering.command("abort", id="job-1")
    assert two_ended_jobs.failure(asking)["kind"] == "reset"
    leave(asking)


@pytest.mark.parametrize("protocol", ["tcp-connect", "udp", "icmp"])
def test_exchanges_of_other_protocols_leave_no_memory_error(
    start: StartAgent, protocol: str
) -> None:
    asking, answering = start(), start()
    sizes = {"request_size": 100, "response_size": 60, "protocol": protocol}
    if protocol == "icmp":  # an echo comes back as it went
        sizes["response_size"] = 100
    for keys in ({}, {"rate_per_s": 500, "warmup_s": 0.1}):
        more = {"connections": 4, "interval_s": 0.02, **sizes, **keys}
        two_ended_jobs.join("exchange", asking, answering, **more)
        assert two_ended_jobs.result(asking)[1]["count"] > 0
        two_ended_jobs.result(answering)
    two_ended_jobs.join("exchange", asking, answering, connections=4, duration_s=60, **sizes)
    asking.expect("exchanges")
    answering.command("abort", id="job-1")
    assert two_ended_jobs.failure(asking)["kind"] == "reset"
    leave(asking)


@pytest.mark.parametrize("mode", ["pingpong", "stream", "both"])
def test_size_sweeps_leave_no_memory_error(start: StartAgent, mode: str) -> None:
    leader, follower = start(), start()
    keys = {
        "mode": mode,
        "connections": 4,
        "point_s": 0.005,
        "min_repetitions": 1,
        "duration_s": 60,
    }
    for check in (True, False):
        two_ended_jobs.join("sizes", leader, follower, max_size=1_000, check=check, **keys)
        assert two_ended_jobs.result(leader)[1]["complete"]
        two_ended_jobs.result(follower)
    two_ended_jobs.join("sizes", leader, follower, max_size=1_000_000, **{**keys, "point_s": 0.5})
    leader.expect("point")
    leader.command("abort", id="job-1")
    assert two_ended_jobs.failure(follower)["kind"] == "reset"
    leave(follower)


def test_pong_ping_and_siege_leave_no_memory_error(start: StartAgent) -> None:
    pong, ping, siege = start(), start(), start()
    port = web.serve_ping(ping, web.serve_pong(pong, threads=2))
    for keep_alive in (True, False):
        siege.command(
            "siege",
            id="siege-1",
            host="127.0.0.1",
            port=port,
            sizes="5,5000,500000",
            repetitions=100,
            connections=9,
            threads=3,
            keep_alive=keep_alive,
        )
        siege.expect("connected")
        siege.command("start", id="siege-1")
        siege.expect("requests")
        assert siege.expect("result")["failed"] == 0
    assert web.get(port, "/ping/700000") == (200, web.pong_body(700000))
    pong.command("abort", id="pong-1")
    assert pong.expect("error")["kind"] == "aborted"
    assert web.metered(port, 5)["code"] == 503
    ping.command("stop", id="ping-1")
    assert ping.expect("result")["requests"] == 602
    leave(siege, ping, pong)


def test_programs_leave_no_memory_error(start: StartAgent) -> None:
    programs.try_all(start)
