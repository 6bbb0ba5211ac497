"""Where VMs really stand, as far as Azure tells."""

from __future__ import annotations

from typing import Any

from osmef.providers.azure import failures
from osmef.providers.azure.vms import Vm
from osmef.scenario.location import Gone, Location

GONE_S = 10.0
"""A VM that ran a moment ago, and is not seen for that long, was taken back."""


def read_place(vm: Vm, region: str, gone_s: float = GONE_S) -> Location:
    """Read back where a VM stands, if it is not being deleted.

    Raises ProviderError, NotFoundError where it is not seen for ``gone_s`` seconds.
    """
    site, (group, name) = vm.order.site, vm.order.path.split("/")
    subscription = site.subscription
    found = subscription.do(
        f"looking at the vm {name}",
        lambda: subscription.compute.virtual_machines.get(group, name, expand="instanceView"),
        failures.is_gone,
        gone_s,
    )
    if found.properties and found.properties.provisioning_state == "Deleting":
        return Gone()
    zones = [site.names.zones.get(zone, zone) for zone in found.zones or ()]
    return location_of(found.properties, region, next(iter(zones), None), site.tenant.label)


def location_of(properties: Any, region: str, zone: str | None, tenant: str) -> Location:
    """Return the location that a VM's properties tell.

    Azure names a physical host only where it is a dedicated one. A fault domain, a rack or what
    shares no power and switch with others, has a number within its availability set.
    """
    view, spread, host = (
        properties.instance_view,
        properties.availability_set,
        properties.host,
    )
    domain = view.platform_fault_domain if view else None
    scope = str(spread.id).lower() if spread and host is None else None
    return Location(
        host=str(host.id).lower() if host else None,
        host_scope=scope,
        rack=None if scope is None or domain is None else f"{scope}/{domain}",
        zone=zone,
        region=region,
        tenant=tenant,
    )
