"""The archive of a campaign, on stores of all kinds; what was changed in it is refused."""

from __future__ import annotations

import filecmp
import gzip
import hashlib
import io
import json
import signal
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pandas as pd
import pyarrow.dataset
import pytest
from moto.server import ThreadedMotoServer

import osmef
from osmef.campaigns.archive import MANIFEST, export_campaign, import_archive
from osmef.campaigns.state import open_store
from osmef.campaigns.state.rows import Gap
from osmef.errors import InputError, StorageError
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Interval
from tests.campaigns.emulated import conduct
from tests.invoked import invoke
from tests.small_files import small_files

fsspec = pytest.importorskip("fsspec", reason="needs osmef[archive]")

FILE = """
name: short
scenarios: [pair.yaml]
start: 2026-03-21
weeks: 1
windows: [weekend-peak, weekend-offpeak]
"""
SCENARIO = "name: pair\nworkload: {duration: 1s}\nrepeat: 2\nsweep: {connections: [1, 8]}\n"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A campaign of four sessions, with a gap; the first has intervals."""
    place = tmp_path_factory.mktemp("short")
    (place / "pair.yaml").write_text(SCENARIO)
    (place / "short.yaml").write_text(FILE)
    conduct(place / "short.yaml", place / "state.sqlite", place / "short")
    store = open_store(f"sqlite:///{place / 'state.sqlite'}")
    times = (datetime(2026, 3, 21, 3, tzinfo=UTC), datetime(2026, 3, 21, 5, tzinfo=UTC))
    store.note_gap(store.campaign("short").id, Gap(*times, "the machine was off"))
    store.close()
    first = min(path for path in (place / "short").iterdir() if path.name != "things")
    with RunDirectory.open(first) as run:
        row = Interval(
            trial=1, endpoint="vm-1", role="sender", flow=0, start_s=0.0, length_s=1.0, bytes=9,
            retransmits=0, rtt_us=1.0, cwnd=10,
        )  # fmt: skip
        run.write_intervals(1, [row])
        run.finish()
    return f"sqlite:///{place / 'state.sqlite'}"


def original(state: str) -> Path:
    return Path(state.removeprefix("sqlite:///")).parent / "short"


@pytest.fixture
def memory() -> Iterator[str]:
    name = f"memory://{uuid.uuid4().hex}/short"
    yield name
    store, root = fsspec.core.url_to_fs(name)
    if store.exists(root):
        store.rm(root, recursive=True)


def assert_same(a: Path, b: Path) -> None:
    """Assert that two directories of runs hold the same files."""
    runs = sorted(path.name for path in a.iterdir() if (path / "journal.jsonl").exists())
    assert runs == sorted(path.name for path in b.iterdir() if path.is_dir())
    for run in runs:
        names = {str(p.relative_to(a / run)) for p in (a / run).rglob("*") if p.is_file()}
        assert names == {str(p.relative_to(b / run)) for p in (b / run).rglob("*") if p.is_file()}
        _same, wrong, missing = filecmp.cmpfiles(a / run, b / run, names, shallow=False)
        assert (wrong, missing) == ([], [])


def test_an_exported_campaign_is_imported_unchanged(
    state: str, memory: str, tmp_path: Path
) -> None:
    sent = export_campaign("short", state, memory)
    got = import_archive(memory, tmp_path / "back")
    assert sent == got
    assert sent.runs == 4
    assert_same(original(state), tmp_path / "back")
    a, b = osmef.load(original(state)), osmef.load(tmp_path / "back")
    pd.testing.assert_frame_equal(a, b)


def test_the_runs_of_done_sessions_that_no_longer_exist_are_reported(
    state: str, memory: str, tmp_path: Path
) -> None:
    lost = min(path for path in original(state).iterdir() if (path / "journal.jsonl").exists())
    lost.rename(tmp_path / "elsewhere")
    try:
        done = invoke("campaign", "export", "short", memory, "--state", state)
    finally:
        (tmp_path / "elsewhere").rename(lost)
    assert done.exit_code == 1
    assert "3 runs" in done.stdout
    assert f"1 session that is done has no run directory, such as {lost}" in done.stderr


def test_the_data_set_is_one_of_parquet(state: str, tmp_path: Path) -> None:
    url = (tmp_path / "archive").as_uri()
    export_campaign("short", state, url)
    place = tmp_path / "archive"
    trials = pd.read_parquet(place / "trials.parquet")
    frame = osmef.load(original(state))
    assert trials.columns.tolist() == frame.columns.tolist()
    assert trials["aggregate_btc_bps"].tolist() == frame["aggregate_btc_bps"].tolist()
    intervals = pyarrow.dataset.dataset(place / "intervals", partitioning="hive").to_table()
    assert intervals.column("run").unique().to_pylist() == [min(frame["run"])]
    calendar = pd.read_parquet(place / "sessions.parquet")
    assert calendar["state"].tolist() == ["done"] * 4
    assert calendar["opens"].dt.tz is not None
    schema = json.loads((place / "schema.json").read_text())
    assert {"name": "aggregate_btc_bps", "type": "double"} in schema["trials"]
    manifest = json.loads((place / MANIFEST).read_text())
    listed = {entry["path"] for entry in manifest["files"]}
    there = {str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()}
    assert there == {*listed, MANIFEST}


def test_the_same_campaign_makes_the_same_files(state: str, tmp_path: Path) -> None:
    hashes = []
    for name in ("one", "two"):
        export_campaign("short", state, (tmp_path / name).as_uri())
        manifest = json.loads((tmp_path / name / MANIFEST).read_text())
        hashes.append(manifest["files"])
    assert hashes[0] == hashes[1]


def test_a_flipped_byte_is_refused_wherever_it_is(state: str, tmp_path: Path) -> None:
    url = (tmp_path / "archive").as_uri()
    export_campaign("short", state, url)
    entries = json.loads((tmp_path / "archive" / MANIFEST).read_text())["files"]
    for number, entry in enumerate(entries):
        file = tmp_path / "archive" / entry["path"]
        good = file.read_bytes()
        at = len(good) // 2
        file.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        into = tmp_path / f"back-{number}"
        with pytest.raises(InputError, match="SHA-256") as caught:
            import_archive(url, into)
        assert entry["path"] in str(caught.value.where)
        assert not into.exists()
        file.write_bytes(good)


@pytest.mark.parametrize("gone", ["trials.parquet", "runs"])
def test_a_missing_archive_file_is_reported(state: str, tmp_path: Path, gone: str) -> None:
    url = (tmp_path / "archive").as_uri()
    export_campaign("short", state, url)
    victim = tmp_path / "archive" / gone
    (min(victim.iterdir()) if victim.is_dir() else victim).unlink()
    with pytest.raises(StorageError, match="can't read"):
        import_archive(url, tmp_path / "back")


def test_without_a_manifest_there_is_no_archive(state: str, memory: str, tmp_path: Path) -> None:
    export_campaign("short", state, memory)
    store, root = fsspec.core.url_to_fs(memory)
    store.rm(f"{root}/{MANIFEST}")
    with pytest.raises(InputError, match="it has no manifest"):
        import_archive(memory, tmp_path / "back")
    export_campaign("short", state, memory)  # an export that broke off is made again
    with pytest.raises(InputError, match="an archive already"):
        export_campaign("short", state, memory)


def test_a_manifest_can_not_write_elsewhere(state: str, tmp_path: Path) -> None:
    export_campaign("short", state, (tmp_path / "archive").as_uri())
    file = tmp_path / "archive" / MANIFEST
    manifest = json.loads(file.read_text())
    first = manifest["files"][0]
    for changed in (
        {"files": [{**first, "path": "../../evil"}]},
        {"files": [{**first, "path": "/evil"}]},
        {"runs": ["../evil"]},
    ):
        file.write_text(json.dumps({**manifest, **changed}))
        with pytest.raises(InputError, match="would go to"):
            import_archive((tmp_path / "archive").as_uri(), tmp_path / "back")


def _tar_of(name: str, **about: Any) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        for key, value in about.items():
            setattr(member, key, value)
        tar.addfile(member)
    return data.getvalue()


@pytest.mark.parametrize(
    "bad",
    [
        b"no tar",
        _tar_of("../evil"),
        _tar_of("/osmef-evil"),
        _tar_of("link", type=tarfile.SYMTYPE, linkname="/etc"),
        _tar_of("."),
        _tar_of("old", pax_headers={"mtime": "1e40"}),
        _tar_of("good")[:60],
        gzip.compress(b"x" * 2000),
    ],
    ids=["no-tar", "above", "elsewhere", "link", "itself", "no-time", "torn", "no-members"],
)
def test_a_run_that_is_no_good_tar_is_refused(state: str, tmp_path: Path, bad: bytes) -> None:
    """Also where the manifest knows its hash; the user's own directory stays."""
    export_campaign("short", state, (tmp_path / "archive").as_uri())
    file = tmp_path / "archive" / MANIFEST
    manifest = json.loads(file.read_text())
    entry = next(one for one in manifest["files"] if one["path"].startswith("runs/"))
    (tmp_path / "archive" / entry["path"]).write_bytes(bad)
    entry |= {"sha256": hashlib.sha256(bad).hexdigest(), "bytes": len(bad)}
    file.write_text(json.dumps(manifest))
    (tmp_path / "back").mkdir()
    with pytest.raises((InputError, StorageError), match=r"no run of an archive|can't unpack"):
        import_archive((tmp_path / "archive").as_uri(), tmp_path / "back")
    assert list((tmp_path / "back").iterdir()) == []
    assert not (tmp_path / "evil").exists()
    assert not Path("/osmef-evil").exists()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"archive_version": 2}'])
