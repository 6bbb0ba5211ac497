"""What an OpenStack cloud can't do for a cell, or can't promise."""

from __future__ import annotations

from collections.abc import Iterator

from osmef.errors import ProviderError
from osmef.providers.openstack.servers import user_data_of
from osmef.remote.keys import KeyPair
from osmef.scenario.clouds.openstack import OpenStackSettings, PlacedBy
from osmef.scenario.fields import EndpointKind, Layer, Placement, Tenancy
from osmef.scenario.model import EndpointSettings
from osmef.scenario.study import Cell

Problem = tuple[str, str, str]


def problems_of(settings: OpenStackSettings, cell: Cell) -> Iterator[Problem]:
    """Yield what can't be done, as (scenario key, message, cure)."""
    scenario = cell.scenario
    for key, end in _ends(cell).items():
        if end.kind is EndpointKind.VM and end.flavor is None and settings.default_flavor is None:
            cure = f"write {key}.flavor, or provider.default_flavor for all"
            yield (key, "this server has no flavor", cure)
    if scenario.endpoints.loopback is None:
        if scenario.tenancy is Tenancy.DIFFERENT_TENANT and not _has_two_projects(settings):
            cure = "name two projects in provider.projects, or write made, as an administrator"
            yield ("tenancy", "different-tenant needs two projects", cure)
        yield from _too_few_places(settings, scenario.placement)
    yield from _too_few_hosts(settings, cell)
    yield from _bad_userdata(settings)


def _bad_userdata(settings: OpenStackSettings) -> Iterator[Problem]:
    if settings.userdata is None:
        return
    key = KeyPair.generate("osmef")
    try:
        user_data_of(settings, key, key)
    except ProviderError as error:
        yield ("provider.userdata", error.message, str(error.cure))


def _too_few_hosts(settings: OpenStackSettings, cell: Cell) -> Iterator[Problem]:
    hosts = sum(end.count for end in _ends(cell).values() if end.kind is EndpointKind.HOST)
    if hosts > len(settings.hosts):
        message = f"{hosts} physical hosts are needed, and provider.hosts has {len(settings.hosts)}"
        yield ("provider.hosts", message, "write how to reach them: hosts: {compute-1: {ssh: ...}}")
    if hosts and cell.scenario.layer is Layer.OVERLAY:
        yield ("layer", "OSMeF knows of no overlay between hosts here", "use layer: bare")


def _has_two_projects(settings: OpenStackSettings) -> bool:
    projects = settings.projects
    return projects == "made" or (isinstance(projects, dict) and len(projects) > 1)


def _too_few_places(settings: OpenStackSettings, placement: Placement) -> Iterator[Problem]:
    apart = placement is Placement.DIFFERENT_HOST
    if apart and settings.placement_by is PlacedBy.ZONE and len(settings.zones) < 2:
        yield ("placement", "different-host needs two zones", "name another in provider.zones")
    if apart and settings.placement_by is PlacedBy.HOST and len(settings.compute_hosts) == 1:
        cure = "name another one in provider.compute_hosts"
        yield ("placement", "different-host needs two compute hosts", cure)


def warnings_of(settings: OpenStackSettings, cell: Cell) -> Iterator[str]:
    """Yield what the cloud can't promise for a cell, and what to do about it."""
    scenario = cell.scenario
    if scenario.endpoints.loopback is not None:
        return
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
                "only an administrator's cloud tells the hosts of two projects apart; for others"
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
    return {f"endpoints.{name}": end for name, end in cell.scenario.endpoints.each.items()}
