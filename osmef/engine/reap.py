"""Find what dead runs left behind, and destroy exactly that."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from osmef.engine.journal import Journal
from osmef.providers import provider_class, provider_kinds
from osmef.providers.base import Resource
from osmef.results.rundir import RunDirectory


@dataclass(frozen=True)
class Orphan:
    """A resource of ours that nobody works with any more, and how that is known."""

    resource: Resource
    reason: str
    directory: RunDirectory | None


def find_orphans(out: Path) -> list[Orphan]:
    """List what the journals under ``out`` say still stands, and what is ours and past its time.

    A run whose controller lives is left alone, wherever its directory is: what no journal here
    knows counts only once its deadline has passed. Lists, and destroys nothing.
    Raises StorageError, ProviderError.
    """
    orphans: list[Orphan] = []
    known: set[str] = set()
    for path in sorted(out.glob("*/journal.jsonl")):
        directory = RunDirectory(path.parent)
        known.add(directory.id)
        if not directory.is_live():
            orphans += leftovers(directory)
    now = time.time()
    for kind in provider_kinds():
        for resource in provider_class(kind).owned({}):
            if resource.run in known or resource.deadline is None or resource.deadline > now:
                continue
            orphans.append(Orphan(resource, "its deadline has passed", None))
    return orphans


def leftovers(directory: RunDirectory) -> list[Orphan]:
    """List what the journal of a run whose controller is dead does not say is destroyed."""
    standing = Journal(directory.journal).standing()
    return [Orphan(resource, "its controller is gone", directory) for resource in standing]


def reap(orphan: Orphan) -> None:
    """Destroy it while nobody else can take up its run. Raises StorageError, ProviderError."""
    if orphan.directory is None:
        destroy(orphan)
        return
    with orphan.directory as directory:
        directory.acquire()
        destroy(orphan)


def destroy(orphan: Orphan) -> None:
    """Destroy it and note that in its journal; what is gone already is noted, too."""

    def gone(resource: Resource) -> None:
        if orphan.directory is not None:
            Journal(orphan.directory.journal).destroyed(resource)

    provider_class(orphan.resource.provider).destroy([orphan.resource], gone)
