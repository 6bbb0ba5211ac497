"""The figures of a run for the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from osmef.report.data import Data
from osmef.report.figures import possible
from osmef.report.html.reading import Reading
from osmef.report.html.svg import inline_svg

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
        title = f"{one.about[0].upper()}{one.about[1:]}"
        words = f"{title}. The numbers are in the tables of this run."
        svg = inline_svg(one.figure, f"r{reading.number}-{one.name}-", words)
        yield Drawn(one.name, title, svg if len(svg) <= _MOST_BYTES else None)
