"""Figures of ping-pong by message size: requests, their median, their spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from osmef.analysis.pingpong import by_bin, message_times, relative, relative_ends
from osmef.errors import InputError, NothingToDrawError
from osmef.report.cells import cells_of, nothing, source_of
from osmef.report.options import PLAIN, Look
from osmef.report.style import GREY, Words, limit, page, shares, stroke, styled
from osmef.results.observations import Purpose
from osmef.units import counted, format_size

WINDOW = 87380
"""The TCP receive window whose multiples ppbench draws, bytes: Linux' default for long."""

_MOST_WINDOWS = 12
_APART = 10.0  # the ratio of the cells' medians from which on the other axis is
_WIDE = 100.0  # the ratio of sizes from which on their axis is logarithmic
_MOST_POINTS = 20_000  # in one figure; more would only make it darker
_DENSE = 25  # more medians than this have no markers
_SIDES = (("low", -1), ("high", 1))
_CROWD = 4  # of more series the points and bands hide each other
_BANDS = (50.0, 90.0)


@dataclass(frozen=True)
class Messages:
    """Selection of what to draw of the messages.

    ``bands`` hold so many percent of the data each, from percentile to percentile around the
    median. Without a word of ``points`` and ``bands`` they are drawn of up to four series, and of
    more the medians alone. ``interval`` draws the 95 % interval of the median. ``window`` is in
    bytes, 0 draws no lines. ``reference`` is the label of the series that is 1.0, the first one
    without it; ``bins`` is how many there are of the message size; ``alpha`` is how opaque a point
    is.
    """

    relative: bool = False
    reference: str | None = None
    points: bool | None = None
    bands: Sequence[float] | None = None
    interval: bool = False
    window: int = WINDOW
    bins: int = 50
    alpha: float | None = None

    def of(self, series: int) -> Messages:
        """Resolve the defaults for a number of series."""
        few = series <= _CROWD
        bands = _BANDS if few else ()
        return replace(
            self,
            points=few if self.points is None else self.points,
            bands=bands if self.bands is None else self.bands,
        )


ALL = Messages()
"""Medians of all, with points and bands as far as they can be distinguished."""


@dataclass(frozen=True)
class RequestMetric:
    """A figure's metric: its value, its divisor, and its labels."""

    value: str
    divisor: float
    title: str
    label: str


TRANSFER = RequestMetric("transfer_rate_bytes_per_s", 1e6, "Transfer rate", "transfer rate in MB/s")
LATENCY = RequestMetric("time_us", 1e3, "Latency", "time of a message in ms")
REQUESTS = RequestMetric("requests_per_s", 1.0, "Requests per second", "requests per second")

_BARS = "Bars: exact 95 % interval of the median, if requests are independent."

Series = dict[str, pd.DataFrame]
"""What each request of a cell gave, by what the legend calls the cell."""


@styled
def messages(
    requests: pd.DataFrame,
    trials: pd.DataFrame,
    kind: RequestMetric,
    look: Look = PLAIN,
    wanted: Messages = ALL,
) -> Figure:
    """Draw a value of single requests against their message size, a colour each cell.

    ``requests`` are those of ``osmef.load_requests``, with the columns run, cell, purpose, size,
    length, relay_s, duration_s and error; ``trials`` those of ``osmef.load``, which name the cells.
    A line through the medians of bins of the size, points, bands of percentiles of the data; or the
    ratio of the median lines to that of a reference. An empty bin is a gap. Requests of all
    sessions of a platform are together. Raises InputError where no request went well, for too many
    cells, and where the reference is none of the cells, or the only one.
    """
    series, failed = _series(requests, trials, look)
    drawn = _Drawn(kind, series, _Sizes.of(series, wanted.bins, look), source_of(trials), failed)
    return _draw_relative(drawn, look, wanted) if wanted.relative else _draw(drawn, look, wanted)


@dataclass(frozen=True)
class _Sizes:
    """The message sizes, whether they span decades, and the edges of bins."""

    all: np.ndarray
    wide: bool
    edges: np.ndarray

    @classmethod
    def of(cls, series: Series, bins: int, look: Look) -> _Sizes:
        sizes = np.concatenate([rows["size"].to_numpy(dtype="float64") for rows in series.values()])
        distinct = np.unique(sizes)
        # Of many, the few at the ends of a range that was drawn from say nothing.
        ends = [1.0, 0.0] if len(distinct) <= bins else [0.95, 0.05]
        high, low = np.quantile(distinct, ends)
        some = bool(distinct[0] > 0)  # answers to HEAD have no content
        wide = some and bool(high >= _WIDE * low)
        wide = wide if look.x_log is None else look.x_log
        return cls(sizes, wide, _edges(distinct, bins, wide=wide and some))


@dataclass(frozen=True)
class _Drawn:
    kind: RequestMetric
    series: Series
    sizes: _Sizes
    source: str
    failed: int


