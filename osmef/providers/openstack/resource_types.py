"""Resource types of OpenStack: listing by mark, creation and deletion."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

from openstack.connection import Connection
from openstack.exceptions import ForbiddenException, NotFoundException

from osmef.errors import ProviderError
from osmef.providers import marks
from osmef.providers.base import Unread, ignore_unreadable
from osmef.providers.cloud import resource_types
from osmef.providers.cloud.resource_types import Found
from osmef.providers.marks import PREFIX, name_in_text
from osmef.providers.openstack.access import Cloud
from osmef.remote.login import SSH_PORT
from osmef.scenario.fields import DATA_PORTS

_DEFAULT = "default"
_ERROR = "error_deleting"
"""How the status of a volume begins that will never go."""

_NAME = re.compile(r"osmef-([A-Za-z0-9-]+)-(?:key|group)-[0-9]+(?:s[0-9]+)?-([0-9]+)-([0-9]+)")


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
    """A type by the SDK's names of its service and of itself.

    ``carrier`` is what holds the mark, ``query`` what a list is asked for beside the project.
    """

    service: str
    noun: str
    carrier: Literal["description", "metadata", "name"] = "description"
    query: Mapping[str, Any] = field(default_factory=dict)

    def proxy(self, connection: Connection) -> Any:
        """Return its service."""
        return getattr(connection, self.service)

    def list_all(self, connection: Connection, project: str, run: str | None) -> Iterable[Any]:  # noqa: ARG002
        """List what a project, given by its id, has of the type; maybe only what is of a run."""
        query = {"project_id": project, **self.query} if self.service == "network" else self.query
        return cast("Iterable[Any]", getattr(self.proxy(connection), f"{self.noun}s")(**query))

    def mark_of(
        self, thing: Any, what: str = "", unread: Unread = ignore_unreadable
    ) -> Mark | None:
        """Parse the mark of one called ``what``; ``unread`` is called if it can't be read."""
        if self.carrier == "name":
            return Mark.of_name(thing.name)
        if self.carrier == "description":
            return Mark.of_listed_text(thing.description, what, unread)
        # A user's copy of it may have its metadata, and never its name.
        mark = Mark.of_listed(thing.metadata, what, unread)
        named = mark is not None and str(thing.name or "").startswith(mark.name(""))
        return mark if named else None

    def name_of(self, thing: Any) -> str:
        """Return the name that one was made by."""
        return str(thing.name or "")

    def marked(self, mark: Mark, name: str) -> dict[str, Any]:
        """Return the name and the mark as the attributes of a creation request."""
        marks_: dict[str, Any] = {"description": mark.text, "metadata": mark.tags}
        return {"name": name} | {k: v for k, v in marks_.items() if k == self.carrier}

    def request(self, mark: Mark, name: str, **body: Any) -> dict[str, Any]:
        """Return the request to create one of this name."""
        return {**self.marked(mark, name), **body}

    def create(self, account: Cloud, name: str, request: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """Create one. Raises as the SDK."""
        create = f"create_{self.noun}"
        return account.connected(lambda c: getattr(self.proxy(c), create)(**request))

    def find(
        self,
        account: Cloud,
        mark: Mark,
        name: str,
        request: Mapping[str, Any],  # noqa: ARG002
    ) -> Any | None:
        """Find a run's resource by name. Raises as the SDK."""
        for one in account.connected(lambda c: list(self.list_all(c, account.id, mark.run))):
            its = self.mark_of(one)
            if self.name_of(one) == name and its is not None and its.run == mark.run:
                return one
        return None

    def owned(
        self, account: Cloud, run: str | None, unread: Unread = ignore_unreadable
    ) -> list[Found[Cloud]]:
        """List marked resources, of one run or all. Raises ProviderError."""
        there = account.ask(
            f"listing {self.name}s", lambda c: list(self.list_all(c, account.id, run))
        )
        found = []
        for one in there:
            mark = self.mark_of(one, f"{account.name}: {self.name} {one.id}", unread)
            if mark is not None and run in {None, mark.run}:
                found.append(Found(self.name, str(one.id), self.name_of(one), mark, account))
        return found

    def delete(self, found: Found[Cloud]) -> None:
        """Delete one; of a server or a volume this only starts it. Raises as the SDK."""
        found.account.connected(lambda c: self.delete_by_id(c, found.id))

    def delete_by_id(self, connection: Connection, id_: str) -> None:
        """Delete one by its id, where it is there. Raises as the SDK."""
        getattr(self.proxy(connection), f"delete_{self.noun}")(id_, ignore_missing=True)

    def existing_statuses(self, connection: Connection, run: str) -> dict[str, str]:  # noqa: ARG002
        """Return the ids of a run's existing resources, with their statuses if known."""
        return {}

    def still_there(
        self, account: Cloud, some: Collection[Found[Cloud]]
    ) -> Mapping[str, str | None]:
        """Return the ids of a run's remaining ones, each with the error that keeps it."""
        run = next(iter(some)).mark.run
        there = account.ask(f"listing {self.name}s", lambda c: self.existing_statuses(c, run))
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


class _Server(ResourceType):
    def list_all(self, connection: Connection, project: str, run: str | None) -> Iterable[Any]:  # noqa: ARG002
        return servers_there(connection, run)

    def delete_by_id(self, connection: Connection, id_: str) -> None:
        try:
            # Else a cloud that reclaims servers later only hides it, and ports hold the network.
            connection.compute.delete_server(id_, force=True)
        except NotFoundException:
            return
        except ForbiddenException:
            super().delete_by_id(connection, id_)

    def existing_statuses(self, connection: Connection, run: str) -> dict[str, str]:
        there = servers_there(connection, run, details=False)
        return {str(one.id): "" for one in there}  # for the status nova would ask neutron


class _Volume(ResourceType):
    def list_all(self, connection: Connection, project: str, run: str | None) -> Iterable[Any]:
        there = connection.has_service("block-storage")
        return super().list_all(connection, project, run) if there else []

    def existing_statuses(self, connection: Connection, run: str) -> dict[str, str]:
        return {str(one.id): str(one.status) for one in self.list_all(connection, "", run)}


class _FloatingIp(ResourceType):
    def name_of(self, thing: Any) -> str:
        return name_in_text(thing.description)

    def marked(self, mark: Mark, name: str) -> dict[str, Any]:
        return {"description": mark.text_with(name)}


class _Router(ResourceType):
    def delete_by_id(self, connection: Connection, id_: str) -> None:
        network = connection.network
        ports = network.ports(device_id=id_, fields=["id", "device_owner"])
        try:
            for port in ports:
                # Also the owners of distributed and of highly available routers begin so.
                if str(port.device_owner).startswith("network:router_interface"):
                    network.remove_interface_from_router(id_, None, port.id)
        except NotFoundException:  # a user removes it, too
            pass
        super().delete_by_id(connection, id_)


class _Project(ResourceType):
    def list_all(self, connection: Connection, project: str, run: str | None) -> Iterable[Any]:
        try:
            return list(super().list_all(connection, project, run))
        except ForbiddenException:  # only administrators may, and only they make any
            return []

    def delete_by_id(self, connection: Connection, id_: str) -> None:
        groups = list(connection.network.security_groups(project_id=id_))
        for group in groups:
            if group.name != _DEFAULT and TYPES["security-group"].mark_of(group) is None:
                raise ProviderError(
                    f"the project holds a security group that is not ours, {group.name}",
                    cure="find out who owns it, remove it, and then: osmef reap --provider"
                    " openstack",
                )
        # Neutron made this group by itself with the first network, and never removes it.
        for group in groups:
            connection.network.delete_security_group(group.id, ignore_missing=True)
        super().delete_by_id(connection, id_)


_SHORT = {"fields": ["id", "name", "description"]}
TYPES = {
    one.name: one
    for one in (
        _Server("server", 0, "compute", "server", "metadata", is_slow=True),
        ResourceType("key-pair", 0, "compute", "keypair", "name"),
        ResourceType("server-group", 0, "compute", "server_group", "name"),
        # Those of servers that run would make nova read again what neutron has for each of them,
        # and change the router, which takes only one change at a time.
        _FloatingIp("floating-ip", 1, "network", "ip"),
        _Router("router", 2, "network", "router"),
        ResourceType("security-group", 3, "network", "security_group", query=_SHORT),
        ResourceType("network", 3, "network", "network"),
        _Volume(
            "volume", 3, "block_storage", "volume", "metadata", {"details": True}, is_slow=True
        ),
        # What is left in it could not be reached any more.
        _Project("project", 4, "identity", "project", is_last=True),
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


Maker = resource_types.Maker[Cloud, Mark]
