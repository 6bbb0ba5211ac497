"""Who can hold the lock of a run directory, and who is in whose way."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from osmef.errors import StorageError
from osmef.results import files
from osmef.results.rundir import RunDirectory

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")

STRANGER = """
import fcntl, os, struct, sys
os.setgid(65534), os.setuid(65534)
try:
    file = os.open(sys.argv[1], os.O_RDONLY)
    if sys.argv[2] == "flock":
        fcntl.flock(file, fcntl.LOCK_EX)
    else:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0))
    print("held", flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
sys.stdin.read()
"""
PROBER = """
import pathlib, sys, threading
from osmef.results.rundir import RunDirectory
run, over = RunDirectory(pathlib.Path(sys.argv[1])), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set())).start()
print("probing", flush=True)
looks = 0
while not over.is_set():
    run.is_live()
    looks += 1
print(looks)
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python programs that end with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str, *arguments: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", code, *arguments]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, cwd=Path.cwd()))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    for path in (tmp_path, *tmp_path.parents[:-2]):
        path.chmod(path.stat().st_mode | 0o755)  # others may look into it
    with RunDirectory.create(tmp_path, "pair", "name: pair\n", ".yaml") as made:
        made.close()
        yield made


def older(run: RunDirectory) -> Path:
    """Make the lock as older versions did: for all to read."""
    path = run.path / "lock"
    path.chmod(0o644)
    return path


@as_root
@pytest.mark.parametrize("how", ["flock", "read lock"])
def test_a_user_with_read_access_cannot_hold_the_lock(
    run: RunDirectory, start: Start, how: str
) -> None:
    assert said(start(STRANGER, str(run.path / "lock"), how)) == "PermissionError"
    assert said(start(STRANGER, str(run.path / "scenario.yaml"), how)) == "held"
    run.acquire()


@as_root
def test_a_foreign_flock_on_the_lock_of_an_older_run_does_not_block(
    run: RunDirectory, start: Start
) -> None:
    assert said(start(STRANGER, str(older(run)), "flock")) == "held"
    assert run.is_live() is False
    run.acquire()
    assert run.is_live()
    assert stat.S_IMODE((run.path / "lock").stat().st_mode) == 0o600


@as_root
def test_a_foreign_read_lock_on_the_lock_of_an_older_run_is_reported_as_such(
    run: RunDirectory, start: Start
) -> None:
    assert said(start(STRANGER, str(older(run)), "read lock")) == "held"
    assert run.is_live() is False
    with pytest.raises(StorageError, match="not osmef holds a read lock") as caught:
        run.acquire()
    assert "remove the file" in str(caught.value.cure)
    (run.path / "lock").unlink()
    run.acquire()


@pytest.mark.parametrize(
    ("directory", "expected"), [(0o755, 0o600), (0o775, 0o660), (0o700, 0o600)]
)
def test_a_user_with_write_access_can_hold_the_lock(
    tmp_path: Path, directory: int, expected: int
) -> None:
    tmp_path.chmod(directory)
    with RunDirectory(tmp_path) as run:
        run.acquire()
        assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == expected


def test_checking_whether_a_run_is_live_does_not_block_its_lock(
    run: RunDirectory, start: Start
) -> None:
    """As `osmef reap` on a timer, again and again, while a run is taken up."""
    probers = [start(PROBER, str(run.path)) for _ in range(2)]
    assert [said(prober) for prober in probers] == ["probing", "probing"]
    for _ in range(3000):
        run.acquire()
        run.close()
    looks = [int(prober.communicate()[0]) for prober in probers]
    assert min(looks) > 100


def test_checking_the_lock_in_the_same_process_does_not_release_it(run: RunDirectory) -> None:
    """Other locks of fcntl(2) are gone when their process closes any file of the same name."""
    run.acquire()
    assert run.is_live()
    assert RunDirectory(run.path).is_live()
    with pytest.raises(StorageError, match="another osmef process is working on this run"):
        RunDirectory(run.path).acquire()
    assert run.is_live()


def test_a_forked_child_neither_keeps_nor_loses_the_lock(run: RunDirectory) -> None:
    run.acquire()
    told, tell = os.pipe()
    end, go = os.pipe()
    child = os.fork()
    if child == 0:
        run.close()  # as when it leaves a context that it was forked in
        os.write(tell, b"closed")
        os.close(go)
        os.read(end, 1)
        os._exit(0)
    assert os.read(told, 6) == b"closed"
    try:
        assert run.is_live()
    finally:
        os.close(go)
        os.waitpid(child, 0)
    assert run.is_live()


def test_a_lock_that_is_given_back_is_free_while_a_forked_child_lives(run: RunDirectory) -> None:
    run.acquire()
    end, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.read(end, 1)
        os._exit(0)
    try:
        run.close()
        assert run.is_live() is False
        run.acquire()
    finally:
        os.close(go)
        os.waitpid(child, 0)


@pytest.mark.parametrize("what", ["pipe", "link", "directory"])
def test_a_lock_that_is_no_regular_file_is_rejected(
    run: RunDirectory, what: str, tmp_path: Path
) -> None:
    path = run.path / "lock"
    path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.mkdir()
    with pytest.raises(StorageError, match="lock"):
        run.acquire()
    assert not (tmp_path / "elsewhere").exists()
    if what == "link":
        with pytest.raises(StorageError, match="lock"):
            run.is_live()
    else:
        assert run.is_live() is False


def test_an_older_version_s_lock_is_seen(run: RunDirectory) -> None:
    path = older(run)
    assert not files.is_held_by_older(run.path)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert files.is_held_by_older(run.path)
    assert not files.is_held_by_older(run.path)
    assert not files.is_held_by_older(run.path / "nowhere")


def test_the_kernel_s_struct_is_what_it_is_taken_for() -> None:
    assert struct.calcsize(files._FLOCK) == 32
