"""Placement of servers: requested, not guaranteed, and as read back."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openstack.utils import supports_microversion

from osmef.errors import CapacityError, PolicyError
from osmef.providers.base import EndpointRequest, Problem
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.resource_types import Maker
from osmef.providers.parallel import map_by_key
from osmef.scenario.clouds.openstack import OpenStackSettings, PlacedBy
from osmef.scenario.fields import EndpointKind, Placement, ProviderNetwork, Tenancy
from osmef.scenario.location import Location
from osmef.scenario.model import EndpointSettings
from osmef.scenario.study import Cell

TOGETHER, APART = "affinity", "anti-affinity"


@dataclass(frozen=True)
class ServerGroup:
    """A server group to create: its number in the run, its tenant's slot, and its policy."""

    number: int
    tenant: str
    policy: str


def plan_groups(requests: Sequence[EndpointRequest], *, soft: bool) -> dict[str, ServerGroup]:
    """Return the server group of each request that needs one, by name.

    A server is in one group only, and a group in one project. So of a lane's servers in a project
    those on one host slot form an affinity group; only where each has a slot of its own they form
    an anti-affinity group. Those without a host slot are in none.
    """
    sets: dict[tuple[int, str], list[EndpointRequest]] = defaultdict(list)
    for request in requests:
        if request.tenant is not None and request.host is not None:
            sets[request.lane, request.tenant].append(request)
    groups: dict[str, ServerGroup] = {}
    number = 0
    for (_, tenant), members in sets.items():
        for policy, together in _divide(members):
            number += 1
            group = ServerGroup(number, tenant, f"soft-{policy}" if soft else policy)
            groups.update({member.name: group for member in together})
    return groups


def _divide(
    members: Sequence[EndpointRequest],
) -> list[tuple[str, list[EndpointRequest]]]:
    by_slot: dict[str | None, list[EndpointRequest]] = defaultdict(list)
    for member in members:
        by_slot[member.host].append(member)
    if len(by_slot) == len(members):
        return [(APART, list(members))] if len(members) > 1 else []
    return [(TOGETHER, ones) for ones in by_slot.values() if len(ones) > 1]


