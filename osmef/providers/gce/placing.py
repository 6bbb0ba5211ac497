"""Where the cloud is asked to put each VM: by placement policies, or on sole-tenant nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.cloud import compute_v1

from osmef.errors import CapacityError
from osmef.providers.base import EndpointRequest
from osmef.providers.gce.access import Project, last
from osmef.providers.gce.making import Maker
from osmef.scenario.clouds.gce import GceSettings

MOST_DOMAINS = 8
"""Availability domains of a spread policy."""
_NODE_NAME = "compute.googleapis.com/node-name"


@dataclass(frozen=True)
class Place:
    """Where the cloud is asked to put a VM; each is None where it may choose.

    ``domain`` is the availability domain of a spread ``policy``, ``node`` a sole-tenant node.
    """

    policy: str | None = None
    domain: int | None = None
    node: str | None = None

    def scheduling(self) -> dict[str, Any]:
        """Return what this says of a VM's scheduling."""
        if self.node is not None:
            affinity = compute_v1.SchedulingNodeAffinity(
                key=_NODE_NAME, operator="IN", values=[self.node]
            )
            return {"node_affinities": [affinity]}
        return {} if self.domain is None else {"availability_domain": self.domain}


@dataclass(frozen=True)
class Policy:
    """A placement policy to be made: its name, and how many domains it spreads over, if it does."""

    name: str
    domains: int | None

    def body(self) -> Any:
        """Return it as the API takes it."""
        group = compute_v1.ResourcePolicyGroupPlacementPolicy(
            **(
                {"collocation": "COLLOCATED"}
                if self.domains is None
                else {"availability_domain_count": self.domains}
            )
        )
        return compute_v1.ResourcePolicy(group_placement_policy=group)


def plan_policies(
    maker: Maker, requests: Sequence[EndpointRequest], zones: Mapping[str, str], *, compact: bool
) -> dict[str, tuple[Policy, int | None]]:
    """Return the policy of each request that needs one, and its domain in it, by its name.

    A policy holds for the requests of one lane in one zone; ``zones`` are those of the requests.
    Two host slots are two domains of it, unless all are to be near each other.
    """
    sets: dict[tuple[int, str], list[EndpointRequest]] = defaultdict(list)
    for request in requests:
        if request.host is not None:
            sets[request.lane, zones[request.name]].append(request)
    found: dict[str, tuple[Policy, int | None]] = {}
    for (lane, zone), members in sets.items():
        slots = list(dict.fromkeys(member.host for member in members))
        if len(members) < 2:
            continue
        if len(slots) > MOST_DOMAINS and not compact:
            raise CapacityError(
                f"the plan needs {len(slots)} different hosts, and a policy has {MOST_DOMAINS}",
                where="provider",
                cure="write provider.compact, or measure fewer endpoints at once",
            )
        policy = Policy(maker.mark.name(f"{zone}-{lane}"), None if compact else len(slots))
        for member in members:
            domain = None if compact else slots.index(member.host) + 1
            found[member.name] = (policy, domain)
    return found


def make_policies(
    maker: Maker,
    project: Project,
    planned: Mapping[str, tuple[Policy, int | None]],
    zones: Mapping[str, str],
) -> dict[str, Place]:
    """Make the policies, and return the places of the requests in them. Raises ProviderError."""
    made: dict[Policy, str] = {}
    places = {}
    for request, (policy, domain) in planned.items():
        if policy not in made:
            region = zones[request].rpartition("-")[0]
            maker.make(project, "policy", region, policy.name, policy.body())
            path = f"projects/{project.id}/regions/{region}/resourcePolicies/{policy.name}"
            made[policy] = path
        places[request] = Place(made[policy], domain)
    return places


def nodes_of(project: Project, settings: GceSettings, zone: str) -> dict[str, list[str]]:
    """Return the sole-tenant nodes of the settings' group that are ready, each with its VMs.

    Raises ProviderError.
    """
    there = project.every(
        f"listing the nodes of {settings.node_group}",
        compute_v1.NodeGroupsClient,
        "list_nodes",
        zone=zone,
        node_group=settings.node_group,
    )
    return {
        str(node.name): [last(vm) for vm in node.instances]
        for node in there
        if node.status in {"READY", ""}
    }


def assign_nodes(requests: Sequence[EndpointRequest], nodes: Sequence[str]) -> dict[str, Place]:
    """Return the place of each request by its name; slots of one lane get different nodes.

    Raises CapacityError where there are too few.
    """
    lanes: dict[int, list[str]] = defaultdict(list)
    places = {}
    for request in requests:
        if request.host is None:
            places[request.name] = Place(node=nodes[0] if nodes else None)
            continue
        slots = lanes[request.lane]
        if request.host not in slots:
            slots.append(request.host)
        number = slots.index(request.host)
        if number >= len(nodes):
            raise CapacityError(
                f"the plan needs {number + 1} different nodes, and the group has {len(nodes)}",
                where="provider.node_group",
                cure="add nodes to the group: gcloud compute sole-tenancy node-groups resize",
            )
        places[request.name] = Place(node=nodes[number])
    return places
