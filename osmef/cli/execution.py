"""Execute a plan in its run directory and show the result: shared by several commands."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console

from osmef.cli.console import err, print_json, stopping
from osmef.cli.progress import Clock, PlainProgress
from osmef.cli.results import Moment, draw, show
from osmef.engine.check import check_provider, check_study
from osmef.engine.cost import check_budget, cost_of
from osmef.engine.events import Observer
from osmef.engine.plan import Plan, make_plan
from osmef.engine.recovery import note_plan
from osmef.engine.run import Run
from osmef.errors import OsmefError, ProviderError
from osmef.files import exists
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary, Verdict
from osmef.scenario.study import Study


@contextmanager
def progress_for(
    console: Console, verbose: int, quiet: bool, clock: Clock = time.monotonic
) -> Iterator[Observer]:
    """Return the observer for a console: live, plain, or silent for JSON."""
    if quiet:
        yield Observer()
    elif verbose or not console.is_terminal:
        yield PlainProgress(console, clock)
    else:
        # rich.progress is slow to load, and a log has no bar
        from osmef.cli.live_progress import live  # noqa: PLC0415

        with live(console, clock) as observer:
            yield observer


MISSED = 5
"""The exit code where a median misses what the scenario expects of it."""


def begin(study: Study, out: Path, *, verbose: int, as_json: bool, figures: bool) -> None:
    """Check and plan a study, and execute it in a new run directory under ``out``.

    Raises InputError, ProviderError and what ``execute`` does.
    """
    check_study(study)
    plan = make_plan(study)
    check_budget(plan, cost_of(plan))
    check_provider(plan)
    name, suffix = study.scenario.name, study.path.suffix
    with RunDirectory.create(out, name, study.text, suffix) as directory:
        note_plan(directory, plan)
        execute(plan, directory, verbose=verbose, as_json=as_json, figures=figures)


def execute(  # noqa: PLR0913 - what the user asks for
    plan: Plan,
    directory: RunDirectory,
    *,
    verbose: int,
    as_json: bool,
    figures: bool,
    again: bool = False,
) -> None:
    """Execute the missing trials of the plan, draw the figures if wanted, print the table.

    With ``again`` trials that have failed are run, too. Raises what ``Run.execute`` does; exits
    as ``exit_as_judged`` does.
    """
    summary, drawn = measure(
        plan, directory, verbose=verbose, as_json=as_json, figures=figures, again=again
    )
    if as_json:
        print_json({"directory": str(directory.path), "summary": summary.model_dump(mode="json")})
    else:
        show(summary, directory.path, drawn, moment=Moment.END)
    exit_as_judged(summary)


def measure(  # noqa: PLR0913
    plan: Plan,
    directory: RunDirectory,
    *,
    verbose: int,
    as_json: bool,
    figures: bool,
    again: bool = False,
) -> tuple[Summary, list[Path]]:
    """Run as ``execute`` does; return the summary and the figures that were drawn."""
    with stopping() as stop:
        try:
            with progress_for(err, verbose, as_json) as observer:
                summary = Run(plan, directory, observer, stop, retries_failed=again).execute()
        except OsmefError as error:
            words = "osmef resume --again failed" if again else "osmef resume"
            resume = f"{words} {shlex.quote(str(directory.path))} goes on with the run"
            if error.exit_code == ProviderError.exit_code and not exists(directory.trials):
                resume += " unchanged; after a change of scenario or inventory, start a new run"
            error.cure = f"{error.cure}; {resume}" if error.cure else resume
            raise
        # A signal now has nothing left to stop, and the figures take a second.
        return summary, draw(directory) if figures else []


def exit_as_judged(summary: Summary) -> None:
    """Exit with 5 when a median misses its expected bound, with 1 when trials have failed."""
    verdicts = {one.verdict for cell in summary.cells for one in cell.expectations}
    if Verdict.MISSED in verdicts:
        raise typer.Exit(MISSED)
    if any(cell.n_failed for cell in summary.cells):
        raise typer.Exit(1)
