"""A call as the services of the small cloud see it, and the ways to answer it."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.openstack.services.api_ports import Answer, Asked


@dataclass(frozen=True)
class Login:
    """Who asks, and in which project."""

    user: str
    user_name: str
    project: str
    roles: tuple[str, ...]

    @property
    def admin(self) -> bool:
        """Whether all is allowed."""
        return "admin" in self.roles


@dataclass(frozen=True)
class Call:
    """A call: ``path`` has no query, ``here`` is the address of the service as its client has it.

    ``who`` is None where nothing that was signed came with it.
    """

    method: str
    path: str
    query: Mapping[str, list[str]]
    body: Any
    here: str
    who: Login | None
    microversion: str | None = None

    def first(self, key: str, usual: str = "") -> str:
        """Return the value of a parameter of the query."""
        return self.query.get(key, [usual])[0]

    @property
    def login(self) -> Login:
        """Who asks, in a service that has let them in."""
        assert self.who is not None
        return self.who


@dataclass(frozen=True)
class Reply:
    """An answer: JSON, or nothing."""

    body: Any = None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class RefusalError(Exception):
    """A call that is refused: with a status, and what a service says about it."""

    def __init__(self, status: int, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind


class UnknownError(RefusalError):
    """Something that the real services may know, and this cloud does not: no test may miss that."""

    def __init__(self, what: str) -> None:
        super().__init__(501, f"the small cloud has no {what}: add it, and to the tour", "Unknown")


Do = Callable[..., Reply]
"""Answers a call; it is also given the parts of the path that the route has names for."""


@dataclass
class Routes:
    """What answers which calls, by "METHOD /path/{part}"."""

    there: list[tuple[re.Pattern[str], Do]] = field(default_factory=list)

    def add(self, routes: Mapping[str, Do]) -> None:
        """Add some."""
        for route, do in routes.items():
            self.there.append((re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route)), do))

    def do(self, call: Call) -> Reply:
        """Answer a call. Raises RefusalError."""
        for pattern, do in self.there:
            if found := pattern.fullmatch(f"{call.method} {call.path}"):
                return do(call, **found.groupdict())
        raise UnknownError(f"{call.method} {call.path}")


def read(asked: Asked, who: Login | None, microversion: str | None) -> Call:
    """Return a request as a call."""
    parts = urlsplit(asked.path)
    return Call(
        method=asked.method,
        path=parts.path.rstrip("/"),
        query=parse_qs(parts.query, keep_blank_values=True),
        body=json.loads(asked.body) if asked.body else None,
        here=f"http://{asked.headers.get('host')}",
        who=who,
        microversion=microversion,
    )


def written(reply: Reply) -> Answer:
    """Return an answer as it is sent."""
    if reply.body is None:
        return reply.status, list(reply.headers), b""
    told = [*reply.headers, ("Content-Type", "application/json")]
    return reply.status, told, json.dumps(reply.body).encode()


def new_id() -> str:
    """Return an id as nova, neutron and glance give them."""
    return str(uuid.uuid4())


def now(*, micro: bool = False) -> str:
    """Return the time as the services write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000" if micro else "%Y-%m-%dT%H:%M:%SZ")


def page(
    call: Call, there: Sequence[Mapping[str, Any]], lost: Callable[[str], RefusalError]
) -> tuple[list[Mapping[str, Any]], str | None]:
    """Return the page of a list that a call asks for, and the marker of the next one.

    Raises what ``lost`` makes of a marker that is not in the list.
    """
    things = list(there)
    if marker := call.first("marker"):
        ids = [thing["id"] for thing in things]
        if marker not in ids:
            raise lost(marker)
        things = things[ids.index(marker) + 1 :]
    limit = int(call.first("limit", "1000"))
    full = len(things) >= limit and "limit" in call.query
    return things[:limit], str(things[limit - 1]["id"]) if full and limit else None
