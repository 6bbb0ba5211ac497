"""The resource types of Azure: how to make, list and delete one, and whole groups at once.

A thing is known by the name of its resource group and its own name in it, ``GROUP/NAME``; one
inside another thing by both, ``GROUP/OUTER/NAME``. The resource group alone is ``GROUP``.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from osmef.errors import NotFoundError, ProviderError
from osmef.providers.azure.access import Subscription
from osmef.providers.base import Resource, Unread, ignore_unreadable
from osmef.providers.cloud import resource_types
from osmef.providers.cloud.account import Again
from osmef.providers.cloud.resource_types import Found
from osmef.providers.marks import Mark
from osmef.providers.parallel import map_by_key

Body = dict[str, Any]
GROUP = "resource-group"
_VM_NAME = re.compile(r"\d+-[A-Za-z0-9-]+")
"""Of a VM of ours, and so of its disk."""


# By schedules Azure itself deallocates VMs that are no longer needed. A VM that
# powers itself off is billed as before; one that its schedule ends is deallocated, also where no
# guest ever booted. A schedule has a time of the day and no day, so it ends a VM when that time
# comes next. Source: Microsoft's "Auto-shutdown a virtual machine", and "Global Schedules" of the
# REST API of DevTest Labs.
_SCHEDULES = "microsoft.devtestlab/schedules"
_VERSION = "2018-09-15"
_SCHEDULE_OF = "shutdown-computevm-"
"""Azure takes a schedule of a VM by this name alone."""
FARTHEST_S = 23 * 3600.0
"""The time of the day of a later end might come before it; an hour is for making the schedule."""


def schedule_of(vm: str) -> str:
    """Return the name of a VM's shutdown schedule, with the group's."""
    group, name = vm.split("/")
    return f"{group}/{_SCHEDULE_OF}{name}"


def body_in(region: str, **properties: Any) -> Body:
    """Return the body of a request to create a resource in a region."""
    return {"location": region, "properties": properties}


def schedule_body(vm: str, region: str, ends: float) -> Body:
    """Return the schedule of a VM, given by its resource id, that ends it at a UNIX time."""
    minute = math.ceil(ends / 60) * 60
    time_of_day = datetime.datetime.fromtimestamp(minute, datetime.UTC)
    return body_in(
        region,
        status="Enabled",
        taskType="ComputeVmShutdownTask",
        dailyRecurrence={"time": f"{time_of_day:%H%M}"},
        timeZoneId="UTC",
        notificationSettings={"status": "Disabled"},
        targetResourceId=vm,
    )


@dataclass(frozen=True)
class Schedules:
    """Operations on schedules, by the SDK's generic ones."""

    subscription: Subscription

    def begin_create_or_update(self, group: str, name: str, body: Mapping[str, Any]) -> Any:
        """Create or update one."""
        return self.subscription.resources.resources.begin_create_or_update_by_id(
            resource_id=self._id(group, name), parameters=dict(body), api_version=_VERSION
        )

    def begin_delete(self, group: str, name: str) -> Any:
        """Delete one."""
        return self.subscription.resources.resources.begin_delete_by_id(
            resource_id=self._id(group, name), api_version=_VERSION
        )

    def _id(self, group: str, name: str) -> str:
        start = f"/subscriptions/{self.subscription.id}/resourceGroups/{group}"
        return f"{start}/providers/Microsoft.DevTestLab/schedules/{name}"


@dataclass(frozen=True)
class ResourceType(resource_types.ResourceType[Subscription]):
    """Resource type, by how the SDK makes, shows and deletes one; ``type`` is Azure's, lower-case.

    The mark is on the resource group: what is in a group without our mark is not ours.
    """

    type: str
    operations: Callable[[Subscription], Any]

    def has(self, resource: Resource) -> bool:
        """Return whether a name has the parts that one of this type has."""
        parts = resource.name.split("/")
        # PROVIDER/TYPE[/TYPE] has GROUP/NAME[/NAME], and the group is one itself.
        return all(parts) and len(parts) == self.type.count("/") + (self.name != GROUP)

    def request(self, mark: Mark, name: str, **body: Any) -> Body:  # noqa: ARG002
        """Return the request to create one."""
        return {**body, "tags": mark.tags}

    def create(self, account: Subscription, name: str, request: Body) -> Any:
        """Create or update one; return it, or its poller. Repeated, it makes nothing twice."""
        operations = self.operations(account)
        begin = getattr(operations, "begin_create_or_update", None)
        return (begin or operations.create_or_update)(*name.split("/"), request)

    def get(self, subscription: Subscription, name: str) -> Any:
        """Return one."""
        return self.operations(subscription).get(*name.split("/"))

    def owned(
        self, account: Subscription, run: str | None, unread: Unread = ignore_unreadable
    ) -> list[Found[Subscription]]:
        """List those in groups that carry our mark, of one run or all. Raises ProviderError."""
        return [one for one in list_owned(account, run, unread) if one.kind == self.name]

    def existing(
        self, account: Subscription, resources: Sequence[Resource]
    ) -> list[list[Found[Subscription]]]:
        """Return each whose group carries our mark; its deletion finds whether it still exists."""
        groups = {group_of(one) for one in resources}
        marks = map_by_key(lambda group: mark_of_group(account, group), groups)
        return [
            [Found(self.name, one.id or one.name, one.name, mark, account)]
            if (mark := marks[group_of(one)]) is not None and mark.run == one.run
            else []
            for one in resources
        ]

    def delete(self, found: Found[Subscription]) -> Any:
        """Delete one; return the poller, if it has one."""
        operations = self.operations(found.account)
        begin = getattr(operations, "begin_delete", None)
        return (begin or operations.delete)(*found.name.split("/"))


