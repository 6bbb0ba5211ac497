import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from osmef.campaigns.watching.monitoring import LIVE, read_live, show_in
from osmef.errors import InputError, StorageError
from osmef.results.files import write_atomically
from osmef.results.frame import load
from osmef.results.observations import Request
from osmef.results.rundir import RunDirectory
from osmef.results.tables import as_table, write_part
from osmef.results.trial import Failure, Interval, Status, Trial
from tests.small_files import small_files

MakeTrial = Callable[..., Trial]
MakeIntervals = Callable[[int], list[Interval]]


def test_a_new_run_has_a_name_that_sorts_by_time_and_the_scenario_in_it(run: RunDirectory) -> None:
    assert re.fullmatch(r"quickstart-\d{8}T\d{6}Z-[0-9a-f]{4}", run.id)
    assert run.scenario.name == "scenario.yaml"
    assert run.scenario.read_text() == "name: quickstart\n"
    assert RunDirectory.open(run.path).id == run.id


def test_the_run_name_is_found_from_inside_the_directory(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.path)
    assert RunDirectory.open(Path()).id == run.id


def test_a_path_that_is_no_run_directory_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run directory"):
        RunDirectory.open(tmp_path)
    with pytest.raises(InputError, match="there is no such run"):
        RunDirectory.open(tmp_path / "missing")


def test_results_that_cannot_be_made_are_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(StorageError, match="can't make a run directory: Not a directory"):
        RunDirectory.create(tmp_path / "results", "x", "", ".yaml")


def test_a_run_that_cannot_begin_leaves_no_directory(tmp_path: Path) -> None:
    with small_files(4000), pytest.raises(StorageError, match="File too large"):
        RunDirectory.create(tmp_path, "x", "#" * 5000, ".yaml")
    assert list(tmp_path.iterdir()) == []


def test_the_cure_of_a_full_disk_names_no_run_to_resume(tmp_path: Path) -> None:
    """Commands without a run write files, too."""
    with small_files(4000), pytest.raises(StorageError, match="File too large") as caught:
        write_atomically(tmp_path / "page.html", b"#" * 5000)
    assert caught.value.cure == "raise the limit of the file size (ulimit -f)"


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("there/below/page.html", "is the path right, and does its directory still exist?"),
        (
            "file/page.html",
            "is the path right? A part of it is a file, or a link that leads nowhere",
        ),
        (
            "link/page.html",
            "is the path right? A part of it is a file, or a link that leads nowhere",
        ),
        ("directory", "name a file in this directory"),
        (f"{'x' * 300}.html", "choose a shorter name"),
    ],
)
def test_a_path_that_takes_no_file_has_a_cure_of_its_own(
    tmp_path: Path, name: str, cure: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "directory").mkdir()
    with pytest.raises(StorageError) as caught:
        write_atomically(tmp_path / name, b"page")
    assert caught.value.cure == cure


def test_no_link_in_a_run_directory_is_written_through(
    run: RunDirectory, make_trial: MakeTrial, tmp_path: Path
) -> None:
    victim = tmp_path / "bashrc"
    victim.write_text("mine")
    run.trials.symlink_to(victim)
    with pytest.raises(StorageError, match="can't append to") as caught:
        run.append_trial(make_trial(0))
    assert (
        caught.value.cure
        == "there is a symbolic link in its place: find out who made it, and remove it"
    )
    (run.path / ".live.json.draft").symlink_to(victim)
    show_in(run.path, "{}")
    assert victim.read_text() == "mine"
    assert (run.path / LIVE).read_text() == "{}"
    assert read_live(run.path) is None


@pytest.mark.parametrize(
    "text", ["", "[]", '{"at": "now"}', '{"at": "2026-01-01T00:00:00Z", "running": [{}]}']
)
def test_a_live_status_of_another_form_is_unknown(run: RunDirectory, text: str) -> None:
    show_in(run.path, text)
    assert read_live(run.path) is None


def test_raw_output_is_replaced_by_that_of_the_last_run_even_if_empty(
    run: RunDirectory,
) -> None:
    run.write_raw(1, "0-vm-1.stderr", b"")
    assert not (run.path / "raw").exists()
    run.write_raw(1, "0-vm-1.stderr", b"\xff refused")
    assert (run.path / "raw" / "1-0-vm-1.stderr").read_bytes() == b"\xff refused"
    run.write_raw(1, "0-vm-1.stderr", b"")
    assert list((run.path / "raw").iterdir()) == []


