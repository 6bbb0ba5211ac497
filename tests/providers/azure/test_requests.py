"""What Azure is asked for: VMs, networks and what places them; and what it tells of places."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from azure.mgmt.compute import models as compute_models
from azure.mgmt.network import models as network_models

from osmef.providers.azure.access import USUAL, Subscription
from osmef.providers.azure.provider import AzureProvider, Provisioner, read_place
from osmef.providers.azure.resource_types import schedule_body
from osmef.providers.base import EndpointRequest
from osmef.scenario.fields import DATA_PORTS
from osmef.scenario.location import Gone, same_host
from tests.azure.arm import OTHER, REGION, SUBSCRIPTION, Fault
from tests.azure.catalog import Offered
from tests.providers.azure.conftest import Api, config_of, vm

DATA = f"{DATA_PORTS.start}-{DATA_PORTS.stop - 1}"
HOUR_S = 3600.0
TENANTS = {"red": SUBSCRIPTION, "blue": OTHER}


def properties(api: Api, type_: str) -> Any:
    (one,) = api.bodies(type_)
    return one["properties"]


def test_the_vm_request_follows_the_settings(api: Api) -> None:
    api.make(vm("a b/c"), user="me", disk="31GiB")
    (body,) = api.bodies("virtualMachines")
    told = body["properties"]
    assert told["hardwareProfile"] == {"vmSize": "Standard_D2s_v5"}
    disk = told["storageProfile"]["osDisk"]
    assert (disk["diskSizeGB"], disk["deleteOption"]) == (31, "Delete")
    assert told["osProfile"]["adminUsername"] == "me"
    assert told["osProfile"]["computerName"] == "1-a-b-c"
    assert told["osProfile"]["linuxConfiguration"]["disablePasswordAuthentication"] is True
    assert told["diagnosticsProfile"] == {"bootDiagnostics": {"enabled": True}}
    assert not {"priority", "availabilitySet", "proximityPlacementGroup", "host"} & set(told)
    assert "zones" not in body
    assert set(body["tags"]) == {"osmef_run", "osmef_made", "osmef_deadline"}


def test_a_vm_powers_itself_off_at_the_deadline(api: Api) -> None:
    api.make(vm("a"))
    (body,) = api.bodies("virtualMachines")
    ((*command, minutes),) = config_of(body)["runcmd"]
    assert command == ["shutdown", "-P"]
    assert 50 <= int(minutes) <= 61  # the lab's deadline is in an hour


def test_azure_ends_a_vm_at_the_deadline(api: Api) -> None:
    _, (one, _) = api.make(vm("a"), vm("b"))
    told = {body["properties"]["targetResourceId"]: body for body in api.bodies("schedules")}
    assert len(told) == 2
    body = told[one.id]
    assert body["name"] == "shutdown-computevm-1-a"
    assert body["location"] == REGION
    assert set(body["tags"]) == {"osmef_run", "osmef_made", "osmef_deadline"}
    keys = body["properties"]
    assert (keys["status"], keys["taskType"]) == ("Enabled", "ComputeVmShutdownTask")
    assert keys["timeZoneId"] == "UTC"
    ends = api.ledger.events[0][1].deadline
    assert ends is not None
    minutes = {time.strftime("%H%M", time.gmtime(ends + after)) for after in (0, 60)}
    assert keys["dailyRecurrence"]["time"] in minutes


@pytest.mark.parametrize(
    ("ends", "time_of_day"),
    [(0.0, "0000"), (1.0, "0001"), (3600.0, "0100"), (86399.0, "0000"), (86340.0, "2359")],
)
def test_a_vm_is_ended_at_the_minute_after_its_deadline(ends: float, time_of_day: str) -> None:
    keys = schedule_body("/vm", REGION, ends)["properties"]
    assert keys["dailyRecurrence"] == {"time": time_of_day}


def scheduled(api: Api) -> str:
    (body,) = api.bodies("schedules")
    return str(body["properties"]["dailyRecurrence"]["time"])


def times_of_day(ends: float) -> set[str]:
    """Return the minutes that are right for an end, made some seconds ago at most."""
    return {time.strftime("%H%M", time.gmtime(ends + after)) for after in (-60, 0, 60)}


def test_a_vm_that_is_needed_for_days_is_ended_a_day_after_its_controller_is_lost(api: Api) -> None:
    now, provider = time.time(), api.provider()
    context = replace(api.context(vm("a")), deadline=now + 40 * HOUR_S)
    provider.begin(context).create_all()
    assert scheduled(api) in times_of_day(now + 23 * HOUR_S)
    provisioned = provider.provisioned()
    assert isinstance(provisioned, Provisioner)
    provisioned.schedules.renew(now + 13 * HOUR_S)
    assert scheduled(api) in times_of_day(now + 36 * HOUR_S)
    provisioned.schedules.renew(now + 20 * HOUR_S)  # and never after the deadline
    assert scheduled(api) in times_of_day(now + 40 * HOUR_S)
    (body,) = api.bodies("schedules")
    assert set(body["tags"]) == {"osmef_run", "osmef_made", "osmef_deadline"}
    provider.close()
    assert api.arm.things == {}
    assert set(api.events("intend")) == set(api.events("destroyed"))


@pytest.mark.parametrize("days", [0, 2])
def test_schedules_are_moved_on_only_while_the_run_lasts(api: Api, days: int) -> None:
    provider, moved = (
        AzureProvider(api.settings(), replace(USUAL, renewed_s=0.01)),
        threading.Event(),
    )
    put = Fault("PUT .*schedules/", 500, "Broken", times=2, then=moved.set)
    context = replace(api.context(vm("a")), deadline=time.time() + HOUR_S + days * 24 * HOUR_S)
    provider.begin(context).create_all()
    api.arm.faults.append(put)
    assert moved.wait(30.0 if days else 0.2) is bool(days)
    provider.close()
    before = api.arm.count("PUT .*schedules/")
    assert not threading.Event().wait(0.1)
    assert api.arm.count("PUT .*schedules/") == before
    assert api.arm.things == {}


@pytest.mark.parametrize(("host_keys", "given"), [("given", True), ("console", False)])
def test_a_given_host_key_is_passed_to_the_vm(api: Api, host_keys: str, given: bool) -> None:
    api.make(vm("a"), host_keys=host_keys)
    (body,) = api.bodies("virtualMachines")
    assert ("ssh_keys" in config_of(body)) is given


@pytest.mark.parametrize(("spot", "priority"), [(True, "Spot"), (False, None)])
def test_spare_capacity_is_asked_for_at_any_price(
    api: Api, spot: bool, priority: str | None
) -> None:
    api.make(vm("a", host="host-1"), vm("b", host="host-2"), spot=spot)
    for one in api.bodies("virtualMachines"):
        told = one["properties"]
        assert told.get("priority") == priority
        assert told.get("billingProfile") == ({"maxPrice": -1.0} if spot else None)
        assert told.get("evictionPolicy") == ("Delete" if spot else None)
        assert ("availabilitySet" in told) is not spot


@pytest.mark.parametrize(
    ("wanted", "size", "expected"),
    [
        (None, "Standard_D2s_v5", True),
        (None, "Standard_B2s", False),
        (False, "Standard_D2s_v5", False),
        (True, "Standard_D2s_v5", True),
    ],
)
def test_networking_is_accelerated_where_the_size_has_it(
    api: Api, wanted: bool | None, size: str, expected: bool
) -> None:
    without = {"AcceleratedNetworkingEnabled": "False"}
    api.arm.sizes.append(Offered("Standard_B2s", capabilities=without))
    api.make(vm("a"), accelerated=wanted, default_flavor=size)
    assert properties(api, "networkInterfaces")["enableAcceleratedNetworking"] is expected


def rules(api: Api) -> dict[str, dict[str, Any]]:
    """Return the rules of each tenant's group by their names."""
    return {
        one["id"].split("/")[4][-1]: {
            rule["name"]: rule["properties"] for rule in one["properties"]["securityRules"]
        }
        for one in api.bodies("networkSecurityGroups")
    }


