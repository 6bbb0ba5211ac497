"""``osmef verify-methods``."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from osmef.cli.console import AsJson, out, print_json, reporting
from osmef.importers.published import Agreement, PublishedValue, check_folder
from osmef.report.fit import column, table
from osmef.units import counted

EPILOG = """Example:

osmef verify-methods published

The folder holds what others have published, as docs/methods.md names it; it is no part of OSMeF. \
Exit code 1 says that a value differs without a known reason."""


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the published data is.")],
    as_json: AsJson = False,
) -> None:
    """Recompute published results from their data: printed value, ours, deviation, verdict."""
    with reporting(as_json):
        lines = check_folder(folder)
        if as_json:
            print_json({"lines": [_record(line) for line in lines]})
        else:
            _print(lines)
    if any(line.agreement is Agreement.DIFFERENT for line in lines):
        raise typer.Exit(1)


def _record(line: PublishedValue) -> dict[str, Any]:
    told = asdict(line)
    return {
        **told,
        "deviation_percent": line.deviation_percent,
        "verdict": line.agreement.value,
        "why": line.why if line.agreement is Agreement.WRONG_THERE else None,
    }


def _print(lines: list[PublishedValue]) -> None:
    columns = [
        column("value", [f"{line.source}: {line.what}" for line in lines]),
        column("published", [_number(line.published) for line in lines], right=True),
        column("ours", [_number(line.ours) for line in lines], right=True),
        column("deviation\n%", [_deviation(line) for line in lines], rank=1, right=True),
        column("may be\napart", [f"{line.within:.2g}" for line in lines], rank=2, right=True),
        column("verdict", [line.agreement.value for line in lines]),
    ]
    wrong = [line for line in lines if line.agreement is Agreement.WRONG_THERE]
    why = [f"Wrong there, {line.source}: {line.what}: {line.why}" for line in wrong]
    out.print(table(columns, out.width, *why))
    counts = Counter(line.agreement for line in lines)
    told = ", ".join(f"{counts[one]} {one}" for one in Agreement if counts[one])
    out.print(f"{counted(len(lines), 'published value')}: {told}")


def _deviation(line: PublishedValue) -> str:
    return "-" if line.deviation_percent is None else f"{line.deviation_percent:+.2f}"


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if math.isfinite(value) else str(value)
