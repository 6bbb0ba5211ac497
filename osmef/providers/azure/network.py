"""Tenants of a run: resource group and network of each, and each VM's interfaces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Network
from typing import Any

from osmef.providers.azure.access import ERRORS, Subscription
from osmef.providers.azure.lookup import Image, Size
from osmef.providers.azure.resource_types import GROUP, Body, Maker, body_in
from osmef.providers.cloud import account
from osmef.providers.cloud.account import Tenant, block_of, split
from osmef.providers.cloud.lookup import Offers
from osmef.remote.login import SSH_PORT
from osmef.scenario.clouds.azure import AzureSettings
from osmef.scenario.fields import DATA_PORTS

_PREFIX = 20
_DATA = f"{DATA_PORTS.start}-{DATA_PORTS.stop - 1}"
SUBNET, _GUARD = "vms", "guard"
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

    Azure's default rules would allow the whole network and its load balancers.
    """
    blocks = sorted(set(sources))
    reported = {"destinationPortRange": str(SSH_PORT), "sourceAddressPrefix": controller}
    ssh = _rule("ssh", 100, access="Allow", protocol="Tcp", **reported)
    reported = {"destinationPortRange": "*", "sourceAddressPrefix": "*"}
    nothing = _rule("nothing-else", 4096, access="Deny", protocol="*", **reported)
    rules = [ssh, *(data_rule(name, blocks) for name in DATA_RULES), nothing]
    return body_in(region, securityRules=rules)


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
    return body_in(region, addressSpace={"addressPrefixes": [str(block)]}, subnets=subnets)


def nic_subnet(number: int) -> str:
    """Return the name of a subnet of further interfaces, counted from 0."""
    return f"nic-{number + 1}"


def public_ip(region: str) -> Body:
    """Return a public address, known as soon as it is made."""
    body = body_in(region, publicIPAllocationMethod="Static", publicIPAddressVersion="IPv4")
    return {**body, "sku": {"name": "Standard"}}


def interface(region: str, subnet: str, public: str | None, *, accelerated: bool) -> Body:
    """Return an interface in a subnet, with a public address or none, both given by id."""
    inside = {"primary": True, "privateIPAllocationMethod": "Dynamic", "subnet": {"id": subnet}}
    outside = {} if public is None else {"publicIPAddress": {"id": public}}
    first = {"name": "first", "properties": {**inside, **outside}}
    return body_in(region, enableAcceleratedNetworking=accelerated, ipConfigurations=[first])


@dataclass(frozen=True)
class TenantNet(account.TenantNet[Subscription]):
    """A tenant's resource group and network."""

    offers: Offers[Size, Image]
    group: str
    subnets: dict[str, str] = field(default_factory=dict)
    """The ids of subnets by their names, once the network is made."""

    @property
    def block(self) -> IPv4Network:
        """The addresses of its network."""
        return block_of(self.tenant.number, _PREFIX)

    def path(self, what: str) -> str:
        """Return the name of a resource in its group."""
        return f"{self.group}/{what}"


def make_net(
    maker: Maker, tenant: Tenant[Subscription], offers: Offers[Size, Image], region: str
) -> TenantNet:
    """Create the resource group of a tenant. Raises ProviderError."""
    group = maker.mark.name(str(tenant.number))
    maker.make(tenant.account, GROUP, group, location=region)
    return TenantNet(tenant, offers, group)


def make_network(maker: Maker, net: TenantNet, settings: AzureSettings, nics: int) -> None:
    """Create a tenant's network with its security group. Raises ProviderError."""
    region, account = settings.region, net.account
    rules = security_group(region, str(settings.controller_cidr), [str(net.block)])
    guard = maker.make(account, "security-group", net.path(_GUARD), **rules)
    body = network(region, net.block, str(guard.id), nics)
    made = maker.make(account, "network", net.path("net"), **body)
    net.subnets.update((str(one.name), str(one.id)) for one in made.properties.subnets)


def allow_ingress(net: TenantNet, addresses: Iterable[str]) -> None:
    """Allow data from its network and these addresses only, by two rules. Raises ProviderError."""
    operations = net.account.network.security_rules
    blocks = [str(net.block), *(f"{address}/32" for address in addresses)]
    for name in DATA_RULES:
        change = partial(
            operations.begin_create_or_update, net.group, _GUARD, name, data_rule(name, blocks)
        )
        doing = f"changing the rule {name} of {net.group}/{_GUARD}"
        net.account.do(doing, change, ERRORS.is_not_yet)
