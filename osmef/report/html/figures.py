"""Figures of a run, and of all runs together, for the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from markupsafe import Markup

from osmef.errors import NothingToDrawError
from osmef.report.data import Data
from osmef.report.figures import FigureOptions, Possible, possible
from osmef.report.figures import draw as draw_kind
from osmef.report.html.live import live
from osmef.report.html.reading import ShownRun
from osmef.report.html.svg import inline_svg
from osmef.report.kinds import FigureKind

_MOST_BYTES = 2_000_000
_MOST_CELLS = 300  # a figure of more shows nothing, and takes minutes
_FEW_CELLS = 12  # of which single trials and intervals can be told apart
_FEWEST = 6  # trials of a cell of which the distribution says more than their median
_MOST_TRIALS = 2000  # each of which is read as a whole for its pairs
_MOST_INTERVALS_BYTES = 24_000_000  # a million rows, which take some seconds


@dataclass(frozen=True)
class Drawn:
    """A figure: its name, its title, and itself, None if it is too large for a page.

    ``live`` are its data for Plotly, None where it is a picture only.
    """

    name: str
    title: str
    svg: Markup | None
    live: Markup | None = None


def draw_run(reading: ShownRun, *, whole: bool) -> Iterator[Drawn]:
    """Draw the informative figures of a run; none for many cells.

    These are those that are in its directory, and with ``whole`` those of ``_telling``.
    """
    data = Data(reading.path)
    if not reading.trials or data.trials["cell"].nunique() > _MOST_CELLS:
        return
    prefix, where = f"r{reading.number}", "of this run"
    for one in possible(data, own=True):
        yield _drawn(one, prefix, where)
    if whole:
        yield from draw(data, _telling(data), prefix, where)


def _telling(data: Data) -> Iterator[FigureKind]:
    """Yield further informative kinds of figures for a run, within the page's bounds."""
    trials = data.trials
    cells = trials.groupby("cell")
    if "connections" in trials and trials["connections"].nunique() > 1:
        yield from (FigureKind.FAIRNESS, FigureKind.CPU)
    if len(trials) <= _MOST_TRIALS:
        yield FigureKind.TOPOLOGY
    if len(cells) > _FEW_CELLS:
        return
    files = [run.intervals for run in data.runs if run.intervals.is_file()]
    if sum(file.stat().st_size for file in files) <= _MOST_INTERVALS_BYTES:
        yield FigureKind.INTERVALS
    if cells.size().max() >= _FEWEST:
        yield FigureKind.ECDF


def draw(data: Data, kinds: Iterable[FigureKind], prefix: str, where: str) -> Iterator[Drawn]:
    """Draw the kinds of figures for which there is data."""
    for kind in kinds:
        try:
            figure = draw_kind(kind, data, FigureOptions())
        except NothingToDrawError:
            continue
        yield _drawn(Possible(kind.value, kind.about, figure), prefix, where)


def _drawn(one: Possible, prefix: str, where: str) -> Drawn:
    title = f"{one.about[0].upper()}{one.about[1:]}"
    words = f"{title}. The numbers are in the tables {where}."
    svg = inline_svg(one.figure, f"{prefix}-{one.name}-", words)
    if len(svg) > _MOST_BYTES:
        return Drawn(one.name, title, None)
    return Drawn(one.name, title, svg, live(one.figure))
