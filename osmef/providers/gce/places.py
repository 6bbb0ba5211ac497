"""Where the cloud says that VMs stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osmef.providers.gce.access import last
from osmef.providers.gce.names import region_of
from osmef.scenario.location import Location


def location_of(instance: Any, tenant: str, project: str, nodes: Mapping[str, str]) -> Location:
    """Return the place of an instance, as the API describes it.

    ``nodes`` are the sole-tenant nodes by the names of their VMs. Ids of places are compared within
    a project only, as the cloud hashes them.
    """
    zone = last(instance.zone)
    place = {"zone": zone, "region": region_of(zone), "tenant": tenant}
    node = nodes.get(instance.name)
    if node is not None:
        return Location(host=node, host_scope=project, **place)
    told = instance.resource_status
    topology = told.physical_host_topology
    host = topology.host or told.physical_host or None
    rack = _rack(instance, topology.subblock)
    return Location(host=host, host_scope=project, rack=rack, **place)


def _rack(instance: Any, subblock: str) -> str | None:
    """Return the availability domain in the VM's spread policy, else the part of the network."""
    domain = instance.resource_status.scheduling.availability_domain
    if domain and instance.resource_policies:
        return f"{last(instance.resource_policies[0])}/{domain}"
    return subblock or None
