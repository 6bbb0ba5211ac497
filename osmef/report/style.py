"""The house style of all figures: readable in print, in grey, and by the colour-blind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from osmef.results.files import write_atomically

# Okabe and Ito, "Color Universal Design", 2008, without the yellow, which is too light on paper.
PLACE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#555555"

# Any: what the keys are typed as depends on matplotlib's version.
RC: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that figures look alike everywhere
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "lines.markersize": 5.5,
    "lines.markeredgewidth": 0.5,
    "savefig.dpi": 200,
    "svg.hashsalt": "osmef",  # instead of a random one
}


HEAD_LINE_INCHES = 0.3
_LEGEND_ROW_INCHES = 0.19
_FOOT_INCHES = 0.25


def ordered_colours(count: int) -> list[str]:
    """Return colours from dark to light, for lines that have an order."""
    scale = mpl.colormaps["viridis"]
    # The light end of the scale can't be read on white.
    return [to_hex(scale(0.8 * number / max(1, count - 1))) for number in range(count)]


def panels(count: int, legend_rows: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels of one size, and room for title, legend and caption.

    That room is set in inches, so that it stays the same however many panels there are.
    """
    columns = min(count, 2)
    rows = -(-count // columns)
    head = HEAD_LINE_INCHES + _LEGEND_ROW_INCHES * legend_rows + 0.05
    height = (3.6 if columns == 1 else 2.7) * rows + head + _FOOT_INCHES
    width = 6.6 if columns == 1 else 9.6
    room = (0, _FOOT_INCHES / height, 1, 1 - (head + _FOOT_INCHES) / height)
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(rect=room))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    flat = list(grid.flat)
    for spare in flat[count:]:
        spare.set_visible(False)
    return figure, flat[:count]


def save(draw: Callable[[], Figure], directory: Path, name: str) -> list[Path]:
    """Draw a figure in the house style and write it as PNG and SVG. Raises StorageError."""
    paths = []
    with mpl.rc_context(RC):
        figure = draw()
        for suffix, metadata in _METADATA.items():
            path = directory / f"{name}.{suffix}"
            write = partial(figure.savefig, format=suffix, metadata=metadata)
            write_atomically(path, write)
            paths.append(path)
    return paths


# Neither the time nor the version: the same figure is the same file.
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}
