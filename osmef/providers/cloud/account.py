"""Accounts at a cloud: calls with retry, idempotent creation, and the tenants of a run in them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from osmef.errors import ProviderError
from osmef.providers.base import Access, CancellationCheck, EndpointRequest, never_cancelled
from osmef.providers.cloud.errors import ErrorTable, Meaning
from osmef.providers.parallel import map_by_key, map_concurrently
from osmef.providers.retry import LIMIT_S, Retry
from osmef.scenario.clouds.base import CloudSettings

T = TypeVar("T")
Seen = TypeVar("Seen", covariant=True)  # noqa: PLC0105
Again = Callable[[Exception], bool]
"""Retry predicate: whether a call that failed with this error may succeed when it is repeated."""


class Poll(Protocol[Seen]):
    """Poll of a resource that is being created; None until it is ready."""

    def __call__(self, *, late: bool) -> Seen | None:
        """Return the resource. Raises where it has failed, or is ``late``."""


@dataclass(frozen=True)
class CloudWaits:
    """Time-outs and intervals of waits for a cloud, in seconds.

    ``look_s`` lies between two looks at one thing that is on its way. What was asked for just
    before a controller was killed is listed after ``listing_delay_s``. A deletion that the cloud
    seems to have dropped is asked for again after ``delete_retry_s``, and has failed when for
    ``no_progress_s`` nothing has gone. A call that fails and may do yet is repeated for
    ``retry_s``, a deletion of what is in use for ``in_use_s``, if that is given. What ran a moment
    ago, and is not known for ``gone_s``, was taken back. ``at_once`` deletions that take long are
    under way together. Where the cloud itself ends VMs, the time of that is moved on every
    ``renewed_s``, often enough that this may fail a few times in a row.
    """

    look_s: float = 1.0
    listing_delay_s: float = 5.0
    delete_retry_s: float = math.inf
    no_progress_s: float = 300.0
    retry_s: float = LIMIT_S
    in_use_s: float | None = None
    gone_s: float = 10.0
    at_once: int = 1000
    renewed_s: float = 2 * 3600.0

    def pause_for(self, things: int, unchanged_s: float) -> float:
        """Return the polling interval for so many resources, unchanged for so long.

        It costs the cloud more the more there are, and a tenth of the time that they take is soon
        enough.
        """
        return self.look_s * max(1.0, 0.05 * things, min(0.1 * unchanged_s, 5.0))


class Account:
    """An account, project or subscription, by its ``access``. Thread-safe."""

    provider: ClassVar[str]
    """The kind of the provider."""
    errors: ClassVar[ErrorTable]
    look_at: ClassVar[str]
    """The cure for what does not go: how to look at it."""
    is_idempotent: ClassVar[bool] = False
    """Whether a request to create, repeated as it is, makes nothing twice."""
    refusal_leaves_nothing: ClassVar[bool] = True
    """Whether what the cloud says no to is not there."""
    lists_lag: ClassVar[bool] = True
    """Whether a thing may be in no list yet though its id is known."""
    id: str = ""
    """Which one it is, by the cloud's own id."""

    def __init__(
        self,
        access: Access,
        name: str,
        waits: CloudWaits,
        check: CancellationCheck = never_cancelled,
    ) -> None:
        self.access = access
        """How to reach it again."""
        self.name = name
        """What to call it in messages."""
        self.waits = waits
        self.check = check
        """Called at least once a second in every wait; may raise."""
        self.retry_s = waits.retry_s

    def wait(self, seconds: float) -> None:
        """Wait, and call ``check`` once a second meanwhile."""
        Retry(self.check).wait(seconds)

    def poll(self, look: Poll[T], limit_s: float) -> T:
        """Poll until there is a result, and return it. ``look`` raises where it is ``late``."""
        end = time.monotonic() + limit_s
        while (found := look(late=time.monotonic() > end)) is None:
            self.wait(self.waits.look_s)
        return found

    def repeat(
        self, call: Callable[[], T], again: Again | None = None, limit_s: float | None = None
    ) -> T:
        """Return a call's result, with retry of transient errors. Raises as the SDK."""
        most_s = self.retry_s if limit_s is None else limit_s
        may_do = again or self.errors.is_transient

        def pause_after(error: Exception) -> float | None:
            if not isinstance(error, self.errors.library) or not may_do(error):
                return None
            return self.errors.pause_of(error)

        return Retry(self.check, most_s).repeat(call, pause_after)

    def do(
        self,
        doing: str,
        call: Callable[[], T],
        again: Again | None = None,
        limit_s: float | None = None,
    ) -> T:
        """Make an idempotent call, with retry: reading, changing, deleting. Raises ProviderError.

        By default it is repeated where the cloud failed at it, and for as long as always.
        """
        try:
            return self.repeat(call, again, limit_s)
        except self.errors.library as error:
            raise self.shown(error, doing) from error

    def shown(self, error: Exception, doing: str) -> ProviderError:
        """Return the error to show for one of the SDK."""
        return self.errors.translate(error, doing, self.name)

    def create(
        self,
        doing: str,
        call: Callable[[], T],
        find: Callable[[], T | None],
        refused: Callable[[], None] = lambda: None,
    ) -> T:
        """Create a resource, never twice. ``find`` looks for its mark after a lost answer.

        ``refused`` is called where it was surely not made. Raises ProviderError.
        """
        lost = denied = False

        def attempt() -> T:
            nonlocal lost, denied
            denied = False
            found = find() if lost and not self.is_idempotent else None
            if found is not None:
                return found
            try:
                return call()
            except self.errors.library as error:
                exists = self.errors.meaning_of(error) is Meaning.EXISTS
                found = find() if exists and self.is_idempotent else None
                if found is not None:
                    return found
                denied = self.errors.is_refusal(error)
                lost = lost or not denied
                raise

        def again(error: Exception) -> bool:
            # What a lost request made may be listed only later.
            listed_later = lost and self.errors.meaning_of(error) is Meaning.EXISTS
            return self.may_create_later(error) or (listed_later and not self.is_idempotent)

        try:
            return self.do(doing, attempt, again)
        except ProviderError:
            if denied and not lost and self.refusal_leaves_nothing:
                refused()
            raise

    def may_create_later(self, error: Exception) -> bool:
        """Return whether a creation may succeed later, by eventual consistency."""
        return self.errors.is_transient(error)


A = TypeVar("A", bound=Account)


_POOL = IPv4Network("10.0.0.0/8")


def block_of(number: int, prefix: int) -> IPv4Network:
    """Return a block of private addresses by number; those of one prefix length are disjoint."""
    return IPv4Network((int(_POOL.network_address) + (number << (32 - prefix)), prefix))


def nic_network_count(settings: CloudSettings, requests: Iterable[EndpointRequest]) -> int:
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

    return map_by_key(look, accounts)


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
    opened = map_concurrently(lambda one: log_in(one[1][1] or None), wanted)
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
