"""The processes of this machine, of which any may end at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def read_all(file: str) -> Iterator[tuple[int, bytes]]:
    """Yield each process that lives, and what a file of it in ``/proc`` holds."""
    for pid in [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]:
        with suppress(OSError):  # it has ended
            yield pid, (_PROC / str(pid) / file).read_bytes()


def commands() -> dict[int, list[bytes]]:
    """Return the words of each process's command."""
    return {pid: text.split(b"\0") for pid, text in read_all("cmdline")}
