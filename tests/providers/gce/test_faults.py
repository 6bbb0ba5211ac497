"""Faults, each at the level of HTTP: lost answers, refusals, lags, kills, failures half-way."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud import compute_v1

from osmef.errors import (
    ApiError,
    BootError,
    CapacityError,
    PolicyError,
    ProviderError,
    QuotaError,
)
from osmef.providers.base import Resource
from osmef.providers.gce.provider import GceProvider
from osmef.scenario.location import Gone
from tests.providers.conftest import MemoryLedger
from tests.providers.gce.lab import RUN, Lab, asked, context, refusal, vm
from tests.providers.quick import PACE

FULL: dict[str, Any] = {
    "code": "ZONE_RESOURCE_POOL_EXHAUSTED",
    "message": "The zone does not have enough resources available.",
    "status": 503,
}
BROKEN: dict[str, Any] = {"code": "INTERNAL_ERROR", "message": "It broke.", "status": 500}
INSERT_VM = "POST .*/instances"


def test_operations_are_polled_until_they_end(lab: Lab) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.cloud.fault("slow", "insert .*/networks/", seconds=3.0),
        lab.made(vm()) as (_provider, endpoints),
    ):
        polls = asked(calls(), "globalOperations.get")
        subnet = asked(calls(), "subnetworks.insert")[0]
    assert len(endpoints) == 1
    assert len([poll for poll in polls if poll["at"] < subnet["at"]]) >= 3


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (BROKEN, ProviderError),
        ({**BROKEN, "code": "QUOTA_EXCEEDED", "status": 403}, QuotaError),
        ({**BROKEN, "code": "PERMISSIONS_ERROR", "status": 403}, PolicyError),
    ],
)
def test_an_operation_that_ends_with_an_error_ends_the_run(
    lab: Lab, end: dict[str, Any], error: type[ProviderError]
) -> None:
    """The second of two VMs fails: the first one is there already, and all of it goes again."""
    with (
        lab.cloud.fault("operation", "insert .*/instances/.*-vm-2", **end),
        pytest.raises(ProviderError, match=r"making the instance .*-vm-2: It broke") as caught,
        lab.made(vm("a"), vm("b", "host-2")),
    ):
        pass
    assert type(caught.value) is error
    assert lab.owned() == []


@pytest.mark.parametrize("end", [FULL, BROKEN])
def test_a_refused_vm_is_not_looked_for_at_teardown(lab: Lab, end: dict[str, Any]) -> None:
    """The journal says at once that it is not there, and nothing of the removal waits for it."""
    provider, wanted = lab.provider(zone="here-1-a"), context(vm())
    with (
        lab.cloud.fault("operation", "insert .*/instances/", **end),
        pytest.raises(ProviderError),
    ):
        lab.create(provider, wanted)
    assert isinstance(wanted.ledger, MemoryLedger)
    assert [event for event, one in wanted.ledger.events if one.kind == "instance"] == [
        "intend",
        "destroyed",
    ]
    with lab.cloud.recorded() as calls:
        provider.close()
    assert not asked(calls(), "instances.get")
    assert len(asked(calls(), "networks.list")) == 1


def test_lists_of_several_pages_are_read_to_the_end(lab: Lab) -> None:
    with lab.made(*(vm(str(n)) for n in range(3))), lab.cloud.recorded() as calls:
        there = lab.owned()
    assert len([one for one in there if one.startswith("instance ")]) == 3
    pages = asked(calls(), "instances.aggregatedList")
    assert "pageToken" in pages[-1]["call"]


@pytest.mark.parametrize(
    ("status", "reason"),
    [(429, "rateLimitExceeded"), (503, "backendError"), (403, "userRateLimitExceeded")],
)
def test_a_busy_api_is_retried_after_its_retry_after_time(
    lab: Lab, status: int, reason: str
) -> None:
    busy = refusal(status, reason, **{"Retry-After": "1"})
    with (
        lab.cloud.recorded() as calls,
        lab.cloud.fault("call", "POST .*/networks", times=1, **busy),
        lab.made(vm()) as (_provider, endpoints),
    ):
        first, second = [c for c in calls() if "/networks" in c["call"] and "POST" in c["call"]]
    assert len(endpoints) == 1
    assert (first["status"], second["status"]) == (status, 200)
    assert second["at"] - first["at"] >= 1.0 / PACE


def test_an_api_that_is_down_for_long_is_an_error(lab: Lab) -> None:
    down = refusal(503, "backendError", "down for maintenance", **{"Retry-After": "3600"})
    with (
        lab.cloud.fault("call", "POST .*/networks", times=1000, **down),
        pytest.raises(ApiError, match="-net-1: down for maintenance"),
        lab.made(vm()),
    ):
        pass
    assert lab.owned() == []


FORBIDDEN = {
    "constraints/compute.vmExternalIpAccess": (
        "Constraint constraints/compute.vmExternalIpAccess violated for project 4711."
    ),
    "constraints/gcp.resourceLocations": (
        "Location ZONE:here-1-a violates constraint constraints/gcp.resourceLocations on the"
        " resource projects/red/zones/here-1-a/instances/a."
    ),
}


@pytest.mark.parametrize(("policy", "said"), FORBIDDEN.items(), ids=FORBIDDEN)
def test_an_organization_policy_that_forbids_a_vm_is_named(
    lab: Lab, policy: str, said: str
) -> None:
    with (
        lab.cloud.fault("call", INSERT_VM, **refusal(412, "conditionNotMet", said)),
        pytest.raises(PolicyError, match=said) as caught,
        lab.made(vm()),
    ):
        pass
    assert f"organization policy {policy}" in str(caught.value.cure)
    assert lab.owned() == []


def test_a_quota_exceeded_meanwhile_is_reported(lab: Lab) -> None:
    said = "Quota 'N2_CPUS' exceeded.  Limit: 8.0 in region here-1."
    with (
        lab.cloud.fault("call", INSERT_VM, **refusal(403, "quotaExceeded", said)),
        pytest.raises(QuotaError, match="Quota 'N2_CPUS' exceeded"),
        lab.made(vm()),
    ):
        pass
    assert lab.owned() == []


def test_other_zone_is_tried_where_one_has_no_room(lab: Lab) -> None:
    """One of two VMs is there already when the zone has no room for the other."""
    with (
        lab.cloud.fault("operation", "insert .*here-1-a/instances/.*-vm-2", **FULL),
        lab.made(vm("a"), vm("b", "host-2")) as (provider, endpoints),
    ):
        places = provider.describe(endpoints)
        there = lab.owned()
    assert {place.zone for place in places} == {"here-1-b"}
    assert len([one for one in there if one.startswith(("instance ", "policy "))]) == 3
    assert lab.owned() == []


def test_a_vm_with_a_requested_zone_stays_when_others_change_zone(lab: Lab) -> None:
    """The zone has room for the VM that asks for it, and none for the one that may go elsewhere."""
    with (
        lab.cloud.fault("operation", "insert .*here-1-a/instances/.*-vm-2", **FULL),
        lab.made(vm("a", zone="here-1-a"), vm("b", "host-2")) as (provider, endpoints),
    ):
        places = provider.describe(endpoints)
        there = lab.owned()
    assert [place.zone for place in places] == ["here-1-a", "here-1-b"]
    assert len([one for one in there if one.startswith("instance ")]) == 2
    assert not [one for one in there if one.startswith("policy ")]
    assert lab.owned() == []


def test_a_zone_of_its_own_without_room_is_not_asked_again_for_the_others_sake(lab: Lab) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.cloud.fault("operation", "insert .*here-1-a/instances/", times=1000, **FULL),
        pytest.raises(CapacityError),
        lab.made(vm("a", zone="here-1-a"), vm("b", "host-2")),
    ):
        pass
    assert len(asked(calls(), "instances.insert")) == 1
    assert lab.owned() == []


def test_region_without_room_is_an_error_of_capacity(lab: Lab) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.cloud.fault("operation", "insert .*/instances/", times=1000, **FULL),
        pytest.raises(CapacityError, match="enough resources") as caught,
        lab.made(vm()),
    ):
        pass
    assert "another zone" in str(caught.value.cure)
    zones = [call["call"].split("/")[-2] for call in asked(calls(), "instances.insert")]
    assert zones == ["here-1-a", "here-1-b"]
    assert lab.owned() == []


def test_zone_that_is_asked_for_is_not_left(lab: Lab) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.cloud.fault("operation", "insert .*/instances/", **FULL),
        pytest.raises(CapacityError),
        lab.made(vm(), zone="here-1-a"),
    ):
        pass
    assert len(asked(calls(), "instances.insert")) == 1
    assert lab.owned() == []


@pytest.mark.parametrize(
    ("pattern", "permission"),
    [
        (INSERT_VM, "compute.instances.create"),
        ("POST .*/firewalls", "compute.firewalls.create"),
        (
            "GET .*/getGuestAttributes",
            "compute.instances.getGuestAttributes",
        ),
        ("GET .*/zones\\?|GET .*/zones$", "compute.zones.list"),
    ],
)
def test_a_permission_that_is_lacking_is_named(lab: Lab, pattern: str, permission: str) -> None:
    said = f"Required '{permission}' permission for 'projects/alpha-1/things/x'"
    with (
        lab.cloud.fault("call", pattern, times=1000, **refusal(403, "forbidden", said)),
        pytest.raises(PolicyError, match=permission) as caught,
        lab.made(vm()),
    ):
        pass
    assert f"grant {permission}" in str(caught.value.cure)
    assert lab.owned() == []


def test_a_denied_deletion_is_reported_and_left_for_reap(lab: Lab) -> None:
    said = "Required 'compute.instances.delete' permission for 'projects/alpha-1/zones/here-1-a/x'"
    denied = refusal(403, "forbidden", said)
    with (
        lab.cloud.fault("call", "DELETE .*/instances/", times=1000, **denied),
        pytest.raises(PolicyError, match=r"compute\.instances\.delete"),
        lab.made(vm()),
    ):
        pass
    left = {one.split()[0] for one in lab.owned()}
    assert left == {"instance", "network", "subnet"}
    where = ("--provider", "gce", "--cloud", "alpha-1", "--uri", lab.cloud.url)
    reaped = lab("reap", "--yes", "--older-than", "100ms", *where)
    assert reaped.code == 0, reaped.err
    assert lab.owned() == []


@pytest.mark.parametrize(
    "lag",
    [
        ("GET .*/zones/[a-z0-9-]+/instances/", 404, "notFound"),
        ("GET .*/operations/", 404, "notFound"),
        ("POST .*/firewalls", 400, "resourceNotReady"),
        ("POST .*/subnetworks", 404, "notFound"),
    ],
    ids=lambda lag: lag[0],
)
def test_a_resource_just_created_may_become_visible_late(
    lab: Lab, lag: tuple[str, int, str]
) -> None:
    pattern, status, reason = lag
    said = f"The resource 'projects/alpha-1/global/networks/osmef-{RUN}-net-1' was not found"
    with (
        lab.cloud.recorded() as calls,
        lab.cloud.fault("call", pattern, times=2, **refusal(status, reason, said)),
        lab.made(vm()) as (_provider, endpoints),
    ):
        pass
    assert len(endpoints) == 1
    assert [call["status"] for call in calls()].count(status) >= 2
    assert lab.owned() == []


def test_resources_not_yet_visible_in_lists_are_still_deleted(lab: Lab) -> None:
    provider, wanted = lab.provider(), context(vm())
    lab.create(provider, wanted)
    unseen = {"kind": "call", "pattern": "GET .*/zones/[a-z0-9-]+/instances/", "times": 1}
    with lab.cloud.faults(
        {"kind": "hide", "pattern": "/instances/", "times": 1},
        {**unseen, **refusal(404, "notFound")},
    ):
        provider.close()
    assert lab.owned() == []


def test_a_resource_in_use_is_deleted_once_it_is_free(lab: Lab) -> None:
    said = "The network resource 'x' is already being used by 'y'"
    in_use = refusal(400, "resourceInUseByAnotherResource", said)
    late = {"code": "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "message": said, "status": 400}
    with (
        lab.made(vm()) as (provider, _endpoints),
        lab.cloud.faults(
            {"kind": "call", "pattern": "DELETE .*/networks/", "times": 2, **in_use},
            {"kind": "operation", "pattern": "delete .*/subnetworks/", "times": 1, **late},
        ),
    ):
        provider.close()
        assert lab.owned() == []


def test_lost_answers_make_nothing_twice(lab: Lab) -> None:
    with (
        lab.cloud.recorded() as calls,
        lab.cloud.fault("call", "POST ", times=3, lose=True),
        lab.made(vm("a"), vm("b", "host-2")) as (_provider, endpoints),
    ):
        there = lab.owned()
    assert len(endpoints) == 2
    assert len([one for one in there if one.startswith("instance ")]) == 2
    assert len(asked(calls(), "networks.insert")) == 4
    assert lab.owned() == []


def test_a_refusal_after_a_lost_answer_does_not_prove_that_no_vm_was_created(lab: Lab) -> None:
    """The VM was made when its answer was lost: what came after it says nothing of that."""
    post = {"kind": "call", "pattern": INSERT_VM, "times": 1}
    provider, wanted = lab.provider(), context(vm())
    with (
        lab.cloud.faults({**post, "lose": True}, {**post, **refusal(403, "forbidden")}),
        pytest.raises(PolicyError),
    ):
        lab.create(provider, wanted)
    there = lab.owned()
    provider.close()
    assert [one for one in there if one.startswith("instance ")]
    assert lab.owned() == []


def test_an_unmarked_resource_with_our_name_is_never_used(lab: Lab) -> None:
    """It has the name of something of ours, and a description that is almost a mark."""
    access = lab.access
    project, name = lab.project(), f"osmef-{RUN.lower()}-net-1"
    body = compute_v1.Network(
        name=name, description=f"osmef run={RUN} of mine", auto_create_subnetworks=False
    )
    project.change("making", compute_v1.NetworksClient, "insert_unary", network_resource=body)
    gone: list[Resource] = []
    wanted = [
        Resource("gce", "network", name, RUN, name, access=access),
        Resource("gce", "network", name, RUN, access=access),
        Resource("gce", "instance", "osmef-x", RUN, "here-1-a/osmef-x", access=access),
    ]
    GceProvider.destroy(wanted, gone.append)
    with (
        pytest.raises(ProviderError, match="already exists"),
        lab.made(vm()),
    ):
        pass
    there = project.every("looking", compute_v1.NetworksClient)
    project.change("deleting", compute_v1.NetworksClient, "delete_unary", network=name)
    assert lab.owned() == []
    assert [one.name for one in there] == [name]
    assert len(gone) == 3


def test_a_guest_that_never_boots_is_reported_with_its_serial_output(lab: Lab) -> None:
    with (
        lab.cloud.fault("boot", "-vm-1$"),
        pytest.raises(BootError, match="Kernel panic"),
        lab.made(vm(), boot_timeout="5s"),
    ):
        pass
    assert lab.owned() == []


def test_a_vm_that_is_being_taken_back_is_gone_already(lab: Lab) -> None:
    """Google stops a spot VM for up to half a minute before it deletes it."""
    with (
        lab.cloud.fault("slow", "delete .*/instances/", seconds=5.0),
        lab.made(vm("a"), vm("b", "host-2"), spot=True, zone="here-1-a") as (provider, endpoints),
    ):
        (name,) = (one.split()[1] for one in lab.owned() if one.endswith("-vm-1"))
        what = (compute_v1.InstancesClient, "delete")
        lab.project().ask("taking it back", *what, instance=name, zone="here-1-a")
        gone, other = provider.describe(endpoints)
    assert isinstance(gone, Gone)
    assert other.zone == "here-1-a"
