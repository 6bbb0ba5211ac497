"""VMs that are kept, in a cloud whose things are files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from osmef.engine.cost import note_provision
from osmef.engine.events import Started
from osmef.engine.held_endpoints import HeldEndpoints
from osmef.engine.journal import Journal, this_controller
from osmef.engine.plan import Plan
from osmef.engine.reap import destroy, leftovers
from osmef.errors import ReachError
from osmef.providers.base import Resource
from osmef.providers.local.provider import LocalProvider

KIND = "files"
"""What ``osmef.providers`` has to know of it."""


class FileCloud(LocalProvider):
    """Makes files; one of its own name beside it says that it would not go."""

    kind = KIND

    @classmethod
    def recognises(cls, resource: Resource) -> bool:
        return resource.kind == "vms"

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        for resource in resources:
            file = Path(resource.access["file"])
            if file.with_suffix(".stuck").exists():
                raise ReachError("no route", where="the cloud")
            file.unlink(missing_ok=True)
            gone(resource)


class Guests(HeldEndpoints):
    """One file, noted in a journal as the real ones are."""

    @property
    def file(self) -> Path:
        return self.directory.path.parent / "things" / self.id

    def make(self) -> None:
        journal = Journal(self.directory.journal)
        self.note(Started(controller=this_controller(self.directory)))
        note_provision(journal, self._tags, self.plan.endpoints, self.deadline)
        thing = Resource(KIND, "vms", self.id, self.id, access={"file": str(self.file.resolve())})
        journal.intend(thing)
        self.file.touch()

    def verify(self, plan: Plan) -> None:
        assert plan.study.digest == self.plan.study.digest
        if not self.file.exists():
            raise ReachError("no route to host", where=self.id, cure="start it")

    def close(self) -> None:
        for left in destroy(leftovers(self.directory)):
            raise left.error
        super().close()
