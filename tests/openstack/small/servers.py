"""The servers of nova: asked for, built, shown, taken away."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

from tests.openstack.settings import HOSTS
from tests.openstack.small.calls import (
    Call,
    Do,
    RefusalError,
    Reply,
    UnknownError,
    page,
)
from tests.openstack.small.compute import Rooms, V, links_of, lost_marker, pages, policy
from tests.openstack.small.images import Images
from tests.openstack.small.machines import Machines, Server
from tests.openstack.small.network import Network
from tests.openstack.small.shown import server_shown

_KNOWN = {"name", "flavorRef", "imageRef", "networks", "security_groups", "key_name", "metadata"}
_KNOWN |= {"user_data", "config_drive", "availability_zone", "host"}
_FILTERS = {"name", "status", "all_tenants", "limit", "marker"}
_STATES = {"ACTIVE", "BUILD", "ERROR", "DELETED", "SHUTOFF", "SOFT_DELETED"}


class Servers:
    """The servers, and the calls about them."""

    def __init__(self, rooms: Rooms, network: Network, images: Images, machines: Machines) -> None:
        self.rooms, self.network, self.images, self.machines = rooms, network, images, machines
        self.there = machines.servers

    @property
    def routes(self) -> Mapping[str, Do]:
        """What is answered here."""
        return {
            f"GET {V}/servers": self._list,
            f"GET {V}/servers/detail": self._list,
            f"POST {V}/servers": self._make,
            f"GET {V}/servers/{{key}}": self._get,
            f"DELETE {V}/servers/{{key}}": self._delete,
            f"POST {V}/servers/{{key}}/action": self._act,
        }

    def used(self, project: str) -> dict[str, int]:
        """Return what the servers of a project take of its quotas."""
        ours = [server for server in self.there.values() if server.project == project]
        return {
            "instances": len(ours),
            "cores": sum(server.flavor["vcpus"] for server in ours),
            "ram": sum(server.flavor["ram"] for server in ours),
        }

    def members(self, group: str) -> list[str]:
        """Return the ids of the servers in a group."""
        return [server.id for server in self.there.values() if server.group == group]

    def _find(self, call: Call, key: str) -> Server:
        found = self.there.get(key)
        if found is None or not (call.login.admin or found.project == call.login.project):
            raise RefusalError(404, f"Instance {key} could not be found.")
        return found

    def _shown(self, call: Call, server: Server) -> dict[str, Any]:
        return server_shown(call, server, self.network.tables, self.images.there)

    def _get(self, call: Call, key: str) -> Reply:
        server = self._find(call, key)
        groups = [server.group] if server.group in self.rooms.groups else []
        return Reply({"server": {**self._shown(call, server), "server_groups": groups}})

    def _list(self, call: Call) -> Reply:
        if unknown := sorted(call.query.keys() - _FILTERS):
            raise UnknownError(f"filter of {unknown} for servers")
        wanted, every = call.first("status").upper(), "all_tenants" in call.query
        if every and not call.login.admin:
            what = call.path.removeprefix(f"{V}/servers/").replace(f"{V}/servers", "index")
            raise policy(f"os_compute_api:servers:{what}:get_all_tenants")
        if wanted and wanted not in _STATES:
            raise RefusalError(400, "Invalid status value")
        there = [
            {"id": server.id, "server": server}
            for server in reversed(self.there.values())  # the last one first
            if (every or server.project == call.login.project)
            and (not wanted or server.status == wanted)
            and re.search(call.first("name"), server.name)
        ]
        rows, marker = page(call, there, lost_marker)
        found = [row["server"] for row in rows]
        if call.path.endswith("detail"):
            shown = [self._shown(call, server) for server in found]
        else:
            shown = [
                {"id": one.id, "name": one.name, "links": links_of(call, "servers", one.id)}
                for one in found
            ]
        return Reply({"servers": shown, **pages(call, "servers", marker)})

    def _make(self, call: Call) -> Reply:
        wanted, who = call.body["server"], call.login
        if unknown := sorted(wanted.keys() - _KNOWN):
            raise UnknownError(f"attribute of servers {unknown}")
        zone, host = self._place(call)
        server = Server(
            name=wanted["name"],
            project=who.project,
            user=who.user,
            flavor=self._flavor(wanted["flavorRef"]),
            image=self._image(wanted["imageRef"]),
            key=self._key(call, wanted.get("key_name")),
            networks=[self._network(call, one) for one in wanted["networks"]],
            security=self._security(call, wanted.get("security_groups", [])),
            group=self._group(call),
            metadata=wanted.get("metadata", {}),
            user_data=wanted.get("user_data"),
            config_drive=bool(wanted.get("config_drive")),
            zone=zone,
            asked_host=host,
        )
        self._allow(server)
        self.machines.build(server)
        made = {
            "id": server.id,
            "links": links_of(call, "servers", server.id),
            "OS-DCF:diskConfig": "MANUAL",
            "security_groups": wanted.get("security_groups", [{"name": "default"}]),
            "adminPass": secrets.token_urlsafe(9),
        }
        at = ("Location", f"{call.here}{V}/servers/{server.id}")
        return Reply({"server": made}, 202, (at,))

    def _place(self, call: Call) -> tuple[str | None, str | None]:
        """Return the zone and the host that are asked for. Raises RefusalError."""
        wanted = call.body["server"]
        zone, _, forced = str(wanted.get("availability_zone") or "").partition(":")
        host = wanted.get("host")
        if forced and not call.login.admin:
            raise policy("os_compute_api:servers:create:forced_host")
        if host and not call.login.admin:
            raise policy("compute:servers:create:requested_destination")
        if zone and zone not in HOSTS.values():
            raise RefusalError(400, "The requested availability zone is not available")
        if (asked := host or forced) and asked not in HOSTS:
            raise RefusalError(400, f"Compute host {asked} could not be found.")
        return zone or None, host or forced or None

    def _flavor(self, key: str) -> dict[str, Any]:
        if key not in self.rooms.flavors:
            raise RefusalError(400, f"Flavor {key} could not be found.")
        return self.rooms.flavors[key]

    def _image(self, key: str) -> str:
        if key not in self.images.there:
            raise RefusalError(400, "Can not find requested image")
        return key

    def _key(self, call: Call, name: str | None) -> dict[str, Any] | None:
        if name is None:
            return None
        if (call.login.user, name) not in self.rooms.keys:
            raise RefusalError(400, "Invalid key_name provided.")
        return self.rooms.keys[call.login.user, name]

    def _network(self, call: Call, wanted: dict[str, str]) -> str:
        if wanted.keys() != {"uuid"}:
            raise UnknownError(f"network of a server as {wanted}")
        key = wanted["uuid"]
        row = self.network.tables.rows["network"].get(key)
        if row is None or not self.network.tables.sees(call.login, row):
            raise RefusalError(400, f"Network {key} could not be found.")
        return key

    def _security(self, call: Call, wanted: list[dict[str, str]]) -> list[str]:
        groups = []
        self.network.security.have_default(call.login.project)
        for one in wanted:
            row = self.network.group(call.login.project, one["name"])
            if row is None:
                message = f"Unable to find security_group with name or id '{one['name']}'"
                raise RefusalError(400, message)
            groups.append(str(row["id"]))
        return groups

    def _group(self, call: Call) -> str | None:
        hints = call.body.get("os:scheduler_hints") or call.body.get("OS-SCH-HNT:scheduler_hints")
        key = (hints or {}).get("group")
        if key is None:
            return None
        found = self.rooms.groups.get(key)
        if found is None or found["project_id"] != call.login.project:
            raise RefusalError(400, f"Instance group {key} could not be found.")
        return str(key)

    def _allow(self, server: Server) -> None:
        """Raise RefusalError where the quotas leave no room."""
        project = server.project
        used = self.used(project)
        more = {"instances": 1, "cores": server.flavor["vcpus"], "ram": server.flavor["ram"]}
        limits = {what: self.rooms.limit(what, project) for what in more}
        over = [what for what in sorted(more) if 0 <= limits[what] < used[what] + more[what]]
        if over:

            def listed(some: Mapping[str, int]) -> str:
                return ", ".join(str(some[what]) for what in over)

            raise RefusalError(
                403,
                f"Quota exceeded for {', '.join(over)}: Requested {listed(more)}, but already used"
                f" {listed(used)} of {listed(limits)} {', '.join(over)}",
            )
        if server.group is not None:
            limit = self.rooms.limit("server_group_members", project)
            if 0 <= limit < len(self.members(server.group)) + 1:
                raise RefusalError(403, "Quota exceeded, too many servers in group")

    def _delete(self, call: Call, key: str) -> Reply:
        self.machines.take_away(self._find(call, key))
        return Reply(status=204)

    def _act(self, call: Call, key: str) -> Reply:
        server = self._find(call, key)
        match list(call.body):
            case ["forceDelete"]:
                self.machines.take_away(server)
                return Reply(status=202)
            case ["os-getConsoleOutput"]:
                if server.host is None or server.status == "BUILD":
                    raise RefusalError(409, f"Instance {key} is not ready")
                return Reply({"output": self.machines.console(server)})
            case what:
                raise UnknownError(f"action {what} of servers")
