"""Page of a comparison: a line for each cell and metric, a figure, and differences of hosts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from osmef.analysis.compare import Interval
from osmef.analysis.describe import describe
from osmef.errors import NothingToDrawError
from osmef.report.html.figures import Drawn, inline_svg
from osmef.report.html.layout import (
    NOTHING,
    Column,
    Emphasis,
    Field,
    StripAxis,
    Table,
    check_output,
    fill,
    number,
    sort_key,
    strip,
    write_page,
)
from osmef.report.options import PLAIN, Look
from osmef.report.style import GREY, LINE_INCHES, Stroke, Words, broken, page, stroke, styled
from osmef.report.summary import short_cells
from osmef.report.table import AMONG_ALL, changed, is_among_all, matters, totals
from osmef.results.measure import Measure

_ROW_INCHES = 0.26
_MOST_ROWS = 60
_STROKES = {"better": 2, "worse": 1}
_CAPTION = (
    "Shift of the trials from A to B with its 95 % interval, in percent of A's median; unpaired,"
    " for runs share no block. {more}"
)


@styled
def changes(
    rows: Sequence[Mapping[Any, Any]], known: Mapping[str, Measure], look: Look = PLAIN
) -> Figure:
    """Draw the rows of ``osmef.analysis.compare.compare`` as shares of A's median.

    Raises NothingToDrawError where there is none.
    """
    kept = [row for row in rows if _is_share(row)]
    if not kept:
        raise NothingToDrawError("no change is a share of a median", cure="look at the table")
    more = f"The first {_MOST_ROWS} of {len(kept)}." if len(kept) > _MOST_ROWS else ""
    kept = kept[:_MOST_ROWS]
    names, _shared = short_cells(str(row["cell"]) for row in rows)
    reported = [f"{known[row['metric']].words}, {names[str(row['cell'])]}" for row in kept]
    labels, lines = broken(reported, look)
    legend = {verdict: stroke(number).line() for verdict, number in _STROKES.items()}
    legend["no clear difference"] = _of("").line()
    high = 0.8 + max(_ROW_INCHES, LINE_INCHES * lines + 0.06) * len(kept)
    words = Words("Change from A to B", _CAPTION.format(more=more).strip(), "")
    figure, (axes,) = page(words, legend, look, size=(6.6, high))
    axes.axvline(0, color="black", ls="--", linewidth=0.8)
    for index, row in enumerate(kept):
        low, at, high_end = (
            100 * row[end] / row["median_a"] for end in ("low", "difference", "high")
        )
        of = _of(str(row["verdict"]))
        axes.plot((low, high_end), (index, index), color=of.colour, linewidth=1.6)
        axes.plot(at, index, color=of.colour, marker=of.marker, ls="none")
    axes.set_yticks(range(len(kept)), labels, fontsize=7.5)
    axes.set_ylim(len(kept) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("change in %")
    look.apply(axes)
    return figure


def _of(verdict: str) -> Stroke:
    number = _STROKES.get(verdict)
    return Stroke(GREY, "o") if number is None else stroke(number)


def _is_share(row: Mapping[Any, Any]) -> bool:
    ends = (row["low"], row["difference"], row["high"])
    of = row["median_a"]
    return of > 0 and all(math.isfinite(end) for end in ends) and row["low"] >= -of


_EMPHASES = {"worse": Emphasis.BAD, "better": Emphasis.GOOD, "lost": Emphasis.BAD}
_NOTE = (
    "Each side: its median, and how far its exact 95 % interval reaches, as a share of it."
    " Change: the shift from A to B (Hodges and Lehmann) with its 95 % interval. p: of Mann and"
    " Whitney, for this row alone; the verdict allows for all rows. Dots: the trials of A above, of"
    " B below, with their medians."
)

Row = Mapping[Any, Any]
Values = tuple[Sequence[float], Sequence[float]]
Sides = tuple[Values, tuple[Interval, Interval]]


@dataclass(frozen=True)
class Compared:
    """Content of the page: rows of ``compare``, values and intervals of both sides, and notes.

    ``cells`` are those of which trials failed, or that one side alone has.
    """

    title: str
    rows: Sequence[Row]
    sides: Sequence[Sides]
    known: Mapping[str, Measure]
    notes: Sequence[str]
    hosts: Mapping[str, Sequence[str]]
    cells: Sequence[str] = ()


def write_comparison(compared: Compared, output: Path, *, every: bool = False) -> None:
    """Write the page, with rows of all metrics with ``every``. Raises as ``write_page``."""
    check_output(output)  # before a figure is drawn for nothing
    shown = [
        (row, sides)
        for row, sides in zip(compared.rows, compared.sides, strict=True)
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
        cells=compared.cells,
        notes=compared.notes,
        hosts=compared.hosts,
    )
    write_page(output, page)


def _figure(rows: Sequence[Row], known: Mapping[str, Measure]) -> Drawn | None:
    try:
        figure = changes(rows, known)
    except NothingToDrawError:
        return None
    words = "Change from A to B. The numbers are in the table."
    svg = inline_svg(figure, "c-", words)
    return Drawn.both("changes", "Change from A to B", svg, figure)


def _table(shown: Sequence[tuple[Row, Sides]], known: Mapping[str, Measure]) -> Table:
    names, shared = short_cells(str(row["cell"]) for row, _ in shown)
    texts, numbers = ("cell", "metric"), ("A", "B", "change", "95 % interval", "p", "n")
    columns = [
        *map(Column, texts),
        *(Column(head, number=True) for head in numbers),
        *map(Column, ("verdict", "trials")),
    ]
    rows = [_fields(row, sides, known[row["metric"]], names) for row, sides in shown]
    reported = f"All cells: {shared}. " if shared else ""
    more = f" * {AMONG_ALL}" if any(is_among_all(row["reason"]) for row, _ in shown) else ""
    return Table("Each cell and metric", columns, rows, f"{reported}{_NOTE}{more}")


def _fields(row: Row, sides: Sides, measure: Measure, names: Mapping[str, str]) -> list[Field]:
    """Return a row as one line, as benchstat has it."""
    verdict = str(row["verdict"])
    change, interval = changed(row, measure)
    mark = "*" if is_among_all(row["reason"]) else ""
    reason = (str(row["reason"]),) if isinstance(row["reason"], str) and not mark else ()
    ends = [
        _side(row[f"median_{side}"], of, measure) for side, of in zip("ab", sides[1], strict=True)
    ]
    return [
        Field(names[str(row["cell"])]),
        Field(measure.words),
        *ends,
        Field(change, key=sort_key(row["difference"] / (abs(row["median_a"]) or 1.0))),
        Field(interval, key=sort_key(row["low"])),
        number(row["p"]),
        Field(f"{row['n_a']}, {row['n_b']}", key=str(row["n_b"])),
        Field(verdict + mark, reason, emphasis=_EMPHASES.get(verdict, Emphasis.PLAIN)),
        _dots(sides[0]),
    ]


def _side(median: float, ends: Interval, measure: Measure) -> Field:
    if math.isnan(median):
        return Field(NOTHING, key="")
    shown = f"{measure.with_unit(median)} {_spread(median, ends, measure)}".rstrip()
    return Field(shown, key=repr(median))


def _spread(median: float, ends: Interval, measure: Measure) -> str:
    """Return the distance of a median from the farther end of its interval; both ends if far."""
    if ends is None:
        return ""
    low, high = ends
    reach = max(high - median, median - low)
    if reach and reach >= abs(median):
        return f"({measure.between(low, high)})"
    share = 100 * reach / (abs(median) or 1.0)
    return f"±{share:.0f} %" if share >= 10 else f"±{share:.2g} %"


def _dots(values: Values) -> Field:
    axis = StripAxis.of([*values[0], *values[1]])
    if axis is None:
        return Field("-", key="")
    drawings = [
        strip(axis, of, middle, None)
        for of in values
        if (middle := describe(of).median) is not None
    ]
    both = Markup("<span>{}</span>").format(Markup().join(drawings))  # one above the other
    return Field("", drawing=both)
