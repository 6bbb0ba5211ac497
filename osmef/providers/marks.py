"""The mark of our resources in a cloud, set in the request that creates them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from osmef.providers.base import Access, Resource, RunContext, Unread
from osmef.units import parse_count

PREFIX = "osmef-"
# The name of a directory (path_resolution(7)), without what a terminal would act on.
_RUN = re.compile(r"[^/\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,255}")
_TEXT = re.compile(r"osmef run=([A-Za-z0-9-]+) made=(\S+) deadline=(\S+)(?: name=(\S+))?")
_SHOWN = 200
_LATEST = 10**11 - 1
"""The latest time that a mark can name, in the year 5138."""


@dataclass(frozen=True)
class Mark:
    """The run, and the UNIX times of its start and its deadline.

    ``site`` is that of the run context, and no part of what can be read back.
    """

    run: str
    made: int
    deadline: int
    site: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, context: RunContext) -> Self:
        """Return the mark of a run's resources."""
        return cls(context.run, int(context.made), int(context.deadline), context.site)

    def name(self, what: str) -> str:
        """Return the name of a resource of the run."""
        return f"{PREFIX}{self.run}-{self.at_site(what)}"

    def at_site(self, what: str) -> str:
        """Return the part of a name that names the site."""
        return what if self.site is None else f"s{self.site}-{what}"

    @property
    def tags(self) -> dict[str, str]:
        """The mark as tags, labels or metadata."""
        return {
            "osmef_run": self.run,
            "osmef_made": str(self.made),
            "osmef_deadline": str(self.deadline),
        }

    @property
    def text(self) -> str:
        """The mark as a description."""
        return f"osmef run={self.run} made={self.made} deadline={self.deadline}"

    def text_with(self, name: str) -> str:
        """Return the mark as a description with a name, for resources without names."""
        return f"{self.text} name={name}"

    @classmethod
    def of_text(cls, description: object) -> Self | None:
        """Parse a mark from a description; None if it is none of ours."""
        found = _TEXT.fullmatch(description) if isinstance(description, str) else None
        return None if found is None else cls.read(*found.groups()[:3])

    @classmethod
    def of_listed_text(cls, description: object, what: str, unread: Unread) -> Self | None:
        """Parse a mark from a listed resource's description, as ``of_listed`` does from tags."""
        mark = cls.of_text(description)
        if mark is None and is_like_ours(description):
            unread(unread_line(what, description))
        return mark

    @classmethod
    def read(cls, run: object, made: object, deadline: object) -> Self | None:
        """Parse a mark from its parts, which are untrusted; None if it is incomplete."""
        first, last = parse_count(made), parse_count(deadline)
        if not isinstance(run, str) or _RUN.fullmatch(run) is None:
            return None
        if first is None or last is None or max(first, last) > _LATEST:
            return None
        return cls(run, first, last)

    @classmethod
    def of_tags(cls, tags: Mapping[str, object] | None) -> Self | None:
        """Parse a mark from tags; None if it is none of ours."""
        values = tags or {}
        return cls.read(*(values.get(f"osmef_{key}") for key in ("run", "made", "deadline")))

    @classmethod
    def of_listed(cls, tags: Mapping[str, object] | None, what: str, unread: Unread) -> Self | None:
        """Parse a mark from a listed resource's tags; an unreadable one is passed to ``unread``."""
        mark = cls.of_tags(tags)
        if mark is None and tags and "osmef_run" in tags:
            reported = {key: value for key, value in tags.items() if key.startswith("osmef_")}
            unread(unread_line(what, reported))
        return mark

    def resource(
        self, provider: str, kind: str, name: str, access: Access, id_: str | None = None
    ) -> Resource:
        """Return the ledger's entry of a resource."""
        return Resource(
            provider, kind, name, self.run, id_, float(self.deadline), float(self.made), access
        )


def name_in_text(description: object) -> str:
    """Return the name in a description, for resources without names; else nothing."""
    found = _TEXT.fullmatch(description) if isinstance(description, str) else None
    return (found[4] if found else None) or ""


def is_like_ours(description: object) -> bool:
    """Return whether a description begins as a mark does."""
    return isinstance(description, str) and description.startswith("osmef run=")


def unread_line(what: str, reported: object) -> str:
    """Describe a resource that has an unreadable mark."""
    return f"{what}: its mark can't be read: {ascii(reported)[:_SHOWN]}"
