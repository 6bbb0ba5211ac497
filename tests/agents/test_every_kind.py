"""What can go wrong with either end at each stage of a job, for every kind of job alike.

The end that is left says why within moments, has nothing left of the job, and does the next one.
"""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents.lab import Agent, Event, StartAgent, dial, job
from tests.agents.two_ended_jobs import ending

LONG_S = 600
SOON_S = 5.0

Keys = dict[str, object]

# A line for each path through the agent: the command, and its keys beside those of job().
KINDS: dict[str, tuple[str, Keys]] = {
    "bulk": ("bulk", {}),
    "bulk pooled": ("bulk", {"threads": 2, "connections": 5}),
    "bulk reverse": ("bulk", {"direction": "reverse", "mode": "zerocopy"}),
    "bulk both": ("bulk", {"direction": "both", "mode": "discard"}),
    "bulk both pooled": ("bulk", {"direction": "both", "threads": 1}),
    "bulk in bursts": ("bulk", {"active_s": 0.05, "idle_s": 0.05}),
    "udp": ("udp", {"rate_bps": 4e6, "size": 500}),
    "udp reverse": ("udp", {"rate_bps": 0, "size": 500, "direction": "reverse"}),
    "exchange": ("exchange", {}),
    "exchange at a rate": ("exchange", {"rate_per_s": 200}),
    "exchange by connections": (
        "exchange",
        {"protocol": "tcp-connect", "request_size": 16, "response_size": 16},
    ),
    "exchange by datagrams": (
        "exchange",
        {"protocol": "udp", "request_size": 16, "response_size": 16},
    ),
    "exchange by echoes": (
        "exchange",
        {"protocol": "icmp", "rate_per_s": 200, "request_size": 16, "response_size": 16},
    ),
    "pingpong": ("sizes", {"max_size": 1_000_000, "point_s": 0.05}),
    "stream": ("sizes", {"max_size": 1_000_000, "point_s": 0.05, "mode": "stream"}),
    "swap": ("sizes", {"max_size": 1_000_000, "point_s": 0.05, "mode": "both"}),
}
STAGES = [pytest.param("connected", marks=pytest.mark.real("agents")), "running"]
ENDS = ["connecting", "listening"]

every_kind = pytest.mark.parametrize("kind", KINDS)


class Pair:
    """A connecting and a listening agent, and what the job is."""

    def __init__(self, start: StartAgent, kind: str) -> None:
        self.command, keys = KINDS[kind]
        self.keys = job(**{"connections": 3, "duration_s": LONG_S, **keys})
        self.connecting, self.listening = start(), start()

    def listen(self, **changes: object) -> int:
        keys = self.keys | changes
        self.listening.command(self.command, side="listen", bind="127.0.0.1", port=0, **keys)
        port: int = self.listening.expect("listening")["port"]
        return port

    def connect(self, port: int, **changes: object) -> None:
        keys = self.keys | changes
        self.connecting.command(self.command, side="connect", host="127.0.0.1", port=port, **keys)

    def reach(self, stage: str, **changes: object) -> None:
        """Bring both ends to this stage."""
        self.connect(self.listen(**changes), **changes)
        self.connecting.expect("connected")
        self.listening.expect("connected")
        if stage == "running":
            self.connecting.command("start", id="job-1")
            self.connecting.event()  # an interval, or a point

    def sides(self, end: str) -> tuple[Agent, Agent]:
        """Return this end and the other."""
        pair = self.connecting, self.listening
        return pair if end == "connecting" else (pair[1], pair[0])

    def works(self, start: StartAgent, end: str) -> None:
        """Check that this end does a short job with a new agent at the other."""
        if end == "connecting":
            self.listening = start()
        else:
            self.connecting = start()
        self.reach("connected", duration_s=0.1, interval_s=0.1)
        self.connecting.command("start", id="job-1")
        for agent in (self.connecting, self.listening):
            assert ending(agent)[1]["event"] == "result"


def belongings(agent: Agent) -> tuple[int, int]:
    """Return how many descriptors and threads an agent has."""
    process = Path(f"/proc/{agent.process.pid}")
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


def check_belongings(agent: Agent, had: tuple[int, int]) -> None:
    """A thread that has been joined is in /proc for some moments more."""
    end = time.monotonic() + SOON_S
    while belongings(agent) != had and time.monotonic() < end:
        agent.idle()
    assert belongings(agent) == had


def check_left(pair: Pair, start: StartAgent, end: str, had: tuple[int, int]) -> None:
    agent, _ = pair.sides(end)
    agent.idle()
    check_belongings(agent, had)
    pair.works(start, end)
    agent.idle()
    check_belongings(agent, had)


def error_within(agent: Agent, seconds: float) -> Event:
    began = time.monotonic()
    event = ending(agent)[1]
    assert event["event"] == "error", event
    assert time.monotonic() - began < seconds, event
    return event


def kill(agent: Agent) -> None:
    agent.process.send_signal(signal.SIGKILL)


def abort(agent: Agent) -> None:
    agent.command("abort", id="job-1")


def hang_up(agent: Agent) -> None:
    began = time.monotonic()
    assert agent.close_input() == 0
    assert time.monotonic() - began < SOON_S


