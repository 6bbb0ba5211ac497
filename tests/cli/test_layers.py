"""Layers on machines that outlive a run: two of them, each a network namespace with an sshd."""

from __future__ import annotations

import json
import signal

import pytest

from tests.cli.conftest import Osmef
from tests.cli.machines import Lab
from tests.waiting import until

SCENARIO = """
name: layers
provider: {{kind: static, inventory: hosts.yaml}}
endpoints: {{sender: {{kind: host}}, receiver: {{kind: host}}}}
workload: {{kind: btc, duration: {duration}, interval: 100ms}}
sweep: {{layer: {layers}}}
repeat: 1
"""
HOSTS = "a: {ssh: node-a, interface: data0}\nb: {ssh: node-b, interface: data0}\n"
HERE = "[bare, vxlan, macvlan, bridge, veth-nat, [bridge, vxlan], [vxlan, veth-nat]]"
"""What kernels have that have nothing special."""

STATE = (
    ("ip", "-j", "link"),
    ("ip", "-j", "address"),
    ("ip", "-j", "route", "show", "table", "all"),
    ("ip", "-j", "-6", "route", "show", "table", "all"),
    ("ip", "-j", "rule"),
    ("nft", "list", "ruleset"),
    ("ip", "xfrm", "policy"),
    ("ls", "/run/netns"),
    ("sh", "-c", "grep -H . /proc/sys/net/ipv[46]/conf/*/forwarding"),
    ("sh", "-c", "grep -H . /proc/sys/net/ipv6/conf/*/accept_ra"),
)
# The kernel numbers namespaces as it comes to meet them.
_PASSING = {"link_netnsid", "link"}


def state(lab: Lab) -> list[str]:
    """Return all that the machines' kernels know of networks, a line each."""
    return [
        f"{machine}: {' '.join(argv)}: {line}"
        for machine in "ab"
        for argv in STATE
        for line in _lines(lab.on(machine, *argv).stdout)
    ]


def received(lab: Lab) -> int:
    """Return how many bytes have come to machine b on the cable."""
    return int(lab.on("b", "cat", "/sys/class/net/data0/statistics/rx_bytes").stdout)


def settled(lab: Lab) -> list[str]:
    """Return the state once all interfaces have come up, which they do by themselves."""
    while True:
        found = state(lab)
        if not any(word in line for line in found for word in ("NO-CARRIER", "tentative")):
            return found


def _lines(text: str) -> list[str]:
    if not text.startswith("["):
        return text.splitlines()
    return [str({k: v for k, v in one.items() if k not in _PASSING}) for one in json.loads(text)]


def scenario(osmef: Osmef, layers: str, duration: str = "300ms") -> str:
    osmef.write(HOSTS, "hosts.yaml")
    return osmef.write(SCENARIO.format(duration=duration, layers=layers))


def test_layers_are_measured_between_the_same_machines_and_leave_nothing(
    osmef: Osmef, lab: Lab
) -> None:
    before = settled(lab)
    ended = osmef("run", scenario(osmef, HERE), prefix=lab.prefix)
    assert ended.code == 0, ended.err
    summary = osmef.summary
    cells = [(cell["values"]["layer"], cell["n_ok"]) for cell in summary["cells"]]
    names = ["bare", "vxlan", "macvlan", "bridge", "veth-nat", "bridge+vxlan", "vxlan+veth-nat"]
    assert cells == [(name, 1) for name in names]
    assert len(summary["endpoints"]) == 2
    costs = {(one["layer"], one["metric"]): one for one in summary["layers"]}
    for name in names[1:]:
        for metric in ("aggregate_btc_bps", "rtt_mean_us", "cpu_s_per_gb"):
            cost = costs[name, metric]
            assert (cost["reference"], cost["n"]) == ("bare", 1)
            ratio = cost["median"] / cost["reference_median"]
            assert cost["ratio"] == pytest.approx(ratio)
            assert cost["ci95_low"] is None, "of one trial there is no interval"
    assert "Times that of bare" in ended.out
    assert osmef("report", str(osmef.run), "-o", "page.html", prefix=lab.prefix).code == 0
    assert "What layers cost" in (osmef.directory / "page.html").read_text()
    facts = json.loads((osmef.run / "facts" / "00001" / "host-1.json").read_text())["layers"]
    assert facts["vxlan"]["vxlan"]["mtu_bytes"] == 1450
    assert facts["bridge+vxlan"]["bridge"]["mtu_bytes"] == 1450
    (interface,) = facts["vxlan"]["vxlan"]["interfaces"].values()
    assert (interface["kind"], interface["mtu"]) == ("vxlan", 1450)
    assert state(lab) == before
    assert lab.left() == []


