"""The kinds of things that a run makes: how to make, look at and delete one, and what is ours.

A thing is known by the name of its resource group and its own name in it, ``GROUP/NAME``; one
inside another thing by both, ``GROUP/OUTER/NAME``. The resource group alone is ``GROUP``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from osmef.providers.azure import schedules
from osmef.providers.azure.access import Subscription
from osmef.providers.marks import Mark

PROVIDER = "azure"
GROUP = "resource-group"
_GROUP_TYPE = "microsoft.resources/resourcegroups"


@dataclass(frozen=True)
class Kind:
    """How the SDK makes, shows and deletes things of a kind. ``type`` is Azure's, lower-case."""

    name: str
    type: str
    operations: Callable[[Subscription], Any]

    def has_name(self, name: str) -> bool:
        """Tell whether a name has the parts that one of this kind has."""
        parts = name.split("/")
        # PROVIDER/TYPE[/TYPE] has GROUP/NAME[/NAME], and the group is one itself.
        return all(parts) and len(parts) == self.type.count("/") + (self.type != _GROUP_TYPE)

    def put(self, subscription: Subscription, name: str, body: Mapping[str, Any]) -> Any:
        """Make one, or make it so; return it, or what waits for it."""
        operations = self.operations(subscription)
        begin = getattr(operations, "begin_create_or_update", None)
        return (begin or operations.create_or_update)(*name.split("/"), body)

    def get(self, subscription: Subscription, name: str) -> Any:
        """Return one."""
        return self.operations(subscription).get(*name.split("/"))

    def delete(self, subscription: Subscription, name: str) -> Any:
        """Delete one; return what waits for that."""
        operations = self.operations(subscription)
        begin = getattr(operations, "begin_delete", None)
        return (begin or operations.delete)(*name.split("/"))


KINDS = {
    kind.name: kind
    for kind in (
        Kind("schedule", schedules.TYPE, schedules.Schedules),
        Kind("vm", "microsoft.compute/virtualmachines", lambda s: s.compute.virtual_machines),
        Kind("disk", "microsoft.compute/disks", lambda s: s.compute.disks),
        Kind(
            "network-interface",
            "microsoft.network/networkinterfaces",
            lambda s: s.network.network_interfaces,
        ),
        Kind(
            "public-ip",
            "microsoft.network/publicipaddresses",
            lambda s: s.network.public_ip_addresses,
        ),
        Kind("network", "microsoft.network/virtualnetworks", lambda s: s.network.virtual_networks),
        Kind(
            "security-group",
            "microsoft.network/networksecuritygroups",
            lambda s: s.network.network_security_groups,
        ),
        Kind(
            "dedicated-host",
            "microsoft.compute/hostgroups/hosts",
            lambda s: s.compute.dedicated_hosts,
        ),
        Kind(
            "host-group", "microsoft.compute/hostgroups", lambda s: s.compute.dedicated_host_groups
        ),
        Kind(
            "availability-set",
            "microsoft.compute/availabilitysets",
            lambda s: s.compute.availability_sets,
        ),
        Kind(
            "proximity-group",
            "microsoft.compute/proximityplacementgroups",
            lambda s: s.compute.proximity_placement_groups,
        ),
        Kind(GROUP, _GROUP_TYPE, lambda s: s.resources.resource_groups),
    )
}
"""By name, in an order in which they can be deleted."""
_BY_TYPE = {kind.type: kind for kind in KINDS.values()}


def id_of(kind: Kind, subscription: str, name: str) -> str:
    """Return the resource id of a thing, which its name tells before it exists."""
    group, *names = name.split("/")
    start = f"/subscriptions/{subscription}/resourceGroups/{group}"
    if not names:
        return start
    provider, *types = kind.type.split("/")
    return f"{start}/providers/{provider}/" + "/".join(
        part for pair in zip(types, names, strict=True) for part in pair
    )


def kind_and_name(resource: Any, group: str) -> tuple[Kind | None, str]:
    """Return the kind of what a list of a group shows, None if not one of ours, and its name."""
    parts = str(resource.id).split("/")
    # /subscriptions/S/resourceGroups/G/providers/P/TYPE/NAME[/TYPE/NAME]
    return _BY_TYPE.get(str(resource.type).lower()), "/".join([group, *parts[8::2]])


def mark_of(thing: Any) -> Mark | None:
    """Read the mark of a thing's tags; None if it is not ours."""
    return Mark.of_tags(thing.tags)
