from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pandas as pd
import pytest

import osmef
from osmef.errors import InputError
from osmef.importers import KINDS, import_files
from osmef.results.frame import measures_of
from tests.importers.samples import DATA, kind_of
from tests.invoked import invoke
from tests.small_files import small_files


def _osmef(*words: str | Path) -> tuple[int, str]:
    done = invoke(*words, COLUMNS="200")
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize("kind", KINDS)
def test_imported_files_become_runs(kind: str, tmp_path: Path) -> None:
    files = [path for path in sorted(DATA.iterdir()) if kind_of(path) == kind]
    done = import_files(kind, files, tmp_path)
    frame = osmef.load(tmp_path)
    assert len(frame) == done.trials > 0
    assert frame["run"].nunique() == len(done.runs)
    for run in done.runs:
        summary = run.read_summary()
        trials = run.read_trials().trials
        assert sum(cell.n_ok + cell.n_failed for cell in summary.cells) == len(trials)
        code, output = _osmef("show", run.path)
        assert (code, run.id in output) == (0, True)


def test_imported_files_are_kept_unchanged_in_the_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_bytes((DATA / "nuttcp.txt").read_bytes() + b"\r\n")
    (run,) = import_files("nuttcp", [tmp_path / "a", tmp_path / "b"], tmp_path / "out").runs
    first, second = run.read_trials().trials
    assert first.source is not None
    assert second.source is not None
    assert first.source.file != second.source.file
    for trial in (first, second):
        assert trial.source is not None
        assert (run.path / trial.source.file).read_bytes().endswith(b"msRTT\n\r\n")
        assert (trial.source.kind, trial.source.place) == ("nuttcp", "line 1")


def test_an_archive_of_scenarios_gives_a_run_each(tmp_path: Path) -> None:
    archive = tmp_path / "runs.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for scenario in ("vm_to_vm", "host_vm"):
            for number in (1, 2):
                told = json.loads((DATA / "osmef2013.json").read_text())
                copy = tmp_path / f"{number}.json"
                copy.write_text(json.dumps({**told, "time": told["time"] + number}))
                tar.add(copy, f"{scenario}/{number}_BTC.json")
    done = import_files("osmef2013", [archive], tmp_path / "out", provider="openstack")
    assert (done.files, done.trials, done.oddities) == (4, 4, [])
    frame = osmef.load(tmp_path / "out")
    assert sorted(frame["scenario"].unique()) == ["host_vm", "vm_to_vm"]
    assert frame["provider"].unique().tolist() == ["openstack"]
    assert frame["repetition"].tolist() == [1, 2, 1, 2]
    rows = osmef.load_intervals(tmp_path / "out")
    assert len(rows) == 4 * 2 * 5
    assert rows["cell"].unique().tolist() == ["connections=5"]


def test_an_import_on_a_full_disk_leaves_no_run(tmp_path: Path) -> None:
    """The first run fits, the second does not."""
    original = (DATA / "osmef2013.json").read_text()
    for scenario, room in (("first", 0), ("second", 100_000)):
        (tmp_path / "in" / scenario).mkdir(parents=True)
        (tmp_path / "in" / scenario / "1_BTC.json").write_text(original + " " * room)
    results = tmp_path / "results"
    words = ("import", "osmef2013", tmp_path / "in", "--out", results, "--no-figures")
    with small_files(60_000):
        code, output = _osmef(*words)
    assert (code, "1_BTC.json: can't write: File too large" in output) == (4, True), output
    assert list(results.iterdir()) == []
    code, output = _osmef(*words)
    assert (code, len(list(results.iterdir()))) == (0, 2), output


def test_the_list_says_when_a_foreign_run_began_if_that_is_known(tmp_path: Path) -> None:
    import_files("iperf3", [DATA / "iperf3-312-tcp.json"], tmp_path)
    import_files("nuttcp", [DATA / "nuttcp-identifier.txt"], tmp_path)
    known, unknown = json.loads(_osmef("list", tmp_path, "--json")[1])["runs"]
    assert (known["state"], known["began"][:16]) == ("imported", "2026-11-21T10:03")
    assert (unknown["state"], unknown["began"]) == ("imported", None)
    assert _osmef("list", tmp_path)[0] == 0


def test_a_file_of_2013_under_two_names_counts_once(tmp_path: Path) -> None:
    for name in ("1_BTC.json", "2_BTC.json"):
        (tmp_path / name).write_text((DATA / "osmef2013.json").read_text())
    done = import_files("osmef2013", [tmp_path], tmp_path / "out")
    assert (done.files, done.trials) == (2, 1)
    (odd,) = done.oddities
    assert "2_BTC.json: this is " in str(odd)
    assert "1_BTC.json under another name (not imported)" in str(odd)
    assert str(odd) in done.runs[0].read_summary().run.warnings


