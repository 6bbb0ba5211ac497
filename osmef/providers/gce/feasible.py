"""What Google Compute Engine can't do for a cell, or can't promise."""

from __future__ import annotations

from collections.abc import Iterator

from osmef.scenario.clouds.gce import GceSettings
from osmef.scenario.fields import RECORD, EndpointKind, Placement, Tenancy
from osmef.scenario.model import Scenario
from osmef.scenario.study import Cell

Problem = tuple[str, str, str]


def problems_of(settings: GceSettings, cell: Cell) -> Iterator[Problem]:
    """Yield what can't be done, as (scenario key, message, cure)."""
    scenario = cell.scenario
    if EndpointKind.HOST in {end.kind for end in scenario.ends}:
        cure = "leave kind out, or use the provider static"
        yield ("endpoints", "there are no physical hosts here, only VMs", cure)
    if scenario.endpoints.loopback is not None:
        return
    one_tenant = settings.tenants is not None and len(settings.tenants) < 2
    if scenario.tenancy is Tenancy.DIFFERENT_TENANT and one_tenant:
        cure = "name another project in provider.tenants, or leave tenants out"
        yield ("tenancy", "different-tenant needs two projects", cure)
    yield from _of_one_zone(settings, scenario)
    if settings.node_group is not None:
        if scenario.tenancy is Tenancy.DIFFERENT_TENANT and settings.tenants is not None:
            cure = "leave provider.tenants out: each tenant is a network of its own then"
            yield ("tenancy", "a group of sole-tenant nodes belongs to one project", cure)
        return
    if scenario.placement is Placement.SAME_HOST:
        cure = (
            "name a group of sole-tenant nodes in provider.node_group; the nearest without one is"
            " placement: different-host with provider.compact"
        )
        yield ("placement", "VMs share a host for sure only on a sole-tenant node", cure)
    if scenario.placement is Placement.DIFFERENT_HOST and scenario.shares_hosts:
        cure = "name a group of sole-tenant nodes in provider.node_group, or placement: any"
        yield ("placement", "several VMs of one end can't be kept on one host", cure)
    if _is_untold(settings, scenario) and scenario.on_mismatch != RECORD:
        cure = "write placement: any, or on_mismatch: record; or leave provider.tenants out"
        yield ("placement", "the cloud does not tell hosts of two projects apart", cure)


def _of_one_zone(settings: GceSettings, scenario: Scenario) -> Iterator[Problem]:
    zones = scenario.zones_of_ends
    if settings.node_group is not None and {*zones} != {settings.zone}:
        cure = "leave the zones of the endpoints out, or provider.node_group"
        yield ("endpoints", f"the group of sole-tenant nodes is in {settings.zone}", cure)
    elif settings.compact and len(set(zones)) > 1:
        cure = "write one zone for both ends, or leave provider.compact out"
        yield ("endpoints", "a compact policy keeps VMs of one zone near each other", cure)


def warnings_of(settings: GceSettings, cell: Cell) -> Iterator[str]:
    """Yield what the cloud can't promise for a cell, and what to do about it."""
    scenario = cell.scenario
    if scenario.endpoints.loopback is not None or settings.node_group is not None:
        return
    if _is_untold(settings, scenario):
        yield "placement policies do not reach across projects: different hosts are left to chance"
    elif settings.compact and scenario.placement is Placement.DIFFERENT_HOST:
        yield "a compact policy keeps VMs near each other, not on different hosts; it is verified"


def _is_untold(settings: GceSettings, scenario: Scenario) -> bool:
    """Tell whether nobody can say if the hosts that a cell wants to differ do."""
    zones = scenario.zones_of_ends
    if None not in zones and len(set(zones)) > 1:
        return False
    across = len(settings.tenants or ()) > 1 and scenario.tenancy is Tenancy.DIFFERENT_TENANT
    return across and scenario.placement is Placement.DIFFERENT_HOST
