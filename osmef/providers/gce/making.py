"""Make things that carry the mark of a run, and write each down before and after."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from osmef.providers.base import Ledger, Resource
from osmef.providers.gce import failures
from osmef.providers.gce.access import Project
from osmef.providers.gce.kinds import KINDS, PROVIDER, Kind, id_of
from osmef.providers.gce.marks import Mark


@dataclass
class Maker:
    """Makes the things of a run. Safe to use from several threads."""

    mark: Mark
    ledger: Ledger
    made: list[tuple[Resource, Project]] = field(default_factory=list)
    """All that was asked for, with the project that it is in, in this order."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make(self, project: Project, kind: str, where: str, name: str, body: Any) -> None:
        """Make one thing of this name in a zone or region, and wait for it. Raises ProviderError.

        The request keeps its id when it is repeated, so that what it asks for comes about once,
        after a lost answer, too.
        """
        resource = self.mark.resource(PROVIDER, kind, name, project.access)
        with self._lock:
            self.ledger.intend(resource)
            self.made.append((resource, project))
        doing, api = f"making the {kind} {name}", KINDS[kind]
        refused: list[bool] = []

        def again(error: Exception) -> bool:
            refused.append(failures.is_refusal(error))
            return failures.is_early(error)

        try:
            request = self._request(api, where, name, body)
            project.change(doing, api.service, "insert_unary", again, **request)
        except failures.LIBRARY_ERRORS as error:
            there = api.find(project, where, name) if failures.is_there(error) else None
            if there is None or there.mark != self.mark:
                if all(refused):  # also before it was repeated
                    self._forget(resource, project)
                raise project.shown(error, doing) from error
        known = replace(resource, id=id_of(where, name))
        with self._lock:
            self.ledger.created(known)
            self.made[self.made.index((resource, project))] = (known, project)

    def _request(self, api: Kind, where: str, name: str, body: Any) -> dict[str, Any]:
        body.name, body.description = name, self.mark.text
        named = {f"{api.field}_resource": body, "request_id": str(uuid.uuid4())}
        return {**named, **api.place(where)}

    def _forget(self, resource: Resource, project: Project) -> None:
        """Note that a thing was never made, so that nobody waits for it to show up."""
        with self._lock:
            self.ledger.destroyed(resource)
            self.made.remove((resource, project))
