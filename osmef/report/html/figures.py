"""The figures of a run, and of all runs together, for the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from markupsafe import Markup

from osmef.errors import NothingToDrawError
from osmef.report.data import Data
from osmef.report.figures import Possible, Wanted, possible
from osmef.report.figures import draw as draw_kind
from osmef.report.html.reading import Reading
from osmef.report.html.svg import inline_svg
from osmef.report.kinds import Kind

_MOST_BYTES = 2_000_000
_MOST_CELLS = 300  # a figure of more shows nothing, and takes minutes


@dataclass(frozen=True)
class Drawn:
    """A figure: its name, its title, and itself, None where it is too large for a page."""

    name: str
    title: str
    svg: Markup | None


def draw_run(reading: Reading) -> Iterator[Drawn]:
    """Draw the figures that the run has numbers for, one after the other; none of many cells."""
    data = Data(reading.path)
    if not reading.trials or data.trials["cell"].nunique() > _MOST_CELLS:
        return
    for one in possible(data, own=True):
        yield _drawn(one, f"r{reading.number}", "of this run")


def draw(data: Data, kinds: Iterable[Kind], prefix: str) -> Iterator[Drawn]:
    """Draw kinds of figures of several runs, those that the runs have numbers for."""
    for kind in kinds:
        try:
            figure = draw_kind(kind, data, Wanted())
        except NothingToDrawError:
            continue
        yield _drawn(Possible(kind.value, kind.about, figure), prefix, "above")


def _drawn(one: Possible, prefix: str, where: str) -> Drawn:
    title = f"{one.about[0].upper()}{one.about[1:]}"
    words = f"{title}. The numbers are in the tables {where}."
    svg = inline_svg(one.figure, f"{prefix}-{one.name}-", words)
    return Drawn(one.name, title, svg if len(svg) <= _MOST_BYTES else None)
