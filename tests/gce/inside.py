"""Have the test's own process, or a part of it, where the VMs of the cloud can be reached."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_NEWNET = 0x40000000


def enter(namespace: Path) -> None:
    """Make this thread's sockets in this network namespace from now on. Raises OSError.

    Threads that it starts are there, too.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if libc.setns(descriptor, _NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)


def inside(namespace: Path, work: Callable[[], T]) -> T:
    """Return what ``work`` returns in a thread there."""
    with ThreadPoolExecutor(1, initializer=enter, initargs=(namespace,)) as pool:
        return pool.submit(work).result()
