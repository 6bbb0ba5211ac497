"""The user's cache folder, for files that tests make once, and its locks."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache() -> Path:
    """Return the folder of this user for what is made once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "osmef"


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Hold the lock of a folder while it is made: other processes wait, and find it made."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f".{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
