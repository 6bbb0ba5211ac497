"""Build what an order needs, in a zone that has room for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from osmef.errors import CapacityError
from osmef.providers.aws.access import Account
from osmef.providers.aws.controller import controller_of
from osmef.providers.aws.flavors import FlavorInfo
from osmef.providers.aws.instances import (
    Instance,
    InstanceOrder,
    add_nics,
    await_instances,
    make_instance,
)
from osmef.providers.aws.making import Maker
from osmef.providers.aws.names import Names, free_zones, look_up
from osmef.providers.aws.placing import Placer
from osmef.providers.aws.quotas import check_quotas
from osmef.providers.aws.tenants import (
    Site,
    SiteMaker,
    Tenant,
    close_group,
    data_from,
    open_group,
)
from osmef.providers.aws.zones import id_of
from osmef.providers.base import EndpointRequest, Order
from osmef.providers.cards import networks_for
from osmef.providers.parallel import side_by_side
from osmef.remote.keys import KeyPair
from osmef.remote.login import Login
from osmef.scenario.clouds.aws import AwsSettings
from osmef.scenario.clouds.base import HostKeys

_MOST_WAITS = 64
_OF_A_ZONE = ("instance", "network-interface", "dedicated-host")


@dataclass
class Build:
    """The things of one run, as they come about. Every method raises ProviderError.

    ``give_back`` destroys what was made of some kinds since a number of things existed.
    """

    settings: AwsSettings
    order: Order
    maker: Maker
    tenants: Sequence[Tenant]
    give_back: Callable[[Sequence[str], int], None]
    instances: dict[str, Instance] = field(default_factory=dict)
    """By the name of the request."""
    _sites: dict[str, Site] = field(default_factory=dict)
    _names: dict[str, Names] = field(default_factory=dict)
    _outside: dict[str, set[str]] = field(default_factory=dict)
    """The addresses elsewhere that each security group lets in."""
    _zone: str | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self._placer = Placer(self.maker, self.settings, self.order.requests)

    def make(self) -> list[tuple[Instance, Login]]:
        """Make all, and return the instances with how SSH gets in, in the order of requests."""
        controller = controller_of(self.settings)
        names = side_by_side(self._look_up, self.tenants)
        self._names = dict(zip((tenant.slot for tenant in self.tenants), names, strict=True))
        for line in check_quotas(self.settings, self.tenants, self._names, self.order.requests):
            self.order.progress(line)
        tenants = len(self.tenants)
        self.order.progress(f"making networks for {tenants} tenant{'s' * (tenants > 1)}")
        maker = SiteMaker(self.maker)
        accounts = {id(tenant.account): tenant.account for tenant in self.tenants}
        pairs = side_by_side(lambda a: maker.keypair(a, self.order.key.public), accounts.values())
        keys = dict(zip(accounts, pairs, strict=True))
        sites = side_by_side(
            lambda tenant: maker.site(tenant, keys[id(tenant.account)], controller), self.tenants
        )
        self._sites = {site.tenant.slot: site for site in sites}
        made = self.add(self.order.requests)
        self.enter([instance for instance, _login in made])
        return made

    def _look_up(self, tenant: Tenant) -> Names:
        ours = [r for r in self.order.requests if r.tenant == tenant.slot]
        return look_up(tenant.account, self.settings, ours)

    def add(self, requests: Sequence[EndpointRequest]) -> list[tuple[Instance, Login]]:
        """Make instances, in the order of the requests, and wait until SSH gets into them.

        They don't count before they are entered.
        """
        made = self._stand_up(requests)
        self.order.progress(f"waiting for SSH on {len(made)} instances")
        deadline = time.monotonic() + self.settings.boot_timeout
        logins = side_by_side(
            lambda instance: instance.reach(self.order, deadline), made, at_once=_MOST_WAITS
        )
        return list(zip(made, logins, strict=True))

    def enter(self, instances: Sequence[Instance]) -> None:
        """Have instances be those of their requests, and let them in at the other tenants."""
        self.instances |= {instance.order.request.name: instance for instance in instances}
        self._admit_tenants()

    def _stand_up(self, requests: Sequence[EndpointRequest]) -> list[Instance]:
        """Make instances that run; where the zone was free to choose, in one that has room."""
        zones = self._zones(requests)
        for zone in zones[:-1]:
            before = len(self.maker.made)
            try:
                return self._make_in(zone, requests)
            except CapacityError as error:
                self.order.progress(f"no room in {zone}: {error.message}")
                self.give_back(_OF_A_ZONE, before)
        return self._make_in(zones[-1], requests)

    def _zones(self, requests: Sequence[EndpointRequest]) -> list[str]:
        """Return the ids of zones to try for requests that name none."""
        if self._zone is not None:
            return [self._zone]
        names = list(self._names.values())
        if self.settings.zone is not None:
            return [id_of(names[0].zones, self.settings.zone)]
        if all(request.zone for request in requests):
            return [id_of(names[0].zones, str(requests[0].zone))]
        return free_zones(self._names, self.settings, requests)

    def _make_in(self, zone: str, requests: Sequence[EndpointRequest]) -> list[Instance]:
        self.order.progress(f"making {len(requests)} instances in {zone}")
        zones = [self._zone_of(request, zone) for request in requests]
        for request, one in zip(requests, zones, strict=True):
            site = self._sites[str(request.tenant)]
            SiteMaker(self.maker).subnet(site, one)
            for number in range(networks_for(self.settings, [request])):
                SiteMaker(self.maker).nic_subnet(site, one, number)
        orders = side_by_side(self._order, list(zip(requests, zones, strict=True)))
        ends = self.order.deadline
        ids = side_by_side(lambda o: make_instance(self.maker, o, self.settings, ends), orders)
        running = await_instances(dict(zip(ids, orders, strict=True)), self.settings.boot_timeout)
        made = side_by_side(lambda one: add_nics(self.maker, one, self.settings), running)
        self._zone = zone
        return made

    def _zone_of(self, request: EndpointRequest, free: str) -> str:
        names = self._names[str(request.tenant)]
        return free if request.zone is None else id_of(names.zones, request.zone)

    def _flavor(self, request: EndpointRequest) -> FlavorInfo:
        flavors = self._names[str(request.tenant)].flavors
        return flavors[request.flavor or self.settings.default_flavor]

    def _order(self, one: tuple[EndpointRequest, str]) -> InstanceOrder:
        request, zone = one
        site, names = self._sites[str(request.tenant)], self._names[str(request.tenant)]
        flavor = self._flavor(request)
        account: Account = site.tenant.account
        beside = [
            self._flavor(other)
            for other in self.order.requests
            if other.host == request.host
            and self._sites[str(other.tenant)].tenant.account is account
        ]
        given = self.settings.host_keys is HostKeys.GIVEN
        return InstanceOrder(
            request=request,
            name=self.maker.mark.name(f"{next(self._numbers)}-{request.name}"),
            site=site,
            zone=zone,
            flavor=flavor,
            image=names.images[flavor.architecture],
            place=self._placer.place(account, request, names.zone_name(zone), beside),
            login_key=self.order.key,
            host_key=KeyPair.generate(request.name) if given else None,
        )

    def _admit_tenants(self) -> None:
        """Let data in from the public addresses of the other tenants' instances."""
        for site in self._sites.values():
            others = [i.public for i in self.instances.values() if i.order.site is not site]
            for address in others:
                open_group(site, data_from([address]))

    def forget(self, instance: Instance) -> None:
        """Let in no more data from the address of an instance that is gone."""
        for site in self._sites.values():
            if site is not instance.order.site:
                close_group(site, data_from([instance.public]))

    def admit(self, names: Sequence[str], peers: Sequence[str]) -> None:
        """Let data in from these peers elsewhere alone, to instances given by their requests."""
        sites = {s.group: s for s in (self.instances[name].order.site for name in names)}
        for group, site in sites.items():
            before, self._outside[group] = self._outside.get(group, set()), set(peers)
            for address in sorted(before - set(peers)):
                close_group(site, data_from([address]))
            for address in sorted(set(peers) - before):
                open_group(site, data_from([address]))
