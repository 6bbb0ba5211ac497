"""Azure as the engine sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from osmef.errors import NotFoundError, ProviderError
from osmef.providers.azure import feasible, removal
from osmef.providers.azure.access import Subscription, open_subscription
from osmef.providers.azure.building import Build
from osmef.providers.azure.kinds import KINDS, PROVIDER
from osmef.providers.azure.leases import RENEWED_S, Leases
from osmef.providers.azure.making import Maker
from osmef.providers.azure.names import look_up
from osmef.providers.azure.needs import check_namespaces, check_quotas, needs_of
from osmef.providers.azure.places import GONE_S, read_place
from osmef.providers.azure.reach import reach_all
from osmef.providers.azure.schedules import schedule_of
from osmef.providers.azure.sites import Tenant, open_tenants, slots_of
from osmef.providers.azure.vms import Vm
from osmef.providers.base import (
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
from osmef.providers.marks import Mark
from osmef.providers.parallel import side_by_side
from osmef.remote.login import Login
from osmef.scenario.access import AzureAccess
from osmef.scenario.clouds.azure import AzureSettings
from osmef.scenario.fields import Family, Layer
from osmef.scenario.location import Gone, Location
from osmef.scenario.study import Cell


class AzureProvider(Provider):
    """VMs of one or several subscriptions in one region of Azure."""

    kind = PROVIDER
    Settings = AzureSettings
    access_model = AzureAccess
    outside = frozenset({Family.IPV4})
    has_zones = True
    gives_nics = True
    shares_nics = False

    def __init__(
        self, settings: AzureSettings, renewed_s: float = RENEWED_S, gone_s: float = GONE_S
    ) -> None:
        self._settings, self._renewed_s, self._gone_s = settings, renewed_s, gone_s
        self._order: Order | None = None
        self._maker: Maker | None = None
        self._leases: Leases | None = None
        self._build: Build | None = None
        self._tenants: list[Tenant] = []
        self._vms: dict[str, Vm] = {}

    def check(self, requests: Sequence[EndpointRequest], still: Check = go_on) -> None:
        """Check credentials, registrations, names and quotas. Raises ProviderError."""
        settings = self._settings
        tenants = open_tenants(settings, slots_of(requests))
        by_account: dict[str, list[Tenant]] = {}
        for tenant in tenants:
            tenant.subscription.check = still
            by_account.setdefault(tenant.subscription.id, []).append(tenant)

        def check(there: Sequence[Tenant]) -> None:
            slots = {tenant.slot for tenant in there}
            ours = [request for request in requests if request.tenant in slots]
            check_namespaces(there[0].subscription)
            names = look_up(there[0].subscription, settings, ours)
            sizes = [names.wanted[r.flavor or settings.default_flavor] for r in ours]
            nics = sum(request.nics for request in ours)
            need = needs_of(settings, sizes, len(there), nics)
            check_quotas(there[0].subscription, settings.region, need)

        side_by_side(check, by_account.values())

    def problems(self, cell: Cell) -> list[tuple[str, str, str]]:
        """List what this cloud can't do, as far as the settings tell."""
        return list(feasible.problems_of(self._settings, cell))

    def warnings(self, cell: Cell) -> list[str]:
        """List what this cloud can't promise."""
        return list(feasible.warnings_of(self._settings, cell))

    def create(self, order: Order) -> list[Endpoint]:
        """Make groups, networks and VMs, and wait until SSH gets in."""
        vms = self._make(order)
        order.progress(f"waiting for SSH on {len(vms)} VMs")
        logins = reach_all(self._settings, vms, order)
        return [self._endpoint(*one) for one in zip(vms, logins, strict=True)]

    def _make(self, order: Order) -> list[Vm]:
        self._order, self._maker = order, Maker(Mark.of(order), order.ledger)
        self._tenants = open_tenants(self._settings, slots_of(order.requests))
        for tenant in self._tenants:
            tenant.subscription.check = order.check
        self._leases = Leases(self._maker, order, self._settings.region, self._renewed_s)
        self._build = Build(
            self._settings, order, self._maker, self._leases, self._tenants, self._give_back
        )
        made = self._build.make()
        self._leases.start()
        return made

    def _endpoint(self, vm: Vm, login: Login) -> Endpoint:
        one = vm.order
        self._vms[one.request.name] = vm
        return Endpoint(
            request=one.request,
            resource_id=vm.id,
            login=login,
            data_address=vm.private,
            flavor=one.size.name,
            vcpus=one.size.vcpus,
            public_address=vm.public,
            image=one.site.names.image_for(one.size).name,
            nics=vm.nics,
        )

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back what Azure tells of where the VMs stand. Raises ProviderError."""
        region = self._settings.region

        def read(endpoint: Endpoint) -> Location:
            try:
                return read_place(self._vms[endpoint.name], region, self._gone_s)
            except NotFoundError:  # taken back, as spot VMs may be
                return Gone()

        return side_by_side(read, endpoints)

    def replace(self, endpoint: Endpoint, order: Order) -> Endpoint:
        """Make a VM anew; the old one goes when the new one stands. Raises ProviderError."""
        if self._build is None:
            raise ProviderError("nothing was made yet", where=PROVIDER)
        old = self._vms[endpoint.name]
        new = self._build.add(endpoint.request)
        login = reach_all(self._settings, [new], order)[0]
        gone = {old.order.path, *old.order.nic_paths, schedule_of(old.order.path)}
        self._remove([one for one in self._made() if one[0].name in gone], order)
        self._build.forget(old)
        return self._endpoint(new, login)

    def admit(self, endpoints: Sequence[Endpoint], peers: Sequence[str]) -> None:
        """Open the data ports of its endpoints to peers of another cloud. Raises ProviderError."""
        if self._build is None:
            raise ProviderError("nothing was made yet", where=PROVIDER)
        slots = {str(endpoint.request.tenant) for endpoint in endpoints}
        self._build.admit(slots, peers)

    def _made(self) -> list[tuple[Resource, Subscription]]:
        return [] if self._maker is None else list(self._maker.made)

    def _give_back(self, names: set[str]) -> None:
        if self._order is not None:
            gone = {("vm", name) for name in names}
            gone |= {("schedule", schedule_of(name)) for name in names}
            found = [one for one in self._made() if (one[0].kind, one[0].name) in gone]
            self._remove(found, self._order)

    def _remove(self, what: Sequence[tuple[Resource, Subscription]], order: Order) -> None:
        def gone(resource: Resource) -> None:
            order.ledger.destroyed(resource)
            if self._maker is not None:
                self._maker.forget(resource)

        removal.remove(what, gone)

    def close(self) -> None:
        """Destroy all that was made; may be called again. Raises ProviderError."""
        if self._order is not None:
            for tenant in self._tenants:
                tenant.subscription.check = lambda: None
            if self._leases is not None:
                self._leases.stop()
            self._remove(self._made(), self._order)

    def data_address(
        self, receiver: Endpoint, sender: Endpoint, layer: Layer, family: Family
    ) -> str:
        """Return the address in the tenant's network, or for all others the public one."""
        if receiver.request.tenant == sender.request.tenant:
            return super().data_address(receiver, sender, layer, family)
        return self._vms[receiver.name].public

    def listen_address(
        self, receiver: Endpoint, sender: Endpoint, layer: Layer, family: Family
    ) -> str:
        """Return the address in the tenant's network: the public one is translated to it."""
        return super().data_address(receiver, sender, layer, family)

    @classmethod
    def owned(
        cls, access: Access, run: str | None = None, unread: Unread = pass_over
    ) -> list[Resource]:
        """List what is ours in the subscription of the access or the environment."""
        return removal.owned(open_subscription(access), run, unread)

    @classmethod
    def makes(cls, resource: Resource) -> bool:
        """Tell whether a resource is of a kind that it makes, by a name as those of the kind."""
        kind = KINDS.get(resource.kind)
        return kind is not None and kind.has_name(resource.name)

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        """Destroy resources with the groups that they are in. Raises the first ProviderError."""
        opened: dict[tuple[tuple[str, str], ...], Subscription] = {}
        found = []
        for resource in resources:
            key = tuple(sorted(resource.access.items()))
            if key not in opened:
                opened[key] = open_subscription(resource.access)
            found.append((resource, opened[key]))
        removal.remove(found, gone)
