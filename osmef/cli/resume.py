"""``osmef resume`` and ``extend``: go on with a run, and add trials to it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.markup import escape

from osmef.cli.console import (
    AsJson,
    Figures,
    RunPath,
    Verbose,
    err,
    reporting,
    set_up_logging,
    stopping,
)
from osmef.cli.execution import execute
from osmef.engine.check import check_provider
from osmef.engine.cost import check_budget, cost_of
from osmef.engine.journal import refuse_second
from osmef.engine.reap import destroy, leftovers, refusal_of
from osmef.engine.recovery import extend, note_extension, reopen
from osmef.errors import InputError
from osmef.results.rundir import RunDirectory, run_called
from osmef.scenario.workload import MOST_TRIALS

ControllerIsDead = Annotated[
    bool,
    typer.Option(
        "--controller-is-dead",
        help="Resume a run that another machine has begun: you know that its controller is dead.",
    ),
]


class RemeasuredTrials(StrEnum):
    """Which trials that have ended are measured again."""

    FAILED = "failed"


AgainOption = Annotated[
    RemeasuredTrials | None,
    typer.Option(
        "--again",
        help="Repeat failed trials, too. Their old records stay in trials.jsonl;"
        " the newest one of a trial counts.",
        show_default=False,
    ),
]

RESUME_EPILOG = """Examples:

osmef resume results/quickstart-20261121T031500Z-3f9a

osmef resume --again failed results/quickstart-20261121T031500Z-3f9a

Trials that have ended are kept, those that have failed, too, unless with `--again failed`. What \
the interrupted run left behind is destroyed first. Exit codes are those of `osmef run`."""


def resume_command(  # noqa: PLR0913, PLR0917 - its options
    run: RunPath,
    controller_is_dead: ControllerIsDead = False,
    again: AgainOption = None,
    figures: Figures = True,
    as_json: AsJson = False,
    verbose: Verbose = 0,
) -> None:
    """Go on with a run that was interrupted or killed, or that has lost endpoints."""
    set_up_logging(verbose)
    with reporting(as_json), RunDirectory.open(run_called(run)) as directory:
        take_over(directory, is_dead=controller_is_dead)
        plan = reopen(directory)
        check_provider(plan)
        execute(
            plan,
            directory,
            verbose=verbose,
            as_json=as_json,
            figures=figures,
            again=again is RemeasuredTrials.FAILED,
        )


def take_over(directory: RunDirectory, *, is_dead: bool) -> None:
    """Become the controller of a run, and destroy the resources of the previous one.

    Raises InputError where another one may be alive, and what ``destroy`` raises.
    """
    directory.acquire()
    refuse_second(directory, is_dead=is_dead)
    orphans = leftovers(directory)
    for error in filter(None, map(refusal_of, orphans)):
        raise error
    for orphan in orphans:
        err.print(f"destroying what was left: {escape(orphan.resource.name)}")
    with stopping() as stop:  # not in the middle of it
        for left in destroy(orphans):
            raise left.error
        stop.check()


EXTEND_EPILOG = """Examples:

osmef extend latest --repeat 20

osmef statistics latest

`osmef statistics` says how many trials each cell needs. The existing trials are kept, and count \
towards N. The new ones are measured at another time, which a note of the result says. An \
interrupted run is measured to its end, too. Exit codes are those of `osmef run`."""


def extend_command(  # noqa: PLR0913, PLR0917 - its options
    run: RunPath,
    repeat: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Number of trials of each cell, including existing ones."
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
