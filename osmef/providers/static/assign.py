"""Endpoint requests of a cell, and their assignment to hosts of an inventory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations
from typing import TypeVar

from osmef.errors import CapacityError
from osmef.providers.base import EndpointRequest
from osmef.scenario.clouds.static import InventoryHost
from osmef.scenario.fields import EndpointKind, FlavorNeed, Placement, Tenancy
from osmef.scenario.model import EndpointSettings, Scenario
from osmef.units import counted

_MOST_WAYS = 100_000
"""The search ends here: beyond a dozen hosts, and only where requests without a slot compete."""

L = TypeVar("L")
R = TypeVar("R")

Hosts = Mapping[str, InventoryHost]
PhysicalHosts = Mapping[str, Sequence[str]]
"""The names of the entries on each physical host."""
Tenants = Mapping[str, str | None]
"""The real tenant of each tenant slot; None is that of VMs that declare none."""


def physical_host(name: str, host: InventoryHost) -> str | None:
    """Return the physical host of an entry; None where it is unknown."""
    if host.location.host is None and host.kind is EndpointKind.HOST:
        return name
    return host.location.host


def assign(requests: Sequence[EndpointRequest], hosts: Hosts) -> dict[str, str]:
    """Return the entry for each request by name, by exhaustive search.

    Each request gets an entry of its own. Requests of one host slot get entries of one physical
    host, those of different slots of different ones, in all lanes; and so for tenants. Those
    without a host slot get any that are left. A VM of an unknown host counts as alone on its
    host, and is taken only where no other fits. Raises CapacityError, which says what is missing.
    """
    slots: dict[str, list[EndpointRequest]] = {}
    for request in requests:
        if request.host is not None:
            slots.setdefault(request.host, []).append(request)
    physical_hosts = _physical_hosts(hosts)
    all_names = [name for there in physical_hosts.values() for name in there]
    names = list(dict.fromkeys(r.tenant for r in requests if r.tenant is not None))
    for tenants in _tenants(names, hosts):
        search = _Search(requests, slots, hosts, physical_hosts, tenants)
        for where in search.spreads():
            found = search.assign(requests, where, all_names)
            if found is not None:
                return found
    raise _missing(requests, hosts, physical_hosts)


@dataclass(frozen=True)
class _Search:
    """Search for the entries of requests, for chosen tenants."""

    requests: Sequence[EndpointRequest]
    slots: Mapping[str, Sequence[EndpointRequest]]
    hosts: Hosts
    physical_hosts: PhysicalHosts
    tenants: Tenants

    def spreads(self) -> Iterator[Mapping[str, str]]:
        """Yield assignments of physical hosts with enough capacity to host slots.

        The first one is enough unless requests without a slot need what it takes.
        """
        feasible = {
            (slot, host_name)
            for slot, wanted in self.slots.items()
            for host_name, there in self.physical_hosts.items()
            if self.assign(wanted, {slot: host_name}, there) is not None
        }
        first = _match(list(self.slots), list(self.physical_hosts), lambda s, p: (s, p) in feasible)
        if first is None:
            return
        yield first
        if any(request.host is None for request in self.requests):
            for chosen in islice(permutations(self.physical_hosts, len(self.slots)), _MOST_WAYS):
                where = dict(zip(self.slots, chosen, strict=True))
                if feasible.issuperset(where.items()):
                    yield where

    def assign(
        self, wanted: Sequence[EndpointRequest], where: Mapping[str, str], names: Sequence[str]
    ) -> dict[str, str] | None:
        """Assign an entry of its slot's host to each request; None if impossible."""

        def fits(request: EndpointRequest, name: str) -> bool:
            host = self.hosts[name]
            if request.host is not None and name not in self.physical_hosts[where[request.host]]:
                return False
            if request.kind is not host.kind or not _has_size(host, request.flavor):
                return False
            if request.nics > len(host.nics):
                return False
            return request.tenant is None or host.location.tenant == self.tenants[request.tenant]

        found = _match(wanted, names, fits)
        return None if found is None else {request.name: name for request, name in found.items()}


def _physical_hosts(hosts: Hosts) -> PhysicalHosts:
    """Return the entries by physical host; those of an unknown host come last."""
    physical_hosts: dict[str, list[str]] = {}
    for name, host in sorted(hosts.items(), key=lambda item: physical_host(*item) is None):
        host_name = physical_host(name, host) or f"the unknown host of {name}"
        physical_hosts.setdefault(host_name, []).append(name)
    return physical_hosts


def _tenants(slots: Sequence[str], hosts: Hosts) -> list[Tenants]:
    """List the assignments of tenants to tenant slots."""
    real = dict.fromkeys(h.location.tenant for h in hosts.values() if h.kind is EndpointKind.VM)
    if len(slots) > 1:
        real.pop(None, None)  # whether they are of one tenant or of two is unknown
    return [dict(zip(slots, some, strict=True)) for some in permutations(real, len(slots))]


