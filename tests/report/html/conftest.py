from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo, Summary
from osmef.results.trial import Bottleneck, Status, Trial

SAMPLE = Path(__file__).parents[2] / "results/data/quickstart-20261121T031500Z-3f9a"


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[[str, Summary], RunDirectory]:
    """Make a run directory with this summary, and with a trial of each cell."""

    def make(name: str, summary: Summary) -> RunDirectory:
        shutil.copytree(SAMPLE, tmp_path / name)
        run = RunDirectory(tmp_path / name)
        run.write_summary(summary)
        trials = [_trial(index, cell) for index, cell in enumerate(summary.cells, start=1)]
        run.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in trials))
        return run

    return make


def _trial(index: int, cell: CellInfo) -> Trial:
    """Return a trial that gave the medians of its cell."""
    medians = {name: metric.median for name, metric in cell.metrics.items()}
    return Trial(
        index=index, cell=cell.key, repetition=1, group=1, values=cell.values,
        senders=cell.senders, receivers=cell.receivers, placement=cell.placement,
        tenancy=cell.tenancy, achieved_placement=cell.achieved_placement,
        achieved_tenancy=cell.achieved_tenancy, distance=cell.distance,
        connections=cell.connections, workload=cell.workload, wall_s=1.0, status=Status.OK,
        started_at=datetime(2026, 11, 21, 3, 15, tzinfo=UTC), metrics=medians,
    )  # fmt: skip


@pytest.fixture
def measured(make_summary: Callable[..., Summary], make_cell: Callable[..., CellInfo]) -> Summary:
    """Four cells: rates whose order as numbers is another than as texts, and one unknown."""
    rates = (9.4e8, 1.1e10, 2.0e7, None)
    cells = [
        make_cell(connections=n, aggregate_bps=(rate,) * 6)
        for n, rate in zip((1, 5, 10, 50), rates, strict=True)
    ]
    limited = [
        cells[0].model_copy(
            update={"limited_by": {Bottleneck.NETWORK: 3, Bottleneck.SENDER_CPU: 1}}
        )
    ]
    return make_summary(*limited, *cells[1:])
