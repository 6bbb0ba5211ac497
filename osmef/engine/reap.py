"""Reap: find orphaned resources of dead runs, and destroy only those."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from osmef.engine.events import Intended, ResourceEvent, Started
from osmef.engine.journal import Controller, Journal, State, controller_of
from osmef.errors import InputError, OsmefError, ProviderError, StorageError
from osmef.kinds import naming_the_package
from osmef.providers import AMBIENT, provider_class
from osmef.providers.base import Access, Resource
from osmef.results.rundir import RunDirectory

_JOURNAL = "journal.jsonl"
_DEPTH = 2
"""How far below the directory of runs journals are: those of a campaign are one deeper."""


@dataclass(frozen=True)
class Orphan:
    """A resource without a living controller, and the evidence for that.

    ``access_error`` is why the access in its journal is invalid.
    """

    resource: Resource
    reason: str
    directory: RunDirectory | None
    access_error: OsmefError | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether only the journal of another run names it, so that its user has to confirm."""
        return self.directory is not None and self.directory.id != self.resource.run


@dataclass(frozen=True)
class FailedDestruction:
    """An orphan that could not be destroyed, and the error."""

    orphan: Orphan
    error: OsmefError


@dataclass(frozen=True)
class Search:
    """Search by mark, beside the journals under ``out``.

    Without a provider it is every place that needs no access, such as this machine. With one,
    it is also every place that a journal names, and ``access`` if it is given, else wherever the
    environment points to. ``older_than_s`` takes what was made longer ago, before its deadline.
    ``controllers_are_dead`` is a user's assurance that they are, also where it can't be verified.
    """

    out: Path
    provider: str | None = None
    access: Access = field(default_factory=dict)
    older_than_s: float | None = None
    controllers_are_dead: bool = False

    def is_due(self, resource: Resource, now: float) -> bool:
        """Return whether a resource without a journal may be destroyed."""
        if resource.deadline is not None and resource.deadline <= now:
            return True
        made, age = resource.made, self.older_than_s
        return made is not None and age is not None and made <= now - age


@dataclass
class SkippedRun:
    """A run that may be alive on another machine, and its resources by its journal here."""

    run: str
    machine: str
    resources: list[Resource]


@dataclass
class ReapScan:
    """Orphans, resources of possibly living runs, and clouds that could not be searched."""

    orphans: list[Orphan] = field(default_factory=list)
    skipped: list[SkippedRun] = field(default_factory=list)
    errors: list[OsmefError] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """What looks like ours, and its mark can't be read: it is left alone."""


@dataclass
class _JournalledRun:
    """A run with a directory here: whether it is locked, and its resources."""

    directory: RunDirectory
    controller: Controller
    locked: bool
    left: list[Orphan]

    def why(self, search: Search, resource: Resource) -> str | None:
        """Return the evidence that a resource is orphaned; None where it may be in use."""
        if self.controller.state is State.DEAD:
            return "its controller no longer exists"
        if self.controller.state is State.LIVE:
            return None
        where = f"its controller on {self.controller.machine}"
        if search.controllers_are_dead:
            return f"{where} is dead, as you say"
        known = replace(resource, deadline=resource.deadline or self.controller.deadline)
        return f"{where} {_past(known)}" if search.is_due(known, time.time()) else None


def _past(resource: Resource) -> str:
    over = resource.deadline is not None and resource.deadline <= time.time()
    return "is past its deadline" if over else "began long ago"


def find_orphans(search: Search) -> ReapScan:
    """Find resources that journals name, and marked ones that are past their deadline.

    A run whose controller lives is left alone, wherever its directory is: what no journal here
    knows counts only once it is due, and so does that of a run whose controller is on another
    machine. Lists, and destroys nothing.
    """
    found: dict[tuple[object, ...], Orphan] = {}
    doubtful: dict[tuple[object, ...], Orphan] = {}
    result = ReapScan()
    runs = _runs(search.out, result.errors)
    for name, run in runs.items():
        skipped: list[Resource] = []
        for orphan in run.left:
            resource = orphan.resource
            if search.provider not in {None, resource.provider}:
                continue
            # What is another run's is left alone while that one's controller may live, too.
            reasons = [one.why(search, resource) for one in (run, runs.get(resource.run, run))]
            if None in reasons:
                skipped.append(resource)
            else:
                among = found if refusal_of(orphan) is None else doubtful
                among[resource.key] = replace(orphan, reason=str(reasons[0]))
        if skipped and run.controller.state is State.UNSEEN:
            result.skipped.append(SkippedRun(name, str(run.controller.machine), skipped))
    for resource in _owned(search, runs, result):
        marked = _by_mark(search, resource, runs)
        if marked is not None and not _is_among(resource, found):
            found[resource.key] = marked
    others = (one for one in doubtful.values() if not _is_among(one.resource, found))
    result.orphans = [*found.values(), *others]
    return result