def _series(requests: pd.DataFrame, trials: pd.DataFrame, look: Look) -> tuple[Series, int]:
    """Return the successful requests of each cell by its label, and the number of the others.

    Cells are in the order of trials; requests of all sessions of a platform are together.
    """
    own = requests[requests["purpose"] == Purpose.MEASURED.value]
    groups = dict(list(message_times(own).groupby(["run", "cell"], observed=True, sort=False)))
    with_requests = trials[trials["workload"] == "pingpong"]
    found = {
        cell.label: pd.concat([groups[key] for key in keys])
        for cell in cells_of(with_requests, look)
        if (keys := [key for key in cell.keys if key in groups])
    }
    if not found:
        raise nothing("requests that went well", "give runs of `workload: pingpong`")
    limit(len(found), "series")
    return found, int(own["error"].notna().sum())


def _draw(drawn: _Drawn, look: Look, wanted: Messages) -> Figure:
    kind, series, sizes = drawn.kind, drawn.series, drawn.sizes
    windows = _windows(sizes, wanted.window)
    wanted = wanted.of(len(series))
    bands = sorted(wanted.bands or (), reverse=True)
    legend: dict[str, Artist] = {
        f"{name}: median": stroke(number).line() for number, name in enumerate(series)
    }
    legend |= shares({f"{band:g} % of the data": _opacity(band) + 0.1 for band in bands})
    words = Words(
        f"{kind.title} against message size", _caption(drawn, wanted, windows), drawn.source
    )
    figure, (axes,) = page(words, legend, look)
    thin = float(np.clip(1000 / len(sizes.all), 0.15, 0.6))
    alpha = thin if wanted.alpha is None else wanted.alpha
    some = min(1.0, _MOST_POINTS / len(sizes.all))
    for number, rows in enumerate(series.values()):
        if wanted.points:
            _draw_points(axes, rows.sample(frac=some, random_state=0), kind, number, alpha)
        bins = by_bin(rows, kind.value, sizes.edges, _quantiles(bands))
        _draw_bands(axes, bins, kind.divisor, number, bands)
        if wanted.interval:
            low, high = bins["ci95_low"] / kind.divisor, bins["ci95_high"] / kind.divisor
            _draw_ends(axes, bins["size"], low, high, number)
    medians = [float(rows[kind.value].median()) for rows in series.values()]
    _set_x(axes, sizes, windows)
    far = sizes.wide or max(medians) >= _APART * min(medians) > 0
    _set_y(axes, kind.label, look, log=far if look.y_log is None else look.y_log)
    return figure


def _draw_relative(drawn: _Drawn, look: Look, wanted: Messages) -> Figure:
    """Draw each median line over that of the reference."""
    kind, sizes = drawn.kind, drawn.sizes
    windows = _windows(sizes, wanted.window)
    first = _reference(drawn.series, wanted.reference)
    series = {first: drawn.series[first], **drawn.series}  # which comes first
    names = [f"{first}: reference, 1.0", *list(series)[1:]]
    note = (
        "Bars: 95 % interval of the ratio, if requests are independent. " if wanted.interval else ""
    )
    words = Words(
        f"{kind.title} against message size, relative",
        f"Ratio of the medians to those of {first}. {note}{_notes(drawn, windows, wanted)}".strip(),
        drawn.source,
    )
    legend = {name: stroke(number).line() for number, name in enumerate(names)}
    figure, (axes,) = page(words, legend, look)
    lines = {name: by_bin(rows, kind.value, sizes.edges) for name, rows in series.items()}
    axes.axhline(1.0, color=stroke(0).colour, linewidth=1.4)
    every = [np.ones(1)]
    for number, (name, rows) in enumerate(series.items()):
        if number == 0:
            continue
        ratio = relative(lines[name], lines[first])
        _draw_median(axes, ratio["size"], ratio["ratio"], number)
        every.append(ratio["ratio"].dropna().to_numpy())
        if wanted.interval:
            ends = relative_ends(rows, series[first], kind.value, sizes.edges)
            _draw_ends(axes, ratio["size"], ends["low"], ends["high"], number)
    _set_x(axes, sizes, windows)
    seen = np.concatenate(every)
    far = bool(seen.max() >= _APART * seen.min())
    label = f"{kind.title.lower()} / that of the reference"
    _set_y(axes, label, look, log=far if look.y_log is None else look.y_log)
    return figure


def _reference(series: Series, wanted: str | None) -> str:
    """Return the label of the reference: its full label, or a unique part of it."""
    if len(series) < 2:
        raise NothingToDrawError(
            "a relative figure needs a reference and another series",
            cure="give a run with several cells, or several runs",
        )
    if wanted is None or wanted in series:
        return wanted or next(iter(series))
    found = [name for name in series if wanted in name]
    if len(found) == 1:
        return found[0]
    several = "none" if not found else "several"
    raise InputError(
        f"{several} of the series is called {wanted!r}: {'; '.join(series)}",
        where="--reference",
        cure="give the whole name of one of them",
    )


def _edges(distinct: np.ndarray, bins: int, *, wide: bool) -> np.ndarray:
    """Return the edges of bins: one for each of few sizes, else of equal width."""
    if len(distinct) <= bins:
        return np.append(distinct, distinct[-1] + 1)
    space = np.geomspace if wide else np.linspace
    return space(distinct[0], distinct[-1] + 1, bins + 1)


