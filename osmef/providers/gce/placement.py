"""Placement of VMs: by placement policies, or on sole-tenant nodes.

And what it can't do or promise. Source: Google's "Placement policies overview".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.cloud import compute_v1

from osmef.errors import CapacityError, NotFoundError
from osmef.providers.base import EndpointRequest, Problem
from osmef.providers.cloud.lookup import HostRules, host_numbers
from osmef.providers.gce.access import Project, last
from osmef.providers.gce.lookup import region_of
from osmef.providers.gce.resource_types import Maker
from osmef.scenario.clouds.gce import GceSettings
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.location import Location
from osmef.scenario.model import Scenario
from osmef.scenario.study import Cell

MOST_DOMAINS = 8
"""Availability domains of a spread policy."""
_NODE_NAME = "compute.googleapis.com/node-name"


@dataclass(frozen=True)
class VmPlacement:
    """Requested placement of a VM; each part is None where the cloud chooses.

    ``domain`` is the availability domain of a spread ``policy``, ``node`` a sole-tenant node.
    """

    policy: str | None = None
    domain: int | None = None
    node: str | None = None

    def scheduling(self) -> dict[str, Any]:
        """Return it as a VM's scheduling."""
        if self.node is not None:
            affinity = {"key": _NODE_NAME, "operator": "IN", "values": [self.node]}
            return {"node_affinities": [affinity]}
        return {} if self.domain is None else {"availability_domain": self.domain}


def _groups(
    requests: Sequence[EndpointRequest], zones: Mapping[str, str]
) -> dict[tuple[int, str], list[EndpointRequest]]:
    """Return the requests that share a placement policy, by their lane and zone."""
    found: dict[tuple[int, str], list[EndpointRequest]] = defaultdict(list)
    for request in requests:
        if request.host is not None:
            found[request.lane, zones[request.name]].append(request)
    return {key: members for key, members in found.items() if len(members) > 1}


def check_domains(requests: Sequence[EndpointRequest], zones: Mapping[str, str]) -> None:
    """Raise CapacityError where a spread policy has fewer domains than hosts are needed."""
    for members in _groups(requests, zones).values():
        hosts = len({member.host for member in members})
        if hosts > MOST_DOMAINS:
            raise CapacityError(
                f"the plan needs {hosts} different hosts, and a policy has {MOST_DOMAINS}",
                where="provider",
                cure="write provider.compact, or measure fewer endpoints at once",
            )


def make_policies(
    maker: Maker,
    project: Project,
    requests: Sequence[EndpointRequest],
    zones: Mapping[str, str],
    *,
    compact: bool,
) -> dict[str, VmPlacement]:
    """Create placement policies, and return the place of each request that needs one, by name.

    A policy holds for the requests of one lane in one zone; ``zones`` are those of the requests.
    Two host slots are two domains of it, unless all are to be near each other. Raises
    ProviderError.
    """
    found = {}
    for (lane, zone), members in _groups(requests, zones).items():
        slots = list(dict.fromkeys(member.host for member in members))
        group: dict[str, Any] = {"availability_domain_count": len(slots)}
        if compact:
            group = {"collocation": "COLLOCATED"}
        name, region = maker.mark.name(f"{zone}-{lane}"), region_of(zone)
        body = compute_v1.ResourcePolicy(group_placement_policy=group)
        maker.make(project, "policy", name, where=region, body=body)
        path = f"projects/{project.id}/regions/{region}/resourcePolicies/{name}"
        for member in members:
            domain = None if compact else slots.index(member.host) + 1
            found[member.name] = VmPlacement(path, domain)
    return found


def nodes_of(project: Project, settings: GceSettings, zone: str) -> dict[str, list[str]]:
    """Return the ready sole-tenant nodes of the settings' group, each with its VMs.

    Raises ProviderError.
    """
    group = settings.node_group
    try:
        there = project.every(
            f"listing the nodes of {group}",
            compute_v1.NodeGroupsClient,
            "list_nodes",
            zone=zone,
            node_group=group,
        )
    except NotFoundError as error:
        raise NotFoundError(
            f"there is no group of sole-tenant nodes {group!r} in {zone}",
            where="provider.node_group",
            cure="look with: gcloud compute sole-tenancy node-groups list",
        ) from error
    return {
        str(node.name): [last(vm) for vm in node.instances]
        for node in there
        if node.status in {"READY", ""}
    }


