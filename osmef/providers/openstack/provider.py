"""OpenStack as the engine sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from osmef.errors import ProviderError
from osmef.providers.base import (
    EVERYTHING,
    Access,
    Check,
    Endpoint,
    EndpointRequest,
    Order,
    Provider,
    Resource,
    Unread,
    go_on,
    pass_over,
)
from osmef.providers.openstack import feasible, removal
from osmef.providers.openstack.access import USUAL, Cloud, Waits, open_cloud
from osmef.providers.openstack.building import Build
from osmef.providers.openstack.hosts import HostEndpoints
from osmef.providers.openstack.kinds import KINDS, PROVIDER
from osmef.providers.openstack.making import Maker
from osmef.providers.openstack.marks import Mark
from osmef.providers.openstack.names import look_up
from osmef.providers.openstack.needs import KEY_PAIRS, check_default_quotas, check_quotas, needs_of
from osmef.providers.openstack.places import location_of
from osmef.providers.openstack.placing import usable_hosts
from osmef.providers.openstack.projects import (
    access_of,
    all_clouds,
    make_tenants,
    named_tenants,
    open_or_gone,
    slots_of,
)
from osmef.providers.openstack.reach import Reached, needs_floating
from osmef.providers.openstack.servers import list_servers
from osmef.providers.openstack.tenants import Tenant
from osmef.providers.parallel import beside, side_by_side
from osmef.scenario.access import OpenStackAccess
from osmef.scenario.clouds.openstack import OpenStackSettings, PlacedBy, Reach
from osmef.scenario.fields import Family, Layer
from osmef.scenario.location import Location
from osmef.scenario.study import Cell

_MADE = "made"


class OpenStackProvider(Provider):
    """Servers of one or several projects in one region of an OpenStack cloud."""

    kind = PROVIDER
    Settings = OpenStackSettings
    access_model = OpenStackAccess
    gives_nics = True
    nics_carry = EVERYTHING
    shares_nics = False

    def __init__(self, settings: OpenStackSettings, waits: Waits = USUAL) -> None:
        self._settings, self._waits = settings, waits
        if settings.way_in is not Reach.JUMP:  # else its servers' addresses are its own
            self.outside = frozenset({Family.IPV4})
        self._build: Build | None = None
        self._reached: dict[str, Reached] = {}
        self._order: Order | None = None
        self._maker: Maker | None = None
        self._clouds: list[Cloud] = []
        self._hosts = HostEndpoints(settings)

    def check(self, requests: Sequence[EndpointRequest], still: Check = go_on) -> None:
        """Check credentials, names and quotas. Raises ProviderError."""
        self._hosts.check(requests)
        if slots_of(requests):  # else physical hosts alone
            beside(lambda both: self._check(requests, both), still)

    def _check(self, requests: Sequence[EndpointRequest], still: Check) -> None:
        settings, slots = self._settings, slots_of(requests)
        if settings.projects == _MADE:
            base = open_cloud(access_of(settings), still, self._waits)
            tenants = [Tenant(slot, n, slot, base) for n, slot in enumerate(slots, 1)]
            compare = check_default_quotas
        else:
            tenants = named_tenants(settings, slots, still, self._waits)
            compare = check_quotas
        if settings.placement_by is PlacedBy.HOST:
            usable_hosts(tenants[0].cloud, settings)
        floating = needs_floating(settings, requests)
        users = Counter(tenant.cloud.user_id for tenant in tenants)

        def check(tenant: Tenant) -> None:
            ours = [request for request in requests if request.tenant == tenant.slot]
            names = look_up(tenant.cloud, settings, ours, floating=floating)
            need = needs_of(settings, names, tenant.slot, requests)
            if KEY_PAIRS in need:  # they belong to the user, in whichever project
                need[KEY_PAIRS] = users[tenant.cloud.user_id]
            compare(tenant.cloud, need)

        side_by_side(check, tenants)

    def problems(self, cell: Cell) -> list[tuple[str, str, str]]:
        """List what this cloud can't do, as far as the settings tell."""
        return list(feasible.problems_of(self._settings, cell))

    def warnings(self, cell: Cell) -> list[str]:
        """List what this cloud can't promise."""
        return list(feasible.warnings_of(self._settings, cell))

    def machines(self, requests: Sequence[EndpointRequest]) -> Mapping[str, str]:
        """Tell which machine each physical host is. Raises CapacityError."""
        return self._hosts.machines(requests)

    def create(self, order: Order) -> list[Endpoint]:
        """Make networks and servers, and wait until SSH gets in."""
        settings, slots = self._settings, slots_of(order.requests)
        self._order, maker = order, Maker(Mark.of(order), order.ledger)
        self._maker = maker
        if not slots:
            return self._hosts.create(order)
        if settings.projects == _MADE:
            base = open_cloud(access_of(settings), order.check, self._waits)
            self._clouds = [base]
            tenants = make_tenants(maker, base, slots)
        else:
            tenants = named_tenants(settings, slots, order.check, self._waits)
        self._clouds += [tenant.cloud for tenant in tenants]
        hosts = self._hosts.create(order)
        fixed = self._hosts.names(order.requests)
        self._build = Build(settings, order, maker, tenants, hosts, fixed)
        servers = [self._endpoint(reached) for reached in self._build.make()]
        made = {endpoint.name: endpoint for endpoint in (*hosts, *servers)}
        return [made[request.name] for request in order.requests]

    def _endpoint(self, reached: Reached) -> Endpoint:
        order = reached.server.order
        self._reached[order.request.name] = reached
        direct = self._settings.way_in is Reach.DIRECT
        return Endpoint(
            request=order.request,
            resource_id=reached.server.id,
            login=reached.login,
            data_address=reached.server.fixed,
            flavor=order.flavor.name,
            vcpus=order.flavor.vcpus,
            public_address=reached.floating or (reached.server.fixed if direct else None),
            nics=tuple(port.mac for port in reached.server.nics),
        )

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back the hosts of the servers, all of a project in one call."""
        if self._order is None:
            raise ProviderError("nothing was made yet", where=PROVIDER)
        run, there = self._order.run, {}
        for tenant in self._build.tenants if self._build else ():
            for server in list_servers(tenant.cloud, run):
                hosts, region = self._settings.compute_hosts, tenant.cloud.region
                there[str(server.id)] = location_of(server, tenant.label, hosts, region)
        physical = self._hosts.describe(endpoints)
        return [
            physical.get(endpoint.name) or there.get(endpoint.resource_id, Location())
            for endpoint in endpoints
        ]

    def replace(self, endpoint: Endpoint, order: Order) -> Endpoint:
        """Make a server anew; the old one goes when the new one stands. Raises ProviderError."""
        if self._build is None:
            raise ProviderError("nothing was made yet", where=PROVIDER)
        old = self._reached[endpoint.name].server
        made = self._build.add([endpoint.request])
        self._build.shut_out_others()
        names = {old.order.name, old.order.name.replace("osmef-", "osmef-ip-", 1)}
        self._remove([what for what in self._made() if what[0].name in names], order)
        return self._endpoint(made[0])

    def admit(self, endpoints: Sequence[Endpoint], peers: Sequence[str]) -> None:
        """Open the data ports of servers to peers elsewhere. Raises ProviderError."""
        if self._build is not None:
            self._build.admit([endpoint.name for endpoint in endpoints], peers)

    def _made(self) -> list[tuple[Resource, Cloud]]:
        return [] if self._maker is None else list(self._maker.made)

    def _remove(self, what: Sequence[tuple[Resource, Cloud]], order: Order) -> None:
        def gone(resource: Resource) -> None:
            order.ledger.destroyed(resource)
            if self._maker is not None:
                self._maker.made = [one for one in self._maker.made if one[0] is not resource]

        removal.remove(what, gone)

    def close(self) -> None:
        """Destroy all that was made; may be called again. Raises ProviderError."""
        if self._order is not None:
            for cloud in self._clouds:
                cloud.check = lambda: None
            try:
                self._remove(self._made(), self._order)
            finally:
                self._hosts.close()

    def stays(self, endpoint: Endpoint) -> tuple[str, Access] | None:
        """Tell how to reach a physical host after the run; servers are gone then."""
        return self._hosts.stays(endpoint)

    def data_address(
        self, receiver: Endpoint, sender: Endpoint, layer: Layer, family: Family
    ) -> str:
        """Return the address in the network that both are in, or else that from outside."""
        if receiver.request.tenant in {None, sender.request.tenant}:
            return super().data_address(receiver, sender, layer, family)
        return self._reached[receiver.name].address_from(sender)

    def listen_address(
        self, receiver: Endpoint, sender: Endpoint, layer: Layer, family: Family
    ) -> str:
        """Return the address in the tenant's network: a floating one is translated to it.

        A physical host behind NAT has that of the inventory.
        """
        return receiver.listen_address or super().data_address(receiver, sender, layer, family)

    @classmethod
    def owned(
        cls, access: Access, run: str | None = None, unread: Unread = pass_over
    ) -> list[Resource]:
        """List what is ours in the project of the credentials, and in projects made for runs."""
        return [thing.resource for thing in removal.owned(all_clouds(access), run, unread)]

    @classmethod
    def makes(cls, resource: Resource) -> bool:
        """Tell whether a resource is of a kind that it makes."""
        return resource.kind in KINDS

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        """Destroy resources in the order that they need. Raises the first ProviderError."""
        accesses = {tuple(sorted(resource.access.items())) for resource in resources}
        clouds = {key: open_or_gone(dict(key)) for key in accesses}
        there = []
        for resource in resources:
            cloud = clouds[tuple(sorted(resource.access.items()))]
            if cloud is None:
                gone(resource)
            else:
                there.append((resource, cloud))
        removal.remove(there, gone)
