"""Teardown: destroy marked resources only, stage by stage, concurrently."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

from osmef.errors import OsmefError, ProviderError
from osmef.providers.base import Resource
from osmef.providers.cloud.account import A
from osmef.providers.cloud.errors import Meaning
from osmef.providers.cloud.resource_types import Found, ResourceType, Types
from osmef.providers.parallel import AT_ONCE, map_concurrently

Gone = Callable[[Resource], None]
Entry = tuple[Resource, A]
"""A resource, and the account that it is in."""
_Key = tuple[int, str, str]


def destroy(
    types: Types[A],
    resources: Sequence[tuple[Resource, A]],
    gone: Gone,
    *,
    at_once: int = AT_ONCE,
) -> None:
    """Destroy resources, each in its account.

    ``gone`` is called for each as soon as it is gone. What does not carry our mark is not touched,
    and counts as gone. Goes on after a failure, and raises the first at the end.
    """
    known = {id(resource) for resource, _ in resources}
    teardown = _Teardown(types, lambda one: gone(one) if id(one) in known else None, at_once)
    left = teardown.delete_holders(resources)
    began = time.monotonic()
    teardown.find(left)
    first, *later = sorted({one.stage for one in types.values()})
    teardown.delete(first)
    if teardown.unseen:
        account = teardown.unseen[0][1]
        account.wait(max(0.0, account.waits.listing_delay_s - (time.monotonic() - began)))
        teardown.find_again()
        teardown.delete(first)
    for stage in later:
        teardown.delete(stage)
    teardown.finish()


@dataclass
class _Teardown(Generic[A]):
    """State of a teardown: each existing resource, with its entry in the ledger."""

    types: Mapping[str, ResourceType[A]]
    gone: Gone
    at_once: int
    unseen: list[tuple[Resource, A]] = field(default_factory=list)
    """What was not found at the first look, as lists lag behind, and requests that were lost."""
    _left: dict[_Key, tuple[Found[A], Resource]] = field(default_factory=dict)
    _failed: set[_Key] = field(default_factory=set)
    _stuck: set[int] = field(default_factory=set)
    """The accounts in which something failed to go."""
    _early: list[OsmefError] = field(default_factory=list)
    """Failures with what holds others, which keep nothing else from going."""
    _failures: list[OsmefError] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def delete_holders(self, resources: Sequence[Entry[A]]) -> list[Entry[A]]:
        """Delete resources that hold others, with their contents; return those to delete singly."""
        holders = [one for one in resources if self.types[one[0].kind].holds_others]
        inside = {id(one[0]): self._inside(one, resources) for one in holders}
        held = {id(one[0]) for some in inside.values() for one in some} | inside.keys()
        free = [one for one in resources if id(one[0]) not in held]
        left = map_concurrently(
            lambda one: self._delete_holder(one, inside[id(one[0])]), holders, at_once=self.at_once
        )
        return free + [one for some in left for one in some]

    def _inside(self, holder: Entry[A], resources: Sequence[Entry[A]]) -> list[Entry[A]]:
        (whole, account), holds = holder, self.types[holder[0].kind].holds
        return [one for one in resources if one[1] is account and holds(whole, one[0])]

    def _delete_holder(self, holder: Entry[A], inside: Sequence[Entry[A]]) -> list[Entry[A]]:
        """Delete one with its contents; on failure return both, also contents not known yet."""
        (resource, account), type_ = holder, self.types[holder[0].kind]
        try:
            (found,) = type_.existing(account, [resource])
            if not found or not self._goes(found[0], resource):
                known = {(one.kind, one.name) for one, _ in inside}
                there = [one.resource for some in found for one in type_.inside(some)]
                more = [one for one in there if (one.kind, one.name) not in known]
                return [holder, *inside, *((one, account) for one in more)]
            with self._lock:
                for one, _ in (holder, *inside):
                    self.gone(one)
        except OsmefError as error:
            self._explain(error, account)
            with self._lock:
                self._early.append(error)
        return []

    def _goes(self, found: Found[A], resource: Resource) -> bool:
        """Delete a resource that holds others in one call; return whether it no longer exists."""
        type_ = self.types[found.kind]
        try:
            type_.remove(found, lambda _error: False)
        except ProviderError:
            return not type_.existing(found.account, [resource])[0]
        return True

    def find(self, resources: Iterable[tuple[Resource, A]], *, again: bool = False) -> None:
        """Find the marked ones of the resources; absent ones are looked for ``again``."""
        lists: dict[tuple[int, str], list[tuple[Resource, A]]] = defaultdict(list)
        for resource, account in resources:
            lists[id(account), resource.kind].append((resource, account))
        map_concurrently(
            lambda ones: self._find(ones, again=again), lists.values(), at_once=self.at_once
        )

    def find_again(self) -> None:
        """Look again for absent ones: late listings. The rest is destroyed."""
        unseen, self.unseen = self.unseen, []
        self.find(unseen, again=True)

    def _find(self, ones: Sequence[tuple[Resource, A]], *, again: bool) -> None:
        account, type_ = ones[0][1], self.types[ones[0][0].kind]
        resources = [resource for resource, _ in ones]
        try:
            there = type_.existing(account, resources)
            for resource, same in zip(resources, there, strict=True):
                self._sort(resource, account, same, again)
        except OsmefError as error:
            self._note(error, account)

    def _sort(self, resource: Resource, account: A, same: Sequence[Found[A]], again: bool) -> None:
        with self._lock:
            for one in same:
                self._left[_key(one)] = (one, resource)
            if same:
                return
            if not again and (account.lists_lag or resource.id is None):
                self.unseen.append((resource, account))
            else:
                self.gone(resource)

    def delete(self, stage: int) -> None:
        """Delete the resources of a stage, and wait for their end.

        A type that needs all that was before it to be gone stays where something is left.
        """
        types = [one for one in self.types.values() if one.stage == stage]
        there = self._there(one for one in types if not (one.is_last and self._failures))
        slow = [one for one in there if self.types[one.kind].is_slow]
        stuck = set(self._stuck)
        asked: dict[_Key, float] = {}
        self._ask(slow, asked, stuck)
        rest = [one for one in there if not self.types[one.kind].is_slow]
        map_concurrently(lambda one: self._delete(one, stuck), rest, at_once=self.at_once)
        self._await([one for one in types if one.is_slow], asked, stuck)

    def _there(self, types: Iterable[ResourceType[A]]) -> list[Found[A]]:
        """List the remaining ones of these types, without failed ones."""
        names = {one.name for one in types}
        left = [(key, found) for key, (found, _) in self._left.items() if found.kind in names]
        return [found for key, found in left if key not in self._failed]

    def _ask(self, some: Sequence[Found[A]], asked: dict[_Key, float], stuck: set[int]) -> None:
        """Start slow deletions within the limit, and restart dropped ones."""
        now = time.monotonic()
        due = [
            one
            for one in some
            if now - asked.get(_key(one), -math.inf) >= one.account.waits.delete_retry_s
            or _key(one) not in asked
        ]
        most = some[0].account.waits.at_once if some else 0
        batch = due[: max(most - (len(some) - len(due)), 0)]
        map_concurrently(lambda one: self._delete(one, stuck), batch, at_once=self.at_once)
        asked.update({_key(one): time.monotonic() for one in batch})

    def _await(
        self, types: Sequence[ResourceType[A]], asked: dict[_Key, float], stuck: set[int]
    ) -> None:
        """Wait for slow deletions; they fail without progress for a while."""
        changed, before = time.monotonic(), 0
        while left := self._there(types):
            if len(left) != before:
                changed, before = time.monotonic(), len(left)
            account, unchanged_s = left[0].account, time.monotonic() - changed
            account.wait(account.waits.pause_for(min(before, account.waits.at_once), unchanged_s))
            self._look_at(left)
            left = self._there(types)
            if time.monotonic() > changed + account.waits.no_progress_s:
                for one in left:
                    self._fail(_stays(one, "does not go away"), one)
            else:
                self._ask(left, asked, stuck)

    def _look_at(self, some: Sequence[Found[A]]) -> None:
        """Check which are deleted by now, in one call an account and run."""
        groups: dict[tuple[int, str, str], list[Found[A]]] = defaultdict(list)
        for one in some:
            groups[id(one.account), one.kind, one.mark.run].append(one)
        for group in groups.values():
            try:
                there = self.types[group[0].kind].still_there(group[0].account, group)
            except ProviderError as error:
                for one in group:
                    self._fail(error, one)
                continue
            for one in group:
                if one.id not in there:
                    self._done(one)
                elif (why := there[one.id]) is not None:
                    self._fail(_stays(one, why), one)

    def _delete(self, found: Found[A], stuck: set[int]) -> None:
        """Delete one resource; of a slow type this only starts it."""
        errors = found.account.errors
        # Where something failed to go, what it uses stays in use: asking again takes only time.
        again = errors.is_transient if id(found.account) in stuck else errors.is_in_use
        try:
            self.types[found.kind].remove(found, again)
        except OsmefError as error:
            self._fail(error, found)
            return
        if not self.types[found.kind].is_slow:
            self._done(found)

    def _fail(self, error: OsmefError, found: Found[A]) -> None:
        with self._lock:
            self._failed.add(_key(found))
        self._note(error, found.account)

    def _note(self, error: OsmefError, account: A) -> None:
        self._explain(error, account)
        with self._lock:
            self._stuck.add(id(account))
            self._failures.append(error)

    def _explain(self, error: OsmefError, account: A) -> None:
        if error.cure in {None, account.errors.cure_of(Meaning.OTHER)}:
            error.cure = f"{account.look_at}, then: osmef reap --provider {account.provider}"

    def _done(self, found: Found[A]) -> None:
        with self._lock:
            _, resource = self._left.pop(_key(found))
            if not any(other is resource for _, other in self._left.values()):
                self.gone(resource)

    def finish(self) -> None:
        """Raise the first failure."""
        for error in (*self._early, *self._failures):
            raise error


def _key(found: Found[A]) -> _Key:
    return id(found.account), found.kind, found.id


def _stays(found: Found[A], why: str) -> ProviderError:
    return ProviderError(f"the {found.kind} {found.name} {why}", where=found.account.name)
