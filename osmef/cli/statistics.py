"""``osmef statistics``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from osmef.cli.console import AsJson, out, print_json, reporting
from osmef.cli.where import Where, where_of
from osmef.errors import InputError
from osmef.report.doubts import doubts_of
from osmef.report.table import keep_whole

if TYPE_CHECKING:
    import pandas as pd  # slow to load

EPILOG = """Examples:

osmef statistics results/vm-to-vm-20261121T031500Z-3f9a

osmef statistics results/four-weeks --metric aggregate_btc_bps --error 2

osmef statistics RUN --pairs --where connections=1,10 --json

Of a campaign the values are the medians of sessions. Outliers are shown, never removed."""


def command(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS...", help="Run directories, directories that hold some, or patterns."
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Which metric. May be repeated. Without: the main one.", show_default=False
        ),
    ] = None,
    error: Annotated[
        float,
        typer.Option(
            min=0.01, metavar="PERCENT", help="To within how much the median is wanted to be known."
        ),
    ] = 5.0,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Test each pair of cells instead, after Holm.")
    ] = False,
    where: Where = None,
    as_json: AsJson = False,
) -> None:
    """Say how many trials a cell needs, and what speaks against those it has.

    Memory, drift, steps, outliers and warm-ups; or whether cells differ, pair by pair.
    """
    with reporting(as_json):
        # pandas takes a while to load
        from osmef.analysis import transient, trust  # noqa: PLC0415
        from osmef.report.data import Data  # noqa: PLC0415
        from osmef.report.metric import chosen  # noqa: PLC0415

        data = Data(*runs, where=where_of(where))
        trials = data.trials
        names = [chosen(trials, name).name for name in metric or (None,)]
        table = trust.pairs(trials, names) if pairs else trust.trust(trials, names, error / 100)
        if table.empty:
            raise InputError("there are no two cells to compare", cure="give a run with a sweep")
        rows = _rows(table)
        alike = table.attrs.get("friedman_p", {})
        slow = [] if pairs else _rows(transient.warm_ups(data.intervals))
        if as_json:
            told = {"all_cells_alike_p": alike} if pairs else {"warm_ups": slow}
            print_json({"pairs" if pairs else "cells": rows} | told)
            return
    shown = _pairs(rows) if pairs else _cells(rows, error)
    out.print(keep_whole(shown))
    for name, p in alike.items():
        if p is not None:
            out.print(
                escape(f"{name}: all cells alike within their blocks: p = {p:.2g} (Friedman)")
            )

    for row in slow:
        out.print(
            escape(
                f"{row['cell']}: its {row['trials']} trials begin slower, for"
                f" {row['warmup_s']:.3g} s, which costs {row['loss_percent']:.2g} % of their rate"
                f" (p = {row['p']:.2g}); cure: give the workload a warmup of as long"
            )
        )


def _rows(table: pd.DataFrame) -> list[dict[Any, Any]]:
    known = table.astype(object)
    return known.where(table.notna(), None).to_dict("records")


def _cells(rows: list[dict[Any, Any]], error: float) -> Table:
    table = Table("cell", "metric", box=SIMPLE_HEAD)
    for head in ("n", f"needed for ± {error:g} %", "memory p", "of all cells", "drift % (p)"):
        table.add_column(head, justify="right")
    for head in ("steps at", "outliers", "doubts"):
        table.add_column(head)
    for row in rows:
        drift = "-"
        if row["drift_p"] is not None:
            drift = f"{_number(row['drift_percent'])} ({row['drift_p']:.2g})"
        table.add_row(
            escape(str(row["cell"])),
            escape(str(row["metric"])),
            str(row["n"]),
            "unknown" if row["repetitions"] is None else f"{row['repetitions']:.0f}",
            _number(row["autocorrelation_p"]),
            _number(row["common_memory_p"]),
            drift,
            _names(row, "steps"),
            _names(row, "outliers"),
            escape(doubts_of(row, error)) or "-",
        )
    return table


def _pairs(rows: list[dict[Any, Any]]) -> Table:
    table = Table("metric", "a", "b", box=SIMPLE_HEAD)
    for head in ("n", "Welch p", "after Holm", "Mann-Whitney p", "after Holm", "g", "Cliff's δ"):
        table.add_column(head, justify="right")
    paired = any(row["method"] == "paired" for row in rows)
    for head in ("cells are", "a / b within blocks", "signed rank p after Holm") if paired else ():
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(
            escape(str(row["metric"])),
            escape(str(row["a"])),
            escape(str(row["b"])),
            f"{row['n_a']}, {row['n_b']}",
            *(_number(row[f"{test}_p{holm}"]) for test in ("welch", "mann_whitney")
              for holm in ("", "_holm")),
            *(_effect(row, name) for name in ("hedges_g", "cliffs_delta")),
            *(_of_blocks(row) if paired else ()),
        )  # fmt: skip
    return table


def _of_blocks(row: Mapping[Any, Any]) -> tuple[str, str, str]:
    return str(row["method"]), _effect(row, "ratio"), _number(row["paired_p_holm"])


def _effect(row: Mapping[Any, Any], name: str) -> str:
    ends = [row[f"{name}_{end}"] for end in ("low", "high")]
    told = _number(row[name])
    return told if None in ends else f"{told} ({_number(ends[0])} to {_number(ends[1])})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _names(row: Mapping[Any, Any], what: str) -> str:
    return escape(", ".join(row[what])) or "-"
