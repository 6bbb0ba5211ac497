"""What an agent removes when the connection ends, whatever has become of the controller."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.agents.lab import TIMEOUT_S

TARGET = "osmef/run/host-1/1/2"


class Home:
    """A login's home with an agent and a lock in it."""

    def __init__(self, folder: Path, binary: Path) -> None:
        self.folder = folder
        self.directory = folder / ".osmef-run-host-1"
        self.lock = folder / "lock"
        self.lock.symlink_to(TARGET)
        self._binary = binary
        self.deploy()

    def deploy(self) -> None:
        """Put the agent into its directory, as a new file."""
        self.directory.mkdir(exist_ok=True)
        agent = self.directory / "osmef-agent"
        agent.unlink(missing_ok=True)
        shutil.copy(self._binary, agent)

    @contextmanager
    def connected(self, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        """Have the agent wait for the end of a connection, which ends with the context."""
        name = self.directory.name
        argv = [f"./{name}/osmef-agent", "cleanup", name, *more]
        with subprocess.Popen(argv, cwd=self.folder, stdin=subprocess.PIPE) as process:
            try:
                yield process
                assert process.stdin is not None
                process.stdin.close()
                process.wait(TIMEOUT_S)
            finally:
                process.kill()

    @property
    def has_lock(self) -> bool:
        return self.lock.is_symlink()


@pytest.fixture
def home(tmp_path: Path, binary: Path) -> Home:
    return Home(tmp_path, binary)


def test_the_end_of_the_connection_removes_all_of_the_run(home: Home) -> None:
    outside = home.folder / "outside"
    outside.mkdir()
    (outside / "file").touch()
    with home.connected(str(home.lock), TARGET) as process:
        deep = home.directory / "a" / "b" / "c"
        deep.mkdir(parents=True)
        (deep / "data").write_bytes(b"x" * 100_000)
        (deep / "link").symlink_to(outside)
        home.directory.chmod(0o500)
        assert process.poll() is None
        assert home.directory.exists()
        home.directory.chmod(0o700)
    assert process.returncode == 0
    assert sorted(one.name for one in home.folder.iterdir()) == ["outside"]
    assert (outside / "file").exists(), "nothing is removed through a link"


def test_the_lock_is_kept_on_request(home: Home) -> None:
    with home.connected(str(home.lock), TARGET) as process:
        assert process.stdin is not None
        process.stdin.write(b"keep the lock\n")
    assert (process.returncode, home.directory.exists(), home.has_lock) == (0, False, True)


@pytest.mark.parametrize("target", ["osmef/other/host-1/1/2", TARGET + "1", TARGET[:-1], "x"])
def test_a_lock_of_another_run_stays(home: Home, target: str) -> None:
    with home.connected(str(home.lock), target) as process:
        pass
    assert (process.returncode, home.directory.exists(), home.has_lock) == (0, False, True)


def test_a_file_in_the_place_of_the_lock_stays(home: Home) -> None:
    home.lock.unlink()
    home.lock.write_text(TARGET)
    with home.connected(str(home.lock), TARGET):
        pass
    assert home.lock.read_text() == TARGET


def test_a_directory_redeployed_meanwhile_is_kept(home: Home) -> None:
    with home.connected(str(home.lock), TARGET) as process:
        home.deploy()
    assert (process.returncode, home.has_lock) == (0, True)
    assert (home.directory / "osmef-agent").exists()


def test_a_directory_that_is_gone_is_no_error(home: Home) -> None:
    with home.connected(str(home.lock), TARGET) as process:
        shutil.rmtree(home.directory)
    assert (process.returncode, home.has_lock) == (0, True), "the controller gives it back"


def test_a_program_that_still_writes_is_waited_for(home: Home) -> None:
    ended = threading.Event()

    def write() -> None:
        for number in range(3000):
            with suppress(FileNotFoundError):
                (home.directory / f"{number}").touch()
            if ended.wait(0.0001):
                return

    writer = threading.Thread(target=write)
    try:
        with home.connected() as process:
            writer.start()
    finally:
        ended.set()
        writer.join()
    assert process.returncode == 0
    assert not home.directory.exists()


@pytest.mark.parametrize("words", [[], ["a", "b"], ["a", "b", "c", "d"]])
def test_wrong_usage_is_reported(binary: Path, words: list[str]) -> None:
    done = subprocess.run([binary, "cleanup", *words], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"Usage: osmef-agent cleanup DIRECTORY")
