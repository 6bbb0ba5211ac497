"""Make things that carry the mark of a run, and write each down before and after."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from openstack.connection import Connection

from osmef.providers.base import Ledger, Resource
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.kinds import KINDS, PROVIDER
from osmef.providers.openstack.marks import Mark

T = TypeVar("T")


@dataclass
class Maker:
    """Makes the things of a run. Safe to use from several threads."""

    mark: Mark
    ledger: Ledger
    made: list[tuple[Resource, Cloud]] = field(default_factory=list)
    """All that was asked for, with the cloud that it is in, in this order."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make(self, cloud: Cloud, kind: str, name: str, call: Callable[[Connection], T]) -> T:
        """Make one thing of this name; ``call`` gives it the run's mark. Raises ProviderError."""
        resource = self.mark.resource(PROVIDER, kind, name, cloud.access)
        with self._lock:
            self.ledger.intend(resource)
            self.made.append((resource, cloud))

        def find(connection: Connection) -> T | None:
            found = KINDS[kind].find(connection, cloud.project_id, self.mark.run, name)
            return cast("T | None", found)

        thing = cloud.create(f"making the {kind} {name}", call, find)
        known = replace(resource, id=str(getattr(thing, "id", "")))
        with self._lock:
            self.ledger.created(known)
            self.made[self.made.index((resource, cloud))] = (known, cloud)
        return thing
