"""A cloud in memory whose things are either marked as ours or somebody else's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from osmef.errors import ApiError, CredentialsError, ReachError
from osmef.providers.base import Access, Resource, Unread, ignore_unreadable
from osmef.providers.local.provider import LocalProvider

DOWN = "down"
"""The name of a place that can't be reached."""


@dataclass
class Site:
    """One place of the cloud: names of things, and the mark of those that are ours."""

    things: dict[str, Resource | None] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)


class MemoryCloud(LocalProvider):
    """Named by ``cloud``; without a name there are no credentials."""

    kind = "memory"
    found_by = frozenset({"cloud"})
    sites: ClassVar[dict[str, Site]] = {}
    unreadable: ClassVar[list[str]] = []
    calls: ClassVar[list[tuple[str, tuple[str, ...]]]] = []

    @classmethod
    def owned(
        cls, access: Access, run: str | None = None, unread: Unread = ignore_unreadable
    ) -> list[Resource]:
        if access.get("cloud") == DOWN:
            raise ReachError("no route", where=DOWN, cure="start it")
        if access.get("cloud") not in cls.sites:
            raise CredentialsError("no credentials", cure="name a cloud")
        for line in cls.unreadable:
            unread(line)
        marked = (mark for mark in cls.sites[access["cloud"]].things.values() if mark is not None)
        return [mark for mark in marked if run in {None, mark.run}]

    @classmethod
    def recognises(cls, resource: Resource) -> bool:
        return resource.kind == "vm"

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        cls.calls.append((resources[0].access["cloud"], tuple(one.name for one in resources)))
        failed = False
        for resource in resources:
            site = cls.sites[resource.access["cloud"]]
            mark = site.things.get(resource.name)
            if resource.name in site.stuck:
                failed = True
                continue
            if mark is not None and mark.run == resource.run:
                del site.things[resource.name]
            gone(resource)
        if failed:
            raise ApiError("the cloud does not let it go", cure="try again")


def thing(
    name: str,
    run: str,
    cloud: str = "lab",
    *,
    made: float | None = None,
    deadline: float | None = None,
) -> Resource:
    """Return a thing that carries the mark of a run."""
    times = (deadline, made)
    return Resource("memory", "vm", name, run, f"id-{name}", *times, access={"cloud": cloud})
