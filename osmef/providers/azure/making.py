"""Make things that carry the mark of a run, and write each down before and after."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from osmef.providers.azure import failures
from osmef.providers.azure.access import Subscription
from osmef.providers.azure.kinds import KINDS, PROVIDER
from osmef.providers.base import Ledger, Resource
from osmef.providers.marks import Mark


@dataclass
class Maker:
    """Makes the things of a run. Safe to use from several threads."""

    mark: Mark
    ledger: Ledger
    made: list[tuple[Resource, Subscription]] = field(default_factory=list)
    """All that was asked for, with the subscription that it is in, in this order."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make(
        self,
        subscription: Subscription,
        kind: str,
        name: str,
        body: Mapping[str, Any],
        await_it: Callable[[Any], Any] = lambda begun: begun,
    ) -> Any:
        """Make one thing of this name, marked, and return it when it stands.

        A request that is repeated makes nothing twice: it names the thing. ``await_it`` is given
        what the SDK returned, and may wait in its own way. Raises ProviderError.
        """
        resource = self.mark.resource(PROVIDER, kind, name, subscription.access)
        with self._lock:
            self.ledger.intend(resource)
            self.made.append((resource, subscription))
        marked = {**body, "tags": self.mark.tags}
        thing = subscription.do(
            f"making the {kind} {name}",
            lambda: await_it(KINDS[kind].put(subscription, name, marked)),
            failures.is_not_yet,
        )
        known = replace(resource, id=str(thing.id))
        with self._lock:
            self.ledger.created(known)
            self.made[self.made.index((resource, subscription))] = (known, subscription)
        return thing

    def forget(self, resource: Resource) -> None:
        """Count a thing as never made, as it is gone."""
        with self._lock:
            self.made = [one for one in self.made if one[0] is not resource]
