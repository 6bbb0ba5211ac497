"""The controller of a run, by its journal: is it alive, also for a copy of the directory.

The lock of a run directory tells it only where the directory is the one that was locked: a copy of
it, on this machine or another one, is locked by nobody.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from osmef.engine.journal import Journal
from osmef.errors import InputError, StorageError
from osmef.results import lock
from osmef.results.rundir import RunDirectory

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

    ``machine`` is where it works, None where it is gone or nobody knows; ``deadline`` is the UNIX
    time by which its run has ended, None where that is not known.
    """

    state: State
    machine: str | None = None
    deadline: float | None = None

    @property
    def may_live(self) -> bool:
        """Whether it is alive, or may be alive out of sight."""
        over = self.deadline is not None and self.deadline <= time.time()
        return self.state is State.LIVE or (self.state is State.UNSEEN and not over)


def this_controller(directory: RunDirectory) -> dict[str, Any]:
    """Return the journal's identity of this process, which holds the directory's lock."""
    return {
        "host": socket.gethostname(),
        "machine": _machine(),
        "boot": _read(_BOOT),
        "processes": _processes(),
        "pid": os.getpid(),
        "began": _began(os.getpid()),
        "lock": f"{lock.KIND}:{lock.identity(directory.path)}",
    }


def controller_of(directory: RunDirectory, *, lock_is_free: bool = True) -> Controller:
    """Return the controller of a run by its journal, whose directory is not locked.

    ``lock_is_free`` is false where this user may not see whether somebody has. A run whose journal
    was written by an older version has none. Raises StorageError.
    """
    latest = Journal(directory.journal).history().latest
    told = latest.start.controller if latest.start else None
    deadline = latest.deadline
    if latest.is_hidden and not (told and lock_is_free and _had_lock(told, directory)):
        return Controller(State.UNSEEN, "that its damaged journal does not name", deadline)
    if told is None or latest.is_over:
        return Controller(State.DEAD)
    state = _state(told, directory, lock_is_free=lock_is_free)
    return Controller(state, None if state is State.DEAD else str(told.get("host")), deadline)


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
        older = lock.is_held_by_older(directory.path)
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


def _state(told: Mapping[str, Any], directory: RunDirectory, *, lock_is_free: bool) -> State:
    here = this_controller(directory)

    def same(*keys: str) -> bool:
        return all(told.get(key) is not None and told.get(key) == here[key] for key in keys)

    if same("boot") or (told.get("boot") is here["boot"] is None and same("host")):
        if lock_is_free and _had_lock(told, directory):
            return State.DEAD  # this is the directory that it had locked, maybe in a container
        if same("processes"):
            lives = told.get("began") is not None and _began(told.get("pid")) == told["began"]
            return State.LIVE if lives else State.DEAD
        return State.UNSEEN
    # Machines that were copied have one id: the name is compared, too.
    return State.DEAD if same("machine", "host") else State.UNSEEN


def _machine() -> str | None:
    """Return an application-specific machine id, as machine-id(5) recommends."""
    told = _read(_MACHINE)
    return told and hmac.new(told.encode(), b"osmef", hashlib.sha256).hexdigest()[:32]


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


def _began(pid: object) -> int | None:
    """Return the start time of a process, in clock ticks since boot (proc(5)); None if ended."""
    if not isinstance(pid, int):
        return None
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in {"Z", "X"} else int(words[19])


def _had_lock(told: Mapping[str, Any], directory: RunDirectory) -> bool:
    """Return whether a controller held the lock of this very directory, which is free by now."""
    had, here = told.get("lock"), lock.identity(directory.path)
    if not here or had not in (here, f"{lock.KIND}:{here}"):
        return False
    return had != here or not lock.is_held_by_older(directory.path)
