"""Journal of a run: the ledger of its resources, and by it whether the run's controller is alive.

By the ledger, resources are destroyed even after a crash. The lock of a run directory shows its
controller only in the original directory: a copy of it, on this machine or another one, is not
locked.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import TypeVar

from pydantic_core import from_json

from osmef.clock import since_boot
from osmef.engine.events import (
    ControllerIdentity,
    Created,
    Deployed,
    Destroyed,
    Ended,
    Event,
    Extended,
    Intended,
    JournalLine,
    Located,
    Planned,
    Provisioning,
    Released,
    ResourceEvent,
    Started,
    parse,
    written,
)
from osmef.errors import InputError, StorageError
from osmef.providers.base import Resource
from osmef.results import files
from osmef.results.files import append_line, read_lines
from osmef.results.rundir import RunDirectory
from osmef.results.summary import EndpointInfo, HourlyPrice
from osmef.scenario.location import Location

_LONGEST = 32 * 1024**2
"""Of a line, in bytes."""

E = TypeVar("E", bound=Event)


class Journal:
    """Appends to ``journal.jsonl``; each line is fsynced before the call returns.

    Every method but ``destroyed`` raises StorageError when the disk does not do its part.
    ``unnoted`` is the first failure of that one: a removal goes on without it, as a missing line
    only costs another look, and the teardown reports it at the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unnoted: StorageError | None = None
        self._lock = threading.Lock()
        self._opened, self._since = datetime.now(UTC), since_boot()

    def now(self) -> datetime:
        """Return the time by the clock as it was when this was made.

        One that is set while a run works changes neither its lengths, such as those that VMs cost,
        nor the order of its trials.
        """
        return self._opened + timedelta(seconds=since_boot() - self._since)

    def note(self, event: Event) -> None:
        """Append an event."""
        record = {"at": self.now().isoformat(), **written(event)}
        with self._lock:
            append_line(self.path, json.dumps(record).encode())

    def intend(self, resource: Resource) -> None:
        """Note the intent to create a resource."""
        self.note(Intended(resource))

    def created(self, resource: Resource) -> None:
        """Note that a resource exists, with its id."""
        self.note(Created(resource))

    def destroyed(self, resource: Resource) -> None:
        """Note that a resource is destroyed; a failure is kept in ``unnoted``."""
        try:
            self.note(Destroyed(resource))
        except StorageError as error:
            self.unnoted = self.unnoted or error

    def history(self) -> History:
        """Read the journal. Raises StorageError."""
        return History(self.path, tuple(self._entries()))

    def existing(self) -> list[Resource]:
        """Return the resources that exist or are intended, newest first."""
        return self.history().existing

    def _entries(self) -> Iterator[JournalLine]:
        """Yield the entries, without a last line that a killed controller left incomplete."""
        for number, text, is_whole in read_lines(self.path, _LONGEST):
            if text is None:
                entry = JournalLine(number, None, None, None, "it is too long")
            else:
                try:
                    entry = parse(number, from_json(text))
                except ValueError as error:
                    entry = JournalLine(number, None, None, None, f"it is not JSON: {error}")
            if entry.damage is None or is_whole:
                yield entry


@dataclass(frozen=True)
class CostPeriod:
    """A period in which VMs exist: the price of each by name, and its upper bound."""

    begin: datetime
    end: datetime
    prices: Mapping[str, HourlyPrice | None]
    most: Mapping[str, HourlyPrice | None]


@dataclass
class DeployedEndpoint:
    """An endpoint as last deployed, and its moves since then: location and group."""

    info: EndpointInfo
    moves: list[tuple[Location, int]]


@dataclass(frozen=True)
class Latest:
    """The latest start of a run.

    ``is_over``: the endpoints were released, or the run has ended, since. ``is_hidden``: a damaged
    line may be a later start. ``deadline`` is a UNIX time.
    """

    start: Started | None
    deadline: float | None
    is_over: bool
    is_hidden: bool


