"""``osmef verify-methods``."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from osmef.cli.console import AsJson, out, print_json, reporting
from osmef.importers.published import Agreement, Line, check_folder
from osmef.report.table import keep_whole

EPILOG = """Example:

osmef verify-methods ../shared/data

The folder holds what others have published, as docs/methods.md names it; it is no part of OSMeF. \
Exit code 1 says that a value differs without a known reason."""


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the published data is.")],
    as_json: AsJson = False,
) -> None:
    """Compute published results anew from their data: printed value, ours, deviation, verdict."""
    with reporting(as_json):
        lines = check_folder(folder)
        if as_json:
            print_json({"lines": [_record(line) for line in lines]})
        else:
            _print(lines)
    if any(line.agreement is Agreement.DIFFERENT for line in lines):
        raise typer.Exit(1)


def _record(line: Line) -> dict[str, Any]:
    told = asdict(line)
    return {
        **told,
        "deviation_percent": line.deviation_percent,
        "verdict": line.agreement.value,
        "why": line.why if line.agreement is Agreement.WRONG_THERE else None,
    }


def _print(lines: list[Line]) -> None:
    table = Table("source", "what", box=SIMPLE_HEAD)
    for head in ("published", "ours", "deviation %", "may be apart"):
        table.add_column(head, justify="right")
    table.add_column("verdict")
    for line in lines:
        table.add_row(
            escape(line.source),
            escape(line.what),
            _number(line.published),
            _number(line.ours),
            "-" if line.deviation_percent is None else f"{line.deviation_percent:+.2f}",
            f"{line.within:.2g}",
            escape(_verdict(line)),
        )
    out.print(keep_whole(table))
    counts = Counter(line.agreement for line in lines)
    told = ", ".join(f"{counts[one]} {one}" for one in Agreement if counts[one])
    out.print(f"{len(lines)} published values: {told}")


def _verdict(line: Line) -> str:
    if line.agreement is Agreement.WRONG_THERE:
        return f"{line.agreement}: {line.why}"
    return line.agreement.value


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if math.isfinite(value) else str(value)
