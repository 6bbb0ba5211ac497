"""The mark by which a thing in a cloud is known to be ours, from the moment it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from osmef.providers.base import Access, Order, Resource

PREFIX = "osmef-"


@dataclass(frozen=True)
class Mark:
    """The run, and the UNIX times at which it began to make things and after which it is over.

    ``site`` is the order's, and no part of what can be read.
    """

    run: str
    made: int
    deadline: int
    site: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, order: Order) -> Self:
        """Return the mark of all that is made for an order."""
        return cls(order.run, int(order.made), int(order.deadline), order.site)

    def name(self, what: str) -> str:
        """Return the name of a thing of the run."""
        return f"{PREFIX}{self.run}-{self.at_site(what)}"

    def at_site(self, what: str) -> str:
        """Return the part of a name that tells a thing from others of the run."""
        return what if self.site is None else f"s{self.site}-{what}"

    @property
    def tags(self) -> dict[str, str]:
        """The mark as tags, labels or metadata, for things that have some."""
        return {
            "osmef_run": self.run,
            "osmef_made": str(self.made),
            "osmef_deadline": str(self.deadline),
        }

    @classmethod
    def of_tags(cls, tags: Mapping[str, str] | None) -> Self | None:
        """Read the mark of tags; None if it is not one of ours."""
        values = tags or {}
        try:
            return cls(
                values["osmef_run"], int(values["osmef_made"]), int(values["osmef_deadline"])
            )
        except (KeyError, ValueError):
            return None

    def resource(
        self, provider: str, kind: str, name: str, access: Access, id_: str | None = None
    ) -> Resource:
        """Return the entry of a thing in the ledger."""
        return Resource(
            provider, kind, name, self.run, id_, float(self.deadline), float(self.made), access
        )
