"""Identity of a process across machines and reboots, and whether it still lives."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MACHINE = Path("/etc/machine-id")
_DEAD = {"Z", "X", "x"}  # a zombie that nobody waits for does nothing any more (proc(5))


@cache
def this_machine() -> str:
    """Return a text that names this machine, or container, also after a reboot.

    Hostnames are not enough: many machines are called localhost, and containers share a kernel.
    """
    return f"{socket.gethostname()}/{_read(_MACHINE)}/{_process_namespace()}"


def this_process() -> str:
    """Return a text that names this process and no other, also after a reboot or a fork."""
    return f"{this_machine()} {_read(_BOOT)} {os.getpid()} {_started(os.getpid())}"


def process_of(holder: str) -> int | None:
    """Return the id of a process of ``this_process`` on this machine; None for one elsewhere."""
    host, *_, pid, _ = holder.split(" ") if holder else ("", "", "", "")
    return int(pid) if host == this_machine() else None


def is_gone(holder: str, *, is_shared: bool = False) -> bool | None:
    """Tell whether a process of ``this_process`` is gone; None where that can't be known.

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
    """Return when a process started, in clock ticks since boot (proc(5)); - if it is gone."""
    stat = _read(Path(f"/proc/{pid}/stat"))
    if stat == "-":
        return stat
    words = stat.rpartition(")")[2].split()
    return "-" if words[0] in _DEAD else words[19]
