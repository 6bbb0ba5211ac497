"""Take away what is ours, in the order that it needs, side by side, and nothing else."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from osmef.errors import OsmefError, ProviderError
from osmef.providers.base import Resource, Unread, pass_over
from osmef.providers.openstack import failures
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.kinds import GOING, KINDS, PROVIDER, Thing
from osmef.providers.parallel import AT_ONCE, side_by_side

_STAGES = (
    ("server", "key-pair", "server-group"),
    # Those of servers that run would make nova read anew what neutron has for each of them, and
    # change the router, which takes only one change at a time.
    ("floating-ip",),
    ("router",),
    ("security-group", "network", "volume"),
    ("project",),
)
_GONE_S = 180.0
# Nova begins all deletions at once. With a hundred on their way its neutron ran out of connections
# to its database, and what fails there leaves the server as it was, with the status ERROR. The more
# there are, the more work is each of them: 2.0 CPU-seconds with 24 at once, 1.4 with eight.
_ON_THEIR_WAY = AT_ONCE

Gone = Callable[[Resource], None]


def owned(clouds: Iterable[Cloud], run: str | None, unread: Unread = pass_over) -> list[Thing]:
    """List what carries our mark in these projects, of one run or all. Raises ProviderError."""
    lists = [(cloud, kind) for cloud in clouds for kind in KINDS.values()]
    found = side_by_side(lambda one: one[1].owned(one[0], run, unread), lists)
    # Key pairs belong to a user, and so may be seen from several projects.
    things = {(thing.kind, thing.id): thing for some in found for thing in some}
    return list(things.values())


def remove(resources: Sequence[tuple[Resource, Cloud]], gone: Gone) -> None:
    """Destroy resources, each in its cloud.

    ``gone`` is called for each as soon as it is gone. What does not carry our mark is not touched,
    and counts as gone. Goes on after a failure, and raises the first at the end.
    """
    removal = _Removal(gone)
    clouds = {id(cloud): cloud for _, cloud in resources}
    lists: dict[tuple[int, str], list[Resource]] = defaultdict(list)
    for resource, cloud in resources:
        lists[id(cloud), resource.kind].append(resource)

    def find(groups: Mapping[tuple[int, str], Sequence[Resource]], *, again: bool) -> None:
        side_by_side(
            lambda one: removal.find(clouds[one[0][0]], one[0][1], one[1], again=again),
            groups.items(),
        )

    find(lists, again=False)
    for stage in _STAGES:
        if "project" in stage and removal.failed:
            break  # what is left in it could not be reached any more
        removal.delete_all(stage)
        if "server" not in stage:
            continue
        if removal.unseen:
            # What a controller asked for just before it was killed may have come about by now.
            late = {k: [r for r in ones if r in removal.unseen] for k, ones in lists.items()}
            find({k: ones for k, ones in late.items() if ones}, again=True)
            removal.delete_all(stage)
    removal.finish()


@dataclass
class _Removal:
    """What is to be removed: each thing that exists, and the resource that it was known as."""

    gone: Gone
    unseen: list[Resource] = field(default_factory=list)
    """What was only intended, as far as is known, and not found at the first look."""
    _left: dict[tuple[str, str], tuple[Thing, Resource]] = field(default_factory=dict)
    _failures: list[ProviderError] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, cloud: Cloud, kind: str, resources: Sequence[Resource], *, again: bool) -> None:
        """Look which of the resources exist and carry our mark; the others are gone.

        Those of which no id is known are looked for ``again``.
        """
        runs = {resource.run for resource in resources}
        try:
            things = KINDS[kind].owned(cloud, runs.pop() if len(runs) == 1 else None)
        except ProviderError as error:
            self._failures.append(error)
            return
        for resource in resources:
            # A lost answer may have left two of one name.
            same = [
                thing
                for thing in things
                if thing.mark.run == resource.run
                and (thing.id == resource.id or thing.name == resource.name)
            ]
            with self._lock:
                for thing in same:
                    self._left[thing.kind, thing.id] = (thing, resource)
                if not same and resource.id is None and not again:
                    self.unseen.append(resource)
                elif not same:
                    self.gone(resource)

    @property
    def failed(self) -> bool:
        """Whether something would not go."""
        return bool(self._failures)

    def things(self, kinds: Container[str]) -> list[Thing]:
        """List what is still there of these kinds."""
        return [thing for thing, _resource in self._left.values() if thing.kind in kinds]

    def delete_all(self, kinds: Sequence[str]) -> None:
        """Delete what is there of these kinds, and wait until it is gone.

        Looks at all of a project in one call. Many servers or volumes take long: they fail when for
        a while not one of them has gone.
        """
        asked: dict[tuple[str, str], float] = {}
        things = self.things(kinds)
        self._ask([thing for thing in things if thing.kind in GOING], asked)
        side_by_side(self.delete, [thing for thing in things if thing.kind not in GOING])
        changed, before = time.monotonic(), 0
        while left := self.things(GOING.keys() & set(kinds)):
            if len(left) != before:
                changed, before = time.monotonic(), len(left)
            cloud, unchanged_s = left[0].cloud, time.monotonic() - changed
            cloud.wait(cloud.waits.pause_for(min(before, _ON_THEIR_WAY), unchanged_s))
            groups: dict[tuple[int, str, str], list[Thing]] = defaultdict(list)
            for thing in left:
                groups[id(thing.cloud), thing.kind, thing.mark.run].append(thing)
            for group in groups.values():
                self._look_at(group)
            left = self.things(GOING.keys() & set(kinds))
            if time.monotonic() > changed + _GONE_S:
                for thing in left:
                    self._fail(_stays(thing, "does not go away"), thing)
            else:
                self._ask(left, asked)

    def _ask(self, things: Sequence[Thing], asked: dict[tuple[str, str], float]) -> None:
        """Ask for some more deletions, and again for those that the cloud seems to have dropped."""
        now = time.monotonic()
        due = [
            thing
            for thing in things
            if now - asked.get((thing.kind, thing.id), -math.inf) >= thing.cloud.waits.again_s
        ]
        some = due[: max(_ON_THEIR_WAY - (len(things) - len(due)), 0)]
        side_by_side(self.delete, some)
        asked.update({(thing.kind, thing.id): time.monotonic() for thing in some})

    def delete(self, thing: Thing) -> None:
        """Delete one thing; a server or a volume is only on its way then."""
        try:
            thing.cloud.do(
                f"deleting the {thing.kind} {thing.name}",
                lambda connection: KINDS[thing.kind].delete(connection, thing.id),
                failures.is_in_use,
            )
        except OsmefError as error:
            self._fail(error, thing)
            return
        if thing.kind not in GOING:
            self._done(thing)

    def _look_at(self, things: Sequence[Thing]) -> None:
        first = things[0]
        try:
            there = first.cloud.do(
                f"listing {first.kind}s", lambda c: GOING[first.kind](c, first.mark.run)
            )
        except ProviderError as error:
            for thing in things:
                self._fail(error, thing)
            return
        for thing in things:
            status = there.get(thing.id)
            if status is None:
                self._done(thing)
            elif status.startswith("error_deleting"):
                self._fail(_stays(thing, f"was not deleted: its status is {status}"), thing)

    def _fail(self, error: OsmefError, thing: Thing) -> None:
        shown = ProviderError(error.message, where=error.where, cure=error.cure or _CURE)
        with self._lock:
            self._failures.append(error if isinstance(error, ProviderError) else shown)
            self._left.pop((thing.kind, thing.id), None)

    def _done(self, thing: Thing) -> None:
        with self._lock:
            _, resource = self._left.pop((thing.kind, thing.id))
            if not any(other is resource for _, other in self._left.values()):
                self.gone(resource)

    def finish(self) -> None:
        """Raise the first failure."""
        if self._failures:
            raise self._failures[0]


def _stays(thing: Thing, why: str) -> ProviderError:
    return ProviderError(f"the {thing.kind} {thing.name} {why}", where=thing.cloud.name, cure=_CURE)


_CURE = "look at it with the cloud's own tools, then: osmef reap --provider " + PROVIDER
