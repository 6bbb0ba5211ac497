"""``osmef import``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from osmef.cli.console import AsJson, Figures, Out, err, print_json, print_note, reporting
from osmef.cli.console import out as console
from osmef.cli.shown import draw
from osmef.units import counted

if TYPE_CHECKING:
    from osmef.importers import Imported  # pandas takes a while to load

EPILOG = """Examples:

osmef import osmef2013 runs.tar.gz --out published

osmef import iperf3 *.json --provider aws --name placement-group

osmef import nuttcp results.txt && osmef show results/nuttcp-*

Exit codes: 0 everything was imported, 1 something was unusual or left out and was reported, \
2 nothing could be read."""


class ImportKind(StrEnum):
    """Formats that can be imported."""

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
    kind: Annotated[
        ImportKind,
        typer.Argument(help=f"What the files are: {', '.join(ImportKind)}.", metavar="KIND"),
    ],
    files: Annotated[
        list[Path],
        typer.Argument(help="Files, directories of them, or tar archives.", metavar="FILES"),
    ],
    out: Out = Path("results"),
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the scenario; by default as in the files, or the kind.",
            show_default=False,
        ),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(help="The kind of cloud, where the files do not say.", show_default=False),
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
        # pandas takes a while to load
        from osmef.importers import import_files  # noqa: PLC0415
        from osmef.importers.write import shortened  # noqa: PLC0415

        done = import_files(kind.value, files, out, name, provider, pool_ends=pool_ends)
        for run in done.runs if figures else []:
            draw(run)
    for note in (*shortened(done.oddities), *done.notes):
        print_note(err, note)
    if as_json:
        print_json(_document(done))
    else:
        _show(done)
    if done.oddities:
        raise typer.Exit(1)


def _document(done: Imported) -> dict[str, object]:
    return {
        "directories": [str(run.path) for run in done.runs],
        "files": done.files,
        "trials": done.trials,
        "oddities": [vars(oddity) for oddity in done.oddities],
        "notes": done.notes,
    }


def _show(done: Imported) -> None:
    """Print the run directories, the number of trials, and the oddities."""
    for run in done.runs:
        console.print(f"run: [bold]{escape(str(run.path))}[/]")
    left = sum(not oddity.kept for oddity in done.oddities)
    told = [counted(done.files, "file"), counted(done.trials, "trial")]
    if odd := len(done.oddities) - left:
        told.append(f"{odd} with something unusual")
    if left:
        told.append(f"{left} not imported")
    console.print(", ".join(told))
