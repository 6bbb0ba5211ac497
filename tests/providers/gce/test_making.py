"""What is asked of the API for what the settings and the plan say, and what is read back."""

from __future__ import annotations

from typing import Any

import pytest

from osmef.errors import CapacityError, NotFoundError, PolicyError, QuotaError
from osmef.providers.base import EndpointRequest
from osmef.providers.gce.lookup import disk_type_of, find_image
from osmef.providers.gce.provider import GceProvider, plan_zones
from osmef.remote.login import KeyPair
from osmef.scenario.fields import DATA_PORTS, Family, FlavorNeed, ProviderNetwork
from osmef.scenario.location import distance, same_host
from tests.gce.cloud import CONTROLLER
from tests.gce.services.contents import IMAGES
from tests.providers.gce.lab import LONG_S, Lab, asked, context, refusal, vm

DATA = f"{DATA_PORTS.start}-{DATA_PORTS.stop - 1}"
NEWEST = IMAGES["debian-12"]
UNREAD = {"kind": "call", "pattern": "/getGuestAttributes", **refusal(404, "notFound")}
NOT_READY = {"kind": "call", "pattern": "/serialPort", **refusal(400, "resourceNotReady")}


def test_vm_disk_and_network_requests_follow_the_settings(lab: Lab) -> None:
    settings = {
        "tier_1": True,
        "spot": True,
        "disk": "20GiB",
        "disk_type": "pd-ssd",
        "mtu": 8896,
        "show_hosts": True,
    }
    with lab.cloud.recorded() as calls, lab.made(vm(), **settings) as (_provider, (endpoint,)):
        (body,) = (call["body"] for call in asked(calls(), "instances.insert"))
        (network,) = (call["body"] for call in asked(calls(), "networks.insert"))
    run_s = int(body["scheduling"].pop("maxRunDuration")["seconds"])
    assert LONG_S - 300 < run_s <= LONG_S
    assert body["scheduling"] == {
        "automaticRestart": False,
        "exposeHostTopology": True,
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",
        "provisioningModel": "SPOT",
    }
    assert body["networkInterfaces"][0]["nicType"] == "GVNIC"
    assert body["networkPerformanceConfig"] == {"totalEgressBandwidthTier": "TIER_1"}
    disk = body["disks"][0]
    assert (disk["autoDelete"], disk["initializeParams"]["diskSizeGb"]) == (True, "20")
    assert disk["initializeParams"]["diskType"].endswith("/pd-ssd")
    assert body["labels"]["osmef_run"].startswith("lab-")
    assert (network["autoCreateSubnetworks"], network["mtu"]) == (False, 8896)
    assert (endpoint.flavor, endpoint.vcpus, endpoint.image) == ("n2-standard-4", 4, NEWEST)


def test_the_default_vm_is_no_spot_vm_and_authorizes_only_our_key(lab: Lab) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.made(vm(), nic="virtio") as (_provider, (endpoint,)),
    ):
        (body,) = (call["body"] for call in asked(calls(), "instances.insert"))
    assert "provisioningModel" not in body["scheduling"]
    assert "networkPerformanceConfig" not in body
    assert body["networkInterfaces"][0]["nicType"] == "VIRTIO_NET"
    metadata = {item["key"]: item["value"] for item in body["metadata"]["items"]}
    assert isinstance(endpoint.login.key, KeyPair)
    assert metadata == {
        "block-project-ssh-keys": "TRUE",
        "enable-guest-attributes": "TRUE",
        "enable-oslogin": "FALSE",
        "ssh-keys": f"debian:{endpoint.login.key.public.strip()}",
    }


