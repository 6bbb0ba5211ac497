"""Identity of a process across machines and reboots, and its liveness."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

from osmef.engine.journal import machine_id

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_DEAD = {"Z", "X", "x"}  # an unreaped zombie has ended (proc(5))


@cache
def this_machine() -> str:
    """Return an identifier of this machine, or container, that survives a reboot.

    Hostnames are not enough: many machines are called localhost, and containers share a kernel.
    """
    return f"{socket.gethostname()}/{machine_id() or '-'}/{_process_namespace()}"


def this_process() -> str:
    """Return an identifier of this process, unique across reboots and forks."""
    return f"{this_machine()} {_read(_BOOT)} {os.getpid()} {_started(os.getpid())}"


def process_of(holder: str) -> int | None:
    """Return the pid of an identifier on this machine; None on another one."""
    host, *_, pid, _ = holder.split(" ") if holder else ("", "", "", "")
    return int(pid) if host == this_machine() else None


def is_gone(holder: str, *, is_shared: bool = False) -> bool | None:
    """Return whether an identified process has ended; None where that can't be known.

    With ``is_shared`` other machines may have said it: one of this one's name that has booted at
    another time is this one before, or a clone of it.
    """
    host, boot, pid, started = holder.split(" ")
    if host != this_machine() or "-" in (boot, _read(_BOOT)):
        return None
    if boot != _read(_BOOT):
        return None if is_shared else True
    return _started(int(pid)) != started


def _read(path: Path) -> str:
    try:
        return path.read_text().strip() or "-"
    except OSError:
        return "-"


def _process_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return "-"


def _started(pid: int) -> str:
    """Return the start time of a process, in clock ticks since boot (proc(5)); - once it ended."""
    stat = _read(Path(f"/proc/{pid}/stat"))
    if stat == "-":
        return stat
    words = stat.rpartition(")")[2].split()
    return "-" if words[0] in _DEAD else words[19]
