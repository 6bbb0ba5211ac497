"""Make things that carry the mark of a run, and write each down before and after."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from osmef.providers.aws.access import Account, Answer
from osmef.providers.aws.kinds import KINDS, PROVIDER, Facts, tags_for
from osmef.providers.base import Ledger, Resource
from osmef.providers.marks import Mark

_MOST_TOKEN = 64


@dataclass
class Maker:
    """Makes the things of a run. Safe to use from several threads."""

    mark: Mark
    ledger: Ledger
    made: list[tuple[Resource, Account]] = field(default_factory=list)
    """All that was asked for, with the account that it is in, in this order."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make(
        self,
        account: Account,
        kind: str,
        name: str,
        action: str,
        thing: Callable[[Answer], Facts],
        **request: Any,
    ) -> str:
        """Make one thing of this name, and return its id. Raises ProviderError.

        ``thing`` takes it out of the answer of the action.
        """
        resource = self.mark.resource(PROVIDER, kind, name, account.access)
        with self._lock:
            self.ledger.intend(resource)
            self.made.append((resource, account))
        tagged = [*request.pop("TagSpecifications", ()), *tags_for(kind, self.mark, name)]

        def find() -> Facts | None:
            found = KINDS[kind].find(account, self.mark.run, name)
            return None if found is None else found.facts

        facts = account.create(
            lambda: thing(account.ask(action, TagSpecifications=tagged, **request)),
            f"making the {kind} {name}",
            find,
            lambda: self.forget(resource),  # or its removal would wait for it to show up
        )
        known = replace(resource, id=str(facts[KINDS[kind].id]))
        with self._lock:
            self.ledger.created(known)
            self.made[self.made.index((resource, account))] = (known, account)
        return str(known.id)

    def token(self, name: str) -> str:
        """Return what tells a repeated request for the thing of this name from another one."""
        whole = f"{self.mark.run} {self.mark.made} {name}"
        return hashlib.sha256(whole.encode()).hexdigest()[:_MOST_TOKEN]

    def forget(self, resource: Resource) -> None:
        """Note that a thing is gone."""
        self.ledger.destroyed(resource)
        with self._lock:
            self.made = [one for one in self.made if one[0] is not resource]
