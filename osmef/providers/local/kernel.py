"""System calls of namespaces and mounts that Python 3.11 lacks.

Sources: namespaces(7), unshare(2), setns(2), mount(2).
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Move this process into new namespaces. Raises OSError."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, flag: int) -> None:
    """Move this process into a namespace that exists. Raises OSError."""
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(flag)), "setns")


def mount(source: str, target: str, fstype: str | None, flags: int, options: str = "") -> None:
    """Attach a file system, or bind a file over another. Raises OSError."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        fstype.encode() if fstype else None,
        ctypes.c_ulong(flags),
        options.encode(),
    )
    _check(result, f"mount {fstype or source} on {target}")
