"""Who holds something in a campaign's database, and whether he still lives."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@cache
def this_process() -> str:
    """Return a text that names this process and no other, also after a reboot or a fork."""
    return f"{socket.gethostname()} {_boot()} {os.getpid()} {_started(os.getpid())}"


def is_gone(holder: str) -> bool | None:
    """Tell whether a process of ``this_process`` is gone; None where that can't be known."""
    host, boot, pid, started = holder.split(" ")
    if host != socket.gethostname():
        return None
    return boot != _boot() or _started(int(pid)) != started


def _boot() -> str:
    return _BOOT.read_text().strip()


def _started(pid: int) -> str:
    """Return when a process started, in clock ticks since boot (proc(5)); nothing if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "-"
    return stat.rpartition(")")[2].split()[19]
