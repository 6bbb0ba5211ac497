"""Make things that carry the mark of a run, and write each down before and after."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from osmef.providers.base import Ledger, Resource
from osmef.providers.gce import failures
from osmef.providers.gce.access import Project
from osmef.providers.gce.kinds import KINDS, PROVIDER, id_of
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
        self._insert(project, kind, where, name, body)
        known = replace(resource, id=id_of(where, name))
        with self._lock:
            self.ledger.created(known)
            self.made[self.made.index((resource, project))] = (known, project)

    def _insert(self, project: Project, kind: str, where: str, name: str, body: Any) -> None:
        api, doing = KINDS[kind], f"making the {kind} {name}"
        body.name, body.description = name, self.mark.text
        request = {
            f"{api.field}_resource": body,
            "request_id": str(uuid.uuid4()),
            **api.place(where),
        }
        try:
            project.change(doing, api.service, "insert_unary", failures.is_early, **request)
        except failures.LIBRARY_ERRORS as error:
            if not (failures.is_there(error) and self._is_ours(project, kind, where, name)):
                raise project.shown(error, doing) from error

    def _is_ours(self, project: Project, kind: str, where: str, name: str) -> bool:
        found = KINDS[kind].find(project, where, name)
        return found is not None and found.mark == self.mark
