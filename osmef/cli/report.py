"""``osmef report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from osmef.cli.console import err, out, reporting
from osmef.errors import InputError

EPILOG = """Examples:

osmef report results/quickstart-20261121T031500Z-3f9a -o report.html

osmef report results/vm-to-vm-* --title "Two weeks of one cloud" -o cloud.html

The page needs no network and no other file."""


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS...",
            help="Run directories, directories that hold some, or patterns of them.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the page.")
    ] = Path("report.html"),
    title: Annotated[
        str | None,
        typer.Option(help="What the page is called; without, the scenario.", show_default=False),
    ] = None,
) -> None:
    """Write one page of what was measured, where, and how sure it is."""
    with reporting():
        from osmef.report.html.page import write_report  # noqa: PLC0415 - matplotlib loads slowly

        if output.suffix.lower() not in {".html", ".htm"}:
            raise InputError(
                f"a page can't be written as {output.name}",
                where="--output",
                cure="let the file end with .html",
            )
        readings = write_report(runs, output, title)
    for reading in readings:
        if reading.summary is None:
            err.print(f"[yellow]note[/]: {escape(str(reading.path))} has not ended")
    size = output.stat().st_size / 1e6
    out.print(
        f"{len(readings)} run{'s' * (len(readings) > 1)}, {size:.1f} MB: {escape(str(output))}"
    )
