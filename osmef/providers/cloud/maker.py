"""Creation of marked resources, each noted in the ledger before and after."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from osmef.providers.base import Ledger, Resource
from osmef.providers.cloud.account import Account
from osmef.providers.marks import Mark

A = TypeVar("A", bound=Account)
M = TypeVar("M", bound=Mark)
T = TypeVar("T")


@dataclass(frozen=True)
class Creation(Generic[T]):
    """A resource to create: its type and name, and the creating call.

    ``find`` looks for it by its mark, ``id_of`` returns the id of what either of them returned.
    """

    kind: str
    name: str
    call: Callable[[], T]
    find: Callable[[], T | None]
    id_of: Callable[[T], str]


@dataclass
class Maker(Generic[A, M]):
    """Creates the resources of a run. Thread-safe."""

    mark: M
    ledger: Ledger
    made: list[tuple[Resource, A]] = field(default_factory=list)
    """All that was asked for, with the account that it is in, in this order."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def create(self, account: A, wanted: Creation[T]) -> T:
        """Create a resource, never twice, and return it. Raises ProviderError.

        It is noted as intended before, and with its id afterwards. Where the cloud surely refused,
        it is noted as gone.
        """
        intended = self.mark.resource(account.provider, wanted.kind, wanted.name, account.access)
        with self._lock:
            self.ledger.intend(intended)
            self.made.append((intended, account))
        doing = f"making the {wanted.kind} {wanted.name}"
        made = account.create(doing, wanted.call, wanted.find, lambda: self.forget(intended))
        known = replace(intended, id=wanted.id_of(made))
        with self._lock:
            self.ledger.created(known)
            self.made[self.made.index((intended, account))] = (known, account)
        return made

    def forget(self, resource: Resource) -> None:
        """Note that a resource is destroyed."""
        with self._lock:
            self.ledger.destroyed(resource)
            self.made = [one for one in self.made if one[0] is not resource]
