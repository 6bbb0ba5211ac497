"""Merges in a process of its own: what it writes, and what becomes of its failures."""

import sys
from pathlib import Path

import pandas as pd
import pytest
from pyarrow import parquet

from osmef.errors import InputError, StorageError
from osmef.results import merging
from osmef.results.rundir import RunDirectory
from osmef.results.tables import TABLES
from osmef.results.trial import Interval
from tests.small_files import small_files


def _finish_apart(run: RunDirectory) -> None:
    """Merge as a controller does, which has not loaded Arrow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "pyarrow")
        run.finish()
        assert "pyarrow" not in sys.modules


def _write(run: RunDirectory, trial: int, rows: int = 3) -> None:
    row = Interval(
        trial=trial, endpoint="vm-ä", role="sender", flow=0, start_s=0.1, length_s=1 / 3,
        bytes=2**53 + 1, retransmits=None, rtt_us=None, cwnd=None,
    )  # fmt: skip
    run.write_intervals(trial, [row] * rows)


def test_the_merged_table_is_that_of_a_merge_in_this_process(
    run: RunDirectory, tmp_path: Path
) -> None:
    here = RunDirectory.create_at(tmp_path / "here", "", ".yaml")
    for trial in (2, 1):
        _write(run, trial)
        _write(here, trial)
    _finish_apart(run)
    here.finish()
    for directory in (run, here):
        _write(directory, 2, rows=1)
    _finish_apart(run)
    here.finish()
    pd.testing.assert_frame_equal(
        pd.read_parquet(run.intervals), pd.read_parquet(here.intervals), check_exact=True
    )
    assert pd.read_parquet(run.intervals)["bytes"].tolist() == [2**53 + 1] * 4
    assert not (run.path / "intervals").exists()


def test_a_table_of_an_older_version_is_completed(run: RunDirectory) -> None:
    pd.DataFrame({"trial": [1], "endpoint": ["vm-1"], "role": ["sender"], "flow": [0],
        "start_s": [0.0], "length_s": [1.0], "bytes": [7]}).to_parquet(run.intervals)  # fmt: skip
    _write(run, 2, rows=1)
    _finish_apart(run)
    assert parquet.read_schema(run.intervals).equals(TABLES["intervals"])
    assert pd.read_parquet(run.intervals)["bytes"].tolist() == [7, 2**53 + 1]


def test_a_damaged_part_is_named(run: RunDirectory) -> None:
    _write(run, 1)
    part = run.path / "intervals" / "00001.json"
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(InputError, match="this is damaged") as caught:
        _finish_apart(run)
    assert caught.value.where == str(part)
    assert "put it back from a copy" in str(caught.value.cure)
    assert not run.intervals.exists()


def test_a_full_disk_is_named(run: RunDirectory) -> None:
    _write(run, 1)
    with small_files(600), pytest.raises(StorageError, match="File too large") as caught:
        _finish_apart(run)
    assert caught.value.where == str(run.intervals)
    assert "ulimit -f" in str(caught.value.cure)
    _finish_apart(run)
    assert len(pd.read_parquet(run.intervals)) == 3


def test_a_killed_merge_is_reported_and_can_be_repeated(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(run, 1)
    with monkeypatch.context() as patch:
        patch.setattr(merging, "_PROGRAM", "import os; os.kill(os.getpid(), 9)")
        with pytest.raises(StorageError, match=r"can't merge this table: .* -9") as caught:
            _finish_apart(run)
    assert "what was measured is kept" in str(caught.value.cure)
    assert sorted(path.name for path in run.path.iterdir()) == [
        "intervals", "lock", "scenario.yaml",
    ]  # fmt: skip
    _finish_apart(run)
    assert len(pd.read_parquet(run.intervals)) == 3
