"""The figure of a comparison: by how much each median has changed, with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from osmef.errors import NothingToDrawError
from osmef.report.look import PLAIN, Look
from osmef.report.series import short_cells
from osmef.report.style import GREY, LINE_INCHES, Stroke, Words, broken, page, stroke, styled
from osmef.results.measure import Measure

_ROW_INCHES = 0.26
_MOST_ROWS = 60
_STROKES = {"better": 2, "worse": 1}
_CAPTION = (
    "Shift of the trials from A to B with its 95 % interval, in percent of A's median. {more}"
)


@styled
def changes(
    rows: Sequence[Mapping[Any, Any]], known: Mapping[str, Measure], look: Look = PLAIN
) -> Figure:
    """Draw the rows of ``osmef.analysis.compare.compare`` that a share of A's median can tell.

    Raises NothingToDrawError where there is none.
    """
    kept = [row for row in rows if _is_share(row)]
    if not kept:
        raise NothingToDrawError("no change is a share of a median", cure="look at the table")
    more = f"The first {_MOST_ROWS} of {len(kept)}." if len(kept) > _MOST_ROWS else ""
    kept = kept[:_MOST_ROWS]
    names, _shared = short_cells(str(row["cell"]) for row in rows)
    told = [f"{known[row['metric']].words}, {names[str(row['cell'])]}" for row in kept]
    labels, lines = broken(told)
    legend = {verdict: stroke(number).line() for verdict, number in _STROKES.items()}
    legend["not told apart"] = _of("").line()
    high = 0.8 + max(_ROW_INCHES, LINE_INCHES * lines + 0.06) * len(kept)
    words = Words("Change from A to B", _CAPTION.format(more=more).strip(), "")
    figure, (axes,) = page(words, legend, look, size=(6.6, high))
    axes.axvline(0, color="black", ls="--", linewidth=0.8)
    for place, row in enumerate(kept):
        low, at, high_end = (
            100 * row[end] / row["median_a"] for end in ("low", "difference", "high")
        )
        of = _of(str(row["verdict"]))
        axes.plot((low, high_end), (place, place), color=of.colour, linewidth=1.6)
        axes.plot(at, place, color=of.colour, marker=of.marker, ls="none")
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
