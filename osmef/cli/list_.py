"""``osmef list``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from osmef.cli.console import AsJson, out, print_json, reporting
from osmef.errors import InputError
from osmef.report.fit import column, table
from osmef.results.find import RESULTS, begun_at, runs_in
from osmef.results.lock import is_held
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Status

EPILOG = """Examples:

osmef list

osmef show latest

osmef report quickstart-2026

A RUN of any command may be called by the beginning of its name, and the newest one `latest`."""


@dataclass(frozen=True)
class _Listed:
    name: str
    began: datetime
    workloads: str
    cells: int | None
    trials: int | None
    failed: int
    state: str


def command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory that holds the run directories.")
    ] = RESULTS,
    as_json: AsJson = False,
) -> None:
    """List the runs of a directory, the newest last."""
    with reporting(as_json):
        if not directory.is_dir():
            raise InputError(
                "there is no such directory",
                where=str(directory),
                cure="osmef run SCENARIO makes results/; name another directory that holds runs",
            )
        found = list(_listed(directory))
        if as_json:
            print_json({"runs": [{**vars(one), "began": one.began.isoformat()} for one in found]})
            return
    if not found:
        out.print(f"no run in {directory}/")
        return
    columns = [
        column("run", [one.name for one in found]),
        column("began, UTC", [f"{one.began:%Y-%m-%d %H:%M}" for one in found], rank=3),
        column("workload", [one.workloads for one in found], rank=1),
        column("cells", [_shown(one.cells) for one in found], rank=2, right=True),
        column("trials", [_shown(one.trials) for one in found], right=True),
        column("failed", [_failed(one) for one in found], rank=1, right=True),
        column("state", [one.state for one in found]),
    ]
    out.print(table(columns, out.width, long=None))


def _shown(count: int | None) -> str:
    return "-" if count is None else str(count)


def _failed(one: _Listed) -> Text:
    return Text(str(one.failed) if one.failed else "", style="red")


def _listed(directory: Path) -> Iterator[_Listed]:
    for path in runs_in(directory):
        try:
            yield _read(path)
        except InputError as error:  # damaged, or of a newer version
            yield _Listed(path.name, begun_at(path), "-", None, None, 0, f"unreadable: {error}")


def _begun(run: RunDirectory) -> _Listed:
    """Return what there is of a run without a summary: it is running, or it was cut."""
    trials = run.read_trials().trials if run.trials.exists() else []
    kinds = ", ".join(dict.fromkeys(trial.workload for trial in trials)) or "-"
    cells = len({trial.cell for trial in trials}) or None
    failed = sum(trial.status is Status.FAILED for trial in trials)
    state = "running" if is_held(run.path) else "interrupted"
    return _Listed(run.path.name, begun_at(run.path), kinds, cells, len(trials), failed, state)


def _read(path: Path) -> _Listed:
    run = RunDirectory(path)
    if not run.summary.exists():
        return _begun(run)
    summary = run.read_summary()
    kinds = dict.fromkeys(cell.workload for cell in summary.cells)
    failed = sum(cell.n_failed for cell in summary.cells)
    good = sum(cell.n_ok for cell in summary.cells)
    ended = "complete" if summary.run.complete else "incomplete"
    state = "imported" if summary.run.scenario_digest is None else ended
    began = summary.run.started_at or begun_at(path)
    return _Listed(
        path.name, began, ", ".join(kinds), len(summary.cells), good + failed, failed, state
    )