def test_the_firewall_admits_ssh_from_the_controller_and_data_from_the_peers(lab: Lab) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.made(vm("a"), vm("b", "host-2", "tenant-2")) as (provider, endpoints),
    ):
        a, b = endpoints
        provider.admit([a], ["203.0.113.9"])
        provider.admit([b], [])
        bodies = [call["body"] for call in asked(calls(), "firewalls.insert")]
        inside = provider.data_address(a, a, ProviderNetwork.BARE, Family.IPV4)
        outside = provider.data_address(b, a, ProviderNetwork.BARE, Family.IPV4)
        own = provider.listen_address(b, a, ProviderNetwork.BARE, Family.IPV4)
    assert (inside, outside, own) == (a.data_address, b.public_address, b.data_address)
    rules = {
        (body["network"][-1], tuple(body["sourceRanges"]), tuple(body["allowed"][0]["ports"]))
        for body in bodies
    }
    assert rules == {
        ("1", (CONTROLLER,), ("22",)),
        ("2", (CONTROLLER,), ("22",)),
        ("1", ("10.1.0.0/20",), (DATA,)),
        ("2", ("10.2.0.0/20",), (DATA,)),
        ("1", (f"{b.public_address}/32",), (DATA,)),
        ("2", (f"{a.public_address}/32",), (DATA,)),
        ("1", tuple(sorted([f"{b.public_address}/32", "203.0.113.9/32"])), (DATA,)),
    }
    assert all(body["direction"] == "INGRESS" for body in bodies)


def test_zones_and_regions_of_the_endpoints_own(lab: Lab) -> None:
    """Three endpoints of a tenant: two in zones of a region, one in another region."""
    requests = [
        vm("a", "host-1"),
        vm("b", "host-2", zone="here-1-b"),
        vm("c", "host-3", zone="there-1-a"),
    ]
    with (
        lab.cloud.recorded() as calls,
        lab.made(*requests, zone="here-1-a") as (provider, endpoints),
    ):
        places = provider.describe(endpoints)
        policies = asked(calls(), "resourcePolicies.insert")
        subnets = [call["body"]["ipCidrRange"] for call in asked(calls(), "subnetworks.insert")]
    assert [place.zone for place in places] == ["here-1-a", "here-1-b", "there-1-a"]
    assert [place.region for place in places] == ["here-1", "here-1", "there-1"]
    a, b, c = places
    assert same_host(a, b) is same_host(a, c) is same_host(b, c) is False
    assert (distance(a, b), distance(a, c)) == (2, 2)
    assert policies == []
    assert len(set(subnets)) == 2


def test_a_vm_of_this_zone_and_one_that_comes_to_it_are_spread_together(lab: Lab) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.made(vm("a", zone="here-1-a"), vm("b", "host-2")) as (provider, endpoints),
    ):
        a, b = provider.describe(endpoints)
        (policy,) = (call["body"] for call in asked(calls(), "resourcePolicies.insert"))
    assert policy["groupPlacementPolicy"] == {"availabilityDomainCount": 2}
    assert a.zone == b.zone == "here-1-a"
    assert same_host(a, b) is False


@pytest.mark.parametrize(
    ("settings", "policy", "domains"),
    [
        ({}, {"availabilityDomainCount": 2}, [1, 2]),
        ({"compact": True}, {"collocation": "COLLOCATED"}, [None, None]),
    ],
)
def test_placement_policy_of_a_pair(
    lab: Lab, settings: dict[str, Any], policy: dict[str, Any], domains: list[int | None]
) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.made(vm("a"), vm("b", "host-2"), vm("c", None), **settings) as (provider, endpoints),
    ):
        a, b, c = provider.describe(endpoints)
        (asked_policy,) = (call["body"] for call in asked(calls(), "resourcePolicies.insert"))
        bodies = {
            call["body"]["name"][-1]: call["body"] for call in asked(calls(), "instances.insert")
        }
    assert asked_policy["groupPlacementPolicy"] == policy
    got = [bodies[number]["scheduling"].get("availabilityDomain") for number in "12"]
    assert got == domains
    assert all(bodies[number]["resourcePolicies"] for number in "12")
    assert "resourcePolicies" not in bodies["3"]
    # Of compact VMs and of those without a wish the cloud tells nothing, unless it is asked to.
    assert same_host(a, b) is (None if "compact" in settings else False)
    assert same_host(a, c) is None