@every_kind
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("leave", [kill, abort, hang_up])
def test_a_peer_that_leaves_is_a_reset(
    start: StartAgent, kind: str, leave: Callable[[Agent], None], stage: str, end: str
) -> None:
    """A peer that was killed, that was aborted, and one whose controller has gone."""
    pair = Pair(start, kind)
    leaving, left = pair.sides(end)
    had, other_had = belongings(left), belongings(leaving)
    pair.reach(stage)
    leave(leaving)
    assert error_within(left, SOON_S)["kind"] == "reset"
    other = "listening" if end == "connecting" else "connecting"
    if leave is abort:
        assert error_within(leaving, SOON_S)["kind"] == "aborted"
        leaving.idle()
        check_belongings(leaving, other_had)
    check_left(pair, start, other, had)


@every_kind
@pytest.mark.parametrize("end", ENDS)
def test_a_suspended_peer_is_a_stall_for_every_job_kind(
    start: StartAgent, kind: str, end: str
) -> None:
    pair = Pair(start, kind)
    suspended, left = pair.sides(end)
    had = belongings(left)
    # What the ends of datagrams ask of each other comes at the end of the job.
    datagrams = pair.command == "udp" or pair.keys.get("protocol") in {"udp", "icmp"}
    changes: Keys = {"duration_s": 0.5} if datagrams else {}
    pair.reach("running", stall_timeout_s=0.5, **changes)
    suspended.process.send_signal(signal.SIGSTOP)
    assert error_within(left, 4 * SOON_S)["kind"] == "stalled"
    check_left(pair, start, "listening" if end == "connecting" else "connecting", had)


@every_kind
@pytest.mark.parametrize("leave", [abort, hang_up])
def test_an_agent_waiting_for_its_flows_can_be_stopped(
    start: StartAgent, kind: str, leave: Callable[[Agent], None]
) -> None:
    pair = Pair(start, kind)
    had = belongings(pair.listening)
    with dial(pair.listen()):
        leave(pair.listening)
        if leave is abort:
            assert error_within(pair.listening, SOON_S)["kind"] == "aborted"
            check_left(pair, start, "listening", had)


@every_kind
def test_a_start_command_to_the_listening_end_has_no_effect(start: StartAgent, kind: str) -> None:
    """Its peer starts it, or nobody: the deadline holds."""
    pair = Pair(start, kind)
    had = belongings(pair.listening)
    port = pair.listen(arm_timeout_s=0.5)
    pair.listening.command("start", id="job-1")
    pair.connect(port)
    pair.connecting.expect("connected")
    pair.listening.expect("connected")
    pair.listening.command("start", id="job-1")
    assert error_within(pair.listening, SOON_S)["kind"] == "arm-timeout"
    assert error_within(pair.connecting, SOON_S)["kind"] == "reset"
    check_left(pair, start, "listening", had)


@every_kind
def test_a_start_in_the_far_future_can_be_aborted(start: StartAgent, kind: str) -> None:
    pair = Pair(start, kind)
    had = belongings(pair.connecting)
    pair.reach("connected")
    for never in (-1, 2**60, 1e300, 0.5, "soon"):
        pair.connecting.command("start", id="job-1", at_monotonic_ns=never)
        assert pair.connecting.expect("error")["kind"] == "protocol"
    pair.connecting.command("start", id="job-1", at_monotonic_ns=2**53)
    abort(pair.connecting)
    assert error_within(pair.connecting, SOON_S)["kind"] == "aborted"
    check_left(pair, start, "connecting", had)


@every_kind
def test_the_longest_job_can_be_aborted(start: StartAgent, kind: str) -> None:
    """As long as there is, with an interval that is as long."""
    pair = Pair(start, kind)
    had = belongings(pair.connecting)
    longest = ("duration_s", "warmup_s", "interval_s", "arm_timeout_s", "stall_timeout_s")
    pair.reach("connected", **dict.fromkeys(longest, 1e6))
    pair.connecting.command("start", id="job-1")
    pair.connecting.idle()
    pair.listening.idle()
    abort(pair.connecting)
    assert error_within(pair.connecting, SOON_S)["kind"] == "aborted"
    check_left(pair, start, "connecting", had)


@pytest.mark.real("agents")
@pytest.mark.parametrize("kind", ["bulk both pooled", "udp"])
@pytest.mark.parametrize("end", ENDS)
def test_a_job_fails_and_the_agent_stays_where_descriptors_run_out(
    start: StartAgent, kind: str, end: str
) -> None:
    """Wherever that is: the job fails for this reason, and the agent stays."""
    pair = Pair(start, kind)
    poor, other = pair.sides(end)
    had = belongings(poor)
    kinds = []
    for spare in range(13):
        _limit(poor, had[0] + spare)
        poor_event = _try(pair, poor, other)
        poor.idle()
        other.idle()
        assert belongings(poor) == had, spare
        kinds.append(poor_event["kind"])
    assert kinds[0] == "resource"
    assert set(kinds) <= {"resource", "aborted"}, kinds
    _limit(poor, 1024)
    pair.works(start, end)


def _limit(agent: Agent, descriptors: int) -> None:
    _, highest = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (descriptors, highest))


def _try(pair: Pair, poor: Agent, other: Agent) -> Event:
    """Connect both as far as it goes, then end the job at both; return how it ended at one."""
    keys = pair.keys
    pair.listening.command(pair.command, side="listen", bind="127.0.0.1", port=0, **keys)
    event = pair.listening.event()
    if event["event"] == "error":
        return event
    pair.connect(event["port"])
    event = poor.event()
    if event["event"] == "connected":
        abort(poor)
        event = poor.expect("error")
    abort(other)
    assert ending(other)[1]["event"] == "error"
    return event
