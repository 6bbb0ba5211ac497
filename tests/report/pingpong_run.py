"""A run of ping-pong on the disk, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from osmef.results.observations import Purpose, Request
from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo, Summary
from osmef.results.tables import as_table
from osmef.results.trial import Status, Trial


def request(size: int, ms: float, **changes: object) -> Request:
    """Return a good answer after so long at ping, and twice that at siege."""
    one = Request(
        trial=1, purpose="measured", sender="vm-1", receiver="vm-2", size=size,
        intended_start_s=0.0, duration_s=ms / 500, relay_s=ms / 1000, code=200, length=size,
        retries=0, error=None,
    )  # fmt: skip
    return one.model_copy(update=changes)


def write_run(directory: Path, summary: Summary, requests: Sequence[Sequence[Request]]) -> Path:
    """Write a run with one trial a cell, which made these requests."""
    run = RunDirectory.create(directory, "pingpong", "name: pingpong\n", ".yaml")
    with run:
        for index, (cell, rows) in enumerate(zip(summary.cells, requests, strict=True)):
            run.write_requests(
                index, [as_table("requests", [r.model_copy(update={"trial": index}) for r in rows])]
            )
            run.append_trial(_trial(index, cell))
        run.finish()
        run.write_summary(summary)
    return run.path


def _trial(index: int, cell: CellInfo) -> Trial:
    return Trial(
        index=index, cell=cell.key, repetition=1, group=1, values=cell.values,
        senders=cell.senders, receivers=cell.receivers, placement=cell.placement,
        tenancy=cell.tenancy, distance=2, workload="pingpong", wall_s=1.0, status=Status.OK,
        started_at=datetime(2026, 11, 21, 3, 15, tzinfo=UTC), metrics={},
    )  # fmt: skip


BACKGROUND = Purpose.BACKGROUND.value