def test_sessions_give_the_spread_of_a_platform(tmp_path: Path) -> None:
    done = import_files("sessions", [DATA / "sessions.csv"], tmp_path)
    amazon = next(run for run in done.runs if run.id.startswith("amazon"))
    (cell,) = amazon.read_summary().cells
    metric = cell.metrics["unixbench_single_score"]
    values = pd.Series([1155.6, 1376.45])
    assert metric.cov_percent == pytest.approx(100 * values.std() / values.mean())
    assert osmef.load(amazon.path)["session"].tolist() == ["session-1", "session-2"]
    assert amazon.read_summary().run.platform == "Amazon EC2"
    assert osmef.load(amazon.path)["platform"].tolist() == ["Amazon EC2"] * 2


def test_rows_of_one_session_are_its_data_points(tmp_path: Path) -> None:
    header = "instance_class,metric,unit,platform,session,value\n"
    points = [("1", 10), ("1", 12), ("1", 14), ("2", 20), ("2", 20)]
    rows = [f"general,disk,score,A,{session},{value}\n" for session, value in points]
    file = tmp_path / "points.csv"
    file.write_text(header + "".join(rows))
    found = import_files("sessions", [file], tmp_path / "out")
    trials = osmef.load(tmp_path / "out")
    assert sorted(zip(trials["session"], trials["disk_score"], strict=True)) == [
        ("1", 10.0),
        ("1", 12.0),
        ("1", 14.0),
        ("2", 20.0),
    ]
    assert [one.what for one in found.oddities] == ["disk_score of this session once more"]


def test_trials_of_one_session_are_not_taken_for_independent(tmp_path: Path) -> None:
    header = "instance_class,metric,unit,platform,session,value\n"
    rows = [
        f"{size},disk,score,A,{session},{10 * session + point}\n"
        for size, sessions in (("large", 7), ("small", 4))
        for session in range(sessions)
        for point in range(3)
    ]
    file = tmp_path / "points.csv"
    file.write_text(header + "".join(rows))
    (run,) = import_files("sessions", [file], tmp_path / "out").runs
    many, few = (cell.metrics["disk_score"] for cell in run.read_summary().cells)
    assert (few.n, few.sessions, few.median, few.ci95_low) == (12, 4, 16, None)
    assert few.ci95_reason == "of sessions, n = 4; 95 % needs n >= 6"
    assert (many.n, many.sessions, many.median) == (21, 7, 31)
    assert (many.ci95_low, many.ci95_high) == (1, 61)
    assert (many.min, many.max) == (0, 62)
    _code, told = _osmef("show", run.path)
    assert "Medians of the sessions, with the 95 % interval" in told
    assert "another pair" not in told


def test_a_rate_of_sessions_is_judged(tmp_path: Path) -> None:
    head = "instance_class,metric,unit,platform,session,value"
    for name, rate in (("a", 100), ("b", 10)):
        lines = [f"general,dbench,MB/s,aws,{day},{rate + day / 10}" for day in range(6)]
        (tmp_path / name).write_text("\n".join((head, *lines)))
        import_files("sessions", [tmp_path / name], tmp_path / f"out-{name}")
    assert "dbench_mb_per_s" in osmef.load(tmp_path / "out-a")
    sides = tmp_path / "out-a", tmp_path / "out-b"
    assert _osmef("compare", *sides, "--fail-on", "regression")[0] == 1
    assert _osmef("compare", *reversed(sides), "--fail-on", "regression")[0] == 0


def test_imported_sessions_declare_unit_and_direction_of_their_metrics(tmp_path: Path) -> None:
    head = "instance_class,metric,unit,platform,session,value,better"
    rows = [
        "general,Tachyon,ms,aws,1,50,Lower", "general,dbench,MB/s,aws,1,100,",
        "general,render,points,aws,1,7,", "general,UnixBench,Score,aws,1,7,",
        "general,dbench.,MB/s,aws,2,80,", "general,dbench,Mb/s,aws,2,800,",
        "general,odd,s,aws,1,1,faster",
    ]  # fmt: skip
    (tmp_path / "told.csv").write_text("\n".join((head, *rows)))
    done = import_files("sessions", [tmp_path / "told.csv"], tmp_path / "out")
    told = {
        name: (one.unit, one.better.value, one.words)
        for name, one in measures_of(osmef.load(tmp_path / "out")).items()
    }
    assert told == {
        "tachyon_ms": ("ms", "lower", "tachyon"),
        "dbench_mb_per_s": ("MB/s", "higher", "dbench"),
        "render_points": ("points", "neither", "render points"),
        "unixbench_score": ("1", "higher", "unixbench score"),
    }
    assert [one.what for one in done.oddities] == [
        "dbench. has the same name here as dbench",
        "its unit is Mb/s, and before it was MB/s",
        "better is 'faster'",
    ]


