"""``osmef import``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from osmef.cli.console import AsJson, Figures, Out, err, print_json, reporting
from osmef.cli.console import out as console
from osmef.cli.shown import draw

EPILOG = """Examples:

osmef import osmef2013 runs.tar.gz --out published

osmef import iperf3 *.json --provider aws --name placement-group

osmef import nuttcp results.txt && osmef show results/nuttcp-*

Exit codes: 0 all was imported as it stands, 1 something was odd or left out and was reported, \
2 nothing could be read."""


class Kind(StrEnum):
    """What can be imported."""

    OSMEF2013 = "osmef2013"
    PPBENCH = "ppbench"
    APACHEBENCH = "apachebench"
    IPERF3 = "iperf3"
    NUTTCP = "nuttcp"
    NETPERF = "netperf"
    NETPIPE = "netpipe"
    SESSIONS = "sessions"
    CWB2018 = "cwb2018"
    PKB = "pkb"
    SHAKER = "shaker"
    FLENT = "flent"
    SIEGE = "siege"


def command(  # noqa: PLR0913, PLR0917 - its options
    kind: Annotated[Kind, typer.Argument(help="What the files are.", metavar="KIND")],
    files: Annotated[
        list[Path],
        typer.Argument(help="Files, directories of them, or tar archives.", metavar="FILES..."),
    ],
    out: Out = Path("results"),
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the scenario; by default what the files tell, or the kind.",
            show_default=False,
        ),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(help="The kind of cloud, where the files do not tell.", show_default=False),
    ] = None,
    pool_ends: Annotated[
        bool,
        typer.Option(
            "--pool-ends",
            help="Take outputs of the same settings as one cell, whichever machines they are of,"
            " such as fresh VMs each time.",
        ),
    ] = False,
    figures: Figures = True,
    as_json: AsJson = False,
) -> None:
    """Make run directories of the results of another program."""
    with reporting(as_json):
        # scipy takes a while to load
        from osmef.importers import import_files  # noqa: PLC0415
        from osmef.importers.write import MOST_NOTES, NOTES  # noqa: PLC0415

        done = import_files(kind.value, files, out, name, provider, pool_ends=pool_ends)
        for run in done.runs if figures else []:
            draw(run)
    more = len(done.oddities) - MOST_NOTES
    rest = f"and {more} more: all are in the summaries of the runs, or in their {NOTES}"
    told = [str(oddity) for oddity in done.oddities[:MOST_NOTES]]
    for note in (*told, *([rest] if more > 0 else []), *done.notes):
        err.print(f"[yellow]note[/]: {escape(note)}")
    if as_json:
        print_json(
            {
                "directories": [str(run.path) for run in done.runs],
                "files": done.files,
                "trials": done.trials,
                "oddities": [vars(oddity) for oddity in done.oddities],
                "notes": done.notes,
            }
        )
    else:
        for run in done.runs:
            console.print(f"run: [bold]{escape(str(run.path))}[/]")
        left = sum(not oddity.kept for oddity in done.oddities)
        odd = len(done.oddities) - left
        console.print(f"{done.files} files, {done.trials} trials; {odd} odd, {left} not imported")
    if done.oddities:
        raise typer.Exit(1)
