"""Take away what is ours, in the order that it needs, side by side, and nothing else."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from osmef.errors import OsmefError, ProviderError
from osmef.providers.base import Resource, Unread, pass_over
from osmef.providers.gce import failures
from osmef.providers.gce.access import AT_ONCE, Project
from osmef.providers.gce.kinds import KINDS, PROVIDER, Thing
from osmef.providers.parallel import side_by_side

_STAGES = (("instance",), ("disk", "policy", "firewall", "subnet"), ("network",))
_LATE_S = 5.0
"""What was asked for just before a controller was killed has come about by then."""
_CURE = f"look at it with gcloud, then: osmef reap --provider {PROVIDER}"

Gone = Callable[[Resource], None]


def owned(project: Project, run: str | None, unread: Unread = pass_over) -> list[Thing]:
    """List what carries our mark in a project, of one run or all. Raises ProviderError."""
    found = side_by_side(
        lambda kind: kind.owned(project, run, unread), KINDS.values(), at_once=AT_ONCE
    )
    things = [thing for some in found for thing in some]
    vms = {thing.id for thing in things if thing.kind == "instance"}
    # A boot disk has the name of its VM, and goes with it.
    return [thing for thing in things if thing.kind != "disk" or thing.id not in vms]


def remove(resources: Sequence[tuple[Resource, Project]], gone: Gone) -> None:
    """Destroy resources, each in its project.

    ``gone`` is called for each as soon as it is gone. What does not carry our mark is not touched,
    and counts as gone. Goes on after a failure, and raises the first at the end.
    """
    removal = _Removal(gone)
    by_project: dict[int, list[tuple[Resource, Project]]] = defaultdict(list)
    for one in resources:
        by_project[id(one[1])].append(one)
    for some in by_project.values():
        removal.find(some[0][1], [resource for resource, _ in some])
    if removal.unseen:
        removal.unseen[0][1].wait(_LATE_S)
        unseen, removal.unseen = removal.unseen, []
        for project in {id(p): p for _, p in unseen}.values():
            removal.find(project, [r for r, p in unseen if p is project], again=True)
    for stage in _STAGES:
        removal.delete(stage)
    removal.finish()


@dataclass
class _Removal:
    """What is to be removed: each thing that exists, and the resource that it was known as."""

    gone: Gone
    unseen: list[tuple[Resource, Project]] = field(default_factory=list)
    """What was not found at the first look, as lists and looks may lag behind."""
    _left: list[tuple[Thing, Resource]] = field(default_factory=list)
    _failures: list[OsmefError] = field(default_factory=list)
    _stuck: set[str] = field(default_factory=set)
    """The projects in which something failed to go."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, project: Project, resources: Sequence[Resource], *, again: bool = False) -> None:
        """Look which of the resources exist and carry our mark; the others are gone."""
        runs = {resource.run for resource in resources}
        try:
            things = owned(project, runs.pop() if len(runs) == 1 else None)
            for resource in resources:
                self._sort(project, resource, things, again=again)
        except ProviderError as error:
            self._failures.append(error)

    def _sort(
        self, project: Project, resource: Resource, things: Iterable[Thing], *, again: bool
    ) -> None:
        found = [thing for thing in things if _is(thing, resource)]
        if not found and resource.id is not None:  # lists may lag behind
            where, _, name = resource.id.rpartition("/")
            thing = KINDS[resource.kind].find(project, where, name)
            found = [thing] if thing is not None and _is(thing, resource) else []
        self._left += [(thing, resource) for thing in found]
        if found:
            return
        if not again:
            self.unseen.append((resource, project))
        else:
            self.gone(resource)

    def delete(self, kinds: Sequence[str]) -> None:
        """Delete what is there of these kinds, and wait until it is gone."""
        there = [one for one in self._left if one[0].kind in kinds]
        stuck = set(self._stuck)
        side_by_side(lambda one: self._delete(*one, stuck), there, at_once=AT_ONCE)

    def _delete(self, thing: Thing, resource: Resource, stuck: set[str]) -> None:
        kind, doing = KINDS[thing.kind], f"deleting the {thing.kind} {thing.name}"
        # Where something failed to go, what it uses stays in use: asking again takes only time.
        again = failures.is_passing if thing.project.id in stuck else failures.is_in_use
        named = {kind.field: thing.name, **kind.place(thing.where)}
        try:
            thing.project.change(doing, kind.service, "delete_unary", again, **named)
        except failures.LIBRARY_ERRORS as error:
            if not failures.is_gone(error):
                self._fail(thing.project.shown(error, doing), thing.project)
                return
        except OsmefError as error:
            self._fail(error, thing.project)
            return
        with self._lock:
            self._left.remove((thing, resource))
            if not any(other is resource for _, other in self._left):
                self.gone(resource)

    def _fail(self, error: OsmefError, project: Project) -> None:
        with self._lock:
            self._stuck.add(project.id)
            self._failures.append(error)

    def finish(self) -> None:
        """Raise the first failure."""
        if self._failures:
            first = self._failures[0]
            if first.cure in {None, failures.USUAL_CURE}:
                first.cure = _CURE
            raise first


def _is(thing: Thing, resource: Resource) -> bool:
    same = thing.id == resource.id or (resource.id is None and thing.name == resource.name)
    return same and thing.kind == resource.kind and thing.mark.run == resource.run
