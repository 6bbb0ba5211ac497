"""Further network cards: as many as a size has, in subnets of the run, gone with its group."""

from __future__ import annotations

import signal

import pytest

from osmef.errors import CapacityError, QuotaError
from tests.azure.arm import Fault
from tests.providers.azure.conftest import Api, Lab, vm

CARDS = {"sender": {"nics": 1}, "receiver": {"nics": 1}}
LARGE = {"default_flavor": "Standard_D4s_v5"}


def test_more_cards_than_a_size_has_are_refused(api: Api) -> None:
    api.provider(**LARGE).check([vm("a", nics=3)])
    with pytest.raises(CapacityError, match=r"D4s_v5 has 4 network cards, and 5 are") as raised:
        api.provider(**LARGE).check([vm("a", nics=4)])
    assert "nics: 3" in str(raised.value.cure)
    with pytest.raises(CapacityError, match=r"D2s_v5 has 2 network cards"):
        api.provider().check([vm("a", nics=1), vm("b", nics=2)])


def test_a_network_interface_quota_that_is_too_small_is_reported(api: Api) -> None:
    api.arm.quotas["network"]["NetworkInterfaces"] = (1, 5)
    api.provider(**LARGE).check([vm("a", nics=1), vm("b", nics=1)])
    with pytest.raises(QuotaError, match=r"5 NetworkInterfaces \(quota 5, in use 1\)"):
        api.provider(**LARGE).check([vm("a", nics=2), vm("b", nics=1)])


@pytest.mark.parametrize(("networks", "count"), [("own", 3), ("one", 2)])
def test_cards_are_in_subnets_of_their_own_without_an_address_outside(
    api: Api, networks: str, count: int
) -> None:
    keys = {**LARGE, "nic_networks": networks}
    provider, (a, b) = api.make(vm("a", nics=2), vm("b", nics=1), **keys)
    (network,) = api.bodies("virtualNetworks")
    subnets = {one["name"]: one["properties"] for one in network["properties"]["subnets"]}
    assert len(subnets) == count
    assert len({one["networkSecurityGroup"]["id"] for one in subnets.values()}) == 1
    nics = {one["id"]: one["properties"] for one in api.bodies("networkInterfaces")}
    told = {}
    for machine in api.bodies("virtualMachines"):
        named = machine["properties"]["networkProfile"]["networkInterfaces"]
        assert [one["properties"]["primary"] for one in named][:1] == [True]
        inside = [nics[one["id"]]["ipConfigurations"][0]["properties"] for one in named]
        assert ["publicIPAddress" in one for one in inside] == [True] + [False] * (len(named) - 1)
        told[machine["name"]] = [one["subnet"]["id"].rpartition("/")[2] for one in inside]
    more, less = sorted(told.values(), key=lambda names: -len(names))
    assert more == ["vms", "nic-1", "nic-2" if networks == "own" else "nic-1"]
    assert less == ["vms", "nic-1"]
    assert (len(set(a.nics)), len(b.nics)) == (2, 1)
    assert all(len(mac) == 17 and mac == mac.lower() and ":" in mac for mac in (*a.nics, *b.nics))
    provider.close()
    assert api.owned() == []


def test_when_a_zone_has_no_capacity_the_nics_are_kept(api: Api) -> None:
    api.arm.full = {"", "westeurope-az3"}
    _, (made,) = api.make(vm("a", nics=2), **LARGE)
    assert len(made.nics) == 2
    assert len(api.bodies("networkInterfaces")) == 3


def test_a_run_with_extra_nics_leaves_nothing_even_of_a_recreated_vm(lab: Lab) -> None:
    lab.arm.misplaced = ["sender"]
    ended = lab(
        "run",
        lab.write(
            endpoints=CARDS,
            placement="same-host",
            provider={"dedicated_host": "DSv5-Type1"},
            on_mismatch="retry 1",
        ),
    )
    assert ended.code == 0, ended.err
    assert "recreating" in ended.err
    assert lab.osmef.kinds_of("created").count("network-interface") == 6
    assert lab.arm.things == {}


def test_killed_before_the_answer_leaves_cards_that_reap_finds(lab: Lab) -> None:
    process = lab.start("run", lab.write(endpoints=CARDS))
    fault = Fault("PUT .*networkInterfaces/.*-nic-1", 500, "InternalServerError", lost=True)
    fault.then = lambda: process.send_signal(signal.SIGKILL)
    lab.arm.faults.append(fault)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert any(one.startswith("network-interface ") for one in lab.owned())
    ended = lab("reap", "--yes")
    assert ended.code == 0, ended.err
    assert lab.owned() == []


def test_cards_of_two_tenants_are_refused(lab: Lab) -> None:
    ended = lab("validate", lab.write(endpoints=CARDS, tenancy="different-tenant"))
    assert ended.code != 0
    assert "further network cards of two tenants are on different networks" in ended.err
