"""Networks of tenants: created for the run on its only host, or existing ones."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from typing import Any

from osmef.errors import CapacityError, NotFoundError, ProviderError, ReachError
from osmef.providers.libvirt import xml
from osmef.providers.libvirt.connection import Hypervisor, Maker, address_of_xml, libvirt
from osmef.providers.local.addresses import choose_block, used_networks
from osmef.scenario.clouds.libvirt import ExistingNetwork, addresses_of

_TRIES = 8
_IN_USE = "already in use"


@dataclass
class Network:
    """The network of a tenant. ``free`` are addresses for guests, None for DHCP.

    ``kind`` is "network" or "bridge"; ``made`` says that no other guest is on it.
    """

    kind: str
    name: str
    made: bool
    subnet: IPv4Network
    gateway: str | None
    free: list[IPv4Interface] | None

    def take(self) -> IPv4Interface | None:
        """Return an address for a guest, None for DHCP. Raises CapacityError."""
        if self.free is None:
            return None
        if not self.free:
            raise CapacityError(
                f"the {self.kind} {self.name} has no address left",
                where="provider.networks",
                cure="give it more addresses, or ask for fewer guests",
            )
        return self.free.pop(0)


def new_mac() -> str:
    """Return a random MAC address of QEMU's block."""
    return "52:54:00:" + secrets.token_bytes(3).hex(":")


def make_networks(host: Hypervisor, maker: Maker, tenants: Sequence[str]) -> dict[str, Network]:
    """Create a network for each tenant, and routes between them if there are several.

    They lie in a block that neither this machine nor the host uses. Raises ProviderError.
    """
    used = [*used_networks(), *host.do("listing networks", _subnets)]
    made: dict[str, Network] = {}
    for number, tenant in enumerate(tenants):
        for _ in range(_TRIES):
            subnet = list(choose_block(used).subnets(new_prefix=24))[number]
            name = maker.mark.name(tenant)
            try:
                _make(host, maker, name, subnet, routed=len(tenants) > 1)
                break
            except ProviderError as error:
                if _IN_USE not in error.message:
                    raise
                used.append(subnet)  # by a route of the host that only it knows
        else:
            message = "the host's routes use all networks that were tried"
            raise CapacityError(message, where=host.name, cure="look at its routes: ip route")
        interfaces = [IPv4Interface((address, 24)) for address in subnet.hosts()]
        made[tenant] = Network("network", name, True, subnet, str(interfaces[0].ip), interfaces[1:])
    return made


def make_switch(host: Hypervisor, maker: Maker, what: str) -> str:
    """Create an isolated network of guests; return its name. Raises ProviderError."""
    name = maker.mark.name(what)
    description = xml.switch(name, maker.mark.element(name))
    maker.make(
        host,
        "network",
        name,
        lambda connection: connection.networkCreateXML(description),
        lambda connection: connection.networkLookupByName(name),
    )
    return name


def _make(host: Hypervisor, maker: Maker, name: str, subnet: IPv4Network, *, routed: bool) -> None:
    description = xml.network(name, subnet, maker.mark.element(name), routed=routed)
    maker.make(
        host,
        "network",
        name,
        lambda connection: connection.networkCreateXML(description),
        lambda connection: connection.networkLookupByName(name),
    )


def _subnets(connection: Any) -> list[IPv4Network]:
    found = []
    for network in connection.listAllNetworks():
        try:
            found += _subnets_of(network.XMLDesc())
        except libvirt().libvirtError:  # gone in between
            continue
    return found


def _subnets_of(description: str) -> list[IPv4Network]:
    found = []
    for ip in xml.parse(description).iter("ip"):
        length = ip.get("prefix") or ip.get("netmask")
        if ip.get("family", "ipv4") == "ipv4" and ip.get("address") and length:
            found.append(IPv4Network(f"{ip.get('address')}/{length}", strict=False))
    return found