def test_hosts_that_the_cloud_reports_are_read_back(lab: Lab) -> None:
    with (
        lab.cloud.fault("host", "", times=2, host="host-7"),
        lab.made(vm("a"), vm("b", "host-2"), compact=True, show_hosts=True) as (provider, ends),
    ):
        a, b = provider.describe(ends)
    assert (a.host, a.rack, a.host_scope) == ("host-7", "sub-1", "alpha-1")
    assert same_host(a, b) is True


def test_a_replacement_endpoint_is_created_before_the_old_one_is_deleted(lab: Lab) -> None:
    provider, wanted = lab.provider(compact=True), context(vm("a"), vm("b", "host-2"))
    _, old = lab.create(provider, wanted)
    new = lab.cloud.here(lambda: provider.replace(old, wanted))
    there = lab.owned()
    provider.close()
    assert new.resource_id != old.resource_id
    assert new.request == old.request
    assert len([one for one in there if one.startswith("instance ")]) == 2
    events = [
        (event, str(resource.name).rpartition("-vm-")[2])
        for event, resource in wanted.ledger.events  # type: ignore[attr-defined]
        if resource.kind == "instance"
    ]
    assert events[-4:-2] == [("created", "3"), ("destroyed", "2")]
    assert lab.owned() == []


def test_after_an_unreachable_replacement_the_old_endpoint_is_described(lab: Lab) -> None:
    """Both stand on one host, and the new one on another: what is measured is the old one."""
    provider, wanted = lab.provider(compact=True, show_hosts=True), context(vm("a"), vm("b"))
    with lab.cloud.fault("host", times=2, host="host-7"):
        a, b = lab.create(provider, wanted)
    unread = {**UNREAD, **refusal(403, "forbidden"), "times": 99}
    with (
        lab.cloud.faults({"kind": "host", "pattern": "", "times": 1, "host": "host-8"}, unread),
        pytest.raises(PolicyError),
    ):
        lab.cloud.here(lambda: provider.replace(b, wanted))
    made = len([one for one in lab.owned() if one.startswith("instance ")])
    places = provider.describe([a, b])
    provider.close()
    assert made == 3
    assert [place.host for place in places] == ["host-7", "host-7"]
    assert lab.owned() == []


def test_the_address_of_a_deleted_vm_is_removed_from_the_rules(lab: Lab) -> None:
    requests = [vm("a"), vm("b", "host-2", "tenant-2")]
    provider, wanted = lab.provider(), context(*requests)
    with lab.cloud.recorded() as calls:
        old, other = lab.create(provider, wanted)
        provider.admit([old], ["203.0.113.9"])
        new = lab.cloud.here(lambda: provider.replace(old, wanted))
        provider.admit([new], ["203.0.113.10"])
        there = {one.removeprefix("firewall ") for one in lab.owned() if "firewall" in one}
        provider.close()
        allow_ingress = {
            source
            for call in asked(calls(), "firewalls.insert")
            if call["body"]["name"] in there
            for source in call["body"]["sourceRanges"]
        }
    stand = {f"{new.public_address}/32", f"{other.public_address}/32"}
    assert allow_ingress == {CONTROLLER, "10.1.0.0/20", "10.2.0.0/20", *stand, "203.0.113.10/32"}
    assert lab.owned() == []


