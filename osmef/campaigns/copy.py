"""The run directory of a session that a worker elsewhere measures, as its controller keeps it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from osmef.campaigns.live import NAME as LIVE
from osmef.campaigns.live import forget, show_in
from osmef.engine.journal import Journal
from osmef.errors import StorageError
from osmef.providers import AMBIENT
from osmef.providers.base import Resource
from osmef.results.files import append_line, storage, write_atomically
from osmef.results.rundir import RunDirectory

_STAY_HERE = {"lock", LIVE}


class Copy:
    """Holds the directory's lock until ``close``. Methods raise StorageError."""

    def __init__(self, path: Path) -> None:
        with storage("make a run directory", path):
            path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._directory = RunDirectory(path)
        self._directory.acquire()
        self._journal = Journal(self._directory.journal)

    def files(self) -> dict[str, bytes]:
        """Return what a worker needs to go on: all but the tables, once there is a journal."""
        if not self._journal.path.exists():
            return {}
        with storage("read", self.path):
            return {
                str(path.relative_to(self.path)): path.read_bytes()
                for path in self.path.rglob("*")
                if path.is_file() and _travels(path)
            }

    def append(self, name: str, line: bytes) -> None:
        """Put a line at the end of a file."""
        append_line(self._place(name), line)

    def write(self, name: str, data: bytes) -> None:
        """Put a file there."""
        path = self._place(name)
        with storage("make a directory", path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)

    def show(self, data: bytes) -> None:
        """Let watchers see how the session stands."""
        show_in(self.path, data.decode())

    def note(self, event: str, **values: object) -> bool:
        """Write into the journal, if it has begun; tell whether it has."""
        begun = self._journal.path.exists()
        if begun:
            self._journal.note(event, **values)
        return begun

    @property
    def bound_to(self) -> str | None:
        """The machine whose worker alone can take away what is left; None where any can."""
        if not any(_is_of_a_machine(one) for one in self._journal.standing()):
            return None
        notes = self._journal.read("worker")
        return str(notes[-1]["host"]) if notes else None

    def close(self) -> None:
        """Merge what came in parts, and release the lock."""
        try:
            forget(self.path)
            self._directory.finish()
        finally:
            self._directory.close()

    def _place(self, name: str) -> Path:
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:
            raise StorageError("a worker named a file outside its run directory", where=name)
        return self.path / name


def _travels(path: Path) -> bool:
    return not (path.suffix == ".parquet" or path.name in _STAY_HERE or path.name.startswith("."))


def _is_of_a_machine(resource: Resource) -> bool:
    """Tell whether only the machine that made it can find it: its own namespaces or libvirt."""
    _, _, place = resource.access.get("uri", "").partition("://")
    return resource.provider in AMBIENT or place.startswith("/")
