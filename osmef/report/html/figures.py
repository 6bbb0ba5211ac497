"""The figures of a run for the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from osmef.report.figures import run_figures
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


_TITLES = {
    "btc-connections": "Aggregate BTC against connections",
    "btc-distance": "BTC per connection against distance",
    "limits": "What limited the connections",
}


def draw_run(reading: Reading) -> Iterator[Drawn]:
    """Draw the figures that the run has numbers for, one after the other; none of many cells."""
    if reading.summary is None or len(reading.summary.cells) > _MOST_CELLS:
        return
    for name, draw in run_figures(reading.summary, reading.path).items():
        title = _TITLES.get(name, name.replace("-", " ").capitalize())
        words = f"{title}. The numbers are in the tables of this run."
        svg = inline_svg(draw, f"r{reading.number}-{name}-", words)
        yield Drawn(name, title, svg if len(svg) <= _MOST_BYTES else None)
