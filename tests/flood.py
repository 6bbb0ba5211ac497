"""Let nothing take much memory, whatever is sent to it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_MIB = 150
"""What one case may take of the memory: much less than what is sent to it."""


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


@contextmanager
def bounded_memory(give_up: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Fail where much more memory is taken meanwhile; give up at once then."""
    before, ended, most = _resident_mib(), threading.Event(), 0.0

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.01):
            most = max(most, _resident_mib() - before)
            if most > MOST_MIB:
                give_up()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        assert most < MOST_MIB