def _runs(out: Path, errors: list[OsmefError]) -> dict[str, _JournalledRun]:
    """Return the runs with directories here, by name; of several copies the locked one.

    Keeps why one can't be read, and goes on.
    """
    found: dict[str, _JournalledRun] = {}
    for path in _journals(out, errors):
        directory = RunDirectory(path.parent)
        try:
            run = _JournalledRun(directory, *_controller(directory), leftovers(directory))
            errors += Journal(path).history().damage(Started, ResourceEvent)
        except StorageError as error:
            errors.append(error)
            continue
        before = found.get(directory.path.name)
        if before is None or not before.locked:
            found[directory.path.name] = run
    return found


def _controller(directory: RunDirectory) -> tuple[Controller, bool]:
    """Return the controller of a run, and whether it has locked this directory."""
    live = directory.is_live()
    if live:
        return Controller(State.LIVE), True
    return controller_of(directory, lock_is_free=live is False), False


def _is_among(resource: Resource, found: Mapping[tuple[object, ...], Orphan]) -> bool:
    """Return whether a resource was found before, also by another name of its place."""
    same = replace(resource, access={}).key
    return resource.key in found or any(
        resource.id is not None
        and one.resource.id == resource.id
        and replace(one.resource, access={}).key == same
        for one in found.values()
    )


def _journals(out: Path, errors: list[OsmefError]) -> list[Path]:
    """Return the journals of runs, also of campaigns; keep the errors of unreadable directories."""
    found = []

    def keep(error: OSError) -> None:
        path = Path(error.filename or out)
        if path != out or not isinstance(error, FileNotFoundError):
            why = f"can't list the directory: {error.strerror}"
            errors.append(StorageError(why, where=str(path), cure="reap as a user who may read it"))

    for folder, names, files in os.walk(out, onerror=keep, followlinks=True):
        depth = len(Path(folder).relative_to(out).parts)
        if depth > 0 and _JOURNAL in {*files, *names}:
            found.append(Path(folder, _JOURNAL))
        if depth == _DEPTH:
            names.clear()
    return sorted(found)


def _by_mark(
    search: Search, resource: Resource, runs: Mapping[str, _JournalledRun]
) -> Orphan | None:
    run = runs.get(resource.run)
    if run is not None:
        why = run.why(search, resource)
        return None if why is None else Orphan(resource, why, run.directory)
    if not search.is_due(resource, time.time()):
        return None
    over = resource.deadline is not None and resource.deadline <= time.time()
    return Orphan(resource, "its deadline has passed" if over else "it was made long ago", None)


def _owned(
    search: Search, runs: Mapping[str, _JournalledRun], result: ReapScan
) -> Iterator[Resource]:
    """Yield marked resources of every cloud; keep the errors of those that fail."""
    for kind in (search.provider,) if search.provider else AMBIENT:
        accesses = [search.access, *(_named(kind, runs) if search.provider else [])]
        for n, access in enumerate(accesses):
            if access in accesses[:n]:
                continue
            try:
                if n > 0:
                    check_access(kind, access, "a journal")
                with naming_the_package():
                    yield from provider_class(kind).owned(access, unread=result.unread.append)
            except OsmefError as error:  # a machine that is down is no ProviderError
                # Journals name places where the user names none.
                if access or not any(accesses) or not isinstance(error, InputError):
                    result.errors.append(error)


def _named(kind: str, runs: Mapping[str, _JournalledRun]) -> list[Access]:
    """Return the accesses of all resources in journals."""
    journals = [Journal(one.directory.journal) for one in runs.values()]
    intended = (event.resource for one in journals for event in one.history().all(Intended))
    return [one.access for one in intended if one.provider == kind]


def leftovers(directory: RunDirectory) -> list[Orphan]:
    """Return the resources of a dead run that its journal does not note as destroyed."""
    existing = Journal(directory.journal).existing()
    return [
        Orphan(
            resource,
            "its controller no longer exists",
            directory,
            _access_error(resource, directory),
        )
        for resource in existing
    ]


def _access_error(resource: Resource, directory: RunDirectory) -> OsmefError | None:
    try:
        check_access(resource.provider, resource.access, str(directory.journal))
    except OsmefError as error:
        return error
    return None


