"""Bundles that are kept: made once, checked each time, made again where they are damaged."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from osmef.errors import Interrupted, StorageError, SupplyError
from osmef.supply.bundle import BundleKey, BundleStore, default_directory
from tests.supply.test_bundle import CONTENTS, GOOD

WANTED = BundleKey("bench", "x86_64", {"packages": ["bench"]})


class Maker:
    """Makes the bundle, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> bytes:
        self.count += 1
        return GOOD


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, told: list[str]) -> BundleStore:
    return BundleStore(tmp_path / "programs", told.append)


def kept(store: BundleStore) -> Path:
    (path,) = store.directory.glob("*.tar.gz")
    return path


def test_a_bundle_is_made_once_and_again_on_request(store: BundleStore) -> None:
    make = Maker()
    assert not store.has(WANTED)
    for _ in range(2):
        assert store.obtain(WANTED, make).contents == CONTENTS
    assert make.count == 1
    assert store.has(WANTED)
    store.obtain(WANTED, make, again=True)
    assert make.count == 2
    assert kept(store).stat().st_mode & 0o777 == 0o600
    assert store.directory.stat().st_mode & 0o777 == 0o700


def test_bundles_of_different_inputs_are_stored_separately(store: BundleStore) -> None:
    make = Maker()
    for wanted in (
        WANTED,
        replace(WANTED, architecture="aarch64"),
        replace(WANTED, made_of={"packages": ["bench"], "suite": "trixie"}),
    ):
        store.obtain(wanted, make)
    assert make.count == 3
    assert len(store.bundles()) == 3


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def change(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [cut, change])
def test_a_damaged_bundle_is_made_again_with_a_note(
    store: BundleStore, told: list[str], damage: Callable[[Path], None]
) -> None:
    make = Maker()
    store.obtain(WANTED, make)
    damage(kept(store))
    (one,) = store.bundles()
    assert one.bundle is None
    assert "not what was written" in one.damage
    assert store.obtain(WANTED, make).contents == CONTENTS
    assert make.count == 2
    assert "it is made again" in told[0]
    assert kept(store).read_bytes() == GOOD


def test_a_failed_bundle_leaves_nothing(store: BundleStore) -> None:
    def fail() -> bytes:
        raise SupplyError("no such package")

    with pytest.raises(SupplyError):
        store.obtain(WANTED, fail)
    assert [path.name for path in store.directory.iterdir()] == [".lock"]


def test_concurrent_builds_of_one_bundle_wait_for_each_other(
    store: BundleStore, told: list[str]
) -> None:
    began, go_on = threading.Event(), threading.Event()
    make = Maker()

    def slowly() -> bytes:
        began.set()
        go_on.wait(30)
        return make()

    def stop() -> None:
        go_on.set()

    first = threading.Thread(target=store.obtain, args=[WANTED, slowly])
    first.start()
    began.wait(30)
    second = replace(store, check=stop)
    assert second.obtain(WANTED, make).contents == CONTENTS
    first.join()
    assert make.count == 1
    assert told == ["waiting until another bundle is made"]


def test_a_wait_can_be_stopped(store: BundleStore) -> None:
    began, go_on = threading.Event(), threading.Event()

    def slowly() -> bytes:
        began.set()
        go_on.wait(30)
        return GOOD

    def stop() -> None:
        raise Interrupted("stopped by SIGINT")

    first = threading.Thread(target=store.obtain, args=[WANTED, slowly])
    first.start()
    began.wait(30)
    with pytest.raises(Interrupted):
        replace(store, check=stop).obtain(WANTED, Maker())
    go_on.set()
    first.join()


def test_a_killed_bundle_build_does_not_block_the_next(store: BundleStore) -> None:
    code = """
import os, sys, signal
from pathlib import Path
from osmef.supply.bundle import BundleStore
from tests.supply.test_store import WANTED
BundleStore(Path(sys.argv[1])).obtain(WANTED, lambda: os.kill(os.getpid(), signal.SIGKILL))
"""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(store.directory)],
        env=environment, cwd=root, check=False, capture_output=True,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr
    assert store.obtain(WANTED, Maker()).contents == CONTENTS


def test_bundles_are_removed_by_program_and_architecture(store: BundleStore) -> None:
    assert store.remove(None) == []
    for wanted in (WANTED, replace(WANTED, architecture="armv7l"), replace(WANTED, program="a_b")):
        store.obtain(wanted, Maker())
    (store.directory / "notes.txt").touch()
    assert len(store.remove("bench", "armv7l")) == 1
    assert len(store.remove("bench")) == 1
    assert store.remove("bench") == []
    assert [(one.program, one.architecture) for one in store.bundles()] == [("a_b", "x86_64")]
    assert len(store.remove(None)) == 1
    assert (store.directory / "notes.txt").exists()


def test_a_place_that_can_t_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="can't keep a bundle"):
        BundleStore(tmp_path / "file").obtain(WANTED, Maker())


def test_they_are_kept_where_caches_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "osmef/programs"
