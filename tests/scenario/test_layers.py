"""What a scenario may say of layers, and where it is told what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osmef.engine.plan import make_plan
from osmef.errors import InputError
from osmef.scenario.fields import ProviderNetwork
from osmef.scenario.layers import label_of
from osmef.scenario.load import load_text
from osmef.scenario.study import Study


def study(text: str) -> Study:
    return load_text(f"name: x\n{text}\n", Path("x.yaml"))


@pytest.mark.parametrize(
    ("written", "kinds", "label"),
    [
        ("vxlan", ["vxlan"], "vxlan"),
        ("{kind: vxlan, mtu: 1400}", ["vxlan"], "vxlan(mtu=1400)"),
        ("{kind: vxlan, checksum: false}", ["vxlan"], "vxlan(checksum=false)"),
        ("[bridge, vxlan]", ["bridge", "vxlan"], "bridge+vxlan"),
        (
            "[bridge, {kind: vxlan, mtu: 1400}]",
            ["bridge", "vxlan"],
            "bridge+vxlan(mtu=1400)",
        ),
        ("{kind: veth-nat}", ["veth-nat"], "veth-nat"),
    ],
)
def test_a_layer_is_a_name_settings_or_a_list(written: str, kinds: list[str], label: str) -> None:
    (cell,) = study(f"layer: {written}").cells
    assert [one.kind for one in cell.scenario.stack] == kinds
    assert "+".join(one.label for one in cell.scenario.stack) == label
    assert cell.scenario.network is ProviderNetwork.BARE
    kept = json.loads(cell.scenario.model_dump_json())["layer"]
    assert study(f"layer: {json.dumps(kept)}").cells[0].scenario == cell.scenario


def test_the_networks_of_the_provider_stay_as_they_were() -> None:
    for name in ProviderNetwork:
        hosts = "endpoints: {sender: {kind: host}, receiver: {kind: host}}"
        (cell,) = study(f"{hosts}\nlayer: {name}").cells
        assert cell.scenario.layer is name
        assert cell.scenario.stack == ()
        assert json.loads(cell.scenario.model_dump_json())["layer"] == str(name)


def test_layers_are_swept_over_the_same_endpoints() -> None:
    swept = study("sweep: {layer: [bare, vxlan, [bridge, vxlan], {kind: vxlan, mtu: 1400}]}")
    keys = [cell.key for cell in swept.cells]
    names = ["bare", "vxlan", "bridge+vxlan", "vxlan(mtu=1400)"]
    assert keys == [f"layer={name}" for name in names]
    assert [dict(cell.values)["layer"] for cell in swept.cells] == names
    assert len(make_plan(swept, seed=1).endpoints) == 2


def test_a_setting_of_a_layer_is_swept() -> None:
    swept = study("layer: vxlan\nsweep: {layer.mtu: [1400, 9000]}")
    assert [[one.mtu for one in cell.scenario.stack] for cell in swept.cells] == [[1400], [9000]]


CARDS = "endpoints: {sender: {nics: 4}, receiver: {nics: 2}}"


def test_bonds_of_different_kinds_are_of_the_same_cards() -> None:
    layers = "[bare, {kind: bond, nics: 1}, bond, {kind: bond, mode: balance-xor, hash: layer2}]"
    found = study(f"{CARDS}\nsweep: {{layer: {layers}}}")
    plan = make_plan(found, seed=1)
    assert {one.name: one.nics for one in plan.endpoints} == {
        "sender-nics4-h1-t1": 4,
        "receiver-nics2-h2-t1": 2,
    }
    assert study(f"provider: {{kind: local, nic_networks: one}}\n{CARDS}\n"
                 "layer: {kind: bond, mode: balance-tlb}")  # fmt: skip


def test_a_host_has_the_largest_number_of_nics_any_cell_needs() -> None:
    hosts = "endpoints: {sender: {kind: host}, receiver: {kind: host}}"
    found = study(f"{hosts}\nsweep: {{endpoints.sender.nics: [0, 3]}}")
    assert [one.nics for one in make_plan(found, seed=1).endpoints] == [3, 0]


CONTAINER = "layer: [{kind: container"


def test_layers_can_be_stacked_on_layers_that_carry_them() -> None:
    for stack in ("[container, ipsec]", "[vxlan, bridge]", "[vxlan, veth-nat]", "[macvlan, vxlan]",
                  "[bridge, gre]", "[wireguard, wireguard]", "[veth-nat, ipsec]"):  # fmt: skip
        assert study(f"layer: {stack}").cells


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("layer: vxlam", "2:8", "there is no layer 'vxlam'"),
        ("layer: vxlam", "2:8", "did you mean 'vxlan'"),
        ("layer: [bridge, vxlam]", "2:17", "there is no layer 'vxlam'"),
        ("layer: {kind: vxlan, mut: 1400}", "2:22", "unknown key 'mut'"),
        ("layer: [bridge, {kind: vxlan, mut: 1400}]", "2:31", "did you mean 'mtu'"),
        ("layer: {kind: vxlan, mtu: 20}", "2:27", "must be at least 576"),
        ("layer: {mtu: 1400}", "2:8", "the layer has no kind"),
        ("layer: [bridge, bare]", "2:8", "sweep them"),
        ("layer: [vxlan, vxlan, vxlan, vxlan]", "2:8", "too many"),
        ("layer: []", "2:8", "empty"),
        ("layer: 5", "2:8", "must be a mapping"),
        ("workload: {kind: [btc]}", "2:18", "the kind of a workload is a name, not a list"),
        ("workload: {kind: }", "2:17", "the kind of a workload is empty; choose from: apachebench"),
        ("layer: vxlan\nendpoints: {loopback: {}}", "2:1", "between two endpoints"),
        ("layer: {kind: container, network: bridge}\nfamily: ipv6", "2:26", "ipv4"),
        ("layer: {kind: vxlan, mtu: 1000}\nfamily: ipv6", "2:22", "too short for ipv6"),
        ("sweep: {layer: [vxlan, vxlam]}", "2:24", "there is no layer 'vxlam'"),
        ("layer: bond", "2:1", "sender has 0"),
        ("layer: {kind: bond, nics: 1}", "2:21", "joins 1 free network card, and"),
        (f"{CARDS}\nlayer: {{kind: bond, nics: 4}}", "2:43", "receiver has 2"),
        (f"{CARDS}\nlayer: [bond, vxlan]", "3:1", "can't be put on another layer"),
        (f"{CARDS}\nlayer: {{kind: bond, hash: layer2}}", "3:21", "does not look at packets"),
        (f"{CARDS}\nlayer: {{kind: bond, mode: balance-alb}}", "3:21", "nic_networks: one"),
        ("endpoints: {sender: {nics: 99}, receiver: {}}", "2:28", "at most 8"),
        ("layer: Bare", "2:8", "did you mean 'bare'"),
        ("layer: {kind: bare}", "2:15", "write layer: bare"),
        ("layer: bare\nsweep: {layer.mtu: [1400]}", "2:8", "layer bare has no mtu"),
        ("layer: [vxlan, container]", "2:1", "write it first: [container, vxlan]"),
        ("layer: [container, container]", "2:1", "write it once"),
        ("layer: [macvlan, wireguard]", "2:1", "wireguard does not carry what macvlan sends"),
        ("layer: [gre, veth-nat]", "2:1", "put it on one of: bond, bridge, geneve, gre, ipip"),
        ("layer: [bridge, ipsec]", "2:1", "ipsec does not carry what bridge sends"),
        (f"{CONTAINER}, network: macvlan}}, vxlan]", "2:1", "is in the network of that one"),
        (f"{CONTAINER}, engine: docker}}, vxlan]", "2:1", "use engine: podman"),
        (f"{CONTAINER}, network: my net}}]", "2:36", "match ^[A-Za-z0-9][A-Za-z0-9_.-]*$"),
    ],
)
def test_an_error_in_a_layer_is_reported_at_its_position(text: str, place: str, told: str) -> None:
    with pytest.raises(InputError) as refused:
        study(text)
    assert any(
        f"{one.line}:{one.column}" == place and told in f"{one.message}; {one.cure}"
        for one in refused.value.problems
    ), str(refused.value)


def test_labels_of_what_is_written() -> None:
    assert label_of(["container", {"kind": "vxlan", "mtu": 1400}]) == "container+vxlan(mtu=1400)"
