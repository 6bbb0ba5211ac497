from __future__ import annotations

import os
import platform
import re
import shutil
from pathlib import Path

import pytest

from osmef.supply.build import bundle_of_source
from osmef.supply.bundle import BundleKey, BundleStore, default_directory
from osmef.supply.program import Program, SourceCode, this_architecture
from tests.cli.conftest import Osmef
from tests.supply.test_bundle import GOOD


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> BundleStore:
    """The bundles of a user who has one for each of two architectures."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = BundleStore(default_directory())
    for architecture in ("x86_64", "aarch64"):
        store.obtain(BundleKey("bench", architecture, None), lambda: GOOD)
    return store


def test_bundles_are_listed(osmef: Osmef, store: BundleStore) -> None:
    ended = osmef("program", "list")
    assert ended.code == 0
    assert len(ended.out.splitlines()) == 2
    assert f"bench bundle  {platform.machine()}  this machine's" in ended.out
    path = min(store.directory.glob("*.tar.gz"))
    path.write_bytes(GOOD[:-1])
    assert "it is damaged" in osmef("program", "list").out
    listed = osmef("program", "list", "--json").json()
    assert [one["program"] for one in listed["programs"]] == ["bench"]
    assert listed["programs"][0]["pushed_bytes"] == len("programloaderdata")
    assert [one["path"] for one in listed["damaged"]] == [str(path)]


def test_a_script_is_listed(osmef: Osmef, store: BundleStore, tmp_path: Path) -> None:
    """Its file has a name of its own."""
    (tmp_path / "hello.py").write_text("print('hello')\n")
    source = SourceCode((("true",),), ("hello.py",), path=tmp_path, language="script")
    program = Program("hello", source=source, how=("build",))
    packed = bundle_of_source(program, this_architecture(), lambda _line: None, lambda: None)
    store.obtain(BundleKey("hello", this_architecture().name, None), lambda: packed)
    assert "hello build " in osmef("program", "list").out


def test_without_bundles_the_command_to_make_one_is_named(
    osmef: Osmef, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ended = osmef("program", "list")
    assert (ended.code, ended.out) == (0, "")
    assert "osmef program bundle iperf3" in ended.err
    assert osmef("program", "list", "--json").json() == {"programs": [], "damaged": []}


def test_bundles_of_every_architecture_are_removed_and_the_help_says_so(
    osmef: Osmef, store: BundleStore
) -> None:
    shown = osmef("program", "remove", "-h").out
    assert re.search(r"--arch.*Default: all", shown, re.DOTALL)
    assert len(osmef("program", "remove", "bench", "--json").json()["removed"]) == 2
    assert store.bundles() == []


def test_bundles_are_removed(osmef: Osmef, store: BundleStore) -> None:
    ended = osmef("program", "remove", "bench", "--arch", "aarch64")
    assert (ended.code, ended.out.count("removed bench_aarch64_")) == (0, 1)
    removed = osmef("program", "remove", "--all", "--json").json()["removed"]
    assert len(removed) == 1
    assert store.bundles() == []
    again = osmef("program", "remove", "bench")
    assert again.code == 2
    assert "there is no bundle of 'bench'" in again.err
    assert osmef("program", "remove", "--all").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("remove",), "no program is named to remove"),
        (("remove", "bench", "--all"), "both a program and --all are given"),
        (("bundle", "a b"), "can't be the name of a program"),
        (("bundle", "bench", "--package", "-y"), "is not the name of a package"),
        (("bundle", "bench", "--file", "x"), "no path of a file"),
        (("bundle", "bench", "--suite", "../x"), "not the name of a release"),
        (("build", "bench", "--source", "x"), "there are no build instructions for 'bench'"),
        (("build", "stream", "--source", "x", "--sha256", "zz"), "'zz' is no SHA-256"),
        (("build", "stream", "--source", "https://h/s.tar", "--sha256", ""), "'' is no SHA-256"),
        (("build", "stream", "--source", "https://h/s.tar"), "no SHA-256 of what is at its URL"),
    ],
)
def test_options_that_make_no_sense(osmef: Osmef, words: tuple[str, ...], message: str) -> None:
    ended = osmef("program", *words)
    assert ended.code == 2
    assert message in ended.err
    assert "cure:" in ended.err
    assert message in osmef("program", *words, "--json").json()["error"]["message"]


@pytest.mark.parametrize("words", [("bundle", "dbench"), ("build", "stream", "--source", "none")])
@pytest.mark.parametrize("output", [".", "scenario.yaml/x", "no/such/folder/x", "x" * 300])
def test_a_file_that_can_not_be_written_is_reported_first(
    osmef: Osmef, words: tuple[str, ...], output: str
) -> None:
    osmef.write("a: 1\n")
    ended = osmef("program", *words, "-o", output)
    assert ended.code == 4
    assert ended.err.startswith(f"error: {output}: can't write: ")
    assert [path.name for path in osmef.directory.iterdir()] == ["scenario.yaml"]


def test_an_unsupported_architecture_is_rejected(osmef: Osmef) -> None:
    ended = osmef("program", "bundle", "bench", "--arch", "vax")
    assert ended.code == 3
    assert "not for 'vax'" in ended.err


def test_without_apt_the_error_names_where_to_make_a_bundle(
    osmef: Osmef, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As on a controller that is no Debian."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        pytest.skip("only root can hide the apt-get of this machine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    hide = f'mount --bind /dev/null {Path(apt).resolve()} && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", hide, "sh")
    ended = osmef("program", "bundle", "bench", prefix=prefix)
    assert ended.code == 3
    assert "no apt-get on this machine" in ended.err
    assert "make the bundle on a Debian machine" in ended.err


@pytest.mark.real("programs")
def test_a_bundle_is_made_and_written(
    osmef: Osmef, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = osmef("program", "bundle", "dbench", "-o", "dbench.tar.gz")
    assert made.code == 0, made.err
    assert "fetching dbench and what it depends on" in made.err
    assert made.out.startswith("dbench 4.")
    printed = osmef("program", "bundle", "dbench", "-o", "again.tar.gz", "--json").json()
    assert printed["program"] == "dbench"
    first, second = (osmef.directory / name for name in ("dbench.tar.gz", "again.tar.gz"))
    assert first.read_bytes() == second.read_bytes()
