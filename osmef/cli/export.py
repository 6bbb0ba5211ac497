"""``osmef export``."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from osmef.cli.console import RunPath, err, print_text, reporting
from osmef.errors import InputError
from osmef.results.files import write_atomically
from osmef.results.find import run_called
from osmef.results.rundir import RunDirectory
from osmef.units import counted

if TYPE_CHECKING:
    import pandas as pd  # slow to load

EPILOG = """Examples:

osmef export ppbench results/pingpong-20261121T031500Z-3f9a -o pingpong.csv

osmef export csv RUN | head -3

osmef export openmetrics RUN -o /var/lib/node_exporter/osmef.prom

osmef export ro-crate RUN -o run.zip --author 'Ada Lovelace'"""


class Format(StrEnum):
    """Export formats."""

    CSV = "csv"
    NDJSON = "ndjson"
    OPENMETRICS = "openmetrics"
    INFLUX = "influx"
    OPENSEARCH = "opensearch"
    PPBENCH = "ppbench"
    RO_CRATE = "ro-crate"


def command(
    form: Annotated[
        Format,
        typer.Argument(
            metavar="FORMAT",
            help="`csv` or `ndjson`: each metric of each trial, with unit and labels;"
            " `openmetrics`: medians of cells; `influx`: lines of trials; `opensearch`: trials for"
            " its bulk API; `ppbench`: CSV with a row a message size; `ro-crate`: a zip archive of"
            " the run with metadata and CITATION.cff.",
        ),
    ],
    run: RunPath,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write it; standard output without it, or with `-`.",
            show_default=False,
        ),
    ] = None,
    author: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Whose the data is, for ro-crate. May be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the numbers of a run in the format of another program."""
    output = None if output == Path("-") else output
    with reporting():
        directory = _with_summary(run)
        if form is Format.RO_CRATE:
            told = _crate(directory, output, author or [])
        else:
            text, told = _texts(directory, form)
            if output is None:
                print_text(text)
                return
            write_atomically(output, text.encode())
    err.print(f"{told}: {escape(str(output))}")


def _with_summary(run: Path) -> RunDirectory:
    directory = RunDirectory.open(run_called(run))
    if not directory.summary.exists():
        raise InputError(
            "the run has no summary yet",
            where=str(run),
            cure=f"if it was killed, go on with: osmef resume {run}",
        )
    return directory


def _texts(directory: RunDirectory, form: Format) -> tuple[str, str]:
    """Return the exported text, and the number of its items."""
    if form is Format.PPBENCH:
        return _ppbench(directory)
    if form is Format.OPENMETRICS:
        from osmef.report.export.openmetrics import write_openmetrics  # noqa: PLC0415

        summary = directory.read_summary()
        return "".join(write_openmetrics(summary)), counted(len(summary.cells), "cell")
    # pandas takes a while to load
    from osmef.report.export import samples  # noqa: PLC0415
    from osmef.results.frame import load  # noqa: PLC0415

    writers: Mapping[Format, Callable[[pd.DataFrame], Iterable[str]]] = {
        Format.CSV: samples.write_csv,
        Format.NDJSON: samples.write_ndjson,
        Format.INFLUX: samples.write_influx,
        Format.OPENSEARCH: samples.write_opensearch,
    }
    lines = list(writers[form](load(directory.path)))
    return "".join(lines), counted(len(lines), "line")


def _crate(directory: RunDirectory, output: Path | None, authors: list[str]) -> str:
    from osmef.report.export.crate import write_crate  # noqa: PLC0415

    if output is None:
        raise InputError(
            "a zip archive goes to a file", where="--output", cure="add -o run.zip, for example"
        )
    counts: list[int] = []
    write_atomically(output, lambda file: counts.append(write_crate(file, directory, authors)))
    return counted(counts[-1], "file")


def _ppbench(directory: RunDirectory) -> tuple[str, str]:
    # pandas takes a while to load
    from osmef.report.ppbench import write_ppbench  # noqa: PLC0415
    from osmef.results.frame import load_requests  # noqa: PLC0415

    text = io.StringIO()
    rows = write_ppbench(text, directory.read_summary(), load_requests(directory.path))
    return text.getvalue(), counted(rows, "row")
