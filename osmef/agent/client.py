"""The agent on an endpoint: its deployment, and conversations with it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from osmef.agent.messages import (
    PROTOCOL,
    CarriedEvent,
    ClockReport,
    Event,
    Hello,
    Interface,
    Interfaces,
    OutputEnded,
    ProcessExit,
    agent_of,
    parse_event,
)
from osmef.errors import AgentError, ReachError
from osmef.remote.login import SLOW_SHELL_CURE

if TYPE_CHECKING:
    from osmef.remote.session import RemoteProcess, SshSession

AGENT = "osmef-agent"
"""The agent's name on an endpoint."""

_BINARIES = Path(__file__).parent / "bin"
# What `uname -m` says on systems that run another architecture's programs just as well.
_SAME_AS = {"amd64": "x86_64", "arm64": "aarch64", "armv8l": "armv7l"}


@dataclass(frozen=True)
class Binary:
    """The agent's binary: its content and its SHA-256."""

    machine: str
    data: bytes
    sha256: str


@dataclass(frozen=True)
class Deployment:
    """An agent on an endpoint; paths are relative to the login's home."""

    directory: str
    path: str
    binary: Binary


@cache
def find_binary(machine: str) -> Binary:
    """Return the agent for an architecture as ``uname -m`` names it. Raises AgentError."""
    machine = _SAME_AS.get(machine, machine)
    path = _BINARIES / f"{AGENT}-{machine}"
    try:
        data = path.read_bytes()
    except OSError:
        have = sorted(p.name.removeprefix(f"{AGENT}-") for p in _BINARIES.glob(f"{AGENT}-*"))
        raise AgentError(
            f"no agent for {machine!r} is installed, only for: {', '.join(have) or 'none'}",
            cure="install OSMeF from a wheel, or build all agents in its source tree: make agents",
        ) from None
    return Binary(machine, data, hashlib.sha256(data).hexdigest())


def deploy(session: SshSession, directory: str) -> Deployment:
    """Push the agent into a directory of its own and read it back to check its hash.

    Raises AgentError or ReachError.

    The endpoint needs nothing but ``uname``, a home and sshd's file transfer. After an error
    nothing stays there, as far as it can still be reached.
    """
    binary = find_binary(session.word(["uname", "-m"]))
    path = f"{directory}/{AGENT}"
    try:
        session.put(binary.data, path, 0o700)
        _check(session, path, binary)
    except BaseException:
        with contextlib.suppress(ReachError):
            session.remove_directory(directory)
        raise
    return Deployment(directory, path, binary)


def _check(session: SshSession, path: str, binary: Binary) -> None:
    found = hashlib.sha256(session.read(path, len(binary.data) + 1)).hexdigest()
    if found != binary.sha256:
        raise AgentError(
            f"the pushed agent has the hash {found}, not {binary.sha256}",
            where=session.name,
            cure="is the endpoint's disk full or failing?",
        )


T = TypeVar("T", ClockReport, Interface, CarriedEvent)

ANSWER_S = 15.0
"""How long an agent that is idle may take to answer, or to end."""
EXIT_STATUS_S = 1.0
"""How long the reason of an agent's end may take after its end was felt."""
_NOT_RUN = "exit status 126"
"""A shell's exit status for a program that exists but can't be executed (POSIX)."""
_NOT_FOUND = "exit status 127"
"""A shell's exit status for a program that does not exist (POSIX)."""
_CLOCK_EXCHANGES = 5


@dataclass(frozen=True)
class ClockOffset:
    """Endpoint's clocks minus the controller's, in seconds, and how far that may be off.

    ``offset_s`` is of the real-time clock, ``monotonic_s`` of CLOCK_MONOTONIC.
    """

    offset_s: float
    monotonic_s: float
    uncertainty_s: float


_MOST_WAITING_BYTES = 8_000_000
"""Largest amount of an agent's unread output; the agent blocks until it is read."""
_FULL_POLL_S = 0.02


