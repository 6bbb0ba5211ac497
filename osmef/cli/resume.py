"""``osmef resume``."""

from __future__ import annotations

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
from osmef.engine.controller import refuse_second
from osmef.engine.reap import destroy, leftovers, refusal_of
from osmef.engine.resume import reopen
from osmef.results.rundir import RunDirectory

ControllerIsDead = Annotated[
    bool,
    typer.Option(
        "--controller-is-dead",
        help="Go on also where the run was begun on another machine: you know it is dead there.",
    ),
]

EPILOG = """Example:

osmef resume results/quickstart-20261121T031500Z-3f9a

Trials that have ended, well or not, are kept. What the interrupted run left behind is destroyed \
first. Exit codes are those of `osmef run`."""


def command(
    run: RunPath,
    controller_is_dead: ControllerIsDead = False,
    figures: Figures = True,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Go on with a run that was interrupted or killed."""
    set_up_logging(verbose)
    with reporting(as_json), RunDirectory.open(run) as directory:
        directory.acquire()
        refuse_second(directory, is_dead=controller_is_dead)
        orphans = leftovers(directory)
        for error in filter(None, map(refusal_of, orphans)):
            raise error
        for orphan in orphans:
            err.print(f"destroying what was left: {escape(orphan.resource.name)}")
        with stopping() as stop:  # not in the middle of it
            for left in destroy(orphans):
                raise left.error
            stop.check()
        plan = reopen(directory)
        check_provider(plan)
        execute(plan, directory, verbose=verbose, as_json=as_json, figures=figures)
