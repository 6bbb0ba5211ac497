"""The kinds of things that a run makes: how to list those of ours, and how to delete one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from openstack.connection import Connection
from openstack.exceptions import ForbiddenException, NotFoundException

from osmef.errors import ProviderError
from osmef.providers.base import Resource, Unread, pass_over
from osmef.providers.marks import PREFIX, is_like_ours, unread_line
from osmef.providers.openstack import marks
from osmef.providers.openstack.access import Cloud, identity
from osmef.providers.openstack.marks import Mark

PROVIDER = "openstack"
_NONE = Mark("", 0, 0)
_DEFAULT = "default"


@dataclass(frozen=True)
class Thing:
    """Something of ours that exists: its kind, id and name, its mark, and where it is."""

    kind: str
    id: str
    name: str
    mark: Mark
    cloud: Cloud

    @property
    def resource(self) -> Resource:
        """The same, as the engine knows it."""
        return Resource(
            PROVIDER,
            self.kind,
            self.name,
            self.mark.run,
            id=self.id,
            deadline=float(self.mark.deadline),
            made=float(self.mark.made),
            access=self.cloud.access,
        )


@dataclass(frozen=True)
class Kind:
    """How to list what a project has of a kind, read its mark, and delete one of them by id.

    ``there`` is given the project's id and the run, and may leave out what can't be of that run.
    """

    name: str
    there: Callable[[Connection, str, str | None], Iterable[Any]]
    mark: Callable[[Any], Mark | None]
    delete: Callable[[Connection, str], object]
    name_of: Callable[[Any], str] = lambda thing: str(thing.name or "")

    def find(self, connection: Connection, project: str, run: str, name: str) -> Any | None:
        """Look for one of a run by its name, in the project of this id."""
        there = self.there(connection, project, run)
        found = (one for one in there if self.name_of(one) == name)
        return next((one for one in found if (self.mark(one) or _NONE).run == run), None)

    def owned(self, cloud: Cloud, run: str | None, unread: Unread = pass_over) -> list[Thing]:
        """List those that carry our mark, of one run or all. Raises ProviderError."""
        found = cloud.do(
            f"listing {self.name}s", lambda c: list(self.there(c, cloud.project_id, run))
        )
        marked = [(one, self.mark(one)) for one in found]
        for one in (one for one, mark in marked if mark is None):
            if (told := _unread_mark(one)) is not None:
                unread(unread_line(f"{cloud.name}: {self.name} {one.id}", told))
        return [
            Thing(self.name, str(one.id), self.name_of(one), mark, cloud)
            for one, mark in marked
            if mark is not None and run in {None, mark.run}
        ]


def servers_there(connection: Connection, run: str | None, **query: Any) -> Iterable[Any]:
    """List servers of a run, or of all."""
    # The name is a regular expression, matched by the service.
    return connection.compute.servers(name=f"^{re.escape(PREFIX + (run or ''))}", **query)


def servers_in(connection: Connection, run: str, status: str) -> set[str]:
    """Return the ids of a run's servers of this status. For details nova would ask neutron."""
    return {str(one.id) for one in servers_there(connection, run, details=False, status=status)}


def _delete_server(connection: Connection, server: str) -> None:
    try:
        # Else a cloud that reclaims servers later only hides it, and its ports hold the network.
        connection.compute.delete_server(server, force=True)
    except NotFoundException:
        return
    except ForbiddenException:
        connection.compute.delete_server(server, ignore_missing=True)


def _volumes(connection: Connection, _project: str, _run: str | None) -> Iterable[Any]:
    if not connection.has_service("block-storage"):
        return []
    return connection.block_storage.volumes(details=True)


def _going_servers(connection: Connection, run: str) -> dict[str, str]:
    there = servers_there(connection, run, details=False)
    return {str(one.id): "" for one in there}  # for the status nova would ask neutron


def _going_volumes(connection: Connection, run: str) -> dict[str, str]:
    return {str(one.id): str(one.status) for one in _volumes(connection, "", run)}


