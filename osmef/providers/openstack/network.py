"""Network of a tenant: addresses, router, security group and rules, and key pair."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from openstack.connection import Connection

from osmef.errors import ProviderError
from osmef.providers.cloud import account
from osmef.providers.cloud.account import Tenant
from osmef.providers.local.addresses import used_networks
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.lookup import ResolvedNames
from osmef.providers.openstack.resource_types import Maker, Rule
from osmef.providers.parallel import run_concurrently
from osmef.remote.login import SSH_PORT, KeyPair
from osmef.scenario.clouds.openstack import OpenStackSettings

_POOLS = tuple(IPv4Network(pool) for pool in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
_SMALLEST = 24
_SHORTEST_ROUTE = 8
_TAKEN = 8
"""Addresses of a subnet that endpoints don't get: its own, router, DHCP, broadcast."""


def choose_subnets(sizes: Sequence[int], used: Iterable[IPv4Network]) -> list[IPv4Network]:
    """Choose a subnet for each tenant, with room for its number of endpoints.

    None overlaps another nor what is in use. Raises ProviderError.
    """
    taken = list(used)
    chosen = []
    for size in sizes:
        prefix = min(_SMALLEST, 32 - (size + _TAKEN - 1).bit_length())
        chosen.append(_first_free(prefix, taken))
        taken.append(chosen[-1])
    return chosen


