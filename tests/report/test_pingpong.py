"""The figures of ping-pong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from osmef.report.figures import draw_figures
from osmef.report.pingpong import WINDOW, pingpong_figures
from osmef.results.exchange import Request
from osmef.results.summary import CellInfo, Summary
from tests.report.pingpong_run import request, write_run

MakeCell = Callable[..., CellInfo]
MakeSummary = Callable[..., Summary]


NAMES = ("pingpong-transfer", "pingpong-latency", "pingpong-requests")


def drawn(directory: Path, summary: Summary, *requests: list[Request]) -> dict[str, Figure]:
    run = write_run(directory, summary, requests)
    return {name: draw() for name, draw in pingpong_figures(summary, run).items()}


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.fixture
def two_cells(make_cell: MakeCell, make_summary: MakeSummary) -> Summary:
    return make_summary(
        *(
            make_cell(workload="pingpong", key=f"{n}", metrics={}).model_copy(
                update={"values": {"connections": n}}
            )
            for n in (1, 4)
        )
    )


def test_each_cell_is_a_line_and_the_bands_are_named(two_cells: Summary, tmp_path: Path) -> None:
    rows = [request(size, size / 1e5) for size in range(1000, 400_000, 1000)]
    figures = drawn(tmp_path, two_cells, rows, rows)
    assert list(figures) == [*NAMES, *(f"{name}-relative" for name in NAMES)]
    for name in NAMES:
        assert legend(figures[name]) == [
            *("connections 1: median", "connections 4: median"),
            *("50 % of data", "90 % of data"),
        ]
    (axes,) = figures["pingpong-latency"].axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
    at = [np.asarray(line.get_xdata())[0] for line in axes.lines]
    assert [x for x in at if x % WINDOW == 0] == [WINDOW * n for n in (1, 2, 3, 4)]


def test_sizes_over_decades_have_a_logarithmic_axis(two_cells: Summary, tmp_path: Path) -> None:
    rows = [request(10**n, 1.0) for n in range(7)]
    (axes,) = drawn(tmp_path, two_cells, rows, rows)["pingpong-latency"].axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_a_short_list_over_decades_has_a_logarithmic_axis(
    two_cells: Summary, tmp_path: Path
) -> None:
    rows = [request(size, 1.0) for size in (100, 10_000, 100_000)]
    (axes,) = drawn(tmp_path, two_cells, rows, rows)["pingpong-latency"].axes
    assert axes.get_xscale() == "log"
    drawn_ones = [request(size, 1.0) for size in range(300, 500_000, 1000)]
    (axes,) = drawn(tmp_path, two_cells, drawn_ones, rows)["pingpong-latency"].axes
    assert axes.get_xscale() == "linear"


def test_the_caption_says_whose_times_these_are(two_cells: Summary, tmp_path: Path) -> None:
    rows = [request(100, 1.0), request(200, 1.0)]
    direct = [request(100, 1.0, relay_s=None)]
    for others, told in ((rows, True), (direct, False)):
        figure = drawn(tmp_path, two_cells, rows, others)["pingpong-latency"]
        texts = [text.get_text() for text in figure.texts]
        assert any("as ping measured them" in text for text in texts) is told


def test_cells_far_apart_have_a_logarithmic_axis(two_cells: Summary, tmp_path: Path) -> None:
    ones, others = [request(n, 1.0) for n in (500, 600)], [request(n, 50.0) for n in (500, 600)]
    (axes,) = drawn(tmp_path, two_cells, ones, others)["pingpong-latency"].axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")


def test_an_empty_bin_is_a_gap_in_the_line(two_cells: Summary, tmp_path: Path) -> None:
    rows = [request(n, 1.0) for n in (*range(1000, 1100), *range(2000, 2100))]
    (axes,) = drawn(tmp_path, two_cells, rows, rows)["pingpong-transfer"].axes
    (median,) = [
        np.asarray(line.get_ydata())
        for line in axes.lines
        if len(np.asarray(line.get_xdata())) == 50
    ][:1]
    assert np.isnan(median[25])
    assert np.isfinite(median[[0, -1]]).all()


def test_cells_whose_requests_failed_have_no_line(two_cells: Summary, tmp_path: Path) -> None:
    good, bad = [request(10, 1.0)], [request(10, 1.0, error="timeout")]
    figures = drawn(tmp_path, two_cells, good, bad)
    assert legend(figures["pingpong-requests"])[0] == "connections 1: median"
    assert len(legend(figures["pingpong-requests"])) == 3
    assert drawn(tmp_path, two_cells, bad, bad) == {}


def test_the_ratio_to_the_first_cell(two_cells: Summary, tmp_path: Path) -> None:
    first = [request(size, 1.0) for size in (1000, 2000, 3000) for _ in range(3)]
    second = [
        request(size, ms) for size, ms in ((1000, 2.0), (1000, 4.0), (1000, 9.0), (3000, 0.5))
    ]
    figures = drawn(tmp_path, two_cells, first, second)
    for name, wanted in zip(NAMES, ([0.25, 2.0], [4.0, 0.5], [0.25, 2.0]), strict=True):
        figure = figures[f"{name}-relative"]
        assert legend(figure) == ["connections 1: reference, 1.0", "connections 4"]
        reference, line = figure.axes[0].lines[:2]
        assert set(np.asarray(reference.get_ydata())) == {1.0}
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        found = np.isfinite(y)
        assert (x[found].tolist(), y[found].tolist()) == ([1000, 3000], pytest.approx(wanted))
        assert np.isnan(y).any(), "a size that one cell has not is a gap"


def test_a_cell_alone_has_no_reference(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    figures = drawn(tmp_path, make_summary(make_cell(workload="pingpong")), [request(1, 1.0)])
    assert tuple(figures) == NAMES


def test_the_files_are_drawn(two_cells: Summary, tmp_path: Path) -> None:
    run = write_run(tmp_path, two_cells, [[request(10, 1.0)]] * 2)
    assert {path.name for path in draw_figures(two_cells, run)} == {
        f"{name}{relative}.{suffix}"
        for name in NAMES
        for relative in ("", "-relative")
        for suffix in ("png", "svg")
    }


def test_other_workloads_have_none(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    assert pingpong_figures(make_summary(make_cell()), tmp_path) == {}
