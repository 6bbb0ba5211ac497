"""Tenants of a run: resource group and network of each, and each VM's interfaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from osmef.providers.azure.access import Subscription, access_of, open_subscription
from osmef.providers.azure.lookup import Names
from osmef.providers.azure.resource_types import GROUP, Maker
from osmef.providers.base import Check
from osmef.providers.cloud import tenants
from osmef.providers.cloud.network import block_of, split
from osmef.providers.cloud.tenants import Tenant, open_tenants
from osmef.remote.login import SSH_PORT
from osmef.scenario.clouds.azure import AzureSettings
from osmef.scenario.fields import DATA_PORTS

Body = dict[str, Any]

_PREFIX = 20
_DATA = f"{DATA_PORTS.start}-{DATA_PORTS.stop - 1}"
SUBNET = "vms"
DATA_RULES = {"data-tcp": ("Tcp", 200), "data-udp": ("Udp", 210)}
"""The rules for data ports, by name: their protocol and priority."""


def _rule(name: str, priority: int, **properties: Any) -> Body:
    """Return an inbound rule of a security group."""
    return {
        "name": name,
        "properties": {
            "priority": priority,
            "direction": "Inbound",
            "sourcePortRange": "*",
            "destinationAddressPrefix": "*",
            **properties,
        },
    }


def data_rule(name: str, sources: Iterable[str]) -> Body:
    """Return one of the two rules that allow data, from these blocks."""
    protocol, priority = DATA_RULES[name]
    return _rule(
        name,
        priority,
        access="Allow",
        protocol=protocol,
        destinationPortRange=_DATA,
        sourceAddressPrefixes=sorted(set(sources)),
    )


def security_group(region: str, controller: str, sources: Iterable[str]) -> Body:
    """Return a group that allows SSH from the controller and data from the sources only.

    Azure's own rules would let in all of the network and of its load balancers.
    """
    blocks = sorted(set(sources))
    ssh = _rule(
        "ssh",
        100,
        access="Allow",
        protocol="Tcp",
        destinationPortRange=str(SSH_PORT),
        sourceAddressPrefix=controller,
    )
    nothing = _rule(
        "nothing-else",
        4096,
        access="Deny",
        protocol="*",
        destinationPortRange="*",
        sourceAddressPrefix="*",
    )
    rules = [ssh, *(data_rule(name, blocks) for name in DATA_RULES), nothing]
    return {"location": region, "properties": {"securityRules": rules}}


def network(region: str, block: IPv4Network, group: str, nics: int) -> Body:
    """Return a network with a subnet, and further subnets for interfaces.

    All are guarded by a security group, given by id.
    """
    usual, further = split(block)
    blocks = {SUBNET: usual} | {nic_subnet(n): further[n] for n in range(nics)}
    subnets = [
        {
            "name": name,
            "properties": {"addressPrefix": str(one), "networkSecurityGroup": {"id": group}},
        }
        for name, one in blocks.items()
    ]
    return {
        "location": region,
        "properties": {"addressSpace": {"addressPrefixes": [str(block)]}, "subnets": subnets},
    }


def nic_subnet(number: int) -> str:
    """Return the name of a subnet of further interfaces, counted from 0."""
    return f"nic-{number + 1}"


def public_ip(region: str) -> Body:
    """Return a static public address."""
    return {
        "location": region,
        "sku": {"name": "Standard"},
        "properties": {"publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4"},
    }


def interface(region: str, subnet: str, public: str | None, *, accelerated: bool) -> Body:
    """Return an interface in a subnet, with a public address or none, both given by id."""
    outside = {} if public is None else {"publicIPAddress": {"id": public}}
    configuration = {
        "name": "first",
        "properties": {
            "primary": True,
            "privateIPAllocationMethod": "Dynamic",
            "subnet": {"id": subnet},
            **outside,
        },
    }
    return {
        "location": region,
        "properties": {
            "enableAcceleratedNetworking": accelerated,
            "ipConfigurations": [configuration],
        },
    }


@dataclass(frozen=True)
class Site(tenants.Site[Subscription]):
    """A tenant's resource group and network."""

    names: Names
    group: str

    @property
    def block(self) -> IPv4Network:
        """The addresses of its network."""
        return block_of(self.tenant.number, _PREFIX)

    def path(self, what: str) -> str:
        """Return the name of a resource in its group."""
        return f"{self.group}/{what}"


def tenants_of(
    settings: AzureSettings, slots: Sequence[str], check: Check
) -> list[Tenant[Subscription]]:
    """Log into the subscriptions of the tenants, one a slot. Raises ProviderError."""
    return open_tenants(
        slots, settings.tenants, lambda one: open_subscription(access_of(settings, one), check)
    )


def make_site(maker: Maker, tenant: Tenant[Subscription], names: Names, region: str) -> Site:
    """Create the resource group of a tenant. Raises ProviderError."""
    group = maker.mark.name(str(tenant.number))
    maker.make(tenant.account, GROUP, group, {"location": region})
    return Site(tenant, names, group)
