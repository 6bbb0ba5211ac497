"""The figures of latency and of size sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import NothingToDrawError
from osmef.report.data import SWEEPS, exchanges_of, sizes_of
from osmef.report.line_charts import (
    complementary_distribution,
    latency,
    sweep_throughput,
    sweep_time,
)
from osmef.report.options import Look
from osmef.results.observations import (
    Exchange,
    Histogram,
    LoadPhase,
    Protocol,
    Purpose,
    RoundTrips,
    SizePoint,
    SweepMode,
)
from osmef.results.summary import CellInfo
from osmef.results.trial import Status, Trial
from osmef.scenario.fields import Placement, Tenancy
from tests.report.conftest import RUN
from tests.report.drawn import legend, lines, texts, visible

MakeCell = Callable[..., CellInfo]
MakeTrials = Callable[..., pd.DataFrame]


def histogram(*counts: int) -> Histogram:
    """Return counts in buckets of 1 us from 10 us on."""
    lower = [1000 * (10 + n) for n in range(len(counts))]
    upper = [low + 1000 for low in lower]
    return Histogram(error_percent=1, lower_ns=lower, upper_ns=upper, count=list(counts))


def exchange(phase: LoadPhase, *counts: int, protocol: Protocol = Protocol.TCP) -> Exchange:
    times = dict.fromkeys(("min_us", "mean_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"))
    return Exchange(
        purpose=Purpose.MEASURED,
        phase=phase,
        sender="vm-1",
        receiver="vm-2",
        protocol=protocol,
        size=1,
        count=sum(counts),
        elapsed_s=1,
        rtt=RoundTrips(**times, histogram=histogram(*counts)),
    )


def size_point(size: int, time_us: float) -> SizePoint:
    return SizePoint(
        purpose=Purpose.MEASURED,
        sender="vm-1",
        receiver="vm-2",
        flow=0,
        mode=SweepMode.PINGPONG,
        checked=False,
        size=size,
        repetitions=9,
        trials=3,
        time_min_us=time_us,
        time_median_us=time_us,
        time_max_us=time_us,
        throughput_bps=8e6 * size / time_us,
    )


def trial(
    cell: CellInfo, exchanges: Sequence[Exchange] = (), sizes: Sequence[SizePoint] = ()
) -> Trial:
    return Trial(
        index=1,
        cell=cell.key,
        repetition=1,
        group=1,
        values=cell.values,
        senders=["vm-1"],
        receivers=["vm-2"],
        placement=Placement.SAME_HOST,
        tenancy=Tenancy.SAME_TENANT,
        distance=0,
        workload="latency",
        started_at=datetime(2026, 11, 21, tzinfo=UTC),
        wall_s=1,
        status=Status.OK,
        exchanges=list(exchanges),
        sizes=list(sizes),
    )


def test_the_share_that_took_longer() -> None:
    both = complementary_distribution([histogram(5, 3), histogram(0, 1, 1)])
    assert both == [(10, 1.0), (11, 0.5), (12, 0.1), (13, 0.1)]
    assert complementary_distribution([]) == []


@given(st.lists(st.integers(1, 100), min_size=1, max_size=20))
def test_the_share_falls_as_the_time_rises(counts: list[int]) -> None:
    times, shares = zip(*complementary_distribution([histogram(*counts)]), strict=True)
    assert list(times) == sorted(times)
    assert list(shares) == sorted(shares, reverse=True)
    assert shares[0] == 1
    assert shares[-1] > 0


def test_latency_is_drawn_idle_and_loaded(make_cell: MakeCell, make_trials: MakeTrials) -> None:
    cells = [make_cell(connections=1), make_cell(connections=4)]
    phases = [exchange(LoadPhase.IDLE, 90, 9, 1), exchange(LoadPhase.LOADED, 10, 30, 60)]
    trials = [trial(cells[0], phases), trial(cells[1], phases[:1]), trial(cells[1])]
    frame = pd.concat([make_trials(connections=n, workload="latency") for n in (1, 4)])
    figure = latency(exchanges_of((RUN.id, one) for one in trials), frame)
    first, second = visible(figure)
    assert [axes.get_title("left") for axes in (first, second)] == [
        "connections 1",
        "connections 4",
    ]
    assert legend(figure) == ["idle", "loaded"]
    assert lines(first)[0][0] == [10, 11, 12, 13]
    assert lines(first)[0][1] == pytest.approx([1, 0.1, 0.01, 0.01])
    assert len(lines(second)) == 1


def test_protocols_beside_each_other_are_lines_of_their_own(
    make_cell: MakeCell, make_trials: MakeTrials
) -> None:
    own, beside = exchange(LoadPhase.IDLE, 9, 1), exchange(LoadPhase.LOADED, 5, 5)
    icmp = exchange(LoadPhase.IDLE, 99, 1, protocol=Protocol.ICMP)
    told = exchanges_of([(RUN.id, trial(make_cell(), [own, icmp, beside]))])
    figure = latency(told, make_trials(workload="latency"))
    assert legend(figure) == ["idle, tcp", "idle, icmp", "loaded, tcp"]
    shares = [y[1] for _x, y in lines(visible(figure)[0])]
    assert shares == pytest.approx([0.1, 0.01, 0.5])


def test_each_panel_shows_all_of_its_round_trips(
    make_cell: MakeCell, make_trials: MakeTrials
) -> None:
    narrow, wide = [9, 1], [1, *[10] * 90]
    trials = [
        trial(make_cell(connections=n), [exchange(LoadPhase.IDLE, *counts)])
        for n, counts in ((1, narrow), (4, wide))
    ]
    frame = pd.concat([make_trials(connections=n, workload="latency") for n in (1, 4)])
    for axes in visible(latency(exchanges_of((RUN.id, one) for one in trials), frame)):
        for x, y in lines(axes):
            assert axes.get_xlim()[0] < min(x) < max(x) < axes.get_xlim()[1]
            assert axes.get_ylim()[0] < min(y) < max(y) < axes.get_ylim()[1]
    told = exchanges_of((RUN.id, one) for one in trials)
    for axes in visible(latency(told, frame, Look(x_log=False, y_log=False))):
        assert axes.get_xlim()[1] == pytest.approx(101, rel=0.05)
        assert axes.get_ylim()[1] == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("counts", [[10], [10, 9], [10**6, *[1] * 9]])
def test_no_share_is_above_all(
    make_cell: MakeCell, make_trials: MakeTrials, counts: Sequence[int]
) -> None:
    told = exchanges_of([(RUN.id, trial(make_cell(), [exchange(LoadPhase.IDLE, *counts)]))])
    figure = latency(told, make_trials(workload="latency"))
    figure.draw_without_rendering()
    (axes,) = visible(figure)
    low, high = axes.get_ylim()
    assert low < 1 < high
    shown = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert max(shown) == 1
    assert len(shown) > 1


@pytest.mark.parametrize("workload", SWEEPS)
def test_a_sweep_is_drawn_twice(
    make_cell: MakeCell, make_trials: MakeTrials, workload: str
) -> None:
    cells = [make_cell(connections=n) for n in range(1, 10)]
    points = [size_point(2**n, 10 + 2**n / 1000) for n in range(20)]
    sizes = sizes_of((RUN.id, trial(cell, sizes=points)) for cell in cells)
    frame = pd.concat([make_trials(connections=n, workload=workload) for n in range(1, 10)])
    times, rates = sweep_time(sizes, frame), sweep_throughput(sizes, frame)
    assert legend(times) == [f"connections {n}" for n in range(1, 10)]
    x, y = lines(visible(times)[0])[0]
    assert [x[0], y[0]] == pytest.approx([1, 10.001])
    x, y = lines(visible(rates)[0])[0]
    assert [x[-1], y[-1]] == pytest.approx([2**19, 8e6 * 2**19 / (10 + 2**19 / 1000)])


def test_a_linear_axis_keeps_its_units_and_is_described(
    make_cell: MakeCell, make_trials: MakeTrials
) -> None:
    told = sizes_of(
        [(RUN.id, trial(make_cell(), sizes=[size_point(1024, 41), size_point(2048, 82)]))]
    )
    frame = make_trials(workload="size-sweep")
    figure = sweep_throughput(told, frame, Look(y_log=False))
    (axes,) = visible(figure)
    assert axes.yaxis.get_major_formatter()(2e8) == "200 Mbit/s"
    assert "the axis of x is logarithmic" in texts(figure)[-1]
    figure = sweep_throughput(told, frame, Look(x_log=False, y_log=False))
    assert "both axes are linear" in texts(figure)[-1]


@pytest.mark.parametrize("sizes", [(1000, 1500), (70_000,), (2**16, 2**17)])
def test_a_short_axis_has_two_ticks_at_least(
    make_cell: MakeCell, make_trials: MakeTrials, sizes: Sequence[int]
) -> None:
    points = [size_point(size, size / 25) for size in sizes]  # all of 200 Mbit/s
    told = sizes_of([(RUN.id, trial(make_cell(), sizes=points))])
    frame = make_trials(workload="size-sweep")
    for figure in (sweep_throughput(told, frame), sweep_time(told, frame)):
        (axes,) = visible(figure)
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            assert sum(low <= tick <= high for tick in axis.get_majorticklocs()) >= 2


def test_nothing_is_drawn_of_nothing(make_trials: MakeTrials) -> None:
    for draw in (sweep_time, sweep_throughput):
        with pytest.raises(NothingToDrawError):
            draw(sizes_of([]), make_trials())
    with pytest.raises(NothingToDrawError):
        latency(exchanges_of([]), make_trials())


def test_sessions_of_a_platform_are_one_curve(make_cell: MakeCell, make_trials: MakeTrials) -> None:
    cell, runs = make_cell(), [f"r{n}" for n in range(30)]
    frame = pd.concat(
        make_trials(run=run, session=run, platform="p", cell=cell.key, workload="size-sweep")
        for run in runs
    )
    sizes = sizes_of(
        (run, trial(cell, sizes=[size_point(1024, us)])) for us, run in enumerate(runs, start=1)
    )
    figure = sweep_time(sizes, frame)
    (axes,) = visible(figure)
    assert lines(axes) == [([1024.0], [15.5])]
    assert "Medians of the sessions" in texts(figure)[-1]
    idle = [
        trial(cell, [exchange(LoadPhase.IDLE, 90, 10)]),
        trial(cell, [exchange(LoadPhase.IDLE, 0, 1)]),
    ]
    both = exchanges_of(zip(runs, idle, strict=False))
    (axes,) = visible(latency(both, frame.assign(workload="latency")))
    assert lines(axes)[0][1] == pytest.approx([1, 11 / 101, 11 / 101])


def test_too_many_series_or_panels_to_distinguish_are_rejected(
    make_cell: MakeCell, make_trials: MakeTrials
) -> None:
    cells = [make_cell(connections=n) for n in range(1, 30)]
    frame = pd.concat([make_trials(connections=n, workload="size-sweep") for n in range(1, 30)])
    sizes = sizes_of((RUN.id, trial(cell, sizes=[size_point(1, 1)])) for cell in cells)
    with pytest.raises(NothingToDrawError, match="29 series are too many"):
        sweep_time(sizes, frame)
    told = exchanges_of((RUN.id, trial(cell, [exchange(LoadPhase.IDLE, 1)])) for cell in cells)
    with pytest.raises(NothingToDrawError, match="29 panels are too many"):
        latency(told, frame)
