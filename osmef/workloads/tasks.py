"""The steps of all parts of all pairs, each with an agent of its own, and how they are armed."""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from osmef.agent.client import AgentClient
from osmef.agent.messages import IntervalEvent, JobResult, PointEvent, RequestsEvent
from osmef.results.trial import Interval
from osmef.workloads.base import End, Part, Step, Value

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # pyarrow is slow to load

ARM_TIMEOUT_S = 15.0
STALL_TIMEOUT_S = 10.0


# How long the agents let the flows drain after their end, as docs/agent-protocol.md says.
DRAIN_TIMEOUT_S = 60.0
# The agent keeps every deadline by itself; this is for an agent that does not.
GRACE_S = 20.0
_MOST_POINTS = 10_000


class Host(Protocol):
    """An endpoint on which agents can be started."""

    @property
    def name(self) -> str:
        """The endpoint's name."""

    def agent(self, role: str) -> AgentClient:
        """Return a living, idle agent for a role. Raises ReachError or AgentError."""

    def data_ports(self, count: int) -> int:
        """Return the first of so many data ports that no other job of the trial is told there."""


@dataclass(frozen=True)
class Pair:
    """A sender and a receiver, and the address at which each is measured from the other one.

    Each listens at that address, too, unless a translation of addresses between them makes it
    another one of its own (``sender_bind``, ``receiver_bind``).
    """

    sender: Host
    receiver: Host
    sender_address: str
    receiver_address: str
    sender_bind: str | None = None
    receiver_bind: str | None = None


@dataclass(eq=False)
class Task:
    """One step of one part of one pair, at work in an agent of its own."""

    id: str
    pair: Pair
    part: Part
    step: Step
    cookie: str
    agent: AgentClient
    port: int | None = None
    refused_ports: int = 0
    connected: bool = False
    started: bool = False
    ended: bool = False
    result: JobResult | None = None
    rate_bps: float = 0.0
    intervals: list[Interval] = field(default_factory=list)
    points: list[PointEvent] = field(default_factory=list)
    requests: list[RecordBatch] = field(default_factory=list)
    requests_told: int = 0

    def admits(self, event: IntervalEvent | PointEvent | RequestsEvent) -> bool:
        """Tell whether a job such as this one may tell that, after all that it has told."""
        match event:
            case IntervalEvent():
                flows = len(event.bytes)
                return flows <= self._flows and len(self.intervals) + flows <= self._most_intervals
            case PointEvent():
                return len(event.time_min_us) <= self._flows and len(self.points) < _MOST_POINTS
            case RequestsEvent():
                return self.requests_told + len(event.size) <= self.step.requests

    @property
    def _flows(self) -> int:
        return int(self.step.parameters.get("flows", 1))

    @property
    def _most_intervals(self) -> int:
        interval_s = float(self.step.parameters.get("interval_s", 1.0))
        each = math.ceil(patience_s(self.part) / interval_s) + 1
        return 2 * self._flows * each  # an end that sends and receives tells of both

    @property
    def host(self) -> Host:
        """The endpoint at which it runs."""
        return self.pair.sender if self.step.end == "sender" else self.pair.receiver

    @property
    def peer(self) -> Host:
        """The endpoint at the other end."""
        return self.pair.receiver if self.step.end == "sender" else self.pair.sender

    @property
    def starts(self) -> bool:
        """Whether it is the one of its part that gets the start."""
        return self.step is self.part.steps[-1]


def patience_s(part: Part) -> float:
    """Return how long after the common start the results of a part are waited for."""
    if part.deadline_s is not None:
        return part.delay_s + part.deadline_s
    return part.delay_s + part.duration_s + DRAIN_TIMEOUT_S + STALL_TIMEOUT_S + GRACE_S


def make_tasks(trial: int, pairs: Sequence[Pair], parts: Sequence[Part]) -> list[list[list[Task]]]:
    """Give every step of every part of every pair an agent: lists of pairs, parts and steps."""
    used: Counter[str] = Counter()

    def task(pair: Pair, part: Part, step: Step, cookie: str, name: str) -> Task:
        host = pair.sender if step.end == "sender" else pair.receiver
        agent = host.agent(f"job-{used[host.name]}")
        used[host.name] += 1
        return Task(f"{trial}.{name}", pair, part, step, cookie, agent)

    def group(number: int, pair: Pair, place: int, part: Part) -> list[Task]:
        cookie = secrets.token_hex(16)
        return [
            task(pair, part, step, cookie, f"{number}.{place}.{at}")
            for at, step in enumerate(part.steps)
        ]

    return [
        [group(number, pair, place, part) for place, part in enumerate(parts)]
        for number, pair in enumerate(pairs)
    ]


def _address(pair: Pair, end: End) -> str:
    return pair.sender_address if end == "sender" else pair.receiver_address


def _bind(pair: Pair, end: End) -> str:
    bind = pair.sender_bind if end == "sender" else pair.receiver_bind
    return bind or _address(pair, end)


def command_of(task: Task, upstream: Task | None) -> dict[str, Value]:
    """Return the command that arms a step; a listener may have one before it that it connects to.

    Its own port is the ``listen_port`` then.
    """
    command: dict[str, Value] = {
        "cmd": task.step.command,
        "id": task.id,
        "side": "listen" if task.step.listens else "connect",
        "cookie": task.cookie,
        # It waits for its start through the delay.
        "arm_timeout_s": ARM_TIMEOUT_S + task.part.delay_s,
        "stall_timeout_s": STALL_TIMEOUT_S,
        **task.step.parameters,
    }
    if task.step.listens:
        own_port = "port" if upstream is None else "listen_port"
        command |= {"bind": _bind(task.pair, task.step.end), own_port: task.host.data_ports(1)}
    if task.step.udp_ports:
        command["udp_port"] = task.host.data_ports(task.step.udp_ports)
    if upstream is not None and upstream.port is not None:
        command |= {"host": _address(task.pair, upstream.step.end), "port": upstream.port}
    return command
