"""Talk to a cloud's APIs by HTTP alone, and keep what they say in a form that can be compared."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_MICROVERSION = "OpenStack-API-Version"
_ENDS_S = 240.0
_VERSIONS = {
    "/servers": "2.96",
    "/os-server-groups": "2.64",
    "/os-keypairs": "2.10",
    "/flavors": "2.61",
    "/os-services": "2.69",
    "/os-quota-sets": "2.56",
}
"""The microversions at which openstacksdk asks nova for things; for all else it names none."""
# What differs from call to call, or from cloud to cloud.
_OWN = (
    (r"req-[0-9a-f-]{36}", "REQUEST"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
    (r"\b[0-9a-f]{32}\b", "ID"),
    (r"127\.0\.0\.1:\d+", "HERE"),
    (r"\b(198\.51\.100|10\.\d+\.\d+)\.\d+(?![\d/])", "ADDRESS"),
    (r"compute:az\d", "compute:ZONE"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?", "TIME"),
)
_FREE = {"addresses", "metadata"}
"""What has keys that its owner chose."""
_TOLD = {"status", "state", "message", "code", "rel", "policy", "direction", "ethertype"}
_TOLD |= {"protocol", "device_owner", "router:external", "min_version", "version", "binary"}
_TOLD |= {"zoneName", "available", "limit", "mtu", "enabled", "gateway_ip", "enable_snat"}
_TOLD |= {"OS-EXT-STS:task_state", "OS-EXT-STS:vm_state", "OS-EXT-STS:power_state", "is_default"}
_TOLD |= {"config_drive", "OS-DCF:diskConfig", "host_status", "visibility", "methods"}
"""What has values that are the same in each cloud, and are compared."""


@dataclass(frozen=True)
class Said:
    """An answer: its status, its microversion, and its shape; all of it where it refuses.

    ``call`` is what was asked, as kind_of has it.
    """

    call: str
    status: int
    version: str | None
    answer: Any


class Talk:
    """Talks as several users to the services of one region."""

    def __init__(self, clouds_yaml: Path) -> None:
        self._clouds = json.loads(clouds_yaml.read_text())["clouds"]
        self._tokens: dict[str, str] = {}
        self._urls: dict[str, str] = {"identity": self._clouds["admin"]["auth"]["auth_url"]}
        self.ids: dict[str, str] = {}
        """The ids of users ("user alice") and of their projects ("project alice")."""
        self.said: dict[str, Said] = {}
        for user in self._clouds:
            self._log_in(user)

    def login_of(self, user: str, **other: Any) -> dict[str, Any]:
        """Return the body by which a user asks for a token, with another password or scope."""
        auth = self._clouds[user]["auth"]
        domain = {"id": "default"}
        scope = {"project": {"name": auth["project_name"], "domain": domain}}
        who = {"name": user, "domain": domain, "password": other.get("password", auth["password"])}
        asked = {"identity": {"methods": ["password"], "password": {"user": who}}}
        return {"auth": {**asked, "scope": other.get("scope", scope)}}

    def _log_in(self, user: str) -> None:
        status, headers, answer = self._ask(
            "POST", f"{self._urls['identity']}/auth/tokens", self.login_of(user), {}
        )
        assert status == 201, answer
        token = answer["token"]
        self._tokens[user] = headers["x-subject-token"]
        self.ids |= {f"user {user}": token["user"]["id"], f"project {user}": token["project"]["id"]}
        for service in token["catalog"]:
            ends = service["endpoints"]
            at = [
                e["url"] for e in ends if (e["interface"], e["region"]) == ("public", "RegionOne")
            ]
            self._urls[service["type"]] = str(at[0])

    def __call__(
        self,
        name: str,
        user: str | None,
        method: str,
        target: str,
        body: Any = None,
        *,
        version: str | None = None,
    ) -> Any:
        """Ask, note the answer by this name, and return it; the target is "SERVICE PATH"."""
        status, headers, answer = self.ask(user, method, target, body, version)
        shown = shape_of(answer) if status < 400 else masked(answer)
        assert name not in self.said
        service, _, path = target.partition(" ")
        call = kind_of(method, urlsplit(self._urls[service]).path + path)
        self.said[name] = Said(call, status, headers.get(_MICROVERSION.lower()), shown)
        return answer

    def ask(
        self,
        user: str | None,
        method: str,
        target: str,
        body: Any = None,
        version: str | None = None,
    ) -> tuple[int, dict[str, str], Any]:
        """Ask, and return status, headers (in small letters) and answer.

        Nova is asked at the usual microversion, or another ``version``.
        """
        service, _, path = target.partition(" ")
        headers = {"X-Auth-Token": self._tokens.get(user, user)} if user else {}
        usual = (one for start, one in _VERSIONS.items() if path.startswith(start))
        if version := version or next(usual, None):
            headers[_MICROVERSION] = f"{service} {version}"
        return self._ask(method, self._urls[service] + path, body, headers)

    def _ask(
        self, method: str, url: str, body: Any, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], Any]:
        parts = urlsplit(url)
        text = None if body is None else json.dumps(body)
        connection = HTTPConnection(parts.netloc, timeout=120)
        try:
            target = f"{parts.path or '/'}?{parts.query}".rstrip("?")
            more = {"Content-Type": "application/json", "Accept": "application/json"}
            connection.request(method, target, text, {**more, **headers})
            answer = connection.getresponse()
            raw = answer.read().decode()
        finally:
            connection.close()
        told = {key.lower(): value for key, value in answer.getheaders()}
        is_json = "json" in told.get("content-type", "") and bool(raw)
        return answer.status, told, json.loads(raw) if is_json else raw

    def until(self, there: Callable[[], Any]) -> Any:
        """Look until something is there, and return it."""
        end, waiting = time.monotonic() + _ENDS_S, threading.Event()
        while not (found := there()):
            assert time.monotonic() < end
            waiting.wait(0.1)
        return found


def shape_of(answer: Any, key: str = "") -> Any:
    """Return an answer with types in the place of most values; a list has each shape once."""
    if isinstance(answer, dict):
        if key in _FREE:
            return {"*": _each(answer.values())}
        return {name: shape_of(one, name) for name, one in sorted(answer.items())}
    if isinstance(answer, list):
        return _each(answer, key)
    return masked(answer) if key in _TOLD else type(answer).__name__


def _each(values: Any, key: str = "") -> list[Any]:
    shapes = {json.dumps(shape_of(one, key)): shape_of(one, key) for one in values}
    return [shapes[text] for text in sorted(shapes)]


def masked(answer: Any) -> Any:
    """Return what a service says when it refuses, without what is different each time."""
    text = json.dumps(answer)
    for own, shown in _OWN:
        text = re.sub(own, shown, text)
    return json.loads(text)


def kind_of(method: str, path: str) -> str:
    """Return which call of an API this is: without ids, and without the values of its query."""
    parts = urlsplit(path)
    route = re.sub(
        r"(?<=/)([0-9a-f]{32}|[0-9a-f-]{36}|(?<=os-keypairs/).+)(?=/|$)", "*", parts.path
    )
    keys = sorted({key for key, _ in parse_qsl(parts.query)})
    return f"{method} {route.rstrip('/')}?{'&'.join(keys)}".rstrip("?")


def write(said: dict[str, Said], path: Path) -> None:
    """Keep answers in a file, one a line."""
    lines = (f"{json.dumps(name)}: {json.dumps(asdict(one))}" for name, one in said.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: Path) -> dict[str, Said]:
    """Return answers that were kept."""
    return {name: Said(**one) for name, one in json.loads(path.read_text()).items()}
