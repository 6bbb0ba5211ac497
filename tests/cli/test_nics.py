"""Network cards of machines that outlive a run: a layer acquires them, and restores them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Osmef
from tests.cli.machines import ALONE, Lab, two_machines
from tests.cli.test_layers import settled, state

# A bond needs a kernel that has it. This layer acquires NICs as a bond does.
PATCH = '''
from typing import ClassVar, Literal
from pydantic import Field
from osmef.layers.base import Layer, LayerEnd, peers_of
from osmef.results.measure import Better, Measure
from osmef.scenario.layers import LayerSettings

class PatchSettings(LayerSettings):
    """One of the free network cards."""
    kind: Literal["patch"] = "patch"
    card: int = Field(default=0, description="which one")
    needs_exclusive_nics: ClassVar[bool] = True

class Patch(Layer[PatchSettings]):
    Settings = PatchSettings
    measures = (Measure(name="patch_packets", unit="1", better=Better.NEITHER),)
    def probe(self, host, space, family):
        pass
    def up(self, ground):
        return ground.each(lambda end: self._up(end, ground))
    def _up(self, end, ground):
        own, space = ground.inner[end.name], end.host.new_space()
        (nic,) = end.host.acquire_nics([end.host.nics[self.settings.card]], space)
        words = [f"link set dev {nic.device} up", f"address add {own}/32 dev {nic.device}"]
        ways = [f"route add {ground.inner[p]}/32 dev {nic.device}" for p in peers_of(ground, end)]
        end.host.root.ip(space, *words, *ways)
        return LayerEnd(own, own, space, nic.mtu)
    def outcome(self, changes):
        sent = [card["tx_packets"] for one in changes for card in one.interfaces.values()]
        return {"patch_packets": float(sum(sent))}
'''
SCENARIO = """
name: cards
provider: {{kind: static, inventory: hosts.yaml}}
endpoints: {{sender: {{kind: host, nics: 2}}, receiver: {{kind: host, nics: 2}}}}
workload: {{kind: btc, duration: {duration}, interval: 100ms}}
sweep: {{layer: [bare, patch, {{kind: patch, card: 1}}, [vxlan, patch]]}}
repeat: 1
"""
HOSTS = """
a: {ssh: node-a, interface: data0, nics: [nic1, nic2]}
b: {ssh: node-b, interface: data0, nics: [nic1, nic2]}
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with two_machines(tmp_path, ALONE) as machines:
        machines.on("a", "ip", "address", "add", "10.9.7.1/24", "dev", "nic1")
        yield machines


@pytest.fixture
def prefix(lab: Lab, tmp_path: Path) -> tuple[str, ...]:
    """Where commands see the layer of this file, as an installed package brings it."""
    (tmp_path / "patch_layer.py").write_text(PATCH)
    info = tmp_path / "patch_layer-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: patch_layer\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[osmef.layers]\npatch = patch_layer:Patch\n")
    return (*lab.prefix, "env", f"PYTHONPATH={tmp_path}{os.pathsep}{ROOT}")


def scenario(osmef: Osmef, duration: str, hosts: str = HOSTS) -> str:
    osmef.write(hosts, "hosts.yaml")
    return osmef.write(SCENARIO.format(duration=duration))


@pytest.mark.real("layers")
def test_layers_of_the_same_cards_stand_by_turns_and_give_them_back(
    osmef: Osmef, lab: Lab, prefix: tuple[str, ...]
) -> None:
    osmef.end_s = 120.0
    before = settled(lab)
    ended = osmef("run", scenario(osmef, "200ms"), prefix=prefix)
    assert ended.code == 0, ended.err
    assert sorted(state(lab)) == sorted(before)
    summary = osmef.summary
    cells = {cell["values"]["layer"]: cell["n_ok"] for cell in summary["cells"]}
    assert cells == {"bare": 1, "patch": 1, "patch(card=1)": 1, "vxlan+patch": 1}
    told = {
        cell["values"]["layer"]: cell["metrics"].get("patch_packets") for cell in summary["cells"]
    }
    assert {layer: bool(metric) for layer, metric in told.items()} == {
        "bare": False, "patch": True, "patch(card=1)": True, "vxlan+patch": True,
    }  # fmt: skip
    for trial in osmef.trials:
        cards = {one["name"] for one in trial["interfaces"]}
        card = {"bare": set(), "patch(card=1)": {"nic2"}}
        assert cards == card.get(trial["values"]["layer"], {"nic1"})
        assert ("patch_packets" in trial["metrics"]) == bool(cards)
        assert not cards or trial["metrics"]["patch_packets"] > 10
    assert lab.left() == []


def test_after_kill_9_reap_gives_the_cards_back(
    osmef: Osmef, lab: Lab, prefix: tuple[str, ...]
) -> None:
    before = settled(lab)
    path = scenario(osmef, "30s")
    process = osmef.start("run", path, "--set", "layer=[patch]", prefix=prefix)
    osmef.until(process, "measuring")
    while "nic1" in lab.on("a", "ip", "link").stdout:  # raised once more for the first trial
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert state(lab) != before
    ended = osmef("reap", "--yes", prefix=lab.prefix)
    assert ended.code == 0, ended.err
    assert sorted(state(lab)) == sorted(before)
    assert lab.left() == []


def test_a_card_that_is_used_is_not_touched(
    osmef: Osmef, lab: Lab, prefix: tuple[str, ...]
) -> None:
    for machine in "ab":
        lab.on(machine, "ip", "link", "set", "nic1", "up")
    lab.on("b", "ip", "route", "add", "10.77.0.0/16", "dev", "nic1")
    before = settled(lab)
    ended = osmef("run", scenario(osmef, "200ms"), prefix=prefix)
    assert ended.code == 3
    assert "nic1 is not free: the route to 10.77.0.0/16 leads over it" in ended.err
    assert sorted(state(lab)) == sorted(before)


def test_too_few_cards_are_a_problem_of_the_file(
    osmef: Osmef, lab: Lab, prefix: tuple[str, ...]
) -> None:
    hosts = HOSTS.replace("nics: [nic1, nic2]", "nics: [nic1]", 1)
    path = scenario(osmef, "200ms", hosts=hosts)
    ended = osmef("validate", path, prefix=prefix)
    assert ended.code == 2
    assert "Needed: host-1 with 1 physical host and 2 free network cards" in ended.err
    assert lab.left() == []
