"""Which host of an inventory becomes which endpoint of a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import TypeVar

from osmef.errors import CapacityError
from osmef.providers.base import EndpointRequest
from osmef.scenario.clouds.inventory import InventoryHost
from osmef.scenario.fields import EndpointKind

L = TypeVar("L")
R = TypeVar("R")

Hosts = Mapping[str, InventoryHost]
Tenants = Mapping[str, str | None]
"""The real tenant of each tenant slot; None is that of VMs that declare none."""


def physical_host(name: str, host: InventoryHost) -> str | None:
    """Return the physical host that an entry stands on; None where nobody says it."""
    if host.location.host is None and host.kind is EndpointKind.HOST:
        return name
    return host.location.host


def assign(requests: Sequence[EndpointRequest], hosts: Hosts) -> dict[str, str]:
    """Return the entry for each request by its name, exactly: if there is a way it is found.

    Each request gets an entry of its own. Requests of one host slot get entries of one physical
    host, those of different slots of different ones, in all lanes; and so for tenants. A VM whose
    host nobody says counts as alone on its host, and is taken only where no other fits.
    Raises CapacityError, which says what is missing.
    """
    slots: dict[str, list[EndpointRequest]] = {}
    for request in requests:
        slots.setdefault(request.host or request.name, []).append(request)
    places = _places(hosts)
    names = list(dict.fromkeys(r.tenant for r in requests if r.tenant is not None))
    for tenants in _tenants(names, hosts):
        seats = {
            (slot, place): seated
            for slot, wanted in slots.items()
            for place, there in places.items()
            if (seated := _seat(wanted, there, tenants)) is not None
        }
        chosen = _match(list(slots), list(places), lambda slot, place: (slot, place) in seats)  # noqa: B023
        if chosen is not None:
            return {r: name for pair in chosen.items() for r, name in seats[pair].items()}
    raise _missing(slots, places)


def _places(hosts: Hosts) -> Mapping[str, Hosts]:
    """Return the entries on each physical host; those whose host nobody says come last."""
    places: dict[str, dict[str, InventoryHost]] = {}
    for name, host in sorted(hosts.items(), key=lambda item: physical_host(*item) is None):
        place = physical_host(name, host) or f"the unknown host of {name}"
        places.setdefault(place, {})[name] = host
    return places


def _tenants(slots: Sequence[str], hosts: Hosts) -> list[Tenants]:
    """List the ways to give each tenant slot a tenant of its own."""
    real = dict.fromkeys(h.location.tenant for h in hosts.values() if h.kind is EndpointKind.VM)
    if len(slots) > 1:
        real.pop(None, None)  # whether they are of one tenant or of two, nobody says
    return [dict(zip(slots, some, strict=True)) for some in permutations(real, len(slots))]


def _seat(
    wanted: Sequence[EndpointRequest], there: Hosts, tenants: Tenants
) -> dict[str, str] | None:
    """Give each request of a host slot one of the entries on a host; None where it can't be."""

    def fits(request: EndpointRequest, name: str) -> bool:
        host = there[name]
        if request.kind is not host.kind or request.flavor not in {None, host.flavor}:
            return False
        return request.tenant is None or host.location.tenant == tenants[request.tenant]

    found = _match(wanted, list(there), fits)
    return None if found is None else {request.name: name for request, name in found.items()}


def _match(
    lefts: Sequence[L], rights: Sequence[R], fits: Callable[[L, R], bool]
) -> dict[L, R] | None:
    """Give each left one a right one of its own that fits; None where there is no way.

    Augmenting paths, after H. W. Kuhn, "The Hungarian method for the assignment problem" (1955).
    """
    held: dict[R, L] = {}

    def place(left: L, tried: set[R]) -> bool:
        able = [right for right in rights if right not in tried and fits(left, right)]
        able.sort(key=lambda right: right in held)  # who came first stays, if there is room
        for right in able:
            if right in tried:
                continue
            tried.add(right)
            if right not in held or place(held[right], tried):
                held[right] = left
                return True
        return False

    if all(place(left, set()) for left in lefts):
        return {left: right for right, left in held.items()}
    return None


def _missing(
    slots: Mapping[str, Sequence[EndpointRequest]], places: Mapping[str, Hosts]
) -> CapacityError:
    requests = [request for wanted in slots.values() for request in wanted]
    entries = [host for there in places.values() for host in there.values()]
    needed, had = (Counter(one.kind for one in many) for many in (requests, entries))
    cure = "add them to the inventory, or ask for less: endpoints, placement, tenancy, parallel"
    for kind, word in ((EndpointKind.VM, "VMs"), (EndpointKind.HOST, "physical hosts")):
        if needed[kind] > had[kind]:
            message = f"{needed[kind]} {word} are needed, and the inventory has {had[kind]}"
            return CapacityError(message, cure=f"{cure}; each says its kind: vm or host")
    wanted = "; ".join(f"{slot} with {_list(map(_request, them))}" for slot, them in slots.items())
    there = "; ".join(
        f"{place} with {_list(map(_entry, h.values()))}" for place, h in places.items()
    )
    message = f"no hosts of the inventory fit. Needed are: {wanted}. There are: {there}"
    return CapacityError(message, cure=cure)


def _list(words: map[str]) -> str:
    counted = Counter(words)
    return ", ".join(f"{count} {word}" for word, count in counted.items())


def _request(request: EndpointRequest) -> str:
    return _words(request.kind, request.flavor, request.tenant)


def _entry(host: InventoryHost) -> str:
    return _words(host.kind, host.flavor, host.location.tenant)


def _words(kind: EndpointKind, flavor: object, tenant: str | None) -> str:
    size = f" of flavor {flavor}" if flavor else ""
    owner = f" of {tenant}" if tenant else ""
    return f"{'VM' if kind is EndpointKind.VM else 'physical host'}{size}{owner}"
