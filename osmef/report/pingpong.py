"""The figures of ping-pong against the message size: every request, their median, their spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from osmef.analysis.pingpong import by_bin, message_times, relative
from osmef.report.series import short_names, shown_values, written
from osmef.report.style import GREY, HEAD_LINE_INCHES, PLACE_COLOURS, panels
from osmef.results.exchange import Purpose
from osmef.results.rows import load_requests
from osmef.results.summary import CellInfo, Summary
from osmef.units import format_size

WINDOW = 87380
"""The TCP receive window whose multiples ppbench draws, bytes: Linux' default for long."""

_BINS = 50
_MOST_WINDOWS = 12
_APART = 10.0  # the ratio of the cells' medians from which on the other axis is
_WIDE = 100.0  # the ratio of sizes from which on their axis is logarithmic
_MOST_POINTS = 20_000  # in one figure; more would only make it darker


@dataclass(frozen=True)
class _Kind:
    """A figure: which value it shows, by what it is divided, and its words."""

    value: str
    divisor: float
    title: str
    label: str


_KINDS = {
    "pingpong-transfer": _Kind(
        "transfer_rate_bytes_per_s", 1e6, "Transfer rate", "transfer rate in MB/s"
    ),
    "pingpong-latency": _Kind("time_us", 1e3, "Latency", "time of a message in ms"),
    "pingpong-requests": _Kind("requests_per_s", 1.0, "Requests per second", "requests per second"),
}

Series = dict[str, pd.DataFrame]
"""What each request of a cell gave, by what the legend calls the cell."""


def pingpong_figures(summary: Summary, directory: Path) -> dict[str, Callable[[], Figure]]:
    """Return what draws the figures of the ping-pong cells, by the names of their files.

    The transfer rate, time, and requests per second of every single request against its message
    size, a colour each cell, with the median and percentiles over bins of the size: bands of
    the data, not confidence intervals. With several cells there is another one of each, relative
    to the first cell: the ratio of the median lines. Empty without a request that went well.
    """
    cells = [cell for cell in summary.cells if cell.workload == "pingpong" and cell.n_ok]
    if not cells:
        return {}
    requests = message_times(load_requests(directory))
    measured = requests[requests["purpose"] == Purpose.MEASURED.value]
    named = {_name(cell, summary): measured[measured["cell"] == cell.key] for cell in cells}
    series = {name: rows for name, rows in named.items() if len(rows)}
    figures = {name: partial(_draw, kind, series, summary.run.id) for name, kind in _KINDS.items()}
    ratios = {
        f"{name}-relative": partial(_draw_relative, kind, series, summary.run.id)
        for name, kind in _KINDS.items()
    }
    return {**(figures if series else {}), **(ratios if len(series) > 1 else {})}


def _name(cell: CellInfo, summary: Summary) -> str:
    names = short_names(dict.fromkeys(key for one in summary.cells for key in shown_values(one)))
    return (
        ", ".join(f"{names[key]} {written(value)}" for key, value in shown_values(cell).items())
        or summary.run.scenario
    )