def test_a_resumed_run_removes_the_remains_of_a_kill(run: RunDirectory) -> None:
    run.write_facts("before", "vm-1", {})
    run.close()
    draft = run.path / "facts" / "before" / ".osmef-0123456789abcdef.draft"
    draft.write_text("half")
    with RunDirectory.open(run.path) as again:
        again.acquire()
        assert not draft.exists()
        assert again.read_facts("before", "vm-1") == {}


# --- trials


def test_trials_come_back_as_they_were(run: RunDirectory, make_trial: MakeTrial) -> None:
    assert run.read_trials().trials == []
    written = [make_trial(0), make_trial(7, cell="naïve\nnewline", metrics={})]
    for trial in written:
        run.append_trial(trial)
    assert run.read_trials().trials == written
    assert run.read_trials().warnings == []
    assert len(run.trials.read_bytes().splitlines()) == 2


def test_a_trial_that_failed_after_all_loses_its_series_and_others_stay(
    run: RunDirectory, make_trial: MakeTrial, make_intervals: MakeIntervals
) -> None:
    first, second, third = (make_trial(index) for index in (3, 1, 2))
    for trial in (first, second, third):
        run.write_intervals(trial.index, make_intervals(trial.index))
        run.append_trial(trial)
    failed = second.model_copy(update={"status": Status.FAILED, "metrics": {}})
    unplaced = third.model_copy(update={"distance": None})
    run.correct_trials([])
    run.correct_trials([unplaced, failed])
    assert run.read_trials().trials == [first, failed, unplaced]
    run.finish()
    assert set(pd.read_parquet(run.intervals)["trial"]) == {3, 2}
    run.correct_trials([failed])  # its series are merged by then: nothing is left to lose