def test_ssh_comes_in_from_the_controller_and_data_from_the_network(api: Api) -> None:
    api.make(vm("a"), vm("b"))
    found = rules(api)["1"]
    assert found["ssh"]["sourceAddressPrefix"] == "198.51.100.1/32"
    assert found["ssh"]["destinationPortRange"] == "22"
    block = properties(api, "virtualNetworks")["addressSpace"]["addressPrefixes"]
    for name in ("data-tcp", "data-udp"):
        assert found[name]["sourceAddressPrefixes"] == block
        assert found[name]["destinationPortRange"] == DATA
    last = max(found.values(), key=lambda rule: rule["priority"])
    assert (last["access"], last["protocol"], last["sourceAddressPrefix"]) == ("Deny", "*", "*")
    opened = [rule for rule in found.values() if rule["access"] == "Allow"]
    assert not any("/0" in str(rule) or "'*'" in str(rule["protocol"]) for rule in opened)


@pytest.mark.parametrize("tenants", [None, TENANTS])
def test_tenants_admit_each_others_addresses(api: Api, tenants: dict[str, str] | None) -> None:
    _, made = api.make(vm("a"), vm("b", tenant="tenant-2"), tenants=tenants)
    one, other = made
    blocks = [net["properties"]["addressSpace"]["addressPrefixes"][0] for net in networks(api)]
    assert len(set(blocks)) == 2
    found = {
        key: set(rule["data-tcp"]["sourceAddressPrefixes"]) for key, rule in rules(api).items()
    }
    assert found == {
        "1": {blocks[0], f"{other.public}/32"},
        "2": {blocks[1], f"{one.public}/32"},
    }


