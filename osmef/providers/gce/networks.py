"""The network of a tenant: its subnets, and what its firewall lets in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from google.cloud import compute_v1

from osmef.providers.gce.access import AT_ONCE, Project
from osmef.providers.gce.making import Maker
from osmef.providers.parallel import side_by_side, together
from osmef.remote.login import SSH_PORT
from osmef.scenario.clouds.gce import GceSettings
from osmef.scenario.ports import DATA_PORTS

_POOL = IPv4Network("10.0.0.0/8")
_PREFIX = 20
"""Of a subnet; a network has one in each region, and each tenant has its own sixteen of them."""
_DATA = f"{DATA_PORTS.start}-{DATA_PORTS.stop - 1}"


@dataclass(frozen=True)
class Tenant:
    """A tenant of the plan: its slot and number, what it is called, and its project."""

    slot: str
    number: int
    label: str
    project: Project


@dataclass(frozen=True)
class Site:
    """A tenant with its network and its subnets by region, as the API names them."""

    tenant: Tenant
    network: str
    subnets: Mapping[str, str]


def subnet_of(tenant: int, region: int) -> IPv4Network:
    """Return the addresses of a tenant in a region, both counted from 1; none overlap."""
    size = 2 ** (32 - _PREFIX)
    start = int(_POOL.network_address) + (16 * tenant + region - 1) * size
    return IPv4Network((start, _PREFIX))


def make_site(maker: Maker, tenant: Tenant, settings: GceSettings, regions: Sequence[str]) -> Site:
    """Make a tenant's network, with a subnet in each region. Raises ProviderError."""
    project, name = tenant.project, maker.mark.name(f"net-{tenant.number}")
    network = f"projects/{project.id}/global/networks/{name}"
    body = compute_v1.Network(auto_create_subnetworks=False, mtu=settings.mtu)
    maker.make(project, "network", "", name, body)
    cidrs = {r: str(subnet_of(tenant.number, n)) for n, r in enumerate(regions, 1)}

    def add(region: str) -> str:
        subnet = maker.mark.name(f"net-{tenant.number}-{region}")
        body = compute_v1.Subnetwork(network=network, ip_cidr_range=cidrs[region])
        maker.make(project, "subnet", region, subnet, body)
        return f"projects/{project.id}/regions/{region}/subnetworks/{subnet}"

    subnets, *_ = together(
        lambda: side_by_side(add, regions, at_once=AT_ONCE),
        lambda: open_to(maker, tenant, "ssh", [str(settings.controller_cidr)], str(SSH_PORT)),
        lambda: open_to(maker, tenant, "data", cidrs.values()),
    )
    return Site(tenant, network, dict(zip(regions, subnets, strict=True)))


def open_to(
    maker: Maker, tenant: Tenant, what: str, sources: Iterable[str], ports: str | None = None
) -> str:
    """Let blocks of addresses into a tenant's network: by TCP to ``ports``, or to the data ports.

    Return the name of the rule. Raises ProviderError.
    """
    protocols = ("tcp",) if ports else ("tcp", "udp")
    name = maker.mark.name(f"{what}-{tenant.number}")
    net = maker.mark.name(f"net-{tenant.number}")
    body = compute_v1.Firewall(
        network=f"projects/{tenant.project.id}/global/networks/{net}",
        direction="INGRESS",
        source_ranges=sorted(sources),
        allowed=[
            compute_v1.Allowed(I_p_protocol=protocol, ports=[ports or _DATA])
            for protocol in protocols
        ],
    )
    maker.make(tenant.project, "firewall", "", name, body)
    return name