def _quantiles(bands: Sequence[float]) -> dict[str, float]:
    ends = {f"{side}{band:g}": 0.5 + sign * band / 200 for band in bands for side, sign in _SIDES}
    return {"median": 0.5, **ends}


def _opacity(band: float) -> float:
    """Return the opacity of a band: narrow ones are drawn over wide ones."""
    return 0.3 if band <= 50 else 0.15


def _draw_points(
    axes: Axes, rows: pd.DataFrame, kind: RequestMetric, number: int, alpha: float
) -> None:
    axes.plot(
        rows["size"].to_numpy(dtype="float64"),
        rows[kind.value].to_numpy(dtype="float64") / kind.divisor,
        linestyle="none",
        marker=".",
        markersize=3,
        markeredgewidth=0,
        color=stroke(number).colour,
        alpha=alpha,
        zorder=1.5,
        rasterized=True,
        label="points",
    )


def _draw_bands(
    axes: Axes, bins: pd.DataFrame, divisor: float, number: int, bands: Sequence[float]
) -> None:
    values = bins.astype("float64")
    for band in bands:
        low, high = (values[f"{side}{band:g}"] / divisor for side, _ in _SIDES)
        axes.fill_between(
            values["size"], low, high, color=stroke(number).colour, alpha=_opacity(band),
            linewidth=0,
        )  # fmt: skip
    _draw_median(axes, values["size"], values["median"] / divisor, number)


def _draw_median(axes: Axes, x: pd.Series[float], y: pd.Series[float], number: int) -> None:
    look = stroke(number)
    known = y.notna()
    alone = known & ~known.shift(fill_value=False) & ~known.shift(-1, fill_value=False)
    few = int(known.sum()) <= _DENSE
    some = set(range(number * 3 % 7, len(y), 7)) | set(np.flatnonzero(alone).tolist())
    axes.plot(
        x.to_numpy(dtype="float64"),
        y.to_numpy(dtype="float64"),
        color=look.colour,
        ls=look.dashes,
        marker=look.marker,
        markersize=4.5,
        markeredgecolor="white",
        markevery=1 if few else sorted(some),
        label="median",
    )


def _draw_ends(
    axes: Axes, x: pd.Series[float], low: pd.Series[float], high: pd.Series[float], number: int
) -> None:
    """Draw an interval at each size, side by side for several series."""
    known = low.notna() & high.notna()
    drawn = axes.vlines(
        x[known], low[known], high[known], color=stroke(number).colour, linewidth=1.2
    )
    drawn.set_label("interval")
    axes.plot(
        np.repeat(x[known], 2), np.ravel(np.column_stack([low[known], high[known]])),
        linestyle="none", marker="_", markersize=5, markeredgewidth=1.2,
        color=stroke(number).colour,
    )  # fmt: skip


def _set_y(axes: Axes, label: str, look: Look, *, log: bool) -> None:
    if log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1,) if high > 100 * low else (1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _position: f"{y:g}"))
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylabel(look.y_label or f"{label}{' (logarithmic)' if log else ''}")
    look.apply(axes)


def _set_x(axes: Axes, sizes: _Sizes, windows: Sequence[float]) -> None:
    if sizes.wide:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _position: format_size(x)))
    axes.set_xlabel(f"message size{' (logarithmic)' if sizes.wide else ''}")
    for window in windows:
        axes.axvline(window, color=GREY, linestyle="--", linewidth=0.7, zorder=1.2)


def _windows(sizes: _Sizes, window: int) -> list[float]:
    """Return the drawn multiples of the window; none if there are too many."""
    if not window:
        return []
    first = np.ceil(sizes.all.min() / window) * window
    found = np.arange(max(first, window), sizes.all.max() + 1, window)
    if sizes.wide:  # where they would lie ever closer
        found = found[:1]
    return found.tolist() if len(found) <= _MOST_WINDOWS else []


def _shares(bands: Sequence[float]) -> str:
    return " and ".join(f"{band:g} %" for band in sorted(bands))


def _notes(drawn: _Drawn, windows: Sequence[float], wanted: Messages) -> str:
    """Return the end of the caption: failed requests, and the dashed lines."""
    notes = [f"Left out: {counted(drawn.failed, 'failed request')}."] if drawn.failed else []
    if windows:
        which = "lines: multiples of" if len(windows) > 1 else "line:"
        notes.append(f"Dashed upright {which} {wanted.window} B, a TCP receive window.")
    return " ".join(notes)


def _caption(drawn: _Drawn, wanted: Messages, windows: Sequence[float]) -> str:
    at_ping = all(rows["relay_s"].notna().all() for rows in drawn.series.values())
    where = ", as ping measured them" if at_ping else ""
    return " ".join(
        filter(None, [
            f"Points: single requests{where}." if wanted.points else "",
            f"Bands: {_shares(wanted.bands)} of the data, between percentiles."
            if wanted.bands
            else "",
            _BARS if wanted.interval else "",
            _notes(drawn, windows, wanted),
        ])
    )  # fmt: skip
