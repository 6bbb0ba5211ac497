"""Take away what is ours, in the order that it needs, side by side, and nothing else."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from osmef.errors import OsmefError, ProviderError
from osmef.providers.aws import failures
from osmef.providers.aws.access import Account
from osmef.providers.aws.kinds import KINDS, PROVIDER, Thing
from osmef.providers.base import Resource, Unread, pass_over
from osmef.providers.parallel import side_by_side

_STAGES = (
    ("instance", "key-pair"),  # and until the instances are gone
    ("network-interface",),
    ("security-group", "subnet", "placement-group", "dedicated-host", "internet-gateway"),
    ("vpc",),
)
_GONE_S = 300.0

Gone = Callable[[Resource], None]


def owned(accounts: Iterable[Account], run: str | None, unread: Unread = pass_over) -> list[Thing]:
    """List what carries our mark in these accounts, of one run or all. Raises ProviderError."""
    lists = [(account, kind) for account in accounts for kind in KINDS.values()]
    found = side_by_side(lambda one: one[1].owned(one[0], run, unread), lists)
    return [thing for some in found for thing in some]


def remove(resources: Sequence[tuple[Resource, Account]], gone: Gone) -> None:
    """Destroy resources, each in its account.

    ``gone`` is called for each as soon as it is gone. What does not carry our mark is not touched,
    and counts as gone. Goes on after a failure, and raises the first at the end.
    """
    removal = _Removal(gone)
    removal.find(resources, again=False)
    for number, stage in enumerate(_STAGES):
        if number == 1:
            removal.await_instances()
            if removal.unseen:
                account = removal.unseen[0][1]
                account.patience.wait(account.waits.late_s)
                removal.find(list(removal.unseen), again=True)
                removal.delete_all(_STAGES[0])
                removal.await_instances()
        removal.delete_all(stage)
    removal.finish()


@dataclass
class _Removal:
    """What is to be removed: each thing that exists, and the resource that it was known as."""

    gone: Gone
    unseen: list[tuple[Resource, Account]] = field(default_factory=list)
    """What was not found at the first look, as EC2's lists and looks lag behind."""
    _left: dict[tuple[str, str], tuple[Thing, Resource]] = field(default_factory=dict)
    _failures: list[ProviderError] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, resources: Sequence[tuple[Resource, Account]], *, again: bool) -> None:
        """Look which of the resources exist and carry our mark; others are looked for ``again``."""
        lists: dict[tuple[int, str], list[tuple[Resource, Account]]] = defaultdict(list)
        for one in resources:
            lists[id(one[1]), one[0].kind].append(one)
        side_by_side(lambda ones: self._find(ones, again=again), lists.values())

    def _find(self, ones: Sequence[tuple[Resource, Account]], *, again: bool) -> None:
        account, kind = ones[0][1], ones[0][0].kind
        runs = {resource.run for resource, _account in ones}
        try:
            things = KINDS[kind].owned(account, runs.pop() if len(runs) == 1 else None)
            for resource, _account in ones:
                self._sort(resource, account, things, again=again)
        except ProviderError as error:
            self._failures.append(error)

    def _sort(
        self, resource: Resource, account: Account, things: Sequence[Thing], *, again: bool
    ) -> None:
        # A lost answer may have left two of one name.
        same = [thing for thing in things if thing.id == resource.id or thing.name == resource.name]
        if resource.id is not None and resource.id not in {thing.id for thing in same}:
            thing = KINDS[resource.kind].look(account, resource.id)
            same += [] if thing is None else [thing]
        same = [thing for thing in same if thing.mark.run == resource.run]
        with self._lock:
            for thing in same:
                self._left[thing.kind, thing.id] = (thing, resource)
            if not same and not again:
                self.unseen.append((resource, account))
            elif not same:
                self.gone(resource)

    def _there(self, kinds: Sequence[str]) -> list[Thing]:
        return [thing for thing, _resource in self._left.values() if thing.kind in kinds]

    def delete_all(self, kinds: Sequence[str]) -> None:
        """Delete what is there of these kinds."""
        side_by_side(self._delete, self._there(kinds))

    def _delete(self, thing: Thing) -> None:
        try:
            KINDS[thing.kind].remove(thing)
        except OsmefError as error:
            self._fail(error, thing)
            return
        if thing.kind != "instance":
            self._done(thing)

    def await_instances(self) -> None:
        """Wait until all instances are gone, looking at all of an account in one call."""
        end = time.monotonic() + _GONE_S
        pauses = 0.5  # and two from the second on: most are gone soon, or take long
        while instances := self._there(["instance"]):
            by_account: dict[int, list[Thing]] = defaultdict(list)
            for instance in instances:
                by_account[id(instance.account)].append(instance)
            for group in by_account.values():
                self._look_at(group)
            if time.monotonic() > end:
                for thing in self._there(["instance"]):
                    self._fail(ProviderError("the instance does not go away", cure=_CURE), thing)
                return
            if self._there(["instance"]):
                account = instances[0].account
                account.patience.wait(pauses * account.waits.look_s)
                pauses = 2.0

    def _look_at(self, instances: Sequence[Thing]) -> None:
        kind, account = KINDS["instance"], instances[0].account
        try:
            listed = {thing.id for thing in kind.owned(account, None)}
            missed = [one for one in instances if one.id not in listed]
            for instance in missed:
                if kind.look(account, instance.id) is None:
                    self._done(instance)
        except ProviderError as error:
            for instance in instances:
                if (instance.kind, instance.id) in self._left:
                    self._fail(error, instance)

    def _fail(self, error: OsmefError, thing: Thing) -> None:
        cure = _CURE if error.cure in {None, failures.USUAL_CURE} else error.cure
        if cure != error.cure or not isinstance(error, ProviderError):
            error = ProviderError(error.message, where=error.where, cure=cure)
        with self._lock:
            self._failures.append(error)
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


_CURE = f"look at it in the EC2 console, then: osmef reap --provider {PROVIDER}"
