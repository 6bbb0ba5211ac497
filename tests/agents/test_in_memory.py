"""What the agent in memory says is what the real one says: the same events, keys and types."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from osmef.agent.messages import OutputEnded, parse_event
from tests.agents.lab import Agent, Event, StartAgent, closed_port, job
from tests.memory.agent import Agent as MemoryAgent
from tests.memory.agent import Agents as MemoryAgents
from tests.memory.model import Path as Link
from tests.memory.network import LOOPBACK, Network, now_ns

Keys = dict[str, object]
Shape = dict[str, set[str]]
"""The types that stand at each place of events, by the keys on the way there."""

# What a kernel or a machine may not tell, or only sometimes: the other one may say null there.
UNTOLD = (
    *("cpu_wait_s", "steal_s", "guest_s", "mptcp", "receive_rtt_us", "rttvar_us", "max_rss_kb"),
    *("dropped", "quota"),
)

ENDED = ("result", "error")


class Talker(Protocol):
    """An agent, real or not."""

    def command(self, cmd: str, **keys: object) -> None: ...
    def event(self) -> Event: ...


@dataclass(frozen=True)
class Here:
    """The place of an agent in memory."""

    name: str = "here"
    address: str = LOOPBACK

    def clock_ns(self) -> tuple[int, int]:
        return now_ns()


@dataclass
class Spoken:
    """An agent in memory; nothing of what it says may be outside the protocol."""

    network: Network
    place: Here
    said: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.agent = MemoryAgent(self.place, self.network, self._say)

    def _say(self, line: str) -> None:
        assert not isinstance(parse_event(line), OutputEnded), line
        self.said.append(json.loads(line))

    def command(self, cmd: str, **keys: object) -> None:
        self.agent.obey(json.dumps({"cmd": cmd, **keys}), lambda _name, _command: None)

    def event(self) -> Event:
        return self.said.pop(0)


@dataclass(frozen=True)
class Crowd:
    """Agents in memory on one connection, and what they have said."""

    agents: MemoryAgents
    said: list[Event]

    def command(self, cmd: str, **keys: object) -> None:
        self.agents.obey(json.dumps({"cmd": cmd, **keys}), lambda _name, _command: None)

    def event(self) -> Event:
        return self.said.pop(0)


Start = Callable[[], Agent | Spoken]


@pytest.fixture
def spoken() -> Start:
    network, here = Network(lambda _one, _other: Link(1e9, 100.0)), Here()
    return lambda: Spoken(network, here)


def type_of(value: object) -> str:
    names = {bool: "flag", int: "whole", float: "number", str: "text", type(None): "null"}
    return names[type(value)]


def shape_of(events: list[Event]) -> Shape:
    found: Shape = defaultdict(set)

    def note(value: Any, where: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                note(inner, f"{where}.{key}")
            return
        if isinstance(value, list):
            for inner in value:
                note(inner, f"{where}[]")
            return
        found[where].add(type_of(value))

    for event in events:
        note(event, f"{event['event']} {event.get('role', '')}")
    return found


def differences(real: Shape, memory: Shape) -> list[str]:
    """Return where the one says what the other does not, or in another type."""
    found = [f"{where} is only real" for where in sorted(real.keys() - memory.keys())]
    found += [f"{where} is only in memory" for where in sorted(memory.keys() - real.keys())]
    for where in sorted(real.keys() & memory.keys()):
        here, there = memory[where], real[where]
        if where.rpartition(".")[2].removesuffix("[]") in UNTOLD and "null" in here | there:
            continue
        # A number that happens to be whole is one, too.
        fits = here <= there | ({"whole"} if "number" in there else set())
        if not fits or ("null" in there) != ("null" in here):
            found.append(f"{where} is {sorted(there)}, in memory {sorted(here)}")
    return found


def ending(agent: Talker) -> list[Event]:
    events = [agent.event()]
    while events[-1]["event"] not in ENDED:
        events.append(agent.event())
    return events


Said = list[list[Event]]
"""What each agent of a conversation has said."""


def two_ends(start: Start, kind: str, **keys: object) -> Said:
    """Let two agents do a job."""
    listening, connecting = start(), start()
    wanted = job(**keys)
    listening.command(kind, side="listen", bind=LOOPBACK, port=0, **wanted)
    first = listening.event()
    connecting.command(kind, side="connect", host=LOOPBACK, port=first["port"], **wanted)
    second = connecting.event()
    third = listening.event()
    connecting.command("start", id="job-1")
    return [[first, third, *ending(listening)], [second, *ending(connecting)]]


def http(start: Start, *, relay: bool, **keys: object) -> Said:
    """Let siege ask pong, through ping or not."""
    pong, ping, siege = start(), start(), start()
    pong.command("pong", id="job-1", bind=LOOPBACK, port=0)
    told = [[pong.event()], [], []]
    port = told[0][0]["port"]
    if relay:
        ping.command("ping", id="job-1", bind=LOOPBACK, listen_port=0, host=LOOPBACK, port=port)
        told[1].append(ping.event())
        port = told[1][0]["port"]
    path = "/mping/{size}" if relay else "/pong/{size}"
    siege.command("siege", id="job-1", host=LOOPBACK, port=port, path=path, **keys)
    told[2].append(siege.event())
    siege.command("start", id="job-1")
    told[2] += ending(siege)
    for number, agent in ((1, ping), (0, pong)):
        if told[number]:
            agent.command("stop", id="job-1")
            told[number] += ending(agent)
    return [said for said in told if said]


def test_the_bytes_carried_by_interfaces_are_reported(start: StartAgent, spoken: Start) -> None:
    said = []
    for agent in (start(), spoken()):
        agent.command("carried")
        said.append(shape_of([agent.event()]))
    assert differences(*said) == []


SMALL = {"max_size": 100, "point_s": 0.01, "duration_s": 60}
JOBS: dict[str, tuple[str, Keys]] = {
    "bulk": ("bulk", {"connections": 2}),
    "bulk back": ("bulk", {"direction": "reverse"}),
    "bulk on threads": ("bulk", {"connections": 3, "threads": 2, "cpus": "0"}),
    "bulk of bytes": ("bulk", {"bytes": 100_000}),
    "bulk after a warm-up": ("bulk", {"warmup_s": 0.2}),
    "bulk with pauses": ("bulk", {"active_s": 0.05, "idle_s": 0.05}),
    "bulk without copies": ("bulk", {"mode": "zerocopy-discard"}),
    "udp": ("udp", {"connections": 2, "rate_bps": 1e6, "warmup_s": 0.1}),
    "udp back": ("udp", {"rate_bps": 1e6, "direction": "reverse"}),
    "exchange": ("exchange", {"interval_s": None}),
    "exchange at a rate": ("exchange", {"rate_per_s": 100, "interval_s": None}),
    **{
        f"exchange by {protocol}": (
            "exchange",
            {"protocol": protocol, "request_size": 16, "response_size": 16, "interval_s": None},
        )
        for protocol in ("tcp-connect", "udp", "icmp")
    },
    "sizes": ("sizes", {**SMALL, "max_size": 1000}),
    "sizes of a stream": ("sizes", {**SMALL, "mode": "stream"}),
    "sizes both ways": ("sizes", {**SMALL, "mode": "both", "check": True}),
}


def compare(real: Said, memory: Said) -> None:
    for ours, theirs in zip(memory, real, strict=True):
        assert differences(shape_of(theirs), shape_of(ours)) == []
        assert {event["event"] for event in theirs} == {event["event"] for event in ours}
        assert {event["id"] for event in ours} == {"job-1"}


@pytest.mark.parametrize("name", JOBS)
def test_both_ends_of_a_job(start: StartAgent, spoken: Start, name: str) -> None:
    kind, keys = JOBS[name]
    real, memory = (two_ends(one, kind, **keys) for one in (start, spoken))
    compare(real, memory)
    for ours, theirs in zip(memory, real, strict=True):
        sizes, warmups = zip(*(shown(said) for said in (ours, theirs)), strict=True)
        assert sizes[0] == sizes[1]
        # A busy machine may tell two intervals as one.
        assert set(warmups[0]) == set(warmups[1])


def shown(said: list[Event]) -> tuple[list[object], list[object]]:
    """Return the sizes of all points, and which intervals are of the warm-up."""
    points = [one["size"] for one in said if one["event"] == "point"]
    return points, [one.get("warmup") for one in said if one["event"] == "interval"]


@pytest.mark.parametrize("relay", [True, False])
@pytest.mark.parametrize(
    "keys",
    [
        {"sizes": "10,2000", "repetitions": 20},
        {"size_max": 1000, "coverage": 0.05, "seed": 5, "repetitions": 3, "connections": 2},
        {"sizes": "5", "repetitions": 10, "rate_per_s": 1000},
    ],
)
def test_http_in_memory_is_as_over_sockets(
    start: StartAgent, spoken: Start, relay: bool, keys: Keys
) -> None:
    real, memory = (http(one, relay=relay, **keys) for one in (start, spoken))
    compare(real, memory)
    sizes = [
        [size for event in said[-1] if event["event"] == "requests" for size in event["size"]]
        for said in (real, memory)
    ]
    assert sizes[0] == sizes[1]
    assert sizes[0]


def refused(start: Start) -> Said:
    agent = start()
    agent.command("bulk", side="connect", host=LOOPBACK, port=closed_port(), **job())
    return [ending(agent)]


def strange(start: Start) -> Said:
    listening, connecting = start(), start()
    listening.command("bulk", side="listen", bind=LOOPBACK, port=0, **job())
    keys = job(cookie="ff" * 16)
    port = listening.event()["port"]
    connecting.command("bulk", side="connect", host=LOOPBACK, port=port, **keys)
    return [ending(connecting)]


def taken(start: Start) -> Said:
    one, other = start(), start()
    one.command("bulk", side="listen", bind=LOOPBACK, port=0, **job())
    port = one.event()["port"]
    other.command("bulk", side="listen", bind=LOOPBACK, port=port, **job())
    return [ending(other)]


def elsewhere(start: Start) -> Said:
    agent = start()
    agent.command("pong", id="job-1", bind="192.0.2.1", port=0)
    return [ending(agent)]


def aborted(start: Start) -> Said:
    """Abort the end that connects, and hear what the other one sees of it."""
    listening, connecting = start(), start()
    listening.command("exchange", side="listen", bind=LOOPBACK, port=0, **job())
    port = listening.event()["port"]
    connecting.command("exchange", side="connect", host=LOOPBACK, port=port, **job())
    for agent in (connecting, listening):
        agent.event()
    connecting.command("abort", id="job-1")
    return [ending(connecting), ending(listening)]


@pytest.mark.parametrize("what", [refused, strange, taken, elsewhere, aborted])
def test_errors_in_memory_are_those_over_sockets(
    start: StartAgent, spoken: Start, what: Callable[[Start], Said]
) -> None:
    real, memory = what(start), what(spoken)
    compare(real, memory)
    kinds = [[said[-1].get("kind") for said in one] for one in (real, memory)]
    assert kinds[0] == kinds[1]


def small_talk(start: Start) -> list[Event]:
    """Say what makes no sense to an agent, and what always does."""
    agent = start()
    said = []
    words: list[tuple[str, Keys]] = [
        ("clock", {}),
        ("dance", {}),
        ("interface", {"address": LOOPBACK}),
        ("start", {"id": "job-9"}),
        ("pong", {"id": "job-1", "bind": LOOPBACK, "port": 0}),
        ("pong", {"id": "job-2", "bind": LOOPBACK, "port": 0}),
        ("write", {"id": "job-1", "text": "no program hears this"}),
        ("stop", {"id": "job-1"}),
    ]
    for cmd, keys in words:
        agent.command(cmd, **keys)
        said.append(agent.event())
    agent.command("stop", id="job-1")  # its job has just ended: that is no mistake
    agent.command("clock")
    return [*said, agent.event()]


def crowd(agent: Talker) -> list[Event]:
    """Have agents under one, of which one is killed, and say what makes no sense there."""
    said = []
    agent.command("open", agent=1)
    agent.command("open", agent=4)
    for number, cmd in ((1, "carried"), (4, "clock"), (7, "clock"), (4, "dance")):
        agent.command(cmd, agent=number)
        said.append(agent.event())
    return said


def test_many_agents_on_one_connection(binary: Path) -> None:
    said: list[Event] = []
    network = Network(lambda _one, _other: Link(1e9, 100.0))
    memory = MemoryAgents(Here(), network, lambda line: said.append(json.loads(line)))
    memory.begin("memory", 1)
    talker = Crowd(memory, said)
    with Agent(binary, many=True) as real:
        told = [[real.hello, *crowd(real)], [talker.event(), *crowd(talker)]]
    assert differences(*map(shape_of, told)) == []
    assert [[one.get("agent") for one in who] for who in told] == [[None, 1, 4, None, 4]] * 2
    assert told[0][3]["message"] == told[1][3]["message"]


def test_events_outside_of_jobs_are_those_of_a_real_agent(start: StartAgent, spoken: Start) -> None:
    real, memory = small_talk(start), small_talk(spoken)
    assert differences(shape_of(real), shape_of(memory)) == []
    told = [[(one["event"], one.get("id")) for one in said] for said in (real, memory)]
    assert told[0] == told[1]
    messages = [[one.get("message") for one in said] for said in (real, memory)]
    assert messages[0] == messages[1]
