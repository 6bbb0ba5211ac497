"""Nova: flavors, limits, hosts, key pairs and server groups; servers are beside it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.openstack.settings import FLAVORS, HOSTS
from tests.openstack.small.calls import (
    Call,
    Do,
    RefusalError,
    Reply,
    Routes,
    UnknownError,
    new_id,
    now,
    page,
)

if TYPE_CHECKING:
    from tests.openstack.small.servers import Servers

V = "/v2.1"
LOWEST, HIGHEST = (2, 1), (2, 96)
QUOTAS = {
    "instances": 10,
    "cores": 20,
    "ram": 51200,
    "metadata_items": 128,
    "injected_files": 5,
    "injected_file_content_bytes": 10240,
    "injected_file_path_bytes": 255,
    "key_pairs": 100,
    "server_groups": 10,
    "server_group_members": 10,
}
_POLICIES = ["anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"]
_KINDS = {400: "badRequest", 403: "forbidden", 404: "itemNotFound", 409: "conflictingRequest"}
Thing = dict[str, Any]


@dataclass
class Rooms:
    """What servers are made of and in, and what a project may have of it."""

    flavors: dict[str, Thing] = field(default_factory=dict)
    keys: dict[tuple[str, str], Thing] = field(default_factory=dict)
    """By user and name."""
    groups: dict[str, Thing] = field(default_factory=dict)
    limits: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (vcpus, ram, disk) in FLAVORS.items():
            key = new_id()
            self.flavors[key] = {"id": key, "name": name, "vcpus": vcpus, "ram": ram, "disk": disk}

    def limit(self, what: str, project: str) -> int:
        """Return how much a project may have."""
        return self.limits.get(project, {}).get(what, QUOTAS[what])


def version_of(headers: Mapping[str, str]) -> str:
    """Return the microversion that headers, in small letters, ask for.

    Raises RefusalError where it is out of reach.
    """
    told = headers.get("openstack-api-version", "").removeprefix("compute").strip()
    told = told or headers.get("x-openstack-nova-api-version", "") or "2.1"
    highest = ".".join(map(str, HIGHEST))
    if told == "latest":
        return highest
    found = re.fullmatch(r"(\d+)\.(\d+)", told)
    if found is None:
        message = (
            f"API Version String {told} is of invalid format. Must be of format MajorNum.MinorNum."
        )
        raise RefusalError(400, message)
    if not LOWEST <= (int(found[1]), int(found[2])) <= HIGHEST:
        message = (
            f"Version {told} is not supported by the API. Minimum is 2.1 and maximum is {highest}."
        )
        raise RefusalError(406, message)
    return told


def policy(name: str) -> RefusalError:
    """Return the refusal of what only administrators may."""
    return RefusalError(403, f"Policy doesn't allow {name} to be performed.")


def links_of(call: Call, what: str, key: str) -> list[Thing]:
    """Return the links to a thing."""
    return [
        {"rel": "self", "href": f"{call.here}{V}/{what}/{key}"},
        {"rel": "bookmark", "href": f"{call.here}/{what}/{key}"},
    ]


def lost_marker(marker: str) -> RefusalError:
    """Return the refusal of a marker that is in no list."""
    return RefusalError(400, f"marker [{marker}] not found")


def pages(call: Call, what: str, marker: str | None) -> Thing:
    """Return the link to the next page of a list."""
    if marker is None:
        return {}
    query = "&".join(f"{k}={call.first(k)}" for k in sorted(call.query) if k != "marker")
    return {
        f"{what}_links": [
            {"rel": "next", "href": f"{call.here}{call.path}?{query}&marker={marker}"}
        ]
    }


@dataclass
class Compute:
    """The service; ``servers`` answers the calls about those, and counts what they use."""

    rooms: Rooms
    servers: Servers
    _routes: dict[str, Routes] = field(default_factory=dict)
    """By microversion: an answer is known at the one of openstacksdk alone."""
    _hosts: dict[str, str] = field(default_factory=lambda: {host: new_id() for host in HOSTS})

    def __post_init__(self) -> None:
        routes: dict[str, Mapping[str, Do]] = {
            "2.1": {
                f"GET {V}": self._version,
                f"GET {V}/limits": self._limits,
                f"GET {V}/os-availability-zone": self._zones,
            },
            "2.10": {
                f"GET {V}/os-keypairs": self._keys,
                f"POST {V}/os-keypairs": self._make_key,
                f"DELETE {V}/os-keypairs/{{name}}": self._delete_key,
            },
            "2.56": {
                f"GET {V}/os-quota-sets/{{project}}": self._quotas,
                f"GET {V}/os-quota-sets/{{project}}/defaults": self._usual_quotas,
                f"PUT {V}/os-quota-sets/{{project}}": self._set_quotas,
                f"DELETE {V}/os-quota-sets/{{project}}": self._reset_quotas,
            },
            "2.61": {f"GET {V}/flavors/detail": self._flavors},
            "2.64": {
                f"GET {V}/os-server-groups": self._groups,
                f"POST {V}/os-server-groups": self._make_group,
                f"GET {V}/os-server-groups/{{key}}": self._group,
                f"DELETE {V}/os-server-groups/{{key}}": self._delete_group,
            },
            "2.69": {f"GET {V}/os-services": self._services},
            "2.96": self.servers.routes,
        }
        for version, some in routes.items():
            self._routes[version] = Routes()
            self._routes[version].add(some)

    def do(self, call: Call) -> Reply:
        """Answer a call. Raises RefusalError."""
        if call.who is None and call.path != V:
            raise RefusalError(401, "The request you have made requires authentication.")
        known = self._routes.get(str(call.microversion))
        if known is None:
            raise UnknownError(f"microversion {call.microversion} of nova")
        return known.do(call)

    def refusal(self, error: RefusalError) -> Thing:
        """Return what nova says when it refuses, or what is before it."""
        if error.status == 401:
            return {"error": {"code": 401, "title": "Unauthorized", "message": error.message}}
        kind = _KINDS.get(error.status, "computeFault")
        return {kind: {"code": error.status, "message": error.message}}

    def _version(self, call: Call) -> Reply:
        described = {
            "rel": "describedby",
            "type": "text/html",
            "href": "http://docs.openstack.org/",
        }
        kind = "application/vnd.openstack.compute+json;version=2.1"
        version = {
            "id": "v2.1",
            "status": "CURRENT",
            "version": ".".join(map(str, HIGHEST)),
            "min_version": ".".join(map(str, LOWEST)),
            "updated": "2013-07-23T11:33:21Z",
            "links": [{"rel": "self", "href": f"{call.here}{V}/"}, described],
            "media-types": [{"base": "application/json", "type": kind}],
        }
        return Reply({"version": version})

    def _flavors(self, call: Call) -> Reply:
        there = sorted(self.rooms.flavors.values(), key=lambda one: str(one["id"]))
        found, marker = page(call, there, lost_marker)
        shown = [
            {
                **one,
                "swap": "",
                "OS-FLV-EXT-DATA:ephemeral": 0,
                "OS-FLV-DISABLED:disabled": False,
                "os-flavor-access:is_public": True,
                "rxtx_factor": 1.0,
                "links": links_of(call, "flavors", one["id"]),
                "description": None,
                "extra_specs": {},
            }
            for one in found
        ]
        return Reply({"flavors": shown, **pages(call, "flavors", marker)})

    def _limits(self, call: Call) -> Reply:
        project, limit = call.login.project, self.rooms.limit
        used = self.servers.used(project)
        groups = [one for one in self.rooms.groups.values() if one["project_id"] == project]
        absolute = {
            "maxTotalInstances": limit("instances", project),
            "maxTotalCores": limit("cores", project),
            "maxTotalRAMSize": limit("ram", project),
            "maxServerMeta": 128,
            "maxImageMeta": 128,
            "maxPersonality": 5,
            "maxPersonalitySize": 10240,
            "maxTotalKeypairs": limit("key_pairs", project),
            "maxServerGroups": limit("server_groups", project),
            "maxServerGroupMembers": limit("server_group_members", project),
            "maxTotalFloatingIps": -1,
            "maxSecurityGroups": -1,
            "maxSecurityGroupRules": -1,
            "totalRAMUsed": used["ram"],
            "totalCoresUsed": used["cores"],
            "totalInstancesUsed": used["instances"],
            "totalFloatingIpsUsed": 0,
            "totalSecurityGroupsUsed": 0,
            "totalServerGroupsUsed": len(groups),
        }
        return Reply({"limits": {"rate": [], "absolute": absolute}})

    def _zones(self, _call: Call) -> Reply:
        zones = [
            {"zoneName": zone, "zoneState": {"available": True}, "hosts": None}
            for zone in sorted(set(HOSTS.values()))
        ]
        return Reply({"availabilityZoneInfo": zones})

    def _services(self, call: Call) -> Reply:
        if not call.login.admin:
            raise policy("os_compute_api:os-services:list")
        if call.first("binary") != "nova-compute":
            raise UnknownError("services that are not nova-compute")
        services = [
            {
                "binary": "nova-compute",
                "host": host,
                "id": key,
                "zone": HOSTS[host],
                "status": "enabled",
                "state": "up",
                "updated_at": now(micro=True),
                "disabled_reason": None,
                "forced_down": False,
            }
            for host, key in self._hosts.items()
        ]
        return Reply({"services": services})

    def _usual_quotas(self, _call: Call, project: str) -> Reply:
        return Reply({"quota_set": {"id": project, **QUOTAS}})

    def _all_quotas(self, project: str) -> Thing:
        return {what: self.rooms.limit(what, project) for what in QUOTAS}

    def _quotas(self, _call: Call, project: str) -> Reply:
        return Reply({"quota_set": {"id": project, **self._all_quotas(project)}})

    def _set_quotas(self, call: Call, project: str) -> Reply:
        if not call.login.admin:
            raise policy("os_compute_api:os-quota-sets:update")
        wanted = {what: n for what, n in call.body["quota_set"].items() if what in QUOTAS}
        self.rooms.limits.setdefault(project, {}).update(wanted)
        return Reply({"quota_set": self._all_quotas(project)})

    def _reset_quotas(self, call: Call, project: str) -> Reply:
        if not call.login.admin:
            raise policy("os_compute_api:os-quota-sets:delete")
        self.rooms.limits.pop(project, None)
        return Reply(status=202)

    def _ours(self, user: str) -> list[Thing]:
        return [key for (owner, _), key in self.rooms.keys.items() if owner == user]

    def _keys(self, call: Call) -> Reply:
        found = [{"keypair": _without(key, "user_id")} for key in self._ours(call.login.user)]
        return Reply({"keypairs": found})

    def _make_key(self, call: Call) -> Reply:
        wanted, user = call.body["keypair"], call.login.user
        if "public_key" not in wanted:
            raise UnknownError("key pair that nova makes")
        try:
            digest = hashlib.md5(base64.b64decode(wanted["public_key"].split()[1])).hexdigest()  # noqa: S324
        except binascii.Error:
            message = "Keypair data is invalid: failed to generate fingerprint"
            raise RefusalError(400, message) from None
        if (user, wanted["name"]) in self.rooms.keys:
            raise RefusalError(409, f"Key pair '{wanted['name']}' already exists.")
        if len(self._ours(user)) >= self.rooms.limit("key_pairs", call.login.project):
            raise RefusalError(403, "Quota exceeded, too many key pairs.")
        made = {
            "type": "ssh",
            "name": wanted["name"],
            "public_key": wanted["public_key"],
            "fingerprint": ":".join(digest[n : n + 2] for n in range(0, 32, 2)),
            "user_id": user,
        }
        self.rooms.keys[user, made["name"]] = made
        return Reply({"keypair": made}, 201)

    def _delete_key(self, call: Call, name: str) -> Reply:
        user = call.login.user
        if self.rooms.keys.pop((user, name), None) is None:
            raise RefusalError(404, f"Keypair {name} not found for user {user}")
        return Reply(status=204)

    def _shown(self, group: Thing) -> Thing:
        return {**group, "members": self.servers.members(group["id"])}

    def _groups(self, call: Call) -> Reply:
        project = call.login.project
        found = [one for one in self.rooms.groups.values() if one["project_id"] == project]
        return Reply({"server_groups": [self._shown(one) for one in found]})

    def _make_group(self, call: Call) -> Reply:
        wanted, who = call.body["server_group"], call.login
        if wanted["policy"] not in _POLICIES:
            message = (
                f"Invalid input for field/attribute policy. Value: {wanted['policy']}."
                f" '{wanted['policy']}' is not one of {_POLICIES}"
            )
            raise RefusalError(400, message)
        ours = [one for one in self.rooms.groups.values() if one["project_id"] == who.project]
        if len(ours) >= self.rooms.limit("server_groups", who.project):
            raise RefusalError(403, "Quota exceeded, too many server groups.")
        made = {
            "id": new_id(),
            "name": wanted["name"],
            "policy": wanted["policy"],
            "rules": {},
            "project_id": who.project,
            "user_id": who.user,
        }
        self.rooms.groups[made["id"]] = made
        return Reply({"server_group": self._shown(made)})

    def _find_group(self, call: Call, key: str) -> Thing:
        found = self.rooms.groups.get(key)
        if found is None or found["project_id"] != call.login.project:
            raise RefusalError(404, f"Instance group {key} could not be found.")
        return found

    def _group(self, call: Call, key: str) -> Reply:
        return Reply({"server_group": self._shown(self._find_group(call, key))})

    def _delete_group(self, call: Call, key: str) -> Reply:
        del self.rooms.groups[self._find_group(call, key)["id"]]
        return Reply(status=204)


def _without(thing: Thing, key: str) -> Thing:
    return {name: value for name, value in thing.items() if name != key}