def find_networks(
    hosts: Sequence[Hypervisor], wanted: Sequence[ExistingNetwork], tenants: Sequence[str]
) -> dict[str, Network]:
    """Return the existing network of each tenant. Raises NotFoundError."""
    taken = {address for host in hosts for address in host.do("listing guests", _given)}
    found = {}
    for tenant, one in zip(tenants, wanted, strict=False):
        dhcp = [_network_of(host, one.network) for host in hosts] if one.network else []
        kind, name = ("network", one.network) if one.network else ("bridge", str(one.bridge))
        if one.addresses is None:
            found[tenant] = Network(kind, name, False, _subnet_of(hosts[0], name, dhcp), None, None)
            continue
        free = addresses_of(one.addresses)
        left = [address for address in free if str(address.ip) not in taken]
        found[tenant] = Network(kind, name, False, free[0].network, one.gateway, left)
    return found


def _given(connection: Any) -> list[str]:
    """List the addresses in use by guests of runs."""
    found = []
    for domain in connection.listAllDomains():
        try:
            found.append(address_of_xml(domain.XMLDesc()))
        except libvirt().libvirtError:  # gone in between
            continue
    return [address for address in found if address is not None]


def _network_of(host: Hypervisor, name: str) -> str:
    """Return the XML of an active network. Raises NotFoundError."""

    def look(connection: Any) -> tuple[bool, str]:
        network = connection.networkLookupByName(name)
        return bool(network.isActive()), network.XMLDesc()

    there = host.find(f"looking for the network {name}", look)
    where = f"{host.name}: provider.networks"
    if there is None:
        cure = "virsh net-list --all shows the networks of the host"
        raise NotFoundError(f"there is no network {name}", where=where, cure=cure)
    active, description = there
    if not active:
        cure = f"virsh net-start {name}"
        raise NotFoundError(f"the network {name} is not active", where=where, cure=cure)
    return description


def _subnet_of(host: Hypervisor, name: str, descriptions: Sequence[str]) -> IPv4Network:
    """Return the subnet of a network's DHCP server. Raises NotFoundError."""
    if any(xml.parse(one).find("ip/dhcp") is None for one in descriptions):
        raise NotFoundError(
            f"libvirt's network {name} has no DHCP server",
            where=f"{host.name}: provider.networks",
            cure="write addresses: FIRST-LAST/PREFIX",
        )
    return _subnets_of(descriptions[0])[0]


def lease_of(network: str, mac: str) -> Callable[[Any], str | None]:
    """Return a function that returns a card's DHCP lease, None as long as it has none."""

    def look(connection: Any) -> str | None:
        for lease in connection.networkLookupByName(network).DHCPLeases(mac):
            if lease.get("type") == 0 and lease.get("ipaddr"):  # of IPv4
                return str(lease["ipaddr"])
        return None

    return look


def source_address(address: str) -> str:
    """Return this machine's source address towards another one. Raises ReachError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 22))
        except OSError as error:
            raise ReachError(
                f"this machine has no route to the guests' network, {address}: {error.strerror}",
                where="provider.networks",
                cure="run osmef on a machine that is on that network",
            ) from error
        return str(probe.getsockname()[0])


def _filters(connection: Any) -> list[str]:
    found: list[str] = connection.listNWFilters()
    return found


def make_filters(
    hosts: Sequence[Hypervisor],
    maker: Maker,
    controllers: Sequence[str],
    peers: Sequence[str],
) -> Mapping[str, str | None]:
    """Create a filter on each host; None without support for it. Raises ProviderError."""
    name = maker.mark.marking_name("filter")
    blocks = [[IPv4Network(one) for one in dict.fromkeys(many)] for many in (controllers, peers)]
    description = xml.packet_filter(name, *blocks)
    made: dict[str, str | None] = {}
    for host in hosts:
        # A user's own libvirt lists filters, and makes none.
        able = not host.is_session and host.find("listing filters", _filters) is not None
        made[host.name] = name if able else None
        if not able:
            continue
        maker.make(
            host,
            "filter",
            name,
            lambda connection: connection.nwfilterDefineXML(description),
            lambda connection: connection.nwfilterLookupByName(name),
        )
    return made
