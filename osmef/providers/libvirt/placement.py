"""Placement of guests: host, size, and pinned CPUs of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from osmef.providers.base import EndpointRequest
from osmef.providers.libvirt import xml
from osmef.providers.static.assign import assign
from osmef.scenario.clouds.inventory import DeclaredLocation, InventoryHost
from osmef.scenario.clouds.libvirt import LibvirtSettings
from osmef.scenario.fields import EndpointKind, FlavorNeed


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
