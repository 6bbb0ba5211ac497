"""``osmef compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from osmef.analysis.differences import MOVING, Difference, differences
from osmef.analysis.direction import Direction, direction
from osmef.cli.console import AsJson, err, out, print_json, reporting
from osmef.errors import InputError
from osmef.results.brief import brief_summary
from osmef.results.find import find_runs
from osmef.results.rundir import RunDirectory
from osmef.scenario.load import load as load_scenario

if TYPE_CHECKING:
    import pandas as pd  # slow to load

EPILOG = """Examples:

osmef compare results/baseline-20261101T031500Z-3f9a results/new-20261121T031500Z-81c2

osmef compare BASELINE RUN --metric aggregate_btc_bps --margin 3 --fail-on regression

osmef compare 'results/october-*' 'results/november-*'"""

_COLOURS = {"better": "green", "worse": "red", "same": "dim", "inconclusive": "yellow"}


class Better(StrEnum):
    """Which way of a metric is better."""

    HIGHER = "higher"
    LOWER = "lower"


class FailOn(StrEnum):
    """What makes the exit code 1."""

    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


def command(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    a: Annotated[
        Path,
        typer.Argument(
            metavar="A",
            help="What to compare with, a baseline: a run, a directory of runs, or a pattern.",
        ),
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="What is compared, likewise.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this metric. May be repeated. Without: all that have a better way.",
            show_default=False,
        ),
    ] = None,
    better: Annotated[
        Better | None,
        typer.Option(
            help="Which way of the metrics of --metric is better, where their names don't tell.",
            show_default=False,
        ),
    ] = None,
    margin: Annotated[
        float, typer.Option(min=0, help="How many percent of A's median do not matter.")
    ] = 5.0,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            help="Exit with 1 if anything is worse, or also if anything is inconclusive.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs, cell by cell: better, worse, the same, or inconclusive.

    Several runs of a side are taken together, each scenario for itself.
    """
    with reporting(as_json):
        sides = find_runs(a), find_runs(b)
        _same_definition(*sides)
        table = _compared(a, b, metric, margin, better)
        if fail_on is not None and better is None:
            _refuse_unknown_ways(table)
        hosts = _hosts(*sides)
        rows = table.to_dict("records")
        if as_json:
            print_json(_document(table, hosts))
        else:
            _show(rows, table.attrs, hosts)
        found = {str(row["verdict"]) for row in rows}
        lost = bool(table.attrs["only_a"]) or any(row["n_a"] and not row["n_b"] for row in rows)
        regressed = "worse" in found or lost
        unclear = fail_on is FailOn.INCONCLUSIVE and "inconclusive" in found
        if fail_on is not None and (regressed or unclear):
            raise typer.Exit(1)


def _refuse_unknown_ways(table: pd.DataFrame) -> None:
    """Raise InputError for metrics of which nobody can say that they got worse."""
    names = [str(name) for name in table["metric"].unique()]
    unknown = [name for name in names if direction(name) is Direction.NEITHER]
    if unknown:
        raise InputError(
            f"nobody knows which way of {', '.join(unknown)} is better",
            where="--fail-on",
            cure="add --better higher or --better lower",
        )


def _compared(
    a: Path, b: Path, metrics: list[str] | None, margin: float, better: Better | None
) -> pd.DataFrame:
    # pandas takes a while to load
    from osmef.analysis.compare import compare  # noqa: PLC0415
    from osmef.results.frame import load  # noqa: PLC0415

    first, second = load(a), load(b)
    if max(first["scenario"].nunique(), second["scenario"].nunique()) > 1:
        for side in (first, second):  # cells of two scenarios may be called alike
            side["cell"] = side["scenario"] + ": " + side["cell"]
    for name in metrics or ():
        if name not in first and name not in second:
            raise InputError(
                f"neither run has a metric {name!r}",
                where="--metric",
                cure="give one of those in `osmef show RUN --json`",
            )
    if better is not None and not metrics:
        raise InputError(
            "which way is better is said of a metric", where="--better", cure="add --metric NAME"
        )
    told = None if better is None else Direction(better)
    table = compare(first, second, metrics or None, margin / 100, better=told)
    if table.empty:
        raise InputError(
            "no metric that these cells have says by its name which way is better"
            if not metrics
            else f"no trial of these cells has {', '.join(metrics)}",
            where="--metric",
            cure="name one of those in `osmef show RUN --json`, and add --better higher or lower",
        )
    return table


