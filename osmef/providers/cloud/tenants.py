"""Tenants of a run: an account each, or a network each in one account, and address blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, Generic, TypeVar

from osmef.errors import ProviderError
from osmef.providers.base import Access, EndpointRequest
from osmef.providers.cloud.resource_types import A
from osmef.providers.parallel import by_each, side_by_side
from osmef.scenario.clouds.base import CloudSettings

T = TypeVar("T")
_POOL = IPv4Network("10.0.0.0/8")


def block_of(number: int, prefix: int) -> IPv4Network:
    """Return a block of private addresses by number; those of one prefix length are disjoint."""
    return IPv4Network((int(_POOL.network_address) + (number << (32 - prefix)), prefix))


def networks_for(settings: CloudSettings, requests: Iterable[EndpointRequest]) -> int:
    """Return how many networks the further cards of all these endpoints need."""
    most = max((request.nics for request in requests), default=0)
    return most if settings.nics_apart else min(most, 1)


def split(block: IPv4Network) -> tuple[IPv4Network, Sequence[IPv4Network]]:
    """Return half of a network for the usual cards, and eight parts for further ones."""
    usual, rest = block.subnets()
    return usual, list(rest.subnets(3))


@dataclass(frozen=True)
class Tenant(Generic[A]):
    """A tenant of the plan: its slot and number from 1, its name, and its account."""

    slot: str
    number: int
    label: str
    account: A


@dataclass(frozen=True)
class TenantNet(Generic[A]):
    """A tenant's networks, in which its VMs are created."""

    tenant: Tenant[A]

    @property
    def account(self) -> A:
        """Its account."""
        return self.tenant.account


def offers_of(
    look_up: Callable[[A, Any, Sequence[EndpointRequest]], T],
    settings: Any,
    tenants: Iterable[Tenant[A]],
    requests: Sequence[EndpointRequest],
) -> dict[str, T]:
    """Look up what each tenant's account offers of its requests, by the tenants' slots.

    Raises ProviderError.
    """
    accounts = {tenant.slot: tenant.account for tenant in tenants}

    def look(slot: str) -> T:
        return look_up(accounts[slot], settings, [one for one in requests if one.tenant == slot])

    return by_each(look, accounts)


def slots_of(requests: Sequence[EndpointRequest]) -> list[str]:
    """Return the tenant slots of the requests, in the order of their numbers."""
    slots = {request.tenant for request in requests if request.tenant is not None}
    return sorted(slots, key=lambda slot: (len(slot), slot))


def open_tenants(
    slots: Sequence[str],
    named: Mapping[str, str] | None,
    log_in: Callable[[str | None], A],
    key: str = "provider.tenants",
    account_is: str | None = None,
) -> list[Tenant[A]]:
    """Log into the accounts of tenants, one for each slot: the named ones, or one for all.

    ``log_in`` gets the account that ``key`` lists by a name, None for the usual one.
    ``account_is`` is what the cloud calls one, where each tenant must have one of its own. Raises
    ProviderError, also where two of them turn out to be one.
    """
    if named is None:
        shared = log_in(None)
        return [Tenant(slot, n, f"{shared.id}/{slot}", shared) for n, slot in enumerate(slots, 1)]
    if len(slots) > len(named):
        message = f"the plan needs {len(slots)} tenants, and there are {len(named)}"
        message += f" {account_is}s" if account_is else ""
        raise ProviderError(message, where=key, cure="name more of them")
    wanted = list(zip(slots, named.items(), strict=False))
    opened = side_by_side(lambda one: log_in(one[1][1] or None), wanted)
    if len({account.id for account in opened}) < len(opened):
        raise ProviderError(
            f"two of {key} have credentials of one and the same {account_is or 'account'}, so they"
            " are no different tenants",
            where=key,
            cure="name different ones"
            + ("" if account_is else f", or leave {key.rpartition('.')[2]} out"),
        )
    return [
        Tenant(slot, number, label or account.id, account)
        for number, ((slot, (label, _)), account) in enumerate(zip(wanted, opened, strict=True), 1)
    ]


def access_with(**keys: str | None) -> Access:
    """Return an access without unknown keys."""
    return {key: value for key, value in keys.items() if value}
