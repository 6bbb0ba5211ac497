"""``osmef statistics`` and ``verify-methods``: diagnostics of cells, and the methods checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from osmef.cli.completion import Runs, complete_metric
from osmef.cli.console import (
    AsJson,
    Where,
    note_left_out,
    note_trial_counts,
    out,
    print_json,
    print_note,
    read_percent,
    reporting,
    where_of,
)
from osmef.errors import InputError
from osmef.report.fit import TextColumn, column, table
from osmef.report.summary import busy_cells, doubts_of, needed_of, pairs_of, short_cells
from osmef.results.measure import Measure
from osmef.units import counted

if TYPE_CHECKING:
    import pandas as pd  # slow to load

    from osmef.importers.published import PublishedValue


STATISTICS_EPILOG = """Examples:

osmef statistics results/vm-to-vm-20261121T031500Z-3f9a

osmef statistics results/four-weeks --metric aggregate_btc_bps --error 2

osmef statistics RUN --pairs --where connections=1,10 --json

Of a campaign the values are the medians of sessions. Outliers are shown, never removed."""

_LEAST_PERCENT = 0.01


def _precision(text: object) -> float:
    percent = read_percent(text)
    if percent < _LEAST_PERCENT:
        raise typer.BadParameter(f"{text!r} is less than {_LEAST_PERCENT} %")
    return percent


def statistics_command(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    runs: Runs,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=complete_metric,
            help="Which metric. May be repeated. Default: the main one.",
            show_default=False,
        ),
    ] = None,
    error: Annotated[
        float,
        typer.Option(
            parser=_precision,
            metavar="PERCENT",
            help="Wanted error of the median, in percent of it.",
        ),
    ] = 5.0,
    pairs: Annotated[
        bool,
        typer.Option("--pairs", help="Test each pair of cells instead, with Holm's correction."),
    ] = False,
    where: Where = None,
    as_json: AsJson = False,
) -> None:
    """Show how many trials a cell needs, and whether the existing ones drift or have outliers.

    Autocorrelation, drift, steps, outliers and warm-ups; or whether cells differ, pair by pair.
    """
    with reporting(as_json):
        found = _analysed(runs, metric, error, where, of_pairs=pairs)
        if as_json:
            document = found.of_pairs if pairs else found.of_cells(error)
            print_json(document)
            return
    _print(found, error, of_pairs=pairs)


@dataclass(frozen=True)
class _Found:
    """Rows of the table, p-values of Friedman's test by metric, and notes."""

    rows: list[dict[Any, Any]]
    alike: Mapping[str, float | None]
    slow: list[dict[Any, Any]]
    nested: list[dict[Any, Any]]
    busy: Mapping[str, str]
    measures: Mapping[str, Measure]

    @property
    def of_pairs(self) -> dict[str, Any]:
        """JSON of the pairwise comparisons."""
        return {"pairs": self.rows, "all_cells_alike_p": self.alike}

    def of_cells(self, error: float) -> dict[str, Any]:
        """JSON of the cells, with all doubts that the table has."""
        rows = [{**row, "doubts": doubts_of(row, error, self.busy)} for row in self.rows]
        return {"cells": rows, "warm_ups": self.slow, "nested": self.nested}


def _analysed(
    runs: list[Path],
    metric: list[str] | None,
    error: float,
    where: list[str] | None,
    *,
    of_pairs: bool,
) -> _Found:
    """Return the diagnostics of the runs' trials. Raises InputError."""
    # pandas takes a while to load
    from osmef.analysis import diagnostics  # noqa: PLC0415
    from osmef.report.cells import chosen  # noqa: PLC0415
    from osmef.report.data import Data  # noqa: PLC0415

    data = Data(*runs, where=where_of(where))
    note_trial_counts(data.runs)
    note_left_out(runs)
    trials = data.trials
    measures = {one.name: one for one in (chosen(trials, name) for name in metric or (None,))}
    names = list(measures)
    found = (
        diagnostics.pairwise_comparisons(trials, names)
        if of_pairs
        else diagnostics.data_quality(trials, names, error / 100)
    )
    if found.empty:
        raise InputError("there are no two cells to compare", cure="give a run with a sweep")
    return _Found(
        _rows(found),
        found.attrs.get("friedman_p", {}),
        [] if of_pairs else _rows(diagnostics.warm_ups(data.intervals)),
        [] if of_pairs else _rows(diagnostics.variance_table(trials, names)),
        busy_cells(diagnostics.cells(trials)),
        measures,
    )


