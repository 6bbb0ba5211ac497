"""Resource types of OpenStack: listing by mark, creation and deletion."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar, cast

from openstack.connection import Connection
from openstack.exceptions import ForbiddenException, NotFoundException

from osmef.errors import ProviderError
from osmef.providers import marks
from osmef.providers.base import Unread, pass_over
from osmef.providers.cloud import maker, resource_types
from osmef.providers.cloud.maker import Creation
from osmef.providers.cloud.resource_types import Found
from osmef.providers.marks import PREFIX, is_like_ours, name_in_text, unread_line
from osmef.providers.openstack.access import Cloud, identity
from osmef.remote.login import SSH_PORT
from osmef.scenario.fields import DATA_PORTS

T = TypeVar("T")

_DEFAULT = "default"
_ERROR = "error_deleting"
"""How the status of a volume begins that will never go."""

_NAME = re.compile(r"osmef-([A-Za-z0-9-]+)-(?:key|group)-[0-9]+(?:s[0-9]+)?-([0-9]+)-([0-9]+)")

Listing = Callable[[Connection, str, str | None], Iterable[Any]]
"""Lists what a project, given by its id, has of a type; may leave out what is not of a run."""


@dataclass(frozen=True)
class Mark(marks.Mark):
    """The mark, also as the name of resources without tags."""

    def whole_name(self, what: str) -> str:
        """Return the name of a key pair ("key-1") or server group ("group-1"), which is its mark.

        Key pairs are a user's, whose two sites may be two projects.
        """
        at = "" if self.site is None else f"s{self.site}"
        return f"{PREFIX}{self.run}-{what}{at}-{self.made}-{self.deadline}"

    @classmethod
    def of_name(cls, name: object) -> Self | None:
        """Parse the mark in the name of a key pair or server group; None if it is not ours."""
        found = _NAME.fullmatch(name) if isinstance(name, str) else None
        return cls.read(*found.groups()) if found else None


@dataclass(frozen=True)
class ResourceType(resource_types.ResourceType[Cloud]):
    """A type by how to list it, parse a mark, and delete one by its id.

    ``going`` returns the ids of what is there of a run, with their statuses if known.
    """

    there: Listing
    mark_of: Callable[[Any], Mark | None]
    deletes: Callable[[Connection, str], object]
    name_of: Callable[[Any], str] = lambda thing: str(thing.name or "")
    going: Callable[[Connection, str], dict[str, str]] = lambda _connection, _run: {}

    def find(self, connection: Connection, project: str, run: str, name: str) -> Any | None:
        """Find a run's resource by name, in the project of this id. Raises as the SDK."""
        for one in self.there(connection, project, run):
            mark = self.mark_of(one)
            if self.name_of(one) == name and mark is not None and mark.run == run:
                return one
        return None

    def owned(
        self, account: Cloud, run: str | None, unread: Unread = pass_over
    ) -> list[Found[Cloud]]:
        """List marked resources, of one run or all. Raises ProviderError."""
        there = account.ask(f"listing {self.name}s", lambda c: list(self.there(c, account.id, run)))
        marked = [(one, self.mark_of(one)) for one in there]
        for one in (one for one, mark in marked if mark is None):
            if (told := _unread_mark(one)) is not None:
                unread(unread_line(f"{account.name}: {self.name} {one.id}", told))
        return [
            Found(self.name, str(one.id), self.name_of(one), mark, account)
            for one, mark in marked
            if mark is not None and run in {None, mark.run}
        ]

    def delete(self, found: Found[Cloud]) -> None:
        """Delete one; of a server or a volume this only starts it. Raises as the SDK."""
        found.account.connected(lambda c: self.deletes(c, found.id))

    def still_there(
        self, account: Cloud, some: Collection[Found[Cloud]]
    ) -> Mapping[str, str | None]:
        """Return the ids of a run's remaining ones, each with the error that keeps it."""
        run = next(iter(some)).mark.run
        there = account.ask(f"listing {self.name}s", lambda c: self.going(c, run))
        return {
            id_: f"was not deleted: its status is {status}" if status.startswith(_ERROR) else None
            for id_, status in there.items()
        }


def servers_there(connection: Connection, run: str | None, **query: Any) -> Iterable[Any]:
    """List servers of a run, or of all."""
    # The name is a regular expression, matched by the service.
    return connection.compute.servers(name=f"^{re.escape(PREFIX + (run or ''))}", **query)


def servers_in(connection: Connection, run: str, status: str) -> set[str]:
    """Return the ids of a run's servers of this status, without details, for speed."""
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


def _by_description(thing: Any) -> Mark | None:
    return Mark.of_text(thing.description)


def _by_metadata(thing: Any) -> Mark | None:
    # A copy that somebody made of it may have its metadata, and never its name.
    mark = Mark.of_tags(thing.metadata)
    named = mark is not None and str(thing.name or "").startswith(mark.name(""))
    return mark if named else None


def _by_name(thing: Any) -> Mark | None:
    return Mark.of_name(thing.name)


