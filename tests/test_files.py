"""Only a regular file of a bounded size is read, whoever names it."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import osmef
from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.watching.web import read_token
from osmef.cli.plot import _read_names
from osmef.engine.journal import Journal
from osmef.errors import CredentialsError, InputError, OsmefError, StorageError
from osmef.files import UnfitFileError, open_file, read_file, read_text_file
from osmef.importers.record import read_texts
from osmef.prices.price_list import read_prices
from osmef.providers.openstack.servers import user_data_of
from osmef.remote.connection import offers_of
from osmef.remote.login import KeyPair, OwnKeys
from osmef.remote.ssh_config import known_keys, read_config
from osmef.report.data import read_table
from osmef.results.brief import brief_summary, brief_trials
from osmef.results.files import files_below
from osmef.results.rundir import RunDirectory
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.load import load, load_text
from tests.journals import read_notes

SMALL = 1 << 20


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def unix_socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
    return path


def sparse(path: Path) -> Path:
    with path.open("wb") as file:
        file.truncate(1 << 42)
    return path


def zero(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


ODD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "pipe": (pipe, "a named pipe"),
    "socket": (unix_socket, "a socket"),
    "zero": (zero, "a device"),
    "random": (lambda _path: Path("/dev/urandom"), "a device"),
    "terminal": (lambda _path: Path("/dev/ptmx"), "a device"),
    "sparse": (sparse, "larger than 1 MiB"),
    "NUL": (lambda _path: Path("a\0b"), "this is no path"),
    "surrogate": (lambda _path: Path("\ud800"), "this is no path"),
}


@pytest.fixture(params=ODD)
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    make, why = ODD[request.param]
    return make(tmp_path / "odd"), why


def test_an_unreadable_path_is_an_error_with_a_cure(odd: tuple[Path, str]) -> None:
    path, why = odd
    with pytest.raises(UnfitFileError, match=why) as caught:
        read_file(path, SMALL)
    assert caught.value.cure
    with pytest.raises(UnfitFileError, match=why):
        open_file(path, SMALL).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_files_that_may_not_be_seen_are_not_left_out_silently(tmp_path: Path) -> None:
    for name in ("trials.jsonl", "facts/b.json", "facts/a.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "facts/away").symlink_to("/nowhere")
    found = [path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path)]
    assert found == ["facts/a.json", "facts/b.json", "trials.jsonl"]
    for path in (tmp_path, *list(tmp_path.parents)[:-2]):
        path.chmod(path.stat().st_mode | 0o755)
    (tmp_path / "lost+found").mkdir(mode=0)
    (tmp_path / "facts").chmod(0)
    os.seteuid(65534)
    try:
        with pytest.raises(StorageError, match="Permission denied") as refused:
            list(read_texts([tmp_path]))
        assert refused.value.where == str(tmp_path / "facts")
    finally:
        os.seteuid(0)


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x\r\ny" * 1024)
    assert read_file(file, 4096) == file.read_bytes()
    assert read_text_file(file, 4096) == file.read_text()
    with open_file(file) as opened:
        assert opened.read() == file.read_bytes()
    with pytest.raises(UnfitFileError, match="larger than 3 KiB"):
        read_file(file, 4095)


def test_a_file_without_a_known_size_is_read_up_to_its_limit() -> None:
    endless = Path("/proc/self/maps")
    assert endless.stat().st_size == 0
    assert read_file(endless, SMALL)
    with pytest.raises(UnfitFileError, match="larger than 1 KiB"):
        read_file(endless, 1024)


def test_a_directory_is_no_file_and_the_null_device_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path, SMALL)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nowhere", SMALL)
    assert read_file(Path(os.devnull), SMALL) == b""


def test_a_file_that_is_replaced_by_a_pipe_meanwhile_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    regular = file.stat()
    file.unlink()
    os.mkfifo(file)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", lambda _path: regular)
        with pytest.raises(UnfitFileError, match="a named pipe"):
            read_file(file, SMALL)


def _import(path: Path) -> None:
    for found in read_texts([path]):
        if isinstance(found, InputError):
            raise found


def _identity(path: Path) -> None:
    with offers_of(OwnKeys((path,), others_of_agent=False), agent_s=1.0) as offers:
        if not offers.keys:
            raise CredentialsError(offers.unusable[0], cure="another one")


def _certificate(path: Path) -> None:
    key = path.with_name("key")
    key.write_text(KeyPair.generate("x").private)
    path.rename(path.with_name("key-cert.pub"))
    _identity(key)


def _inventory(path: Path) -> None:
    text = f"name: a\nprovider: {{kind: static, inventory: {json.dumps(str(path))}}}\n"
    load_text(text, path.parent / "a.yaml")


def _in_run(name: str, read: Callable[[RunDirectory], object]) -> Callable[[Path], None]:
    def act(path: Path) -> None:
        run = RunDirectory(path.parent)
        target = run.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        read(run)

    return act


READERS: dict[str, Callable[[Path], object]] = {
    "scenario": load,
    "inventory": _inventory,
    "prices": read_prices,
    "campaign": read_campaign,
    "known_hosts": lambda path: known_keys("host", files=[path]),
    "ssh_config": read_config,
    "identity": _identity,
    "certificate": _certificate,
    "import": _import,
    "archive": lambda path: _import(path.rename(path.with_suffix(".tar.gz"))),
    "table": read_table,
    "names": _read_names,
    "userdata": lambda path: user_data_of(
        OpenStackSettings.model_validate({"boot": {"image": "i"}, "userdata": str(path)}),
        KeyPair.generate("x"),
        None,
    ),
    "token": read_token,
    "summary.json": _in_run("summary.json", RunDirectory.read_summary),
    "brief summary": _in_run("summary.json", brief_summary),
    "trials.jsonl": _in_run("trials.jsonl", RunDirectory.read_trials),
    "brief trials": _in_run("trials.jsonl", lambda run: list(brief_trials(run))),
    "journal.jsonl": _in_run("journal.jsonl", lambda run: read_notes(Journal(run.journal))),
    "facts": _in_run("facts/before/vm-1.json", lambda run: run.read_facts("before", "vm-1")),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pipe", "zero"])
def test_every_named_path_is_read_only_if_it_is_a_regular_file(
    tmp_path: Path, name: str, kind: str
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    make, why = ODD[kind]
    with pytest.raises(OsmefError) as caught:
        READERS[name](make(folder / "odd"))
    assert why in str(caught.value)
    assert caught.value.cure or "cure" in str(caught.value)


def test_a_lock_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    assert not RunDirectory(tmp_path).is_live()


# Files of the system and of packages, and those that a build of OSMeF, an image or a program makes.
OTHERS = {
    "agent/client.py",
    "campaigns/archive.py",
    "campaigns/conductor/service.py",
    "campaigns/executors/dask/executor.py",
    "campaigns/executors/dask/worker.py",
    "campaigns/process_identity.py",
    "campaigns/watching/web.py",
    "engine/journal.py",
    "images/build.py",
    "providers/local/addresses.py",
    "providers/local/daemon.py",
    "providers/local/cloud.py",
    "providers/local/sandbox.py",
    "providers/local/requirements.py",
    "providers/openstack/network.py",
    "report/html/layout.py",
    "results/document.py",
    "supply/build.py",
    "supply/built.py",
    "supply/compiler.py",
    "supply/closure.py",
    "supply/debian.py",
    "supply/packaged.py",
}


def test_user_named_files_are_read_only_by_the_checked_functions() -> None:
    root = Path(osmef.__file__).parent
    reading = re.compile(r"\.read_(text|bytes)\(\)|\.read_text\((encoding|errors)|\.open\(\"rb?\"")
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if reading.search(path.read_text())
    }
    assert found <= OTHERS
