"""What Azure can't do for a cell, or can't promise."""

from __future__ import annotations

from collections.abc import Iterator

from osmef.scenario.clouds.azure import AzureSettings
from osmef.scenario.fields import RECORD, EndpointKind, Placement, Tenancy
from osmef.scenario.model import Scenario
from osmef.scenario.study import Cell

Problem = tuple[str, str, str]


def problems_of(settings: AzureSettings, cell: Cell) -> Iterator[Problem]:
    """Yield what can't be done, as (scenario key, message, cure)."""
    scenario = cell.scenario
    if EndpointKind.HOST in {end.kind for end in scenario.ends}:
        cure = "leave kind out, or use the provider static"
        yield ("endpoints", "there are no physical hosts here, only VMs", cure)
    if scenario.endpoints.loopback is not None:
        return
    apart = scenario.tenancy is Tenancy.DIFFERENT_TENANT
    if apart and settings.tenants is not None and len(settings.tenants) < 2:
        cure = "name another subscription in provider.tenants, or leave tenants out"
        yield ("tenancy", "different-tenant needs two subscriptions", cure)
    yield from _zones(settings, scenario)
    if settings.dedicated_host is not None:
        if apart and settings.tenants is not None and scenario.placement is Placement.SAME_HOST:
            cure = "leave provider.tenants out: each tenant is a network of its own then"
            yield ("placement", "a dedicated host belongs to one subscription", cure)
        return
    if scenario.placement is Placement.SAME_HOST:
        cure = (
            "name a type of dedicated hosts in provider.dedicated_host; the nearest without one is"
            " placement: any with provider.proximity"
        )
        yield ("placement", "VMs share a host for sure only on a dedicated host", cure)
    if scenario.placement is Placement.DIFFERENT_HOST and scenario.shares_hosts:
        cure = "name a type of dedicated hosts in provider.dedicated_host, or placement: any"
        yield ("placement", "several VMs of one end can't be kept on one host", cure)
    why = _untold(settings, scenario)
    if why is not None and scenario.on_mismatch != RECORD:
        cure = (
            "give the ends two zones, name a type of dedicated hosts in provider.dedicated_host, or"
            " write placement: any, or on_mismatch: record"
        )
        yield ("placement", f"{why}, and Azure does not tell whether hosts differ there", cure)


def _zones(settings: AzureSettings, scenario: Scenario) -> Iterator[Problem]:
    ends = scenario.endpoints.each.items()
    named = {"provider": settings.zone, **{f"endpoints.{name}": end.zone for name, end in ends}}
    for key, zone in named.items():
        if zone is not None and zone.isdigit() and len(settings.tenants or ()) > 1:
            cure = f"write its physical name, such as {settings.region}-az1"
            message = "the number of a zone means another place in each subscription"
            yield (f"{key}.zone", message, cure)
    zones = {*scenario.zones_of_ends} - {None}
    if settings.proximity and len(zones) > 1:
        cure = "write one zone for both ends, or leave provider.proximity out"
        yield ("endpoints", "a proximity group is in one zone", cure)


def _are_apart(zones: tuple[str | None, str | None]) -> bool:
    """Tell whether these are two zones for sure, and not the number and the name of one."""
    here, there = zones
    if here is None or there is None:
        return False
    return here != there and here.isdigit() == there.isdigit()


def warnings_of(settings: AzureSettings, cell: Cell) -> Iterator[str]:
    """Yield what the cloud can't promise for a cell, and what to do about it."""
    scenario = cell.scenario
    if scenario.endpoints.loopback is not None or settings.dedicated_host is not None:
        return
    why = _untold(settings, scenario)
    if why is not None:
        yield f"{why}: whether hosts differ is left to chance, and not told"


def _untold(settings: AzureSettings, scenario: Scenario) -> str | None:
    """Return why nobody can say if the hosts that a cell wants to differ do, None if one can."""
    zones = scenario.zones_of_ends
    if scenario.placement is not Placement.DIFFERENT_HOST or _are_apart(zones):
        return None
    if scenario.tenancy is Tenancy.DIFFERENT_TENANT:
        return "availability sets do not reach across tenants"
    if zones != (None, None):
        return "there are no availability sets in a zone"
    return "spot VMs take no availability set" if settings.spot else None
