"""Build what an order needs, in an order that lets as much as possible happen side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from osmef.providers.base import Endpoint, EndpointRequest, Order
from osmef.providers.cards import networks_for
from osmef.providers.openstack.booting import make_servers
from osmef.providers.openstack.making import Maker
from osmef.providers.openstack.names import look_up
from osmef.providers.openstack.networks import Rule, choose_subnets, controller_networks
from osmef.providers.openstack.placing import Place, places_of
from osmef.providers.openstack.reach import (
    FloatingAddresses,
    Peers,
    Reached,
    close_groups,
    needs_floating,
    open_groups,
    reach_all,
)
from osmef.providers.openstack.servers import Server, ServerOrder, free_nics, server_name
from osmef.providers.openstack.tenants import Site, SiteMaker, Tenant, make_router
from osmef.providers.parallel import side_by_side, together
from osmef.remote.keys import KeyPair
from osmef.scenario.clouds.base import HostKeys
from osmef.scenario.clouds.openstack import OpenStackSettings


@dataclass
class Build:
    """The things of one run, as they come about. Every method raises ProviderError."""

    settings: OpenStackSettings
    order: Order
    maker: Maker
    tenants: Sequence[Tenant]
    hosts: Sequence[Endpoint] = ()
    """The physical hosts that take part."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """The names of those of them by their slots."""
    servers: dict[str, Server] = field(default_factory=dict)
    """By the name of the request."""
    _sites: dict[str, Site] = field(default_factory=dict)
    _places: dict[str, Place] = field(default_factory=dict)
    _floating: dict[str, str] = field(default_factory=dict)
    _rules: dict[str, set[Rule]] = field(default_factory=dict)
    _outside: dict[str, set[str]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def make(self) -> list[Reached]:
        """Make all, and return the servers in the order of the requests."""
        self.prepare()
        return self.add([r for r in self.order.requests if r.tenant is not None])

    def prepare(self) -> None:
        """Make what servers are made in."""
        tenants = len(self.tenants)
        self.order.progress(f"making networks for {tenants} tenant{'s' * (tenants > 1)}")
        together(self._choose_places, self._make_sites)

    def _choose_places(self) -> None:
        clouds = {tenant.slot: tenant.cloud for tenant in self.tenants}
        self._places = places_of(self.maker, self.settings, clouds, self.order.requests, self.fixed)

    def _make_sites(self) -> None:
        settings = self.settings
        requests = [[r for r in self.order.requests if r.tenant == t.slot] for t in self.tenants]
        floating = needs_floating(settings, self.order.requests)
        names = side_by_side(
            lambda one: look_up(one[0].cloud, settings, one[1], floating=floating),
            zip(self.tenants, requests, strict=True),
        )
        used = [subnet for known in names for subnet in known.used] + controller_networks()
        makers = []
        for tenant, known, ones in zip(self.tenants, names, requests, strict=True):
            own = settings.network is None
            count = own + networks_for(settings, ones)
            cidrs = choose_subnets([len(ones)] * count, used)
            used += cidrs
            cidr = cidrs[0] if own else None
            makers.append(SiteMaker(self.maker, tenant, known, cidr, cidrs[own:]))
        sites = side_by_side(lambda maker: maker.make(settings.keypair, self.order.key), makers)
        # Beside servers that are being built this takes a minute where it else takes a second.
        side_by_side(partial(make_router, self.maker), [s for s in sites if s.has_router])
        self._sites = {site.tenant.slot: site for site in sites}

    def add(self, requests: Sequence[EndpointRequest]) -> list[Reached]:
        """Make servers, in the order of the requests, and wait until SSH gets into them."""
        made = self.stand_up(requests)
        self.order.progress(f"waiting for SSH on {len(made)} servers")
        return reach_all(self.settings, made, self._floating, self.order)

    def stand_up(self, requests: Sequence[EndpointRequest]) -> list[Server]:
        """Make servers that run and can be reached, in the order of the requests."""
        settings = self.settings
        self.order.progress(f"making {len(requests)} servers")
        orders = [self._order(request) for request in requests]
        with FloatingAddresses(self.maker) as floating:
            wanted = needs_floating(settings, self.order.requests)
            give = floating.give if wanted else lambda _servers: None
            made = make_servers(self.maker, orders, settings, give)
            self._floating |= floating.addresses()
        side_by_side(free_nics, made)
        self.servers |= {server.order.request.name: server for server in made}
        open_groups(settings, self._peers, self._rules)
        return made

    def admit(self, names: Sequence[str], peers: Sequence[str]) -> None:
        """Let data in from these addresses elsewhere alone, to servers given by their requests."""
        for server in (self.servers[name] for name in names if name in self.servers):
            self._outside[server.order.site.tenant.slot] = set(peers)
        open_groups(self.settings, self._peers, self._rules)
        self.shut_out_others()

    def shut_out_others(self) -> None:
        """Take back what let in servers that others have taken the place of."""
        close_groups(self.settings, self._peers, self._rules)

    @property
    def _peers(self) -> Peers:
        hosts = [host.data_address for host in self.hosts]
        return Peers(list(self.servers.values()), self._floating, hosts, self._outside)

    def _order(self, request: EndpointRequest) -> ServerOrder:
        site = self._sites[str(request.tenant)]
        wanted = request.flavor or self.settings.default_flavor
        given = self.settings.host_keys is HostKeys.GIVEN
        return ServerOrder(
            request=request,
            name=server_name(self.maker, next(self._numbers), request),
            site=site,
            flavor=site.names.flavors[wanted],
            place=self._places[request.name],
            login_key=self.order.key,
            host_key=KeyPair.generate(request.name) if given else None,
        )
