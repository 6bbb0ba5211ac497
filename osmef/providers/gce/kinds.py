"""The kinds of things that a run makes: how the API calls them, and how to list those of ours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from google.cloud import compute_v1

from osmef.errors import NotFoundError
from osmef.providers.base import Resource, Unread, pass_over
from osmef.providers.gce.access import Project
from osmef.providers.gce.marks import Mark, of_text
from osmef.providers.marks import PREFIX, is_like_ours, unread_line

PROVIDER = "gce"
_OURS = f'name eq "{PREFIX}.*"'


@dataclass(frozen=True)
class Thing:
    """Something of ours that exists: its kind and name, its zone or region, and its mark."""

    kind: str
    name: str
    where: str
    mark: Mark
    project: Project

    @property
    def id(self) -> str:
        """What tells it from all others of its kind in the project."""
        return id_of(self.where, self.name)

    @property
    def resource(self) -> Resource:
        """The same, as the engine knows it."""
        return self.mark.resource(PROVIDER, self.kind, self.name, self.project.access, self.id)


def id_of(where: str, name: str) -> str:
    """Return the id of a thing in a zone or region; of a global one it is the name."""
    return f"{where}/{name}" if where else name


@dataclass(frozen=True)
class Kind:
    """How the API calls a kind: service, and fields of a request.

    ``scope`` is "zone", "region", or "" for what is global.
    """

    name: str
    service: type
    field: str
    scope: str

    def has_id(self, id_: str) -> bool:
        """Tell whether an id is one as ``id_of`` makes it for this kind."""
        parts = id_.split("/")
        return all(parts) and len(parts) == (2 if self.scope else 1)

    def place(self, where: str) -> dict[str, str]:
        """Return the fields of a request that say where."""
        return {self.scope: where} if self.scope else {}

    def find(self, project: Project, where: str, name: str) -> Thing | None:
        """Look for a thing of ours. Raises ProviderError."""
        doing = f"looking for the {self.name} {name}"
        named = {self.field: name, **self.place(where)}
        try:
            found = project.ask(doing, self.service, "get", **named)
        except NotFoundError:
            return None
        return self._thing(project, where, found)

    def owned(self, project: Project, run: str | None, unread: Unread = pass_over) -> list[Thing]:
        """List those that carry our mark, of one run or all. Raises ProviderError."""
        found = [self._thing(project, where, one, unread) for where, one in self._there(project)]
        return [thing for thing in found if thing and run in {None, thing.mark.run}]

    def _thing(
        self, project: Project, where: str, one: Any, unread: Unread = pass_over
    ) -> Thing | None:
        mark = of_text(one.description)
        if mark is None and is_like_ours(one.description):
            unread(unread_line(f"project {project.id}: {self.name} {one.name}", one.description))
        return Thing(self.name, str(one.name), where, mark, project) if mark else None

    def _there(self, project: Project) -> Iterable[tuple[str, Any]]:
        doing = f"listing {self.name}s"
        if not self.scope:
            yield from (("", one) for one in project.every(doing, self.service, filter=_OURS))
            return
        scopes = project.every(doing, self.service, "aggregated_list", filter=_OURS)
        for scope, listed in scopes:
            for one in getattr(listed, self._plural):
                yield scope.rpartition("/")[2], one

    @property
    def _plural(self) -> str:
        return f"{self.field}s" if self.field != "resource_policy" else "resource_policies"


KINDS = {
    kind.name: kind
    for kind in (
        Kind("instance", compute_v1.InstancesClient, "instance", "zone"),
        Kind("disk", compute_v1.DisksClient, "disk", "zone"),
        Kind("policy", compute_v1.ResourcePoliciesClient, "resource_policy", "region"),
        Kind("firewall", compute_v1.FirewallsClient, "firewall", ""),
        Kind("subnet", compute_v1.SubnetworksClient, "subnetwork", "region"),
        Kind("network", compute_v1.NetworksClient, "network", ""),
    )
}
"""By name, in the order in which they can go."""
