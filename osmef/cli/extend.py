"""``osmef extend``."""

from __future__ import annotations

from typing import Annotated

import typer

from osmef.cli.console import AsJson, Figures, RunPath, Verbose, reporting, set_up_logging
from osmef.cli.execution import execute
from osmef.cli.resume import ControllerIsDead, take_over
from osmef.engine.check import check_provider
from osmef.engine.cost import check_budget, cost_of
from osmef.engine.resume import extend, note_extension, reopen
from osmef.errors import InputError
from osmef.results.find import run_called
from osmef.results.rundir import RunDirectory
from osmef.scenario.trials import MOST_TRIALS

EPILOG = """Examples:

osmef extend latest --repeat 20

osmef statistics latest

`osmef statistics` says how many trials each cell needs. Those that the run has are kept, and come \
first. The new ones are of another time, which a note of the result says. A run that was cut is \
measured to its end, too. Exit codes are those of `osmef run`."""


def command(  # noqa: PLR0913, PLR0917 - its options
    run: RunPath,
    repeat: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Trials each cell shall have, including those it has."
        ),
    ],
    controller_is_dead: ControllerIsDead = False,
    figures: Figures = True,
    as_json: AsJson = False,
    verbose: Verbose = 0,
) -> None:
    """Add trials to a run: to the same cells, on new endpoints like those that it had."""
    set_up_logging(verbose)
    with reporting(as_json), RunDirectory.open(run_called(run)) as directory:
        if repeat > MOST_TRIALS:
            raise InputError(
                f"--repeat: {repeat} is too many", cure=f"give a number of at most {MOST_TRIALS}"
            )
        take_over(directory, is_dead=controller_is_dead)
        plan = reopen(directory)
        longer = extend(directory, plan, repeat)
        check_budget(longer, cost_of(longer))
        check_provider(longer)
        note_extension(directory, longer)
        execute(longer, directory, verbose=verbose, as_json=as_json, figures=figures)
