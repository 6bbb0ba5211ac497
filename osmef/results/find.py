"""Lookup of runs: by path, pattern, prefix of a name, or ``latest``."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from os import PathLike
from pathlib import Path

from osmef.errors import InputError
from osmef.results.rundir import RunDirectory

_TRIALS = "trials.jsonl"
_FILES = ("summary.json", _TRIALS)
_CURE = "name a run that `osmef list` shows, `latest`, a run directory, or a directory of runs"
LATEST = "latest"
_RUN_FILES = ("lock", "summary.json", "trials.jsonl")
_STAMP = re.compile(r"-(\d{8}T\d{6}Z)-[0-9a-f]{4}$")
_MOST_NAMED = 5
_ALIKE = 0.75  # of names, by difflib
_NO_RUN_CURE = "osmef run SCENARIO makes one; osmef list DIR shows those of another directory"


def find_runs(*paths: str | PathLike[str]) -> list[RunDirectory]:
    """Return the runs with trials that the paths name, each once, in their order.

    A path is what ``run_called`` takes for a run: such as a run directory, or
    the beginning of its name, a summary.json or trials.jsonl in one, a directory that holds runs at
    any depth, which come sorted, or a pattern of such paths with ``*``, ``?``, ``[...]`` and
    ``**``. Raises InputError for a path that leads to no run, for two runs of one name, and without
    any path.
    """
    if not paths:
        raise InputError("no run was named", cure=_CURE)
    found: dict[Path, RunDirectory] = {}
    for path in paths:
        for run in _runs(path):
            found.setdefault(run.resolve(), RunDirectory(run))
    _check_names(found)
    return list(found.values())


def _check_names(runs: Mapping[Path, RunDirectory]) -> None:
    """Raise InputError for two runs of one name, which frames could not distinguish."""
    known: dict[str, Path] = {}
    for path, run in runs.items():
        other = known.setdefault(run.id, path)
        if other != path:
            raise InputError(
                f"two runs are called {run.id}: {other} and {path}",
                cure="leave one of them out if it is a copy, or rename its directory",
            )


def _runs(path: str | PathLike[str]) -> list[Path]:
    here = run_called(path)
    if not here.exists() and glob.has_magic(str(here)):
        # A pattern may also match what lies beside the runs.
        runs = [run for match in sorted(glob.glob(str(here), recursive=True)) for run in _at(match)]  # noqa: PTH207 - a pattern may be absolute
        what = "no run matches"
    else:
        runs = _at(here)
        what = "this run has no trials yet" if here.is_dir() else "there is no such run"
    if not runs:
        raise InputError(what, where=str(path), cure=_CURE)
    return runs


def _at(path: str | PathLike[str]) -> list[Path]:
    here = Path(path)
    if here.name in _FILES and not here.is_dir():
        here = here.parent
    return list(_below(here))


def _below(directory: Path) -> Iterator[Path]:
    for path, names, files in os.walk(directory):
        if _TRIALS in files:
            names.clear()  # there are no runs in a run
            yield Path(path)
        names.sort()


RESULTS = Path("results")
"""Where runs are looked for by their names alone; ``osmef run`` puts them there."""


def runs_in(directory: Path) -> list[Path]:
    """Return the runs in a directory, the oldest first."""
    if not directory.is_dir():
        return []
    found = [path for path in directory.iterdir() if _is_run(path)]
    return sorted(found, key=lambda path: (_begun(path), path.name))


def run_called(name: str | PathLike[str]) -> Path:
    """Resolve the path or name of a run.

    A path that exists is itself. Else it is the only run whose name begins so, in the directory of
    the path, or, without one, in ``results``; ``latest`` is the newest there. What is none of these
    is returned as it is, for the reader to refuse. Raises InputError where several begin so,
    and for a name that nearly is one of a scenario.
    """
    path = Path(name)
    if path.exists():
        return path
    folder = path.parent if len(path.parts) > 1 else RESULTS
    runs = runs_in(folder)
    if path.name == LATEST:
        if not runs:
            raise InputError(f"there is no run in {folder}/", where=str(path), cure=_NO_RUN_CURE)
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
    if not alike and not glob.has_magic(str(path)):
        _refuse_near(path, runs)
    return alike[0] if alike else path


def _refuse_near(path: Path, runs: Iterable[Path]) -> None:
    """Raise InputError where a name is close to ``latest`` or to a scenario's."""
    names = {LATEST, *(_STAMP.sub("", run.name) for run in runs)}
    if near := get_close_matches(path.name.lower(), names, n=1, cutoff=_ALIKE):
        raise InputError(
            "there is no such run",
            where=str(path),
            cure=f"did you mean {near[0]!r}? `osmef list` shows the runs",
        )


def _is_run(path: Path) -> bool:
    return path.is_dir() and any((path / name).exists() for name in _RUN_FILES)


def _begun(path: Path) -> str:
    """Return the start of a run, by its name, or else its directory's mtime."""
    if found := _STAMP.search(path.name):
        return found[1]
    return f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y%m%dT%H%M%SZ}"


def begun_at(path: Path) -> datetime:
    """Return the sort key of ``runs_in``: the start of a run."""
    return datetime.strptime(_begun(path), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
