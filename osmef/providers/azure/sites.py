"""The tenants of a run: their subscriptions, and the resource group and network of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from osmef.errors import ProviderError
from osmef.providers.azure.access import Subscription, access_of, open_subscription
from osmef.providers.azure.kinds import GROUP
from osmef.providers.azure.making import Maker
from osmef.providers.azure.names import Names
from osmef.providers.azure.networks import subnet_of
from osmef.providers.base import EndpointRequest
from osmef.providers.parallel import side_by_side
from osmef.scenario.clouds.azure import AzureSettings


@dataclass(frozen=True)
class Tenant:
    """A tenant of the plan: its slot and number, what it is called, and its subscription."""

    slot: str
    number: int
    label: str
    subscription: Subscription


@dataclass(frozen=True)
class Site:
    """What a tenant's VMs are made in: ``group`` is the name of its resource group."""

    tenant: Tenant
    names: Names
    group: str

    @property
    def subscription(self) -> Subscription:
        """The subscription it is in."""
        return self.tenant.subscription

    @property
    def block(self) -> IPv4Network:
        """The addresses of its network."""
        return subnet_of(self.tenant.number)

    def path(self, what: str) -> str:
        """Return the name of a thing in its group."""
        return f"{self.group}/{what}"


def slots_of(requests: Sequence[EndpointRequest]) -> list[str]:
    """Return the tenants' slots that the requests use, in the order of their numbers."""
    slots = {request.tenant for request in requests if request.tenant is not None}
    return sorted(slots, key=lambda slot: (len(slot), slot))


def open_tenants(settings: AzureSettings, slots: Sequence[str]) -> list[Tenant]:
    """Log into the subscriptions of the tenants, one a slot. Raises ProviderError."""
    if settings.tenants is None:
        shared = open_subscription(access_of(settings))
        return [
            Tenant(slot, number, f"{shared.id}/{number}", shared)
            for number, slot in enumerate(slots, 1)
        ]
    if len(slots) > len(settings.tenants):
        raise ProviderError(
            f"the plan needs {len(slots)} tenants, and there are {len(settings.tenants)}",
            where="provider.tenants",
            cure="name more of them",
        )
    wanted = list(zip(slots, settings.tenants.items(), strict=False))
    opened = side_by_side(lambda one: open_subscription(access_of(settings, one[1][1])), wanted)
    return [
        Tenant(slot, number, label, subscription)
        for number, ((slot, (label, _)), subscription) in enumerate(
            zip(wanted, opened, strict=True), 1
        )
    ]


def make_site(maker: Maker, tenant: Tenant, names: Names, region: str) -> Site:
    """Make the resource group that holds all of a tenant. Raises ProviderError."""
    group = maker.mark.name(str(tenant.number))
    maker.make(tenant.subscription, GROUP, group, {"location": region})
    return Site(tenant, names, group)
