"""From a plan's requests to the hosts, networks and guests of a local cloud."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from itertools import cycle

from osmef.errors import ProviderError
from osmef.providers.base import EndpointRequest
from osmef.providers.local.addresses import AddressPlan
from osmef.providers.local.wire import CloudSpec, HostSpec, TenantSpec
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.fields import EndpointKind, FlavorNeed


@dataclass(frozen=True)
class Place:
    """Where a requested endpoint will stand, and with which addresses and CPUs.

    ``physical`` is the address on the physical network, None for a VM.
    """

    request: EndpointRequest
    host: str
    tenant: str
    address: str
    physical: str | None
    management: str
    flavor: str | None
    cpus: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A whole cloud; places stand in the order of the requests."""

    cloud: CloudSpec
    places: tuple[Place, ...]


def cpus_for(role: str, wanted: int, available: Sequence[int], taken: int = 0) -> tuple[int, ...]:
    """Return the CPUs of a VM: receivers from the highest downwards, others from the lowest up.

    So both ends share CPUs only where this machine has too few for both. Nodes follow each other,
    all around: so many CPUs are ``taken`` by those before.
    """
    ordered = sorted(available, reverse=role == "receiver")
    begin = taken % len(ordered)
    return tuple(sorted([*ordered[begin:], *ordered[:begin]][:wanted]))


def _numbered(slots: Sequence[str], limit: int, what: str) -> dict[str, int]:
    distinct = list(dict.fromkeys(slots))
    if len(distinct) > limit:
        raise ProviderError(
            f"the plan needs {len(distinct)} {what}, and the local cloud has {limit}",
            where=f"provider.{what}",
            cure=f"set {what}: {len(distinct)} in the provider's settings",
        )
    return {slot: number for number, slot in enumerate(distinct)}


def lay_out(
    settings: LocalSettings,
    requests: Sequence[EndpointRequest],
    block: IPv4Network,
    cpus: Sequence[int],
) -> Layout:
    """Give each request a host, a tenant's network, addresses and CPUs.

    Slots become hosts and tenants in the order in which the requests name them; VMs without a host
    slot go to all hosts by turns. A physical host takes part in the first tenant's network, which
    is its overlay. Raises ProviderError when the settings have too few hosts or tenants.
    """
    plan = AddressPlan(block)
    named = [request.host for request in requests if request.host is not None]
    hosts = _numbered(named, settings.hosts, "hosts")
    turns = cycle(range(settings.hosts))
    at = [next(turns) if request.host is None else hosts[request.host] for request in requests]
    slots = [request.tenant for request in requests if request.tenant is not None]
    tenants = _numbered(slots or ["tenant-1"], settings.tenants, "tenants")
    pools = [plan.endpoints(plan.tenant(number)) for number in tenants.values()]
    management = plan.endpoints(plan.management)
    places = []
    of_nodes = 0
    for request, host in zip(requests, at, strict=True):
        tenant = tenants[request.tenant] if request.tenant is not None else 0
        is_host = request.kind is EndpointKind.HOST
        flavor = None if is_host else flavor_of(settings, request.flavor)
        wanted = len(cpus) if flavor is None else settings.flavors[flavor].vcpus
        places.append(
            Place(
                request=request,
                host=f"host-{host + 1}",
                tenant=f"tenant-{tenant + 1}",
                address=next(pools[tenant]),
                physical=str(plan.host(host)) if is_host else None,
                management=next(management),
                flavor=flavor,
                cpus=cpus_for(request.role, wanted, cpus, of_nodes),
            )
        )
        of_nodes += wanted if request.role == "node" else 0
    return Layout(_cloud(settings, plan, 1 + max(at), len(tenants), places), tuple(places))


def flavor_of(settings: LocalSettings, wanted: str | FlavorNeed | None) -> str:
    """Return the flavor of a VM that asks for this one, for a need, or for none in particular.

    For a need it is the smallest that fits; the need itself where none does.
    """
    if isinstance(wanted, FlavorNeed):
        sizes = {name: flavor.vcpus for name, flavor in settings.flavors.items()}
        fitting = [name for name, vcpus in sizes.items() if vcpus >= wanted.vcpus]
        return min(fitting, key=sizes.__getitem__, default=str(wanted))
    return wanted or settings.default_flavor or next(iter(settings.flavors))


def _cloud(
    settings: LocalSettings,
    plan: AddressPlan,
    hosts: int,
    tenants: int,
    places: Sequence[Place],
) -> CloudSpec:
    names = [f"tenant-{number + 1}" for number in range(tenants)]
    present = {name: {place.host for place in places if place.tenant == name} for name in names}
    return CloudSpec(
        link_rate_bps=settings.link_rate,
        burst_bytes=settings.burst,
        filling_bps=settings.filling_bps,
        physical=str(plan.physical),
        management=str(plan.management),
        hosts=tuple(HostSpec(f"host-{n + 1}", str(plan.host(n))) for n in range(hosts)),
        network_node=HostSpec("network-node", str(plan.network_node)),
        tenants=tuple(
            TenantSpec(name, number + 1, str(plan.tenant(number)), tuple(sorted(present[name])))
            for number, name in enumerate(names)
        ),
    )
