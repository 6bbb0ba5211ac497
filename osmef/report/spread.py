"""Figures of spread: distribution functions, sessions, and variability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from osmef.analysis.describe import describe
from osmef.analysis.quantiles import ecdf as distribution
from osmef.analysis.replication import cov_interval, has_sessions, independent
from osmef.report.cells import (
    ShownCell,
    cells_of,
    chosen,
    leading_of_each,
    measured,
    nothing,
    source_of,
    unit,
)
from osmef.report.options import PLAIN, Look
from osmef.report.style import (
    LINE_INCHES,
    MOST_BARS,
    Words,
    broken,
    limit,
    of_journal,
    page,
    patch,
    stroke,
    styled,
)
from osmef.results.measure import Measure

_FEWEST = 5  # values for which a box shows more than the points alone
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
    every = cells_of(trials, look)
    found = [(cell, cell.values(measure.name)) for cell in every]
    cells = [(cell, values) for cell, values in found if values]
    limit(len(cells), "series")
    how = unit(measure, max(max(values) for _, values in cells))
    bands = "Bands: 95 % confidence for the whole function (Dvoretzky, Kiefer, Wolfowitz)."
    caption = f"{bands}{_without(every, measure)}"
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
    axes.set_ylabel(look.y_label or f"cumulative share of {over}")
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
    every = cells_of(known, look)
    cells = [cell for cell in every if cell.values(name)]
    limit(len(cells), "series")
    how = unit(measure, float(known[name].max()))
    counts = [len(rows) for cell in cells for rows in _by_session(cell, name, order) if rows]
    caption = (_BOXES if max(counts) >= _FEWEST else "") + (_FEW if min(counts) < _FEWEST else "")
    caption += _without(every, measure)
    what = measure.words
    header = Words(f"{what[0].upper()}{what[1:]} by session", caption, source_of(known))
    sample = _bar if max(counts) >= _FEWEST else _mark
    legend = {cell.label: sample(number) for number, cell in enumerate(cells)}
    wide = look.width or min(max(6.6, 1.1 + 0.9 * len(order)), _WIDEST)
    names = [look.named(str(one)) for one in order]
    upright = sum(map(len, names)) * _LETTER_INCHES > wide
    high = 1.5 if of_journal(look) else 3.6
    size = (wide, high + upright * max(map(len, names)) * _LETTER_INCHES)
    figure, (axes,) = page(header, legend, look, size=size, whole=True)
    width = 0.8 / len(cells)
    for number, cell in enumerate(cells):
        for position, values in enumerate(_by_session(cell, name, order)):
            at = position + (number - (len(cells) - 1) / 2) * width
            _draw_box(axes, at, [value / how.divisor for value in values], width, number)
    axes.set_xticks(range(len(order)), names, rotation=90 if upright else 0)
    if upright:
        axes.tick_params(axis="x", labelsize=7)
    axes.set_xlim(-0.5, len(order) - 0.5)
    axes.grid(visible=False, axis="x")
    if known[name].min() >= 0:
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
    (``osmef.analysis.replication``). Without ``metrics`` it is what leads in each workload; of
    sessions without a leading metric, such as imported ones, all. Raises InputError where there are
    none.
    """
    by_session = has_sessions(trials)
    named = [chosen(trials, name) for name in metrics or ()]
    measures = named or _usual(trials, by_session=by_session)
    cells = cells_of(trials, look)
    limit(len(cells), "cells", MOST_BARS)
    bars = [_Bar(cell, one, independent(cell.trials, one.name, by_session=by_session))
            for cell in cells for one in measures]  # fmt: skip
    known = {bar.cell.label for bar in bars if bar.percent is not None}
    bars = [bar for bar in bars if bar.values and bar.cell.label in known]
    if not bars:
        raise nothing("spread: two trials or sessions at least", _CURE)
    of = "session results" if by_session else "trials"
    header = Words(
        f"Coefficient of variation over the {of}",
        f"100 * sample standard deviation (n - 1) / |mean|, over the {of} of a cell. In"
        " brackets: 95 % interval, if they are normally distributed (Vangel).",
        source_of(trials),
    )
    legend = {one.words: _bar(number) for number, one in enumerate(measures)}
    groups = [[bar for bar in bars if bar.cell is cell] for cell in cells]
    groups = [group for group in groups if group]
    most = max(map(len, groups))
    rows, lines = broken([group[0].cell.label for group in groups], look)
    height = 0.3 + len(groups) * max(0.14 * most + 0.12, LINE_INCHES * lines + 0.04)
    shown = legend if len(measures) > 1 else {}
    figure, (axes,) = page(header, shown, look, size=(6.6, height + 0.4), whole=True)
    thick = 0.8 / most
    at = {
        bar: row + (number - (len(group) - 1) / 2) * thick
        for row, group in enumerate(groups)
        for number, bar in enumerate(group)
    }
    for number, measure in enumerate(measures):
        of_it = [bar for bar in at if bar.measure is measure]
        lengths = [bar.percent or 0.0 for bar in of_it]
        drawn = axes.barh([at[bar] for bar in of_it], lengths, thick, **patch(number))
        axes.bar_label(drawn, [bar.text for bar in of_it], padding=2, fontsize=7)
    axes.set_yticks(range(len(groups)), rows, fontsize=7.5)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.margins(x=0.9 if of_journal(look) else 0.25)  # for the numbers behind the bars
    axes.grid(visible=False, axis="y")
    between = "\n" if of_journal(look) else " "
    alone = f"{between}of {measures[0].words}" if len(measures) == 1 else ""
    axes.set_xlabel(f"coefficient of variation{alone} in %")
    look.apply(axes)
    return figure


def _usual(trials: pd.DataFrame, *, by_session: bool) -> list[Measure]:
    known = measured(trials)
    has_leading = any(one.leading for one in known)
    return known if by_session and not has_leading else leading_of_each(trials)


@dataclass(frozen=True, eq=False)
class _Bar:
    """The variation of a measure in a cell, from the values that count."""

    cell: ShownCell
    measure: Measure
    values: list[float]

    @property
    def percent(self) -> float | None:
        return describe(self.values).cov_percent

    @property
    def text(self) -> str:
        if self.percent is None:
            return "unknown"
        interval = cov_interval(self.values)
        if interval.low is None or interval.high is None:
            return _percent(self.percent)
        if math.isinf(interval.high):
            return f"{_percent(self.percent)} (over {_percent(interval.low)})"
        return f"{_percent(self.percent)} ({_percent(interval.low)} to {_percent(interval.high)})"


def _without(cells: Sequence[ShownCell], measure: Measure) -> str:
    """Return a sentence on the cells in which the measure is not measured, if there are any."""
    labels = [cell.label for cell in cells if not cell.values(measure.name)]
    return f" Without {measure.words}, and left out: {'; '.join(labels)}." if labels else ""


def _bar(number: int) -> Artist:
    return Patch(**patch(number))


def _mark(number: int) -> Artist:
    return replace(stroke(number), dashes="").line()


def _percent(value: float) -> str:
    """Format a number with at least two digits, without exponent."""
    return f"{value:.0f}" if value >= 99.5 else f"{value:.2g}"
