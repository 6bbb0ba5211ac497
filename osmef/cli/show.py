"""``osmef show``."""

from __future__ import annotations

from typing import Annotated

import typer

from osmef.cli.console import AsJson, RunPath, print_json, reporting
from osmef.cli.shown import show
from osmef.errors import InputError
from osmef.results.find import run_called
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary

EPILOG = """Examples:

osmef show results/quickstart-20261121T031500Z-3f9a

osmef show RUN --json | jq '.cells[] | [.key, .metrics.aggregate_btc_bps.median]'"""


def command(
    run: RunPath,
    wide: Annotated[
        bool, typer.Option("--wide", help="Show all columns, wherever a terminal breaks the lines.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the table of a run again; of one that was cut, what it has."""
    with reporting(as_json):
        directory = RunDirectory.open(run_called(run))
        summary = directory.read_summary() if directory.summary.exists() else _so_far(directory)
        if as_json:
            print_json(summary.model_dump(mode="json"))
        else:
            show(summary, directory.path, sorted(directory.path.glob("*.png")), whole=wide)


def _so_far(directory: RunDirectory) -> Summary:
    """Summarise an interrupted or running run from the trials that it has."""
    from osmef.engine.resume import reopen  # noqa: PLC0415 - the engine is slow to load
    from osmef.engine.summarise import summarise  # noqa: PLC0415

    plan = reopen(directory)
    if not directory.read_trials().trials:
        raise InputError(
            "the run has no trial yet",
            where=str(directory.path),
            cure=f"if it was killed, go on with: osmef resume {directory.path}",
        )
    return summarise(plan, directory)
