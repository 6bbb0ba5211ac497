"""Placement of guests: validation of a cell, and host, size and pinned CPUs of each guest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from osmef.errors import CapacityError
from osmef.providers.base import EndpointRequest
from osmef.providers.libvirt import xml
from osmef.providers.libvirt.connection import is_session
from osmef.providers.static.assign import assign, requests_of
from osmef.scenario.clouds.libvirt import LibvirtSettings
from osmef.scenario.clouds.static import DeclaredLocation, InventoryHost
from osmef.scenario.fields import EndpointKind, FlavorNeed, Placement, ProviderNetwork, Tenancy
from osmef.scenario.study import Cell


def flavor_of(settings: LibvirtSettings, wanted: str | FlavorNeed | None) -> str | None:
    """Return the flavor of a guest by name or need, or the default.

    For a need it is the smallest that fits, of CPUs first. None where there is no such flavor.
    """
    flavors = settings.flavors
    if isinstance(wanted, FlavorNeed):
        fitting = [
            (size.vcpus, size.ram, name)
            for name, size in flavors.items()
            if size.vcpus >= wanted.vcpus and size.ram >= (wanted.ram or 0)
        ]
        return min(fitting)[2] if fitting else None
    name = wanted or settings.default_flavor or next(iter(flavors))
    return name if name in flavors else None


def place(settings: LibvirtSettings, requests: Sequence[EndpointRequest]) -> dict[str, str]:
    """Return the host of each guest, and the inventory entry of each physical host.

    Guests of one host slot share a host, those of different slots do not. A guest that may stand
    anywhere comes where the fewest are. Raises CapacityError.
    """
    wanted = [_without_size(request) for request in requests if request.host is not None]
    seated = assign(wanted, _seats(settings, len(wanted)))
    placed = {name: entry.partition("/")[0] for name, entry in seated.items()}
    busy = Counter(dict.fromkeys(settings.hypervisors, 0))
    busy.update(host for host in placed.values() if host in settings.hypervisors)
    for request in requests:
        if request.host is None:
            placed[request.name] = min(settings.hypervisors, key=busy.__getitem__)
            busy[placed[request.name]] += 1
    return placed


def _without_size(request: EndpointRequest) -> EndpointRequest:
    """Return a request without flavor: a physical host has its own size."""
    nics = request.nics if request.kind is EndpointKind.HOST else 0
    return replace(request, flavor=None, tenant=None, nics=nics)


def _seats(settings: LibvirtSettings, count: int) -> Mapping[str, InventoryHost]:
    """Return the inventory with capacity for guests on each libvirt host."""
    room = {
        f"{name}/{number}": InventoryHost(
            ssh=name, kind=EndpointKind.VM, location=DeclaredLocation(host=name)
        )
        for name in settings.hypervisors
        for number in range(count)
    }
    return {**room, **settings.hosts}


def pin(capabilities: str, wanted: Mapping[str, int]) -> dict[str, list[int]] | None:
    """Pin each guest to exclusive CPUs of its host; None where there are too few.

    Two threads of a core go to one guest, if there are cores enough.
    """
    root = xml.parse(capabilities)
    cores: dict[tuple[str | None, ...], list[int]] = {}
    for cpu in root.findall("host/topology/cells/cell/cpus/cpu"):
        place_of = tuple(cpu.get(key) for key in ("socket_id", "die_id", "core_id"))
        cores.setdefault(place_of, []).append(int(cpu.attrib["id"]))
    return _deal(list(cores.values()), wanted) or _deal(
        [[cpu] for core in cores.values() for cpu in core], wanted
    )


def _deal(cores: list[list[int]], wanted: Mapping[str, int]) -> dict[str, list[int]] | None:
    left, found = list(cores), {}
    for name, count in wanted.items():
        own: list[int] = []
        while len(own) < count:
            if not left:
                return None
            own += left.pop(0)
        found[name] = own[:count]
    return found


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
