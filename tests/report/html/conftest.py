from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from osmef.results.limits import Limit
from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo, Summary

SAMPLE = Path(__file__).parents[2] / "results/data/quickstart-20261121T031500Z-3f9a"


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[[str, Summary], RunDirectory]:
    """Make a run directory with this summary, and with the trials of the sample."""

    def make(name: str, summary: Summary) -> RunDirectory:
        shutil.copytree(SAMPLE, tmp_path / name)
        run = RunDirectory(tmp_path / name)
        run.write_summary(summary)
        return run

    return make


@pytest.fixture
def measured(make_summary: Callable[..., Summary], make_cell: Callable[..., CellInfo]) -> Summary:
    """Four cells: rates whose order as numbers is another than as texts, and one unknown."""
    rates = (9.4e8, 1.1e10, 2.0e7, None)
    cells = [
        make_cell(connections=n, aggregate_bps=(rate,) * 6)
        for n, rate in zip((1, 5, 10, 50), rates, strict=True)
    ]
    limited = [cells[0].model_copy(update={"limited_by": {Limit.NETWORK: 3, Limit.SENDER_CPU: 1}})]
    return make_summary(*limited, *cells[1:])
