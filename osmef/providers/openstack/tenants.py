"""The tenants of a run: their projects, and the network, group and key pair in each."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from openstack.connection import Connection

from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.making import Maker
from osmef.providers.openstack.names import Names
from osmef.providers.openstack.networks import Rule
from osmef.providers.parallel import together
from osmef.remote.keys import KeyPair


@dataclass(frozen=True)
class Tenant:
    """A tenant of the plan: its slot and number, what it is called, and its project."""

    slot: str
    number: int
    label: str
    cloud: Cloud


@dataclass(frozen=True)
class Site:
    """What a tenant's servers are made in.

    ``group`` is the security group and ``subnet`` the subnet that were made for the run, None
    where the settings name what is there. ``nics`` are the networks of further network cards.
    """

    tenant: Tenant
    names: Names
    network: str
    subnet: str | None
    group: str | None
    keypair: str
    nics: tuple[str, ...] = ()

    @property
    def has_router(self) -> bool:
        """Whether a router joins its network to the external one."""
        return self.subnet is not None and self.names.external is not None

    @property
    def security_groups(self) -> tuple[str, ...]:
        """The groups of its servers."""
        return self.names.security_groups if self.group is None else (self.group,)


@dataclass(frozen=True)
class SiteMaker:
    """Makes what the servers of a tenant need, step by step. Every step raises ProviderError.

    ``cidr`` is None where the settings name a network that is there, ``nics`` are those of the
    networks of further network cards.
    """

    maker: Maker
    tenant: Tenant
    names: Names
    cidr: IPv4Network | None
    nics: Sequence[IPv4Network] = ()

    def make(self, keypair: str | None, key: KeyPair) -> Site:
        """Make all but the router; ``keypair`` is None where the run's key is to become one."""
        name, group, (network, subnet), nics = together(
            lambda: keypair or self._keypair(key),
            lambda: None if self.names.security_groups else self._group(),
            self._network,
            self._nic_networks,
        )
        return Site(self.tenant, self.names, network, subnet, group, name, nics)

    def _keypair(self, key: KeyPair) -> str:
        name = self.maker.mark.whole_name(f"key-{self.tenant.number}")
        self.maker.make(
            self.tenant.cloud,
            "key-pair",
            name,
            lambda c: c.compute.create_keypair(name=name, public_key=key.public),
        )
        return name

    def _group(self) -> str:
        name, mark = self.maker.mark.name(f"group-{self.tenant.number}"), self.maker.mark
        made = self.maker.make(
            self.tenant.cloud,
            "security-group",
            name,
            lambda c: c.network.create_security_group(name=name, description=mark.text),
        )
        return str(made.id)

    def _network(self) -> tuple[str, str | None]:
        if self.names.network is not None:
            return self.names.network, None
        return self._make(f"net-{self.tenant.number}", str(self.cidr))

    def _nic_networks(self) -> tuple[str, ...]:
        # No router and nobody who gives addresses: the cards are free.
        alone = {"gateway_ip": None, "is_dhcp_enabled": False}
        return tuple(
            self._make(f"nic-{self.tenant.number}-{number}", str(cidr), **alone)[0]
            for number, cidr in enumerate(self.nics, 1)
        )

    def _make(self, what: str, cidr: str, **more: Any) -> tuple[str, str]:
        """Make a network with a subnet, and return their ids."""
        name, mark = self.maker.mark.name(what), self.maker.mark
        network = self.maker.make(
            self.tenant.cloud,
            "network",
            name,
            lambda c: c.network.create_network(name=name, description=mark.text),
        )
        # The subnet goes with its network, so it needs no line of its own in the ledger.
        subnet = self.tenant.cloud.create(
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


def make_router(maker: Maker, site: Site) -> None:
    """Join the network made for a tenant to the external one. Raises ProviderError."""
    cloud, external = site.tenant.cloud, site.names.external
    name = maker.mark.name(f"router-{site.tenant.number}")
    router = maker.make(
        cloud,
        "router",
        name,
        lambda c: c.network.create_router(
            name=name,
            description=maker.mark.text,
            external_gateway_info={"network_id": external},
        ),
    )

    def joined(connection: Connection) -> object:
        ports = connection.network.ports(device_id=router.id)
        return next((p for p in ports if site.subnet in _subnets_of(p)), None)

    cloud.create(
        f"joining the router {name} to its network",
        lambda c: c.network.add_interface_to_router(router.id, site.subnet),
        joined,
    )


def _subnets_of(port: Any) -> set[str]:
    """Return the subnets in which a port has an address; it may have none."""
    return {str(one["subnet_id"]) for one in port.fixed_ips or ()}


def open_group(site: Site, rules: Sequence[Rule]) -> None:
    """Add rules to the group that was made for the run. Raises ProviderError."""
    bodies = [rule.attributes(str(site.group)) for rule in rules]

    def there(connection: Connection) -> object:
        found = connection.network.security_group_rules(security_group_id=site.group)
        known = {Rule.of(one) for one in found}
        return known if known.issuperset(rules) else None

    site.tenant.cloud.create(
        "making the rules of the security group",
        lambda c: c.network.create_security_group_rules(bodies),
        there,
    )


def close_group(site: Site, rules: Container[Rule]) -> None:
    """Take rules out of the group that was made for the run. Raises ProviderError."""

    def remove(connection: Connection) -> None:
        network = connection.network
        for one in list(network.security_group_rules(security_group_id=site.group)):
            if Rule.of(one) in rules:
                network.delete_security_group_rule(one.id, ignore_missing=True)

    site.tenant.cloud.do("removing rules of the security group", remove)