def networks(api: Api) -> list[Any]:
    return sorted(api.bodies("virtualNetworks"), key=lambda one: str(one["id"].split("/")[4]))


def test_other_clouds_are_admitted_only_by_the_tenant_they_connect_to(api: Api) -> None:
    provider, made = api.make(vm("a"), vm("b", tenant="tenant-2"))
    endpoints = [provider.endpoint(one, None) for one in made]  # type: ignore[arg-type]
    provider.admit(endpoints[:1], ["203.0.113.7", "203.0.113.8"])
    provider.admit(endpoints[:1], ["203.0.113.7", "203.0.113.9"])  # who is not named is out
    found = {
        key: [one for one in rule["data-udp"]["sourceAddressPrefixes"] if one.startswith("203.")]
        for key, rule in rules(api).items()
    }
    assert found == {"1": ["203.0.113.7/32", "203.0.113.9/32"], "2": []}


def test_the_address_of_a_deleted_vm_is_removed_from_the_rules(api: Api) -> None:
    provider, (old, other) = api.make(vm("a"), vm("b", tenant="tenant-2"))
    provisioner = provider.provisioned()
    (new,) = provisioner.create_vms([old.spec.request])
    both = {f"{old.public}/32", f"{new.public}/32"}
    assert both & set(rules(api)["2"]["data-tcp"]["sourceAddressPrefixes"]) == {f"{old.public}/32"}
    gone = {*provisioner.names_of(old)}
    provider.remove([one for one in provider.undestroyed() if one[0].name in gone])
    provisioner.register([new])
    assert both & set(rules(api)["2"]["data-tcp"]["sourceAddressPrefixes"]) == {f"{new.public}/32"}
    assert new.spec.placement == old.spec.placement
    assert other.public not in {old.public, new.public}


def test_hosts_of_one_tenant_and_lane_are_spread_by_a_set(api: Api) -> None:
    requests = [
        *(vm(f"a{n}", host=f"host-{n}") for n in (1, 2)),
        *(vm(f"b{n}", host=f"host-{n}", lane=2) for n in (1, 2)),
        *(vm(f"c{n}", host=f"host-{n}", lane=3, zone="1") for n in (1, 2)),
        vm("d", host="host-1", tenant="tenant-2"),
        vm("e"),
    ]
    _, made = api.make(*requests)
    sets = {one.spec.request.name: one.spec.placement.availability_set for one in made}
    assert sets["a1"] == sets["a2"]
    assert sets["b1"] == sets["b2"] != sets["a1"]
    assert {sets[name] for name in ("c1", "c2", "d", "e")} == {None}
    assert all(one["properties"]["platformFaultDomainCount"] == 2 for one in spread(api))
    places = {one.spec.request.name: read_place(one, REGION) for one in made}
    assert same_host(places["a1"], places["a2"]) is False
    assert same_host(places["a1"], places["b1"]) is None
    assert same_host(places["c1"], places["c2"]) is None
    assert (places["c1"].zone, places["a1"].zone) == (f"{REGION}-az3", None)


def spread(api: Api) -> list[Any]:
    return api.bodies("availabilitySets")


