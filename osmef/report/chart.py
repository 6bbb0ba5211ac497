"""Line charts with error bars: one panel a variant, with legend and caption."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from osmef.report.look import Look
from osmef.report.series import Point, Variant, short_names
from osmef.report.style import Stroke, Words, label_y, limit, name_panel, page, styled
from osmef.units import rate_unit

MOST_UPRIGHT = 5  # names of places beside each other
_Y_INCHES = 0.9  # beside a panel, for the words of its axis of y
_LETTER_INCHES = 0.062  # of a tick, its width
_MOST_DOTS = 60  # of a point; of more only their density could be seen
_MARGIN = 1.25  # of a logarithmic axis of x, on both sides


_Shift = tuple[float, float]
"""A factor and an offset of x."""


@dataclass(frozen=True)
class ChartLine:
    """A line: its label, its style, and its points in each panel."""

    label: str
    stroke: Stroke
    points: Mapping[Variant, list[Point]]


@dataclass(frozen=True)
class Chart:
    """A chart. ``ticks`` are the categories on x.

    Values are in ``unit``, empty for a number; None is a rate in bits per second, shown with a
    prefix. An axis from 0 to 1 has ``top`` 1. ``note`` ends the caption.
    ``by_session``: the values are the medians of sessions, not of single trials.

    ``variants`` is the order of the panels; those without a point are left out.
    """

    title: str
    source: str
    variants: list[Variant]
    lines: list[ChartLine]
    x_label: str
    ticks: Mapping[float, str]
    log_x: bool
    y_label: str
    log_y: bool
    unit: str | None = None
    top: float | None = None
    note: str = ""
    by_session: bool = False


@styled
def render(chart: Chart, look: Look) -> Figure:
    """Return the chart as a figure. At least one line must have a point.

    Raises InputError for too many lines, and for two that ``look`` calls alike.
    """
    variants = [v for v in chart.variants if any(v in line.points for line in chart.lines)]
    lines = [line for line in chart.lines if line.points]
    words = Words(
        chart.title,
        f"{_caption(lines, by_session=chart.by_session)} {chart.note}".strip(),
        chart.source,
    )
    limit(len(lines), "series")
    look.check(line.label for line in lines)
    legend = {line.label: line.stroke.line() for line in lines}
    figure, all_axes = page(words, legend, look, len(variants), _size(chart, len(variants)))
    divisor, unit = (1.0, chart.unit) if chart.unit is not None else rate_unit(max(_ends(lines)))
    names = short_names(key for variant in variants for key, _value in variant)
    for axes, variant in zip(all_axes, variants, strict=True):
        values = [f"{names[key]} {look.named(str(value))}".strip() for key, value in variant]
        title = ", ".join(values)
        name_panel(axes, title, len(variants))
        for number, line in enumerate(lines):
            shift = _dodge(chart, number - (len(lines) - 1) / 2, len(lines))
            beside = _dodge(chart, 0.5, len(lines))
            _draw_line(axes, line, line.points.get(variant, []), (shift, beside), divisor)
        _set_x(axes, chart)
        _set_y(axes, chart, [end / divisor for end in _ends(lines)])
        look.apply(axes)
    in_unit = f" in {unit}" if unit else ""
    scale = " (logarithmic)" if all_axes[0].get_yscale() == "log" else ""
    label_y(figure, all_axes, look.y_label or f"{chart.y_label}{in_unit}{scale}")
    return figure


def _size(chart: Chart, count: int) -> tuple[float, float] | None:
    """Return a larger size for long categories, else None."""
    if chart.log_x or len(chart.ticks) <= MOST_UPRIGHT:
        return None
    return (6.6, 4.8) if count == 1 else (9.6, 4.2 * -(-count // 2))


def _draw_line(
    axes: Axes, line: ChartLine, points: list[Point], shift: tuple[_Shift, _Shift], divisor: float
) -> None:
    """Draw a line with an offset, and its single trials with another."""
    (factor, offset), beside = shift
    xs = [factor * point.x + offset for point in points]
    medians = [point.median / divisor for point in points]
    look = line.stroke
    axes.plot(
        xs, medians, color=look.colour, marker=look.marker, ls=look.dashes, markeredgecolor="white"
    )
    dots = [
        (beside[0] * x + beside[1], value / divisor)
        for x, point in zip(xs, points, strict=True)
        if 1 < len(point.values) <= _MOST_DOTS
        for value in point.values
    ]
    if dots:
        axes.plot(
            *zip(*dots, strict=True),
            color=look.colour,
            marker=".",
            ls="none",
            markersize=5,
            markeredgewidth=0,
            alpha=0.6,
            zorder=1.8,
        )
    for x, point in zip(xs, points, strict=True):
        if not point.high > point.low:
            continue
        axes.errorbar(
            x,
            point.median / divisor,
            yerr=[
                [(point.median - point.low) / divisor],
                [(point.high - point.median) / divisor],
            ],
            fmt="none",
            zorder=1.9,  # under the markers
            ecolor=look.colour,
            elinewidth=1.4 if point.exact else 0.6,
            capsize=3 if point.exact else 0,
            capthick=1.2,
        )


def _dodge(chart: Chart, from_middle: float, count: int) -> _Shift:
    """Return the scale and offset of x that keep the lines' bars apart."""
    if not chart.log_x:
        return 1.0, min(0.06, 0.4 / count) * from_middle
    width = math.log(max(chart.ticks) / min(chart.ticks)) + 2 * math.log(_MARGIN)
    return math.exp(min(0.012, 0.06 / count) * width * from_middle), 0.0


