"""Build what an order needs, in an order that lets as much as possible happen side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from osmef.providers.azure import failures, networks
from osmef.providers.azure.making import Maker
from osmef.providers.azure.names import look_up
from osmef.providers.azure.placing import Place, Placer
from osmef.providers.azure.sites import Site, Tenant, make_site
from osmef.providers.azure.vms import Vm, VmOrder, make_vm, vm_name
from osmef.providers.base import EndpointRequest, Order
from osmef.providers.parallel import side_by_side, together
from osmef.remote.keys import KeyPair
from osmef.scenario.clouds.azure import AzureSettings
from osmef.scenario.clouds.base import HostKeys

_GROUP, _NETWORK = "guard", "net"
Numbered = tuple[int, EndpointRequest]
"""A request, and the number of the VM for it."""


@dataclass
class Build:
    """The things of one run, as they come about. Every method raises ProviderError."""

    settings: AzureSettings
    order: Order
    maker: Maker
    tenants: Sequence[Tenant]
    sites: dict[str, Site] = field(default_factory=dict)
    """By the tenant's slot."""
    _places: Mapping[str, Place] = field(default_factory=dict)
    _public: dict[str, tuple[Site, Any]] = field(default_factory=dict)
    """The site and public address of each VM by its name with the group's."""
    _peers: dict[str, set[str]] = field(default_factory=dict)
    """Addresses of other clouds that each slot lets in."""
    _subnets: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def make(self) -> list[Vm]:
        """Make all, and return the VMs in the order of the requests."""
        tenants = len(self.tenants)
        self.order.progress(f"making networks for {tenants} tenant{'s' * (tenants > 1)}")
        made = side_by_side(self._make_site, self.tenants)
        self.sites = {site.tenant.slot: site for site in made}
        numbered = [(next(self._numbers), request) for request in self.order.requests]
        together(self._choose_places, lambda: self._make_networks(numbered))
        return self._stand_up(numbered)

    def _choose_places(self) -> None:
        placer = Placer(self.maker, self.settings, self.sites)
        self._places = placer.place(self.order.requests)

    def _make_networks(self, numbered: Sequence[Numbered]) -> None:
        # A network's guard names the public addresses of the other tenants.
        side_by_side(self._give_address, numbered)
        side_by_side(self._make_network, self.sites.values())

    def _stand_up(self, numbered: Sequence[Numbered]) -> list[Vm]:
        """Make VMs at their addresses, in the order of the requests."""
        self.order.progress(f"making {len(numbered)} VMs")
        orders = [self._order(*one) for one in numbered]

        def make(one: VmOrder) -> Vm:
            subnet = self._subnets[one.site.tenant.slot]
            return make_vm(self.maker, one, self.settings, subnet, self._public[one.path][1])

        return side_by_side(make, orders)

    def add(self, request: EndpointRequest) -> Vm:
        """Make one more VM at the place of the request."""
        one = (next(self._numbers), request)
        self._give_address(one)
        side_by_side(self.open_data, self.sites.values())
        return self._stand_up([one])[0]

    def admit(self, slots: set[str], peers: Sequence[str]) -> None:
        """Let data from addresses of another cloud into the networks of these slots."""
        for slot in slots:
            self._peers.setdefault(slot, set()).update(peers)
        side_by_side(self.open_data, [self.sites[slot] for slot in sorted(slots)])

    def open_data(self, site: Site) -> None:
        """Let in data from where it may come by now."""
        operations, blocks = site.subscription.network.security_rules, self._sources(site)
        for name in networks.DATA_RULES:
            body = networks.data_rule(name, blocks)
            site.subscription.do(
                f"changing the rule {name} of {site.group}/{_GROUP}",
                lambda name=name, body=body: operations.begin_create_or_update(  # type: ignore[misc]
                    site.group, _GROUP, name, body
                ),
                failures.is_not_yet,
            )

    def _make_site(self, tenant: Tenant) -> Site:
        ours = [r for r in self.order.requests if r.tenant == tenant.slot]
        names = look_up(tenant.subscription, self.settings, ours)
        return make_site(self.maker, tenant, names, self.settings.region)

    def _give_address(self, one: Numbered) -> None:
        site = self.sites[str(one[1].tenant)]
        path, body = site.path(vm_name(*one)), networks.public_ip(self.settings.region)
        made = self.maker.make(site.subscription, "public-ip", path, body)
        self._public[path] = (site, made)

    def _sources(self, site: Site) -> set[str]:
        """Return from where data may come: the network, other tenants, other clouds."""
        others = [
            str(address.properties.ip_address)
            for other, address in list(self._public.values())
            if other is not site
        ]
        peers = self._peers.get(site.tenant.slot, set())
        return {str(site.block), *(f"{address}/32" for address in (*others, *peers))}

    def _make_network(self, site: Site) -> None:
        region, controller = self.settings.region, str(self.settings.controller_cidr)
        body = networks.security_group(region, controller, self._sources(site))
        guard = self.maker.make(site.subscription, "security-group", site.path(_GROUP), body)
        body = networks.network(region, site.block, str(guard.id))
        made = self.maker.make(site.subscription, "network", site.path(_NETWORK), body)
        self._subnets[site.tenant.slot] = str(made.properties.subnets[0].id)

    def _order(self, number: int, request: EndpointRequest) -> VmOrder:
        site = self.sites[str(request.tenant)]
        given = self.settings.host_keys is HostKeys.GIVEN
        return VmOrder(
            request=request,
            name=vm_name(number, request),
            site=site,
            size=site.names.wanted[request.flavor or self.settings.default_flavor],
            place=self._places[request.name],
            login_key=self.order.key,
            host_key=KeyPair.generate(request.name) if given else None,
        )