def test_sessions_have_the_windows_given_in_the_file(tmp_path: Path) -> None:
    lines = (DATA / "sessions.csv").read_text().splitlines()[:3]
    windows = ("window", "weekday-peak", "")
    told = [f"{line},{window}" for line, window in zip(lines, windows, strict=True)]
    (tmp_path / "told.csv").write_text("\n".join(told))
    (run,) = import_files("sessions", [tmp_path / "told.csv"], tmp_path / "out").runs
    assert osmef.load(run.path)["window"].tolist() == ["weekday-peak", None]
    assert run.read_summary().run.window is None  # they are not all of one


def test_ppbench_comes_back_as_it_went(tmp_path: Path) -> None:
    (run,) = import_files("ppbench", [DATA / "ppbench.csv"], tmp_path).runs
    code, text = _osmef("export", "ppbench", run.path)
    assert code == 0
    rows = text.splitlines()
    assert len(rows) == 5
    assert "/mping/2000,0,8,2000,2.5,800000,400,1,200" in rows[2]


def test_the_command_reports_what_is_odd(tmp_path: Path) -> None:
    code, text = _osmef("import", "sessions", DATA / "sessions.csv", "--out", tmp_path)
    assert code == 1
    assert "sessions.csv:5: value is 'unknown'" in text
    assert "1 file, 3 trials, 1 not imported" in text
    code, text = _osmef("import", "iperf3", DATA / "iperf3-312-udp.json", "--out", tmp_path)
    assert (code, text.splitlines()[-1]) == (0, "1 file, 1 trial")


def test_the_import_command_prints_json(tmp_path: Path) -> None:
    code, text = _osmef("import", "nuttcp", DATA / "nuttcp.txt", "--out", tmp_path, "--json")
    told = json.loads(text)
    assert (code, told["trials"], told["oddities"]) == (0, 1, [])
    assert Path(told["directories"][0], "summary.json").is_file()


@pytest.mark.parametrize(("word", "drawn"), [("--figures", True), ("--no-figures", False)])
def test_figures_are_drawn_unless_they_are_left_out(word: str, drawn: bool, tmp_path: Path) -> None:
    sample = DATA / "iperf3-312-udp.json"
    code, text = _osmef("import", "iperf3", sample, "--out", tmp_path, "--json", word)
    run = Path(json.loads(text)["directories"][0])
    assert (code, (run / "summary.json").is_file()) == (0, True)
    assert (run / "udp-loss.svg").exists() == drawn


def test_an_invalid_file_does_not_stop_the_import_of_others(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(b'{"a": 1}\n\xff')
    done = import_files("iperf3", [other, DATA / "iperf3-312-tcp.json"], tmp_path / "out")
    assert (done.files, done.trials) == (2, 1)
    assert [str(oddity) for oddity in done.oddities] == [
        f"{other}:2: this is no text in UTF-8 (not imported)"
    ]


def test_nothing_to_import_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        import_files("iperf3", [tmp_path / "missing"], tmp_path)
    with pytest.raises(InputError, match="no file in it"):
        import_files("iperf3", [tmp_path], tmp_path / "out")
    with pytest.raises(InputError, match="no JSON of iperf3"):
        import_files("iperf3", [DATA / "nuttcp.txt"], tmp_path / "out")
    (tmp_path / "a.tar.gz").write_bytes(b"no archive")
    with pytest.raises(InputError, match="this archive is truncated"):
        import_files("iperf3", [tmp_path / "a.tar.gz"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_file_is_called_empty(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "empty.txt"
    file.touch()
    with pytest.raises(InputError) as caught:
        import_files(kind, [file], tmp_path / "out")
    assert (caught.value.where, caught.value.message) == (str(file), "the file is empty")
    assert caught.value.cure == f"is this a result of the kind {kind}?"


def test_a_head_without_rows_has_no_trial(tmp_path: Path) -> None:
    file = tmp_path / "head.csv"
    file.write_text((DATA / "cwb2018.csv").read_text().partition("\n")[0])
    with pytest.raises(InputError, match="there is no trial in it"):
        import_files("cwb2018", [file], tmp_path / "out")


def test_an_imported_run_has_nothing_to_resume(tmp_path: Path) -> None:
    (run,) = import_files("nuttcp", [DATA / "nuttcp.txt"], tmp_path).runs
    code, text = _osmef("resume", run.path)
    assert (code, "this run was imported" in text) == (2, True)