def _print(found: _Found, error: float, *, of_pairs: bool) -> None:
    rows = found.rows
    shown = _pairs(rows) if of_pairs else _cells(rows, error)
    ends = ("a", "b") if of_pairs else ("cell",)
    _names_of, shared = short_cells(str(row[end]) for row in rows for end in ends)
    more = [f"All cells: {shared}."] if shared else []
    metrics = dict.fromkeys(str(row["metric"]) for row in rows)
    title = next(iter(metrics)) if len(metrics) == 1 else ""
    out.print(table(shown, out.width, *more, title=title))
    for cell, name, doubt in () if of_pairs else _doubts(rows, error, found.busy):
        of = f"{cell}, {name}" if len(metrics) > 1 else cell
        print_note(out, f"{of}: {doubt}", "[yellow]doubt[/]")
    for line in _notes(found):
        out.print(escape(line))


def _notes(found: _Found) -> Iterator[str]:
    """Yield the notes below the table."""
    for name, p in found.alike.items():
        if p is not None:
            yield f"{name}: all cells alike within their blocks: p = {p:.2g} (Friedman)"
    for row in found.nested:
        yield f"{row['cell']}: {pairs_of(row, found.measures[row['metric']])}"
    for row in found.slow:
        yield (
            f"{row['cell']}: its {row['trials']} trials begin slower, for"
            f" {row['warmup_s']:.3g} s, which costs {row['loss_percent']:.2g} % of their rate"
            f" (p = {row['p']:.2g}); cure: give the workload a warmup of as long"
        )


def _rows(found: pd.DataFrame) -> list[dict[Any, Any]]:
    known = found.astype(object)
    return known.where(found.notna(), None).to_dict("records")


def _cells(rows: list[dict[Any, Any]], error: float) -> list[TextColumn]:
    """Return the columns of a table of cells, without those that are empty."""
    drifts = [
        "-" if row["drift_p"] is None else f"{_number(row['drift_percent'])} ({row['drift_p']:.2g})"
        for row in rows
    ]
    needed = [needed_of(row) for row in rows]
    names, _shared = short_cells(str(row["cell"]) for row in rows)
    return [
        column("cell", [names[str(row["cell"])] for row in rows]),
        *_several("metric", [str(row["metric"]) for row in rows]),
        column("n", [str(row["n"]) for row in rows], right=True),
        column(f"needed for\n±{error:g} %", needed, right=True),
        _text_column("autocorr.\np", [_number(row["autocorrelation_p"]) for row in rows], 5),
        _text_column("of all\ncells", [_number(row["common_memory_p"]) for row in rows], 6),
        _text_column("drift %\n(p)", drifts, 4),
        _text_column("steps\nat", [_names(row, "steps") for row in rows], 3),
        _text_column("spread\nchanges", [_names(row, "spreads") for row in rows], 3),
        _text_column("outliers", [_names(row, "outliers") for row in rows], 2),
    ]


