"""Needs of a plan, compared with a project's quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from openstack.connection import Connection
from openstack.exceptions import raise_from_response

from osmef.providers.base import EndpointRequest
from osmef.providers.cloud.network import networks_for
from osmef.providers.cloud.quota import Quota, compare
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.lookup import FlavorInfo, Names
from osmef.providers.openstack.network import needs_floating, rules_for
from osmef.providers.openstack.placement import plan_groups
from osmef.scenario.clouds.openstack import OpenStackSettings, PlacedBy

_GIB = 2**30
KEY_PAIRS = "key pairs"
_OWN_RULES = 2
"""Neutron gives every new security group two rules for what goes out."""
_COMPUTE = {
    "instances": ("instances", "maxTotalInstances", "totalInstancesUsed"),
    "cores": ("cores", "maxTotalCores", "totalCoresUsed"),
    "ram (MiB)": ("ram", "maxTotalRAMSize", "totalRAMUsed"),
    "server groups": ("server_groups", "maxServerGroups", "totalServerGroupsUsed"),
    "members of a server group": ("server_group_members", "maxServerGroupMembers", ""),
    KEY_PAIRS: ("key_pairs", "maxTotalKeypairs", ""),
}
"""Each by its name in a set of defaults, and those of its limit and use in nova's limits."""
_NETWORK = {
    "networks": ("networks", 0),
    "subnets": ("subnets", 0),
    "routers": ("routers", 0),
    "ports": ("ports", 0),
    "floating IPs": ("floating_ips", 0),
    "security groups": ("security_groups", 1),
    "security group rules": ("security_group_rules", 4),
}
"""Each by its name, and how much of it a new project uses: neutron gives it a group, which lets
out all, and in what comes from itself."""
_VOLUMES = {
    "volumes": ("volumes", "max_total_volumes", "total_volumes_used"),
    "volume space (GiB)": ("gigabytes", "max_total_volume_gigabytes", "total_gigabytes_used"),
}
"""As those of compute, by cinder."""


def needs_of(
    settings: OpenStackSettings, names: Names, slot: str, requests: Sequence[EndpointRequest]
) -> dict[str, int]:
    """Return the needs of a tenant slot's requests, by quota.

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


def check_quotas(cloud: Cloud, need: Mapping[str, int], *, made: bool = False) -> None:
    """Raise QuotaError with every exceeded quota of the project.

    If ``made``, that is one to be made for the run, and ``cloud`` one of the administrator's.
    """
    quotas = _compute(cloud, made=made) | _network(cloud, made=made)
    if "volumes" in need:
        quotas |= _volumes(cloud, made=made)
    usual = "remove what you don't need, or ask for more"
    default = "raise what new projects get (openstack quota set --default)"
    cure = f"plan fewer or smaller endpoints; or {default if made else usual}"
    compare(cloud.name, need, quotas, cure)


def _quota(limit: object, used: object = 0) -> Quota:
    """Return a quota; one that the cloud does not report is unlimited here."""
    number = -1 if limit is None else int(str(limit))
    return Quota(None if number < 0 else number, 0 if used is None else int(str(used)))


def _compute(cloud: Cloud, *, made: bool) -> dict[str, Quota]:
    def limits(connection: Connection) -> dict[str, Any]:
        # The SDK's own object of limits warns of fields that it holds itself.
        answer = connection.compute.get("/limits")
        raise_from_response(answer)
        return dict(answer.json()["limits"]["absolute"])

    if made:
        default = cloud.ask(
            "reading the default quotas of compute",
            lambda c: c.compute.get_quota_set_defaults(cloud.id),
        )
        found = {what: _quota(getattr(default, name)) for what, (name, _, _) in _COMPUTE.items()}
    else:
        told = cloud.ask("reading the quotas of compute", limits)
        found = {
            what: _quota(told.get(limit), told.get(used))
            for what, (_, limit, used) in _COMPUTE.items()
        }
    # The user has them, in whichever project.
    pairs = cloud.ask("listing key pairs", lambda c: len(list(c.compute.keypairs())))
    return found | {KEY_PAIRS: Quota(found[KEY_PAIRS].limit, pairs)}


def _network(cloud: Cloud, *, made: bool) -> dict[str, Quota]:
    if made:
        default = cloud.ask(
            "reading the default quotas of the network",
            lambda c: c.network.get_quota_default(cloud.id),
        )
        return {
            what: _quota(getattr(default, name), used) for what, (name, used) in _NETWORK.items()
        }
    quota = cloud.ask(
        "reading the quotas of the network",
        lambda c: c.network.get_quota(cloud.id, details=True),
    )
    told = {what: getattr(quota, name) for what, (name, _) in _NETWORK.items()}
    return {
        what: _quota(one.get("limit"), (one.get("used") or 0) + (one.get("reserved") or 0))
        for what, one in told.items()
        if isinstance(one, dict)
    }


def _volumes(cloud: Cloud, *, made: bool) -> dict[str, Quota]:
    if made:
        default = cloud.ask(
            "reading the default quotas of volumes",
            lambda c: c.block_storage.get_quota_set_defaults(cloud.id),
        )
        return {what: _quota(getattr(default, name)) for what, (name, _, _) in _VOLUMES.items()}
    found = cloud.ask("reading the quotas of volumes", lambda c: c.block_storage.get_limits())
    if found.absolute is None:
        return {}
    return {
        what: _quota(getattr(found.absolute, limit), getattr(found.absolute, used))
        for what, (_, limit, used) in _VOLUMES.items()
    }
