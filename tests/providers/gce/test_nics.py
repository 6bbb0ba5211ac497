"""Further network cards: as many as a machine type has, each on a network of the run's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.cloud import compute_v1

from osmef.errors import CapacityError, QuotaError
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud.lookup import check_cards
from osmef.providers.gce.lookup import flavor_of
from tests.providers.gce.lab import Lab, asked, vm
from tests.providers.gce.test_faults import INSERT_VM
from tests.waiting import until

SCENARIO = {"default_flavor": "n2-standard-4", "placement": "different-host"}


def with_nics(name: str, nics: int, host: str = "host-1") -> EndpointRequest:
    return replace(vm(name, host), nics=nics)


@pytest.mark.parametrize(("vcpus", "most"), [(1, 1), (2, 1), (4, 3), (8, 7), (96, 7)])
def test_a_machine_type_has_an_interface_for_each_cpu_of_at_most_eight(
    vcpus: int, most: int
) -> None:
    reported = compute_v1.MachineType(name=f"n2-standard-{vcpus}", guest_cpus=vcpus)
    one = flavor_of(reported)
    check_cards(with_nics("a", most), one)
    with pytest.raises(CapacityError, match=f"{most + 2} are needed") as raised:
        check_cards(with_nics("a", most + 1), one)
    assert f"nics: {most}" in str(raised.value.cure)


def test_too_many_nics_and_networks_are_reported_before_anything_is_created(lab: Lab) -> None:
    wanted = [with_nics("a", 3), with_nics("b", 1, "host-2")]
    with lab.cloud.recorded() as calls:
        lab.provider().check(wanted)
        with pytest.raises(CapacityError, match=r"n2-standard-4 has 4 network cards"):
            lab.provider().check([*wanted, with_nics("c", 4)])
        for limits in ({"NETWORKS": 3.0}, {"SUBNETWORKS": 3.0}, {"FIREWALLS": 5.0}):
            (metric, limit) = next(iter(limits.items()))
            said = rf"{limit + 1:g} {metric} \(quota {limit:g}, in use 0\)"
            fault = lab.cloud.fault("quota", times=2, limits=limits)
            with fault, pytest.raises(QuotaError, match=said):
                lab.provider().check(wanted)
    assert not [call for call in calls() if call.get("id", "").endswith("insert")]


def test_each_card_has_a_network_and_no_address_outside(lab: Lab) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.made(with_nics("a", 2), with_nics("b", 1, "host-2")) as (_, (a, b)),
    ):
        bodies = {call["body"]["name"]: call["body"] for call in asked(calls(), "instances.insert")}
        networks = [call["body"]["name"] for call in asked(calls(), "networks.insert")]
    assert len(networks) == 3
    more, less = sorted(bodies.values(), key=lambda one: -len(one["networkInterfaces"]))
    names = [[nic["network"] for nic in one["networkInterfaces"]] for one in (more, less)]
    assert len(set(names[0])) == 3
    assert names[1] == names[0][:2]  # those of one place meet
    outside = [len(nic.get("accessConfigs", [])) for nic in more["networkInterfaces"]]
    assert outside == [1, 0, 0]
    first = {"42:01:0a:c9:00:02", "42:01:0a:c9:00:03"}  # 10.201.0.2 is whose request came first
    assert {a.nics[0], *b.nics} == first
    assert a.nics[1:] == ("42:01:0a:ca:00:02",)
    assert lab.owned() == []


def test_a_run_with_cards_leaves_nothing_also_where_it_was_killed(lab: Lab) -> None:
    ends = {"sender": {"nics": 2}, "receiver": {"nics": 2}}
    ended = lab("run", lab.write(endpoints=ends, **SCENARIO))
    assert ended.code == 0, ended.err
    made = lab.osmef.kinds_of("created")
    assert made.count("network") == 3
    assert lab.owned() == []
    fault = lab.cloud.fault("call", INSERT_VM, times=1000, lose=True)
    with lab.cloud.recorded() as calls, fault:
        process = lab.start("run", lab.write("killed", endpoints=ends, **SCENARIO))
        until(lambda: len(asked(calls(), "instances.insert")) >= 2)
        process.kill()
        process.communicate()
    assert len([one for one in lab.owned() if one.startswith("network ")]) == 3
    reaped = lab("reap", "--yes")
    assert reaped.code == 0, reaped.err
    assert lab.owned() == []


def test_cards_of_two_tenants_are_refused(lab: Lab) -> None:
    ends = {"sender": {"nics": 1}, "receiver": {"nics": 1}}
    ended = lab("validate", lab.write(endpoints=ends, tenancy="different-tenant"))
    assert ended.code != 0
    assert "further network cards of two tenants are on different networks" in ended.err
