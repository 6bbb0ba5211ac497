"""The figures of ping-pong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import FillBetweenPolyCollection, LineCollection
from matplotlib.figure import Figure

from osmef.analysis.pingpong import by_bin, message_times
from osmef.errors import InputError, NothingToDrawError
from osmef.report.options import Look
from osmef.report.pingpong import (
    LATENCY,
    REQUESTS,
    TRANSFER,
    WINDOW,
    Messages,
    RequestMetric,
    messages,
)
from tests.report.drawn import legend, texts

MakeTrials = Callable[..., pd.DataFrame]
Rows = Sequence[tuple[int, float]]


def requests(cell: str, rows: Rows, **changes: object) -> pd.DataFrame:
    """Return good answers: the size of each, and the ms that it took at ping."""
    size, ms = [row[0] for row in rows], np.array([row[1] for row in rows])
    told = {
        "run": "vm-to-vm-20261121T031500Z-3f9a", "cell": cell, "purpose": "measured", "size": size,
        "length": size, "relay_s": ms / 1000, "duration_s": ms / 500, "error": None,
    }  # fmt: skip
    return pd.DataFrame({**told, **changes})


@pytest.fixture
def trials(make_trials: MakeTrials) -> pd.DataFrame:
    return pd.concat([make_trials(connections=n, workload="pingpong", cell=str(n)) for n in (1, 4)])


def draw(
    trials: pd.DataFrame,
    first: Rows,
    second: Rows,
    kind: RequestMetric = TRANSFER,
    **wanted: object,
) -> Figure:
    rows = pd.concat([requests("1", first), requests("4", second)])
    return messages(rows, trials, kind, Look(), Messages(**wanted))  # type: ignore[arg-type]


def medians(figure: Figure) -> list[tuple[list[float], list[float]]]:
    (axes,) = figure.axes
    found = [line for line in axes.lines if line.get_label() == "median"]
    return [
        (np.asarray(line.get_xdata(), float).tolist(), np.asarray(line.get_ydata(), float).tolist())
        for line in found
    ]


def bands(figure: Figure) -> int:
    return sum(isinstance(one, FillBetweenPolyCollection) for one in figure.axes[0].collections)


MANY = [(size, size / 1e5) for size in range(1000, 400_000, 1000)]


@pytest.mark.parametrize("kind", [TRANSFER, LATENCY, REQUESTS])
def test_the_median_of_each_size(trials: pd.DataFrame, kind: RequestMetric) -> None:
    rows = [(size, ms * size) for size in (1000, 2000) for ms in (1.0, 2.0, 9.0)]
    figure = draw(trials, rows, rows, kind)
    x, y = medians(figure)[0]
    assert x == [1000, 2000]
    wanted = {TRANSFER: [5e-4] * 2, LATENCY: [2000, 4000], REQUESTS: [0.5, 0.25]}
    assert y == pytest.approx(wanted[kind])
    assert kind.title in texts(figure)[0]


def test_series_and_bands_are_named(trials: pd.DataFrame) -> None:
    figure = draw(trials, MANY, MANY)
    assert legend(figure) == [
        *("connections 1: median", "connections 4: median"),
        *("90 % of the data", "50 % of the data"),
    ]
    assert "Bands: 50 % and 90 % of the data, between percentiles." in texts(figure)[-1]
    assert bands(figure) == 4


def test_bands_of_other_shares(trials: pd.DataFrame) -> None:
    rows = [(100, float(ms)) for ms in range(1, 102)]
    figure = draw(trials, rows, rows, LATENCY, bands=(80,))
    assert legend(figure)[2:] == ["80 % of the data"]
    assert bands(figure) == 2
    band = next(
        one for one in figure.axes[0].collections if isinstance(one, FillBetweenPolyCollection)
    )
    y = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert (y.min(), y.max()) == pytest.approx((11, 91))
    bare = draw(trials, rows, rows, LATENCY, bands=(), points=False)
    assert (bands(bare), len(legend(bare))) == (0, 2)
    assert [line.get_label() for line in bare.axes[0].lines][:2] == ["median", "median"]


def test_the_interval_of_the_median(trials: pd.DataFrame) -> None:
    rows = [(100, float(ms)) for ms in (1, 2, 3, 4, 5, 6)]
    figure = draw(trials, rows, rows[:5], LATENCY, interval=True, bands=())
    ends = [one for one in figure.axes[0].collections if isinstance(one, LineCollection)]
    segments = [segment[:, 1].tolist() for one in ends for segment in one.get_segments()]
    assert segments == [[1, 6]], "five requests have none"
    assert "exact 95 % interval" in texts(figure)[-1]


@pytest.mark.parametrize(("window", "lines"), [(WINDOW, [1, 2, 3, 4]), (200_000, [1]), (0, [])])
def test_lines_at_multiples_of_the_window(
    trials: pd.DataFrame, window: int, lines: list[int]
) -> None:
    figure = draw(trials, MANY, MANY, window=window)
    upright = [np.asarray(line.get_xdata()) for line in figure.axes[0].lines]
    at = [x[0] for x in upright if len(x) == 2 and x[0] == x[1]]
    assert at == [window * n for n in lines]
    assert ("TCP receive window" in texts(figure)[-1]) is bool(lines)


def test_sizes_over_decades_have_a_logarithmic_axis(trials: pd.DataFrame) -> None:
    rows = [(10**n, 1.0) for n in range(7)]
    (axes,) = draw(trials, rows, rows).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    (axes,) = draw(trials, MANY, MANY).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")


@pytest.mark.parametrize("kind", [TRANSFER, LATENCY, REQUESTS])
@pytest.mark.parametrize("relative", [False, True])
def test_answers_without_content_are_on_a_linear_axis(
    trials: pd.DataFrame, kind: RequestMetric, relative: bool
) -> None:
    some = [(0, 1.0), (1000, 1.0), (100_000, 2.0)]
    figure = draw(trials, some, some, kind, relative=relative)
    assert figure.axes[0].get_xscale() == "linear"
    log = messages(requests("1", [*some, *MANY]), trials, kind, Look(x_log=True))
    assert log.axes[0].get_xscale() == "log"


def test_the_caption_names_the_program_that_measured_the_times(trials: pd.DataFrame) -> None:
    rows = [(100, 1.0), (200, 1.0)]
    for relayed in (True, False):
        second = requests("4", rows) if relayed else requests("4", rows, relay_s=np.nan)
        figure = messages(pd.concat([requests("1", rows), second]), trials, LATENCY)
        assert ("as ping measured them" in texts(figure)[-1]) is relayed


def test_cells_far_apart_have_a_logarithmic_axis(trials: pd.DataFrame) -> None:
    figure = draw(trials, [(500, 1.0), (600, 1.0)], [(500, 50.0), (600, 50.0)])
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")


def test_an_empty_bin_is_a_gap_in_the_line(trials: pd.DataFrame) -> None:
    rows = [(n, 1.0) for n in (*range(1000, 1100), *range(2000, 2100))]
    _, y = medians(draw(trials, rows, rows))[0]
    assert len(y) == 50
    assert np.isnan(y[25])
    assert np.isfinite([y[0], y[-1]]).all()
    assert len(medians(draw(trials, rows, rows, bins=10))[0][1]) == 10


def test_the_caption_counts_the_failed_requests_that_are_left_out(trials: pd.DataFrame) -> None:
    bad = requests("1", [(1000, 1.0)] * 3, error="timeout")
    rows = pd.concat([requests("1", [(1000, 1.0)]), requests("4", [(1000, 1.0)]), bad])
    figure = messages(rows, trials, LATENCY)
    assert "Left out: 3 failed requests." in texts(figure)[-1]
    assert "Left out" not in texts(messages(rows[:2], trials, LATENCY))[-1]


def test_cells_whose_requests_failed_have_no_line(trials: pd.DataFrame) -> None:
    good, bad = requests("1", [(10, 1.0)]), requests("4", [(10, 1.0)], error="timeout")
    assert legend(messages(pd.concat([good, bad]), trials, REQUESTS))[0] == "connections 1: median"
    with pytest.raises(NothingToDrawError, match="no requests that went well"):
        messages(bad, trials, REQUESTS)


@pytest.mark.parametrize(
    ("kind", "wanted"), [(TRANSFER, [0.25, 2]), (LATENCY, [4, 0.5]), (REQUESTS, [0.25, 2])]
)
def test_the_ratio_to_the_first_cell(
    trials: pd.DataFrame, kind: RequestMetric, wanted: list[float]
) -> None:
    first = [(size, 1.0) for size in (1000, 2000, 3000) for _ in range(3)]
    second = [(1000, 2.0), (1000, 4.0), (1000, 9.0), (3000, 0.5)]
    figure = draw(trials, first, second, kind, relative=True)
    assert legend(figure) == ["connections 1: reference, 1.0", "connections 4"]
    assert set(np.asarray(figure.axes[0].lines[0].get_ydata())) == {1.0}
    ((x, y),) = medians(figure)
    found = np.isfinite(y)
    assert np.asarray(x)[found].tolist() == [1000, 3000]
    assert np.asarray(y)[found].tolist() == pytest.approx(wanted)
    assert np.isnan(y).any(), "a size that one cell has not is a gap"


def test_another_reference_series_can_be_chosen(trials: pd.DataFrame) -> None:
    ones, twos = [(10, 1.0), (20, 1.0)], [(10, 2.0), (20, 2.0)]
    for name in ("connections 4", "4"):
        figure = draw(trials, ones, twos, LATENCY, relative=True, reference=name)
        assert legend(figure) == ["connections 4: reference, 1.0", "connections 1"]
        assert "Ratio of the medians to those of connections 4." in texts(figure)[-1]
        assert medians(figure)[0][1] == [0.5, 0.5]
    for name, told in (("connections", "several"), ("bare", "none")):
        with pytest.raises(InputError, match=told):
            draw(trials, ones, twos, LATENCY, relative=True, reference=name)


def test_the_interval_of_the_ratio(trials: pd.DataFrame) -> None:
    ones, twos = [(10, 1.0 + n / 10) for n in range(9)], [(10, 2.0 + n / 10) for n in range(9)]
    figure = draw(trials, ones, twos, LATENCY, relative=True, interval=True)
    ends = next(one for one in figure.axes[0].collections if isinstance(one, LineCollection))
    low, high = ends.get_segments()[0][:, 1]
    assert low < medians(figure)[0][1][0] < high


def test_a_cell_alone_has_no_reference(trials: pd.DataFrame) -> None:
    with pytest.raises(NothingToDrawError, match="needs a reference"):
        messages(requests("1", [(1, 1.0)]), trials, LATENCY, wanted=Messages(relative=True))


def test_other_workloads_have_no_pingpong_figure(make_trials: MakeTrials) -> None:
    with pytest.raises(NothingToDrawError):
        messages(requests("1", []), make_trials(cell="1"), LATENCY)


def test_the_lines_are_those_of_the_analysis(trials: pd.DataFrame) -> None:
    random = np.random.default_rng(3)
    rows = [(int(size), float(ms)) for size, ms in random.uniform(1, 9999, (500, 2))]
    x, y = medians(draw(trials, rows, rows, LATENCY))[0]
    times = message_times(requests("1", rows))
    edges = np.linspace(times["size"].min(), times["size"].max() + 1, 51)
    bins = by_bin(times, "time_us", edges)
    np.testing.assert_allclose(y, bins["median"] / 1000)
    np.testing.assert_allclose(x, bins["size"])


def sessions(make_trials: MakeTrials, count: int) -> pd.DataFrame:
    """Return trials of one cell in so many sessions of a platform, a run each."""
    return pd.concat(
        make_trials(workload="pingpong", cell="1", run=f"r{n}", session=f"day {n}", platform="p")
        for n in range(count)
    )


def test_requests_of_all_sessions_of_a_platform_are_one_series(make_trials: MakeTrials) -> None:
    rows = pd.concat(requests("1", [(10, float(ms))], run=f"r{ms}") for ms in range(40))
    figure = messages(rows, sessions(make_trials, 40), LATENCY)
    assert legend(figure)[0] == "vm-to-vm: median"
    assert medians(figure) == [([10], [19.5])]


def test_more_series_than_there_are_looks_are_refused(make_trials: MakeTrials) -> None:
    def drawn(count: int) -> Figure:
        trials = [make_trials(connections=n, workload="pingpong") for n in range(1, count + 1)]
        rows = pd.concat(requests(one["cell"].iloc[0], [(10, 1.0)]) for one in trials)
        return messages(rows, pd.concat(trials), REQUESTS)

    assert len(medians(drawn(28))) == 28
    with pytest.raises(NothingToDrawError, match="29 series are too many") as told:
        drawn(29)
    assert "--where" in str(told.value.cure)


def test_two_series_of_one_name_are_refused(trials: pd.DataFrame) -> None:
    rows = pd.concat([requests("1", MANY), requests("4", MANY)])
    look = Look(names={"connections 1": "ours", "connections 4": "ours"})
    with pytest.raises(InputError, match="several are called 'ours'"):
        messages(rows, trials, TRANSFER, look)


def test_a_median_between_gaps_has_a_marker(trials: pd.DataFrame) -> None:
    alone = 250_000
    rows = [(size, 1.0) for size in (*range(1000, 200_000, 1000), alone, *range(300_000, 400_000))]
    (axes,) = draw(trials, rows, rows, points=False).axes
    for line in (one for one in axes.lines if one.get_label() == "median"):
        marked = np.asarray(line.get_markevery(), int)
        at = np.asarray(line.get_xdata(), float)[marked]
        assert np.isclose(at, alone).any()


@pytest.mark.parametrize("count", [4, 5])
def test_with_many_series_only_the_medians_are_drawn(make_trials: MakeTrials, count: int) -> None:
    cells = [str(n) for n in range(1, count + 1)]
    made = [make_trials(connections=int(c), workload="pingpong", cell=c) for c in cells]
    rows = pd.concat([requests(cell, MANY) for cell in cells])

    def drawn(wanted: Messages) -> tuple[int, int, int]:
        figure = messages(rows, pd.concat(made), TRANSFER, Look(), wanted)
        points = [line for line in figure.axes[0].lines if line.get_label() == "points"]
        return len(medians(figure)), len(points), bands(figure)

    assert drawn(Messages()) == (count, *((count, 2 * count) if count == 4 else (0, 0)))
    assert drawn(Messages(points=True, bands=(90,))) == (count, count, count)
