"""Resource types of Compute Engine: services, creation and listing."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.cloud import compute_v1

from osmef.providers import marks
from osmef.providers.base import Resource, Unread, ignore_unreadable
from osmef.providers.cloud import resource_types
from osmef.providers.cloud.resource_types import Found
from osmef.providers.gce.access import Project
from osmef.providers.marks import PREFIX

_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_NAME_LENGTH = 63
_LABEL_LENGTH = 63


@dataclass(frozen=True)
class Mark(marks.Mark):
    """The mark, also as labels and in names.

    Networks, firewalls and policies have no labels, and labels no upper case: the mark is in
    the description, which all of them have. Labels repeat it for lists and bills.
    """

    @property
    def labels(self) -> dict[str, str]:
        """The mark as labels: lower case, of at most 63 characters."""
        return {key: _lower(value)[-_LABEL_LENGTH:] for key, value in self.tags.items()}

    def name(self, what: str) -> str:
        """Return the name of a resource of the run, of 63 characters at most (RFC 1035).

        Runs differ in the ends of their names.
        """
        own = self.at_site(what)
        length = _NAME_LENGTH - len(PREFIX) - len(f"-{own}")
        return f"{PREFIX}{_lower(self.run)[-length:].strip('-')}-{own}"


def _lower(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower())


_OURS = f'name eq "{PREFIX}.*"'


def id_of(where: str, name: str) -> str:
    """Return the id of a zonal or regional resource; of a global one it is the name."""
    return f"{where}/{name}" if where else name


@dataclass(frozen=True)
class ResourceType(resource_types.ResourceType[Project]):
    """A type by its service, and fields of a request.

    ``scope`` is "zone", "region", or "" for what is global.
    """

    service: type
    field: str
    scope: str

    def has(self, resource: Resource) -> bool:
        """Return whether its id, if any, has the form that ``id_of`` gives for this type."""
        parts = () if resource.id is None else resource.id.split("/")
        return not parts or (all(parts) and len(parts) == (2 if self.scope else 1))

    def location_fields(self, where: str) -> dict[str, str]:
        """Return the location fields of a request."""
        return {self.scope: where} if self.scope else {}

    def request(self, mark: Mark, name: str, **body: Any) -> dict[str, Any]:
        """Return the request to create one, given by ``body``, in a zone or region ``where``.

        It has an id, so that what it asks for comes about once, after a lost answer, too.
        """
        one = body["body"]
        one.name, one.description = name, mark.text
        fields = {f"{self.field}_resource": one, "request_id": str(uuid.uuid4())}
        return fields | self.location_fields(body.get("where", ""))

    def create(self, account: Project, name: str, request: Mapping[str, Any]) -> str:
        """Create one, wait for it, and return its id. Raises as the SDK, ProviderError."""
        account.change(f"making the {self.name} {name}", self.service, "insert_unary", **request)
        return self._id(name, request)

    def find(
        self, account: Project, mark: Mark, name: str, request: Mapping[str, Any]
    ) -> str | None:
        """Return the id of what a request has created. Raises ProviderError."""
        id_ = self._id(name, request)
        there = self.look(account, id_)
        return id_ if there is not None and there.mark == mark else None

    def _id(self, name: str, request: Mapping[str, Any]) -> str:
        return id_of(request.get(self.scope, ""), name)

    def look(self, account: Project, id_: str) -> Found[Project] | None:
        """Find a resource of ours. Raises ProviderError."""
        where, _, name = id_.rpartition("/")
        doing = f"looking for the {self.name} {name}"
        found = account.find(
            doing, self.service, **{self.field: name}, **self.location_fields(where)
        )
        return None if found is None else self._found(account, where, found)

    def owned(
        self, account: Project, run: str | None, unread: Unread = ignore_unreadable
    ) -> list[Found[Project]]:
        """List marked resources, of one run or all. Raises ProviderError."""
        found = [self._found(account, where, one, unread) for where, one in self._there(account)]
        return [one for one in found if one and run in {None, one.mark.run}]

    def delete(self, found: Found[Project]) -> None:
        """Delete one, and wait for its end. Raises as the SDK, ProviderError."""
        where, doing = found.id.rpartition("/")[0], f"deleting the {self.name} {found.name}"
        named = {self.field: found.name, **self.location_fields(where)}
        found.account.change(doing, self.service, "delete_unary", **named)

    def _found(
        self, project: Project, where: str, one: Any, unread: Unread = ignore_unreadable
    ) -> Found[Project] | None:
        name = str(one.name)
        what = f"project {project.id}: {self.name} {name}"
        mark = Mark.of_listed_text(one.description, what, unread)
        return Found(self.name, id_of(where, name), name, mark, project) if mark else None

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


TYPES = {
    one.name: one
    for one in (
        ResourceType("instance", 0, compute_v1.InstancesClient, "instance", "zone"),
        ResourceType("disk", 1, compute_v1.DisksClient, "disk", "zone"),
        ResourceType("policy", 1, compute_v1.ResourcePoliciesClient, "resource_policy", "region"),
        ResourceType("firewall", 1, compute_v1.FirewallsClient, "firewall", ""),
        ResourceType("subnet", 1, compute_v1.SubnetworksClient, "subnetwork", "region"),
        ResourceType("network", 2, compute_v1.NetworksClient, "network", ""),
    )
}
"""By name."""


Maker = resource_types.Maker[Project, Mark]
