"""Whole runs at two sites: a machine at each, or two clouds that know nothing of each other."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.cli.conftest import Osmef
from tests.cli.machines import Lab

SCENARIO = """
name: two-sites
sites:
  here: {{kind: static, inventory: here.yaml}}
  there:
    kind: static
    hosts: {{b: {{ssh: node-b, interface: data0, location: {{zone: room-1}}}}}}
endpoints:
  sender: {{kind: host, site: here}}
  receiver: {{kind: host, site: there}}
workload: {{kind: btc, duration: {duration}, interval: 100ms}}
sweep: {{family: [ipv4, ipv6]}}
repeat: 2
"""
HERE = "a: {ssh: node-a, interface: data0, location: {zone: room-1}}\n"


def scenario(osmef: Osmef, duration: str = "300ms") -> str:
    osmef.write(HERE, "here.yaml")
    return osmef.write(SCENARIO.format(duration=duration))


def test_a_run_measures_from_site_to_site_and_leaves_nothing(osmef: Osmef, lab: Lab) -> None:
    ended = osmef("run", scenario(osmef), prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert "here: logging in to 1 static host\n" in ended.err
    summary = osmef.summary
    assert summary["run"]["provider"] == "static"
    assert summary["run"]["sites"] == {"here": "static", "there": "static"}
    places = {one["name"]: one["achieved"] for one in summary["endpoints"]}
    assert {name: (one["site"], one["host"]) for name, one in places.items()} == {
        "here-host-1": ("here", "a"),
        "there-host-2": ("there", "b"),
    }
    for cell in summary["cells"]:
        assert (cell["n_ok"], cell["distance"], cell["mismatch"]) == (2, 4, [])
        assert cell["achieved_placement"] == "different-host"
        assert cell["metrics"]["aggregate_btc_bps"]["median"] > 0
    assert lab.left() == []


def test_after_kill_9_reap_cleans_both_sites(osmef: Osmef, lab: Lab) -> None:
    process = osmef.start("run", scenario(osmef, "30s"), prefix=lab.prefix)
    osmef.until(process, "measuring")
    assert len(lab.left()) == 4
    lab.kill(process)
    ended = osmef("reap", "--yes", prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert "destroyed 2" in ended.out
    assert lab.left() == []


def test_ctrl_c_cleans_both_sites_and_the_run_can_go_on(osmef: Osmef, lab: Lab) -> None:
    process = osmef.start("run", scenario(osmef), prefix=lab.prefix)
    osmef.until(process, "[1/4]")
    osmef.interrupt(process, signal.SIGINT)
    assert osmef.finish(process).code == 4
    assert lab.left() == []
    (osmef.directory / "here.yaml").unlink()  # the run has kept the hosts
    ended = osmef("resume", str(osmef.run), prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert lab.left() == []


TWO_CLOUDS = """
name: two-clouds
sites:
  slow: {link_rate: 10Mbit/s}
  fast: {link_rate: 10Gbit/s}
endpoints: {sender: {}, receiver: {}}
workload: {kind: btc, duration: 500ms, interval: 100ms}
sweep: {site: [slow, fast]}
repeat: 1
"""


def test_one_run_compares_two_clouds(osmef: Osmef, left_behind: Callable[[], list[str]]) -> None:
    ended = osmef("run", osmef.write(TWO_CLOUDS))
    assert ended.code == 0, ended.err
    assert "Sites: slow (local), fast (local)." in ended.out
    summary = osmef.summary
    slow, fast = (cell["metrics"]["aggregate_btc_bps"]["median"] for cell in summary["cells"])
    assert slow < fast
    assert [cell["distance"] for cell in summary["cells"]] == [2, 2]
    assert left_behind() == []


NAT = """
ip -n b address add 100.64.7.7/32 dev lo
ip -n a route add 100.64.7.7/32 via 10.9.3.2
ip netns exec b nft add table ip nat
ip netns exec b nft 'add chain ip nat to { type nat hook prerouting priority -100; }'
ip netns exec b nft add rule ip nat to ip daddr 100.64.7.7 counter dnat to 10.9.3.2
"""


def test_a_machine_behind_nat_is_met_at_its_public_address(osmef: Osmef, lab: Lab) -> None:
    if shutil.which("nft", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        pytest.skip("no nft (Debian: nftables)")
    subprocess.run([*lab.prefix, "sh", "-ec", NAT], check=True)
    written = SCENARIO.format(duration="300ms").replace("sweep: {family: [ipv4, ipv6]}\n", "")
    osmef.write(HERE, "here.yaml")
    behind = written.replace("ssh: node-b,", "ssh: node-b, public_address: 100.64.7.7,")
    ended = osmef("run", osmef.write(behind), prefix=lab.prefix)
    assert ended.code == 0, ended.err
    rules = [*lab.prefix, "ip", "netns", "exec", "b", "nft", "list", "ruleset"]
    told = subprocess.run(rules, check=True, capture_output=True, text=True).stdout
    assert int(told.partition("counter packets ")[2].split()[0]) > 0


@pytest.mark.parametrize("site", ["here", "there"])
def test_when_one_site_fails_the_other_is_released(osmef: Osmef, lab: Lab, site: str) -> None:
    machine = "a" if site == "here" else "b"
    (lab.folder / machine / "shm" / "osmef-lock").symlink_to("not-ours")
    ended = osmef("run", scenario(osmef), prefix=lab.prefix)
    assert ended.code == 3
    assert "is none of ours" in ended.err
    assert "Traceback" not in ended.err
    assert lab.left() == [str(lab.folder / machine / "shm" / "osmef-lock")]
