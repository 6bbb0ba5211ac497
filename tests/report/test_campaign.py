"""The figures of a campaign's weeks and windows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.dates import date2num
from matplotlib.patches import Rectangle

from osmef.errors import InputError
from osmef.report.campaign import calendar, course, listed_prices, recorded_prices, windows
from tests.report.drawn import legend, texts, visible
from tests.report.weeks import PLATFORMS, campaign, planned, trials


def days(values: object) -> list[float]:
    """Return times as matplotlib counts them."""
    found: list[float] = np.asarray(date2num(values)).tolist()  # type: ignore[no-untyped-call]
    return found


def points(axes: Axes) -> list[tuple[float, float]]:
    """Return the points of a panel, without its lines."""
    return [
        (x, y)
        for line in axes.lines
        if line.get_linestyle() == "None"
        for x, y in zip(days(line.get_xdata()), np.asarray(line.get_ydata(), float), strict=True)
    ]


def test_every_session_stands_in_the_panel_of_its_platform() -> None:
    data = campaign()
    figure = course(data.sessions, data.planned)
    panels = {axes.get_title(loc="left"): axes for axes in visible(figure)}
    assert panels.keys() == PLATFORMS.keys()
    for name, axes in panels.items():
        rows = data.sessions[data.sessions["platform"] == name]
        found = points(axes)
        assert len(found) == len(rows)
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        assert all(left <= x <= right and low <= y <= high for x, y in found)
    assert "The axes of y differ." in texts(figure)[1]
    assert legend(figure) == ["weekday-offpeak", "weekday-peak", "weekend-offpeak", "weekend-peak"]


def test_a_gap_is_grey_and_no_line_crosses_it() -> None:
    data = campaign()
    panels = {
        axes.get_title(loc="left"): axes for axes in visible(course(data.sessions, data.planned))
    }
    shades = {
        name: [one for one in axes.patches if to_hex(one.get_facecolor()) == "#e6e6e6"]
        for name, axes in panels.items()
    }
    assert {name: len(of) for name, of in shades.items()} == {"small": 1, "large": 0}
    (shade,) = shades["small"]
    assert isinstance(shade, Rectangle)
    begin, end = shade.get_x(), shade.get_x() + shade.get_width()
    lines = [days(one.get_xdata()) for one in panels["small"].lines if one.get_linestyle() == "-"]
    for xs in lines:
        assert not any(a <= begin and end <= b for a, b in pairwise(xs))
    assert lines


def test_a_single_session_is_on_an_axis_of_its_day() -> None:
    data = campaign()
    first = data.sessions[data.sessions["began"] == data.sessions["began"].min()].iloc[:1]
    (axes,) = visible(course(first, data.planned))
    (left, right), (at,) = axes.get_xlim(), days(first["began"])
    assert right - left == pytest.approx(1, abs=1e-6)
    assert left < at < right


def test_the_interval_of_a_session_is_a_bar() -> None:
    rows = campaign().sessions
    assert "Bars: " not in texts(course(rows, None))[1]
    rows = rows.assign(ci95_low=0.9 * rows["value"], ci95_high=1.1 * rows["value"])
    figure = course(rows, None)
    assert "Bars: " in texts(figure)[1]
    drawn = [
        bar for axes in visible(figure) for some in axes.collections for bar in some.get_paths()
    ]
    assert len(drawn) == len(rows)


def test_without_a_calendar_points_are_not_connected() -> None:
    data = campaign()
    for axes in visible(course(data.sessions, None)):
        assert all(line.get_linestyle() == "None" for line in axes.lines)


def test_levels_are_drawn_where_there_are_several() -> None:
    def dashed(step: float) -> list[int]:
        data = campaign(step)
        return [
            sum(line.get_linestyle() == "--" for line in axes.lines)
            for axes in visible(course(data.sessions, data.planned))
        ]

    assert dashed(0.0) == [0, 0]
    assert dashed(-0.1) == [2, 2]


def test_the_caption_explains_what_is_there() -> None:
    def told(rows: pd.DataFrame, calendar_of: pd.DataFrame | None) -> str:
        return " ".join(" ".join(texts(course(rows, calendar_of))).split())

    plain, stepped = campaign(), campaign(-0.1)
    assert "Grey: " in told(plain.sessions, plain.planned)
    assert "Dashed: " not in told(plain.sessions, plain.planned)
    large = plain.sessions[plain.sessions["platform"] == "large"]
    assert "Grey: " not in told(large, plain.planned)
    assert "Grey: " not in told(plain.sessions, None)
    assert "Dashed: " in told(stepped.sessions, stepped.planned)
    assert "y does not begin at 0" in told(large, plain.planned)
    assert "y does not begin" not in told(large.assign(value=0.0), plain.planned)


def test_sessions_without_a_time_stand_in_their_order() -> None:
    rows = campaign().sessions.assign(window=None)
    rows["began"] = pd.NaT
    first, *_ = visible(course(rows, None))
    (line,) = first.lines
    assert np.asarray(line.get_xdata()).tolist() == list(range(1, 29))
    assert first.get_xlabel() == "session, in order"


def test_an_interval_by_window_only_from_six_sessions_on() -> None:
    data = campaign()
    (axes,) = visible(windows(data.windows))
    bars = [line for line in axes.lines if line.get_linestyle() == "-"]
    enough = data.windows[data.windows["sessions"] >= 6]
    assert len(bars) == len(enough) < len(data.windows)
    assert len(axes.lines) - len(bars) == len(data.windows)


def test_the_calendar_has_a_mark_for_each_session() -> None:
    figure = calendar(planned())
    (axes,) = visible(figure)
    assert len(axes.patches) == 56
    assert legend(figure) == ["done", "missed"]
    assert len(axes.get_yticks()) == 8
    assert calendar(planned().head(1)).texts[-1].get_text().endswith("\n1 session")


def test_the_price_of_a_vm_is_that_of_a_cell_over_its_ends() -> None:
    found = recorded_prices(trials(planned()))
    assert dict(zip(found["platform"], found["price_per_hour"], strict=True)) == {
        "small": 0.1,
        "large": 0.1,
    }
    mixed = trials(planned())
    mixed.loc[mixed.index[:4], "currency"] = "EUR"
    assert recorded_prices(mixed).empty


def test_prices_of_a_file(tmp_path: Path) -> None:
    of = trials(planned())
    file = tmp_path / "prices.csv"
    file.write_text("platform,eur_per_hour\nsmall,0.5\n")
    (row,) = listed_prices(file, of).to_dict("records")
    assert row == {"platform": "small", "cell": "all", "price_per_hour": 0.5, "currency": "EUR"}
    file.write_text("platform,price_per_hour,currency,cell\nsmall,0.5,USD,all\nsmall,0.6,USD,all\n")
    with pytest.raises(InputError, match="small has several prices"):
        listed_prices(file, of)
    file.write_text("name,price\na,1\n")
    with pytest.raises(InputError, match="has the columns platform"):
        listed_prices(file, of)


@pytest.mark.parametrize("text", ["true", "TRUE", "True"])
def test_a_price_of_a_swept_switch_is_found_however_it_is_written(
    tmp_path: Path, text: str
) -> None:
    of = trials(planned()).assign(nodelay=True)
    file = tmp_path / "prices.csv"
    file.write_text(f"platform,nodelay,eur_per_hour\nsmall,{text},0.5\nsmall,false,0.7\n")
    assert listed_prices(file, of)["price_per_hour"].tolist() == [0.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("platform,price_per_hour\nsmall,1\n", "has the columns platform"),
        ("platform,usd_per_hour\nsmall,0\n", "small has the price 0"),
        ("platform,usd_per_hour\nsmall,-1\n", "small has the price -1"),
        ("platform,usd_per_hour\nsmall,1e-320\n", "small has the price"),
        ("platform,usd_per_hour\nsmall,2e9\n", "small has the price 2e"),
        ("platform,price_per_hour,currency\nsmall,1,\n", "the price of small has no currency"),
        ("platform,price_per_hour,currency\nsmall,1,NA\n", "the price of small has no currency"),
        (
            "platform,usd_per_hour\nnope,0.1\n",
            "none of its rows is about these runs, by platform\n",
        ),
        ("platform,usd_per_hour,cell\nsmall,0.1,no\n", "about these runs, by platform and cell"),
    ],
)
def test_an_invalid_table_of_prices_is_reported(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        listed_prices(file, trials(planned()))
    assert caught.value.cure


def test_price_performance_ranks_platforms() -> None:
    ranks = campaign().per_price.set_index("platform")["rank"]
    assert ranks.to_dict() == {"large": 1, "small": 2}