@dataclass(frozen=True)
class _Vm(ResourceType):
    """A VM, whose disk is deleted with it, unless the VM never ran."""

    def remove(self, found: Found[Subscription], again: Again) -> None:
        """Delete one and its disk; gone already is success. Raises ProviderError."""
        super().remove(found, again)
        TYPES["disk"].remove(replace(found, kind="disk"), again)


@dataclass(frozen=True)
class _GroupType(ResourceType):
    """A resource group, which is deleted with all that is in it."""

    def holds(self, holder: Resource, other: Resource) -> bool:
        """Return whether another resource is in a group."""
        return other.name.startswith(f"{holder.name}/")

    def inside(self, found: Found[Subscription]) -> list[Found[Subscription]]:
        """List our resources in a group. Raises ProviderError."""
        return list_group(found.account, found.name, found.mark)[0]

    def delete(self, found: Found[Subscription]) -> Any:
        """Delete a group without resources of others; return the poller. Raises ProviderError."""
        _, others = list_group(found.account, found.name, found.mark)
        if others:
            raise ProviderError(
                f"the resource group {found.name} stays, as others' things are in it: "
                + ", ".join(sorted(others)),
                where=found.account.name,
                cure="move or delete them, then: osmef reap --provider azure",
            )
        return super().delete(found)


_SDK = (
    ("vm", "compute/virtualmachines", "compute.virtual_machines"),
    ("disk", "compute/disks", "compute.disks"),
    ("network-interface", "network/networkinterfaces", "network.network_interfaces"),
    ("public-ip", "network/publicipaddresses", "network.public_ip_addresses"),
    ("network", "network/virtualnetworks", "network.virtual_networks"),
    ("security-group", "network/networksecuritygroups", "network.network_security_groups"),
    ("dedicated-host", "compute/hostgroups/hosts", "compute.dedicated_hosts"),
    ("host-group", "compute/hostgroups", "compute.dedicated_host_groups"),
    ("availability-set", "compute/availabilitysets", "compute.availability_sets"),
    ("proximity-group", "compute/proximityplacementgroups", "compute.proximity_placement_groups"),
    (GROUP, "resources/resourcegroups", "resources.resource_groups"),
)
"""Names, Azure's types, and where the SDK has their operations, in the order of deletion."""
_UNUSUAL: dict[str, type[ResourceType]] = {"vm": _Vm, GROUP: _GroupType}
"""Those whose deletion is not the usual one."""
TYPES: dict[str, ResourceType] = {
    "schedule": ResourceType("schedule", 0, _SCHEDULES, Schedules),
    **{
        name: _UNUSUAL.get(name, ResourceType)(
            *(name, stage, f"microsoft.{type_}", attrgetter(path)),
            is_last=name == GROUP,
            holds_others=name == GROUP,
        )
        for stage, (name, type_, path) in enumerate(_SDK, 1)
    },
}
"""By name."""
_BY_TYPE = {one.type: one for one in TYPES.values()}


def group_of(resource: Resource) -> str:
    """Return the name of the group that a resource is, or is in."""
    return resource.name.partition("/")[0]


def mark_of_group(subscription: Subscription, group: str) -> Mark | None:
    """Return the mark of a group; None where it has none, or is not there. Raises ProviderError."""
    doing = f"looking at the resource group {group}"
    try:
        found = subscription.do(doing, lambda: TYPES[GROUP].get(subscription, group))
    except NotFoundError:
        return None
    return Mark.of_tags(found.tags)


def list_owned(
    subscription: Subscription, run: str | None, unread: Unread = ignore_unreadable
) -> list[Found[Subscription]]:
    """List the groups that carry our mark, of one run or all, each after the resources in it.

    Raises ProviderError.
    """
    groups = subscription.do(
        "listing resource groups", lambda: list(subscription.resources.resource_groups.list())
    )
    found = []
    for group in groups:
        name = str(group.name)
        mark = Mark.of_listed(group.tags, f"{subscription.name}: {GROUP} {name}", unread)
        if mark is not None and run in {None, mark.run}:
            found += list_group(subscription, name, mark)[0]
            found.append(Found(GROUP, str(group.id), name, mark, subscription))
    return found


def list_group(
    subscription: Subscription, group: str, mark: Mark
) -> tuple[list[Found[Subscription]], list[str]]:
    """List the resources in a group of this run: its own, and foreign ones.

    Raises ProviderError.
    """
    try:
        there = subscription.do(
            f"listing the resource group {group}",
            lambda: list(subscription.resources.resources.list_by_resource_group(group)),
        )
    except NotFoundError:  # it went meanwhile
        return [], []
    runs = {str(one.id).lower(): getattr(Mark.of_tags(one.tags), "run", None) for one in there}
    marked = {id_ for id_, run in runs.items() if run == mark.run}
    ours, others = [], []
    for one in there:
        # /subscriptions/S/resourceGroups/G/providers/P/TYPE/NAME[/TYPE/NAME]
        name, type_ = "/".join([group, *str(one.id).split("/")[8::2]]), str(one.type).lower()
        kind, id_ = _BY_TYPE.get(type_), str(one.id).lower()
        # Azure itself makes the disks of VMs, without tags.
        is_disk = type_ == TYPES["disk"].type and runs[id_] is None
        disk = is_disk and _VM_NAME.fullmatch(str(one.name)) is not None
        if not (disk or any(f"{id_}/".startswith(f"{other}/") for other in marked)):
            others.append(f"{one.type} {one.name}")
        elif kind is not None:
            ours.append(Found(kind.name, str(one.id), name, mark, subscription))
    return ours, others


Maker = resource_types.Maker[Subscription, Mark]