def refusal_of(orphan: Orphan, *, allow_foreign: bool = False) -> OsmefError | None:
    """Return the reason not to destroy an orphan; None without one.

    A journal may be of unknown origin. ``allow_foreign``: the user confirmed that resources of
    other runs in it are destroyed, too.
    """
    if orphan.access_error is not None or allow_foreign or not orphan.is_foreign:
        return orphan.access_error
    return InputError(
        f"{orphan.resource.name} belongs to the run {orphan.resource.run}, and this directory to"
        " another: it was renamed, or its journal was changed",
        where=str(orphan.directory and orphan.directory.journal),
        cure="rename the directory back; or, to destroy the resource all the same:"
        " osmef reap --other-runs",
    )


def reap(orphans: Sequence[Orphan], *, allow_foreign: bool = False) -> list[FailedDestruction]:
    """Destroy orphans while holding the locks of their runs; return the failures.

    ``allow_foreign`` as for ``refusal_of``.
    """
    left: list[FailedDestruction] = []
    free: list[Orphan] = []
    by_run: dict[Path | None, list[Orphan]] = defaultdict(list)
    for orphan in orphans:
        by_run[orphan.directory.path if orphan.directory else None].append(orphan)
    with ExitStack() as held:
        for path, its_own in by_run.items():
            try:
                if path is not None:
                    held.enter_context(RunDirectory(path)).acquire()
            except StorageError as error:
                left += [FailedDestruction(orphan, error) for orphan in its_own]
            else:
                free += its_own
        return [*left, *destroy(free, allow_foreign=allow_foreign)]


def destroy(orphans: Sequence[Orphan], *, allow_foreign: bool = False) -> list[FailedDestruction]:
    """Destroy orphans of locked runs, all of a cloud together.

    What is gone, also if it was so before, is noted in its journal. Returns what would not go, or
    could not be noted, or must not be destroyed: see ``refusal_of``.
    """
    refused: list[FailedDestruction] = []
    accesses: dict[tuple[str, tuple[tuple[str, str], ...]], list[Orphan]] = defaultdict(list)
    for orphan in orphans:
        error = refusal_of(orphan, allow_foreign=allow_foreign)
        if error is not None:
            refused.append(FailedDestruction(orphan, error))
            continue
        resource = orphan.resource
        accesses[resource.provider, tuple(sorted(resource.access.items()))].append(orphan)
    destroyed = (_destroy_at(kind, many) for (kind, _), many in accesses.items())
    return [*refused, *(left for some in destroyed for left in some)]


def _destroy_at(kind: str, orphans: Sequence[Orphan]) -> list[FailedDestruction]:
    missing = {orphan.resource.key: orphan for orphan in orphans}
    left: list[FailedDestruction] = []

    def gone(resource: Resource) -> None:
        orphan = missing.pop(resource.key, None)
        if orphan is not None and orphan.directory is not None:
            journal = Journal(orphan.directory.journal)
            journal.destroyed(resource)
            if journal.unnoted is not None:
                left.append(FailedDestruction(orphan, journal.unnoted))

    error: OsmefError = ProviderError("the provider did not confirm that it was deleted")
    try:
        provider = provider_class(kind)
        with naming_the_package():
            for orphan in [one for one in orphans if not provider.recognises(one.resource)]:
                missing.pop(orphan.resource.key, None)
                left.append(FailedDestruction(orphan, _unknown(orphan)))
            if missing:
                provider.destroy([orphan.resource for orphan in missing.values()], gone)
    except OsmefError as caught:
        error = caught
    return [*left, *(FailedDestruction(orphan, error) for orphan in missing.values())]


def _unknown(orphan: Orphan) -> ProviderError:
    kind = orphan.resource.provider
    return ProviderError(
        "its kind, name or id is not one that this version of osmef uses: the journal is damaged,"
        " or another version wrote it",
        where=str(orphan.directory and orphan.directory.journal),
        cure=f"check whether it still exists: osmef reap --provider {kind}",
    )


def check_access(kind: str, access: Mapping[str, str], where: str, *, whole: bool = True) -> None:
    """Check each value of an ``access`` by the type of its setting.

    So it runs no program here, and sends no credentials to strangers. Connects to nothing. What
    lacks is wrong, too, where the access should be ``whole``. Raises InputError, and ProviderError
    where the kind of cloud is not known.
    """
    try:
        provider_class(kind).access_model.model_validate(dict(access), strict=True)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            if one["type"] == "missing" and not whole:
                continue
            key = ".".join(str(part) for part in one["loc"])
            reported = str(one.get("ctx", {}).get("error") or one["msg"])
            why, _, cure = reported.partition("; ")
            raise InputError(
                f"the access to {kind} is invalid: {key}: {why}",
                where=where,
                cure=cure or "look at what wrote it, and remove it",
            ) from None