def assign_places(
    requests: Sequence[EndpointRequest],
    targets: Sequence[str],
    fixed: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Assign a host or zone to each host slot, round-robin.

    Slots of one lane get different places; ``fixed`` are slots whose place is known. Raises
    CapacityError where there are too few.
    """
    slots: dict[int, list[str]] = defaultdict(list)
    for request in sorted(requests, key=lambda request: request.lane):
        if request.host is not None and request.host not in slots[request.lane]:
            slots[request.lane].append(request.host)
    most = max((len(lane) for lane in slots.values()), default=0)
    if most > len(targets):
        raise CapacityError(
            f"the plan needs {most} different hosts at once, and there are {len(targets)}",
            where="provider: openstack",
            cure="name more of them in provider.compute_hosts or provider.zones",
        )
    chosen = dict(fixed or {})
    turn = 0
    for lane in slots.values():
        for slot in (slot for slot in lane if slot not in chosen):
            taken = {chosen[other] for other in lane if other in chosen}
            free = (target for target in (*targets[turn:], *targets[:turn]) if target not in taken)
            chosen[slot] = next(free)
            turn = (targets.index(chosen[slot]) + 1) % len(targets)
    return chosen


_HOST_SINCE = "2.74"
"""The microversion of nova that takes a host which its scheduler then looks at, too."""


@dataclass(frozen=True)
class VmPlacement:
    """Requested placement of a server: each part is None where the cloud chooses."""

    group: str | None = None
    host: str | None = None
    zone: str | None = None

    @property
    def attributes(self) -> dict[str, object]:
        """Return it as attributes of a request to nova."""
        found = {
            "scheduler_hints": self.group and {"group": self.group},
            "host": self.host,
            "availability_zone": self.zone,
        }
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True)
class ComputeHost:
    """An available compute host, and its availability zone."""

    name: str
    zone: str


def places_of(
    maker: Maker,
    settings: OpenStackSettings,
    clouds: Mapping[str, Cloud],
    requests: Sequence[EndpointRequest],
    fixed: Mapping[str, str],
) -> dict[str, VmPlacement]:
    """Return the placement of each request by name, given the project of each tenant slot.

    ``fixed`` are the compute hosts of the slots on which physical hosts take part. Makes the server
    groups. Raises CapacityError, PolicyError, ProviderError.
    """
    if settings.placement_by is PlacedBy.SERVER_GROUP:
        zone = settings.zones[0] if settings.zones else None
        groups = plan_groups(requests, soft=settings.soft)
        made = _make_groups(maker, clouds, set(groups.values()))
        ours = {name: made[group] for name, group in groups.items()}
        return {r.name: VmPlacement(group=ours.get(r.name), zone=zone) for r in requests}
    if settings.placement_by is PlacedBy.ZONE:
        zones = assign_places(requests, settings.zones)
        return {r.name: VmPlacement(zone=zones.get(r.host or "")) for r in requests}
    cloud = next(iter(clouds.values()))
    hosts = {host.name: host for host in usable_hosts(cloud, settings)}
    slots = assign_places(requests, list(hosts), fixed)
    by_name = cloud.ask(
        "looking at nova's version", lambda c: supports_microversion(c.compute, _HOST_SINCE)
    )
    if by_name:
        return {r.name: VmPlacement(host=slots.get(r.host or "")) for r in requests}
    forced = {s: f"{hosts[name].zone}:{name}" for s, name in slots.items() if name in hosts}
    return {r.name: VmPlacement(zone=forced.get(r.host or "")) for r in requests}


def _make_groups(
    maker: Maker, clouds: Mapping[str, Cloud], groups: set[ServerGroup]
) -> dict[ServerGroup, str]:
    def make(group: ServerGroup) -> str:
        name = maker.mark.whole_name(f"group-{group.number}")
        made = maker.make(clouds[group.tenant], "server-group", name, policy=group.policy)
        return str(made.id)

    ordered = sorted(groups, key=lambda group: group.number)
    return map_by_key(make, ordered)


def usable_hosts(cloud: Cloud, settings: OpenStackSettings) -> list[ComputeHost]:
    """List the available compute hosts, of those that the settings name, if any.

    Raises PolicyError for who may not list them, CapacityError for one that is not up.
    """
    try:
        there = cloud.ask(
            "listing compute hosts", lambda c: list(c.compute.services(binary="nova-compute"))
        )
    except PolicyError as error:
        if settings.compute_hosts:  # may be asked for all the same; zones are asked by name then
            return [ComputeHost(name, "nova") for name in settings.compute_hosts]
        raise PolicyError(
            "only an administrator may list compute hosts",
            where="provider.placement_by: host",
            cure="use an admin's cloud, or placement_by: server-group",
        ) from error
    up = {
        str(one.host): ComputeHost(str(one.host), str(one.availability_zone))
        for one in there
        if one.state == "up" and one.status == "enabled"
    }
    wanted = settings.compute_hosts or sorted(up)
    missing = [name for name in wanted if name not in up]
    if missing:
        raise CapacityError(
            f"the compute host {missing[0]} is not up and enabled",
            where="provider.compute_hosts",
            cure=f"those that are: {', '.join(sorted(up)) or 'none'}",
        )
    return [up[name] for name in wanted]


def location_of(
    server: Any, label: str, compute_hosts: Sequence[str], region: str | None = None
) -> Location:
    """Return the location of a server of a tenant with this label, in a region.

    Administrators see the host's name. Others get an id, which is the same for all servers of a
    project on one host and different in each project, so it can be compared only within the tenant;
    unless it is that of one of the compute hosts that the settings name.
    """
    known = ids_of(compute_hosts, str(server.project_id))
    name = server.compute_host or known.get(str(server.host_id))
    host = name or server.host_id or None
    return Location(
        host=host,
        host_scope=None if host is None or name else label,
        zone=server.availability_zone or None,
        region=region,
        tenant=label,
    )


def ids_of(compute_hosts: Sequence[str], project_id: str) -> Mapping[str, str]:
    """Return the names of hosts by the ids that a project sees.

    An id is the SHA-224 of the project's id and the host's name (nova.utils.generate_hostid).
    """
    return {
        hashlib.sha224((project_id + host).encode()).hexdigest(): host for host in compute_hosts
    }


def problems_of_ends(settings: OpenStackSettings, cell: Cell) -> Iterator[Problem]:
    """Yield what lacks for the ends of a cell, also for a single one."""
    for key, end in _ends(cell).items():
        if end.kind is EndpointKind.VM and end.flavor is None and settings.default_flavor is None:
            cure = f"write {key}.flavor, or provider.default_flavor for all"
            yield (key, "this server has no flavor", cure)
    hosts = sum(end.count for end in _ends(cell).values() if end.kind is EndpointKind.HOST)
    if hosts > len(settings.hosts):
        message = f"{hosts} physical hosts are needed, and provider.hosts has {len(settings.hosts)}"
        yield ("provider.hosts", message, "write how to reach them: hosts: {compute-1: {ssh: ...}}")
    if hosts and cell.scenario.layer is ProviderNetwork.OVERLAY:
        yield ("layer", "OSMeF knows of no overlay between hosts here", "use layer: bare")


def problems_of(settings: OpenStackSettings, cell: Cell) -> Iterator[Problem]:
    """Yield what is not supported for two ends on different hosts."""
    apart = cell.scenario.placement is Placement.DIFFERENT_HOST
    if apart and settings.placement_by is PlacedBy.ZONE and len(settings.zones) < 2:
        yield ("placement", "different-host needs two zones", "name another in provider.zones")
    if apart and settings.placement_by is PlacedBy.HOST and len(settings.compute_hosts) == 1:
        cure = "name another one in provider.compute_hosts"
        yield ("placement", "different-host needs two compute hosts", cure)


def warnings_of(settings: OpenStackSettings, cell: Cell) -> Iterator[str]:
    """Yield what the cloud does not guarantee for two ends, and the cure."""
    scenario = cell.scenario
    same = scenario.placement is Placement.SAME_HOST
    if settings.placement_by is PlacedBy.ZONE and same:
        yield "a zone may have several hosts: same-host is left to chance, and verified"
    if settings.placement_by is not PlacedBy.SERVER_GROUP:
        return
    kinds = {end.kind for end in _ends(cell).values()}
    if kinds == {EndpointKind.VM, EndpointKind.HOST}:
        yield "a server beside a physical host is placed by chance (placement_by: host promises it)"
    elif kinds == {EndpointKind.HOST}:
        return
    if scenario.tenancy is Tenancy.DIFFERENT_TENANT:
        yield (
            f"{scenario.placement} of two projects is left to chance, and verified: server groups"
            " do not reach across projects (placement_by: host does)"
        )
        if not settings.compute_hosts:
            yield (
                "only an administrator sees the hosts of two projects; for others"
                " name them all in provider.compute_hosts"
            )
    elif not same and scenario.shares_hosts:
        yield (
            "groups of servers are kept on one host each by server groups, but that these hosts"
            " differ is left to chance, and verified (placement_by: host promises it)"
        )
    if settings.soft:
        yield "soft server groups are kept only if the cloud can; the placement is verified"


def _ends(cell: Cell) -> dict[str, EndpointSettings]:
    return {f"endpoints.{name}": end for name, end in cell.scenario.endpoints.given_ends.items()}
