"""What workers of the tests have for themselves, and what they leave when they are ended."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running.isolation import WORKER, why_not

ROOT = Path(__file__).parents[2]
SLEEPER = """
import os, signal, subprocess, tempfile
from pathlib import Path


def test_that_leaves_much_behind():
    folder = tempfile.mkdtemp()
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path({told!r}).write_text(folder)
    print("ready", file=open({ready!r}, "w"), flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def possible(tmp_path: Path) -> None:
    reason = why_not(tmp_path)
    if reason is not None:
        pytest.skip(f"no namespaces here: {reason}")


def inside(tmp_path: Path, script: str) -> str:
    command = [WORKER, str(tmp_path / "home"), "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_worker_is_isolated_from_processes_files_and_network(tmp_path: Path) -> None:
    assert inside(tmp_path, "echo $TMPDIR").strip() == str(tmp_path / "home")
    assert len(inside(tmp_path, "cd /proc && echo [0-9]*").split()) <= 3
    assert set(inside(tmp_path, "ls /run").split()) == {"lock", "sshd"}
    assert inside(tmp_path, "cat /proc/net/dev").count(":") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_tests_that_are_ended_leave_no_process_and_no_folder(
    number: signal.Signals, tmp_path: Path
) -> None:
    """A kill leaves folders, which no program can help."""
    told, ready = tmp_path / "told", tmp_path / "ready"
    os.mkfifo(ready)
    test = tmp_path / "test_sleeper.py"
    test.write_text(SLEEPER.format(told=str(told), ready=str(ready)))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.running.isolation"]\n')
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", str(test)]
    command += ["--basetemp", str(tmp_path / "base")]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, start_new_session=True
    )
    with ready.open() as line:
        assert line.read() == "ready\n"
    descendants = {pid for pid in _processes() if _is_below(pid, process.pid)} - {process.pid}
    assert len(descendants) >= 3
    process.send_signal(number)
    process.wait(timeout=60)
    for pid in descendants:
        _await_end(pid)
    if number != signal.SIGKILL:
        assert not Path(told.read_text()).parent.exists()


def _processes() -> list[int]:
    return [int(one.name) for one in Path("/proc").glob("[0-9]*")]


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def _is_below(pid: int, ancestor: int) -> bool:
    while pid not in {0, ancestor}:
        pid = _parent(pid)
    return pid == ancestor


def _await_end(pid: int) -> None:
    """Wait until a process has ended; it may be nobody's child any more."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(30_000), f"{pid} lives: {Path(f'/proc/{pid}/cmdline').read_text()}"
    finally:
        os.close(descriptor)
