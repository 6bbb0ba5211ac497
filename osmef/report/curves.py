"""Draw curves: lines of many points on two logarithmic axes, with legend and caption."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from osmef.report.series import place, short_names, shown_values
from osmef.report.style import GREY, HEAD_LINE_INCHES, panels
from osmef.results.summary import CellInfo, Summary


@dataclass(frozen=True)
class Curve:
    """What the legend calls a curve, its look, and its points; both values above 0."""

    label: str
    colour: str
    points: Sequence[tuple[float, float]]
    steps: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis: its label, how a value is written, and the steps of its ticks within a power."""

    label: str
    show: Callable[[float], str]
    base: float = 10.0
    steps: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class CurveChart:
    """What to draw: the curves of each panel under its title."""

    title: str
    run: str
    caption: str
    panels: Sequence[tuple[str, Sequence[Curve]]]
    x: Axis
    y: Axis
    legend_columns: int = 2


def render(chart: CurveChart) -> Figure:
    """Return the chart as a figure. Every panel must have a curve with a point."""
    legend = {curve.label: curve.colour for _, curves in chart.panels for curve in curves}
    rows = math.ceil(len(legend) / chart.legend_columns)
    figure, all_axes = panels(len(chart.panels), rows)
    for axes, (title, curves) in zip(all_axes, chart.panels, strict=True):
        axes.set_title(title, loc="left")
        for curve in curves:
            xs, ys = zip(*curve.points, strict=True)
            style = "steps-post" if curve.steps else "default"
            axes.plot(xs, ys, color=curve.colour, drawstyle=style)
        _set_scales(axes, chart)
    figure.supylabel(chart.y.label, fontsize="medium")
    _write(figure, chart, legend)
    return figure


def _set_scales(axes: Axes, chart: CurveChart) -> None:
    axes.set_xscale("log", base=chart.x.base)
    axes.set_yscale("log", base=chart.y.base)
    for axis, wanted in ((axes.xaxis, chart.x), (axes.yaxis, chart.y)):
        axis.set_major_locator(LogLocator(wanted.base, wanted.steps, numticks=14))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _at, show=wanted.show: show(value)))
    axes.margins(x=0.02)
    axes.set_xlabel(chart.x.label)
    axes.tick_params(labelsize=7.5, labelbottom=True)


def _write(figure: Figure, chart: CurveChart, legend: dict[str, str]) -> None:
    """Write title, legend and caption into the room that ``panels`` left."""
    _width, height = figure.get_size_inches()
    figure.text(0.015, 1 - 0.08 / height, chart.title, va="top", weight="bold", fontsize=10)
    figure.legend(
        [Line2D([], [], color=colour) for colour in legend.values()],
        list(legend),
        loc="upper left",
        bbox_to_anchor=(0.005, 1 - HEAD_LINE_INCHES / height),
        ncols=chart.legend_columns,
        borderaxespad=0.2,
        labelspacing=0.3,
        columnspacing=1.4,
    )
    figure.text(0.015, 0.06 / height, chart.caption, va="bottom", fontsize=7, color=GREY)
    figure.text(0.99, 0.06 / height, chart.run, va="bottom", ha="right", fontsize=7, color=GREY)


def cell_names(summary: Summary) -> dict[str, str]:
    """Return what tells each cell from the others, by its key."""
    names = short_names(key for cell in summary.cells for key in shown_values(cell))
    return {cell.key: _cell_name(cell, names, summary) for cell in summary.cells}


def _cell_name(cell: CellInfo, names: dict[str, str], summary: Summary) -> str:
    own = ("placement", "tenancy")
    told = [
        str(value).replace("-", " ") if names[key] in own else f"{names[key]} {value}"
        for key, value in shown_values(cell).items()
    ]
    return ", ".join(told or place(cell, summary).lines)


def format_microseconds(us: float) -> str:
    """Return a time on an axis in the unit that suits it: ``20 µs``, ``1 ms``."""
    for unit in ("µs", "ms"):
        if us < 1000:
            return f"{us:g} {unit}"
        us /= 1000
    return f"{us:g} s"
