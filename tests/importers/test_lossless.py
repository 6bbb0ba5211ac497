"""Whatever the files are called and however torn they are: nothing is lost without a word."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from pathlib import Path

import pytest

import osmef
from osmef.importers import KINDS, import_files
from osmef.importers.record import Text
from osmef.results.rundir import RunDirectory
from tests.importers.samples import DATA, kind_of
from tests.invoked import invoke

BOM = b"\xef\xbb\xbf"


def _sources(run: RunDirectory) -> list[bytes]:
    found = [trial.source for trial in run.read_trials().trials]
    return [(run.path / source.file).read_bytes() for source in found if source is not None]


def test_files_in_folders_of_one_name_are_all_kept(tmp_path: Path) -> None:
    text = (DATA / "nuttcp.txt").read_text()
    contents = [text.replace("742.3839", f"{number}00.0000").encode() for number in range(1, 4)]
    for day, content in zip(("monday", "tuesday", "1-x.txt"), contents, strict=True):
        path = tmp_path / day / "iperf" / "x.txt"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    (run,) = import_files("nuttcp", [tmp_path], tmp_path / "out").runs
    assert sorted(_sources(run)) == contents
    assert run.read_summary().run.description == "imported from 3 files"


def test_a_compressed_file_is_read_and_kept_as_it_is(tmp_path: Path) -> None:
    packed = gzip.compress((DATA / "flent-rrul.flent").read_bytes())
    path = tmp_path / "rrul.flent.gz"
    path.write_bytes(packed)
    done = import_files("flent", [path], tmp_path / "out")
    assert (done.trials, done.oddities) == (1, [])
    assert _sources(done.runs[0]) == [packed]


def test_a_truncated_compressed_file_is_reported(tmp_path: Path) -> None:
    packed = gzip.compress((DATA / "flent-rrul.flent").read_bytes())
    for name, content in (("a.flent.gz", packed), ("b.flent.gz", packed[:500])):
        (tmp_path / name).write_bytes(content)
    done = import_files("flent", [tmp_path], tmp_path / "out")
    assert done.trials == 1
    assert "b.flent.gz: this gzip file is truncated or damaged" in str(done.oddities[0])


def test_archives_with_members_of_one_name_are_all_kept(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as tar:
            (tmp_path / name).write_bytes((DATA / "nuttcp.txt").read_bytes() + name.encode())
            tar.add(tmp_path / name, "vm/1.txt")
    archives = [tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"]
    (run,) = import_files("nuttcp", archives, tmp_path / "out").runs
    assert [source[-1:] for source in _sources(run)] == [b"a", b"b"]


def test_a_file_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    done = import_files("nuttcp", [DATA / "nuttcp.txt", DATA / "nuttcp.txt"], tmp_path)
    assert (done.files, done.trials) == (1, 1)


@pytest.mark.parametrize(
    "name",
    [
        "ppbench.csv",
        "sessions.csv",
        "apachebench-rows.csv",
        "iperf3-312-tcp.json",
        "osmef2013.json",
        "nuttcp.txt",
        "netperf-rr.txt",
        "netpipe-np.out",
        "apachebench.txt",
    ],
)
def test_a_mark_of_utf_8_at_the_beginning_is_read_and_kept(name: str, tmp_path: Path) -> None:
    whole, marked = DATA / name, tmp_path / name
    marked.write_bytes(BOM + whole.read_bytes())
    plain = import_files(kind_of(whole), [whole], tmp_path / "plain")
    done = import_files(kind_of(whole), [marked], tmp_path / "marked")
    assert done.trials == plain.trials
    assert len(done.oddities) == len(plain.oddities)
    assert _sources(done.runs[0])[0] == BOM + whole.read_bytes()


@pytest.mark.parametrize(
    ("mark", "encoding"), [(b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")]
)
@pytest.mark.parametrize(
    "name", ["iperf3-312-tcp.json", "netperf-rr.txt", "apachebench.txt", "ppbench.csv"]
)
def test_files_saved_by_windows_powershell_are_imported(
    name: str, mark: bytes, encoding: str, tmp_path: Path
) -> None:
    """Its > writes UTF-16, with two characters at the end of a line."""
    saved = mark + (DATA / name).read_text().replace("\n", "\r\n").encode(encoding)
    (tmp_path / name).write_bytes(saved)
    plain, done = (
        import_files(kind_of(path), [path], tmp_path / out)
        for path, out in ((DATA / name, "plain"), (tmp_path / name, "windows"))
    )
    cells, same = (of.runs[0].read_summary().cells for of in (plain, done))
    assert cells == same
    assert _sources(done.runs[0])[0] == saved


def test_half_a_character_is_refused_with_its_line(tmp_path: Path) -> None:
    good = (DATA / "nuttcp.txt").read_text()
    (tmp_path / "a").write_bytes(b"\xff\xfe" + f"{good}\n".encode("utf-16-le") + b"x")
    (tmp_path / "b").write_text(good)
    done = import_files("nuttcp", [tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert [str(one) for one in done.oddities] == [
        f"{tmp_path / 'a'}:3: this is no text in UTF-16-LE (not imported)"
    ]


@pytest.mark.parametrize("name", ["ppbench.csv", "apachebench-rows.csv", "sessions.csv"])
def test_a_torn_row_costs_that_row_only(name: str, tmp_path: Path) -> None:
    head, *rows = (DATA / name).read_text().splitlines()
    path = tmp_path / name
    for place in range(len(rows)):
        torn = [*rows[:place], rows[place][: len(rows[place]) // 3], *rows[place + 1 :]]
        path.write_text("\n".join([head, *torn]))
        done = import_files(kind_of(path), [path], tmp_path / f"out-{place}")
        told = [str(oddity) for oddity in done.oddities]
        assert any(f"{path}:{place + 2}: " in one and "the head has" in one for one in told)
        assert done.trials > 0


def test_an_invalid_csv_row_is_skipped_alone(tmp_path: Path) -> None:
    head, first, *rest = (DATA / "ppbench.csv").read_text().splitlines()
    path = tmp_path / "ppbench.csv"
    path.write_text("\n".join([head, first, "x" * 200_000, *rest]))
    done = import_files("ppbench", [path], tmp_path / "out")
    assert f"{path}:3: this is not CSV: field larger" in str(done.oddities[0])
    assert len(osmef.load_requests(tmp_path / "out")) == len(rest)  # one of them is odd, too


def test_a_row_with_a_negative_time_has_failed(tmp_path: Path) -> None:
    head, first, second, *_ = (DATA / "ppbench.csv").read_text().splitlines()
    path = tmp_path / "ppbench.csv"
    path.write_text("\n".join([head, first, second.replace(",2.5,", ",-2.5,")]))
    done = import_files("ppbench", [path], tmp_path / "out")
    (trial,) = done.runs[0].read_trials().trials
    assert (trial.metrics["requests"], trial.metrics["failed_requests"]) == (2, 1)
    assert trial.metrics["time_p50_us"] == pytest.approx(2000)
    assert [str(one) for one in done.oddities] == [
        f"{path}:3: no good answer: its time is -2.5 ms, counted as failed (kept)"
    ]


def test_many_odd_rows_are_reported_in_few_lines(tmp_path: Path) -> None:
    head, first, *_ = (DATA / "ppbench.csv").read_text().splitlines()
    path = tmp_path / "ppbench.csv"
    path.write_text("\n".join([head, first, *[first.replace(",2.0,", ",-2.0,")] * 500]))
    words = ["import", "ppbench", str(path), "--out", str(tmp_path / "out"), "--no-figures"]
    done = invoke(*words, COLUMNS="200")
    assert done.exit_code == 1
    assert done.stderr.count("note: ") == 21
    assert (
        "and 480 more: all are in the summaries of the runs, or in their notes.txt" in done.stderr
    )
    assert "500 with something unusual" in done.stdout


def test_files_without_a_trial_stand_in_every_summary(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"bad-{number:02d}.json").write_text("{")
    for scenario in ("a", "b"):
        (tmp_path / scenario).mkdir()
        (tmp_path / scenario / "1.json").write_text((DATA / "osmef2013.json").read_text())
    done = import_files("osmef2013", [tmp_path], tmp_path / "out")
    assert (len(done.runs), len(done.oddities)) == (2, 30)
    for run in done.runs:
        warnings = run.read_summary().run.warnings
        assert "bad-00.json:1: this is not JSON" in warnings[0]
        assert warnings[20:] == ["and 10 more: all are in notes.txt of the run"]
        notes = (run.path / "notes.txt").read_text().splitlines()
        assert notes[:20] == warnings[:20]
        assert "bad-29.json" in notes[29]


def test_few_notes_need_no_file(tmp_path: Path) -> None:
    done = import_files("sessions", [DATA / "sessions.csv"], tmp_path)
    for run in done.runs:
        assert "value is 'unknown'" in run.read_summary().run.warnings[0]
        assert not (run.path / "notes.txt").exists()


@pytest.mark.parametrize("name", ["iperf3-312-udp.json", "iperf3-322-udp-reverse.json"])
def test_udp_of_old_versions_has_the_rates_of_its_only_sum(name: str, tmp_path: Path) -> None:
    """iperf3 up to 3.9 has no other sum than end.sum, of what was sent."""
    document = json.loads((DATA / name).read_text())
    end = document["end"]
    sent = end.pop("sum_sent")["bits_per_second"]
    end.pop("sum_received")
    end["sum"] |= {"lost_packets": 7, "packets": 70, "bits_per_second": sent}
    document["start"]["test_start"].pop("target_bitrate")
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document))
    (run,) = import_files("iperf3", [path], tmp_path / "out").runs
    (trial,) = run.read_trials().trials
    assert trial.metrics["sent_bps"] == sent
    assert trial.metrics["goodput_bps"] == pytest.approx(0.9 * sent)
    assert trial.metrics["loss_percent"] == pytest.approx(10)
    assert trial.metrics["offered_bps"] is None
    assert trial.wall_s == end["sum"]["seconds"]


def test_udp_without_any_sum_is_odd(tmp_path: Path) -> None:
    document = json.loads((DATA / "iperf3-312-udp.json").read_text())
    document["end"].pop("sum")
    for name in ("a", "b"):
        (tmp_path / name).write_text(json.dumps(document))
    (tmp_path / "b").write_text((DATA / "iperf3-312-udp.json").read_text())
    done = import_files("iperf3", [tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert [oddity.what for oddity in done.oddities] == ["there is no end.sum"]


def _ab(tmp_path: Path, *changes: tuple[str, str]) -> dict[str, float | None]:
    text = (DATA / "apachebench.txt").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "ab.txt").write_text(text)
    (run,) = import_files("apachebench", [tmp_path / "ab.txt"], tmp_path / "out").runs
    (trial,) = run.read_trials().trials
    return trial.metrics


@pytest.mark.parametrize("printed", [None, "0.000"])
@pytest.mark.parametrize("name", ["apachebench.txt", "apachebench-lengths.txt"])
def test_the_rate_of_ab_is_the_one_that_it_prints(name: str, printed: str | None) -> None:
    """It prints the time in milliseconds, which may be one."""
    text = (DATA / name).read_text()
    rate = float(re.findall(r"Requests per second: +(\S+)", text)[0])
    if printed is not None:
        text = re.sub(r"(tests: +)[0-9.]+ s", rf"\g<1>{printed} s", text)
        text = re.sub(r"(per second: +)[0-9.]+", r"\g<1>480000.00", text)
        rate = 480000.0
    (record,) = KINDS["apachebench"](Text(name, text)).records
    assert record.metrics["requests_per_s"] == pytest.approx(rate)


def test_an_output_of_an_old_ab_is_read(tmp_path: Path) -> None:
    """Apache 1.3's called the slowest request the last one."""
    assert _ab(tmp_path, ("(longest request)", "(last request)"))["requests"] == 200


def test_an_answer_of_ab_that_failed_twice_counts_once(tmp_path: Path) -> None:
    both = ("Failed requests:        0", "Failed requests:        120\nNon-2xx responses:      120")
    metrics = _ab(tmp_path, both)
    assert metrics["failed_requests"] == 120
    assert metrics["requests"] == 200
    assert metrics["time_mean_us"] == pytest.approx(666.311, rel=1e-5)


def test_documents_of_ab_may_differ_in_length(tmp_path: Path) -> None:
    lengths = ("1000 bytes", "Variable"), ("transferred:       200000", "transferred:       300000")
    metrics = _ab(tmp_path, *lengths)
    assert metrics["transfer_rate_bytes_per_s"] == pytest.approx(1500.80 * 300_000 / 200)
