"""The figures of latency and of size sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.report.distribution import draw_distributions, longer
from osmef.report.sweep import draw_sweeps
from osmef.results.exchange import Exchange, Histogram, Phase, Purpose, RoundTrips, SizePoint
from osmef.results.summary import CellInfo, Summary
from osmef.results.trial import Status, Trial
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.workload import SweepMode

MakeCell = Callable[..., CellInfo]
MakeSummary = Callable[..., Summary]


def histogram(*counts: int) -> Histogram:
    """Return counts in buckets of 1 us from 10 us on."""
    lower = [1000 * (10 + n) for n in range(len(counts))]
    upper = [low + 1000 for low in lower]
    return Histogram(error_percent=1, lower_ns=lower, upper_ns=upper, count=list(counts))


def exchange(phase: Phase, *counts: int) -> Exchange:
    times = dict.fromkeys(("min_us", "mean_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"))
    return Exchange(
        purpose=Purpose.MEASURED,
        phase=phase,
        sender="vm-1",
        receiver="vm-2",
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
    both = longer([histogram(5, 3), histogram(0, 1, 1)])
    assert both == [(10, 1.0), (11, 0.5), (12, 0.1), (13, 0.1)]
    assert longer([]) == []


@given(st.lists(st.integers(1, 100), min_size=1, max_size=20))
def test_the_share_falls_as_the_time_rises(counts: list[int]) -> None:
    times, shares = zip(*longer([histogram(*counts)]), strict=True)
    assert list(times) == sorted(times)
    assert list(shares) == sorted(shares, reverse=True)
    assert shares[0] == 1
    assert shares[-1] > 0


def test_latency_is_drawn_idle_and_loaded(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    cells = [make_cell(connections=1), make_cell(connections=4)]
    phases = [exchange(Phase.IDLE, 90, 9, 1), exchange(Phase.LOADED, 10, 30, 60)]
    trials = [trial(cells[0], phases), trial(cells[1], phases[:1]), trial(cells[1])]
    paths = draw_distributions(make_summary(*cells), trials, tmp_path)
    assert [path.name for path in paths] == ["latency.png", "latency.svg"]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_a_sweep_is_drawn_twice(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    cells = [make_cell(connections=n) for n in range(1, 10)]
    sizes = [size_point(2**n, 10 + 2**n / 1000) for n in range(20)]
    trials = [trial(cell, sizes=sizes) for cell in cells]
    paths = draw_sweeps(make_summary(*cells), trials, tmp_path)
    names = ["sweep-throughput.png", "sweep-throughput.svg", "sweep-time.png", "sweep-time.svg"]
    assert [path.name for path in paths] == names


@pytest.mark.parametrize("draw", [draw_distributions, draw_sweeps])
def test_nothing_is_drawn_of_nothing(
    draw: Callable[..., list[Path]],
    make_cell: MakeCell,
    make_summary: MakeSummary,
    tmp_path: Path,
) -> None:
    cell = make_cell()
    assert draw(make_summary(cell), [trial(cell)], tmp_path) == []
    assert list(tmp_path.iterdir()) == []
