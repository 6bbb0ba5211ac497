"""Teardown of marked resources only: whole resource groups at once, or parts of them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from osmef.errors import NotFoundError, OsmefError, ProviderError
from osmef.providers.azure.access import ERRORS, Subscription
from osmef.providers.azure.resource_types import GROUP, TYPES, kind_and_name, mark_of
from osmef.providers.azure.vms import is_vm_name
from osmef.providers.base import Resource, Unread, pass_over
from osmef.providers.cloud.errors import Meaning
from osmef.providers.marks import Mark
from osmef.providers.parallel import side_by_side

_IN_USE_S = 300.0
"""An interface is kept for its VM up to 180 s after that is gone."""
_LATE_S = 5.0
"""What was made or asked for just before a run ended is seen by then."""
_CURE = f"{Subscription.look_at}; then: osmef reap --provider azure"

Gone = Callable[[Resource], None]
Found = tuple[Resource, Subscription]


def owned(
    subscription: Subscription, run: str | None, unread: Unread = pass_over
) -> list[Resource]:
    """List marked groups, of one run or all, and their content.

    Raises ProviderError.
    """
    groups = subscription.do(
        "listing resource groups", lambda: list(subscription.resources.resource_groups.list())
    )
    found = []
    for group in groups:
        what = f"{subscription.name}: {GROUP} {group.name}"
        mark = Mark.of_listed(group.tags, what, unread)
        if mark is not None and run in {None, mark.run}:
            found += _inside(subscription, str(group.name), mark)[0]
            found.append(
                mark.resource(
                    subscription.provider,
                    GROUP,
                    str(group.name),
                    subscription.access,
                    str(group.id),
                )
            )
    return found


def _inside(subscription: Subscription, group: str, mark: Mark) -> tuple[list[Resource], list[str]]:
    """List the content of a group of ours: our resources, and foreign ones."""
    try:
        there = subscription.do(
            f"listing the resource group {group}",
            lambda: list(subscription.resources.resources.list_by_resource_group(group)),
        )
    except NotFoundError:  # it went meanwhile
        return [], []
    marked = {str(one.id).lower() for one in there if _run_of(one) == mark.run}
    ours, others = [], []
    for one in there:
        kind, name = kind_and_name(one, group)
        if not _belongs(one, marked):
            others.append(f"{one.type} {one.name}")
        elif kind is not None:
            ours.append(
                mark.resource(
                    subscription.provider, kind.name, name, subscription.access, str(one.id)
                )
            )
    return ours, others


def _run_of(thing: Any) -> str | None:
    mark = mark_of(thing)
    return None if mark is None else mark.run


def _belongs(thing: Any, marked: set[str]) -> bool:
    """Return whether a resource is marked, or belongs to a marked one."""
    id_, type_ = str(thing.id).lower(), str(thing.type).lower()
    if id_ in marked or any(id_.startswith(f"{one}/") for one in marked):
        return True
    unmarked_disk = type_ == TYPES["disk"].type and mark_of(thing) is None
    return unmarked_disk and is_vm_name(str(thing.name))


def destroy(resources: Sequence[Found], gone: Gone) -> None:
    """Destroy resources, each in its subscription.

    ``gone`` is called for each as soon as it is gone. What is in a resource group that does not
    carry our mark is not touched, and counts as gone; what others put into one that does stays, as
    far as our role may see it. Goes on after a failure, and raises the first at the end.
    """
    teardown = _Teardown(gone)
    groups: dict[tuple[int, str], list[Found]] = defaultdict(list)
    for resource, subscription in resources:
        groups[id(subscription), resource.name.split("/")[0]].append((resource, subscription))
    side_by_side(lambda one: teardown.remove(one[0][1], one[1]), groups.items())
    teardown.finish()


@dataclass
class _Teardown:
    """State of a teardown: the callback for destroyed resources, and failures."""

    gone: Gone
    _failures: list[OsmefError] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def remove(self, group: str, found: Sequence[Found]) -> None:
        """Destroy resources of one group, and the group if it is among them."""
        subscription = found[0][1]
        resources = [resource for resource, _ in found]
        try:
            mark = _our_mark(subscription, group, resources)
            if mark is None:
                self._gone(resources)
            elif any(resource.kind == GROUP for resource in resources):
                self._remove_group(subscription, group, mark)
                self._gone(resources)
            else:
                self._remove_parts(subscription, resources)
        except OsmefError as error:
            with self._lock:
                self._failures.append(error)

    def _remove_group(self, subscription: Subscription, group: str, mark: Mark) -> None:
        """Delete a group at once; if something prevents that, its parts in order before.

        Where somebody else put something into it, that and the group stay. Raises ProviderError.
        """
        ours, others = _inside(subscription, group, mark)
        if not others:
            try:
                return _delete(subscription, GROUP, group, once=True)
            except ProviderError:
                if _mark(subscription, group) is None:
                    return None
            ours, others = _inside(subscription, group, mark)
        self._remove_inside(subscription, sorted(ours, key=_stage))
        if others:
            raise ProviderError(
                f"the resource group {group} stays, as others' things are in it: "
                + ", ".join(sorted(others)),
                where=subscription.name,
                cure="move or delete them, then: osmef reap --provider azure",
            )
        _delete(subscription, GROUP, group)
        return None

    def _remove_inside(self, subscription: Subscription, parts: Sequence[Resource]) -> None:
        """Delete the parts of a group in this order. Raises the first error."""
        first: ProviderError | None = None
        for part in parts:
            try:
                # What one that stays is in the way of won't go later either.
                _delete(subscription, part.kind, part.name, once=first is not None)
            except ProviderError as error:
                first = first or error
        if first is not None:
            raise first

    def _remove_parts(self, subscription: Subscription, resources: Sequence[Resource]) -> None:
        for kind in TYPES:
            same = [resource for resource in resources if resource.kind == kind]

            def delete(resource: Resource) -> None:
                _delete(subscription, resource.kind, resource.name)
                if resource.kind == "vm":  # that of one that never ran may stay
                    _delete(subscription, "disk", resource.name)
                self._gone([resource])

            side_by_side(delete, same)

    def _gone(self, resources: Sequence[Resource]) -> None:
        with self._lock:
            for resource in sorted(resources, key=_stage):
                self.gone(resource)

    def finish(self) -> None:
        """Raise the first failure."""
        if self._failures:
            first = self._failures[0]
            if first.cure in {None, ERRORS.cure_of(Meaning.OTHER)}:
                first.cure = _CURE
            raise first


def _stage(resource: Resource) -> int:
    return list(TYPES).index(resource.kind)


def _mark(subscription: Subscription, group: str, late_s: float = 0.0) -> Mark | None:
    """Return the mark of a group, None without one, or if it does not exist."""
    try:
        found = subscription.do(
            f"looking at the resource group {group}",
            lambda: TYPES[GROUP].get(subscription, group),
            ERRORS.is_gone,
            late_s,
        )
    except NotFoundError:
        return None
    return mark_of(found)


def _our_mark(subscription: Subscription, group: str, resources: Sequence[Resource]) -> Mark | None:
    """Return the mark of a group if it is that of the resources' run."""
    runs = {resource.run for resource in resources}
    late_s = _LATE_S if any(one.kind == GROUP for one in resources) else 0.0
    mark = _mark(subscription, group, late_s)
    return mark if mark is not None and mark.run in runs else None


def _delete(subscription: Subscription, kind: str, name: str, *, once: bool = False) -> None:
    """Delete a resource, and wait for its end; absent is success."""
    try:
        subscription.do(
            f"deleting the {kind} {name}",
            lambda: TYPES[kind].delete(subscription, name),
            (lambda _error: False) if once else ERRORS.is_in_use,
            _IN_USE_S,
        )
    except NotFoundError:
        return
