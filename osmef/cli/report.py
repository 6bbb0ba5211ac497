"""``osmef report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from osmef.cli.completion import complete_run
from osmef.cli.console import PAGE_HELP, err, out, print_note, reporting
from osmef.units import counted

EPILOG = """Examples:

osmef report results/quickstart-20261121T031500Z-3f9a -o report.html

osmef report results/vm-to-vm-* --title "Two weeks of one cloud" -o cloud.html

The page needs no network and no other file."""


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS",
            autocompletion=complete_run,
            help="Run directories, directories that hold some, or patterns of them.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help=PAGE_HELP)] = Path(
        "report.html"
    ),
    title: Annotated[
        str | None,
        typer.Option(help="What the page is called; without, the scenario.", show_default=False),
    ] = None,
) -> None:
    """Write one page with the results: findings, tables, figures and placement."""
    with reporting():
        from osmef.report.html.page import write_report  # noqa: PLC0415 - matplotlib loads slowly

        readings = write_report(runs, output, title)
    for reading in readings:
        if reading.summary is None:
            print_note(err, f"{reading.path} has not ended")
    size = output.stat().st_size / 1e6
    out.print(f"{counted(len(readings), 'run')}, {size:.1f} MB: {escape(str(output))}")
