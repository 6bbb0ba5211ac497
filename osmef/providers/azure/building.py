"""Build what an order needs, in an order that lets as much as possible happen side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from osmef.errors import CapacityError
from osmef.providers.azure import failures, networks
from osmef.providers.azure.leases import Leases
from osmef.providers.azure.making import Maker
from osmef.providers.azure.names import Size, look_up
from osmef.providers.azure.placing import Place, Placer
from osmef.providers.azure.sites import Site, Tenant, make_site
from osmef.providers.azure.vms import Vm, VmOrder, make_nics, make_vm, vm_name
from osmef.providers.base import EndpointRequest, Order
from osmef.providers.cards import networks_for
from osmef.providers.parallel import side_by_side, together
from osmef.remote.keys import KeyPair
from osmef.scenario.clouds.azure import AzureSettings
from osmef.scenario.clouds.base import HostKeys

_GROUP, _NETWORK = "guard", "net"
Numbered = tuple[int, EndpointRequest]
"""A request, and the number of the VM for it."""


@dataclass
class Build:
    """The things of one run, as they come about. Every method raises ProviderError.

    ``give_back`` destroys the VMs of these names with their groups', and leaves their interfaces.
    """

    settings: AzureSettings
    order: Order
    maker: Maker
    leases: Leases
    tenants: Sequence[Tenant]
    give_back: Callable[[set[str]], None]
    sites: dict[str, Site] = field(default_factory=dict)
    """By the tenant's slot."""
    _places: dict[str, Place] = field(default_factory=dict)
    """By the name of the request."""
    _public: dict[str, tuple[Site, Any]] = field(default_factory=dict)
    """The site and public address of each VM by its name with the group's."""
    _nics: dict[str, list[Any]] = field(default_factory=dict)
    """The interfaces of each VM by its name with the group's."""
    _peers: dict[str, set[str]] = field(default_factory=dict)
    """Addresses of other clouds that each slot lets in."""
    _subnets: dict[str, dict[str, str]] = field(default_factory=dict)
    """The ids of the subnets of each slot by their names."""
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
        lanes: dict[int, list[Numbered]] = defaultdict(list)
        for one in numbered:
            lanes[one[1].lane].append(one)
        made = [vm for vms in side_by_side(self._stand_up_lane, lanes.values()) for vm in vms]
        by_name = {vm.order.request.name: vm for vm in made}
        return [by_name[request.name] for _, request in numbered]

    def _stand_up_lane(self, numbered: Sequence[Numbered]) -> list[Vm]:
        """Make VMs that meet in trials; if Azure has no room, in a zone that has, where it may."""
        tried, zones = [self._where(numbered)], self._other_zones(numbered)
        while True:
            try:
                return side_by_side(self._make_vm, numbered)
            except CapacityError as error:
                if not zones:
                    text = f"{error.message}; tried: {', '.join(tried)}"
                    raise CapacityError(text, where=error.where, cure=error.cure) from error
                self.order.progress(f"no room in {tried[-1]}, trying {zones[0]}: {error.message}")
            self.give_back({self._path(one) for one in numbered})
            tried.append(zones.pop(0))
            for _, request in numbered:
                zone = self.sites[str(request.tenant)].names.logical(tried[-1])
                self._places[request.name] = replace(self._places[request.name], zone=zone)

    def _where(self, numbered: Sequence[Numbered]) -> str:
        zones = {self._places[request.name].zone for _, request in numbered} - {None}
        return f"zone {', '.join(sorted(map(str, zones)))}" if zones else self.settings.region

    def _other_zones(self, numbered: Sequence[Numbered]) -> list[str]:
        """Return the physical zones with all sizes wanted, where the zone is free to choose."""
        places = [self._places[request.name] for _, request in numbered]
        if any(place.zone or place.availability_set or place.host for place in places):
            return []
        offered = []
        for _, request in numbered:
            zones = self.sites[str(request.tenant)].names.zones
            offered.append({zones[one] for one in self._size(request).zones if one in zones})
        return sorted(set.intersection(*offered))

    def _make_vm(self, one: Numbered) -> Vm:
        order = self._order(*one)
        public = self._public[order.path][1]
        if order.path not in self._nics:
            subnets = self._subnets[order.site.tenant.slot]
            self._nics[order.path] = make_nics(self.maker, order, self.settings, subnets, public)
        vm = make_vm(self.maker, order, self.settings, self._nics[order.path], public)
        self.leases.add(vm)
        return vm

    def add(self, request: EndpointRequest) -> Vm:
        """Make one more VM at the place of the request."""
        one = (next(self._numbers), request)
        self._give_address(one)
        side_by_side(self.open_data, self.sites.values())
        return self._stand_up([one])[0]

    def forget(self, vm: Vm) -> None:
        """Let in no more data from the address of a VM that is gone."""
        self._public.pop(vm.order.path)
        others = [site for site in self.sites.values() if site is not vm.order.site]
        side_by_side(self.open_data, others)

    def admit(self, slots: set[str], peers: Sequence[str]) -> None:
        """Let data from addresses of another cloud into the networks of these slots."""
        for slot in slots:
            self._peers[slot] = set(peers)
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
        site, path = self.sites[str(one[1].tenant)], self._path(one)
        body = networks.public_ip(self.settings.region)
        self._public[path] = (site, self.maker.make(site.subscription, "public-ip", path, body))

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
        ours = [one for one in self.order.requests if one.tenant == site.tenant.slot]
        nics = networks_for(self.settings, ours)
        body = networks.network(region, site.block, str(guard.id), nics)
        made = self.maker.make(site.subscription, "network", site.path(_NETWORK), body)
        subnets = {str(subnet.name): str(subnet.id) for subnet in made.properties.subnets}
        self._subnets[site.tenant.slot] = subnets

    def _path(self, one: Numbered) -> str:
        return self.sites[str(one[1].tenant)].path(vm_name(*one))

    def _size(self, request: EndpointRequest) -> Size:
        names = self.sites[str(request.tenant)].names
        return names.wanted[request.flavor or self.settings.default_flavor]

    def _order(self, number: int, request: EndpointRequest) -> VmOrder:
        given = self.settings.host_keys is HostKeys.GIVEN
        return VmOrder(
            request=request,
            name=vm_name(number, request),
            site=self.sites[str(request.tenant)],
            size=self._size(request),
            place=self._places[request.name],
            login_key=self.order.key,
            host_key=KeyPair.generate(request.name) if given else None,
            ends=self.order.deadline,
        )
