"""A conversation with one agent process on an endpoint."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from osmef.agent.deploy import Deployment
from osmef.agent.messages import (
    PROTOCOL,
    CarriedEvent,
    Clock,
    Event,
    Gone,
    Hello,
    Interface,
    Interfaces,
    parse_event,
)
from osmef.errors import AgentError, ReachError
from osmef.remote.login import SLOW_SHELL_CURE

if TYPE_CHECKING:  # paramiko takes long to import, and `osmef validate` knows workloads, too
    from osmef.remote.session import RemoteProcess, Session

T = TypeVar("T", Hello, Clock, Interface, CarriedEvent)

ANSWER_S = 15.0
"""How long an agent that is idle may take to answer, or to end."""
EXIT_STATUS_S = 1.0
"""How long the reason of an agent's end may take after its end was felt."""
_NOT_RUN = "exit status 126"
"""What a shell says of a program that is there and can't be run (POSIX)."""
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
"""Of what an agent has said and nothing has taken yet; it can't say more before that."""
_FULL_POLL_S = 0.02


class Inbox:
    """What agents say, in its order. It tells when too much of one agent's waits in it."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[tuple[AgentClient, Event, int]] = queue.SimpleQueue()
        self._waiting: Counter[AgentClient] = Counter()
        self._lock = threading.Lock()

    def put(self, agent: AgentClient, event: Event, size: int) -> None:
        """Add an event that an agent told in so many characters."""
        with self._lock:
            self._waiting[agent] += size
        self._events.put((agent, event, size))

    def get(self, timeout_s: float) -> tuple[AgentClient, Event]:
        """Take the next event. Raises queue.Empty where none comes in time."""
        agent, event, size = self._events.get(timeout=timeout_s)
        with self._lock:
            self._waiting[agent] -= size
        return agent, event

    def is_full_of(self, agent: AgentClient) -> bool:
        """Tell whether so much of an agent's waits that it has to wait, too."""
        return self._waiting[agent] > _MOST_WAITING_BYTES


class AgentClient:
    """One agent process. Its events go to ``inbox``, which a trial shares between all agents."""

    def __init__(self, name: str, process: RemoteProcess) -> None:
        self.name = name
        self.inbox = Inbox()
        self.gone: str | None = None
        self._closed = threading.Event()
        self._process = process
        self._reader = threading.Thread(target=self._read, name=f"agent-{name}", daemon=True)
        self._reader.start()

    @classmethod
    def start(
        cls,
        session: Session,
        deployment: Deployment,
        hello_s: float = ANSWER_S,
        prefix: Sequence[str] = (),
    ) -> AgentClient:
        """Start an agent and check that it speaks our protocol.

        Its first words are waited for ``hello_s`` seconds; ``prefix`` stands before its command
        line. Raises AgentError, ReachError.
        """
        client = cls(session.name, session.start([*prefix, f"./{deployment.path}", "serve"]))
        try:
            hello = client.expect(Hello, hello_s)
            if hello.protocol != PROTOCOL:
                raise AgentError(
                    f"the agent speaks protocol {hello.protocol}, the controller {PROTOCOL}",
                    where=session.name,
                    cure="use the agent that belongs to this version of osmef",
                )
        except BaseException:
            client.close()
            raise
        return client

    def send(self, command: Mapping[str, str | int | float | bool | Sequence[str]]) -> None:
        """Send one command. Raises AgentError when the agent is gone."""
        if self.gone is not None:
            raise self.lost(self.gone)
        try:
            self._process.send_line(json.dumps(dict(command)))
        except ReachError as error:
            self._reader.join(EXIT_STATUS_S)  # who reads may just be learning why
            raise self.lost(self.gone or error.message) from error

    def expect(self, wanted: type[T], timeout_s: float) -> T:
        """Wait for one kind of event while no job runs. Raises AgentError.

        An agent that stays silent is ended.
        """
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                _, event = self.inbox.get(left)
            except queue.Empty:
                break
            if isinstance(event, Gone):
                raise self.lost(event.reason)
            if isinstance(event, wanted):
                return event
        self.close()
        silent = self.lost(f"no {wanted.__name__.lower()} within {timeout_s:g} s")
        if wanted is Hello:  # it may not even have been started
            silent.cure = SLOW_SHELL_CURE
        raise silent

    def clock_offset(self, answer_s: float = ANSWER_S) -> ClockOffset:
        """Compare clocks as NTP does: of several exchanges the quickest tells most (RFC 5905).

        Only while no job runs. Each answer is waited for ``answer_s`` seconds. Raises AgentError.
        """
        best = ClockOffset(0.0, 0.0, float("inf"))
        for _ in range(_CLOCK_EXCHANGES):
            before, started = time.time(), time.monotonic()
            self.send({"cmd": "clock"})
            clock = self.expect(Clock, answer_s)
            half = (time.monotonic() - started) / 2
            if half < best.uncertainty_s:
                best = ClockOffset(
                    clock.realtime_ns / 1e9 - (before + half),
                    clock.monotonic_ns / 1e9 - (started + half),
                    half,
                )
        return best

    def interface_of(self, address: str, answer_s: float = ANSWER_S) -> str | None:
        """Return the network interface that has a numeric address there, None where none has it.

        Only while no job runs. Raises AgentError.
        """
        self.send({"cmd": "interface", "address": address})
        return self.expect(Interface, answer_s).name

    def carried(self, answer_s: float = ANSWER_S) -> Interfaces:
        """Return what has gone through each network interface since it is there.

        Only while no job runs. Raises AgentError.
        """
        self.send({"cmd": "carried"})
        return self.expect(CarriedEvent, answer_s).interfaces

    def lost(self, reason: str) -> AgentError:
        """Return the error that says that this agent is gone."""
        cure = "look at the endpoint: memory, kernel log, and whether it is still up"
        if reason.startswith(_NOT_RUN):
            cure = "let programs run from the login's home there: it may be mounted noexec"
        return AgentError(f"the agent is gone: {reason}", where=self.name, cure=cure)

    def close(self) -> None:
        """End the agent: it exits when its standard input does."""
        self._closed.set()
        self._process.close()
        self._reader.join(timeout=ANSWER_S)

    def _read(self) -> None:
        while self.gone is None:
            line = self._process.read_line()
            event = Gone(reason=self._process.ending()) if line is None else parse_event(line)
            if isinstance(event, Gone):
                self.gone = event.reason
            self.inbox.put(self, event, len(line or ""))
            while self.inbox.is_full_of(self) and not self._closed.wait(_FULL_POLL_S):
                pass
