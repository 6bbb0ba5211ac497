"""Find the runs that paths and patterns name."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path

from osmef.errors import InputError
from osmef.results.called import run_called
from osmef.results.rundir import RunDirectory

_TRIALS = "trials.jsonl"
_FILES = ("summary.json", _TRIALS)
_CURE = "give a run directory, the summary.json or trials.jsonl in it, or a directory of runs"


def find_runs(*paths: str | PathLike[str]) -> list[RunDirectory]:
    """Return the runs with trials that the paths name, each once, in the order of the paths.

    A path is what ``osmef.results.called.run_called`` takes for a run: such as a run directory, or
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
    """Raise InputError for two runs of one name, which frames could not tell apart."""
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
