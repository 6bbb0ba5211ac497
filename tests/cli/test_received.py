"""What came from somebody else, a scenario or a run directory, runs nothing on this machine."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from osmef.engine.journal import Journal
from osmef.engine.plan import make_plan
from osmef.engine.recovery import note_plan
from osmef.providers.base import Resource
from osmef.results.rundir import RunDirectory
from osmef.scenario.load import load
from tests.cli.conftest import ROOT, Ended
from tests.invoked import invoke

RUN = "lab-20260101T000000Z-abcd"

WAYS: list[Callable[[Path], str]] = [
    lambda program: f"qemu+ssh://lab/system?command={program}",
    lambda program: f"qemu+ssh://lab/system?COMMAND={program}",
    lambda program: f"qemu+ssh://lab/system?%63ommand={program}",
    lambda program: f"qemu+ssh://lab/system?mode=auto;command={program}",
    lambda program: f"qemu+ext:///system?command={program}",
]
NAMES = ["command", "upper case", "escaped", "semicolon", "ext"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that leaves a file beside it when it runs."""
    found = tmp_path / "program"
    found.write_text('#!/bin/sh\ntouch "$0.ran"\n')
    found.chmod(0o755)
    return found


def ran(program: Path) -> bool:
    return program.with_name("program.ran").exists()


def osmef(*arguments: object) -> Ended:
    done = invoke(*arguments)
    return Ended(done.exit_code, done.output, done.stderr)


def received(out: Path, *resources: Resource) -> Path:
    """Make the directory of a run that has made these, as it comes from elsewhere."""
    scenario = out.parent / "scenario.yaml"
    scenario.write_text("name: lab\n")
    study = load(scenario)
    directory = RunDirectory.create_at(out / RUN, study.text, ".yaml")
    note_plan(directory, make_plan(study, 1))
    for resource in resources:
        Journal(directory.journal).intend(resource)
    directory.close()
    return directory.path


def guest(uri: str, run: str = RUN) -> Resource:
    return Resource("libvirt", "domain", f"osmef-{run}-vm-1", run, access={"uri": uri})


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_no_scenario_runs_a_program(
    tmp_path: Path, program: Path, command: str, way: Callable[[Path], str]
) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(bytes(512))
    provider = {"kind": "libvirt", "uri": way(program), "image": str(disk)}
    scenario = tmp_path / "lab.json"
    scenario.write_text(json.dumps({"name": "lab", "placement": "any", "provider": provider}))
    ended = osmef(command, scenario)
    assert not ran(program)
    assert ended.code == 2
    assert f"{scenario}:1:" in ended.out.replace("\n", "")
    assert "cure" in ended.out


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_no_journal_runs_a_program(
    tmp_path: Path, program: Path, way: Callable[[Path], str]
) -> None:
    run = received(tmp_path / "results", guest(way(program)))
    ended = osmef("resume", run)
    assert not ran(program)
    assert ended.code == 2
    assert "the access to libvirt is invalid: uri" in ended.out.replace("\n", " ")
    ended = osmef("reap", "--out", run.parent, "--yes")
    assert not ran(program)
    assert ended.code == 1
    assert "the access to libvirt is invalid: uri" in ended.out.replace("\n", " ")
    ended = osmef("reap", "--out", run.parent, "--provider", "libvirt", "--yes", "--other-runs")
    assert not ran(program)
    assert ended.code == 1


def test_a_search_by_mark_takes_no_way_of_a_journal_that_runs_a_program(
    tmp_path: Path, program: Path
) -> None:
    """Also where what was there is noted as gone: reap looks there for what no journal knows."""
    bad = guest(f"qemu+ssh://lab/system?command={program}")
    run = received(tmp_path / "results", bad)
    Journal(run / "journal.jsonl").destroyed(bad)
    ended = osmef("reap", "--out", run.parent, "--provider", "libvirt", "--yes")
    assert not ran(program)
    assert "is invalid" in ended.out.replace("\n", " ")


def test_reap_rejects_a_libvirt_uri_that_runs_a_command(program: Path) -> None:
    uri = f"qemu+ssh://lab/system?command={program}"
    ended = osmef("reap", "--provider", "libvirt", "--uri", uri)
    assert not ran(program)
    assert ended.code == 2
    assert "--uri" in ended.out


def sandbox(run: str) -> Resource:
    return Resource("local", "sandbox", f"osmef-{run}", run, "pid:1:1")


def test_resources_of_another_run_are_not_destroyed_without_permission(tmp_path: Path) -> None:
    run = received(tmp_path / "results", sandbox(RUN), sandbox("another"))
    journal = Journal(run / "journal.jsonl")
    assert osmef("resume", run).code == 2
    assert len(journal.existing()) == 2
    ended = osmef("reap", "--out", run.parent, "--yes")  # without a terminal
    told = " ".join(ended.out.split())
    assert ended.code == 1
    assert f"of run another, as the journal of {RUN} says" in told
    assert "osmef-another belongs to the run another, and this directory to" in told
    assert "--other-runs" in told
    assert [one.run for one in journal.existing()] == ["another"]
    left = json.loads(osmef("reap", "--out", run.parent, "--yes", "--json").out)["left"]
    assert [(one["run"], one["error"]["kind"]) for one in left] == [("another", "input")]
    assert osmef("reap", "--out", run.parent, "--yes", "--other-runs").code == 0
    assert journal.existing() == []


@pytest.mark.parametrize(
    ("answers", "code", "left"), [("y\nn\n", 1, ["another"]), ("y\ny\n", 0, [])]
)
def test_at_a_terminal_it_is_asked_for(
    tmp_path: Path, answers: str, code: int, left: list[str]
) -> None:
    run = received(tmp_path / "results", sandbox("another"))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "osmef", "reap", "--out", run.parent],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(theirs)
    os.write(ours, answers.encode())
    try:
        _out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(ours)
    assert "1 of these are of other runs" in err
    assert process.returncode == code, err
    assert [one.run for one in Journal(run / "journal.jsonl").existing()] == left
