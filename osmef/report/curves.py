"""Draw curves: lines of many points on two logarithmic axes, with legend and caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from osmef.report.look import Look
from osmef.report.style import Stroke, Words, label_y, name_panel, page, styled


@dataclass(frozen=True)
class Curve:
    """What the legend calls a curve, its look, and its points; both values above 0."""

    label: str
    stroke: Stroke
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

    words: Words
    panels: Sequence[tuple[str, Sequence[Curve]]]
    x: Axis
    y: Axis


@styled
def render(chart: CurveChart, look: Look) -> Figure:
    """Return the chart as a figure. Every panel must have a curve with a point."""
    legend = {curve.label: curve.stroke.line() for _, curves in chart.panels for curve in curves}
    figure, all_axes = page(chart.words, legend, look, len(chart.panels))
    for axes, (title, curves) in zip(all_axes, chart.panels, strict=True):
        name_panel(axes, title, len(chart.panels))
        for curve in curves:
            xs, ys = zip(*curve.points, strict=True)
            axes.plot(
                xs,
                ys,
                color=curve.stroke.colour,
                ls=curve.stroke.dashes,
                marker=curve.stroke.marker,
                markevery=max(1, len(xs) // 8),
                markersize=4,
                drawstyle="steps-post" if curve.steps else "default",
            )
        _set_scales(axes, chart)
        look.apply(axes)
    label_y(figure, all_axes, look.y_label or chart.y.label)
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


def format_microseconds(us: float) -> str:
    """Return a time on an axis in the unit that suits it: ``20 µs``, ``1 ms``."""
    for unit in ("µs", "ms"):
        if us < 1000:
            return f"{us:g} {unit}"
        us /= 1000
    return f"{us:g} s"
