"""Provider of VMs with marked resources: the common part of all clouds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol

from osmef.errors import ProviderError
from osmef.providers.base import (
    Access,
    CancellationCheck,
    Endpoint,
    EndpointRequest,
    Problem,
    Provider,
    Resource,
    RunContext,
    Unread,
    ignore_unreadable,
    never_cancelled,
)
from osmef.providers.cloud import resource_types, teardown
from osmef.providers.cloud.account import A, CloudWaits, Tenant, open_tenants, slots_of
from osmef.providers.cloud.provisioning import Provisioner, V
from osmef.providers.cloud.resource_types import M, Maker, Types
from osmef.providers.marks import Mark
from osmef.providers.parallel import AT_ONCE
from osmef.remote.login import Login
from osmef.scenario.fields import EndpointKind, Family, ProviderNetwork, Tenancy
from osmef.scenario.study import Cell


class PublicCloud(Provider, Generic[A, M]):
    """A cloud whose ``types`` of resources are created, listed and destroyed in accounts."""

    types: ClassVar[Types] = {}  # type: ignore[type-arg] # each cloud has accounts of its own
    at_once: ClassVar[int] = AT_ONCE
    """Requests on their way at once."""
    outside = frozenset({Family.IPV4})
    has_zones = True
    gives_nics = True
    shares_nics = False

    _maker: Maker[A, M] | None = None

    opener: ClassVar[Callable[..., Any]]
    """Logs into the account of an access, or else the environment's.

    Takes the access, the waits and their check. Raises ProviderError.
    """

    @classmethod
    def open(cls, access: Access) -> A:
        """Log into the account of ``access``, or else the environment's. Raises ProviderError."""
        account: A = cls.opener(access)
        return account

    @classmethod
    def open_again(cls, access: Access) -> A | None:
        """Log into a resource's account; None if it no longer exists.

        Raises ProviderError.
        """
        return cls.open(access)

    @abstractmethod
    def accounts(self) -> Iterable[A]:
        """Return the accounts that this run uses so far."""

    @classmethod
    def find(
        cls, account: A, run: str | None, unread: Unread = ignore_unreadable
    ) -> list[Resource]:
        """List marked resources in an account. Raises ProviderError."""
        found = resource_types.owned(cls.types, [account], run, unread, at_once=cls.at_once)
        return [one.resource for one in found]

    @classmethod
    def tear_down(
        cls, resources: Sequence[tuple[Resource, A]], gone: Callable[[Resource], None]
    ) -> None:
        """Destroy resources, each in its account. Raises the first error at the end."""
        teardown.destroy(cls.types, resources, gone, at_once=cls.at_once)

    @classmethod
    def owned(
        cls, access: Access, run: str | None = None, unread: Unread = ignore_unreadable
    ) -> list[Resource]:
        """List our resources in the account of the access or the environment."""
        return cls.find(cls.open(access), run, unread)

    @classmethod
    def recognises(cls, resource: Resource) -> bool:
        """Return whether a resource's type, id and name are those of a type that it creates."""
        type_ = cls.types.get(resource.kind)
        return type_ is not None and type_.has(resource)

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        """Destroy resources in order of dependency. Raises the first ProviderError."""
        keys = {tuple(sorted(resource.access.items())) for resource in resources}
        opened = {key: cls.open_again(dict(key)) for key in keys}
        there = []
        for resource in resources:
            account = opened[tuple(sorted(resource.access.items()))]
            if account is None:
                gone(resource)
            else:
                there.append((resource, account))
        cls.tear_down(there, gone)

    def undestroyed(self) -> list[tuple[Resource, A]]:
        """Return all intended resources that are not known to be destroyed, in order."""
        return [] if self._maker is None else list(self._maker.made)

    def remove(self, some: Sequence[tuple[Resource, A]]) -> None:
        """Destroy some resources, and note it. Raises ProviderError."""
        if self._maker is not None:
            self.tear_down(some, self._maker.note_destroyed)

    def close(self) -> None:
        """Destroy all resources; may be called again. Raises ProviderError."""
        for account in self.accounts():
            account.check = never_cancelled
        self.remove(self.undestroyed())

    def data_address(
        self, receiver: Endpoint, sender: Endpoint, layer: ProviderNetwork, family: Family
    ) -> str:
        """Return the private address within a tenant's network, else the public one."""
        outside = receiver.public_address
        if receiver.request.tenant == sender.request.tenant or outside is None:
            return super().data_address(receiver, sender, layer, family)
        return outside

    def listen_address(
        self, receiver: Endpoint, sender: Endpoint, layer: ProviderNetwork, family: Family
    ) -> str:
        """Return the private address, to which the public one is translated."""
        return receiver.listen_address or super().data_address(receiver, sender, layer, family)


class PlacementRules(Protocol):
    """Limits of a cloud's placement for a cell of two ends, by its settings."""

    def problems_of(self, settings: Any, cell: Cell) -> Iterator[Problem]:
        """Yield the problems of a cell that the placement can't satisfy."""

    def warnings_of(self, settings: Any, cell: Cell) -> Iterator[str]:
        """Yield what the placement can't guarantee, each with its cure."""


