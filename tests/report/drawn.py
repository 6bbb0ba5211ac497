"""What a figure shows, read from matplotlib's artists."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def legend(figure: Figure) -> list[str]:
    """Return the names in the legend."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def texts(figure: Figure) -> list[str]:
    """Return title, caption and source, without the breaks of their lines."""
    return [text.get_text().replace("\n", " ") for text in figure.texts]


def visible(figure: Figure) -> list[Axes]:
    """Return the panels."""
    return [axes for axes in figure.axes if axes.get_visible()]


def lines(axes: Axes, length: int | None = None) -> list[tuple[list[float], list[float]]]:
    """Return the points of each line of a panel, of those with so many points if given."""
    found = [
        (np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float))
        for line in axes.lines
        if line.get_linestyle() != "None"
    ]
    return [(x.tolist(), y.tolist()) for x, y in found if length is None or len(x) == length]
