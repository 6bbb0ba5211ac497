"""EC2 as the engine sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from osmef.errors import ProviderError
from osmef.providers.aws import feasible, removal
from osmef.providers.aws.access import USUAL, Account, Waits
from osmef.providers.aws.building import Build
from osmef.providers.aws.controller import controller_of
from osmef.providers.aws.instances import Instance
from osmef.providers.aws.kinds import KINDS, PROVIDER
from osmef.providers.aws.making import Maker
from osmef.providers.aws.names import free_zones, look_up
from osmef.providers.aws.places import locations_of
from osmef.providers.aws.placing import partitions_of
from osmef.providers.aws.quotas import check_quotas
from osmef.providers.aws.tenants import Tenant, check_rules, slots_of, tenants_of
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
from osmef.scenario.access import AwsAccess
from osmef.scenario.clouds.aws import AwsPlacedBy, AwsSettings
from osmef.scenario.fields import Family, Layer
from osmef.scenario.location import Gone, Location
from osmef.scenario.study import Cell


class AwsProvider(Provider):
    """Instances of one or several accounts in one region of EC2."""

    kind = PROVIDER
    Settings = AwsSettings
    access_model = AwsAccess
    outside = frozenset({Family.IPV4})
    has_zones = True
    gives_nics = True
    shares_nics = False

    def __init__(self, settings: AwsSettings, waits: Waits = USUAL) -> None:
        self._settings, self._waits = settings, waits
        self._order: Order | None = None
        self._maker: Maker | None = None
        self._build: Build | None = None
        self._tenants: list[Tenant] = []

    def check(self, requests: Sequence[EndpointRequest], still: Check = go_on) -> None:
        """Check credentials, all that is named, and quotas. Raises ProviderError."""
        settings = self._settings
        controller_of(settings)
        if settings.placement_by is AwsPlacedBy.PARTITION:
            partitions_of(requests)
        tenants = tenants_of(settings, slots_of(requests), self._waits)
        for tenant in tenants:
            tenant.account.patience.check = still
        names = side_by_side(
            lambda t: look_up(t.account, settings, [r for r in requests if r.tenant == t.slot]),
            tenants,
        )
        by_slot = dict(zip((tenant.slot for tenant in tenants), names, strict=True))
        if settings.zone is None and any(request.zone is None for request in requests):
            free_zones(by_slot, settings, requests)
        check_quotas(settings, tenants, by_slot, requests)

    def check_peers(
        self, requests: Sequence[EndpointRequest], elsewhere: Sequence[EndpointRequest]
    ) -> None:
        """Check whether security groups have rules for all. Raises QuotaError."""
        check_rules(requests, elsewhere)

    def problems(self, cell: Cell) -> list[tuple[str, str, str]]:
        """List what EC2 can't do, as far as the settings tell."""
        return list(feasible.problems_of(self._settings, cell))

    def warnings(self, cell: Cell) -> list[str]:
        """List what EC2 can't promise."""
        return list(feasible.warnings_of(self._settings, cell))

    def create(self, order: Order) -> list[Endpoint]:
        """Make networks and instances, and wait until SSH gets in."""
        self._order, self._maker = order, Maker(Mark.of(order), order.ledger)
        self._tenants = tenants_of(self._settings, slots_of(order.requests), self._waits)
        for tenant in self._tenants:
            tenant.account.patience.check = order.check
        self._build = Build(self._settings, order, self._maker, self._tenants, self._give_back)
        return [self._endpoint(*made) for made in self._build.make()]

    def _endpoint(self, instance: Instance, login: Login) -> Endpoint:
        order = instance.order
        slow = f"{order.flavor.name} has no enhanced networking (ENA)"
        return Endpoint(
            request=order.request,
            resource_id=instance.id,
            login=login,
            data_address=instance.private,
            flavor=order.flavor.name,
            vcpus=order.flavor.vcpus,
            warnings=() if order.flavor.ena else (slow,),
            public_address=instance.public,
            image=order.image.id,
            network=order.flavor.network,
            nics=instance.nics,
        )

    def _made(self) -> Build:
        if self._build is None:
            raise ProviderError("nothing was made yet", where=PROVIDER)
        return self._build

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back where the instances stand, all of an account in one call."""
        instances = self._made().instances
        ours = [instances[endpoint.name] for endpoint in endpoints]
        there = locations_of(ours, self._settings.placement_by)
        return [there.get(instance.id, Gone()) for instance in ours]

    def replace(self, endpoint: Endpoint, order: Order) -> Endpoint:  # noqa: ARG002
        """Make an instance anew; the old one goes when the new one stands. Raises ProviderError."""
        build = self._made()
        old = build.instances[endpoint.name]
        ((new, login),) = build.add([endpoint.request])
        names = {old.order.name, *old.order.nic_names}
        self._remove([what for what in self._things() if what[0].name in names])
        build.forget(old)
        build.enter([new])
        return self._endpoint(new, login)

    def admit(self, endpoints: Sequence[Endpoint], peers: Sequence[str]) -> None:
        """Open the data ports of instances to peers elsewhere. Raises ProviderError."""
        self._made().admit([endpoint.name for endpoint in endpoints], peers)

    def _things(self) -> list[tuple[Resource, Account]]:
        return [] if self._maker is None else list(self._maker.made)

    def _give_back(self, kinds: Sequence[str], before: int) -> None:
        self._remove([what for what in self._things()[before:] if what[0].kind in kinds])

    def _remove(self, what: Sequence[tuple[Resource, Account]]) -> None:
        if self._maker is not None:
            removal.remove(what, self._maker.forget)

    def close(self) -> None:
        """Destroy all that was made; may be called again. Raises ProviderError."""
        for tenant in self._tenants:
            tenant.account.patience.check = lambda: None
        self._remove(self._things())

    def data_address(
        self, receiver: Endpoint, sender: Endpoint, layer: Layer, family: Family
    ) -> str:
        """Return the address in the tenant's VPC, or for all others the public one."""
        if receiver.request.tenant == sender.request.tenant or receiver.public_address is None:
            return super().data_address(receiver, sender, layer, family)
        return receiver.public_address

    def listen_address(
        self, receiver: Endpoint, sender: Endpoint, layer: Layer, family: Family
    ) -> str:
        """Return the address in the tenant's VPC: the public one is translated to it."""
        return super().data_address(receiver, sender, layer, family)

    @classmethod
    def owned(
        cls, access: Access, run: str | None = None, unread: Unread = pass_over
    ) -> list[Resource]:
        """List what is ours in the account and region of the credentials."""
        return [thing.resource for thing in removal.owned([Account(access)], run, unread)]

    @classmethod
    def makes(cls, resource: Resource) -> bool:
        """Tell whether a resource is of a kind that it makes."""
        return resource.kind in KINDS

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        """Destroy resources in the order that they need. Raises the first ProviderError."""
        accesses = {tuple(sorted(resource.access.items())) for resource in resources}
        accounts = {key: Account(dict(key)) for key in accesses}
        there = [(one, accounts[tuple(sorted(one.access.items()))]) for one in resources]
        removal.remove(there, gone)