class VmCloud(PublicCloud[A, M], Generic[A, M, V]):
    """A public cloud of VMs only, in networks of the run."""

    rules: PlacementRules
    mark_type: ClassVar[type[Mark]] = Mark
    provisioner_type: type[Provisioner[Any, Any, Any]]
    """What ``provisioner`` makes; not needed, so no ClassVar, where a cloud has its own."""
    account_is: ClassVar[str] = "account"
    """The cloud's noun for a tenant's account, such as project."""
    accounts_by: ClassVar[str] = "account"
    """What ``provider.tenants`` names accounts by, such as profile."""

    usual_waits: ClassVar[CloudWaits] = CloudWaits()

    def __init__(self, settings: Any, waits: CloudWaits | None = None) -> None:
        self._settings = settings
        self._waits = waits or self.usual_waits
        self._tenants: list[Tenant[A]] = []
        self._provisioner: Provisioner[A, Any, V] | None = None

    @abstractmethod
    def access_to(self, named: str | None) -> Access:
        """Return the access to what ``provider.tenants`` names so, or else the settings' own."""

    def log_in(self, named: str | None, check: CancellationCheck) -> A:
        """Log into such an account. All its waits call ``check``. Raises ProviderError."""
        account: A = self.opener(self.access_to(named), self._waits, check)
        return account

    def provisioner(
        self, context: RunContext, maker: Maker[A, M], tenants: Sequence[Tenant[A]]
    ) -> Provisioner[A, Any, V]:
        """Return the provisioner of a run, which has created nothing yet."""
        return self.provisioner_type(self._settings, context, maker, tenants, self.remove)

    def problems_of(self, cell: Cell) -> Iterator[Problem]:
        """Yield what is not supported for any cell, also of a single end."""
        if EndpointKind.HOST in {end.kind for end in cell.scenario.ends}:
            cure = "leave kind out, or use the provider static"
            yield ("endpoints", "there are no physical hosts here, only VMs", cure)

    def single_tenant_cure(self) -> str | None:
        """Return the cure where the settings name a single tenant, None otherwise."""
        tenants = self._settings.tenants
        named = f"name another {self.accounts_by} in provider.tenants"
        lone = tenants is not None and len(tenants) < 2
        return f"{named}, or leave tenants out: each is a network then" if lone else None

    def problems(self, cell: Cell) -> list[Problem]:
        """List what this cloud does not support, as far as settings show."""
        found = list(self.problems_of(cell))
        if cell.scenario.endpoints.loopback is not None:
            return found
        cure = self.single_tenant_cure()
        if cell.scenario.tenancy is Tenancy.DIFFERENT_TENANT and cure is not None:
            found.append(("tenancy", f"different-tenant needs two {self.account_is}s", cure))
        return [*found, *self.rules.problems_of(self._settings, cell)]

    def warnings(self, cell: Cell) -> list[str]:
        """List what this cloud does not guarantee."""
        alone = cell.scenario.endpoints.loopback is not None
        return [] if alone else list(self.rules.warnings_of(self._settings, cell))

    def tenants_of(self, slots: Sequence[str], check: CancellationCheck) -> list[Tenant[A]]:
        """Log into the accounts of the tenants, one for each slot. Raises ProviderError."""
        return open_tenants(slots, self._settings.tenants, lambda named: self.log_in(named, check))

    def begin(self, context: RunContext) -> Provisioner[A, Any, V]:
        """Log in, and return the provisioner of a run. Raises ProviderError."""
        mark: Any = self.mark_type.of(context)
        self._maker = Maker(mark, context.ledger, self.types)
        self._tenants = self.tenants_of(slots_of(context.requests), context.check)
        self._provisioner = self.provisioner(context, self._maker, self._tenants)
        return self._provisioner

    def create(self, context: RunContext) -> list[Endpoint]:
        """Create networks and VMs, and wait for SSH. Raises ProviderError."""
        return [self.endpoint(*made) for made in self.begin(context).make()]

    def endpoint(self, vm: V, login: Login) -> Endpoint:
        """Return the endpoint that a VM is."""
        context = vm.spec
        return Endpoint(
            request=context.request,
            resource_id=vm.id,
            login=login,
            data_address=vm.private,
            flavor=context.flavor.name,
            vcpus=context.flavor.vcpus,
            public_address=vm.public,
            image=context.image_name,
            nics=vm.nics,
        )

    def close(self) -> None:
        """Destroy all that was made; may be called again. Raises ProviderError."""
        if self._provisioner is not None:
            self._provisioner.end()
        super().close()

    def provisioned(self) -> Provisioner[A, Any, V]:
        """Return the provisioner. Raises ProviderError before anything was created."""
        if self._provisioner is None:
            raise not_provisioned(self.kind)
        return self._provisioner

    def replace(self, endpoint: Endpoint, context: RunContext) -> Endpoint:  # noqa: ARG002
        """Recreate a VM; the old one is destroyed once the new one runs. Raises ProviderError."""
        return self.endpoint(*self.provisioned().replace(endpoint.request))

    def admit(self, endpoints: Sequence[Endpoint], peers: Sequence[str]) -> None:
        """Open the data ports of VMs to peers elsewhere. Raises ProviderError."""
        self.provisioned().admit([endpoint.name for endpoint in endpoints], peers)

    def accounts(self) -> Iterable[A]:
        """Return the tenants' accounts."""
        return [tenant.account for tenant in self._tenants]


def by_account(tenants: Sequence[Tenant[A]]) -> Mapping[str, list[Tenant[A]]]:
    """Return the tenants of each account, by its id."""
    found: dict[str, list[Tenant[A]]] = {}
    for tenant in tenants:
        found.setdefault(tenant.account.id, []).append(tenant)
    return found


Share = tuple[A, list[Tenant[A]], list[EndpointRequest]]
"""An account with its tenants and their requests."""


def account_shares(
    tenants: Sequence[Tenant[A]], requests: Sequence[EndpointRequest]
) -> Iterator[Share[A]]:
    """Yield each account's share of a run."""
    for some in by_account(tenants).values():
        slots = {tenant.slot for tenant in some}
        yield some[0].account, some, [one for one in requests if one.tenant in slots]


def not_provisioned(kind: str) -> ProviderError:
    """Return the error of a request before anything was created."""
    return ProviderError("nothing was created yet", where=kind)