def _doubts(
    rows: list[dict[Any, Any]], error: float, busy: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the doubts about each row's interval: cell, metric and text."""
    names, _shared = short_cells(str(row["cell"]) for row in rows)
    for row in rows:
        if reported := doubts_of(row, error, busy):
            yield names[str(row["cell"])], str(row["metric"]), reported


def _several(head: str, texts: list[str]) -> list[TextColumn]:
    """Return a column, or none if all rows have the same value."""
    return [column(head, texts)] if len(set(texts)) > 1 else []


def _text_column(head: str, texts: list[str], rank: int) -> TextColumn:
    return column(head, [] if set(texts) == {"-"} else texts, rank=rank, right=True)


def _pairs(rows: list[dict[Any, Any]]) -> list[TextColumn]:
    names, _shared = short_cells(str(row[end]) for row in rows for end in "ab")
    columns = [
        column(
            "cells", [f"{names[str(row['a'])]}  against  {names[str(row['b'])]}" for row in rows]
        ),
        *_several("metric", [str(row["metric"]) for row in rows]),
        column("n", [f"{row['n_a']}, {row['n_b']}" for row in rows], rank=1, right=True),
    ]
    for rank, (test, words) in enumerate(_TESTS.items(), start=2):
        for holm, head in (("_holm", "after Holm"), ("", "p")):
            of = [_number(row[f"{test}_p{holm}"]) for row in rows]
            columns.append(column(f"{words}\n{head}", of, rank=2 * rank + (not holm), right=True))
    effects = {"hedges_g": "g", "cliffs_delta": "Cliff's δ"}
    for rank, (name, head) in enumerate(effects.items(), start=8):
        of = [_effect(row, name) for row in rows]
        columns.append(column(head, of, rank=rank, right=True))
    if any(row["method"] == "paired" for row in rows):
        heads = ("cells\nare", "a / b within\nblocks", "signed rank\np after Holm")
        for index, head in enumerate(heads):
            of = [_of_blocks(row)[index] for row in rows]
            columns.append(column(head, of, rank=1, right=True))
    return columns


_TESTS = {"mann_whitney": "Mann-Whitney", "welch": "Welch"}


def _of_blocks(row: Mapping[Any, Any]) -> tuple[str, str, str]:
    return str(row["method"]), _effect(row, "ratio"), _number(row["paired_p_holm"])


def _effect(row: Mapping[Any, Any], name: str) -> str:
    ends = [row[f"{name}_{end}"] for end in ("low", "high")]
    reported = _number(row[name])
    return reported if None in ends else f"{reported} ({_number(ends[0])} to {_number(ends[1])})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _names(row: Mapping[Any, Any], what: str) -> str:
    return ", ".join(row[what]) or "-"


VERIFY_METHODS_EPILOG = """Example:

osmef verify-methods published

The folder holds what others have published, as docs/methods.md names it; it is no part of OSMeF. \
Exit code 1 says that a value differs without a known reason."""


def verify_methods_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the published data is.")],
    as_json: AsJson = False,
) -> None:
    """Recompute published results from their data: printed value, ours, deviation, verdict."""
    with reporting(as_json):
        # pandas takes a while to load
        from osmef.importers.published import Agreement, check_folder  # noqa: PLC0415

        lines = check_folder(folder)
        if as_json:
            print_json({"lines": [_record(line) for line in lines]})
        else:
            _print_published(lines)
    if any(line.agreement is Agreement.DIFFERENT for line in lines):
        raise typer.Exit(1)


def _record(line: PublishedValue) -> dict[str, Any]:
    from osmef.importers.published import Agreement  # noqa: PLC0415

    reported = asdict(line)
    return {
        **reported,
        "deviation_percent": line.deviation_percent,
        "verdict": line.agreement.value,
        "why": line.why if line.agreement is Agreement.WRONG_THERE else None,
    }


def _print_published(lines: list[PublishedValue]) -> None:
    from osmef.importers.published import Agreement  # noqa: PLC0415

    columns = [
        column("value", [f"{line.source}: {line.what}" for line in lines]),
        column("published", [_published_number(line.published) for line in lines], right=True),
        column("ours", [_published_number(line.ours) for line in lines], right=True),
        column("deviation\n%", [_deviation(line) for line in lines], rank=1, right=True),
        column("may be\napart", [f"{line.within:.2g}" for line in lines], rank=2, right=True),
        column("verdict", [line.agreement.value for line in lines]),
    ]
    wrong = [line for line in lines if line.agreement is Agreement.WRONG_THERE]
    why = [f"Wrong there, {line.source}: {line.what}: {line.why}" for line in wrong]
    out.print(table(columns, out.width, *why))
    counts = Counter(line.agreement for line in lines)
    reported = ", ".join(f"{counts[one]} {one}" for one in Agreement if counts[one])
    out.print(f"{counted(len(lines), 'published value')}: {reported}")


def _deviation(line: PublishedValue) -> str:
    return "-" if line.deviation_percent is None else f"{line.deviation_percent:+.2f}"


def _published_number(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if math.isfinite(value) else str(value)
