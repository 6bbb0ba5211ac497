"""Whole runs on two machines: sshds in network namespaces, one of them behind the other."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from osmef.remote.login import KeyPair
from tests.cli.conftest import Osmef
from tests.cli.machines import Lab
from tests.waiting import until

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
DNAT = (
    "add table ip nat; add chain ip nat in { type nat hook prerouting priority dstnat; };"
    "add rule ip nat in ip daddr 10.9.4.2 dnat to 10.9.3.2"
)
STRANGER = KeyPair.generate("stranger").public
BRIEF = "duration: 300ms, interval: 100ms"


def scenario(osmef: Osmef, duration: str = "300ms", hosts: str = HOSTS) -> str:
    osmef.write(hosts, "hosts.yaml")
    return osmef.write(SCENARIO.format(duration=duration))


def test_a_run_measures_between_two_machines_and_leaves_nothing(osmef: Osmef, lab: Lab) -> None:
    ended = osmef("run", scenario(osmef), prefix=lab.prefix)
    assert ended.code == 0, ended.err
    summary = osmef.summary
    assert [cell["n_ok"] for cell in summary["cells"]] == [2, 2]
    places = {one["name"]: one["achieved"] for one in summary["endpoints"]}
    assert {name: (p["host"], p["zone"]) for name, p in places.items()} == {
        "host-1": ("a", "room-1"),
        "host-2": ("b", None),
    }
    assert lab.left() == []
    # The second of the first machine is the jump to the other one.
    assert [lab.log(name).count("Accepted publickey") for name in "ab"] == [2, 1]
    assert "PRIVATE" not in (osmef.run / "journal.jsonl").read_text()
    assert osmef("reap", prefix=lab.prefix).code == 0


def test_vms_with_unknown_hosts_are_measured_only_with_on_mismatch_record(
    osmef: Osmef, lab: Lab
) -> None:
    osmef.write(HOSTS.replace("interface:", "kind: vm, interface:"), "hosts.yaml")
    text = SCENARIO.format(duration="300ms").replace("endpoints:", "# endpoints:")
    refused = osmef("run", osmef.write(text), prefix=lab.prefix)
    assert refused.code == 2
    assert "the inventory does not say on which host it runs" in refused.err
    ended = osmef("run", osmef.write(f"{text}on_mismatch: record\n"), prefix=lab.prefix)
    assert ended.code == 0, ended.err
    for cell in osmef.summary["cells"]:
        assert (cell["n_ok"], cell["placement"]) == (2, "different-host")
        assert (cell["achieved_placement"], cell["distance"]) == (None, None)
        assert {"placement", "distance"} <= set(cell["mismatch"])
    assert "their placement is unknown" in " ".join(ended.out.split())


def test_after_kill_9_the_machines_clean_themselves_and_the_run_is_resumed(
    osmef: Osmef, lab: Lab
) -> None:
    process = osmef.start("run", scenario(osmef, "1s"), prefix=lab.prefix)
    osmef.until(process, "[1/4]")
    assert len(lab.left()) == 4
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: lab.left() == [])
    ended = osmef("resume", str(osmef.run), prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert [trial["status"] for trial in osmef.trials] == ["ok"] * 4
    assert lab.left() == []
    assert osmef("reap", prefix=lab.prefix).out == "nothing left\n"


def test_machines_that_could_not_clean_themselves_are_reaped_by_ssh(osmef: Osmef, lab: Lab) -> None:
    process = osmef.start("run", scenario(osmef, "30s"), prefix=lab.prefix)
    osmef.until(process, "measuring")
    assert len(lab.left()) == 4
    busy = osmef("run", scenario(osmef), "--out", "other", prefix=lab.prefix)
    assert busy.code == 3
    assert f"the run {osmef.run.name} measures on this machine" in busy.err
    lab.kill(process)
    assert len(lab.left()) == 4
    ended = osmef("reap", "--yes", prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert "destroyed 2" in ended.out
    assert lab.left() == []


def test_a_machine_is_cleaned_by_its_mark_where_no_journal_is(osmef: Osmef, lab: Lab) -> None:
    process = osmef.start("run", scenario(osmef, "30s"), prefix=lab.prefix)
    osmef.until(process, "measuring")
    lab.kill(process)
    where = ("reap", "--out", "elsewhere", "--provider", "static", "--uri", "node-b")
    young = osmef(*where, prefix=lab.prefix)
    assert (young.code, young.out) == (0, "nothing left\n")
    listed = osmef(*where, "--older-than", "0s", "--json", prefix=lab.prefix)
    assert listed.code == 1
    assert [one["run"] for one in listed.json()["left"]] == [osmef.run.name]
    assert len(lab.left()) == 4, "it lists before it destroys"
    ended = osmef(*where, "--older-than", "0s", "--yes", prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert {Path(path).relative_to(lab.folder).parts[0] for path in lab.left()} == {"a"}
    assert osmef("reap", "--yes", prefix=lab.prefix).code == 0
    assert lab.left() == []


def test_a_machine_behind_nat_is_measured_at_the_address_that_is_translated(
    osmef: Osmef, lab: Lab
) -> None:
    for machine, *argv in (
        ("a", "ip", "route", "add", "10.9.4.2", "via", "10.9.3.2"),
        ("b", "nft", DNAT),
    ):
        done = lab.on(machine, *argv)
        if done.returncode != 0:
            pytest.skip(f"no NAT on this machine (Debian: apt install nftables): {done.stderr}")
    hosts = HOSTS.replace("node-b, interface: data0", "node-b, data_address: 10.9.4.2")
    kinds = "{kind: btc, %s}, {kind: udp, rate: 1Mbps, %s}".replace("%s", BRIEF)
    text = SCENARIO.format(duration="300ms")
    name = osmef.write(text.replace("family: [ipv4, ipv6]", f"workload: [{kinds}]"))
    osmef.write(hosts, "hosts.yaml")
    ended = osmef("run", name, prefix=lab.prefix)
    assert ended.code == 1
    (failure, *_) = [trial["failure"] for trial in osmef.trials]
    assert "listen_address" in failure["cure"]
    shutil.rmtree(osmef.run)
    osmef.write(hosts.replace("4.2", "4.2, listen_address: 10.9.3.2"), "hosts.yaml")
    ended = osmef("run", name, prefix=lab.prefix)
    assert ended.code == 0, ended.err
    summary = osmef.summary
    (end,) = [one for one in summary["endpoints"] if one["name"] == "host-2"]
    assert (end["data_address"], end["listen_address"]) == ("10.9.4.2", "10.9.3.2")
    assert [cell["n_ok"] for cell in summary["cells"]] == [2, 2]


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


def test_a_machine_that_boots_in_a_run_costs_no_trial(osmef: Osmef, lab: Lab) -> None:
    process = osmef.start("run", scenario(osmef), prefix=lab.prefix)
    osmef.until(process, "[1/4]")
    lab.switch_off("b")
    said = osmef.until(process, "waiting up to 3 min")
    assert "no answer from host-2 (b)" in said
    with lab.switched_on("b"):
        ended = osmef.finish(process)
        assert ended.code == 0, said + ended.err
        assert "host-2 (b) answers again" in ended.err
        assert [trial["status"] for trial in osmef.trials] == ["ok"] * 4
        assert lab.left() == []
        assert osmef("reap", prefix=lab.prefix).out == "nothing left\n"


def test_a_run_killed_while_waiting_for_a_machine_is_resumed(osmef: Osmef, lab: Lab) -> None:
    process = osmef.start("run", scenario(osmef), prefix=lab.prefix)
    osmef.until(process, "[1/4]")
    lab.switch_off("b")
    osmef.until(process, "waiting up to 3 min")
    process.kill()
    osmef.finish(process)
    with lab.switched_on("b"):
        ended = osmef("resume", str(osmef.run), prefix=lab.prefix)
        assert ended.code == 0, ended.err
        assert [trial["status"] for trial in osmef.trials] == ["ok"] * 4
        assert lab.left() == []


def test_ctrl_c_ends_the_wait_for_a_machine_and_the_run_is_resumed_once_it_is_back(
    osmef: Osmef, lab: Lab
) -> None:
    process = osmef.start("run", scenario(osmef), prefix=lab.prefix)
    osmef.until(process, "[1/4]")
    lab.switch_off("b")
    osmef.until(process, "waiting up to 3 min")
    osmef.interrupt(process, signal.SIGINT)
    ended = osmef.finish(process)
    assert ended.code == 4, ended.err
    assert "b may still have what the run made" in ended.err
    assert "stopped by SIGINT" in ended.err
    refused = osmef("resume", str(osmef.run), prefix=lab.prefix)
    assert refused.code == 3
    assert "b: no SSH connection" in refused.err
    with lab.switched_on("b"):
        ended = osmef("resume", str(osmef.run), prefix=lab.prefix)
        assert ended.code == 0, ended.err
        assert [trial["status"] for trial in osmef.trials] == ["ok"] * 4
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
        (
            lambda lab: lab.edit("known_hosts", lab.keys["b"], f"10.9.3.2 {STRANGER}"),
            "is not the one that",
        ),
        (lambda lab: lab.edit("config", "10.9.1.2", "10.9.1.2\n  Port 9"), "port 9 refused it"),
        (lambda lab: lab.edit("config", "10.9.1.2", "203.0.113.9"), "no route to 203.0.113.9"),
        (lambda lab: lab.edit("config", "10.9.3.2", "10.9.3.9"), "from the jump host node-a"),
    ],
    ids=[
        *("unknown host key", "no login", "no key", "changed host key", "refused", "no route"),
        "behind its jump host",
    ],
)
def test_the_reason_why_a_machine_is_unusable_is_reported(
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


def test_a_home_directory_mounted_noexec_is_reported(osmef: Osmef, lab: Lab) -> None:
    inside = ("nsenter", f"--target={lab.listener('b')}", "--mount")
    subprocess.run([*inside, "mount", "-o", "remount,bind,noexec", "/root"], check=True)
    ended = osmef("run", scenario(osmef), prefix=lab.prefix)
    assert ended.code == 3
    assert "b: the agent is gone: exit status 126" in ended.err
    assert "noexec" in ended.err
    assert not (osmef.run / "trials.jsonl").exists()
    assert lab.left() == []


def test_an_inventory_with_too_few_hosts_is_rejected_before_any_connection(
    osmef: Osmef,
) -> None:
    ended = osmef("validate", scenario(osmef, hosts="a: {ssh: node-a}\n"))
    assert ended.code == 2
    assert "hosts.yaml:1:1: 2 physical hosts are needed, and the inventory has 1" in ended.err


def test_a_plan_shows_the_machine_of_each_endpoint(osmef: Osmef) -> None:
    name = scenario(osmef, hosts="left: {ssh: node-a}\nright: {ssh: node-b}\n")
    shown = osmef("plan", name)
    assert shown.code == 0, shown.err
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["host-1", "host", "-", "host-1", "-", "left"] in rows
    printed = osmef("plan", name, "--json").json()
    assert [one["machine"] for one in printed["endpoints"]] == ["left", "right"]
    local = osmef("plan", osmef.write("name: a"), "--json").json()
    assert {one["machine"] for one in local["endpoints"]} == {None}


def test_all_cells_together_may_need_more_machines_than_each(osmef: Osmef) -> None:
    hosts = "".join(
        f"{size}: {{ssh: {size}, kind: vm, flavor: {size},"
        f" location: {{host: of-{size}, tenant: t}}}}\n"
        for size in ("small", "large")
    )
    osmef.write(hosts, "hosts.yaml")
    text = "name: a\nprovider: {kind: static, inventory: hosts.yaml}\n"
    text += "sweep: {endpoints.sender.flavor: [small, large]}\n"
    name = osmef.write(text)
    for command in ("validate", "plan", "run"):
        ended = osmef(command, name)
        assert ended.code == 2
        assert "hosts.yaml:1:1: for all cells together 3 VMs are needed" in ended.err
        assert "and the inventory has 2" in ended.err