def test_a_chain_of_servers_works_where_addresses_are_translated(osmef: Osmef, lab: Lab) -> None:
    osmef.write(HOSTS, "hosts.yaml")
    text = SCENARIO.format(duration="1s", layers="[veth-nat, [vxlan, veth-nat]]")
    chain = "{kind: pingpong, sizes: [100B], repetitions: 20}"
    path = osmef.write(text.replace("{kind: btc, duration: 1s, interval: 100ms}", chain))
    ended = osmef("run", path, prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert lab.left() == []


@pytest.mark.real("layers")
@pytest.mark.parametrize(
    "moment",
    [
        "measuring",
        *(
            f"raising {layer} between"
            for layer in ("vxlan", "macvlan", "bridge", "veth-nat", "bridge+vxlan")
        ),
    ],
)
def test_after_kill_9_reap_leaves_the_network_as_it_was(
    osmef: Osmef, lab: Lab, moment: str
) -> None:
    before = settled(lab)
    process = osmef.start("run", scenario(osmef, HERE, "30s"), prefix=lab.prefix)
    osmef.until(process, moment)
    until(lambda: state(lab) != before)
    process.send_signal(signal.SIGKILL)
    process.wait()
    ended = osmef("reap", "--yes", prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert state(lab) == before
    assert lab.left() == []


@pytest.mark.real("layers")
def test_layers_of_ipv6_are_measured_and_leave_nothing_also_after_kill_9(
    osmef: Osmef, lab: Lab
) -> None:
    before = settled(lab)
    layers = "[bridge, veth-nat, [bridge, vxlan]]\nfamily: ipv6"
    text = SCENARIO.replace("{{layer: {layers}}}", "\n  layer: {layers}")
    osmef.write(HOSTS, "hosts.yaml")
    written = {length: text.format(duration=length, layers=layers) for length in ("300ms", "30s")}
    ended = osmef("run", osmef.write(written["300ms"]), prefix=lab.prefix)
    assert ended.code == 0, ended.err
    summary = osmef.summary
    assert [cell["n_ok"] for cell in summary["cells"]] == [1, 1, 1]
    assert state(lab) == before
    process = osmef.start("run", osmef.write(written["30s"]), prefix=lab.prefix)
    osmef.until(process, "measuring")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert state(lab) != before
    ended = osmef("reap", "--yes", prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert state(lab) == before
    assert lab.left() == []


@pytest.mark.real("layers")
def test_layers_are_found_by_their_marks_where_no_journal_is(osmef: Osmef, lab: Lab) -> None:
    before = settled(lab)
    layers = "[vxlan, veth-nat]"
    process = osmef.start("run", scenario(osmef, layers, "30s"), prefix=lab.prefix)
    osmef.until(process, "measuring")
    process.send_signal(signal.SIGKILL)
    process.wait()
    for machine in ("node-a", "node-b"):
        where = ("--out", "elsewhere", "--provider", "static", "--uri", machine)
        words = ("reap", *where, "--older-than", "0s", "--yes")
        ended = osmef(*words, prefix=lab.prefix)
        assert ended.code == 0, ended.err
    after = state(lab)
    assert [line for line in after if "/forwarding:" not in line] == [
        line for line in before if "/forwarding:" not in line
    ]
    assert lab.left() == []
    assert osmef("reap", "--yes", prefix=lab.prefix).code == 0
    assert state(lab) == before, "what was changed before stands in the journal alone"


def test_ctrl_c_takes_the_layers_down(osmef: Osmef, lab: Lab) -> None:
    before = settled(lab)
    process = osmef.start("run", scenario(osmef, "[vxlan, veth-nat]", "30s"), prefix=lab.prefix)
    osmef.until(process, "measuring")
    process.send_signal(signal.SIGINT)
    process.wait()
    assert state(lab) == before
    assert lab.left() == []


@pytest.mark.real("layers")
def test_layers_are_raised_again_when_a_machine_was_lost_and_is_back(
    osmef: Osmef, lab: Lab
) -> None:
    before = settled(lab)
    layers = "[vxlan, [bridge, vxlan]]"
    process = osmef.start("run", scenario(osmef, layers, "4s"), prefix=lab.prefix)
    osmef.until(process, "measuring")
    so_far = received(lab)
    until(lambda: received(lab) > so_far + 100_000_000)
    lab.hang_up("b")
    ended = osmef.finish(process)
    assert ended.code == 0, ended.err
    assert "host-2 (b) answers again" in ended.err
    assert "raising vxlan again" in ended.err
    summary = osmef.summary
    assert [cell["n_ok"] for cell in summary["cells"]] == [1, 1]
    assert state(lab) == before
    assert lab.left() == []


def test_layers_are_listed_and_described(osmef: Osmef) -> None:
    listed = osmef("layers", "--json").json()
    names = [one["name"] for one in listed["layers"]]
    assert names[:2] == ["bare", "overlay"]
    assert {"vxlan", "wireguard", "container"} < set(names)
    assert listed["broken"] == []
    told = osmef("layers", "wireguard", "--json").json()
    assert any(line.startswith("wg:") for line in told["needs"]), told["needs"]
    assert [one["key"] for one in told["settings"]] == ["mtu"]
    shown = osmef("layers", "veth-nat")
    assert "needs nft" in shown.out
    unknown = osmef("layers", "vxlam")
    assert unknown.code == 2
    assert "there is no layer 'vxlam'" in unknown.err
    cure = " ".join(unknown.err.partition("cure: ")[2].split())
    assert cure == f"name one of: {', '.join(names)}"
