"""Figures for a column of a journal: no word lies over another one, or is cut off."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from osmef.report.line_charts import ChartAxis, Curve, CurveChart, render_curves
from osmef.report.options import Look
from osmef.report.spread import cov, sessions
from osmef.report.style import Words, stroke
from osmef.report.throughput import btc_distance, limits
from osmef.report.time_series import intervals
from tests.report.drawn import visible
from tests.report.test_spread import by_session
from tests.report.test_time_series import rows

MakeTrials = Callable[..., pd.DataFrame]
COLUMN = Look(width=3.5)


def words_of(figure: Figure) -> list[Text]:
    """Return the words of all panels, as they are drawn."""
    figure.draw_without_rendering()
    panels = visible(figure)
    found = [text for axes in panels for text in axes.texts]
    for axes in panels:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [one for one in axis.get_major_ticks() if low <= one.get_loc() <= high]
            found += [axis.label, *(one.label1 for one in ticks)]
    return [text for text in found if text.get_visible() and text.get_text()]


def check_words(figure: Figure) -> None:
    words = words_of(figure)
    boxes = [text.get_window_extent() for text in words]
    others = [legend.get_window_extent() for legend in figure.legends]
    over = [pair for pair in combinations([*boxes, *others], 2) if pair[0].overlaps(pair[1])]
    assert over == [], [text.get_text() for text in words]
    for box in boxes:
        assert -1 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1
        assert -1 <= box.y0 <= box.y1 <= figure.bbox.y1 + 1


def test_curves_have_fewer_ticks_and_a_label_in_lines() -> None:
    curves = [Curve(name, stroke(n), [(1024, 1e7), (2**23, 1e9)]) for n, name in enumerate("ab")]
    size = ChartAxis("size of a message", lambda size: f"{size / 1024:.0f} KiB", base=2)
    share = ChartAxis("share of exchanges that took longer", str)
    check_words(render_curves(CurveChart(Words("t", "", ""), [("", curves)], size, share), COLUMN))


def test_panels_below_each_other_keep_their_height(make_trials: MakeTrials) -> None:
    cells = [make_trials(connections=n) for n in range(1, 7)]
    table = [rows(one, 1, 0, [125, 250]) for one in cells]
    figure = intervals(pd.concat(table), pd.concat(cells), COLUMN)
    figure.draw_without_rendering()
    for axes in visible(figure):
        assert axes.get_window_extent().height / figure.dpi > 0.4


@pytest.mark.parametrize("count", [3, 9])
def test_names_of_sessions_leave_room_for_the_boxes(make_trials: MakeTrials, count: int) -> None:
    trials = by_session(make_trials, {f"2026-11-26 06:0{n} minute": 6 for n in range(count)})
    figure = sessions(trials, COLUMN)
    check_words(figure)
    (axes,) = visible(figure)
    assert axes.get_window_extent().height / figure.dpi > 1


def test_numbers_behind_bars_are_within(make_trials: MakeTrials) -> None:
    rates = [1e9, 2e9, 9e9, 1e10, 1.1e10, 8e9]
    runs = [
        make_trials(place, aggregate_bps=rates, run="r")
        for place in ("same-host", "different-host")
    ]
    check_words(cov(pd.concat(runs).assign(scenario="a-scenario-with-a-long-name"), COLUMN))


def four_places(make_trials: MakeTrials) -> pd.DataFrame:
    places = product(("same-host", "different-host"), ("same-tenant", "different-tenant"), (1, 8))
    return pd.concat(make_trials(*where, run="r") for where in places)


def test_names_of_bars_have_room_for_their_lines(make_trials: MakeTrials) -> None:
    trials = four_places(make_trials)
    counts = pd.DataFrame({"run": "r", "cell": trials["cell"].unique(), "network": 6})
    check_words(limits(counts, trials, COLUMN))
    check_words(cov(trials, COLUMN))


def test_places_below_an_axis_are_broken_into_lines(make_trials: MakeTrials) -> None:
    check_words(btc_distance(four_places(make_trials), COLUMN))