@dataclass(frozen=True)
class History:
    """The fold of a journal: the events of its intact lines in order, and its damage."""

    path: Path
    entries: Sequence[JournalLine]

    @property
    def _whole(self) -> Iterator[tuple[datetime, Event]]:
        return ((one.at, one.event) for one in self.entries if one.at and one.event)

    def all(self, kind: type[E]) -> list[E]:
        """Return the events of a type."""
        return [event for _, event in self._whole if isinstance(event, kind)]

    def timed(self, *kinds: type[E]) -> list[tuple[datetime, E]]:
        """Return the events of some types, each with its time."""
        return [(at, event) for at, event in self._whole if isinstance(event, kinds)]

    @property
    def plan(self) -> Planned | None:
        """The plan of the run."""
        return next(iter(self.all(Planned)), None)

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended at least once."""
        return bool(self.all(Ended))

    def damage(self, *kinds: type[Event]) -> list[InputError]:
        """Return the damage of each line, or of those that may be events of these types."""
        return [
            InputError(
                f"this line is damaged, and was skipped: {entry.damage}",
                where=f"{self.path}:{entry.number}",
                cure="restore it from a copy; or look for resources of the run that the journal"
                " does not list (osmef reap --provider KIND), and then remove the line",
            )
            for entry in self.entries
            if entry.damage is not None and (not kinds or entry.may_be(*kinds))
        ]

    @property
    def existing(self) -> list[Resource]:
        """The resources that exist or are intended, newest first."""
        found: dict[tuple[object, ...], Resource] = {}
        for entry in self.entries:  # also of a line whose time is damaged
            if isinstance(entry.event, Destroyed):
                found.pop(entry.event.resource.key, None)
            elif isinstance(entry.event, ResourceEvent):
                found[entry.event.resource.key] = entry.event.resource
        return list(reversed(found.values()))

    @property
    def latest(self) -> Latest:
        """The latest start, and the end of its run."""
        start, deadline, is_over, is_hidden = None, None, False, False
        for entry in self.entries:
            event = entry.event
            if entry.damage is not None:
                is_hidden = is_hidden or entry.may_be(Started)
            elif isinstance(event, Started):
                start, deadline, is_over, is_hidden = event, None, False, False
            elif isinstance(event, Released | Ended):
                is_over, is_hidden = True, False
            elif isinstance(event, Provisioning) and start and event.deadline is not None:
                deadline = event.deadline
        return Latest(start, deadline, is_over, is_hidden)

    @property
    def cost_periods(self) -> list[CostPeriod]:
        """The periods in which VMs existed, each from provisioning to release.

        A run that was killed has no such line: then until the last one before it was started again,
        which is that of what was left and destroyed.
        """
        found: list[list[tuple[datetime, Event]]] = []
        stands = False
        for at, event in self._whole:
            if isinstance(event, Provisioning):
                found.append([])
                stands = True
            stands = stands and not isinstance(event, Started)
            if stands:
                found[-1].append((at, event))
            stands = stands and not isinstance(event, Released)
        return [_stretch(some) for some in found]

    def worked_s(self, signs: Iterable[datetime] = ()) -> float:
        """Return how long controllers worked on the run: each from its start to its end.

        One that was killed notes no end: it counts until its last line, or the last of its
        ``signs``, such as the ends of trials. What reap destroys later is no work on the run.
        """
        periods: list[list[datetime]] = []
        killed: list[bool] = []
        is_over = True
        for at, event in self._whole:
            if isinstance(event, Started):
                periods.append([at])
                killed.append(True)
                is_over = False
            elif not is_over and not isinstance(event, Destroyed | Extended):
                periods[-1].append(at)
                is_over = isinstance(event, Ended)
                killed[-1] = killed[-1] and not isinstance(event, Released | Ended)
        for sign in signs:
            begun = [number for number, period in enumerate(periods) if period[0] <= sign]
            # By the clock, which may have been set back before the last one.
            latest = max(begun, key=lambda number: periods[number][0], default=None)
            if latest is not None and killed[latest]:
                periods[latest].append(sign)
        return sum((max(period) - period[0]).total_seconds() for period in periods)

    @property
    def endpoints(self) -> dict[str, DeployedEndpoint]:
        """The endpoints of the run by name."""
        found: dict[str, DeployedEndpoint] = {}
        for _, event in self._whole:
            if isinstance(event, Deployed):
                found[event.endpoint.name] = DeployedEndpoint(event.endpoint, [])
            elif isinstance(event, Located):
                for name in event.places.keys() & found.keys():  # its own line may be damaged
                    found[name].moves.append((event.places[name], event.group))
        return found


def _stretch(events: Iterable[tuple[datetime, Event]]) -> CostPeriod:
    """Fold the events of one period: the prices as deployed, else as planned."""
    prices: dict[str, HourlyPrice | None] = {}
    most: dict[str, HourlyPrice | None] = {}
    times = []
    for at, event in events:
        times.append(at)
        if isinstance(event, Provisioning):
            prices, most = dict(event.prices), dict(event.most)
        elif isinstance(event, Deployed) and event.endpoint.name in prices:
            prices[event.endpoint.name] = event.endpoint.price
            most[event.endpoint.name] = event.most
    return CostPeriod(times[0], max(times), prices, most)


_MACHINE = Path("/etc/machine-id")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")


class State(Enum):
    """Liveness of a run's controller."""

    LIVE = "lives"
    DEAD = "is gone"
    UNSEEN = "is on another machine"


