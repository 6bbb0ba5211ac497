"""Line charts: with error bars, and on log-log axes latency distributions and size sweeps.

One with error bars has a panel a variant; size sweeps are as NetPIPE draws them.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from osmef.analysis.layers import LAYER, REFERENCE, comparable, layer_overheads
from osmef.analysis.replication import has_sessions
from osmef.report.cells import cells_of, chosen, nothing, source_of
from osmef.report.data import SWEEPS
from osmef.report.options import PLAIN, Look
from osmef.report.style import (
    LINE_INCHES,
    Stroke,
    Words,
    broken,
    label_y,
    limit,
    name_panel,
    of_journal,
    page,
    stroke,
    styled,
)
from osmef.report.summary import Point, Variant, short_names
from osmef.results.measure import Measure
from osmef.results.observations import Histogram, LoadPhase
from osmef.results.summary import CPU_PER_GB
from osmef.units import format_rate, rate_unit

MOST_UPRIGHT = 5  # names of places beside each other
_Y_INCHES = 0.9  # beside a panel, for the words of its axis of y
_LETTER_INCHES = 0.062  # of a tick, its width
_MOST_DOTS = 60  # of a point; of more only their density could be seen
_MARGIN = 1.25  # of a logarithmic axis, beyond what it shows

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
    """A chart. ``ticks`` are the categories on x; ``show_x`` writes other numbers there.

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
    show_x: Callable[[float], str] = "{:g}".format
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
        name_panel(axes, ", ".join(values), len(variants))
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
    show = chart.show_x if chart.log_x else lambda _x: ""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _position: names.get(x) or show(x)))
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
        text += " Thin bars: minimum to maximum, too few for an interval."
    if any(1 < len(point.values) <= _MOST_DOTS for point in points):
        text += f" Dots: single {'sessions' if by_session else 'trials'}."
    if any(math.isnan(point.median) for point in points):
        text += " Gaps: no trial succeeded."
    return text


_MOST_TICKS, _MOST_IN_COLUMN = 14, 6
_CLOSE = (1.0, 2.0, 5.0)  # ticks within a decade of a short axis


@dataclass(frozen=True)
class Curve:
    """A curve: its label, its style, and its points, which are positive."""

    label: str
    stroke: Stroke
    points: Sequence[tuple[float, float]]
    steps: bool = False


@dataclass(frozen=True)
class ChartAxis:
    """An axis: its label, its number format, its ticks within a decade, and the most it has."""

    label: str
    show: Callable[[float], str]
    base: float = 10.0
    steps: tuple[float, ...] = (1.0,)
    top: float = math.inf

    def steps_between(self, low: float, high: float) -> tuple[float, ...]:
        """Return the ticks within a decade, more of them on a short axis."""
        return _CLOSE if self.base == 10 and high < 100 * low else self.steps


@dataclass(frozen=True)
class CurveChart:
    """A chart: the curves of each panel by title."""

    words: Words
    panels: Sequence[tuple[str, Sequence[Curve]]]
    x: ChartAxis
    y: ChartAxis


@styled
def render_curves(chart: CurveChart, look: Look) -> Figure:
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
    for axes in all_axes:  # once all is drawn, since they share their ends
        _set_scales(axes, chart, _MOST_IN_COLUMN if of_journal(look) else _MOST_TICKS)
    for axes in all_axes:
        look.apply(axes)
    label_y(figure, all_axes, look.y_label or chart.y.label)
    return figure


def _set_scales(axes: Axes, chart: CurveChart, most_ticks: int) -> None:
    axes.set_xscale("log", base=chart.x.base)
    axes.set_yscale("log", base=chart.y.base)
    axes.margins(x=0.02)
    if (wider := _with_ticks(axes.get_xlim(), chart.x)) != axes.get_xlim():
        axes.set_xlim(wider)
    if (wider := _with_ticks(axes.get_ylim(), chart.y)) != axes.get_ylim():
        axes.set_ylim(wider)
    for axis, wanted in ((axes.xaxis, chart.x), (axes.yaxis, chart.y)):
        steps = wanted.steps_between(*axis.get_view_interval())
        axis.set_major_locator(LogLocator(wanted.base, steps, numticks=most_ticks))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _at, show=wanted.show: show(value)))
    axes.set_xlabel(chart.x.label)
    axes.tick_params(labelsize=7.5, labelbottom=True)


def _with_ticks(ends: tuple[float, float], wanted: ChartAxis) -> tuple[float, float]:
    """Return the ends of an axis, farther apart where less than two ticks are between them."""
    low, high = ends if ends[1] < 2 * wanted.top else (ends[0], _MARGIN * wanted.top)
    first, last = (math.floor(math.log(end, wanted.base)) for end in ends)
    steps = wanted.steps_between(low, high)
    every = (step * wanted.base**n for n in range(first, last + 2) for step in steps)
    ticks = [tick for tick in every if tick <= wanted.top]
    if sum(low <= tick <= high for tick in ticks) > 1:
        return low, high
    below, above = ([tick for tick in ticks if tick < low], [tick for tick in ticks if tick > high])
    return max(below, default=low), min(above, default=high)


