"""Data of the page: a run, read from its directory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from osmef.named_file import open_file
from osmef.results.brief import brief_summary, brief_trials
from osmef.results.files import storage
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary

_MOST_SCENARIO = 64 * 1024


@dataclass(frozen=True)
class FailureGroup:
    """Failed trials with the same reason."""

    kind: str
    message: str
    where: str | None
    cure: str | None
    cells: list[str]
    count: int


@dataclass(frozen=True)
class ShownRun:
    """A run: its number in the page, from 1, and the content of its directory.

    ``summary`` is None before the end of a run, and after a kill. ``scenario`` is the text of the
    scenario file, None of an imported run.
    """

    number: int
    directory: RunDirectory
    name: str
    summary: Summary | None
    trials: int
    failed: list[FailureGroup]
    scenario_name: str | None
    scenario: str | None

    @property
    def path(self) -> Path:
        """The path of the run."""
        return self.directory.path


def read_run(number: int, directory: RunDirectory) -> ShownRun:
    """Read a run. Raises InputError where it is damaged or of a newer version, StorageError."""
    summary = directory.read_summary() if directory.summary.exists() else None
    trials, failed = _trials(directory)
    found = min(directory.path.glob("scenario.*"), default=None)
    return ShownRun(
        number=number,
        directory=directory,
        name=brief_summary(directory).scenario,
        summary=summary,
        trials=trials,
        failed=failed,
        scenario_name=found.name if found else None,
        scenario=_text(found) if found else None,
    )


def _trials(directory: RunDirectory) -> tuple[int, list[FailureGroup]]:
    """Count the trials, and group the reasons of failed ones."""
    cells: dict[tuple[str, str, str | None, str | None], list[str]] = defaultdict(list)
    count = 0
    for trial in brief_trials(directory):
        count += 1
        if failure := trial.get("failure"):
            reason = (failure["kind"], failure["message"])
            cells[*reason, failure.get("where"), failure.get("cure")].append(trial["cell"])
    failed = [
        FailureGroup(kind, message, where, cure, list(dict.fromkeys(of)), len(of))
        for (kind, message, where, cure), of in cells.items()
    ]
    return count, sorted(failed, key=lambda one: -one.count)


def _text(path: Path) -> str:
    with storage("read", path), open_file(path) as file:
        text = file.read(4 * _MOST_SCENARIO + 4).decode(errors="replace")
    if len(text) <= _MOST_SCENARIO:
        return text
    return f"{text[:_MOST_SCENARIO]}\n… (the rest is in {path})"