def _unread_mark(thing: Any) -> object | None:
    """Return the text of an unreadable mark; None if there is none like ours."""
    tags, text = (getattr(thing, name, None) for name in ("metadata", "description"))
    if isinstance(tags, Mapping) and "osmef_run" in tags and Mark.of_tags(tags) is None:
        return {key: value for key, value in tags.items() if key.startswith("osmef_")}
    return text if is_like_ours(text) and Mark.of_text(text) is None else None


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
            cure="find out who owns it, remove it, and then: osmef reap --provider openstack",
        )
    # Neutron made this group by itself with the first network, and nobody would remove it.
    for group in groups:
        connection.network.delete_security_group(group.id, ignore_missing=True)
    identity(connection).delete_project(project, ignore_missing=True)


TYPES = {
    one.name: one
    for one in (
        ResourceType(
            *("server", 0, lambda c, _project, run: servers_there(c, run), _by_metadata),
            _delete_server,
            going=_going_servers,
            is_slow=True,
        ),
        ResourceType(
            *("key-pair", 0, lambda c, _project, _run: c.compute.keypairs(), _by_name),
            lambda c, one: c.compute.delete_keypair(one, ignore_missing=True),
        ),
        ResourceType(
            *("server-group", 0, lambda c, _project, _run: c.compute.server_groups(), _by_name),
            lambda c, one: c.compute.delete_server_group(one, ignore_missing=True),
        ),
        # Those of servers that run would make nova read anew what neutron has for each of them,
        # and change the router, which takes only one change at a time.
        ResourceType(
            "floating-ip",
            1,
            lambda c, project, _run: c.network.ips(project_id=project),
            _by_description,
            lambda c, one: c.network.delete_ip(one, ignore_missing=True),
            lambda ip: name_in_text(ip.description),
        ),
        ResourceType(
            "router",
            2,
            lambda c, project, _run: c.network.routers(project_id=project),
            _by_description,
            _delete_router,
        ),
        ResourceType(
            "security-group",
            3,
            lambda c, project, _run: c.network.security_groups(
                project_id=project, fields=["id", "name", "description"]
            ),
            _by_description,
            lambda c, one: c.network.delete_security_group(one, ignore_missing=True),
        ),
        ResourceType(
            "network",
            3,
            lambda c, project, _run: c.network.networks(project_id=project),
            _by_description,
            lambda c, one: c.network.delete_network(one, ignore_missing=True),
        ),
        ResourceType(
            *("volume", 3, _volumes, _by_metadata),
            lambda c, one: c.block_storage.delete_volume(one, ignore_missing=True),
            going=_going_volumes,
            is_slow=True,
        ),
        # What is left in it could not be reached any more.
        ResourceType("project", 4, _projects, _by_description, _delete_project, is_last=True),
    )
}
"""By name. Of the projects, those that the cloud's user may list."""


_DATA = (DATA_PORTS.start, DATA_PORTS.stop - 1)


@dataclass(frozen=True)
class Rule:
    """Ingress of a security group: a protocol and its ports, from a block or from the group."""

    protocol: str
    ports: tuple[int, int]
    source: str | None

    def attributes(self, group: str) -> dict[str, Any]:
        """Return the rule as neutron takes it; without a source it is for the group's own."""
        remote = {"remote_ip_prefix": self.source} if self.source else {"remote_group_id": group}
        return {
            "security_group_id": group,
            "direction": "ingress",
            "ethertype": "IPv4",
            "protocol": self.protocol,
            "port_range_min": self.ports[0],
            "port_range_max": self.ports[1],
            **remote,
        }

    @classmethod
    def of(cls, rule: Any) -> Rule:
        """Return neutron's rule as an ingress rule."""
        ports = (rule.port_range_min, rule.port_range_max)
        return cls(str(rule.protocol), ports, rule.remote_ip_prefix)


def rules_for(controllers: Iterable[str], peers: Iterable[str]) -> list[Rule]:
    """Return the rules of a group: SSH from the controller, data from each other and from peers.

    Both are blocks of addresses; peers are the servers of other projects.
    """
    ssh = [Rule("tcp", (SSH_PORT, SSH_PORT), block) for block in sorted(set(controllers))]
    sources = [None, *sorted(set(peers))]
    return ssh + [Rule(protocol, _DATA, s) for protocol in ("tcp", "udp") for s in sources]


class Maker(maker.Maker[Cloud, Mark]):
    """Creates the resources of a run. Thread-safe."""

    def make(self, cloud: Cloud, kind: str, name: str, call: Callable[[Connection], T]) -> T:
        """Create one of this name; ``call`` gets the run's mark. Raises ProviderError."""

        def find(connection: Connection) -> T | None:
            found = TYPES[kind].find(connection, cloud.id, self.mark.run, name)
            return cast("T | None", found)

        wanted = Creation(
            kind,
            name,
            lambda: cloud.connected(call),
            lambda: cloud.connected(find),
            lambda made: str(getattr(made, "id", "")),
        )
        return self.create(cloud, wanted)
