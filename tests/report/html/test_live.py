"""Figures that react show what their pictures show."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from osmef.report.html.figures import live
from osmef.report.html.layout import StripAxis, strip

VALUES = st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=40)


def drawn(*, log: bool = False, bars: bool = False) -> Figure:
    """Two series in two panels, with an interval, and a legend."""
    figure = Figure()
    for axes in figure.subplots(1, 2):
        axes.plot([1, 2, 4], [10.0, float("nan"), 30.0], color="#0072B2", marker="o")
        axes.plot([1, 2, 4], [5.0, 6.0, 7.0], color="#D55E00", ls="--")
        axes.errorbar(1, 10.0, yerr=[[4.0], [2.0]], fmt="none", ecolor="#0072B2", capsize=3)
        axes.stairs([1, 2], [0, 1, 2], baseline=None, color="#009E73")
        axes.set_title("panel <b>", loc="left")
        axes.set_xlabel("connections")
        if log:
            axes.set_yscale("log")
        if bars:
            axes.bar([1], [2])
    samples = [
        Line2D([], [], color="#0072B2", marker="o"),
        Line2D([], [], color="#D55E00", ls="--"),
    ]
    figure.legend(samples, ["one <i>", "two"])
    return figure


def told(figure: Figure) -> dict[str, Any]:
    found = live(figure)
    assert found is not None
    assert "<" not in found
    loaded: dict[str, Any] = json.loads(found)
    return loaded


def test_each_line_is_converted_with_its_name_and_interval() -> None:
    data = told(drawn())["data"]
    first = data[0]
    assert (first["name"], first["x"], first["y"]) == ("one &lt;i&gt;", [1, 2, 4], [10, None, 30])
    assert (first["error_y"]["array"], first["error_y"]["arrayminus"]) == ([2, 0, 0], [4, 0, 0])
    assert "6 to 12" in first["text"][0]
    steps = next(one for one in data if one["line"]["shape"] == "hv")
    assert (steps["x"], steps["y"]) == ([0, 1, 2], [1, 2, 2])
    assert [one["name"] for one in data if one["showlegend"]] == ["one &lt;i&gt;", "two"]
    assert {one["xaxis"] for one in data} == {"x1", "x2"}


def test_the_legend_has_the_line_that_is_not_faint() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.stairs([1, 1], [0, 1, 2], baseline=None, color="#0072B2", alpha=0.4)
    axes.stairs([2, 2], [0, 1, 2], baseline=None, color="#0072B2", ls="-")
    figure.legend([Line2D([], [], color="#0072B2")], ["rate"])
    data = told(figure)["data"]
    assert [(one["name"], one["showlegend"]) for one in data] == [("rate", False), ("rate", True)]


def test_the_legend_has_the_widest_line_of_a_name() -> None:
    """As that of the round trips of a course: a thin line is the 99th percentile."""
    figure = Figure()
    axes = figure.add_subplot()
    for width in (0.5, 1.3, 0.7):
        axes.stairs([1, 2], [0, 1, 2], baseline=None, color="#0072b2", linewidth=width)
    figure.legend([Line2D([], [], color="#0072b2")], ["round trips"])
    data = told(figure)["data"]
    assert [one["showlegend"] for one in data] == [False, True, False]


def test_faint_steps_have_a_name_of_their_own() -> None:
    """Single trials and their median have one colour, and no dashes."""
    figure = Figure()
    axes = figure.subplots()
    thin: dict[str, Any] = {"color": "#0072B2", "alpha": 0.4}
    for value in (1, 3):
        axes.stairs([value, value], [0, 1, 2], baseline=None, **thin)
    axes.stairs([2, 2], [0, 1, 2], baseline=None, color="#0072B2", ls="-")
    samples = [Line2D([], [], color="#0072B2"), Line2D([], [], **thin)]
    figure.legend(samples, ["median", "single trials"])
    data = told(figure)["data"]
    assert [one["name"] for one in data] == ["single trials", "single trials", "median"]
    assert [one["showlegend"] for one in data] == [True, False, True]
    assert [one["opacity"] for one in data] == [0.4, 0.4, 1.0]
    assert {one["line"]["dash"] for one in data} == {"solid"}


def test_the_legend_shows_the_median_and_not_the_points_behind_it() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2], [1, 3], ".", color="#0072B2", alpha=0.25)
    axes.plot([1, 2], [2, 2], color="#0072B2", marker="o")
    figure.legend([Line2D([], [], color="#0072B2", marker="o")], ["median"])
    points, median = told(figure)["data"]
    assert (points["mode"], points["showlegend"]) == ("markers", False)
    assert (median["mode"], median["showlegend"]) == ("lines+markers", True)


def test_ticks_keep_their_units() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 4e5], [1, 2], color="#0072B2")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _position: f"{x / 1000:g} kB"))
    layout = told(figure)["layout"]
    assert layout["xaxis"]["ticktext"][:2] == ["0 kB", "50 kB"]
    assert layout["xaxis"]["tickvals"][:2] == [0, 5e4]
    assert "ticktext" not in layout["yaxis"], "plain numbers follow the zoom"


@pytest.mark.parametrize("log", [False, True])
def test_axes_are_as_in_the_picture(log: bool) -> None:
    figure = drawn(log=log)
    layout = told(figure)["layout"]
    low, high = figure.axes[0].get_ylim()
    shown = layout["yaxis"]["range"]
    assert [10**end if log else end for end in shown] == pytest.approx([low, high])
    assert layout["yaxis"]["type"] == ("log" if log else "linear")
    assert layout["xaxis2"]["title"]["text"] == "connections"
    assert layout["annotations"][0]["text"] == "panel &lt;b&gt;"


def test_titles_of_panels_side_by_side_are_broken_and_have_room() -> None:
    titles = [f"same host, different tenants, connections {n} & <b>" for n in range(4)]

    def gap_of(titles: list[str]) -> tuple[list[str], float]:
        figure = Figure()
        for axes, title in zip(figure.subplots(2, 2).flat, titles, strict=True):
            axes.plot([0, 1], [1, 2], color="#0072B2")
            axes.set_title(title, loc="left")
        layout = told(figure)["layout"]
        gap = layout["yaxis"]["domain"][0] - layout["yaxis3"]["domain"][1]
        return [one["text"] for one in layout["annotations"]], gap

    short, usual = gap_of(["1", "2", "3", "4"])
    assert short == ["1", "2", "3", "4"]
    texts, gap = gap_of(titles)
    assert [unescape(text.replace("<br>", " ")) for text in texts] == titles
    assert all(len(unescape(line)) <= 23 for text in texts for line in text.split("<br>"))
    assert gap > usual


def test_shaded_areas_and_reference_lines_are_converted() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.stairs([3, 4], [0, 1, 2], baseline=1, fill=True, color="#0072B2", alpha=0.2)
    axes.plot([0, 2], [1, 2], color="#0072B2")
    axes.axhline(1, color="#555555", linestyle="--")
    axes.axvline(1.5, color="#555555", linestyle=":")
    found = told(figure)
    below, above = [one for one in found["data"] if one.get("hoverinfo") == "skip"]
    assert (below["y"], above["y"]) == ([1, 1, 1], [3, 4, 4])
    assert (above["fill"], above["fillcolor"]) == ("tonexty", "rgba(0,114,178,0.2)")
    assert not any(one["showlegend"] for one in (below, above))
    level, moment = found["layout"]["shapes"]
    assert (level["xref"], level["yref"], level["y0"], level["y1"]) == ("x domain", "y", 1, 1)
    assert (moment["xref"], moment["x0"], moment["x1"]) == ("x", 1.5, 1.5)
    assert [one["line"]["dash"] for one in (level, moment)] == ["dash", "dot"]


def test_bands_are_behind_the_lines() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 1], [2, 3], color="#0072B2")
    axes.fill_between([0, 1], [1, 2], [3, 4], color="#0072B2", alpha=0.3, linewidth=0)
    band, line = told(figure)["data"]
    assert (band["fill"], band["fillcolor"]) == ("toself", "rgba(0,114,178,0.3)")
    corners = set(zip(band["x"], band["y"], strict=True))
    assert corners == {(0, 1), (1, 2), (1, 4), (0, 3)}
    assert (band["hoverinfo"], band["showlegend"]) == ("skip", False)
    assert line["y"] == [2, 3]


def test_bars_stay_a_picture() -> None:
    assert live(drawn(bars=True)) is None
    assert live(Figure()) is None


@given(VALUES)
def test_all_dots_of_a_row_are_in_its_drawing(values: list[float]) -> None:
    axis = StripAxis.of(values)
    assert axis is not None
    places = [axis.at(value) for value in values]
    assert all(0 <= place <= 150 for place in places)
    ordered = [axis.at(value) for value in sorted(values)]
    assert ordered == sorted(ordered)
    drawing = strip(axis, values, values[0], (min(values), max(values)))
    assert drawing.count("<circle") == len(values)


def test_nothing_has_no_axis() -> None:
    assert StripAxis.of([]) is None
    assert StripAxis.of([0.0, float("nan")]) is None
