from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset as ds
import pytest

import osmef
from osmef.errors import InputError
from osmef.results.observations import Request
from osmef.results.rundir import RunDirectory
from osmef.results.tables import as_table
from osmef.results.trial import Interval, Trial

MakeTrial = Callable[..., Trial]
MakeIntervals = Callable[[int], list[Interval]]


def _requests(trial: int, count: int) -> list[Request]:
    return [
        Request(
            trial=trial, purpose="measured", sender="vm-1", receiver="vm-2", size=10 * (n + 1),
            intended_start_s=float(n), duration_s=0.5, relay_s=None, code=200, length=10 * (n + 1),
            retries=0, error="status" if n == 0 else None,
        )
        for n in range(count)
    ]  # fmt: skip


@pytest.fixture
def runs(tmp_path: Path, make_trial: MakeTrial, make_intervals: MakeIntervals) -> Path:
    for name, cells in (("one", ["a", "b"]), ("two", ["c"])):
        with RunDirectory.create(tmp_path, name, "name: x\n", ".yaml") as run:
            for trial, cell in enumerate(cells, start=1):
                run.write_intervals(trial, make_intervals(trial))
                run.write_requests(trial, [as_table("requests", _requests(trial, 3))])
                run.append_trial(make_trial(trial, cell=cell))
            run.finish()
    return tmp_path


def test_requests_of_many_runs_with_their_run_and_cell(runs: Path) -> None:
    frame = osmef.load_requests(runs)
    assert frame.shape[0] == 9
    assert frame["cell"].tolist() == [*"aaabbbccc"]
    assert frame["run"].nunique() == 2
    assert frame["error"].notna().tolist() == [True, False, False] * 3
    assert frame["relay_s"].isna().all()
    assert frame["size"].tolist() == [10, 20, 30] * 3


def test_only_what_is_wanted_is_read(runs: Path) -> None:
    wanted = ds.field("size") > 10
    frame = osmef.load_requests(runs, columns=["cell", "duration_s"], where=wanted)
    assert frame.columns.tolist() == ["cell", "duration_s"]
    assert frame["cell"].tolist() == [*"aabbcc"]


def test_the_meaning_of_columns_is_in_the_frame(runs: Path) -> None:
    for frame in (osmef.load_requests(runs), osmef.load_intervals(runs)):
        assert list(frame.attrs["columns"]) == list(frame.columns)
        assert all(frame.attrs["columns"].values())
    some = osmef.load_intervals(runs, columns=["cell", "bytes"])
    assert some.attrs["columns"]["bytes"] == "payload bytes in the interval"
    assert list(some[some["bytes"] > 0].attrs["columns"]) == ["cell", "bytes"]


def test_intervals_of_many_runs(runs: Path) -> None:
    frame = osmef.load_intervals(runs / "one-*")
    assert frame.shape[0] == 24
    assert frame.groupby("cell", observed=True)["bytes"].sum().tolist() == [12006, 24006]
    assert osmef.load_intervals(runs, columns=["bytes"]).shape == (36, 1)


def test_a_dataset_can_be_filtered_by_run_before_reading(runs: Path) -> None:
    dataset = osmef.scan_requests(runs)
    assert dataset.schema.names[:2] == ["run", "trial"]
    (two,) = runs.glob("two-*")
    assert dataset.count_rows(filter=ds.field("run") == two.name) == 3
    assert osmef.scan_intervals(runs).count_rows() == 36


def test_old_intervals_have_nulls_in_the_columns_they_did_not_have(
    runs: Path, make_trial: MakeTrial
) -> None:
    (two,) = runs.glob("two-*")
    pd.DataFrame(
        {"trial": [1], "endpoint": ["vm-1"], "role": ["sender"], "flow": [0], "start_s": [0.0],
         "length_s": [1.0], "bytes": [7], "retransmits": [0], "rtt_us": [1.0], "cwnd": [10]}
    ).to_parquet(two / "intervals.parquet")  # fmt: skip
    frame = osmef.load_intervals(two)
    assert frame["bytes"].tolist() == [7]
    assert frame[["purpose", "peer", "jitter_us"]].isna().all(axis=None)


def test_no_rows_is_an_empty_frame(runs: Path) -> None:
    frame = osmef.load_requests(runs, where=ds.field("size") < 0)
    assert frame.empty
    assert "cell" in frame.columns


def test_runs_without_requests_are_skipped_and_no_requests_at_all_is_an_error(runs: Path) -> None:
    (one,) = runs.glob("one-*")
    (one / "requests.parquet").unlink()
    assert osmef.load_requests(runs)["cell"].tolist() == [*"ccc"]
    with pytest.raises(InputError, match="made no requests"):
        osmef.load_requests(one)


def test_a_damaged_parquet_file_is_reported(runs: Path) -> None:
    for path in runs.glob("*/requests.parquet"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="Parquet file is truncated"):
        osmef.load_requests(runs)


@pytest.mark.parametrize("wanted", [{"columns": ["cell", "sise"]}, {"where": ds.field("sise") > 1}])
def test_an_unknown_column_is_not_reported_as_damage(runs: Path, wanted: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="can't read these requests") as told:
        osmef.load_requests(runs, **wanted)
    assert "size" in str(told.value.cure)
