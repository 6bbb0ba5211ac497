"""The page of a comparison: a line for each cell and metric, a figure, and what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osmef.analysis.describe import describe
from osmef.errors import NothingToDrawError
from osmef.report.changes import changes
from osmef.report.compared import changed, matters, medians, totals
from osmef.report.html.figures import Drawn
from osmef.report.html.live import live
from osmef.report.html.shell import fill
from osmef.report.html.strip import Axis, strip
from osmef.report.html.svg import inline_svg
from osmef.report.html.table import Column, Field, Mark, Table, number
from osmef.report.series import short_cells
from osmef.results.files import write_atomically
from osmef.results.measure import Measure

_MARKS = {"worse": Mark.BAD, "better": Mark.GOOD, "lost": Mark.BAD}
_NOTE = (
    "Each side: its median, and how far the exact 95 % interval of that reaches, as a share of it."
    " Change: the shift from A to B (Hodges and Lehmann) with its 95 % interval. p: of Mann and"
    " Whitney, for this row alone; the verdict allows for all rows. Dots: the trials of A above, of"
    " B below, with their medians."
)

Row = Mapping[Any, Any]
Values = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Compared:
    """What the page shows: rows of ``compare``, the values of both sides of each, and words."""

    title: str
    rows: Sequence[Row]
    values: Sequence[Values]
    known: Mapping[str, Measure]
    notes: Sequence[str]
    hosts: Mapping[str, Sequence[str]]


def write_comparison(compared: Compared, output: Path, *, every: bool = False) -> None:
    """Write the page, with rows of all metrics with ``every``. Raises StorageError."""
    shown = [
        (row, values)
        for row, values in zip(compared.rows, compared.values, strict=True)
        if every or matters(row, compared.known[row["metric"]])
    ]
    figure = _figure([row for row, _ in shown], compared.known)
    page = fill(
        "compare.html.jinja",
        compared.title,
        live=figure is not None and figure.live is not None,
        sum=totals(compared.rows, len(compared.rows) - len(shown)),
        results=_table(shown, compared.known),
        figure=figure,
        notes=compared.notes,
        hosts=compared.hosts,
    )
    write_atomically(output, page.encode())


def _figure(rows: Sequence[Row], known: Mapping[str, Measure]) -> Drawn | None:
    try:
        figure = changes(rows, known)
    except NothingToDrawError:
        return None
    words = "Change from A to B. The numbers are in the table."
    return Drawn("changes", "Change from A to B", inline_svg(figure, "c-", words), live(figure))


def _table(shown: Sequence[tuple[Row, Values]], known: Mapping[str, Measure]) -> Table:
    names, shared = short_cells(str(row["cell"]) for row, _ in shown)
    columns = [
        *(Column(head) for head in ("cell", "metric", "verdict")),
        Column("A → B", number=True),
        Column("change", number=True),
        Column("p", number=True),
        Column("trials"),
    ]
    rows = [_fields(row, values, known[row["metric"]], names) for row, values in shown]
    told = f"All cells: {shared}. " if shared else ""
    return Table("Each cell and metric", columns, rows, told + _NOTE)


def _fields(row: Row, values: Values, measure: Measure, names: Mapping[str, str]) -> list[Field]:
    verdict = str(row["verdict"])
    change, interval = changed(row, measure)
    reason = (str(row["reason"]),) if isinstance(row["reason"], str) else ()
    spreads = tuple(f"{side} ± {_spread(of)}, n = {len(of)}"
                    for side, of in zip("AB", values, strict=True))  # fmt: skip
    return [
        Field(names[str(row["cell"])]),
        Field(measure.words),
        Field(verdict, reason, mark=_MARKS.get(verdict, Mark.PLAIN)),
        Field(medians(row, measure), spreads, repr(row["median_b"])),
        Field(change, (interval,), repr(row["difference"] / (abs(row["median_a"]) or 1.0))),
        number(row["p"]),
        _dots(values),
    ]


def _spread(values: Sequence[float]) -> str:
    """Return how far the interval of a median reaches to its farther end."""
    told = describe(values)
    if told.median is None or told.ci95_low is None or told.ci95_high is None or not told.median:
        return "?"
    reach = max(told.ci95_high - told.median, told.median - told.ci95_low)
    share = 100 * reach / abs(told.median)
    return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"


def _dots(values: Values) -> Field:
    axis = Axis.of([*values[0], *values[1]])
    if axis is None:
        return Field("-", key="")
    drawings = [
        strip(axis, of, middle, None)
        for of in values
        if (middle := describe(of).median) is not None
    ]
    return Field("", drawing=drawings[0] + drawings[-1] if len(drawings) > 1 else drawings[0])
