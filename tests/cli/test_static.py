"""Whole runs on two machines: sshds in network namespaces, one of them behind the other."""

from __future__ import annotations

import json
import signal

import pytest

from tests.cli.conftest import Osmef
from tests.cli.machines import Lab

SCENARIO = """
name: two-machines
provider: {{kind: static, inventory: hosts.yaml}}
endpoints: {{sender: {{kind: host}}, receiver: {{kind: host}}}}
workload: {{kind: btc, duration: {duration}, interval: 100ms}}
sweep: {{family: [ipv4, ipv6]}}
repeat: 2
"""
HOSTS = (
    "a: {ssh: node-a, interface: data0, location: {zone: room-1}}\n"
    "b: {ssh: node-b, interface: data0}\n"
)


def scenario(osmef: Osmef, duration: str = "300ms", hosts: str = HOSTS) -> str:
    osmef.write(hosts, "hosts.yaml")
    return osmef.write(SCENARIO.format(duration=duration))


def test_a_run_measures_between_two_machines_and_leaves_nothing(osmef: Osmef, lab: Lab) -> None:
    ended = osmef("run", scenario(osmef), prefix=lab.prefix)
    assert ended.code == 0, ended.err
    summary = json.loads((osmef.run / "summary.json").read_text())
    assert [cell["n_ok"] for cell in summary["cells"]] == [2, 2]
    places = {one["name"]: one["achieved"] for one in summary["endpoints"]}
    assert {name: (p["host"], p["zone"]) for name, p in places.items()} == {
        "host-1": ("a", "room-1"),
        "host-2": ("b", None),
    }
    assert lab.left() == []
    assert "PRIVATE" not in (osmef.run / "journal.jsonl").read_text()
    assert osmef("reap", prefix=lab.prefix).code == 0


def test_after_kill_9_reap_cleans_the_machines_by_ssh(osmef: Osmef, lab: Lab) -> None:
    process = osmef.start("run", scenario(osmef, "30s"), prefix=lab.prefix)
    osmef.until(process, "measuring")
    assert len(lab.left()) == 4
    busy = osmef("run", scenario(osmef), "--out", "other", prefix=lab.prefix)
    assert busy.code == 3
    assert f"the run {osmef.run.name} measures on this machine" in busy.err
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(lab.left()) == 4
    ended = osmef("reap", "--yes", prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert "destroyed 2" in ended.out
    assert lab.left() == []


def test_ctrl_c_cleans_the_machines_and_the_run_can_go_on(osmef: Osmef, lab: Lab) -> None:
    process = osmef.start("run", scenario(osmef), prefix=lab.prefix)
    osmef.until(process, "[1/4]")
    osmef.interrupt(process, signal.SIGINT)
    assert osmef.finish(process).code == 4
    assert lab.left() == []
    (osmef.directory / "hosts.yaml").unlink()  # the run has kept the hosts
    ended = osmef("resume", str(osmef.run), prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert lab.left() == []


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (
            lambda lab: (lab.folder / "home/.ssh/known_hosts").write_text(""),
            "no key of it is known",
        ),
        (lambda lab: (lab.folder / "b/authorized_keys").write_text(""), "does not let root in"),
        (lambda lab: (lab.folder / "home/.ssh/lab").unlink(), "no key to log in with"),
    ],
    ids=["unknown host key", "no login", "no key"],
)
def test_what_keeps_a_machine_from_being_used_is_told(
    osmef: Osmef, lab: Lab, before: object, said: str
) -> None:
    assert callable(before)
    before(lab)
    ended = osmef("run", scenario(osmef), prefix=lab.prefix)
    assert ended.code == 3
    assert said in ended.err
    assert "cure:" in ended.err
    assert "Traceback" not in ended.err
    assert lab.left() == []


def test_an_inventory_that_lacks_hosts_is_told_before_anything_is_connected_to(
    osmef: Osmef,
) -> None:
    ended = osmef("validate", scenario(osmef, hosts="a: {ssh: node-a}\n"))
    assert ended.code == 2
    assert "hosts.yaml:1:1: 2 physical hosts are needed, and the inventory has 1" in ended.err
