"""``osmef similarity``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from osmef.cli.console import AsJson, err, out, print_json, print_note, reporting
from osmef.errors import InputError
from osmef.report.fit import column, table

if TYPE_CHECKING:
    import pandas as pd

EPILOG = """Examples:

osmef similarity machines.csv

osmef similarity machines.csv --most 1 --json

osmef similarity results/aws-* results/gce-*

osmef similarity results/* --cheapest --prices prices.yaml

The columns of the file are provider, flavor, and whichever were measured of threads, cpu_s, \
memory_mb, memory_mb_per_s, disk_read_mb_per_s, disk_write_mb_per_s and network_mb_per_s; each row \
is a measurement. The median is compared; six measurements give an interval. Runs contain the \
threads and memory of their flavors, and the other components that their workloads measure. Only \
components that one program measured on all machine types are used. As a heatmap: \
osmef plot similarity machines.csv"""

_PARTS = 2
"""How many of the components that decide are shown in a table."""


def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    machines: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|RUNS...", help="Measurements of machine types, CSV, or runs of them."
        ),
    ],
    most: Annotated[
        int, typer.Option(min=1, help="How many counterparts of a machine type to show.")
    ] = 3,
    within: Annotated[
        bool, typer.Option("--within", help="Rank machine types of the same provider, too.")
    ] = False,
    cheapest: Annotated[
        bool,
        typer.Option(
            "--cheapest", help="Show the cheapest counterpart that is at least of the same class."
        ),
    ] = False,
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Prices, YAML or CSV; without it those that the runs recorded.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rank, for each machine type, those of other providers by how similar they are."""
    with reporting(as_json):
        # pandas takes a while to load
        from osmef.analysis.similarity import counterparts  # noqa: PLC0415
        from osmef.report.data import Data  # noqa: PLC0415
        from osmef.report.machine_types import measured_machines, table_among  # noqa: PLC0415

        if prices is not None and not cheapest:
            cure = "add --cheapest, or leave --prices out"
            raise InputError("nothing of this has to do with prices", where="--prices", cure=cure)
        file = table_among(machines)
        data = Data(*machines)
        measured = measured_machines(data, file)
        found = counterparts(measured, within=within)
        if found.empty:
            raise InputError(
                "no machine type is of another provider",
                where=", ".join(map(str, machines)),
                cure="give machine types of two providers, or add --within",
            )
        costs = _costs(data, measured, prices, has_runs=file is None) if cheapest else []
        rows = _records(found[found["rank"] <= most])
        if as_json:
            by = dict(zip(measured["component"], measured["by"], strict=True))
            told = {"components": list(by), "by": by, "left_out": measured.attrs.get("left", {})}
            print_json({**told, "counterparts": rows, "cheapest": costs})
            return
    _print(rows, measured)
    if cheapest:
        _print_costs(costs)


def _costs(
    data: Any, measured: pd.DataFrame, file: Path | None, *, has_runs: bool
) -> list[dict[str, Any]]:
    """Return the cheapest counterparts. Raises InputError without any known price."""
    from osmef.analysis.similarity import cheapest  # noqa: PLC0415
    from osmef.report.machine_types import machine_prices, price_table  # noqa: PLC0415

    if file is None and not has_runs:
        cure = "add --prices prices.yaml"
        raise InputError("a table of measurements has no prices", where="--cheapest", cure=cure)
    known = price_table(data, file)
    rows = _records(cheapest(measured, machine_prices(data, known) if has_runs else known))
    if not rows:
        cure = "give them with --prices, by provider and flavor"
        raise InputError("no machine type has a price", where="--cheapest", cure=cure)
    return rows


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows for JSON, with None for unknown values."""
    known = table.astype(object).where(table.notna(), None)
    return [{str(key): value for key, value in row.items()} for row in known.to_dict("records")]


def _print(rows: Sequence[Mapping[str, Any]], measured: pd.DataFrame) -> None:
    intervals = [
        "" if row["ci95_low"] is None else f"{row['ci95_low']:.3f} to {row['ci95_high']:.3f}"
        for row in rows
    ]
    ranks = [f"{row['rank']}{' *' if row['tied'] else ''}" for row in rows]
    columns = [
        column("machine type", [str(row["machine"]) for row in rows]),
        column("rank", ranks),
        column("counterpart", [str(row["counterpart"]) for row in rows]),
        column("similarity", [f"{row['similarity']:.3f}" for row in rows], right=True),
        column("95 %", intervals, rank=1),
        column("differs most in", [_decided(row["decided_by"]) for row in rows], rank=2),
    ]
    out.print(table(columns, out.width))
    out.print(escape(_by(dict(zip(measured["component"], measured["by"], strict=True)))))
    if any(row["tied"] for row in rows):
        out.print("* can't be distinguished from the first: the intervals overlap")
    for name, missing in measured.attrs.get("left", {}).items():
        text = f"{_word(name)} is left out: it was not measured on {', '.join(missing)}"
        print_note(err, text)


def _decided(parts: Sequence[Mapping[str, Any]]) -> str:
    """Describe the components in which a counterpart differs, as ratios."""
    return ", ".join(f"{_word(one['component'])} x{one['ratio']:.2f}" for one in parts[:_PARTS])


def _by(programs: Mapping[str, str]) -> str:
    """Name the workload that measured each component; once if it is the same for all."""
    if len(set(programs.values())) == 1:
        (by,) = set(programs.values())
        return f"by {', '.join(map(_word, programs))}, of {by}"
    return "by " + ", ".join(f"{_word(name)} ({by})" for name, by in programs.items())


def _word(component: str) -> str:
    from osmef.analysis.similarity import COMPONENT_WORDS  # noqa: PLC0415 - pandas is slow to load

    return COMPONENT_WORDS[component]


def _print_costs(rows: Sequence[Mapping[str, Any]]) -> None:
    found = [(row, row["counterpart"] is not None) for row in rows]
    columns = [
        column("machine type", [str(row["machine"]) for row in rows]),
        column("price\nper hour", [_price(row, "price_per_hour") for row in rows], right=True),
        column(
            "cheapest of its\nclass elsewhere",
            [str(row["counterpart"]) if has else "none" for row, has in found],
        ),
        column(
            "price\nper hour",
            [_price(row, "counterpart_price_per_hour") if has else "" for row, has in found],
            right=True,
        ),
        column(
            "saves", [f"{100 * row['saving']:.0f} %" if has else "" for row, has in found],
            right=True,
        ),
    ]  # fmt: skip
    out.print(table(columns, out.width))
    out.print("of its class: in no component worse by more than 10 %")


def _price(row: Mapping[str, Any], key: str) -> str:
    return f"{row[key]:g} {row['currency']}"