def _same_definition(a: Sequence[RunDirectory], b: Sequence[RunDirectory]) -> None:
    """Raise InputError where a cell of several runs was to be measured in two ways."""
    known: dict[tuple[str, str], dict[str, object]] = {}
    names = len({_name(run) for run in a}) > 1 or len({_name(run) for run in b}) > 1
    problems: dict[str, None] = {}
    for run in (*a, *b):
        scenario = _name(run) if names else ""
        for cell, settings in _settings(run).items():
            first = known.setdefault((scenario, cell), settings)
            for one in differences(first, settings):
                problems[f"cell {cell}: {one.key} is {one.a} and {one.b}"] = None
    if problems:
        raise InputError(
            "these were measured in different ways:\n" + "\n".join(f"  {one}" for one in problems),
            cure="compare runs of one workload with the same settings",
        )


def _name(run: RunDirectory) -> str:
    return brief_summary(run).scenario


def _settings(run: RunDirectory) -> dict[str, dict[str, object]]:
    if not any(run.path.glob("scenario.*")):
        return {}  # it was imported, and nobody knows how it was measured
    cells = load_scenario(run.scenario).cells
    return {
        cell.key: cell.scenario.model_dump(mode="json", include={"workload", "background"})
        for cell in cells
    }


def _hosts(a: Sequence[RunDirectory], b: Sequence[RunDirectory]) -> dict[str, list[Difference]]:
    """Return what the facts of any run of B have otherwise than the first of A, by endpoint."""
    sides = [[run.read_summary() for run in side if run.summary.exists()] for side in (a, b)]
    found: dict[str, list[Difference]] = {}
    for first in sides[0][:1]:
        facts = {end.name: _before(end.facts) for end in first.endpoints}
        for end in (end for summary in sides[1] for end in summary.endpoints if end.name in facts):
            ignored = (*MOVING, "hostname")
            for one in differences(facts[end.name], _before(end.facts), ignore=ignored):
                if one not in found.setdefault(end.name, []):
                    found[end.name].append(one)
    return found


def _before(facts: Mapping[str, Any]) -> Mapping[str, object]:
    return facts.get("before") or {}


def _show(
    rows: Sequence[Mapping[Any, Any]], cells: Mapping[Any, Any], hosts: dict[str, list[Difference]]
) -> None:
    table = Table("cell", "metric", box=None, pad_edge=False)
    for head in ("n", "median A", "median B", "change %", "interval %"):
        table.add_column(head, justify="right")
    table.add_column("verdict")
    for row in rows:
        verdict = str(row["verdict"])
        colour = _COLOURS.get(verdict, "cyan")
        reason = f" ({row['reason']})" if isinstance(row["reason"], str) else ""
        ends = " to ".join(_percent(row[end], row["median_a"]) for end in ("low", "high"))
        table.add_row(
            escape(str(row["cell"])),
            row["metric"],
            f"{row['n_a']}, {row['n_b']}",
            f"{row['median_a']:.6g}",
            f"{row['median_b']:.6g}",
            _percent(row["difference"], row["median_a"]),
            ends,
            f"[{colour}]{verdict}[/]{reason}",
        )
    out.print(table)
    for side in ("a", "b"):
        for cell in cells[f"only_{side}"]:
            err.print(f"[yellow]only {side.upper()} has the cell {escape(str(cell))}[/]")
    for name, changed in hosts.items():
        for one in changed:
            err.print(escape(f"{name}: {one.key} was {one.a}, is {one.b}"))


def _percent(value: float, of: float) -> str:
    """Return a share as text; NaN, which is what is unknown, as a dash."""
    share = 100 * value / abs(of) if of else float("nan")
    return f"{share:+.1f}" if share == share else "-"  # noqa: PLR0124 - NaN is not itself


def _document(table: pd.DataFrame, hosts: dict[str, list[Difference]]) -> dict[str, object]:
    known = table.astype(object).where(table.notna(), None)
    return {
        "rows": known.to_dict("records"),
        **{str(name): list(cells) for name, cells in table.attrs.items()},
        "hosts": {name: [vars(one) for one in changed] for name, changed in hosts.items()},
    }
