"""Tools on the controller: bounded in time and output, and killed whole."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from osmef.errors import Interrupted, SupplyError
from osmef.supply.compiler import ToolRunner
from tests.waiting import until


def tool(directory: Path, **more: object) -> ToolRunner:
    return ToolRunner("a test", dict(os.environ), directory, **more)  # type: ignore[arg-type]


def test_the_output_of_a_tool_is_returned(tmp_path: Path) -> None:
    assert tool(tmp_path).run(["sh", "-c", "pwd; echo error >&2"]) == f"{tmp_path}\nerror\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sh", "-c", "echo why; exit 3"], r"sh failed \(exit status 3\):\nwhy"),
        (["sh", "-c", "kill -9 $$"], r"sh failed \(killed by SIGKILL\)"),
        (["sh", "-c", "seq 1000; exit 1"], r":\n986\n"),
        (["sh", "-c", "seq 1000; echo E: this; exit 1"], r":\nE: this"),
        (["/no/such/tool"], "tool can't be started: No such file"),
        (["sh", "-c", "sleep 60"], "sh is not done after 500 ms"),
        (["sh", "-c", "exec >/dev/null 2>&1; sleep 60"], "sh is not done after 500 ms"),
        (["yes"], "yes printed more than 1 MiB"),
    ],
)
def test_a_failed_tool_is_reported_with_its_output(
    tmp_path: Path, argv: list[str], message: str
) -> None:
    most_s = 0.5 if "sleep" in argv[-1] else 60.0
    with pytest.raises(SupplyError, match=message) as caught:
        tool(tmp_path, most_s=most_s, most_bytes=1 << 20).run(argv)
    assert caught.value.where == "a test"
    assert caught.value.cure


def test_child_processes_of_a_tool_end_with_it(tmp_path: Path) -> None:
    def stop() -> None:
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        tool(tmp_path, check=stop).run(["sh", "-c", "sleep 60 & echo $! >pid; wait"])
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not _lives(pid))


def test_a_daemon_left_by_a_tool_is_killed_and_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    tool(tmp_path).run(["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $! >pid"])
    assert time.monotonic() - began < 30
    until(lambda: not _lives(int((tmp_path / "pid").read_text())))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
