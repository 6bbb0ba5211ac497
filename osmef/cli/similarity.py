"""``osmef similarity``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from osmef.cli.console import AsJson, out, print_json, reporting
from osmef.errors import InputError
from osmef.report.table import keep_whole

EPILOG = """Examples:

osmef similarity machines.csv

osmef similarity machines.csv --most 1 --json

osmef similarity results/aws-* results/gce-*

The columns of the file are provider, flavor, and those that were measured of threads, cpu_s, \
memory_mb, memory_mb_per_s, disk_read_mb_per_s, disk_write_mb_per_s and network_mb_per_s; of \
several rows of a machine type the median counts. Runs tell the threads, the memory and the rate \
of their flavors, and only these count then. As a heatmap: osmef plot similarity --machines \
machines.csv"""


def command(
    machines: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|RUNS...", help="Measurements of machine types, CSV, or runs of them."
        ),
    ],
    most: Annotated[
        int, typer.Option(min=1, help="How many counterparts of a machine type to show.")
    ] = 3,
    as_json: AsJson = False,
) -> None:
    """Rank, for each machine type, those of other providers by how similar they are."""
    with reporting(as_json):
        # pandas takes a while to load
        from osmef.analysis.similarity import counterparts  # noqa: PLC0415
        from osmef.report.data import Data  # noqa: PLC0415
        from osmef.report.machine_types import similar_machines  # noqa: PLC0415

        file = machines[0] if len(machines) == 1 and machines[0].suffix == ".csv" else None
        matrix = similar_machines(Data(*machines), file)
        found = counterparts(matrix)
        if found.empty:
            raise InputError(
                "no machine type is of another provider",
                where=", ".join(map(str, machines)),
                cure="give machine types of two providers; osmef plot similarity draws them all",
            )
        rows = found[found["rank"] <= most].to_dict("records")
        if as_json:
            print_json({"components": matrix.attrs["components"], "counterparts": rows})
            return
    table = Table("machine type", "rank", "counterpart", "similarity", box=SIMPLE_HEAD)
    last = None
    for row in rows:
        name = "" if row["machine"] == last else str(row["machine"])
        last = row["machine"]
        values = (str(row["rank"]), escape(str(row["counterpart"])), f"{row['similarity']:.3f}")
        table.add_row(escape(name), *values)
    out.print(keep_whole(table))
    out.print(f"by {', '.join(matrix.attrs['components'])}")
