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


def descendants(pid: int, called: str = "") -> list[int]:
    """Return the descendants of a process whose names begin with ``called``, as sshd's do."""
    below: list[int] = []
    for child in _children(pid):
        if _read(f"{child}/comm").startswith(called.encode()):
            below += [child, *descendants(child, called)]
    return below


def pid_namespace(pid: int) -> str | None:
    """Return the PID namespace of a process, None if it has ended."""
    with suppress(OSError):
        return str((_PROC / str(pid) / "ns/pid").readlink())
    return None


def _children(pid: int) -> list[int]:
    """Return the children of a process, whichever of its threads has started them."""
    with suppress(OSError):  # it has ended
        tasks = [task.name for task in (_PROC / str(pid) / "task").iterdir()]
        return [int(one) for task in tasks for one in _read(f"{pid}/task/{task}/children").split()]
    return []


def _read(file: str) -> bytes:
    with suppress(OSError):  # it has ended
        return (_PROC / file).read_bytes()
    return b""