def test_the_newest_record_of_a_repeated_trial_is_used(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    failure = Failure(kind="agent", message="stalled")
    failed = [make_trial(n, status=Status.FAILED, failure=failure, metrics={}) for n in (1, 2)]
    again, twice = make_trial(1), failed[1].model_copy(update={"wall_s": 7.0})
    for trial in (*failed, make_trial(3), again, twice):
        run.append_trial(trial)
    log = run.read_trials()
    assert (log.trials, log.replaced, log.warnings) == ([make_trial(3), again, twice], 2, [])
    frame = load(run.path)
    assert frame["trial"].tolist() == [3, 1, 2]
    assert frame["status"].tolist() == ["ok", "ok", "failed"]
    unplaced = again.model_copy(update={"distance": None})
    run.correct_trials([unplaced])
    assert run.read_trials().trials == [make_trial(3), unplaced, twice]
    assert len(run.trials.read_bytes().splitlines()) == 5, "the old records stay"


def test_the_newest_record_is_found_however_its_line_is_written(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    """As by a tool that orders the keys, and where a kill tore the record that comes after."""
    lines = [
        make_trial(index, wall_s=wall).model_dump_json() for index, wall in ((1, 1.0), (2, 2.0))
    ]
    ordered = json.dumps(dict(sorted(json.loads(lines[0]).items(), reverse=True)))
    run.trials.write_text("\n".join([ordered, *lines, lines[1][:40]]))
    frame = load(run.path)
    assert frame["trial"].tolist() == [1, 2]
    assert len(run.read_trials().trials) == 2


def test_a_writer_killed_at_any_byte_loses_only_the_line_it_wrote(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    run.append_trial(make_trial(0))
    run.append_trial(make_trial(1))
    whole = run.trials.read_bytes()
    second = whole.index(b"\n") + 1
    for cut in range(second + 1, len(whole)):
        run.trials.write_bytes(whole[:cut])
        log = run.read_trials()
        assert log.trials == [make_trial(0)]
        assert log.warnings == [f"{run.trials}:2: dropped a trial that was not written whole"]
    run.append_trial(make_trial(2))
    assert run.read_trials().trials == [make_trial(0), make_trial(2)]
    assert run.read_trials().warnings == []


def test_a_torn_line_longer_than_a_block_is_cut_off_too(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    run.append_trial(make_trial(0))
    with run.trials.open("ab") as file:
        file.write(b"{" * 200_000)
    run.append_trial(make_trial(1))
    assert run.read_trials().trials == [make_trial(0), make_trial(1)]


def test_a_write_that_fails_half_way_leaves_no_half_line(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    run.append_trial(make_trial(0))
    before = run.trials.read_bytes()
    with small_files(4000), pytest.raises(StorageError, match="File too large") as caught:
        run.append_trial(make_trial(1, cell="c" * 5000))
    assert caught.value.where == str(run.trials)
    assert caught.value.cure is not None
    assert run.trials.read_bytes() == before
    run.append_trial(make_trial(2))
    assert [trial.index for trial in run.read_trials().trials] == [0, 2]


_FILL_A_DISK = """
import pathlib, sys
from osmef.errors import StorageError
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Trial
run = RunDirectory.create(pathlib.Path(sys.argv[1]), "full", "name: full", ".yaml")
trial = Trial.model_validate_json(sys.argv[2])
for done in range(1000):
    try:
        run.append_trial(trial.model_copy(update={"index": done}))
    except StorageError as error:
        print(error)
        break
log = run.read_trials()
print(done, len(log.trials), log.warnings)
"""


def test_a_full_disk_keeps_every_trial_that_was_acknowledged(
    tmp_path: Path, make_trial: MakeTrial
) -> None:
    mount = 'mount -t tmpfs -o size=64k tmpfs "$1" && shift && exec "$@"'
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run(
        [*unshare, "sh", "-c", mount, "sh", tmp_path, "true"], check=False
    ).returncode:
        pytest.skip("this machine allows no user namespaces")
    trial = make_trial(0, cell="c" * 3000).model_dump_json()
    script = [sys.executable, "-c", _FILL_A_DISK, str(tmp_path), trial]
    done = subprocess.run(
        [*unshare, "sh", "-c", mount, "sh", tmp_path, *script],
        check=True,
        capture_output=True,
        text=True,
    )
    error, cure, state = done.stdout.splitlines()
    assert error.endswith("trials.jsonl: can't append to: No space left on device")
    assert cure == "  cure: free some space on that disk"
    acknowledged, found, warnings = state.split(maxsplit=2)
    assert int(acknowledged) > 5
    assert found == acknowledged
    assert warnings == "[]"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{}", "no schema_version"),
        ("[]", "no schema_version"),
        ('{"schema_version": true}', "no schema_version"),
        ('{"schema_version": 1}', "damaged: index"),
        ("nonsense", "not JSON"),
        ('{"schema_version": 999, "index": 0}', "a newer OSMeF wrote this"),
    ],
)
def test_a_line_that_is_no_trial_is_named(
    run: RunDirectory, make_trial: MakeTrial, line: str, message: str
) -> None:
    run.append_trial(make_trial(0))
    with run.trials.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match=message) as caught:
        run.read_trials()
    assert caught.value.where == f"{run.trials}:2"
    assert caught.value.cure is not None


# --- intervals


def test_parts_become_one_file(run: RunDirectory, make_intervals: MakeIntervals) -> None:
    for trial in (2, 0, 1):
        run.write_intervals(trial, make_intervals(trial))
    run.finish()
    frame = pd.read_parquet(run.intervals)
    rows = [row.model_dump() for trial in range(3) for row in make_intervals(trial)]
    assert frame["trial"].tolist() == [row["trial"] for row in rows]
    assert frame["bytes"].tolist() == [row["bytes"] for row in rows]
    assert frame["retransmits"].isna().sum() == 18
    assert sorted(path.name for path in run.path.iterdir()) == [
        "intervals.parquet",
        "lock",
        "scenario.yaml",
    ]


def test_merging_again_doubles_no_row(run: RunDirectory, make_intervals: MakeIntervals) -> None:
    """As after a crash between merging and tidying up, or after a trial that ran once more."""
    run.write_intervals(0, make_intervals(0))
    run.write_intervals(1, make_intervals(1))
    run.finish()
    run.finish()
    run.write_intervals(1, make_intervals(1)[:5])
    run.write_intervals(2, make_intervals(2))
    run.finish()
    frame = pd.read_parquet(run.intervals)
    assert frame.groupby("trial").size().to_dict() == {0: 12, 1: 5, 2: 12}


def test_a_part_of_an_older_version_is_merged_unless_its_trial_was_measured_again(
    run: RunDirectory, make_intervals: MakeIntervals
) -> None:
    """It wrote all parts in Parquet."""
    run.write_intervals(2, make_intervals(2)[:3])
    for trial in (1, 2):
        with (run.path / "intervals" / f"0000{trial}.parquet").open("wb") as file:
            write_part(file, [as_table("intervals", make_intervals(trial))])
    run.finish()
    assert pd.read_parquet(run.intervals).groupby("trial").size().to_dict() == {1: 12, 2: 3}
    assert not (run.path / "intervals").exists()


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"7", b'{"trial": 1}', b'{"trial": [1], "bytes": [1, 2]}', b'{"trial": ["a"]}',
        b'{"trial": [1], "endpoint": [7]}', b'{"trial": [99999999999999999999]}',
    ],
)  # fmt: skip
def test_a_part_that_is_no_table_is_damaged(run: RunDirectory, text: bytes) -> None:
    run.write_intervals(1, [])
    part = run.path / "intervals" / "00001.json"
    part.write_bytes(text)
    with pytest.raises(InputError, match="this is damaged") as caught:
        run.finish()
    assert caught.value.where == str(part)


