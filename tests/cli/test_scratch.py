"""Whole runs of programs that write files: whatever ends them, none of the files stays."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Osmef
from tests.cli.machines import Lab
from tests.waiting import until

SCRIPT = "mkdir -p a/b && head -c 100000 /dev/zero >a/b/file && echo done && exec sleep {}"
HOSTS = "a: {ssh: node-a, interface: data0}\nb: {ssh: node-b, interface: data0}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "disk"
    found.mkdir()
    (found / "kept").touch()
    return found


def scenario(osmef: Osmef, directory: Path, seconds: float = 0, **more: Any) -> str:
    run = {
        "on": "both",
        "argv": ["sh", "-c", SCRIPT.format(seconds)],
        "directory": str(directory),
        "room": "1MB",
    }
    workload = {"kind": "program", "duration": "100ms", "deadline": "100s", "run": [run]}
    text = {"name": "scratch", "workload": workload, **more}
    return osmef.write(json.dumps(text), "scenario.json")


def static(osmef: Osmef) -> dict[str, Any]:
    osmef.write(HOSTS, "hosts.yaml")
    ends = {"sender": {"kind": "host"}, "receiver": {"kind": "host"}}
    return {"provider": {"kind": "static", "inventory": "hosts.yaml"}, "endpoints": ends}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def begin(osmef: Osmef, folder: Path, *prefix: str, **more: Any) -> Any:
    """Start a run, and wait until both ends have written."""
    process = osmef.start("run", scenario(osmef, folder, 60, **more), prefix=prefix)
    osmef.until(process, "measuring")
    until(lambda: len(list(folder.glob("*/a/b/file"))) == 2)
    return process


def test_a_run_leaves_nothing_behind_and_records_the_file_system(
    osmef: Osmef, folder: Path
) -> None:
    ended = osmef("run", scenario(osmef, folder))
    assert ended.code == 0, ended.err
    assert names(folder) == ["kept"]
    summary = osmef.summary
    for one in summary["endpoints"]:
        assert one["facts"]["before"]["file_systems"][str(folder)]["total_bytes"] > 0
    assert osmef("reap").out == "nothing left\n"


@pytest.mark.real("tools")
def test_a_run_directory_in_memory_is_warned_of_at_once_and_in_the_summary(
    osmef: Osmef, folder: Path
) -> None:
    if shutil.which("ioping") is None:
        pytest.skip("no ioping here (Debian: apt install ioping)")
    workload = {"kind": "ioping", "duration": "1s", "size": "1MiB", "direct": False}
    text = {"name": "x", "endpoints": {"loopback": {}}, "workload": workload, "repeat": 1}
    ended = osmef("run", osmef.write(json.dumps(text), "scenario.json"))
    assert ended.code == 0, ended.err
    told = "the directory of the run is in memory there (tmpfs): no disk is measured"
    assert f"note: loopback-h1-t1: {told}" in ended.err
    assert told in " ".join(ended.out.split())
    warnings = osmef.summary["run"]["warnings"]
    assert f"loopback-h1-t1: {told}" in warnings


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(osmef: Osmef, folder: Path, number: signal.Signals) -> None:
    process = begin(osmef, folder)
    osmef.interrupt(process, number)
    assert osmef.finish(process).code == 4
    assert names(folder) == ["kept"]
    assert osmef("reap").out == "nothing left\n"


def test_after_kill_9_reap_removes_what_is_left(osmef: Osmef, folder: Path) -> None:
    process = begin(osmef, folder)
    process.kill()
    process.wait()
    (folder / f".osmef-{osmef.run.name}+other+").mkdir(exist_ok=True)
    (folder / f".osmef-{osmef.run.name}-2+x+").mkdir()
    listed = osmef("reap", "--json").json()["left"]
    (scratch,) = (one for one in listed if one["kind"] == "scratch")
    assert scratch["name"] == f"{folder}/.osmef-{osmef.run.name}+*"
    ended = osmef("reap", "--yes")
    assert ended.code == 0, ended.err
    assert names(folder) == [f".osmef-{osmef.run.name}-2+x+", "kept"]
    assert osmef("reap").out == "nothing left\n"


def test_a_journal_can_not_have_other_things_removed(osmef: Osmef, folder: Path) -> None:
    process = begin(osmef, folder)
    process.kill()
    process.wait()
    journal = osmef.run / "journal.jsonl"
    journal.write_text(journal.read_text().replace("+*", "*"))
    ended = osmef("reap", "--yes")
    assert ended.code == 1
    assert "its kind, name or id is not one" in ended.err
    assert "kept" in names(folder)


def test_a_machine_whose_connection_is_lost_cleans_itself(
    osmef: Osmef, lab: Lab, folder: Path
) -> None:
    process = begin(osmef, folder, *lab.prefix, **static(osmef))
    process.kill()
    process.wait()
    until(lambda: names(folder) == ["kept"])
    until(lambda: lab.left() == [])
    assert osmef("reap", "--yes", prefix=lab.prefix).code == 0


def test_a_machine_that_went_down_is_cleaned_by_reap(osmef: Osmef, lab: Lab, folder: Path) -> None:
    process = begin(osmef, folder, *lab.prefix, **static(osmef))
    lab.switch_off("b")
    process.kill()
    process.wait()
    mine = f".osmef-{osmef.run.name}+host-2+1"
    (folder / mine / "deep").mkdir(parents=True)  # as if the power had failed
    other = f".osmef-{osmef.run.name}+host-3+1"
    (folder / other).mkdir()
    assert osmef("reap", "--yes", prefix=lab.prefix).code == 1
    assert mine in names(folder)
    with lab.switched_on("b"):
        ended = osmef("reap", "--yes", prefix=lab.prefix)
        assert ended.code == 0, ended.err
    assert names(folder) == [other, "kept"]
    assert lab.left() == []