class Inbox:
    """Queue of events from several agents, in order of arrival, with a bound for each agent."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[tuple[AgentClient, Event, int]] = queue.SimpleQueue()
        self._waiting: Counter[AgentClient] = Counter()
        self._lock = threading.Lock()

    def put(self, agent: AgentClient, event: Event, size: int) -> None:
        """Enqueue an event, with its size in characters."""
        with self._lock:
            self._waiting[agent] += size
        self._events.put((agent, event, size))

    def get(self, timeout_s: float) -> tuple[AgentClient, Event]:
        """Dequeue the next event. Raises queue.Empty on timeout."""
        agent, event, size = self._events.get(timeout=timeout_s)
        with self._lock:
            self._waiting[agent] -= size
        return agent, event

    def is_full_of(self, agent: AgentClient) -> bool:
        """Return whether an agent has reached its bound, so that its reader has to wait."""
        return self._waiting[agent] > _MOST_WAITING_BYTES


class AgentClient:
    """Client of one agent. Its events go to ``inbox``, which a trial shares between all agents."""

    def __init__(self, number: int, agents: Agents) -> None:
        self.name = agents.name
        self.agents = agents
        self.inbox = Inbox()
        self.gone: str | None = None
        self._number = number

    def send(self, command: Mapping[str, str | int | float | bool | Sequence[str]]) -> None:
        """Send one command. Raises AgentError when the agent is gone."""
        if self.gone is not None:
            raise self.lost_error(self.gone)
        try:
            self.agents.send({"agent": self._number, **command})
        except ReachError as error:
            raise self.lost_error(self.gone or error.message) from error

    def wait_for(self, wanted: type[T], timeout_s: float) -> T:
        """Wait for one kind of event while no job runs. Raises AgentError.

        An agent that stays silent is ended, with all agents of its connection.
        """
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                _, event = self.inbox.get(left)
            except queue.Empty:
                break
            if isinstance(event, OutputEnded):
                raise self.lost_error(event.reason)
            if isinstance(event, wanted):
                return event
        self.close()
        name = wanted.__name__.removesuffix("Event").removesuffix("Report").lower()
        raise self.lost_error(f"no {name} within {timeout_s:g} s")

    def clock_offset(self, answer_s: float = ANSWER_S) -> ClockOffset:
        """Estimate the clock offset as NTP does: by the exchange with the least delay (RFC 5905).

        Only while no job runs. Each answer is waited for ``answer_s`` seconds. Raises AgentError.
        """
        best = ClockOffset(0.0, 0.0, float("inf"))
        for _ in range(_CLOCK_EXCHANGES):
            before, started = time.time(), time.monotonic()
            self.send({"cmd": "clock"})
            clock = self.wait_for(ClockReport, answer_s)
            half = (time.monotonic() - started) / 2
            if half < best.uncertainty_s:
                best = ClockOffset(
                    clock.realtime_ns / 1e9 - (before + half),
                    clock.monotonic_ns / 1e9 - (started + half),
                    half,
                )
        return best

    def interface_of(self, address: str, answer_s: float = ANSWER_S) -> str | None:
        """Return the network interface with a numeric address, None where there is none.

        Only while no job runs. Raises AgentError.
        """
        self.send({"cmd": "interface", "address": address})
        return self.wait_for(Interface, answer_s).name

    def carried(self, answer_s: float = ANSWER_S) -> Interfaces:
        """Return the counters of each network interface, since it exists.

        Only while no job runs. Raises AgentError.
        """
        self.send({"cmd": "carried"})
        return self.wait_for(CarriedEvent, answer_s).interfaces

    def take(self, event: Event, size: int) -> None:
        """Enqueue one of its events, with its size in characters; blocks if the queue is full."""
        if isinstance(event, OutputEnded):
            self.gone = event.reason
        self.inbox.put(self, event, size)
        while self.inbox.is_full_of(self) and not self.agents.closed.wait(_FULL_POLL_S):
            pass

    def lost_error(self, reason: str) -> AgentError:
        """Return the error of a lost agent."""
        return _lost(self.name, reason)

    def close(self) -> None:
        """End it, and all agents of its connection, which exit at the end of standard input."""
        self.agents.close()


class Agents:
    """The agents of one connection: a process each, multiplexed by one program on the endpoint.

    ``gone`` is why there are none any more.
    """

    def __init__(self, name: str, process: RemoteProcess) -> None:
        self.name = name
        self.gone: str | None = None
        self.closed = threading.Event()
        self._process = process
        self._first: queue.SimpleQueue[Hello | OutputEnded] = queue.SimpleQueue()
        self._agents: dict[int, AgentClient] = {}
        self._opened = 0
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name=f"agents-{name}", daemon=True)
        self._reader.start()

    @classmethod
    def start(
        cls,
        session: SshSession,
        deployment: Deployment,
        hello_s: float = ANSWER_S,
        prefix: Sequence[str] = (),
    ) -> Self:
        """Start the multiplexing program, and check its protocol version.

        Its greeting is awaited for ``hello_s`` seconds; ``prefix`` is put before its command line.
        Raises AgentError, ReachError.
        """
        argv = [*prefix, f"./{deployment.path}", "serve", "--many"]
        agents = cls(session.name, session.start(argv))
        try:
            agents._handshake(hello_s)
        except BaseException:
            agents.close()
            raise
        return agents

    def open(self) -> AgentClient:
        """Return a new, idle agent. Raises AgentError when the connection is gone."""
        with self._lock:
            self._opened += 1
            agent = self._agents[self._opened] = AgentClient(self._opened, self)
            agent.gone = self.gone
        agent.send({"cmd": "open"})
        return agent

    def send(self, command: Mapping[str, str | int | float | bool | Sequence[str]]) -> None:
        """Send one command, addressed to an agent. Raises ReachError if the connection is lost."""
        line = json.dumps(command)
        try:
            with self._lock:
                self._process.send_line(line)
        except ReachError:
            self._reader.join(EXIT_STATUS_S)  # the reader thread may just be receiving the reason
            raise

    def close(self) -> None:
        """End all agents. Never raises."""
        self.closed.set()
        self._process.close()
        self._reader.join(timeout=ANSWER_S)
        self._end("it was ended")

    def _handshake(self, hello_s: float) -> None:
        try:
            first = self._first.get(timeout=hello_s)
        except queue.Empty:
            silent = _lost(self.name, f"no hello within {hello_s:g} s")
            silent.cure = SLOW_SHELL_CURE  # it may not even have been started
            raise silent from None
        if isinstance(first, OutputEnded):
            raise _lost(self.name, first.reason)
        if first.protocol != PROTOCOL:
            raise AgentError(
                f"the agent speaks protocol {first.protocol}, the controller {PROTOCOL}",
                where=self.name,
                cure="use the agent that belongs to this version of osmef",
            )

    def _read(self) -> None:
        while self.gone is None:
            line = self._process.read_line()
            event = (
                OutputEnded(reason=self._process.exit_text()) if line is None else parse_event(line)
            )
            if isinstance(event, OutputEnded):
                self._end(event.reason)
            elif line is not None:
                self._pass_on(line, event)

    def _pass_on(self, line: str, event: Event) -> None:
        """Dispatch an event to the agent that it names; the first one names none."""
        number = self._number_in(line)
        if number is None and isinstance(event, Hello):
            self._first.put(event)
        elif number is None or number > self._opened:
            self._end(f"it violated the protocol: {line[:200]!r}")
        elif (agent := self._agents.get(number)) is not None:
            if isinstance(event, ProcessExit):
                del self._agents[number]
                event = OutputEnded(reason=f"{event.how}{self._process.recent_stderr()}")
            agent.take(event, len(line))

    def _number_in(self, line: str) -> int | None:
        return agent_of(line)

    def _end(self, reason: str) -> None:
        """Notify every agent that the connection has ended."""
        with self._lock:
            self.gone = self.gone or reason
            agents, self._agents = self._agents, {}
        self._first.put(OutputEnded(reason=reason))
        for agent in agents.values():
            agent.take(OutputEnded(reason=reason), 0)


def _lost(name: str, reason: str) -> AgentError:
    cure = "look at the endpoint: memory, kernel log, and whether it is still up"
    if reason.startswith(_NOT_RUN):
        cure = "let programs run from the login's home there: it may be mounted noexec"
    if reason.startswith(_NOT_FOUND):
        cure = (
            "let programs start where sftp puts files, in the login's home: the shell's start"
            " files (~/.bashrc) must not change the directory"
        )
    return AgentError(f"the agent is gone: {reason}", where=name, cure=cure)
