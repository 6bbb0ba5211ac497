"""Make things that carry the mark of a run, and write each down before and after."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from osmef.providers.base import Ledger, Resource
from osmef.providers.libvirt.connection import Hypervisor
from osmef.providers.libvirt.marks import PROVIDER, Mark

T = TypeVar("T")


@dataclass
class Maker:
    """Makes the things of a run. Safe to use from several threads."""

    mark: Mark
    ledger: Ledger
    made: dict[tuple[str, str, str], Resource] = field(default_factory=dict)
    """All that was asked for, by URI, kind and name."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make(
        self,
        host: Hypervisor,
        kind: str,
        name: str,
        call: Callable[[Any], T],
        find: Callable[[Any], T],
    ) -> T:
        """Make one thing of this name; ``call`` gives it the run's mark. Raises ProviderError."""
        resource = self.mark.resource(PROVIDER, kind, name, host.access)
        with self._lock:
            self.ledger.intend(resource)
            self.made[host.uri, kind, name] = resource
        thing = host.create(f"making the {kind} {name}", call, find)
        known = replace(resource, id=str(thing.UUIDString()))  # type: ignore[attr-defined]
        with self._lock:
            self.ledger.created(known)
            self.made[host.uri, kind, name] = known
        return thing

    def gone(self, resource: Resource) -> None:
        """Note that one of them is gone."""
        with self._lock:
            self.ledger.destroyed(resource)
            self.made.pop((resource.access["uri"], resource.kind, resource.name), None)