@pytest.mark.parametrize(
    ("flavor", "found"),
    [
        (None, "n2-standard-4"),
        ("e2-standard-2", "e2-standard-2"),
        (FlavorNeed(vcpus=1), "e2-standard-2"),
        (FlavorNeed(vcpus=3), "n2-standard-4"),
        (FlavorNeed.model_validate({"vcpus": 3, "ram": "20GiB"}), "n2-highmem-4"),
        (FlavorNeed(vcpus=5), "c4-standard-8"),
    ],
)
def test_machine_type_by_name_and_by_need(
    lab: Lab, flavor: str | FlavorNeed | None, found: str
) -> None:
    """The one that fits a need for five CPUs is only in the second zone."""
    settings = lab.settings()
    plan = plan_zones(lab.project(), settings, [vm(flavor=flavor)])
    rare = found == "c4-standard-8"
    assert list(plan.free) == (["here-1-b"] if rare else ["here-1-a", "here-1-b"])
    assert {one.name for zone in plan.free for one in plan.zones[zone].values()} == {found}
    disk = "hyperdisk-balanced" if rare else "pd-balanced"
    assert disk_type_of(settings, found) == disk


@pytest.mark.parametrize(
    "image",
    [
        None,
        "debian-12",
        NEWEST,
        f"debian-cloud/{NEWEST}",
        "projects/debian-cloud/global/images/family/debian-12",
        f"https://www.googleapis.com/compute/v1/projects/debian-cloud/global/images/{NEWEST}",
    ],
)
def test_image_by_family_name_and_path_is_the_same(lab: Lab, image: str | None) -> None:
    found = find_image(lab.project(), image, "X86_64")
    assert found.path == f"projects/debian-cloud/global/images/{NEWEST}"


@pytest.mark.parametrize(
    ("settings", "request_", "said"),
    [
        ({"image": "debian-99"}, vm(), "no image 'debian-99'"),
        ({"region": "nowhere-1"}, vm(), "here-1, there-1"),
        ({"zone": "here-1-x"}, vm(), "there is no zone 'here-1-x'"),
        ({"zone": "here-1-c"}, vm(flavor="c4-standard-8"), "the zone 'here-1-c' is not up"),
        ({"region": "dark-1"}, vm(), "no zone of dark-1 is up"),
        ({}, vm(zone="far-9-a"), "there is no region 'far-9'"),
        ({"image": "debian-12"}, vm(flavor="t2a-standard-4"), "debian-12 is for X86_64"),
        ({}, vm(flavor="n9-mega-4"), "lacks n9-mega-4"),
        ({}, vm(flavor="n2-standard-44"), "did you mean n2-standard-4"),
        ({}, vm(flavor=FlavorNeed(vcpus=64)), "lacks 64vcpu"),
        ({"zone": "here-1-a"}, vm(flavor="c4-standard-8"), "zone here-1-a lacks"),
        ({"node_group": "other", "zone": "here-1-a"}, vm(), "nodes 'other'"),
    ],
)
def test_missing_names_are_found_before_anything_is_created(
    lab: Lab, settings: dict[str, Any], request_: EndpointRequest, said: str
) -> None:
    with lab.cloud.recorded() as calls, pytest.raises(NotFoundError) as caught:
        lab.provider(**settings).check([request_])
    assert said in str(caught.value)
    assert caught.value.cure
    assert not [call for call in calls() if call.get("id", "").endswith("insert")]


