"""Journals as tests see them: lines of JSON, whatever an older or a newer version wrote."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from osmef.engine.journal import Journal
from osmef.results.files import append_line


def write_note(journal: Journal, event: str, **values: object) -> None:
    """Write a line."""
    told = {"at": datetime.now(UTC).isoformat(), "event": event, **values}
    append_line(journal.path, json.dumps(told).encode())


def read_notes(journal: Journal, event: str | None = None) -> list[dict[str, Any]]:
    """Return the lines that are not damaged, or those of one event."""
    whole = {entry.number for entry in journal.history().entries if entry.damage is None}
    text = journal.path.read_bytes() if whole else b""
    lines = {number: line for number, line in enumerate(text.split(b"\n"), 1) if number in whole}
    told = [json.loads(line) for line in lines.values()]
    return [one for one in told if event in {None, one["event"]}]
