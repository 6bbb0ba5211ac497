"""Validation of a cell against the settings: what hypervisors can't do, and warnings."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from osmef.errors import CapacityError
from osmef.providers.libvirt.connection import is_session
from osmef.providers.libvirt.placement import flavor_of, place
from osmef.providers.static.wanted import requests_of
from osmef.scenario.clouds.libvirt import LibvirtSettings
from osmef.scenario.fields import EndpointKind, Placement, ProviderNetwork, Tenancy
from osmef.scenario.study import Cell

Problem = tuple[str, str, str]
_NETWORKS = "provider.networks"
_BRIDGE = "name a bridge that qemu-bridge-helper lets you use, with addresses on it; or /system"
_NIC_BRIDGES = "name bridges that are there on each host: provider.nic_bridges: [br1, br2]"
_FORWARDING = (
    "libvirt routes between two tenants' networks: it turns on net.ipv4.ip_forward on the host, and"
    " leaves it on"
)


def problems_of(settings: LibvirtSettings, cell: Cell) -> Iterator[Problem]:
    """Yield (scenario key, message, cure) of each problem."""
    scenario = cell.scenario
    if scenario.layer is ProviderNetwork.OVERLAY:
        cure = "use layer: bare"
        yield "layer", "these hosts have no overlay that OSMeF knows of", cure
    yield from _flavors(settings, cell)
    if EndpointKind.VM in {end.kind for end in scenario.ends}:
        yield from _networks(settings, cell)
    try:
        place(settings, requests_of(scenario))
    except CapacityError as error:
        if {end.kind for end in scenario.ends} == {EndpointKind.VM}:
            cure = "name the hosts under provider.uris, or use placement: same-host"
            yield "placement", "different-host needs two hosts, and there is one connection", cure
        else:
            yield "provider.hosts", error.message, str(error.cure)


def _flavors(settings: LibvirtSettings, cell: Cell) -> Iterator[Problem]:
    for name, end in cell.scenario.endpoints.each.items():
        if end.kind is EndpointKind.HOST or flavor_of(settings, end.flavor):
            continue
        sizes = ", ".join(settings.flavors)
        cure = f"use one of: {sizes}; or add it to provider.flavors"
        yield f"endpoints.{name}.flavor", f"there is no flavor {str(end.flavor)!r}", cure


def _networks(settings: LibvirtSettings, cell: Cell) -> Iterator[Problem]:
    scenario, networks = cell.scenario, settings.networks
    if not networks and len(settings.uris) > 1:
        message = "guests of several hosts need a network that joins these"
        yield _NETWORKS, message, "name it: networks: [{bridge: br0, addresses: FIRST-LAST/PREFIX}]"
    session = any(map(is_session, settings.hypervisors.values()))
    if not networks and session:
        message = "a user's own libvirt (/session) can't make networks"
        yield _NETWORKS, message, _BRIDGE
    afar = [name for name, uri in settings.hypervisors.items() if _is_afar(uri)]
    if not networks and afar:
        message = f"networks that are made on {', '.join(afar)} are reached through SSH alone"
        yield _NETWORKS, message, "write qemu+ssh://HOST/system, or name a network that is there"
    if any(one.network for one in networks) and session:
        message = "a user's own libvirt (/session) does not reach networks of the system's libvirt"
        yield _NETWORKS, message, _BRIDGE
    for name, end in scenario.endpoints.each.items():
        if end.nics and not settings.nic_bridges and (len(settings.uris) > 1 or session):
            message = "networks of further cards are made on one host of the system's libvirt"
            yield f"endpoints.{name}.nics", message, _NIC_BRIDGES
    if scenario.tenancy is Tenancy.DIFFERENT_TENANT and len(networks) == 1:
        message = "two tenants need a network each, and one is named"
        yield _NETWORKS, message, "name two networks with a router between them, or none"


def _is_afar(uri: str) -> bool:
    """Return whether a URI is remote, and not by SSH."""
    parts = urlsplit(uri)
    return bool(parts.hostname) and not parts.scheme.endswith("+ssh")


def warnings_of(settings: LibvirtSettings, cell: Cell) -> Iterator[str]:
    """Yield the warnings for a cell."""
    vms = [end for end in cell.scenario.ends if end.kind is EndpointKind.VM]
    if vms and cell.scenario.placement is Placement.ANY and len(settings.hypervisors) == 1:
        yield "placement: any, and there is one host only"
    if vms and not settings.networks and cell.scenario.tenancy is Tenancy.DIFFERENT_TENANT:
        yield _FORWARDING