def test_vms_are_kept_near_each_other_lane_by_lane(api: Api) -> None:
    requests = [vm("a", host="host-1"), vm("b", host="host-2"), vm("c", lane=2)]
    _, made = api.make(*requests, vm("d", tenant="tenant-2"), proximity=True)
    near = {one.spec.request.name: one.spec.placement.proximity for one in made}
    assert near["a"] == near["b"] == near["d"] != near["c"]
    (one,) = spread(api)
    assert one["properties"]["proximityPlacementGroup"]["id"] == near["a"]


@pytest.mark.parametrize("zone", [None, "2"])
def test_each_host_of_a_plan_is_a_dedicated_one(api: Api, zone: str | None) -> None:
    requests = [
        vm("a", host="host-1"),
        vm("b", host="host-1", tenant="tenant-2"),
        vm("c", host="host-2"),
    ]
    _, made = api.make(*requests, dedicated_host="DSv5-Type1", zone=zone)
    a, b, c = (read_place(one, REGION) for one in made)
    assert same_host(a, b) is True
    assert same_host(a, c) is False
    hosts = api.bodies("hosts")
    assert {host["sku"]["name"] for host in hosts} == {"DSv5-Type1"}
    assert len(hosts) == 2
    (group,) = api.bodies("hostGroups")
    assert group.get("zones") == ([zone] if zone else None)
    assert spread(api) == []


def test_a_host_of_the_plan_is_another_one_in_each_zone(api: Api) -> None:
    """Kinds of pairs share hosts, and each kind may be in a zone of its own."""
    requests = [
        vm(f"{end}{zone}", host=host, zone=zone)
        for zone in ("1", "2")
        for end, host in (("a", "host-1"), ("b", "host-1"), ("c", "host-2"))
    ]
    _, made = api.make(*requests, dedicated_host="DSv5-Type1")
    hosts = {one.spec.request.name: one.spec.placement.host for one in made}
    assert hosts["a1"] == hosts["b1"]
    assert hosts["a2"] == hosts["b2"]
    assert len(set(hosts.values())) == len(api.bodies("hosts")) == 4
    assert [group["zones"] for group in api.bodies("hostGroups")] == [["1"], ["2"]]


@pytest.mark.parametrize("zone", [f"{REGION}-az1", f"{REGION}-az2"])
def test_a_physical_zone_is_the_same_in_all_subscriptions(api: Api, zone: str) -> None:
    requests: list[EndpointRequest] = [vm("a"), vm("b", tenant="tenant-2")]
    _, made = api.make(*requests, tenants=TENANTS, zone=zone)
    logical = [one["zones"] for one in api.bodies("virtualMachines")]
    assert sorted(logical) == sorted(
        [[key] for there in api.arm.zones.values() for key, name in there.items() if name == zone]
    )
    assert {read_place(one, REGION).zone for one in made} == {zone}
    assert {read_place(one, REGION).tenant for one in made} == set(TENANTS)


def test_a_vm_that_is_not_seen_for_a_moment_is_looked_for(api: Api) -> None:
    provider, made = api.make(vm("a"))
    endpoint = provider.endpoint(made[0], None)  # type: ignore[arg-type]
    api.arm.faults.append(Fault("GET .*virtualMachines/", 404, "ResourceNotFound"))
    (place,) = provider.describe([endpoint])
    assert place.region == REGION


def test_a_reclaimed_vm_is_reported_as_lost(api: Api) -> None:
    provider = AzureProvider(api.settings(spot=True), replace(USUAL, gone_s=0.2))
    (made,) = provider.begin(api.context(vm("a"))).create_all()
    endpoint = provider.endpoint(made, None)  # type: ignore[arg-type]
    (body,) = api.bodies("virtualMachines")
    body["properties"]["provisioningState"] = "Deleting"
    assert isinstance(provider.describe([endpoint])[0], Gone)
    api.arm.faults.append(Fault("GET .*virtualMachines/", 404, "ResourceNotFound", times=99))
    assert isinstance(provider.describe([endpoint])[0], Gone)


def test_models_of_the_sdk_are_ready_before_threads_use_them(api: Api) -> None:
    """One that two threads use first at once may give dictionaries instead of objects."""
    Subscription({"cloud": SUBSCRIPTION, "uri": api.arm.url})
    for models in (compute_models, network_models):
        found = [getattr(models, name) for name in models.__all__]
        ready = {f"{one.__module__}.{one.__qualname__}" for one in found if hasattr(one, "as_dict")}
        assert ready
        assert ready <= set(models.SubResource._calculated)