@dataclass(frozen=True)
class Controller:
    """The controller of a run.

    ``machine`` is where it works, None where it has ended or is unknown; ``deadline`` is the UNIX
    time by which its run has ended, None where that is not known.
    """

    state: State
    machine: str | None = None
    deadline: float | None = None

    @property
    def may_live(self) -> bool:
        """Whether it is alive, or may be alive where that can't be seen."""
        over = self.deadline is not None and self.deadline <= time.time()
        return self.state is State.LIVE or (self.state is State.UNSEEN and not over)


def this_controller(directory: RunDirectory) -> ControllerIdentity:
    """Return the identity of this process, which holds the directory's lock."""
    return ControllerIdentity(
        host=socket.gethostname(),
        machine=machine_id(),
        boot=_read(_BOOT),
        processes=_processes(),
        pid=os.getpid(),
        began=_began(os.getpid()),
        lock=f"{files.KIND}:{files.identity(directory.path)}",
    )


def controller_of(directory: RunDirectory, *, lock_is_free: bool = True) -> Controller:
    """Return the controller of a run by its journal, whose directory is not locked.

    ``lock_is_free`` is false where this user can't see whether the lock is held. A run whose
    journal was written by an older version has none. Raises StorageError.
    """
    latest = Journal(directory.journal).history().latest
    reported = latest.start.controller if latest.start else None
    deadline = latest.deadline
    if latest.is_hidden and not (reported and lock_is_free and _had_lock(reported, directory)):
        return Controller(State.UNSEEN, "that its damaged journal does not name", deadline)
    if reported is None or latest.is_over:
        return Controller(State.DEAD)
    state = _state(reported, directory, lock_is_free=lock_is_free)
    return Controller(state, None if state is State.DEAD else str(reported.host), deadline)


def is_at_work(directory: RunDirectory) -> bool:
    """Return whether a run's controller is alive, as far as visible. Raises StorageError."""
    live = directory.is_live()
    if live is None:
        return controller_of(directory, lock_is_free=False).state is State.LIVE
    return live


def refuse_second(directory: RunDirectory, *, is_dead: bool) -> None:
    """Refuse to take over a run whose controller is alive, or may be alive out of sight.

    ``is_dead`` is the word of a user who knows of the latter. Raises StorageError, InputError.
    """
    found = controller_of(directory)
    if found.state is State.LIVE:
        older = files.is_held_by_older(directory.path)
        raise StorageError(
            "another osmef process is working on this run, "
            + ("an older version" if older else "of which this directory is a copy"),
            where=str(directory.path),
            cure="wait until it has ended, or stop it with Ctrl-C; then use its own directory",
        )
    if found.may_live and not is_dead:
        raise InputError(
            f"the run was begun on the machine {found.machine}, and may still measure there",
            where=str(directory.path),
            cure="look there; if its controller is dead for sure, add --controller-is-dead",
        )


def _state(reported: ControllerIdentity, directory: RunDirectory, *, lock_is_free: bool) -> State:
    here = this_controller(directory)
    same_host = _same(reported.host, here.host)
    without_boots = reported.boot is here.boot is None
    if _same(reported.boot, here.boot) or (without_boots and same_host):
        if lock_is_free and _had_lock(reported, directory):
            return State.DEAD  # this is the directory that it had locked, maybe in a container
        if not _same(reported.processes, here.processes):
            return State.UNSEEN
        return State.LIVE if _same(reported.began, _began(reported.pid)) else State.DEAD
    # Machines that were copied have one id: the name is compared, too.
    return State.DEAD if _same(reported.machine, here.machine) and same_host else State.UNSEEN


def _same(reported: object, here: object) -> bool:
    """Return whether two values are known, and the same."""
    return reported is not None and reported == here


def machine_id() -> str | None:
    """Return an application-specific machine id, as machine-id(5) recommends."""
    reported = _read(_MACHINE)
    return reported and hmac.new(reported.encode(), b"osmef", hashlib.sha256).hexdigest()[:32]


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def _processes() -> str | None:
    """Return the identity of the visible PID namespace."""
    try:
        return str(_PROCESSES.readlink())
    except OSError:
        return None


def _began(pid: int | None) -> int | None:
    """Return the start time of a process, in clock ticks since boot (proc(5)); None if ended."""
    if pid is None:
        return None
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in {"Z", "X"} else int(words[19])


def _had_lock(reported: ControllerIdentity, directory: RunDirectory) -> bool:
    """Return whether a controller held the lock of this very directory, which is free by now."""
    had, here = reported.lock, files.identity(directory.path)
    if not here or had not in (here, f"{files.KIND}:{here}"):
        return False
    return had != here or not files.is_held_by_older(directory.path)
