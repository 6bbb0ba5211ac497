"""The network of a tenant: what is asked of Azure for it, and for each VM's way in and out."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Any

from osmef.providers.cards import split
from osmef.remote.login import SSH_PORT
from osmef.scenario.ports import DATA_PORTS

Body = dict[str, Any]

_POOL = IPv4Network("10.0.0.0/8")
_PREFIX = 20
_DATA = f"{DATA_PORTS.start}-{DATA_PORTS.stop - 1}"
SUBNET = "vms"
DATA_RULES = {"data-tcp": ("Tcp", 200), "data-udp": ("Udp", 210)}
"""The rules for data ports, by name: their protocol and priority."""


def subnet_of(number: int) -> IPv4Network:
    """Return the addresses of a tenant's network; different tenants have different ones."""
    return IPv4Network((int(_POOL.network_address) + (number << (32 - _PREFIX)), _PREFIX))


def _rule(name: str, priority: int, **properties: Any) -> Body:
    """Return a rule for what comes in, as a part of a security group."""
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
    """Return one of the two rules that let data in, from these blocks of addresses."""
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
    """Return a group that lets in SSH from the controller, data from the sources, and no more.

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
    """Return a network of a subnet, and as many for further interfaces.

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
    """Return a public address, known as soon as it is made."""
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
