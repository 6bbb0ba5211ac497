"""``osmef export``."""

from __future__ import annotations

import io
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from osmef.cli.console import RunPath, err, print_text, reporting
from osmef.errors import InputError
from osmef.results.called import run_called
from osmef.results.files import write_atomically
from osmef.results.rundir import RunDirectory

EPILOG = """Examples:

osmef export ppbench results/pingpong-20261121T031500Z-3f9a -o pingpong.csv

osmef export ppbench RUN | head -3"""


class Format(StrEnum):
    """What other programs read."""

    PPBENCH = "ppbench"


def command(
    _format: Annotated[
        Format,
        typer.Argument(
            metavar="FORMAT", help="The format: `ppbench`, a CSV file with a row a message size."
        ),
    ],
    run: RunPath,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write it; standard output without it.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the numbers of a run in the format of another program."""
    with reporting():
        text, rows = _ppbench(run)
        if output is None:
            print_text(text)
            return
        write_atomically(output, text.encode())
    err.print(f"{rows} rows: {escape(str(output))}")


def _ppbench(run: Path) -> tuple[str, int]:
    # pandas takes a while to load
    from osmef.report.ppbench import write_ppbench  # noqa: PLC0415
    from osmef.results.rows import load_requests  # noqa: PLC0415

    directory = RunDirectory.open(run_called(run))
    if not directory.summary.exists():
        raise InputError(
            "the run has no summary yet",
            where=str(run),
            cure=f"if it was killed, go on with: osmef resume {run}",
        )
    text = io.StringIO()
    rows = write_ppbench(text, directory.read_summary(), load_requests(directory.path))
    return text.getvalue(), rows
