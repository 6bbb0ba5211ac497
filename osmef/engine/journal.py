"""The journal of a run: what was made, so that it can be taken away whatever happens."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from osmef.errors import StorageError
from osmef.named_file import read_text_file
from osmef.providers.base import Resource
from osmef.results.files import append_line, storage

_MOST_BYTES = 256 << 20
_TIME = int | float | None
_TYPES = {"id": str | None, "deadline": _TIME, "made": _TIME, "access": dict}


class Journal:
    """Appends to ``journal.jsonl``; each line is on the disk before the call returns.

    Every method but ``destroyed`` raises StorageError when the disk does not do its part.
    ``unnoted`` is the first failure of that one: a removal goes on without it, as a missing line
    only costs another look, and whoever removes reports it at the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unnoted: StorageError | None = None
        self._lock = threading.Lock()

    def note(self, event: str, **values: object) -> None:
        """Write one line."""
        record = {"at": datetime.now(UTC).isoformat(), "event": event, **values}
        with self._lock:
            append_line(self.path, json.dumps(record).encode())

    def intend(self, resource: Resource) -> None:
        """Note that the resource is about to be made."""
        self.note("intend", resource=asdict(resource))

    def created(self, resource: Resource) -> None:
        """Note that the resource exists, with its id."""
        self.note("created", resource=asdict(resource))

    def destroyed(self, resource: Resource) -> None:
        """Note that the resource is gone; a failure is kept in ``unnoted``."""
        try:
            self.note("destroyed", resource=asdict(resource))
        except StorageError as error:
            self.unnoted = self.unnoted or error

    def read(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return all notes, or those of one event; a line torn by a crash is passed over."""
        with storage("read", self.path):
            if not self.path.exists():
                return []
            lines = read_text_file(self.path, _MOST_BYTES, errors="replace").splitlines()
        notes = []
        for line in lines:
            try:
                note = json.loads(line)
            except ValueError:
                continue
            if isinstance(note, dict) and event in (None, note.get("event")):
                notes.append(note)
        return notes

    def standing(self) -> list[Resource]:
        """Return what was intended or created and not yet destroyed, newest first."""
        found: dict[tuple[object, ...], Resource] = {}
        for note in self.read():
            resource = resource_of(note)
            if resource is None or note.get("event") not in ("intend", "created", "destroyed"):
                continue
            if note["event"] == "destroyed":
                found.pop(resource.key, None)
            else:
                found[resource.key] = resource
        return list(reversed(found.values()))


def resource_of(note: Mapping[str, Any]) -> Resource | None:
    """Return the resource that a note is about; None where it is about none that can be told.

    What a newer version says of it beside what is known here is passed over.
    """
    told = note.get("resource")
    if not isinstance(told, dict):
        return None
    known = {field.name for field in fields(Resource)}
    told = {name: value for name, value in told.items() if name in known}
    names = (told.get(name) for name in ("provider", "kind", "name", "run"))
    if not all(isinstance(name, str) for name in names):
        return None
    if not all(isinstance(told[name], types) for name, types in _TYPES.items() if name in told):
        return None
    way = told.get("access", {}).values()
    return Resource(**told) if all(isinstance(word, str) for word in way) else None