def _draw(kind: _Kind, series: Series, run: str) -> Figure:
    columns = 2
    figure, (axes,) = panels(1, -(-(len(series) + 2) // columns))
    sizes, wide, edges = _bins(series)
    alpha = float(np.clip(1000 / len(sizes), 0.15, 0.6))
    some = min(1.0, _MOST_POINTS / len(sizes))
    for number, rows in enumerate(series.values()):
        colour = _colour(number)
        shown = rows.sample(frac=some, random_state=0)
        _draw_points(axes, shown["size"], shown[kind.value] / kind.divisor, colour, alpha)
        _draw_bands(axes, by_bin(rows, kind.value, edges), kind.divisor, colour)
    _set_y(axes, kind, [rows[kind.value].median() for rows in series.values()], wide=wide)
    windows = _set_x(axes, sizes, wide=wide)
    lines = {f"{name}: median": _line(number) for number, name in enumerate(series)}
    bands = {
        "50 % of data": Patch(color=GREY, alpha=0.45),
        "90 % of data": Patch(color=GREY, alpha=0.15),
    }
    _write_title(figure, f"{kind.title} against message size")
    _write_legend(figure, {**lines, **bands}, columns)
    at_ping = all(rows["relay_s"].notna().all() for rows in series.values())
    where = ", as ping measured them" if at_ping else ""
    _write_foot(figure, f"Points: single requests{where}.{windows}", run)
    return figure


def _draw_relative(kind: _Kind, series: Series, run: str) -> Figure:
    """Draw each median line over that of the first cell, which is the reference."""
    columns = 2
    figure, (axes,) = panels(1, -(-len(series) // columns))
    sizes, wide, edges = _bins(series)
    lines = [by_bin(rows, kind.value, edges) for rows in series.values()]
    ratios = [relative(line, lines[0]) for line in lines]
    axes.axhline(1.0, color=_colour(0), linewidth=1.4)
    for number, ratio in enumerate(ratios[1:], start=1):
        x, y = ratio["size"].to_numpy(dtype="float64"), ratio["ratio"].to_numpy()
        axes.plot(x, y, color=_colour(number), marker=_marker(x), markersize=4)
    every = np.concatenate([ratio["ratio"].dropna() for ratio in ratios])
    axes.set_ylabel(f"{kind.title.lower()} / that of the reference")
    if every.max() >= _APART * every.min():
        _set_log_y(axes)
        axes.set_ylabel(f"{axes.get_ylabel()} (logarithmic)")
    else:
        axes.set_ylim(bottom=0)
    windows = _set_x(axes, sizes, wide=wide)
    first, *others = series
    names = [f"{first}: reference, 1.0", *others]
    _write_title(figure, f"{kind.title} against message size, relative")
    _write_legend(figure, {name: _line(number) for number, name in enumerate(names)}, columns)
    _write_foot(figure, f"Ratio of the medians.{windows}", run)
    return figure


def _bins(series: Series) -> tuple[np.ndarray, bool, np.ndarray]:
    """Return the sizes of all requests, whether they span decades, and the edges of the bins."""
    sizes = np.concatenate([rows["size"].to_numpy(dtype="float64") for rows in series.values()])
    distinct = np.unique(sizes)
    # Of many, the few at the ends of a range that was drawn from say nothing.
    ends = [1.0, 0.0] if len(distinct) <= _BINS else [0.95, 0.05]
    wide = bool(np.divide(*np.quantile(distinct, ends)) >= _WIDE)
    return sizes, wide, _edges(sizes, wide=wide)


def _colour(number: int) -> str:
    return PLACE_COLOURS[number % len(PLACE_COLOURS)]


def _line(number: int) -> Line2D:
    return Line2D([], [], color=_colour(number))


def _marker(x: np.ndarray) -> str | None:
    """Return what marks the points of a line, where there are few."""
    return "o" if np.count_nonzero(np.isfinite(x)) <= _BINS // 2 else None


def _edges(sizes: np.ndarray, *, wide: bool) -> np.ndarray:
    """Return the edges of bins: one for each size where these are few, else of equal width."""
    distinct = np.unique(sizes)
    if len(distinct) <= _BINS:
        return np.append(distinct, distinct[-1] + 1)
    space = np.geomspace if wide else np.linspace
    return space(distinct[0], distinct[-1] + 1, _BINS + 1)


def _draw_points(
    axes: Axes, x: pd.Series[float], y: pd.Series[float], colour: str, alpha: float
) -> None:
    axes.plot(
        x.to_numpy(dtype="float64"),
        y.to_numpy(dtype="float64"),
        linestyle="none",
        marker=".",
        markersize=3,
        markeredgewidth=0,
        color=colour,
        alpha=alpha,
        zorder=1.5,
        rasterized=True,
    )


def _draw_bands(axes: Axes, bins: pd.DataFrame, divisor: float, colour: str) -> None:
    values = bins.astype("float64")
    x = values["size"].to_numpy()
    at = {name: values[name].to_numpy() / divisor for name in values.columns}
    axes.fill_between(x, at["p5"], at["p95"], color=colour, alpha=0.15, linewidth=0)
    axes.fill_between(x, at["p25"], at["p75"], color=colour, alpha=0.3, linewidth=0)
    axes.plot(x, at["median"], color=colour, marker=_marker(x), markersize=4)


def _set_y(axes: Axes, kind: _Kind, medians: Sequence[float], *, wide: bool) -> None:
    """Set the axis of the value: logarithmic where that of the sizes is, or cells differ much."""
    if wide or max(medians) >= _APART * min(medians):
        _set_log_y(axes)
        axes.set_ylabel(f"{kind.label} (logarithmic)")
        return
    axes.set_ylim(bottom=0)
    axes.set_ylabel(kind.label)


def _set_log_y(axes: Axes) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1,) if high > 100 * low else (1, 2, 5)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _position: f"{y:g}"))


def _set_x(axes: Axes, sizes: np.ndarray, *, wide: bool) -> str:
    """Set the axis of the sizes; return what the caption says of the lines that are drawn."""
    if wide:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _position: format_size(x)))
    if wide:
        axes.set_xlabel("message size (logarithmic)")
        return ""
    axes.set_xlabel("message size")
    first = np.ceil(sizes.min() / WINDOW) * WINDOW
    windows = np.arange(first, sizes.max() + 1, WINDOW)
    if not 0 < len(windows) <= _MOST_WINDOWS:
        return ""
    for window in windows:
        axes.axvline(window, color=GREY, linestyle="--", linewidth=0.7, zorder=1.2)
    return f" Dashed: multiples of {WINDOW} B, a TCP receive window."


def _write_title(figure: Figure, title: str) -> None:
    y = 1 - 0.08 / figure.get_figheight()
    figure.text(0.015, y, title, va="top", weight="bold", fontsize=10)


def _write_legend(figure: Figure, handles: Mapping[str, Line2D | Patch], columns: int) -> None:
    """Write the legend into the room that ``panels`` left."""
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="upper left",
        bbox_to_anchor=(0.005, 1 - HEAD_LINE_INCHES / figure.get_figheight()),
        ncols=columns,
        borderaxespad=0.2,
        labelspacing=0.3,
        columnspacing=1.4,
    )


def _write_foot(figure: Figure, caption: str, run: str) -> None:
    y = 0.06 / figure.get_figheight()
    figure.text(0.015, y, caption, va="bottom", fontsize=7, color=GREY)
    figure.text(0.99, y, run, va="bottom", ha="right", fontsize=7, color=GREY)
