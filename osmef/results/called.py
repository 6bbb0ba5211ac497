"""What a user calls a run: its path, the beginning of its name, or ``latest``."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

from osmef.errors import InputError

RESULTS = Path("results")
"""Where runs are looked for by their names alone; ``osmef run`` puts them there."""

LATEST = "latest"
_RUN_FILES = ("lock", "summary.json", "trials.jsonl")
_STAMP = re.compile(r"-(\d{8}T\d{6}Z)-[0-9a-f]{4}$")
_MOST_NAMED = 5
_CURE = "osmef run SCENARIO makes one; osmef list DIR shows those of another directory"


def runs_in(directory: Path) -> list[Path]:
    """Return the runs that lie in a directory, the oldest first."""
    if not directory.is_dir():
        return []
    found = [path for path in directory.iterdir() if _is_run(path)]
    return sorted(found, key=lambda path: (_begun(path), path.name))


def run_called(name: str | PathLike[str]) -> Path:
    """Return the path that a user means.

    A path that exists is itself. Else it is the only run whose name begins so, in the directory of
    the path, or, without one, in ``results``; ``latest`` is the newest there. What is none of these
    is returned as it is, for the reader to refuse. Raises InputError where several begin so.
    """
    path = Path(name)
    if path.exists():
        return path
    folder = path.parent if len(path.parts) > 1 else RESULTS
    runs = runs_in(folder)
    if path.name == LATEST:
        if not runs:
            raise InputError(f"there is no run in {folder}/", where=str(path), cure=_CURE)
        return runs[-1]
    alike = [run for run in runs if run.name.startswith(path.name)]
    if len(alike) > 1:
        names = ", ".join(run.name for run in reversed(alike[-_MOST_NAMED:]))
        more = f", and {len(alike) - _MOST_NAMED} older ones" if len(alike) > _MOST_NAMED else ""
        raise InputError(
            f"{len(alike)} runs begin so, the newest first: {names}{more}",
            where=str(path),
            cure=f"write more of the name; the newest is {alike[-1]}",
        )
    return alike[0] if alike else path


def _is_run(path: Path) -> bool:
    return path.is_dir() and any((path / name).exists() for name in _RUN_FILES)


def _begun(path: Path) -> str:
    """Return when a run began, as its name says it, or else when its directory changed."""
    if found := _STAMP.search(path.name):
        return found[1]
    return f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y%m%dT%H%M%SZ}"


def begun_at(path: Path) -> datetime:
    """Return when a run began, as ``runs_in`` sorts them."""
    return datetime.strptime(_begun(path), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
