"""Processes of sandboxes, found by the mark on their command lines (proc(5)), and their end."""

from __future__ import annotations

import os
import re
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from osmef.errors import ProviderError
from osmef.providers.base import Unread, pass_over
from osmef.providers.local.wire import MODULE
from osmef.providers.marks import Mark, unread_line
from osmef.units import parse_count

_END_S = 10.0
_LONGEST = 32 * 1024
"""Of a command line of ours; another program may make its own as long as its memory."""
_IDENTITY = re.compile(r"pid:[0-9]+:[0-9]+")
_STATE, _PARENT, _START = 0, 1, 19  # fields of /proc/PID/stat behind the program's name


@dataclass(frozen=True)
class Process:
    """A marked process; pid and start time together are unique."""

    pid: int
    parent: int
    start: int
    run: str
    deadline: float

    @property
    def identity(self) -> str:
        """The id of the resource: ``pid:PID:START``, start in clock ticks since boot."""
        return f"pid:{self.pid}:{self.start}"

    @property
    def made(self) -> float:
        """Its start as a UNIX time."""
        ticks = os.sysconf("SC_CLK_TCK")
        return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - self.start / ticks)


def is_identity(text: str | None) -> bool:
    """Return whether a text is the id of a process, or empty."""
    return text is None or _IDENTITY.fullmatch(text) is not None


def command(python: str, run: str, deadline: float) -> list[str]:
    """Return the command line of a sandbox's first process, which ends with the mark."""
    return [python, "-P", "-S", "-m", MODULE, "--run", run, "--deadline", f"{deadline:.0f}"]


def _marked(argv: list[str]) -> tuple[str, float] | None:
    match argv[-6:]:
        case ["-m", module, "--run", run, "--deadline", deadline] if module == MODULE:
            mark = Mark.read(run, "0", deadline)  # when it was started, the kernel knows
            return (mark.run, float(mark.deadline)) if mark else None
    return None


def _argv(pid: int) -> list[str]:
    with Path(f"/proc/{pid}/cmdline").open("rb") as file:
        told = file.read(_LONGEST + 1)
    return [] if len(told) > _LONGEST else told.decode(errors="replace").split("\0")[:-1]


def _stat(pid: int) -> list[str]:
    # The program's name stands in parentheses and may itself hold spaces and parentheses.
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _user(pid: int) -> int | None:
    """Return the user of a process; None once it has ended."""
    status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    words = (line.split() for line in status.splitlines() if line.startswith("Uid:"))
    return next((int(line[1]) for line in words), None)


def child_identity(pid: int) -> str:
    """Return the id of an unreaped child of this process."""
    return f"pid:{pid}:{_stat(pid)[_START]}"


def inspect(pid: int, unread: Unread = pass_over) -> Process | None:
    """Return a process if it is alive, marked, and may be ended by this user, else None."""
    try:
        me = os.geteuid()
        if me != 0 and _user(pid) != me:
            return None
        argv = _argv(pid)
        mark = _marked(argv)
        if mark is None:
            if argv[-6:-3] == ["-m", MODULE, "--run"]:
                unread(unread_line(f"process {pid}", argv[-4:]))
            return None
        fields = _stat(pid)
    except OSError:  # gone meanwhile
        return None
    if fields[_STATE] in "ZX":
        return None
    return Process(pid, int(fields[_PARENT]), int(fields[_START]), *mark)


def marked(unread: Unread = pass_over) -> list[Process]:
    """List all living marked processes: this user's, or for root everybody's."""
    named = (parse_count(entry.name) for entry in Path("/proc").iterdir())
    pids = [pid for pid in named if pid is not None]
    looks = (inspect(pid, unread) for pid in sorted(pids))
    return [found for found in looks if found is not None]


def sandboxes(unread: Unread = pass_over) -> list[Process]:
    """List the outermost process of each sandbox."""
    found = {process.pid: process for process in marked(unread)}
    return [process for process in found.values() if process.parent not in found]


def end(run: str, identity: str | None) -> None:
    """Kill a sandbox's processes and wait for their end; without an id all of the run.

    Raises ProviderError if one does not go within 10 s.
    """
    ours = [process for process in marked() if process.run == run]
    heads = {process.pid for process in ours if identity in {None, process.identity}}
    for process in ours:
        if process.pid in heads or process.parent in heads:
            _kill(process)


def _kill(process: Process) -> None:
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # Now that the handle is held, the number can't pass to another process unseen.
        found = inspect(process.pid)
        if found is None or found.identity != process.identity:
            return
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        wait_gone(handle, f"process {process.pid} of run {process.run}")
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise ProviderError(
            f"process {process.pid} of run {process.run} is another user's",
            cure="run this command as that user, or as root",
        ) from error
    finally:
        os.close(handle)


def wait_gone(handle: int, what: str) -> None:
    """Wait until the process of a pidfd has ended. Raises ProviderError after 10 s."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    if not poll.poll(_END_S * 1000):
        raise ProviderError(
            f"{what} does not end", cure="look at it with ps; it may hang in the kernel"
        )
