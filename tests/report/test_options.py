"""What a reader may want otherwise of a figure."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from osmef.errors import InputError, NothingToDrawError
from osmef.report.options import Look
from osmef.report.style import write
from osmef.report.throughput import btc_connections, btc_distance
from tests.report.drawn import legend, texts, visible

MakeTrials = Callable[..., pd.DataFrame]


def test_title_labels_and_size(paper: MakeTrials) -> None:
    look = Look(title="Ours " * 30, x_label="flows", y_label="rate", width=5, height=7)
    figure = btc_connections(paper(), look)
    (axes,) = visible(figure)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("flows", "rate")
    assert figure.get_size_inches().tolist() == [5, 7]
    assert texts(figure)[0] == ("Ours " * 30).strip()
    assert "\n" in figure.texts[0].get_text(), "a long title is broken, not cut"


def test_axes_have_the_requested_scale_range_and_ticks(paper: MakeTrials) -> None:
    look = Look(x_log=False, y_log=False, x_min=0, x_max=60, y_min=-1, y_max=12, y_ticks=4)
    (axes,) = visible(btc_connections(paper(), look))
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 60), (-1, 12))
    assert axes.get_ylabel() == "aggregate BTC in Gbit/s"
    assert 3 <= len([tick for tick in axes.get_yticks() if -1 <= tick <= 12]) <= 5


@pytest.mark.parametrize(
    "look",
    [Look(y_min=20), Look(x_max=0.5), Look(y_min=-1), Look(y_max=math.inf), Look(x_min=math.nan)],
)
def test_ends_that_make_no_axis(paper: MakeTrials, look: Look) -> None:
    with pytest.raises(InputError, match=r"the axis of [xy]"):
        btc_connections(paper(), look)


def test_names_of_whole_labels_and_of_their_parts(paper: MakeTrials) -> None:
    parts = Look(names={"distance 0": "near", "same host": "one host"})
    assert legend(btc_connections(paper(), parts))[0] == "near, one host, same tenant"
    whole = Look(names={"1 connection": "alone"})
    assert legend(btc_distance(paper(), whole))[:2] == ["alone", "5 connections"]


@pytest.mark.parametrize("counts", [(1, 10), tuple(range(1, 13))])
def test_a_figure_without_legend_has_none(paper: MakeTrials, counts: tuple[int, ...]) -> None:
    assert btc_distance(paper(counts=counts), Look(legend=False)).legends == []


def test_a_long_legend_stays_within_the_figure(make_trials: MakeTrials) -> None:
    trials = pd.concat(
        [make_trials(run=f"r-{n}", scenario=f"{'long name ' * 9}{n}") for n in range(9)]
    )
    figure = btc_connections(trials)
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    assert box.y0 >= visible(figure)[0].get_window_extent().y1


def test_two_lines_of_one_name_are_refused(paper: MakeTrials) -> None:
    names = {"1 connection": "few", "5 connections": "few"}
    with pytest.raises(InputError, match="several are called 'few'"):
        btc_distance(paper(), Look(names=names))


def test_letters_that_the_font_does_not_have_are_no_warning(
    make_trials: MakeTrials, tmp_path: Path
) -> None:
    trials = pd.concat([make_trials(connections=n) for n in (1, 10)])
    write(btc_connections(trials, Look(title="\N{CJK UNIFIED IDEOGRAPH-65E5}")), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.parametrize("height", [1, 2.3])
def test_a_figure_without_room_for_its_panels_is_refused(paper: MakeTrials, height: float) -> None:
    with pytest.raises(NothingToDrawError, match="too small for its words"):
        btc_connections(paper(), Look(height=height))


@pytest.mark.parametrize("letter", ["i", "W", "W "])
def test_words_of_any_width_stay_within_the_figure(paper: MakeTrials, letter: str) -> None:
    many = letter * 120
    names = {"distance 0": many, "distance 2": f"2{many}"}
    figure = btc_connections(paper(), Look(title=many, names=names))
    figure.draw_without_rendering()
    for text in (figure.texts[0], figure.legends[0]):
        box = text.get_window_extent()
        assert 0.5 * figure.bbox.width < box.x1 <= figure.bbox.width


@pytest.mark.parametrize("draw", [btc_connections, btc_distance])
def test_a_figure_fits_a_column_of_a_journal(
    draw: Callable[..., Figure], paper: MakeTrials, tmp_path: Path
) -> None:
    figure = draw(paper(), Look(width=3.5, height=2.6))
    write(figure, tmp_path / "a.pdf")
    assert figure.get_size_inches().tolist() == [3.5, 2.6]
    assert texts(figure) == [], "title and caption are in the paper's own text"
    titled = draw(paper(), Look(width=3.5, height=2.8, title="Mine"))
    assert texts(titled) == ["Mine"]
