"""What a plan needs of a project, compared with what its quotas leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openstack.connection import Connection
from openstack.exceptions import raise_from_response

from osmef.errors import QuotaError
from osmef.providers.base import EndpointRequest
from osmef.providers.cards import networks_for
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.groups import plan_groups
from osmef.providers.openstack.names import FlavorInfo, Names
from osmef.providers.openstack.networks import rules_for
from osmef.providers.openstack.reach import needs_floating
from osmef.scenario.clouds.openstack import OpenStackSettings, PlacedBy

_GIB = 2**30
KEY_PAIRS = "key pairs"
_OWN_RULES = 2
"""Neutron gives every new security group two rules for what goes out."""
_GROUP_OF_ALL, _ITS_RULES = 1, 4
"""Neutron gives every project a group, which lets out all, and in what comes from itself."""


@dataclass(frozen=True)
class Room:
    """A quota: its limit, None for none, and how much of it is in use."""

    limit: int | None
    used: int

    def lacks(self, need: int) -> bool:
        """Tell whether there is too little left."""
        return self.limit is not None and self.used + need > self.limit


def needs_of(
    settings: OpenStackSettings, names: Names, slot: str, requests: Sequence[EndpointRequest]
) -> dict[str, int]:
    """Return what the requests of the tenant's slot need, by the name of the quota.

    With what it takes to make one of those anew that may be, while the old one still stands.
    """
    ours = [request for request in requests if request.tenant == slot]
    sizes = [_flavor_of(settings, names, request) for request in ours]
    movable = [_flavor_of(settings, names, request) for request in ours if request.movable]
    spare = int(bool(movable))
    count = len(ours) + spare
    need = {
        "instances": count,
        "cores": sum(one.vcpus for one in sizes) + max((one.vcpus for one in movable), default=0),
        "ram (MiB)": sum(one.ram_mib for one in sizes)
        + max((one.ram_mib for one in movable), default=0),
        "ports": count
        + sum(one.nics for one in ours)
        + max((one.nics for one in ours if one.movable), default=0),
    }
    if settings.placement_by is PlacedBy.SERVER_GROUP:
        planned = plan_groups(requests, soft=settings.soft).values()
        groups = Counter(group.number for group in planned if group.tenant == slot)
        need["server groups"] = len(groups)
        need["members of a server group"] = max(groups.values(), default=-spare) + spare
    if settings.keypair is None:
        need[KEY_PAIRS] = 1
    if needs_floating(settings, requests):
        need["floating IPs"] = count
    if settings.network is None:
        router = int(names.external is not None)
        need |= {"networks": 1, "subnets": 1, "routers": router}
        need["ports"] += 1 + router  # of DHCP and of the router
    if nics := networks_for(settings, ours):
        need |= {what: need.get(what, 0) + nics for what in ("networks", "subnets")}
    if not settings.security_groups:
        peers = [one for one in requests if one.tenant != slot]
        more = any(one.movable for one in peers)
        others = [str(number) for number in range(len(peers) + more)]
        need["security groups"] = 1
        need["security group rules"] = len(rules_for(["controller"], others)) + _OWN_RULES
    if names.source.kind != "image" or settings.boot.size is not None:
        size = max(1, -(-(settings.boot.size or 0) // _GIB), names.source.disk_gib)
        need |= {"volumes": count, "volume space (GiB)": size * count}
    return need


def _flavor_of(settings: OpenStackSettings, names: Names, request: EndpointRequest) -> FlavorInfo:
    return names.flavors[request.flavor or settings.default_flavor]


def check_quotas(cloud: Cloud, need: Mapping[str, int]) -> None:
    """Raise QuotaError with everything that the project has too little of."""
    room = _compute_room(cloud) | _network_room(cloud) | _volume_room(cloud, need)
    _compare(cloud, need, room, "remove what you don't need, or ask for more")


def check_default_quotas(cloud: Cloud, need: Mapping[str, int]) -> None:
    """Raise QuotaError with everything that a project made for the run would have too little of.

    ``cloud`` is a project that is there, of the administrator who makes it.
    """
    room = _new_compute_room(cloud) | _new_network_room(cloud) | _new_volume_room(cloud, need)
    _compare(cloud, need, room, "raise what new projects get (openstack quota set --default)")


def _compare(cloud: Cloud, need: Mapping[str, int], room: Mapping[str, Room], way_out: str) -> None:
    short = [
        f"{count} {what} (quota {room[what].limit}, in use {room[what].used})"
        for what, count in need.items()
        if what in room and room[what].lacks(count)
    ]
    if short:
        raise QuotaError(
            f"the plan needs {', '.join(short)}",
            where=cloud.name,
            cure=f"plan fewer or smaller endpoints; or {way_out}",
        )


def _room(limit: object, used: object) -> Room:
    """Return a quota; one that the cloud does not tell stops nobody here."""
    number = -1 if limit is None else int(str(limit))
    return Room(None if number < 0 else number, 0 if used is None else int(str(used)))


def _compute_room(cloud: Cloud) -> dict[str, Room]:
    def limits(connection: Connection) -> dict[str, Any]:
        # The SDK's own object of limits warns of fields that it holds itself.
        answer = connection.compute.get("/limits")
        raise_from_response(answer)
        return dict(answer.json()["limits"]["absolute"])

    found = cloud.do("reading the quotas of compute", limits)
    quotas = {
        "instances": ("maxTotalInstances", "totalInstancesUsed"),
        "cores": ("maxTotalCores", "totalCoresUsed"),
        "ram (MiB)": ("maxTotalRAMSize", "totalRAMUsed"),
        "server groups": ("maxServerGroups", "totalServerGroupsUsed"),
    }
    return {
        KEY_PAIRS: _room(found.get("maxTotalKeypairs"), _count_key_pairs(cloud)),
        "members of a server group": _room(found.get("maxServerGroupMembers"), 0),
        **{
            what: _room(found.get(limit), found.get(used)) for what, (limit, used) in quotas.items()
        },
    }


def _count_key_pairs(cloud: Cloud) -> int:
    """Return how many the user has, in whichever project."""
    return cloud.do("listing key pairs", lambda c: len(list(c.compute.keypairs())))


def _new_compute_room(cloud: Cloud) -> dict[str, Room]:
    quota = cloud.do(
        "reading the default quotas of compute",
        lambda c: c.compute.get_quota_set_defaults(cloud.project_id),
    )
    return {
        KEY_PAIRS: _room(quota.key_pairs, _count_key_pairs(cloud)),
        "members of a server group": _room(quota.server_group_members, 0),
        "instances": _room(quota.instances, 0),
        "cores": _room(quota.cores, 0),
        "ram (MiB)": _room(quota.ram, 0),
        "server groups": _room(quota.server_groups, 0),
    }


def _network_room(cloud: Cloud) -> dict[str, Room]:
    quota = cloud.do(
        "reading the quotas of the network",
        lambda c: c.network.get_quota(cloud.project_id, details=True),
    )
    names = {
        "networks": quota.networks,
        "subnets": quota.subnets,
        "routers": quota.routers,
        "ports": quota.ports,
        "floating IPs": quota.floating_ips,
        "security groups": quota.security_groups,
        "security group rules": quota.security_group_rules,
    }
    return {
        what: _room(one.get("limit"), (one.get("used") or 0) + (one.get("reserved") or 0))
        for what, one in names.items()
        if isinstance(one, dict)
    }


def _new_network_room(cloud: Cloud) -> dict[str, Room]:
    quota = cloud.do(
        "reading the default quotas of the network",
        lambda c: c.network.get_quota_default(cloud.project_id),
    )
    return {
        "networks": _room(quota.networks, 0),
        "subnets": _room(quota.subnets, 0),
        "routers": _room(quota.routers, 0),
        "ports": _room(quota.ports, 0),
        "floating IPs": _room(quota.floating_ips, 0),
        "security groups": _room(quota.security_groups, _GROUP_OF_ALL),
        "security group rules": _room(quota.security_group_rules, _ITS_RULES),
    }


def _volume_room(cloud: Cloud, need: Mapping[str, int]) -> dict[str, Room]:
    if "volumes" not in need:
        return {}
    found = cloud.do("reading the quotas of volumes", lambda c: c.block_storage.get_limits())
    limits = found.absolute
    if limits is None:
        return {}
    return {
        "volumes": _room(limits.max_total_volumes, limits.total_volumes_used),
        "volume space (GiB)": _room(limits.max_total_volume_gigabytes, limits.total_gigabytes_used),
    }


def _new_volume_room(cloud: Cloud, need: Mapping[str, int]) -> dict[str, Room]:
    if "volumes" not in need:
        return {}
    quota = cloud.do(
        "reading the default quotas of volumes",
        lambda c: c.block_storage.get_quota_set_defaults(cloud.project_id),
    )
    return {"volumes": _room(quota.volumes, 0), "volume space (GiB)": _room(quota.gigabytes, 0)}
