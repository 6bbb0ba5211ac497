"""Taking away what is ours: whole groups, in order where something is in the way, nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from osmef.errors import PolicyError, ProviderError
from osmef.providers.azure.provider import AzureProvider
from tests.azure.arm import OTHER, SUBSCRIPTION, Fault
from tests.providers.azure.conftest import Api, vm

OLD = {"osmef_made": "1", "osmef_deadline": "2"}
GROUP = "DELETE .*/resourcegroups/[^/]+$"


def destroy(api: Api) -> list[str]:
    gone: list[str] = []
    AzureProvider.destroy(api.owned(), lambda one: gone.append(f"{one.kind} {one.name}"))
    return gone


def test_all_created_resources_are_listed_and_deleted(api: Api) -> None:
    api.make(vm("a"), vm("b", tenant="tenant-2"), proximity=True)
    listed = sorted(f"{one.kind} {one.name}" for one in api.owned())
    disks = [one for one in listed if one.startswith("disk ")]
    assert sorted({*listed} - {*disks}) == api.events("created")
    assert len(disks) == 2
    assert all(one.deadline and one.made and one.run == "lab-1" for one in api.owned())
    assert sorted(destroy(api)) == listed
    assert api.arm.things == {}
    assert api.arm.count("DELETE ") == 2


def test_only_one_run_is_listed_where_one_is_asked_for(api: Api) -> None:
    provider = api.provider()
    provider.begin(api.context(vm("a"), run="lab-1")).create_all()
    api.provider().begin(api.context(vm("a"), run="lab-2")).create_all()
    found = AzureProvider.owned({"uri": api.arm.url}, "lab-2")
    assert {one.run for one in found} == {"lab-2"}
    provider.close()
    assert {one.run for one in api.owned()} == {"lab-2"}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "code", ["InUseSubnetCannotBeDeleted", "ResourceGroupDeletionBlocked", "NicInUse"]
)
def test_a_resource_group_that_cannot_be_deleted_at_once_is_deleted_part_by_part(
    api: Api, code: str, late: bool
) -> None:
    api.make(vm("a"), vm("b"), proximity=True)
    api.arm.faults.append(Fault(GROUP, 409, code, late=late))
    destroy(api)
    assert api.arm.things == {}
    deleted = [call.split("/")[-2] for call in api.arm.calls if call.startswith("DELETE ")]
    context = [one for one in dict.fromkeys(deleted) if one != "resourcegroups"]
    assert context == [
        "schedules",
        "virtualMachines",
        "disks",
        "networkInterfaces",
        "publicIPAddresses",
        "virtualNetworks",
        "networkSecurityGroups",
        "proximityPlacementGroups",
    ]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("DELETE .*networkInterfaces", "NicReservedForAnotherVm"),
        ("DELETE .*virtualNetworks", "InUseSubnetCannotBeDeleted"),
        ("DELETE .*publicIPAddresses", "PublicIPAddressCannotBeDeleted"),
        ("DELETE .*virtualMachines", "AnotherOperationInProgress"),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_a_resource_temporarily_in_use_is_deleted_later(
    api: Api, request_: str, code: str, late: bool
) -> None:
    api.make(vm("a"))
    api.arm.faults += [
        Fault(GROUP, 409, "ResourceGroupDeletionBlocked"),
        Fault(request_, 409, code, times=2, late=late),
    ]
    destroy(api)
    assert api.arm.things == {}


def test_a_resource_lock_is_reported_and_the_rest_is_deleted(api: Api) -> None:
    api.make(vm("a"))
    (address,) = api.bodies("publicIPAddresses")
    api.arm.locks.add(address["id"].lower())
    with pytest.raises(PolicyError, match="ScopeLocked") as caught:
        destroy(api)
    assert "az lock list" in str(caught.value.cure)
    left = {one["type"].split("/")[-1] for one in api.arm.things.values()}
    assert "publicIPAddresses" in left
    assert not left & {"virtualMachines", "disks", "networkInterfaces"}
    api.arm.locks.clear()
    destroy(api)
    assert api.arm.things == {}


def test_a_locked_resource_group_is_reported_and_other_groups_are_deleted(api: Api) -> None:
    api.make(vm("a"), vm("b", tenant="tenant-2"))
    first, _ = api.bodies("resourceGroups")
    api.arm.locks.add(first["id"].lower())
    with pytest.raises(PolicyError, match="ScopeLocked"):
        destroy(api)
    assert [one["id"] for one in api.bodies("resourceGroups")] == [first["id"]]


@pytest.mark.parametrize(
    "tags", [None, {}, {"osmef_run": "lab-1"}, {"osmef_run": "lab-2", "osmef_made": "1"}]
)
def test_a_resource_group_that_lost_our_mark_is_not_deleted(
    api: Api, tags: dict[str, str] | None
) -> None:
    api.make(vm("a"))
    known = api.owned()
    (group,) = api.bodies("resourceGroups")
    group["tags"] = tags
    before = dict(api.arm.things)
    gone: list[Any] = []
    AzureProvider.destroy(known, gone.append)
    assert api.arm.things == before
    assert sorted(map(str, gone)) == sorted(map(str, known))
    assert api.arm.count("DELETE ") == 0
    assert api.owned() == []


@pytest.mark.parametrize("odd", ["²", "9" * 200, "soon", None])
def test_unreadable_foreign_tags_are_reported_and_hide_no_resource(
    api: Api, odd: str | None
) -> None:
    api.make(vm("a"), vm("b", tenant="tenant-2"))
    first, second = api.bodies("resourceGroups")
    first["tags"] = {**first["tags"], "osmef_deadline": odd}
    lines: list[str] = []
    found = AzureProvider.owned({"uri": api.arm.url}, unread=lines.append)
    assert [one.name for one in found if one.kind == "resource-group"] == [second["name"]]
    (line,) = lines
    assert f"resource-group {first['name']}: its mark can't be read" in line


def test_resources_of_unknown_kinds_in_a_journal_are_not_accepted(api: Api) -> None:
    api.make(vm("a"), proximity=True)
    known = api.owned()
    assert all(AzureProvider.recognises(one) for one in known)
    assert not any(AzureProvider.recognises(replace(one, kind=f"{one.kind}s")) for one in known)
    for name in ("", "/", "a/b/c/d", "a//b"):
        assert not any(AzureProvider.recognises(replace(one, name=name)) for one in known)


def test_a_group_of_another_run_by_our_name_is_not_touched(api: Api) -> None:
    api.make(vm("a"))
    known = api.owned()
    (group,) = api.bodies("resourceGroups")
    group["tags"] = {**group["tags"], "osmef_run": "another"}
    AzureProvider.destroy(known, lambda _one: None)
    assert api.arm.count("DELETE ") == 0


@pytest.mark.parametrize(
    ("type_", "name", "tags"),
    [
        ("Microsoft.Compute/virtualMachines", "theirs", {}),
        ("Microsoft.Compute/virtualMachines", "1-a-copy", None),
        ("Microsoft.Compute/disks", "1-a-copy", {"osmef_run": "other"} | OLD),
        ("Microsoft.Compute/disks", "theirs", None),
        ("Microsoft.Storage/storageAccounts", "1-a", None),
    ],
)
def test_foreign_resources_in_our_resource_group_are_kept_with_it(
    api: Api, type_: str, name: str, tags: dict[str, str] | None
) -> None:
    api.make(vm("a"))
    (group,) = api.bodies("resourceGroups")
    theirs = {"id": f"{group['id']}/providers/{type_}/{name}", "name": name, "type": type_}
    api.arm.things[theirs["id"].lower()] = {**theirs, "tags": tags, "properties": {}}
    api.arm.role.add(f"{type_}/read".lower())
    assert theirs["id"] not in {one.id for one in api.owned()}
    with pytest.raises(ProviderError, match=f"{type_} {name}") as caught:
        destroy(api)
    assert "move or delete" in str(caught.value.cure)
    assert [one["name"] for one in api.arm.things.values()] == [group["name"], name]
    api.arm.things.pop(theirs["id"].lower())
    destroy(api)
    assert api.arm.things == {}


def test_sub_resources_of_our_resources_are_deleted_with_them(api: Api) -> None:
    api.make(vm("a"))
    (machine,) = api.bodies("virtualMachines")
    type_ = "Microsoft.Compute/virtualMachines/extensions"
    agent = {"id": f"{machine['id']}/extensions/agent", "name": "1-a/agent", "type": type_}
    api.arm.things[agent["id"].lower()] = {**agent, "properties": {}}
    destroy(api)
    assert api.arm.things == {}


def test_lists_are_read_to_their_end(api: Api) -> None:
    for number in range(3):
        api.provider().begin(api.context(vm("a"), run=f"lab-{number}")).create_all()
    before = api.arm.count("GET .*/resourcegroups$")
    assert {one.run for one in api.owned()} == {f"lab-{number}" for number in range(3)}
    assert api.arm.count("GET .*/resourcegroups$") - before == 3


def test_resources_deleted_by_others_meanwhile_count_as_deleted(api: Api) -> None:
    api.make(vm("a"))
    known = api.owned()
    api.arm.things.clear()
    gone: list[Any] = []
    AzureProvider.destroy(known, gone.append)
    assert len(gone) == len(known)


def test_a_group_that_was_only_intended_when_the_run_died_is_found_late(api: Api) -> None:
    provider = api.provider()
    api.arm.faults.append(Fault("PUT .*/resourcegroups/[^/]+$", 400, "Dead", lost=True))
    with pytest.raises(ProviderError):
        provider.create(api.context(vm("a")))
    (what, intended) = api.ledger.events[0]
    assert (what, intended.id) == ("intend", None)
    api.arm.faults.append(Fault("GET .*/resourcegroups/[^/]+$", 404, "ResourceGroupNotFound"))
    AzureProvider.destroy([intended], lambda _one: None)
    assert api.arm.things == {}


def test_a_group_that_was_made_a_moment_ago_is_looked_for_twice(api: Api) -> None:
    provider, _ = api.make(vm("a"))
    api.arm.faults.append(Fault("GET .*/resourcegroups/[^/]+$", 404, "ResourceGroupNotFound"))
    provider.close()
    assert api.arm.things == {}


def test_each_subscription_is_cleared_by_its_own_access(api: Api) -> None:
    tenants = {"red": SUBSCRIPTION, "blue": OTHER}
    provider, _ = api.make(vm("a"), vm("b", tenant="tenant-2"), tenants=tenants)
    assert len({one["id"].split("/")[2] for one in api.bodies("virtualMachines")}) == 2
    provider.close()
    assert api.arm.things == {}


@pytest.mark.parametrize("slow", [False, True])
def test_a_failed_deletion_is_reported_after_the_rest_is_deleted(api: Api, slow: bool) -> None:
    api.make(vm("a"), vm("b", tenant="tenant-2"))
    known = api.owned()
    forbidden = Fault("GET .*/resourcegroups/[^/]*-1$", 403, "Forbidden", times=1000)
    api.arm.faults.append(forbidden)
    if slow:
        api.arm.faults += [
            Fault(GROUP, 409, "ResourceGroupDeletionBlocked"),
            Fault("DELETE .*networkInterfaces", 400, "NicReservedForAnotherVm", times=2),
        ]
    with pytest.raises(PolicyError):
        AzureProvider.destroy(known, lambda _one: None)
    assert len(api.bodies("resourceGroups")) == 1
