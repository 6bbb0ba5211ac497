"""Curves on log-log axes: latency distributions, and size sweeps as NetPIPE draws them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from osmef.analysis.replication import has_sessions
from osmef.report.cells import cells_of, nothing, source_of
from osmef.report.data import SWEEPS
from osmef.report.look import PLAIN, Look
from osmef.report.style import (
    Stroke,
    Words,
    label_y,
    limit,
    name_panel,
    of_journal,
    page,
    stroke,
    styled,
)
from osmef.results.observations import Histogram, Phase
from osmef.units import format_rate

_MOST_TICKS, _MOST_IN_COLUMN = 14, 6


@dataclass(frozen=True)
class Curve:
    """A curve: its label, its style, and its points, which are positive."""

    label: str
    stroke: Stroke
    points: Sequence[tuple[float, float]]
    steps: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis: its label, its number format, and its ticks within a decade."""

    label: str
    show: Callable[[float], str]
    base: float = 10.0
    steps: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class CurveChart:
    """A chart: the curves of each panel by title."""

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
        _set_scales(axes, chart, _MOST_IN_COLUMN if of_journal(look) else _MOST_TICKS)
        look.apply(axes)
    label_y(figure, all_axes, look.y_label or chart.y.label)
    return figure


def _set_scales(axes: Axes, chart: CurveChart, most_ticks: int) -> None:
    axes.set_xscale("log", base=chart.x.base)
    axes.set_yscale("log", base=chart.y.base)
    for axis, wanted in ((axes.xaxis, chart.x), (axes.yaxis, chart.y)):
        axis.set_major_locator(LogLocator(wanted.base, wanted.steps, numticks=most_ticks))
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


_CAPTION = "All exchanges of all trials, from their histograms; both axes are logarithmic."


def latency(exchanges: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the complementary distribution of round-trip times, a panel each cell.

    It is the complement of the empirical distribution function, logarithmic, so that the tail can
    be read; a line each phase. ``exchanges`` are those of ``osmef.report.data.exchanges_of``,
    ``trials`` those of ``osmef.load``, which name the cells; those of all sessions of a platform
    are together. Raises InputError without an exchange, and for too many cells.
    """
    groups = dict(list(exchanges.groupby(["run", "cell", "phase"])["histogram"]))
    panels = []
    for cell in cells_of(trials, look):
        found = [
            [one for key in cell.keys for one in groups.get((*key, phase.value), ())]
            for phase in Phase
        ]
        curves = [
            Curve(look.named(phase.value), stroke(number), points, steps=True)
            for number, (phase, histograms) in enumerate(zip(Phase, found, strict=True))
            if (points := longer(histograms))
        ]
        panels += [(cell.label, curves)] if curves else []
    if not panels:
        raise nothing("exchange", "give runs of `workload: latency`")
    chart = CurveChart(
        words=Words("Round-trip time, and how many took longer", _CAPTION, source_of(trials)),
        panels=panels,
        x=Axis("round-trip time", format_microseconds),
        y=Axis("share of exchanges that took longer", _percent),
    )
    return render(chart, look)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def longer(histograms: Iterable[Histogram]) -> list[tuple[float, float]]:
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
    medians. Raises InputError where nothing was swept, and for more cells than can be told apart.
    """
    y = Axis("throughput", format_rate)
    return _draw(sizes, trials, look, "throughput_bps", ("Throughput against message size", y))


def sweep_time(sizes: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the shortest time of a message on any connection against its size, likewise."""
    y = Axis("time of a message", format_microseconds, steps=(1.0, 2.0, 5.0))
    return _draw(sizes, trials, look, "time_us", ("Time of a message against its size", y))


def _draw(
    sizes: pd.DataFrame, trials: pd.DataFrame, look: Look, value: str, words: tuple[str, Axis]
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
    x = Axis("size of a message", _binary, base=2.0)
    over = "sessions, each the median of its trials" if has_sessions(swept) else "trials"
    header = Words(title, f"Medians of the {over}; both axes are logarithmic.", source_of(swept))
    return render(CurveChart(header, [("", curves)], x, y), look)


def _binary(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} GiB"
