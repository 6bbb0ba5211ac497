"""Resource types of a cloud: listing by mark, creation noted in the ledger, and deletion."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from osmef.providers.base import Ledger, Resource, Unread, ignore_unreadable
from osmef.providers.cloud.account import A, Again
from osmef.providers.marks import Mark
from osmef.providers.parallel import AT_ONCE, map_concurrently

M = TypeVar("M", bound=Mark)


@dataclass(frozen=True)
class Found(Generic[A]):
    """An existing resource of ours: its type, id and name, its mark, and its account."""

    kind: str
    id: str
    name: str
    mark: Mark
    account: A
    facts: Any = field(default=None, repr=False, compare=False)
    """What the cloud says of it."""

    @property
    def resource(self) -> Resource:
        """Its entry in the ledger."""
        account = self.account
        return self.mark.resource(account.provider, self.kind, self.name, account.access, self.id)


@dataclass(frozen=True)
class ResourceType(ABC, Generic[A]):
    """A type of resources. Methods raise ProviderError, ``delete`` as the SDK.

    ``stage`` orders deletions: those of a lower one go first.
    """

    name: str
    stage: int
    is_slow: bool = field(default=False, kw_only=True)
    """Whether a deletion is only requested, and ``still_there`` is polled until it is done."""
    is_last: bool = field(default=False, kw_only=True)
    """Whether it is only deleted where all that was to go before it is gone."""
    holds_others: bool = field(default=False, kw_only=True)
    """Whether its deletion takes all that is in it, and so is tried before all others."""

    @abstractmethod
    def owned(
        self, account: A, run: str | None, unread: Unread = ignore_unreadable
    ) -> list[Found[A]]:
        """List marked resources, of one run or all."""

    def look(self, account: A, id_: str) -> Found[A] | None:  # noqa: ARG002
        """Find one by its id, which may be known before it is listed; None if absent."""
        return None

    def holds(self, holder: Resource, other: Resource) -> bool:  # noqa: ARG002
        """Return whether another resource of its account is in one of this type."""
        return False

    def inside(self, found: Found[A]) -> list[Found[A]]:  # noqa: ARG002
        """List our resources in one of this type. Raises ProviderError."""
        return []

    def has(self, resource: Resource) -> bool:
        """Return whether a resource's id, if any, and its name have the form of this type."""
        return resource.id is None or bool(resource.id)

    def existing(self, account: A, resources: Sequence[Resource]) -> list[list[Found[A]]]:
        """Return the cloud's matches of each resource: none if deleted, or not listed yet.

        A lost answer may have left two of one name.
        """
        runs = {one.run for one in resources}
        listed = self.owned(account, runs.pop() if len(runs) == 1 else None)
        return [self._same(account, one, listed) for one in resources]

    def _same(self, account: A, resource: Resource, listed: Sequence[Found[A]]) -> list[Found[A]]:
        same = [one for one in listed if one.id == resource.id or one.name == resource.name]
        unlisted = resource.id is not None and resource.id not in {one.id for one in same}
        if account.lists_lag and unlisted:
            found = self.look(account, str(resource.id))
            same += [] if found is None else [found]
        return [one for one in same if one.mark.run == resource.run]

    def request(self, mark: Any, name: str, **body: Any) -> Any:
        """Return the request to create one of this name, with a mark of the cloud's kind.

        A retry sends it as it is. By default the mark is in ``tags``.
        """
        return {**body, "name": name, "tags": mark.tags}

    def create(self, account: A, name: str, request: Any) -> Any:
        """Create one, in one call, and return it or its id. Raises as the SDK, ProviderError.

        Only of a type that no request names, as that of disks which a cloud makes with its VMs,
        there is nothing to create.
        """
        raise NotImplementedError(self.name)

    def find(self, account: A, mark: Any, name: str, request: Any) -> Any | None:  # noqa: ARG002
        """Return what a request, whose answer got lost, has created; by default nothing."""
        return None

    @abstractmethod
    def delete(self, found: Found[A]) -> Any:
        """Delete one, in one call."""

    def remove(self, found: Found[A], again: Again) -> None:
        """Delete one, with retry where ``again`` says so; absent is success."""
        account = found.account
        try:
            account.repeat(lambda: self.delete(found), again, account.waits.in_use_s)
        except account.errors.library as error:
            if not account.errors.is_gone(error):
                doing = f"deleting the {self.name} {found.name or found.id}"
                raise account.shown(error, doing) from error

    def still_there(self, account: A, some: Collection[Found[A]]) -> Mapping[str, str | None]:
        """Return the ids of remaining ones, each with the error that keeps it for good."""
        listed = {one.id for one in self.owned(account, None)}
        missed = [one.id for one in some if one.id not in listed]
        late = {id_ for id_ in missed if self.look(account, id_) is not None}
        return dict.fromkeys((one.id for one in some if one.id in listed | late), None)


Types = Mapping[str, ResourceType[A]]
"""The resource types of a cloud by their names."""


def owned(
    types: Types[A],
    accounts: Iterable[A],
    run: str | None,
    unread: Unread = ignore_unreadable,
    *,
    at_once: int = AT_ONCE,
) -> list[Found[A]]:
    """List marked resources in these accounts, of one run or all. Raises ProviderError."""
    lists = [(account, one) for account in accounts for one in types.values()]
    found = map_concurrently(lambda it: it[1].owned(it[0], run, unread), lists, at_once=at_once)
    # A cloud may show one thing, such as a user's key pair, in several accounts.
    return list({(one.kind, one.id): one for some in found for one in some}.values())


@dataclass
class Maker(Generic[A, M]):
    """Creates the resources of a run. Thread-safe."""

    mark: M
    ledger: Ledger
    types: Types[A]
    made: list[tuple[Resource, A]] = field(default_factory=list)
    """All that was asked for, with the account that it is in, in this order."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make(self, account: A, kind: str, name: str, **body: Any) -> Any:
        """Create a marked resource, never twice, and return it. Raises ProviderError.

        It is noted as intended before, and with its id afterwards. Where the cloud surely refused,
        it is noted as gone.
        """
        type_ = self.types[kind]
        request = type_.request(self.mark, name, **body)
        intended = self.mark.resource(account.provider, kind, name, account.access)
        with self._lock:
            self.ledger.intend(intended)
            self.made.append((intended, account))
        made = account.create(
            f"making the {kind} {name}",
            lambda: type_.create(account, name, request),
            lambda: type_.find(account, self.mark, name, request),
            lambda: self.note_destroyed(intended),
        )
        known = replace(intended, id=str(getattr(made, "id", made)))
        with self._lock:
            self.ledger.created(known)
            self.made[self.made.index((intended, account))] = (known, account)
        return made

    def note_destroyed(self, resource: Resource) -> None:
        """Note that a resource is destroyed."""
        with self._lock:
            self.ledger.destroyed(resource)
            self.made = [one for one in self.made if one[0] is not resource]