def test_a_part_that_is_no_file_is_not_waited_for(run: RunDirectory) -> None:
    run.write_intervals(1, [])
    part = run.path / "intervals" / "00001.json"
    part.unlink()
    os.mkfifo(part)
    with pytest.raises(InputError, match="it is a named pipe, no regular file") as caught:
        run.finish()
    assert caught.value.where == str(part)


@pytest.mark.parametrize("at", [0, 0.3, 0.6, 0.99])
def test_a_damaged_part_is_reported_and_no_data_is_lost(
    run: RunDirectory, make_intervals: MakeIntervals, at: float
) -> None:
    for trial in (1, 2):
        run.write_intervals(trial, make_intervals(trial))
    part = run.path / "intervals" / "00002.json"
    data = part.read_bytes()
    cut = int(at * len(data))
    part.write_bytes(data[:cut] + b"\xff" * 40 + data[cut + 40 :])
    with pytest.raises(InputError, match="this is damaged") as caught:
        run.finish()
    assert (caught.value.where, run.intervals.exists()) == (str(part), False)
    part.unlink()
    run.finish()
    assert set(pd.read_parquet(run.intervals)["trial"]) == {1}


def test_unrelated_files_are_not_merged_as_parts(
    run: RunDirectory, make_intervals: MakeIntervals
) -> None:
    run.write_intervals(1, make_intervals(1))
    mine = ["notes.json", "notes.parquet", "².json"]
    for name in mine:
        (run.path / "intervals" / name).write_text("mine")
    run.finish()
    assert set(pd.read_parquet(run.intervals)["trial"]) == {1}
    assert sorted(path.name for path in (run.path / "intervals").iterdir()) == mine


def test_a_run_without_intervals_has_no_file_of_them(run: RunDirectory) -> None:
    run.finish()
    assert not run.intervals.exists()


def test_requests_are_a_table_of_their_own(run: RunDirectory) -> None:
    run.write_requests(1, [])
    run.finish()
    assert not run.requests.exists()
    asked = [
        Request(
            trial=2, purpose="measured", sender="vm-1", receiver="vm-2", size=size,
            intended_start_s=0.1, duration_s=None, relay_s=None, code=None, length=None, retries=3,
            error="timeout",
        )
        for size in (1, 1000)
    ]  # fmt: skip
    run.write_requests(2, [as_table("requests", asked)])
    run.finish()
    frame = pd.read_parquet(run.requests)
    assert frame["size"].tolist() == [1, 1000]
    assert frame[["duration_s", "code", "length"]].isna().all(axis=None)


def test_intervals_that_do_not_fit_leave_nothing_behind(
    run: RunDirectory, make_intervals: MakeIntervals
) -> None:
    rows = [row for trial in range(300) for row in make_intervals(trial)]
    with small_files(4000), pytest.raises(StorageError, match="00000"):
        run.write_intervals(0, rows)
    assert list((run.path / "intervals").iterdir()) == []


# --- facts


def test_written_facts_are_read_back(run: RunDirectory) -> None:
    facts = {"hostname": "vm-ä", "load": {"1min": 0.5}, "speed_bps": None}
    for moment in ("00001", "-0001", "00000"):
        run.write_facts(moment, "vm-1", facts)
    assert run.read_facts("00000", "vm-1") == facts
    assert run.read_facts("00000", "vm-2") is None
    assert (run.path / "facts" / "00000" / "vm-1.json").exists()
    assert run.fact_moments("vm-1") == ["-0001", "00000", "00001"]
    assert run.fact_moments("vm-2") == []


def test_facts_that_are_not_json_are_bad_input(run: RunDirectory) -> None:
    run.write_facts("00000", "vm-1", {})
    (run.path / "facts" / "00000" / "vm-1.json").write_text("{")
    with pytest.raises(InputError, match="not JSON") as refused:
        run.read_facts("00000", "vm-1")
    assert "or remove it" in str(refused.value.cure)


# --- lock

_HOLD = """
import pathlib, sys
from osmef.results.rundir import RunDirectory
run = RunDirectory.open(pathlib.Path(sys.argv[1]))
run.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_run_is_live_until_its_controller_is_killed(run: RunDirectory) -> None:
    run.close()
    assert not run.is_live()
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, run.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == "held\n"
        assert run.is_live()
        with pytest.raises(StorageError, match="another osmef process is working on this run"):
            run.acquire()
        controller.kill()
    assert not run.is_live()
    run.acquire()
    assert run.is_live()


def test_a_run_without_a_lock_is_not_live(tmp_path: Path) -> None:
    assert not RunDirectory(tmp_path).is_live()