def format_microseconds(us: float) -> str:
    """Return a time on an axis in the unit that suits it: ``20 µs``, ``1 ms``."""
    for unit in ("µs", "ms"):
        if us < 1000:
            return f"{us:g} {unit}"
        us /= 1000
    return f"{us:g} s"


def latency(exchanges: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the complementary distribution of round-trip times, a panel each cell.

    It is the complement of the empirical distribution function, logarithmic, so that the tail can
    be read; a line each phase and protocol. ``exchanges`` are those of
    ``osmef.report.data.exchanges_of``, ``trials`` those of ``osmef.load``, which name the cells;
    those of all sessions of a platform are together. Raises InputError without an exchange, and for
    too many cells.
    """
    labels = _phases(exchanges)
    groups = dict(list(exchanges.groupby(["run", "cell", labels])["histogram"]))
    names = [name for phase in LoadPhase for name in labels[exchanges["phase"] == phase].unique()]
    panels = []
    for cell in cells_of(trials, look):
        found = [[one for key in cell.keys for one in groups.get((*key, name), ())]
                 for name in names]  # fmt: skip
        curves = [
            Curve(look.named(name), stroke(number), points, steps=True)
            for number, (name, histograms) in enumerate(zip(names, found, strict=True))
            if (points := complementary_distribution(histograms))
        ]
        panels += [(cell.label, curves)] if curves else []
    if not panels:
        raise nothing("exchange", "give runs of `workload: latency`")
    caption = f"All exchanges of all trials, from their histograms; {look.scales}."
    chart = CurveChart(
        words=Words("Round-trip time, and how many took longer", caption, source_of(trials)),
        panels=panels,
        x=ChartAxis("round-trip time", format_microseconds),
        y=ChartAxis("share of exchanges that took longer", _percent, top=1.0),
    )
    return render_curves(chart, look)


def _phases(exchanges: pd.DataFrame) -> pd.Series[str]:
    """Return the phase of each exchange, with its protocol where a cell has several."""
    protocols = exchanges.groupby(["run", "cell"])["protocol"].nunique()
    phases = exchanges["phase"]
    return phases + ", " + exchanges["protocol"] if protocols.gt(1).any() else phases


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def complementary_distribution(histograms: Iterable[Histogram]) -> list[tuple[float, float]]:
    """Return times in microseconds, and the share of exchanges above each.

    It begins where the first bucket does and ends where the last one does, which nothing exceeds;
    in between the times are the ends of buckets.
    """
    counts: Counter[tuple[int, int]] = Counter()
    for one in histograms:
        for lower, upper, count in zip(one.lower_ns, one.upper_ns, one.count, strict=True):
            counts[lower, upper] += count
    left = total = sum(counts.values())
    if not total:
        return []
    ordered = sorted(counts)
    points = [(ordered[0][0] / 1000 or 0.001, 1.0)]
    for bucket in ordered[:-1]:
        left -= counts[bucket]
        points.append((bucket[1] / 1000, left / total))
    return [*points, (ordered[-1][1] / 1000, points[-1][1])]


def sweep_throughput(sizes: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the throughput of all connections together against the size of a message.

    ``sizes`` are those of ``osmef.report.data.sizes_of``, ``trials`` those of ``osmef.load``, which
    name the cells: a line each, the median of the trials, of a platform with sessions that of their
    medians. Raises InputError where nothing was swept, and for more cells than can be
    distinguished.
    """
    y = ChartAxis("throughput", format_rate)
    return _draw(sizes, trials, look, "throughput_bps", ("Throughput against message size", y))


def sweep_time(sizes: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the shortest time of a message on any connection against its size, likewise."""
    y = ChartAxis("time of a message", format_microseconds, steps=(1.0, 2.0, 5.0))
    return _draw(sizes, trials, look, "time_us", ("Time of a message against its size", y))


def _draw(
    sizes: pd.DataFrame, trials: pd.DataFrame, look: Look, value: str, words: tuple[str, ChartAxis]
) -> Figure:
    medians = sizes.groupby(["run", "cell", "size"])[value].median()
    measured = {(str(run), str(cell)) for run, cell, _size in medians.index}
    swept = trials[trials["workload"].isin(SWEEPS)]
    found = {
        cell.label: pd.concat([medians[key] for key in keys]).groupby(level="size").median()
        for cell in cells_of(swept, look)
        if (keys := [key for key in cell.keys if key in measured])
    }
    if not found:
        raise nothing("size sweep", "give runs of `workload: size-sweep`, or of netpipe")
    limit(len(found), "series")
    curves = [
        Curve(label, stroke(number), list(points.items()))
        for number, (label, points) in enumerate(found.items())
    ]
    title, y = words
    x = ChartAxis("size of a message", _binary, base=2.0)
    over = "sessions, each the median of its trials" if has_sessions(swept) else "trials"
    header = Words(title, f"Medians of the {over}; {look.scales}.", source_of(swept))
    return render_curves(CurveChart(header, [("", curves)], x, y), look)


def _binary(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


_ROW_INCHES = 0.3
_TIMES = {"us", "ms", "s"}
_TOLD = {
    "blocks": "the trials of each block are compared",
    "pairs": "the medians of each pair of endpoints are compared",
    "runs": "each run counts as one",
    "trials": "unpaired, for the run has less than two blocks",
}


@styled
def layers(trials: pd.DataFrame, look: Look = PLAIN, *, metric: str | None = None) -> Figure:
    """Draw the ratio of each number with each layer to that without, with its 95 % interval.

    ``trials`` are those of ``osmef.load`` with a column ``layer``; what else was swept is named
    before the layer. A panel is of ``metric``, or of each number that leads a table, of a round
    trip or another time, and of the CPU time per GB. See ``osmef.analysis.layers.layer_overheads``.
    Raises InputError where no trial tells a layer, or none is of the reference, "bare".
    """
    if LAYER not in trials or not trials[LAYER].eq(REFERENCE).any():
        raise nothing("layers beside bare", "give runs that sweep `layer`, one of them bare")
    panels = _panels(trials, metric)
    units = dict.fromkeys(unit for _, found in panels for unit in found["unit"])
    how = "; ".join(_TOLD[unit] for unit in units)
    caption = f"Ratio to {REFERENCE}, lines: 95 % interval; {how}. Dashed: no cost, no gain."
    words = panels[0][0].words if len(panels) == 1 else "what is left of the bare network"
    header = Words(f"{words[0].upper()}{words[1:]}, by layer", caption, source_of(trials))
    named = [broken([_name(row, found, look) for row in found.to_dict("records")], look)
             for _, found in panels]  # fmt: skip
    row = max(_ROW_INCHES, LINE_INCHES * max(lines for _, lines in named) + 0.06)
    most = max(len(found) for _, found in panels)
    figure, every = page(header, {}, look, len(panels), (6.6, (0.8 + row * most) * len(panels)),
                         same_y=False, same_x=False, columns=1)  # fmt: skip
    for axes, (measure, found), (names, _) in zip(every, panels, named, strict=True):
        _draw_shares(axes, found, names)
        if len(panels) > 1:
            axes.set_title(measure.words, loc="left", fontsize=9)
        look.apply(axes)
    times = panels[0][0].words + ", times" if len(panels) == 1 else "times"
    every[-1].set_xlabel(f"{times} that of {REFERENCE}")
    return figure


def _panels(trials: pd.DataFrame, metric: str | None) -> list[tuple[Measure, pd.DataFrame]]:
    """Return the costs by measure: of the named one, or of those that lead and the CPU's time."""
    with_cpu, known = comparable(trials)
    if metric is None:
        times = [one for one in known if one.unit in _TIMES and one != CPU_PER_GB]
        leading = [one for one in known if one.leading]
        first_time = [] if set(times) & set(leading) else times[:1]
        measures = [*leading, *first_time, *(one for one in known if one == CPU_PER_GB)]
    else:
        measures = [one for one in known if one.name == metric] or [chosen(trials, metric)]
    costs = layer_overheads(with_cpu, [one.name for one in measures])
    costs = costs[costs["ratio"].notna()]
    of = [(one, costs[costs["metric"] == one.name].reset_index(drop=True)) for one in measures]
    panels = [(one, found) for one, found in of if not found.empty]
    if not panels:
        names = " or ".join(one.name for one in measures) or "a number"
        raise nothing(f"{names} with and without a layer", "give runs that measured both")
    limit(max(len(found) for _, found in panels), "series")
    return panels


def _draw_shares(axes: Axes, found: pd.DataFrame, names: Sequence[str]) -> None:
    axes.axvline(1, color="black", ls="--", linewidth=0.8)
    of = stroke(0)
    for number, (ratio, low, high) in enumerate(
        zip(found["ratio"], found["ratio_low"], found["ratio_high"], strict=True)
    ):
        axes.plot((low, high), (number, number), color=of.colour, linewidth=1.6, marker="|")
        axes.plot(ratio, number, color=of.colour, marker=of.marker, ls="none")
    axes.set_yticks(range(len(found)), names, fontsize=7.5)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _name(row: dict[object, object], found: pd.DataFrame, look: Look) -> str:
    """Return the label of a row: the layer, and other swept values where they differ."""
    others = found.attrs["by"]
    reported = [f"{name}={row[name]}" for name in others if found[name].nunique(dropna=False) > 1]
    return look.named(", ".join([*map(str, reported), str(row[LAYER])]))