@pytest.mark.parametrize(
    ("settings", "limits", "short"),
    [
        ({}, {"N2_CPUS": 7.0}, "8 N2_CPUS (quota 7, in use 0)"),
        ({"default_flavor": "e2-standard-2"}, {"CPUS": 3.0}, "4 CPUS (quota 3, in use 0)"),
        ({}, {"INSTANCES": 1.0, "IN_USE_ADDRESSES": 1.0}, "2 INSTANCES"),
        ({"disk": "501GiB"}, {}, "1002 SSD_TOTAL_GB"),
        ({"disk": "501GiB", "disk_type": "pd-standard"}, {"DISKS_TOTAL_GB": 9.0}, "DISKS_TOTAL"),
        ({}, {"NETWORKS": 1.0}, "2 NETWORKS"),
        ({}, {"CPUS_ALL_REGIONS": 7.0}, "8 CPUS_ALL_REGIONS"),
        ({"spot": True}, {"PREEMPTIBLE_CPUS": 7.0}, "8 PREEMPTIBLE_CPUS"),
        ({"spot": True}, {"PREEMPTIBLE_CPUS": 0.0, "N2_CPUS": 7.0}, "8 N2_CPUS"),
    ],
)
def test_quotas_are_compared_with_the_plan_before_anything_is_made(
    lab: Lab, settings: dict[str, Any], limits: dict[str, float], short: str
) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.cloud.fault("quota", times=2, limits=limits),
        pytest.raises(QuotaError) as caught,
    ):
        lab.provider(**settings).check([vm("a"), vm("b", "host-2", "tenant-2")])
    assert short in str(caught.value)
    assert not [call for call in calls() if call.get("id", "").endswith("insert")]


def test_quotas_that_suffice_are_no_error(lab: Lab) -> None:
    lab.provider().check([vm("a"), vm("b", "host-2", "tenant-2")])
    lab.provider(default_flavor="e2-standard-2").check([vm("a")])
    with lab.cloud.fault("quota", times=2, limits={"PREEMPTIBLE_CPUS": 0.0}):
        lab.provider(spot=True).check([vm("a")])
    with lab.cloud.fault("quota", times=2, limits={"CPUS": 0.0}):  # C4 has a quota elsewhere
        lab.provider(default_flavor="c4-standard-8").check([vm("a")])


def test_more_hosts_than_the_group_has_nodes_are_refused(lab: Lab) -> None:
    provider = lab.provider(node_group="nodes", zone="here-1-a")
    provider.check([vm("a"), vm("b", "host-2")])
    with pytest.raises(CapacityError, match="3 different hosts at once, and there are 2 nodes"):
        provider.check([vm("a"), vm("b", "host-2"), vm("c", "host-3")])


def test_more_hosts_than_a_spread_policy_has_domains_are_refused(lab: Lab) -> None:
    hosts = [vm(str(n), f"host-{n}", flavor="e2-standard-2") for n in range(9)]
    lab.provider().check(hosts[:8])
    lab.provider(compact=True, default_flavor="n2-standard-4").check([vm(str(n)) for n in range(9)])
    with lab.cloud.recorded() as calls, pytest.raises(CapacityError, match="9 different hosts"):
        lab.provider().check(hosts)
    assert not [call for call in calls() if call.get("id", "").endswith("insert")]


def test_owned_resources_carry_the_run_and_its_times(lab: Lab) -> None:
    access = lab.access
    with lab.made(vm("a"), vm("b", "host-2")):
        found = GceProvider.owned(access)
        others = GceProvider.owned(access, "another-run")
    assert {one.kind for one in found} == {"instance", "policy", "firewall", "subnet", "network"}
    assert {one.run for one in found} == {context().run}
    assert all(one.made and one.deadline and one.made < one.deadline for one in found)
    assert others == []


@pytest.mark.parametrize(
    ("settings", "faults", "source"),
    [
        ({"host_keys": "given"}, [], "first data"),
        # The guest may write both between the two questions: the port is not read here.
        ({}, [{**NOT_READY, "times": 99}], "guest attributes"),
        ({}, [{**UNREAD, "times": 99}, {**NOT_READY, "times": 2}], "serial port"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_host_key_is_known_before_the_first_connection(
    lab: Lab, settings: dict[str, Any], faults: list[dict[str, Any]], source: str
) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.cloud.faults(*faults),
        lab.made(vm(), **settings) as (_provider, (endpoint,)),
    ):
        ports = [call["status"] for call in calls() if "/serialPort" in call["call"]]
    assert source in endpoint.login.host_keys.source
    assert len(endpoint.login.host_keys.accepted) == 1
    assert ports[:2] == ([400, 400] if source == "serial port" else ports[:2])