GOING: dict[str, Callable[[Connection, str], dict[str, str]]] = {
    "server": _going_servers,
    "volume": _going_volumes,
}
"""Of the kinds whose deletion is only asked for: what is there, by id, with its status if known."""


def _by_description(thing: Any) -> Mark | None:
    return marks.of_text(thing.description)


def _by_metadata(thing: Any) -> Mark | None:
    # A copy that somebody made of it may have its metadata, and never its name.
    mark = Mark.of_tags(thing.metadata)
    named = mark is not None and str(thing.name or "").startswith(mark.name(""))
    return mark if named else None


def _by_name(thing: Any) -> Mark | None:
    return marks.of_name(thing.name)


def _unread_mark(thing: Any) -> object | None:
    """Return what a thing says as a mark that can't be read; None if it says nothing like it."""
    tags, text = (getattr(thing, name, None) for name in ("metadata", "description"))
    if isinstance(tags, Mapping) and "osmef_run" in tags and Mark.of_tags(tags) is None:
        return {key: value for key, value in tags.items() if key.startswith("osmef_")}
    return text if is_like_ours(text) and marks.of_text(text) is None else None


def _delete_router(connection: Connection, router: str) -> None:
    network = connection.network
    ports = network.ports(device_id=router, fields=["id", "device_owner"])
    try:
        for port in ports:
            # Also the owners of distributed and of highly available routers begin so.
            if str(port.device_owner).startswith("network:router_interface"):
                network.remove_interface_from_router(router, None, port.id)
    except NotFoundException:  # somebody else removes it, too
        pass
    network.delete_router(router, ignore_missing=True)


def _projects(connection: Connection, _project: str, _run: str | None) -> Iterable[Any]:
    try:
        return list(identity(connection).projects())
    except ForbiddenException:  # only administrators may, and only they make any
        return []


def _delete_project(connection: Connection, project: str) -> None:
    groups = list(connection.network.security_groups(project_id=project))
    foreign = next((g for g in groups if g.name != _DEFAULT and _by_description(g) is None), None)
    if foreign is not None:
        raise ProviderError(
            f"the project holds a security group that is not ours, {foreign.name}",
            cure="find out whose it is, remove it, and then: osmef reap --provider openstack",
        )
    # Neutron made this group by itself with the first network, and nobody would remove it.
    for group in groups:
        connection.network.delete_security_group(group.id, ignore_missing=True)
    identity(connection).delete_project(project, ignore_missing=True)


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "server", lambda c, _project, run: servers_there(c, run), _by_metadata, _delete_server
        ),
        Kind(
            "floating-ip",
            lambda c, project, _run: c.network.ips(project_id=project),
            _by_description,
            lambda c, one: c.network.delete_ip(one, ignore_missing=True),
            lambda ip: marks.name_in_text(ip.description),
        ),
        Kind(
            "key-pair",
            lambda c, _project, _run: c.compute.keypairs(),
            _by_name,
            lambda c, one: c.compute.delete_keypair(one, ignore_missing=True),
        ),
        Kind(
            "server-group",
            lambda c, _project, _run: c.compute.server_groups(),
            _by_name,
            lambda c, one: c.compute.delete_server_group(one, ignore_missing=True),
        ),
        Kind(
            "router",
            lambda c, project, _run: c.network.routers(project_id=project),
            _by_description,
            _delete_router,
        ),
        Kind(
            "security-group",
            lambda c, project, _run: c.network.security_groups(
                project_id=project, fields=["id", "name", "description"]
            ),
            _by_description,
            lambda c, one: c.network.delete_security_group(one, ignore_missing=True),
        ),
        Kind(
            "network",
            lambda c, project, _run: c.network.networks(project_id=project),
            _by_description,
            lambda c, one: c.network.delete_network(one, ignore_missing=True),
        ),
        Kind(
            "volume",
            _volumes,
            _by_metadata,
            lambda c, one: c.block_storage.delete_volume(one, ignore_missing=True),
        ),
        Kind("project", _projects, _by_description, _delete_project),
    )
}
"""By name. Of the projects, those that the cloud's user may list."""
