"""The journal of a run: what was made, so that it can be taken away whatever happens."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from osmef.engine.notes import OF_RESOURCES, problem_of, resource_of
from osmef.errors import InputError, StorageError
from osmef.providers.base import Resource
from osmef.results.files import append_line
from osmef.results.lines import read_lines

_LONGEST = 32 * 1024**2
"""Of a line, in bytes."""


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

    def entries(self) -> Iterator[Entry]:
        """Give what stands in its lines, also in damaged ones. Raises StorageError.

        A last line that a killed controller has left is none.
        """
        for number, text, is_whole in read_lines(self.path, _LONGEST):
            try:
                told = None if text is None else from_json(text)
                why = problem_of(told) if text is not None else "it is too long"
            except ValueError as error:
                told, why = None, f"it is not JSON: {error}"
            if why is None or is_whole:
                yield Entry(number, told if isinstance(told, dict) else {}, why)

    def read(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return all notes, or those of one event; what is damaged is passed over."""
        whole = (entry.told for entry in self.entries() if entry.damage is None)
        return [note for note in whole if event in {None, note["event"]}]

    def damage(self, *events: str) -> list[InputError]:
        """Return what is wrong with each damaged line, or each that may be of these events."""
        return [
            InputError(
                f"this line is damaged, and passed over: {entry.damage}",
                where=f"{self.path}:{entry.number}",
                cure="put it back from a copy; or see by its mark whether more of the run stands"
                " than the journal tells (osmef reap --provider KIND), and remove the line then",
            )
            for entry in self.entries()
            if entry.damage is not None
            and not (events and entry.told.get("event") not in (None, *events))
        ]

    def standing(self) -> list[Resource]:
        """Return what was intended or created and not yet destroyed, newest first."""
        found: dict[tuple[object, ...], Resource] = {}
        for entry in self.entries():
            resource, event = resource_of(entry.told), entry.told.get("event")
            if resource is None or event not in OF_RESOURCES:
                continue
            if event == "destroyed":
                found.pop(resource.key, None)
            else:
                found[resource.key] = resource
        return list(reversed(found.values()))


@dataclass(frozen=True)
class Entry:
    """A line of a journal: what it tells as far as that can be read, and what is wrong with it."""

    number: int
    told: dict[str, Any]
    damage: str | None
