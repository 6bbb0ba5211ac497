"""Resource types of Azure: creation, lookup and deletion, and marks.

A thing is known by the name of its resource group and its own name in it, ``GROUP/NAME``; one
inside another thing by both, ``GROUP/OUTER/NAME``. The resource group alone is ``GROUP``.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from osmef.providers.azure.access import Subscription
from osmef.providers.cloud import maker
from osmef.providers.cloud.maker import Wanted
from osmef.providers.marks import Mark

GROUP = "resource-group"
_GROUP_TYPE = "microsoft.resources/resourcegroups"


# By schedules Azure itself takes VMs off their hosts when nobody needs them any more. A VM that
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


def schedule_body(vm: str, region: str, ends: float) -> dict[str, Any]:
    """Return the schedule that shuts a VM, given by its id, down at a UNIX time."""
    minute = math.ceil(ends / 60) * 60
    time_of_day = datetime.datetime.fromtimestamp(minute, datetime.UTC)
    return {
        "location": region,
        "properties": {
            "status": "Enabled",
            "taskType": "ComputeVmShutdownTask",
            "dailyRecurrence": {"time": f"{time_of_day:%H%M}"},
            "timeZoneId": "UTC",
            "notificationSettings": {"status": "Disabled"},
            "targetResourceId": vm,
        },
    }


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
class ResourceType:
    """How the SDK handles resources of a type; ``type`` is Azure's, in lower case."""

    name: str
    type: str
    operations: Callable[[Subscription], Any]

    def has_name(self, name: str) -> bool:
        """Return whether a name has the parts of one of this type."""
        parts = name.split("/")
        # PROVIDER/TYPE[/TYPE] has GROUP/NAME[/NAME], and the group is one itself.
        return all(parts) and len(parts) == self.type.count("/") + (self.type != _GROUP_TYPE)

    def put(self, subscription: Subscription, name: str, body: Mapping[str, Any]) -> Any:
        """Create or update one; return it, or its poller."""
        operations = self.operations(subscription)
        begin = getattr(operations, "begin_create_or_update", None)
        return (begin or operations.create_or_update)(*name.split("/"), body)

    def get(self, subscription: Subscription, name: str) -> Any:
        """Return one."""
        return self.operations(subscription).get(*name.split("/"))

    def delete(self, subscription: Subscription, name: str) -> Any:
        """Delete one; return its poller."""
        operations = self.operations(subscription)
        begin = getattr(operations, "begin_delete", None)
        return (begin or operations.delete)(*name.split("/"))


TYPES = {
    one.name: one
    for one in (
        ResourceType("schedule", _SCHEDULES, Schedules),
        ResourceType(
            "vm", "microsoft.compute/virtualmachines", lambda s: s.compute.virtual_machines
        ),
        ResourceType("disk", "microsoft.compute/disks", lambda s: s.compute.disks),
        ResourceType(
            "network-interface",
            "microsoft.network/networkinterfaces",
            lambda s: s.network.network_interfaces,
        ),
        ResourceType(
            "public-ip",
            "microsoft.network/publicipaddresses",
            lambda s: s.network.public_ip_addresses,
        ),
        ResourceType(
            "network", "microsoft.network/virtualnetworks", lambda s: s.network.virtual_networks
        ),
        ResourceType(
            "security-group",
            "microsoft.network/networksecuritygroups",
            lambda s: s.network.network_security_groups,
        ),
        ResourceType(
            "dedicated-host",
            "microsoft.compute/hostgroups/hosts",
            lambda s: s.compute.dedicated_hosts,
        ),
        ResourceType(
            "host-group", "microsoft.compute/hostgroups", lambda s: s.compute.dedicated_host_groups
        ),
        ResourceType(
            "availability-set",
            "microsoft.compute/availabilitysets",
            lambda s: s.compute.availability_sets,
        ),
        ResourceType(
            "proximity-group",
            "microsoft.compute/proximityplacementgroups",
            lambda s: s.compute.proximity_placement_groups,
        ),
        ResourceType(GROUP, _GROUP_TYPE, lambda s: s.resources.resource_groups),
    )
}
"""By name, in an order in which they can be deleted."""
_BY_TYPE = {one.type: one for one in TYPES.values()}


def id_of(kind: ResourceType, subscription: str, name: str) -> str:
    """Return the resource id, which follows from its name."""
    group, *names = name.split("/")
    start = f"/subscriptions/{subscription}/resourceGroups/{group}"
    if not names:
        return start
    provider, *types = kind.type.split("/")
    return f"{start}/providers/{provider}/" + "/".join(
        part for pair in zip(types, names, strict=True) for part in pair
    )


def kind_and_name(resource: Any, group: str) -> tuple[ResourceType | None, str]:
    """Return the kind of a listed resource, None if not one of ours, and its name."""
    parts = str(resource.id).split("/")
    # /subscriptions/S/resourceGroups/G/providers/P/TYPE/NAME[/TYPE/NAME]
    return _BY_TYPE.get(str(resource.type).lower()), "/".join([group, *parts[8::2]])


def mark_of(thing: Any) -> Mark | None:
    """Parse the mark in a resource's tags; None if it is not ours."""
    return Mark.of_tags(thing.tags)


class Maker(maker.Maker[Subscription, Mark]):
    """Creates the resources of a run. Thread-safe."""

    def make(
        self,
        subscription: Subscription,
        kind: str,
        name: str,
        body: Mapping[str, Any],
        await_it: Callable[[Any], Any] = lambda begun: begun,
    ) -> Any:
        """Create a marked resource of this name, and return it when it exists.

        A request that is repeated makes nothing twice: it names the resource. ``await_it`` is given
        what the SDK returned, and may wait in its own way. Raises ProviderError.
        """
        marked = {**body, "tags": self.mark.tags}

        def put() -> Any:
            return await_it(TYPES[kind].put(subscription, name, marked))

        wanted = Wanted[Any](kind, name, put, lambda: None, lambda made: str(made.id))
        return self.create(subscription, wanted)
