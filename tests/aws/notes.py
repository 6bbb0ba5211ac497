"""A ledger in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from osmef.providers.base import Resource


@dataclass
class Notes:
    """What was asked for and is not gone yet, by kind and name, and what was made."""

    there: set[tuple[str, str]] = field(default_factory=set)
    made: list[Resource] = field(default_factory=list)

    def intend(self, resource: Resource) -> None:
        """Note that the resource is about to be made."""
        self.there.add((resource.kind, resource.name))

    def created(self, resource: Resource) -> None:
        """Note that the resource exists, with its id."""
        assert resource.id is not None
        self.made.append(resource)

    def destroyed(self, resource: Resource) -> None:
        """Note that the resource is gone."""
        self.there.discard((resource.kind, resource.name))
