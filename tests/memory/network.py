"""The network in memory: who listens where, which jobs are connected, and how they end.

A transfer takes no time. Once all jobs of a trial that are connected have been started, each tells
at once what it would have told in the end.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.memory import exchanges, http, transfers
from tests.memory.model import Event, Path
from tests.memory.work import Run

LOOPBACK = "127.0.0.1"
_FIRST_FREE = 40000
_TELL: dict[str, Callable[[Run], list[Event]]] = {
    "bulk": transfers.bulk,
    "udp": transfers.udp,
    "exchange": exchanges.exchange,
    "sizes": exchanges.sizes,
    "siege": http.siege,
}
_LOADS = ("bulk", "udp")


class Place(Protocol):
    """An endpoint as the network sees it."""

    @property
    def name(self) -> str:
        """The endpoint's name."""

    @property
    def address(self) -> str:
        """Its IPv4 address."""

    def clock_ns(self) -> tuple[int, int]:
        """Return what its real-time and its monotonic clock show."""


class Teller(Protocol):
    """The agent of a job."""

    @property
    def place(self) -> Place:
        """Where it runs."""

    def tell(self, job: TrialJob, event: Event) -> None:
        """Tell the controller an event of a job."""


@dataclass(eq=False)
class TrialJob:
    """A job of an agent; ``upstream`` is what it connects to, ``start_ns`` when it starts."""

    agent: Teller
    command: dict[str, Any]
    port: int | None = None
    upstream: TrialJob | None = None
    start_ns: int | None = None
    served: list[int] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The command's name."""
        return str(self.command["cmd"])

    @property
    def trial(self) -> int:
        """The number of its trial, with which a controller of ours begins a job's id."""
        number = str(self.command["id"]).partition(".")[0]
        return int(number) if number.isdecimal() else 0

    @property
    def key(self) -> tuple[object, int | None]:
        """Where it listens; each endpoint has a loopback of its own."""
        address = self.command["bind"]
        return (self.agent.place if address == LOOPBACK else address, self.port)

    @property
    def end_s(self) -> float:
        """How long it runs from its start, in seconds."""
        return float(self.command.get("warmup_s") or 0) + float(self.command["duration_s"])


PathOf = Callable[[Place, Place], Path]


class Network:
    """Joins the agents. Everything in it happens under ``lock``."""

    def __init__(self, path_of: PathOf) -> None:
        self.lock = threading.RLock()
        self.taken: set[tuple[str, int]] = set()
        """Addresses and ports that other programs hold."""
        self.carried: Counter[str] = Counter()
        """What the card of each endpoint has carried either way, in bytes."""
        self._path_of = path_of
        self._listening: dict[tuple[object, int | None], TrialJob] = {}
        self._connected: list[TrialJob] = []

    def listen(self, job: TrialJob) -> None:
        """Have a job listen, or fail."""
        address, port = str(job.command["bind"]), int(job.command.get(_own_port(job)) or 0)
        job.port = port or _FIRST_FREE + len(self._listening)
        if address not in {LOOPBACK, job.agent.place.address}:
            _fail(job, "bind", f"can't listen on {address} port {port}: Cannot assign")
        elif job.key in self._listening or (address, job.port) in self.taken:
            _fail(job, "bind", f"can't listen on {address} port {port}: Address already in use")
        else:
            self._listening[job.key] = job
            job.start_ns = job.agent.place.clock_ns()[0]
            job.agent.tell(job, {"event": "listening", "port": job.port})

    def connect(self, job: TrialJob) -> bool:
        """Connect a job to what listens; tell whether that has come about."""
        host, port = job.command["host"], job.command["port"]
        there = self._listening.get((job.agent.place if host == LOOPBACK else host, port))
        if there is None:
            why = f"connection refused: is `osmef-agent recv` running on {host}, port {port}?"
            _fail(job, "connect", why, 0)
        elif there.command.get("cookie") != job.command.get("cookie") and job.kind != "siege":
            _fail(job, "cookie", "the receiver did not admit the connection", 0)
        else:
            job.upstream = there
            return True
        return False

    def arm(self, job: TrialJob) -> None:
        """Connect a job that waits for its start then."""
        if self.connect(job) and job.upstream is not None:
            self._connected.append(job)
            if job.kind != "siege":
                del self._listening[job.upstream.key]
                job.upstream.agent.tell(job.upstream, {"event": "connected"})
            job.agent.tell(job, {"event": "connected"})

    def start(self, job: TrialJob, at_ns: int) -> None:
        """Start a job at a time of its monotonic clock; 0: now."""
        real_ns, steady_ns = job.agent.place.clock_ns()
        job.start_ns = real_ns + max(0, at_ns - steady_ns) if at_ns else real_ns
        together = [one for one in self._connected if one.trial == job.trial]
        if any(one.start_ns is None for one in together):
            return
        self._connected = [one for one in self._connected if one not in together]
        for one in together:
            self._finish(one, loaded=any(_loads(other, one) for other in together))

    def _finish(self, job: TrialJob, *, loaded: bool) -> None:
        """Have both ends of a job tell all, or the end of a siege."""
        there = job.upstream
        assert there is not None
        first = there if there.upstream is None else there.upstream
        paths = (
            self._path_of(job.agent.place, first.agent.place),
            self._path_of(first.agent.place, job.agent.place),
        )
        ends = [job] if job.kind == "siege" else [there, job]
        for end in ends:
            lag_ns = end.agent.place.clock_ns()[0] - job.agent.place.clock_ns()[0]
            run = Run(end.command, *paths, job.trial, (job.start_ns or 0) + lag_ns, loaded)
            for event in _TELL[job.kind](run):
                self.carried[end.agent.place.name] += sum(event.get("bytes") or [])
                end.agent.tell(end, event)
            if job.kind == "siege":
                lengths = [shot.length for shot in http.shots(run)]
                for server in (there, *filter(None, [there.upstream])):
                    server.served += lengths

    def stop(self, job: TrialJob) -> None:
        """End a server, which tells its result."""
        self._listening.pop(job.key, None)
        real_ns, _ = job.agent.place.clock_ns()
        began_ns = job.start_ns or real_ns
        none = self._path_of(job.agent.place, job.agent.place)
        run = Run(job.command, none, none, job.trial, began_ns, served=job.served)
        job.agent.tell(job, http.served(run, max(1, real_ns - began_ns) / 1e9))

    def leave(self, job: TrialJob) -> None:
        """Take a job away whose agent has ended, or was told to abort: its peer is reset."""
        if job.port is not None:
            self._listening.pop(job.key, None)
        for one in [one for one in self._connected if job in {one, one.upstream}]:
            self._connected.remove(one)
            other = one.upstream if one is job else one
            if one.kind != "siege" and other is not None:
                _fail(other, "reset", "the peer left before the start", 0)


def _own_port(job: TrialJob) -> str:
    return "listen_port" if job.kind == "ping" else "port"


def _fail(job: TrialJob, kind: str, message: str, flow: int | None = None) -> None:
    told = {"event": "error", "kind": kind, "flow": flow, "message": message}
    job.agent.tell(job, told)


def _loads(other: TrialJob, job: TrialJob) -> bool:
    """Tell whether another job loads the path for as long as one runs."""
    if job is other or other.kind not in _LOADS or job.kind == "siege":
        return False
    ours, theirs = (job.start_ns or 0) / 1e9, (other.start_ns or 0) / 1e9
    return theirs <= ours and ours + job.end_s <= theirs + other.end_s


def now_ns() -> tuple[int, int]:
    """Return what the clocks of this machine show."""
    return time.time_ns(), time.monotonic_ns()