def places_on_nodes(
    project: Project,
    settings: GceSettings,
    requests: Sequence[EndpointRequest],
    zones: Mapping[str, str],
) -> dict[str, VmPlacement]:
    """Return the placement of each request by name; slots of a lane get different nodes.

    ``zones`` are those of the requests. Raises CapacityError where there are too few nodes,
    ProviderError.
    """
    found = {}
    for zone in dict.fromkeys(zones.values()):
        here = [request for request in requests if zones[request.name] == zone]
        nodes = list(nodes_of(project, settings, zone))
        numbers = host_numbers(
            here,
            len(nodes),
            "nodes in the group",
            "provider.node_group",
            "add nodes to the group: gcloud compute sole-tenancy node-groups resize",
        )
        for one in here:
            usual = nodes[0] if nodes else None
            node = usual if one.host is None else nodes[numbers[one.lane, one.host]]
            found[one.name] = VmPlacement(node=node)
    return found


def location_of(instance: Any, tenant: str, project: str, nodes: Mapping[str, str]) -> Location:
    """Return the location of an instance, as the API describes it.

    ``nodes`` are the sole-tenant nodes by the names of their VMs. Ids of places are compared within
    a project only, as the cloud hashes them.
    """
    zone = last(instance.zone)
    known = {"zone": zone, "region": region_of(zone), "tenant": tenant}
    node = nodes.get(instance.name)
    if node is not None:
        return Location(host=node, host_scope=project, **known)
    reported = instance.resource_status
    topology = reported.physical_host_topology
    host = topology.host or reported.physical_host or None
    rack = _rack(instance, topology.subblock)
    return Location(host=host, host_scope=project, rack=rack, **known)


def _rack(instance: Any, subblock: str) -> str | None:
    """Return the availability domain of a spread policy, else the network's part."""
    domain = instance.resource_status.scheduling.availability_domain
    if domain and instance.resource_policies:
        return f"{last(instance.resource_policies[0])}/{domain}"
    return subblock or None


def problems_of(settings: GceSettings, cell: Cell) -> Iterator[Problem]:
    """Yield what is not supported for a cell of two ends."""
    scenario, unknown = cell.scenario, _hosts_unknown(settings, cell.scenario)
    given = settings.node_group is not None
    rules = HostRules(
        own="a sole-tenant node",
        owner="project",
        given=given,
        ask="name a group of sole-tenant nodes in provider.node_group",
        near="placement: different-host with provider.compact",
        unknown="the cloud can't distinguish the hosts of two projects" if unknown else None,
        cure="write placement: any, or on_mismatch: record; or leave provider.tenants out",
    )
    yield from _of_one_zone(settings, scenario)
    yield from rules.of_several(scenario)
    across = scenario.tenancy is Tenancy.DIFFERENT_TENANT and settings.tenants is not None
    if given and across and scenario.placement is not Placement.SAME_HOST:
        cure = "leave provider.tenants out: each tenant is a network of its own then"
        yield ("tenancy", "a group of sole-tenant nodes belongs to one project", cure)
    yield from rules.problems_of(settings, scenario)


def _of_one_zone(settings: GceSettings, scenario: Scenario) -> Iterator[Problem]:
    zones = scenario.zones_of_ends
    if settings.node_group is not None and {*zones} != {settings.zone}:
        cure = "leave the zones of the endpoints out, or provider.node_group"
        yield ("endpoints", f"the group of sole-tenant nodes is in {settings.zone}", cure)
    elif settings.compact and len(set(zones)) > 1:
        cure = "write one zone for both ends, or leave provider.compact out"
        yield ("endpoints", "a compact policy keeps VMs of one zone near each other", cure)


def warnings_of(settings: GceSettings, cell: Cell) -> Iterator[str]:
    """Yield what the cloud does not guarantee for a cell, and the cure."""
    if _hosts_unknown(settings, cell.scenario):
        yield "placement policies do not reach across projects: different hosts are left to chance"
    elif settings.compact and cell.scenario.placement is Placement.DIFFERENT_HOST:
        yield "a compact policy keeps VMs near each other, not on different hosts; it is verified"


def _hosts_unknown(settings: GceSettings, scenario: Scenario) -> bool:
    """Return whether it is unknown if hosts differ that a cell wants to."""
    zones = scenario.zones_of_ends
    if settings.node_group is not None or (None not in zones and len(set(zones)) > 1):
        return False
    across = len(settings.tenants or ()) > 1 and scenario.tenancy is Tenancy.DIFFERENT_TENANT
    return across and scenario.placement is Placement.DIFFERENT_HOST
