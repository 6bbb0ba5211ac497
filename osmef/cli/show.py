"""``osmef show``."""

from __future__ import annotations

from typing import Annotated

import typer

from osmef.cli.console import AsJson, RunPath, print_json, reporting
from osmef.cli.shown import show
from osmef.errors import InputError
from osmef.results.called import run_called
from osmef.results.rundir import RunDirectory

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
    """Print the table of a run again."""
    with reporting(as_json):
        directory = RunDirectory.open(run_called(run))
        if not directory.summary.exists():
            raise InputError(
                "the run has no summary yet",
                where=str(run),
                cure=f"if it was killed, go on with: osmef resume {run}",
            )
        summary = directory.read_summary()
        if as_json:
            print_json(summary.model_dump(mode="json"))
        else:
            show(summary, directory.path, sorted(directory.path.glob("*.png")), whole=wide)