def test_an_unreadable_manifest_is_reported(text: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InputError, match="this manifest is damaged, or a newer OSMeF wrote it"):
        import_archive(tmp_path.as_uri(), tmp_path / "back")


def test_a_run_that_is_measured_is_waited_for(state: str, memory: str) -> None:
    first = min(path for path in original(state).iterdir() if path.name != "things")
    with RunDirectory.open(first) as run:
        run.acquire()
        with pytest.raises(InputError, match="still measured"):
            export_campaign("short", state, memory)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ftpx://a/b", "can't be opened"),
        ("s3://", "no bucket"),
        ("gdrive://a/b", "can't be opened|no library"),
    ],
)
def test_an_invalid_export_url_is_reported(state: str, url: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        export_campaign("short", state, url)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a server that speaks S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    told = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    name = f"archive-{uuid.uuid4().hex[:8]}"
    boto3.client("s3").create_bucket(Bucket=name)
    yield name
    server.stop()


def test_a_campaign_exported_to_s3_is_imported_unchanged(
    state: str, bucket: str, tmp_path: Path
) -> None:
    url = f"s3://{bucket}/deep/short"
    export_campaign("short", state, url)
    import_archive(url, tmp_path / "back")
    assert_same(original(state), tmp_path / "back")
    client = boto3.client("s3")
    keys = [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert sorted(keys) == sorted(
        f"deep/short/{entry['path']}"
        for entry in [
            *json.loads((tmp_path / "back" / MANIFEST).read_text())["files"],
            {"path": MANIFEST},
        ]
    )
    client.put_object(Bucket=bucket, Key="deep/short/trials.parquet", Body=b"PAR1")
    with pytest.raises(InputError, match="SHA-256"):
        import_archive(url, tmp_path / "again")
    with pytest.raises(StorageError, match="can't"):
        export_campaign("short", state, f"s3://{bucket}-that-is-not-there/short")


def test_a_full_disk_is_named_on_the_side_where_it_is(
    state: str, memory: str, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "campaign.yaml").symlink_to("/dev/full")
    with pytest.raises(StorageError, match="No space left") as full:
        export_campaign("short", state, there.as_uri())
    assert "free some space there" in str(full.value.cure)
    export_campaign("short", state, memory)
    here = tmp_path / "here"
    with small_files(100), pytest.raises(StorageError, match="can't write: File too large") as full:
        import_archive(memory, here)
    assert str(full.value.where).startswith(str(here))
    assert not here.exists()


def test_a_directory_in_use_is_left_alone(state: str, memory: str, tmp_path: Path) -> None:
    export_campaign("short", state, memory)
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(InputError, match="not empty"):
        import_archive(memory, tmp_path)
    assert (tmp_path / "mine").read_text() == "keep"


def test_an_imported_campaign_is_reported_with_its_calendar(
    state: str, memory: str, tmp_path: Path
) -> None:
    def run(*arguments: str | Path) -> str:
        result = invoke("campaign", *arguments)
        assert result.exit_code == 0, result.output
        return str(result.output)

    assert "4 runs" in run("export", "short", memory, "--state", state)
    assert "4 runs" in run("import", memory, tmp_path / "back")
    run("report", tmp_path / "back", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "4 of 4 done" in page
    assert "2026-03-21 03:00:00" in page
    assert "the machine was off" in page


# The kernel kills it when a file grows too large (setrlimit(2)).
IMPORT = """
import resource, signal, sys
from pathlib import Path
from osmef.campaigns.archive import import_archive
from tests.invoked import invoke
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
import_archive(sys.argv[1], Path(sys.argv[2]))
"""


def test_the_remains_of_a_killed_import_are_deleted_by_the_next_one(
    state: str, tmp_path: Path
) -> None:
    archive, into = tmp_path / "archive", tmp_path / "back"
    export_campaign("short", state, archive.as_uri())
    last = archive / json.loads((archive / MANIFEST).read_text())["files"][-1]["path"]
    good = last.read_bytes()
    last.write_bytes(bytes(2 << 20))
    code = [sys.executable, "-c", IMPORT, archive.as_uri(), str(into)]
    assert subprocess.run(code, check=False).returncode == -signal.SIGXFSZ
    (draft,) = into.iterdir()
    # One run was in its place already, and a file of the user's came since.
    run = json.loads((draft / MANIFEST).read_text())["runs"][0]
    (into / run).mkdir()
    (into / run / "lock").touch()
    (into / "notes.txt").touch()
    with pytest.raises(InputError, match="not empty"):
        import_archive(archive.as_uri(), into)
    assert [one.name for one in into.iterdir()] == ["notes.txt"]
    (into / "notes.txt").unlink()
    last.write_bytes(good)
    import_archive(archive.as_uri(), into)
    assert_same(original(state), into)