def _has_size(host: InventoryHost, flavor: str | FlavorNeed | None) -> bool:
    if isinstance(flavor, FlavorNeed):
        return (host.vcpus or 0) >= flavor.vcpus and (host.ram or 0) >= (flavor.ram or 0)
    return flavor in {None, host.flavor}


def _match(
    lefts: Sequence[L], rights: Sequence[R], fits: Callable[[L, R], bool]
) -> dict[L, R] | None:
    """Return a bipartite matching that covers the left side; None if there is none.

    Augmenting paths, after H. W. Kuhn, "The Hungarian method for the assignment problem" (1955).
    """
    held: dict[R, L] = {}

    def augment(left: L, tried: set[R]) -> bool:
        able = [right for right in rights if right not in tried and fits(left, right)]
        able.sort(key=lambda right: right in held)  # who came first stays, if there is capacity
        for right in able:
            if right in tried:
                continue
            tried.add(right)
            if right not in held or augment(held[right], tried):
                held[right] = left
                return True
        return False

    if all(augment(left, set()) for left in lefts):
        return {left: right for right, left in held.items()}
    return None


def _missing(
    requests: Sequence[EndpointRequest], hosts: Hosts, physical_hosts: PhysicalHosts
) -> CapacityError:
    needed, had = (Counter(one.kind for one in many) for many in (requests, hosts.values()))
    cure = "add them to the inventory, or ask for less: endpoints, placement, tenancy, parallel"
    for kind, word in ((EndpointKind.VM, "VMs"), (EndpointKind.HOST, "physical hosts")):
        if needed[kind] > had[kind]:
            message = f"{needed[kind]} {word} are needed, and the inventory has {had[kind]}"
            return CapacityError(message, cure=f"{cure}; each says its kind: vm or host")
    slots: dict[str, list[str]] = {}
    for request in requests:
        words = _words(request.kind, request.flavor, request.tenant, request.nics)
        slots.setdefault(request.host or "any host", []).append(words)
    there = {
        host_name: [
            _words(host.kind, host.flavor, host.location.tenant, len(host.nics))
            for host in map(hosts.__getitem__, names)
        ]
        for host_name, names in physical_hosts.items()
    }
    message = f"no hosts of the inventory fit. Needed: {_list(slots)}. Available: {_list(there)}"
    return CapacityError(message, cure=cure)


def _list(words: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(
        f"{host_name} with " + ", ".join(f"{count} {word}" for word, count in Counter(many).items())
        for host_name, many in words.items()
    )


def _words(kind: EndpointKind, flavor: object, tenant: str | None, nics: int) -> str:
    size = f" of flavor {flavor}" if flavor else ""
    owner = f" of {tenant}" if tenant else ""
    cards = f" and {counted(nics, 'free network card')}" if nics else ""
    return f"{'VM' if kind is EndpointKind.VM else 'physical host'}{size}{owner}{cards}"


def requests_of(scenario: Scenario) -> list[EndpointRequest]:
    """Return the endpoint requests of a cell, on the slots of a plan."""
    sender, receiver = scenario.ends
    vms: tuple[str | None, str | None] = ("host-1", "host-2")
    if scenario.placement is not Placement.DIFFERENT_HOST:
        vms = ("host-1", "host-1") if scenario.placement is Placement.SAME_HOST else (None, None)
    if scenario.endpoints.node is not None:
        apart = scenario.placement is Placement.DIFFERENT_HOST or sender.kind is EndpointKind.HOST
        return [
            _node(sender, f"host-{number}" if apart else vms[0], number)
            for number in range(1, sender.count + 1)
        ]
    if scenario.endpoints.loopback is not None:
        return _group("loopback", sender, vms[0], "tenant-1")
    owner = f"tenant-{1 + (scenario.tenancy is Tenancy.DIFFERENT_TENANT)}"
    if scenario.trials > 1:  # pairs share hosts only where there are too few: the plan knows
        sender, receiver = (end.model_copy(update={"count": 1}) for end in (sender, receiver))
    return [
        *_group("sender", sender, vms[0], "tenant-1"),
        *_group("receiver", receiver, vms[1], owner),
    ]


def _node(end: EndpointSettings, host: str | None, number: int) -> EndpointRequest:
    tenant = None if end.kind is EndpointKind.HOST else "tenant-1"
    request = EndpointRequest(f"node-{number}", "node", end.kind, end.flavor, host, tenant)
    return replace(request, nics=end.nics)


def _group(
    role: str, end: EndpointSettings, host: str | None, tenant: str
) -> list[EndpointRequest]:
    numbers = range(1, end.count + 1)
    first = EndpointRequest(role, role, end.kind, end.flavor, host, tenant, nics=end.nics)
    if end.kind is EndpointKind.HOST:  # each is its own host, wherever that is
        first = replace(first, flavor=None, tenant=None)
        where = [host or f"host-of-{role}", *(f"host-of-{role}-{n}" for n in numbers[1:])]
        return [
            replace(first, name=f"{role}-{n}", host=host_name)
            for n, host_name in zip(numbers, where, strict=True)
        ]
    return [replace(first, name=f"{role}-{n}") for n in numbers]
