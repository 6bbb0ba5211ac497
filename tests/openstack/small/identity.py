"""Keystone: users, their projects and roles, tokens, and the catalog."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.openstack.small.calls import Call, Login, RefusalError, Reply, Routes, UnknownError

_ROLES = {"admin": ("admin", "manager", "member", "reader"), "member": ("member", "reader")}
_DOMAIN = {"id": "default", "name": "Default"}
_TYPES = {"glance-api": "image", "nova-api": "compute", "neutron-server": "network"}
_WRONG = "The request you have made requires authentication."
Thing = dict[str, Any]


@dataclass
class Identity:
    """All accounts; ``users`` has the project of each by its name, ``urls`` those of the APIs.

    The latter by region and name.
    """

    password: str
    urls: Mapping[str, Mapping[str, str]]
    users: dict[str, str] = field(default_factory=dict)
    projects: dict[str, Thing] = field(default_factory=dict)
    grants: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """The roles, by user and project."""
    credentials: dict[str, Thing] = field(default_factory=dict)
    _tokens: dict[str, Login] = field(default_factory=dict)
    _roles: dict[str, str] = field(default_factory=dict)
    _catalog: list[Thing] = field(default_factory=list)
    _routes: Routes = field(default_factory=Routes)

    def __post_init__(self) -> None:
        self._roles = {name: uuid.uuid4().hex for name in _ROLES["admin"]}
        self.users["admin"] = uuid.uuid4().hex
        self._furnish("admin", "admin", "admin")
        self._catalog = [self._service(name) for name in ("keystone", *_TYPES)]
        self._routes.add(
            {
                "GET /v3": self._version,
                "POST /v3/auth/tokens": self._log_in,
                "GET /v3/projects": self._list,
                "POST /v3/projects": self._create,
                "GET /v3/projects/{project}": self._get,
                "DELETE /v3/projects/{project}": self._delete,
                "PUT /v3/projects/{project}/users/{user}/roles/{role}": self._grant,
                "POST /v3/users/{user}/application_credentials": self._make_credential,
                "DELETE /v3/users/[^/]+/application_credentials/{key}": self._drop_credential,
            }
        )

    def _furnish(self, user: str, project: str, role: str) -> None:
        made = self._project({"name": project, "description": ""})
        self.grants[self.users[user], made["id"]] = {self._roles[one] for one in _ROLES[role]}

    def add_member(self, user: str, project: str) -> None:
        """Add a user who is a member of a project of its own."""
        self.users[user] = uuid.uuid4().hex
        self._furnish(user, project, "member")

    def who(self, token: str | None) -> Login | None:
        """Return whose token this is."""
        return self._tokens.get(token or "")

    def do(self, call: Call) -> Reply:
        """Answer a call. Raises RefusalError."""
        public = call.path in {"/v3", "/v3/auth/tokens"}
        if call.who is None and not public:
            raise RefusalError(401, _WRONG, "Unauthorized")
        return self._routes.do(call)

    def refusal(self, error: RefusalError) -> Thing:
        """Return what keystone says when it refuses."""
        return {"error": {"code": error.status, "message": error.message, "title": error.kind}}

    def _service(self, name: str) -> Thing:
        ends = [
            {
                "id": uuid.uuid4().hex,
                "interface": interface,
                "region": region,
                "region_id": region,
                "url": urls[name],
            }
            for region, urls in self.urls.items()
            if name in urls
            for interface in ("public", "internal")
        ]
        kind = _TYPES.get(name, "identity")
        shown = name.partition("-")[0]
        return {"id": uuid.uuid4().hex, "type": kind, "name": shown, "endpoints": ends}

    def _version(self, call: Call) -> Reply:
        kind = "application/vnd.openstack.identity-v3+json"
        version = {
            "id": "v3.14",
            "status": "stable",
            "updated": "2020-04-07T00:00:00Z",
            "links": [{"rel": "self", "href": f"{call.here}/v3/"}],
            "media-types": [{"base": "application/json", "type": kind}],
        }
        return Reply({"version": version})

    def _log_in(self, call: Call) -> Reply:
        identity, more = call.body["auth"]["identity"], {}
        scope = call.body["auth"].get("scope", {}).get("project")
        match identity["methods"]:
            case ["password"]:
                user = self._known(identity["password"]["user"])
                project = self._scope(scope)
            case ["application_credential"]:
                found = self._credential(identity["application_credential"])
                user, project = found["user_id"], found["project_id"]
                shown = {"id": found["id"], "name": found["name"], "restricted": True}
                more = {"application_credential": shown}
            case methods:
                raise UnknownError(f"login by {methods}")
        roles = self.grants.get((user, project))
        if not roles:
            raise RefusalError(401, _WRONG, "Unauthorized")
        token = f"gAAAAAB{secrets.token_urlsafe(120)}"
        named = {role: name for name, role in self._roles.items()}
        name = next(name for name, one in self.users.items() if one == user)
        self._tokens[token] = Login(user, name, project, tuple(sorted(named[r] for r in roles)))
        told = {**self._told(self._tokens[token], identity["methods"]), **more}
        return Reply({"token": told}, 201, (("X-Subject-Token", token),))

    def _told(self, who: Login, methods: list[str]) -> Thing:
        began = datetime.now(UTC)
        stamp = "%Y-%m-%dT%H:%M:%S.000000Z"
        return {
            "methods": methods,
            "user": {
                "domain": _DOMAIN,
                "id": who.user,
                "name": who.user_name,
                "password_expires_at": None,
            },
            "audit_ids": [secrets.token_urlsafe(16)],
            "expires_at": (began + timedelta(hours=1)).strftime(stamp),
            "issued_at": began.strftime(stamp),
            "project": {
                "domain": _DOMAIN,
                "id": who.project,
                "name": self.projects[who.project]["name"],
            },
            "is_domain": False,
            "roles": [{"id": self._roles[name], "name": name} for name in who.roles],
            "catalog": self._catalog,
        }

    def _known(self, user: Thing) -> str:
        by_id = {one: one for one in self.users.values()}
        key = by_id.get(user.get("id", ""), self.users.get(user.get("name", "")))
        if key is None or user["password"] != self.password:
            raise RefusalError(401, _WRONG, "Unauthorized")
        return key

    def _scope(self, scope: Thing | None) -> str:
        if scope is None:
            raise UnknownError("tokens without a project")
        found = [p for p in self.projects.values() if scope.get("id", p["id"]) == p["id"]]
        found = [p for p in found if scope.get("name", p["name"]) == p["name"]]
        if not found:
            raise RefusalError(401, _WRONG, "Unauthorized")
        return str(found[0]["id"])

    def _credential(self, given: Thing) -> Thing:
        found = self.credentials.get(given.get("id", ""))
        if found is None or found["secret"] != given.get("secret"):
            raise RefusalError(401, _WRONG, "Unauthorized")
        return found

    def _allow(self, call: Call, what: str) -> None:
        if not call.login.admin:
            message = f"You are not authorized to perform the requested action: identity:{what}."
            raise RefusalError(403, message, "Forbidden")

    def _project(self, wanted: Thing) -> Thing:
        made = {
            "id": uuid.uuid4().hex,
            "name": wanted["name"],
            "domain_id": "default",
            "description": wanted.get("description", ""),
            "enabled": True,
            "parent_id": "default",
            "is_domain": False,
            "tags": [],
            "options": {},
        }
        self.projects[made["id"]] = made
        return made

    def _find(self, project: str) -> Thing:
        if project not in self.projects:
            raise RefusalError(404, f"Could not find project: {project}.", "Not Found")
        return self.projects[project]

    def _shown(self, call: Call, project: Thing) -> Thing:
        return {**project, "links": {"self": f"{call.here}/v3/projects/{project['id']}"}}

    def _list(self, call: Call) -> Reply:
        self._allow(call, "list_projects")
        if call.query.keys() - {"name", "domain_id"}:
            raise UnknownError(f"filter of {sorted(call.query)}")
        found = [p for p in self.projects.values() if call.first("name", p["name"]) == p["name"]]
        links = {"next": None, "self": f"{call.here}/v3/projects", "previous": None}
        return Reply({"projects": [self._shown(call, one) for one in found], "links": links})

    def _create(self, call: Call) -> Reply:
        self._allow(call, "create_project")
        wanted = call.body["project"]
        for other in self.projects.values():
            if other["name"] == wanted["name"]:
                message = (
                    "Conflict occurred attempting to store project - it is not permitted to have"
                    " two projects with either the same name or same id in the same domain: name is"
                    f" {other['name']}, project id {other['id']}."
                )
                raise RefusalError(409, message, "Conflict")
        return Reply({"project": self._shown(call, self._project(wanted))}, 201)

    def _get(self, call: Call, project: str) -> Reply:
        self._allow(call, "get_project")
        return Reply({"project": self._shown(call, self._find(project))})

    def _delete(self, call: Call, project: str) -> Reply:
        self._allow(call, "delete_project")
        del self.projects[self._find(project)["id"]]
        self.grants = {key: roles for key, roles in self.grants.items() if key[1] != project}
        return Reply(status=204)

    def _grant(self, call: Call, project: str, user: str, role: str) -> Reply:
        self._allow(call, "create_grant")
        self.grants.setdefault((user, self._find(project)["id"]), set()).add(role)
        return Reply(status=204)

    def _make_credential(self, call: Call, user: str) -> Reply:
        wanted, who = call.body["application_credential"], call.login
        made = {
            "id": uuid.uuid4().hex,
            "name": wanted["name"],
            "description": None,
            "project_id": who.project,
            "user_id": user,
            "system": None,
            "expires_at": None,
            "unrestricted": None,
            "secret": wanted.get("secret") or secrets.token_urlsafe(32),
            "roles": [
                {
                    "id": self._roles[name],
                    "name": name,
                    "domain_id": None,
                    "description": None,
                    "options": {"immutable": True},
                }
                for name in who.roles
            ],
        }
        self.credentials[made["id"]] = made
        at = f"{call.here}{call.path}/{made['id']}"
        return Reply({"application_credential": {**made, "links": {"self": at}}}, 201)

    def _drop_credential(self, _call: Call, key: str) -> Reply:
        del self.credentials[key]
        return Reply(status=204)
