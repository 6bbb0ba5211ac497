"""Tenants of a run: a project each, or a network each in one, and firewall rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from google.cloud import compute_v1

from osmef.providers.cloud import account
from osmef.providers.cloud.account import Tenant, block_of
from osmef.providers.gce.access import AT_ONCE, Project
from osmef.providers.gce.resource_types import Maker
from osmef.providers.parallel import map_concurrently, run_concurrently
from osmef.remote.login import SSH_PORT
from osmef.scenario.clouds.gce import GceSettings
from osmef.scenario.fields import DATA_PORTS

_PREFIX = 20
"""Of a subnet; a network has one in each region, and each tenant has its own sixteen of them."""
_NICS = 200
"""Where the addresses of networks of further interfaces begin: those of a VM may not overlap."""
_DATA = f"{DATA_PORTS.start}-{DATA_PORTS.stop - 1}"


@dataclass(frozen=True)
class Network:
    """A network and its subnets by region, as the API names them."""

    path: str
    subnets: Mapping[str, str]


@dataclass(frozen=True)
class TenantNet(account.TenantNet[Project]):
    """A tenant with its network, and those of further interfaces."""

    network: Network
    nics: Sequence[Network] = ()


def subnet_of(tenant: int, region: int) -> IPv4Network:
    """Return the disjoint addresses of a tenant in a region, both counted from 1."""
    return block_of(16 * tenant + region - 1, _PREFIX)


def make_net(
    maker: Maker, tenant: Tenant[Project], settings: GceSettings, regions: Sequence[str], nics: int
) -> TenantNet:
    """Create a tenant's networks, with a subnet in each region.

    Raises ProviderError.
    """

    def make(number: int) -> Network:
        what = f"nic-{number}-{tenant.number}" if number else f"net-{tenant.number}"
        blocks = _NICS + number if number else tenant.number
        cidrs = {region: subnet_of(blocks, n) for n, region in enumerate(regions, 1)}
        return _make_network(maker, tenant.account, settings, what, cidrs)

    usual, *further = map_concurrently(make, range(1 + nics))
    net = TenantNet(tenant, usual, further)
    open_to(maker, net, "ssh", [str(settings.controller_cidr)], str(SSH_PORT))
    return net


def _make_network(
    maker: Maker,
    project: Project,
    settings: GceSettings,
    what: str,
    cidrs: Mapping[str, IPv4Network],
) -> Network:
    """Create a network with a subnet in each region, and a rule for data within it."""
    name, blocks = maker.mark.name(what), map(str, cidrs.values())
    network = f"projects/{project.id}/global/networks/{name}"
    body = compute_v1.Network(auto_create_subnetworks=False, mtu=settings.mtu)
    maker.make(project, "network", name, body=body)
    data = maker.mark.name(f"data-{what}")

    def add(region: str) -> str:
        subnet = maker.mark.name(f"{what}-{region}")
        body = compute_v1.Subnetwork(network=network, ip_cidr_range=str(cidrs[region]))
        maker.make(project, "subnet", subnet, where=region, body=body)
        return f"projects/{project.id}/regions/{region}/subnetworks/{subnet}"

    subnets, _ = run_concurrently(
        lambda: map_concurrently(add, cidrs, at_once=AT_ONCE),
        lambda: maker.make(project, "firewall", data, body=_rule(network, blocks)),
    )
    return Network(network, dict(zip(cidrs, subnets, strict=True)))


def open_to(
    maker: Maker, net: TenantNet, what: str, sources: Iterable[str], ports: str | None = None
) -> str:
    """Allow blocks of addresses: by TCP to ``ports``, or to the data ports.

    Return the name of the rule. Raises ProviderError.
    """
    name = maker.mark.name(f"{what}-{net.tenant.number}")
    maker.make(net.account, "firewall", name, body=_rule(net.network.path, sources, ports))
    return name


def _rule(network: str, sources: Iterable[str], ports: str | None = None) -> Any:
    """Return a firewall rule for data, or for TCP to some ports."""
    protocols = ("tcp",) if ports else ("tcp", "udp")
    allowed = [{"I_p_protocol": protocol, "ports": [ports or _DATA]} for protocol in protocols]
    return compute_v1.Firewall(
        network=network, direction="INGRESS", source_ranges=sorted(sources), allowed=allowed
    )