def _set_x(axes: Axes, chart: Chart) -> None:
    axes.set_xlabel(chart.x_label)
    first, last = min(chart.ticks), max(chart.ticks)
    spec = axes.get_subplotspec()
    columns = spec.get_gridspec().ncols if spec else 1
    wide = axes.figure.bbox.width / axes.figure.dpi / columns - _Y_INCHES
    names = chart.ticks
    if chart.log_x:
        axes.set_xscale("log")
        axes.set_xlim(first / _MARGIN, last * _MARGIN)
        shown = _spaced(chart.ticks, wide / (math.log(last / first) + 2 * math.log(_MARGIN)))
    else:
        axes.set_xlim(first - 0.5, last + 0.5)
        shown = sorted(chart.ticks)
        if len(chart.ticks) <= MOST_UPRIGHT:
            names = _broken(chart.ticks, wide)
        axes.grid(visible=False, axis="x")
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _position: names.get(x, "")))
    axes.tick_params(axis="x", labelsize=7.5, labelbottom=True)
    if not chart.log_x and len(chart.ticks) > MOST_UPRIGHT:
        axes.tick_params(axis="x", labelrotation=40)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def _broken(ticks: Mapping[float, str], inches: float) -> dict[float, str]:
    """Wrap the lines of categories beside each other to their share of the axis."""
    letters = max(1, int(inches / len(ticks) / _LETTER_INCHES))
    return {
        x: "\n".join(
            part
            for line in text.split("\n")
            for part in textwrap.wrap(line, letters, break_long_words=False) or [""]
        )
        for x, text in ticks.items()
    }


def _spaced(ticks: Mapping[float, str], inches: float) -> list[float]:
    """Remove overlapping tick labels on a logarithmic axis.

    ``inches`` is how long a factor of e is. The last one stays, as the first does.
    """

    def is_free(tick: float, other: float) -> bool:
        letters = (len(ticks[tick]) + len(ticks[other])) / 2
        return inches * math.log(other / tick) >= _LETTER_INCHES * (letters + 1)

    ordered = sorted(ticks)
    last, kept = ordered[-1], ordered[:1]
    for tick in ordered[1:-1]:
        if is_free(kept[-1], tick) and is_free(tick, last):
            kept.append(tick)
    return kept if kept[-1] == last else [*kept, last]


def _set_y(axes: Axes, chart: Chart, ends: list[float]) -> None:
    if not chart.log_y:
        axes.set_ylim(0, 1.08 * (chart.top or max(ends)))
        return
    # The limits come first: matplotlib warns when it has to look for them in a panel of zeros.
    axes.set_ylim(_round_down(min(ends)), _round_up(max(ends)))
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=30))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _position: f"{y:g}"))


def _ends(lines: Iterable[ChartLine]) -> list[float]:
    """Return the positive ends of bars, for a logarithmic axis."""
    ends = [
        end
        for line in lines
        for points in line.points.values()
        for point in points
        for end in (point.low, point.median, point.high, *point.values)
        if end > 0
    ]
    return ends or [1.0]


def _round_down(value: float) -> float:
    """Return the next lower number of the series 1, 2, 5, 10 ..."""
    decade = 10.0 ** math.floor(math.log10(value))
    return max((step * decade for step in (0.5, 1, 2, 5) if step * decade < value), default=value)


def _round_up(value: float) -> float:
    decade = 10.0 ** math.floor(math.log10(value))
    return min((step * decade for step in (2, 5, 10, 20) if step * decade > value), default=value)


def _caption(lines: list[ChartLine], *, by_session: bool) -> str:
    points = [point for line in lines for panel in line.points.values() for point in panel]
    bars = {point.exact for point in points if point.high > point.low}
    what = "sessions, each the median of its trials" if by_session else "trials"
    text = f"Points: median of the {what}."
    if True in bars:
        text += " Bars with caps: exact 95 % interval of the median, each for itself (unpaired)."
    if False in bars:
        text += " Thin bars: minimum to maximum (n < 6)."
    if any(1 < len(point.values) <= _MOST_DOTS for point in points):
        text += f" Dots: single {'sessions' if by_session else 'trials'}."
    if any(math.isnan(point.median) for point in points):
        text += " Gaps: no trial succeeded."
    return text
