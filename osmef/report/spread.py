"""Figures of spread: distribution functions, sessions, and variability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from osmef.analysis.describe import describe
from osmef.analysis.quantiles import ConfidenceInterval
from osmef.analysis.quantiles import ecdf as distribution
from osmef.analysis.replicates import has_sessions, independent
from osmef.analysis.variability import cov_interval
from osmef.report.cells import ShownCell, cells_of, chosen, measured, nothing, source_of, unit
from osmef.report.look import PLAIN, Look
from osmef.report.style import (
    LINE_INCHES,
    MOST_BARS,
    Words,
    broken,
    limit,
    page,
    patch,
    stroke,
    styled,
)

_FEWEST = 5  # values of which a box tells more than the points alone
_WIDEST = 16.0  # inches, of a figure of many sessions
_LETTER_INCHES = 0.09
_FEW_STEPS = 40  # of a distribution function, from which on its steps have no markers
_BOXES = "Boxes: 25 to 75 % of the trials, whiskers at most 1.5 times as long, points beyond. "
_FEW = f"Fewer than {_FEWEST} trials: each one, and a line at the median."
_CURE = "give runs with trials that went well"


@styled
def ecdf(trials: pd.DataFrame, look: Look = PLAIN, *, metric: str | None = None) -> Figure:
    """Draw the empirical distribution function of a metric over the trials, a line each cell.

    ``trials`` are those of ``osmef.load``, as in every function here. Where there are sessions it
    is that of their medians. The band holds the whole true
    function with 95 % (``osmef.analysis.quantiles``). Without ``metric`` it is what leads.
    Raises InputError where no trial has it.
    """
    measure = chosen(trials, metric)
    found = [(cell, cell.values(measure.name)) for cell in cells_of(trials, look)]
    cells = [(cell, values) for cell, values in found if values]
    limit(len(cells), "series")
    how = unit(measure, max(max(values) for _, values in cells))
    caption = "Bands: 95 % confidence for the whole function (Dvoretzky, Kiefer, Wolfowitz)."
    over = "session results" if has_sessions(trials) else "trials"
    header = Words(f"Distribution of {measure.words} over the {over}", caption, source_of(trials))
    legend = {f"{cell.label}, n = {len(values)}": stroke(number).line()
              for number, (cell, values) in enumerate(cells)}  # fmt: skip
    figure, (axes,) = page(header, legend, look)
    for number, (_cell, values) in enumerate(cells):
        steps = distribution(values)
        x, look_of = steps.values / how.divisor, stroke(number)
        axes.plot(
            np.append(x[:1], x),
            np.append(0, steps.share),
            drawstyle="steps-post",
            color=look_of.colour,
            ls=look_of.dashes,
            marker=look_of.marker,
            markersize=4,
            markevery=1 if len(x) <= _FEW_STEPS else len(x) // 8,
        )
        axes.fill_between(
            x, steps.low, steps.high, step="post", color=look_of.colour, alpha=0.1, linewidth=0
        )
    axes.set_ylim(0, 1.03)
    axes.set_xlabel(how.label)
    axes.set_ylabel(look.y_label or f"share of the {over} up to it")
    look.apply(axes)
    return figure


@styled
def sessions(trials: pd.DataFrame, look: Look = PLAIN, *, metric: str | None = None) -> Figure:
    """Draw a metric by session as box plots, a colour each cell.

    A box goes from the 25th to the 75th percentile with a line at the median; whiskers reach to the
    last value within 1.5 times its height, and points are beyond. Fewer than 5 values are points,
    with a line at their median. Raises InputError where no trial is of a session.
    """
    known = trials[trials["session"].notna()]
    if known.empty:
        raise nothing("sessions", "give runs of a campaign, or imported with `osmef import`")
    measure = chosen(known, metric)
    name = measure.name
    order = _sessions(known[known[name].notna()])
    cells = [cell for cell in cells_of(known, look) if cell.values(name)]
    limit(len(cells), "series")
    how = unit(measure, float(known[name].max()))
    counts = [len(rows) for cell in cells for rows in _by_session(cell, name, order) if rows]
    caption = (_BOXES if max(counts) >= _FEWEST else "") + (_FEW if min(counts) < _FEWEST else "")
    what = measure.words
    header = Words(f"{what[0].upper()}{what[1:]} by session", caption, source_of(known))
    sample = _bar if max(counts) >= _FEWEST else _mark
    legend = {cell.label: sample(number) for number, cell in enumerate(cells)}
    wide = min(max(6.6, 1.1 + 0.9 * len(order)), _WIDEST)
    names = [look.named(str(one)) for one in order]
    upright = sum(map(len, names)) * _LETTER_INCHES > wide
    size = (wide, 3.6 + upright * max(map(len, names)) * _LETTER_INCHES)
    figure, (axes,) = page(header, legend, look, size=size)
    width = 0.8 / len(cells)
    for number, cell in enumerate(cells):
        for place, values in enumerate(_by_session(cell, name, order)):
            at = place + (number - (len(cells) - 1) / 2) * width
            _draw_box(axes, at, [value / how.divisor for value in values], width, number)
    axes.set_xticks(range(len(order)), names, rotation=90 if upright else 0)
    if upright:
        axes.tick_params(axis="x", labelsize=7)
    axes.set_xlim(-0.5, len(order) - 0.5)
    axes.grid(visible=False, axis="x")
    axes.set_ylim(bottom=0)
    axes.set_ylabel(look.y_label or how.label)
    look.apply(axes)
    return figure


def _sessions(trials: pd.DataFrame) -> list[object]:
    """Return the sessions in the order of time, or of occurrence if that is unknown."""
    if "started_at" not in trials or trials["started_at"].isna().any():
        return list(dict.fromkeys(trials["session"]))
    return list(trials.groupby("session", sort=False)["started_at"].min().sort_values().index)


def _by_session(cell: ShownCell, metric: str, order: Sequence[object]) -> list[list[float]]:
    rows = cell.trials[[metric, "session"]].dropna()
    return [rows.loc[rows["session"] == one, metric].tolist() for one in order]


def _draw_box(axes: Axes, at: float, values: list[float], width: float, number: int) -> None:
    look = stroke(number)
    if len(values) >= _FEWEST:
        axes.boxplot(
            [values],
            positions=[at],
            widths=0.8 * width,
            patch_artist=True,
            manage_ticks=False,
            boxprops={**patch(number), "alpha": 0.8},
            medianprops={"color": "black", "linewidth": 1.6},
            flierprops={"marker": look.marker, "markersize": 3, "markerfacecolor": look.colour,
                        "markeredgewidth": 0},
        )  # fmt: skip
        return
    axes.plot([at] * len(values), values, ls="none", marker=look.marker, color=look.colour)
    if len(values) > 1:
        middle = float(np.median(values))
        ends = (at - 0.4 * width, at + 0.4 * width)
        axes.plot(ends, (middle, middle), color=look.colour, linewidth=1.6)


@styled
def cov(
    trials: pd.DataFrame, look: Look = PLAIN, *, metrics: Sequence[str] | None = None
) -> Figure:
    """Draw the coefficient of variation of metrics as bars, one each cell.

    Where trials are of sessions it is that over the session results, else over the trials
    (``osmef.analysis.variability``). Without ``metrics`` it is what leads, of
    sessions all. Raises InputError where there are none.
    """
    by_session = has_sessions(trials)
    every = measured(trials) if by_session and not metrics else None
    shown_as = {
        one.name: one.words
        for one in every or [chosen(trials, name) for name in metrics or (None,)]
    }
    names = list(shown_as)
    cells = cells_of(trials, look)
    limit(len(cells), "cells", MOST_BARS)
    results = {name: [independent(cell.trials, name, by_session=by_session) for cell in cells]
               for name in names}  # fmt: skip
    values = {name: [describe(one).cov_percent for one in each] for name, each in results.items()}
    shown = [number for number in range(len(cells))
             if any(values[name][number] is not None for name in names)]  # fmt: skip
    if not shown:
        raise nothing("spread: two trials or sessions at least", _CURE)
    of = "session results" if by_session else "trials"
    header = Words(
        f"Coefficient of variation over the {of}",
        f"100 * sample standard deviation (n - 1) / mean, over the {of} of a cell. In"
        " brackets: 95 % interval, if they are normally distributed (Vangel).",
        source_of(trials),
    )
    legend = {shown_as[name]: _bar(number) for number, name in enumerate(names)}
    rows, lines = broken([cells[cell].label for cell in shown])
    height = 0.3 + len(shown) * max(0.14 * len(names) + 0.12, LINE_INCHES * lines + 0.04)
    figure, (axes,) = page(header, legend if len(names) > 1 else {}, look, size=(6.6, height + 0.4))
    thick = 0.8 / len(names)
    for number, name in enumerate(names):
        at = [row + (number - (len(names) - 1) / 2) * thick for row in range(len(shown))]
        widths = [values[name][cell] or 0.0 for cell in shown]
        bars = axes.barh(at, widths, thick, **patch(number), label=shown_as[name])
        known = [values[name][cell] is not None for cell in shown]
        ends = [cov_interval(results[name][cell]) for cell in shown]
        told = [_cov_text(width, end, known=ok)
                for width, end, ok in zip(widths, ends, known, strict=True)]  # fmt: skip
        axes.bar_label(bars, told, padding=2, fontsize=7)
    axes.set_yticks(range(len(shown)), rows, fontsize=7.5)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.margins(x=0.25)
    axes.grid(visible=False, axis="y")
    alone = f" of {shown_as[names[0]]}" if len(names) == 1 else ""
    axes.set_xlabel(f"coefficient of variation{alone} in %")
    look.apply(axes)
    return figure


def _bar(number: int) -> Artist:
    return Patch(**patch(number))


def _mark(number: int) -> Artist:
    return replace(stroke(number), dashes="").line()


def _cov_text(width: float, interval: ConfidenceInterval, *, known: bool) -> str:
    if not known:
        return "unknown"
    if interval.low is None or interval.high is None:
        return _percent(width)
    return f"{_percent(width)} ({_percent(interval.low)} to {_percent(interval.high)})"


def _percent(value: float) -> str:
    """Format a number with at least two digits, without exponent."""
    return f"{value:.0f}" if value >= 99.5 else f"{value:.2g}"
