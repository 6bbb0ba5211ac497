"""Programs as workloads, in whole runs: on the local cloud, and on two machines by SSH."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from tests.cli.conftest import Osmef
from tests.cli.machines import Lab
from tests.processes import commands
from tests.waiting import until

LOCAL = """
name: programs
workload:
  kind: program
  duration: 200ms
  run:
    - on: receiver
      argv: [sh, -c, 'echo at {port}; exec sleep 60', -1]
      ready: {line: at}
      serves: true
    - {on: sender, argv: [sh, -c, 'echo "rate $0 MB/s to {port}"', 2.50]}
  metrics:
    rate: {pattern: rate (\\S+), unit: bit/s, written_in: MB/s, better: higher}
    their_port: {pattern: 'at ([0-9]+)', on: receiver}
    port: {pattern: 'to ([0-9]+)'}
repeat: 2
"""
HOSTS = "a: {ssh: node-a, interface: data0}\nb: {ssh: node-b, interface: data0}\n"
SLEEPS = """
name: sleeps
provider: {kind: static, inventory: hosts.yaml}
endpoints: {sender: {kind: host}, receiver: {kind: host}}
workload:
  kind: program
  duration: 60s
  run:
    - {on: both, argv: [sh, -c, 'setsid sleep 6543 & echo $! > mark; exec sleep 6543']}
repeat: 1
"""


def sleepers() -> list[int]:
    return [pid for pid, words in commands().items() if words[:2] == [b"sleep", b"6543"]]


def test_a_run_has_the_numbers_of_its_programs(
    osmef: Osmef, left_behind: Callable[[], list[str]]
) -> None:
    ended = osmef("run", osmef.write(LOCAL))
    assert ended.code == 0, ended.err
    summary = osmef.summary
    (cell,) = summary["cells"]
    assert cell["metrics"]["rate"]["median"] == pytest.approx(20e6)
    trials = osmef.trials
    for trial in trials:
        assert trial["metrics"]["port"] == trial["metrics"]["their_port"]
    (rate, *_) = summary["measures"]
    assert (rate["unit"], rate["better"], rate["leading"]) == ("bit/s", "higher", True)
    assert "20 Mbit/s" in osmef("show", str(osmef.run)).out
    raw = {path.name: path.read_text() for path in (osmef.run / "raw").iterdir()}
    assert len(raw) == 4
    assert raw["1-1-sender-h1-t1.stdout"].startswith("rate 2.50 MB/s to ")
    assert left_behind() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "run: [{on: sender, argv: [sh, -c, 'echo {nothing}']}]",
            "{nothing} is no known placeholder",
        ),
        ("run: [{on: sender, argv: sh}]", "workload.run.0.argv must be a list"),
        ("run: [{on: nowhere, argv: [sh]}]", "workload.run.0.on can't be 'nowhere'"),
        ("run: [{on: loopback, argv: [sh]}]", "on: loopback is for a loopback endpoint"),
        ("run: [{on: sender, argv: [x]}]\n  metrics: {a: {patern: x}}", "did you mean 'pattern'"),
        ("run: [{on: sender, argv: [x]}]\n  metrics: {a: {unit: s}}", "write pattern, or json"),
    ],
)
def test_an_error_in_a_workload_is_reported_with_its_position(
    osmef: Osmef, text: str, said: str
) -> None:
    name = osmef.write(f"name: x\nworkload:\n  kind: program\n  {text}\n")
    ended = osmef("validate", name)
    assert ended.code == 2
    assert "scenario.yaml:4:" in ended.err or "scenario.yaml:5:" in ended.err
    assert said in ended.err


def test_ctrl_c_leaves_no_program_on_a_machine(osmef: Osmef, lab: Lab) -> None:
    osmef.write(HOSTS, "hosts.yaml")
    process = osmef.start("run", osmef.write(SLEEPS), prefix=lab.prefix)
    until(lambda: len(sleepers()) == 4)
    osmef.interrupt(process, signal.SIGINT)
    ended = osmef.finish(process)
    assert ended.code == 4, ended.err
    assert sleepers() == []
    assert lab.left() == []


def test_kill_9_leaves_no_program_on_a_machine(osmef: Osmef, lab: Lab) -> None:
    osmef.write(HOSTS, "hosts.yaml")
    process = osmef.start("run", osmef.write(SLEEPS), prefix=lab.prefix)
    until(lambda: len(sleepers()) == 4)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: sleepers() == [])
    until(lambda: lab.left() == [])
    assert osmef("reap", "--yes", prefix=lab.prefix).code == 0


def test_an_unavailable_program_ends_the_run_before_its_first_trial(
    osmef: Osmef, left_behind: Callable[[], list[str]]
) -> None:
    name = osmef.write(LOCAL.replace("  metrics:", "  needs: [no-such-program-at-all]\n  metrics:"))
    planned = osmef("plan", name, "--json")
    assert "no-such-program-at-all: " in planned.json()["needs"][0]
    ended = osmef("run", name)
    assert ended.code == 3, ended.err
    assert "no-such-program-at-all" in ended.err
    assert not (osmef.run / "trials.jsonl").exists()
    assert left_behind() == []


def test_an_installed_program_is_used_and_recorded(osmef: Osmef) -> None:
    ended = osmef("run", osmef.write(LOCAL.replace("  metrics:", "  needs: [sh]\n  metrics:")))
    assert ended.code == 0, ended.err
    facts = json.loads((osmef.run / "facts/00000/sender-h1-t1.json").read_text())
    assert facts["programs"]["sh"]["how"] == "present"