def _first_free(prefix: int, taken: Sequence[IPv4Network]) -> IPv4Network:
    step = 2 ** (32 - prefix)
    for pool in _POOLS:
        start = int(pool.network_address)
        while start + step - 1 <= int(pool.broadcast_address):
            subnet = IPv4Network((start, prefix))
            ends = [int(used.broadcast_address) for used in taken if used.overlaps(subnet)]
            if not ends:
                return subnet
            start = (max(ends) // step + 1) * step  # past what is in the way, however large it is
    raise ProviderError(
        "all private networks are in use, so none is free for a tenant",
        where="provider: openstack",
        cure="name a network that is there: provider.network",
    )


def controllers_for(settings: OpenStackSettings, targets: Iterable[str]) -> set[str]:
    """Return this machine's source blocks for SSH to these addresses.

    Raises ProviderError.
    """
    if settings.controller_cidr is not None:
        return {settings.controller_cidr}
    return {f"{source_address(target)}/32" for target in targets}


def source_address(target: str) -> str:
    """Return this machine's source address towards another. Raises ProviderError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, SSH_PORT))
        except OSError as error:
            raise ProviderError(
                f"this machine has no route to {target}: {error.strerror}",
                where="provider: openstack",
                cure="is that network reachable from here? else write provider.jump",
            ) from error
        return str(probe.getsockname()[0])


def used_here() -> list[IPv4Network]:
    """Return the networks that this machine uses, without default routes, whole or in halves."""
    return [one for one in used_networks() if one.prefixlen >= _SHORTEST_ROUTE]


@dataclass(frozen=True)
class TenantNet(account.TenantNet[Cloud]):
    """The network of a tenant's servers.

    ``group`` is the security group and ``subnet`` the subnet that were made for the run, None where
    the settings name existing ones. ``nics`` are the networks of further network cards.
    """

    names: ResolvedNames
    network: str
    subnet: str | None
    group: str | None
    keypair: str
    nics: tuple[str, ...] = ()

    @property
    def security_groups(self) -> tuple[str, ...]:
        """The groups of its servers."""
        return self.names.security_groups if self.group is None else (self.group,)


@dataclass(frozen=True)
class NetMaker:
    """Creates what a tenant's servers need. Every step raises ProviderError.

    ``cidr`` is None where the settings name a network that is there, ``nics`` are those of the
    networks of further network cards.
    """

    maker: Maker
    tenant: Tenant[Cloud]
    names: ResolvedNames
    cidr: IPv4Network | None
    nics: Sequence[IPv4Network] = ()

    def make(self, keypair: str | None, key: KeyPair) -> TenantNet:
        """Create everything; ``keypair`` is None to import the run's key."""
        name, group, (network, subnet), nics = run_concurrently(
            lambda: keypair or self._keypair(key),
            lambda: None if self.names.security_groups else self._group(),
            self._network,
            self._nic_networks,
        )
        net = TenantNet(self.tenant, self.names, network, subnet, group, name, nics)
        if subnet is not None and self.names.external is not None:
            self._router(net)
        return net

    def _keypair(self, key: KeyPair) -> str:
        name = self.maker.mark.whole_name(f"key-{self.tenant.number}")
        self.maker.make(self.tenant.account, "key-pair", name, public_key=key.public)
        return name

    def _group(self) -> str:
        name = self.maker.mark.name(f"group-{self.tenant.number}")
        return str(self.maker.make(self.tenant.account, "security-group", name).id)

    def _network(self) -> tuple[str, str | None]:
        if self.names.network is not None:
            return self.names.network, None
        return self._make(f"net-{self.tenant.number}", str(self.cidr))

    def _nic_networks(self) -> tuple[str, ...]:
        # No router and no DHCP server: the cards are free.
        alone = {"gateway_ip": None, "is_dhcp_enabled": False}
        return tuple(
            self._make(f"nic-{self.tenant.number}-{number}", str(cidr), **alone)[0]
            for number, cidr in enumerate(self.nics, 1)
        )

    def _make(self, what: str, cidr: str, **more: Any) -> tuple[str, str]:
        """Create a network with a subnet, and return their ids."""
        name, mark = self.maker.mark.name(what), self.maker.mark
        network = self.maker.make(self.tenant.account, "network", name)
        # The subnet goes with its network, so it needs no line of its own in the ledger.
        subnet = self.tenant.account.make(
            f"making the subnet {cidr}",
            lambda c: c.network.create_subnet(
                name=name,
                description=mark.text,
                network_id=network.id,
                ip_version=4,
                cidr=cidr,
                **more,
            ),
            lambda c: next(iter(c.network.subnets(network_id=network.id)), None),
        )
        return str(network.id), str(subnet.id)

    def _router(self, net: TenantNet) -> None:
        """Route the network to the external one.

        Beside servers that are being built this takes a minute where it else takes a second.
        """
        cloud, maker = self.tenant.account, self.maker
        name = maker.mark.name(f"router-{self.tenant.number}")
        outside = {"network_id": self.names.external}
        router = maker.make(cloud, "router", name, external_gateway_info=outside)

        def joined(connection: Connection) -> object:
            ports = connection.network.ports(device_id=router.id)
            return next((p for p in ports if net.subnet in _subnets_of(p)), None)

        cloud.make(
            f"joining the router {name} to its network",
            lambda c: c.network.add_interface_to_router(router.id, net.subnet),
            joined,
        )


def _subnets_of(port: Any) -> set[str]:
    """Return the subnets of a port's addresses, possibly none."""
    return {str(one["subnet_id"]) for one in port.fixed_ips or ()}


def open_group(net: TenantNet, rules: Collection[Rule]) -> None:
    """Add rules to the run's group. Raises ProviderError."""
    if not rules:
        return
    bodies = [rule.attributes(str(net.group)) for rule in sorted(rules, key=str)]

    def there(connection: Connection) -> object:
        found = connection.network.security_group_rules(security_group_id=net.group)
        known = {Rule.of(one) for one in found}
        return known if known.issuperset(rules) else None

    net.account.make(
        "making the rules of the security group",
        lambda c: c.network.create_security_group_rules(bodies),
        there,
    )


def close_group(net: TenantNet, rules: Collection[Rule]) -> None:
    """Remove rules from the run's group. Raises ProviderError."""
    if not rules:
        return

    def remove(connection: Connection) -> None:
        network = connection.network
        for one in list(network.security_group_rules(security_group_id=net.group)):
            if Rule.of(one) in rules:
                network.delete_security_group_rule(one.id, ignore_missing=True)

    net.account.ask("removing rules of the security group", remove)
