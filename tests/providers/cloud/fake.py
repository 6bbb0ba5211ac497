"""A cloud in memory, for what all clouds share: two types of resources, and faults by call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from osmef.providers.base import Access, Ledger, Unread, ignore_unreadable
from osmef.providers.cloud.account import Account, CloudWaits
from osmef.providers.cloud.errors import ErrorTable, Meaning, Row
from osmef.providers.cloud.public_cloud import PublicCloud
from osmef.providers.cloud.resource_types import Found, Maker, ResourceType
from osmef.providers.marks import Mark

CODES = {
    "busy": (Meaning.TRANSIENT, 503),
    "slow down": (Meaning.THROTTLED, 429),
    "denied": (Meaning.DENIED, 403),
    "in use": (Meaning.IN_USE, 409),
    "gone": (Meaning.GONE, 404),
    "exists": (Meaning.EXISTS, 409),
}
QUICK = CloudWaits(
    look_s=0.01, listing_delay_s=0.01, delete_retry_s=0.05, no_progress_s=0.2, retry_s=60.0
)


class Refused(Exception):  # noqa: N818 - as an SDK calls it
    """What the SDK raises. ``code`` is empty where there was no answer."""

    def __init__(self, code: str, pause: str = "") -> None:
        super().__init__(f"the API says {code}")
        self.code = code
        self.pause = pause


def _status_of(error: Exception) -> int | None:
    return CODES[error.code][1] if isinstance(error, Refused) and error.code in CODES else None


ERRORS = ErrorTable(
    library=(Refused,),
    rows=[Row(meaning, f"^{code}$") for code, (meaning, _) in CODES.items()],
    cures={Meaning.DENIED: "ask for the right", Meaning.OTHER: "look at the manual"},
    tool="shop",
    code_of=lambda error: error.code if isinstance(error, Refused) else "",
    status_of=_status_of,
    details_of=str,
    headers_of=lambda error: {"Retry-After": error.pause} if isinstance(error, Refused) else {},
)


@dataclass
class Thing:
    """What the cloud has; ``looks`` are those in which one that was deleted is still there."""

    kind: str
    name: str
    tags: Mapping[str, str]
    looks: int | None = None


@dataclass
class Api:
    """The cloud's API. ``faults`` are codes by call, ``hidden`` ids that no list shows yet.

    "lost" carries a call out, and raises; ``dropped`` are ids whose first deletion is forgotten.
    """

    things: dict[str, Thing] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)

    def call(self, what: str) -> bool:
        """Count a call, and raise its fault; return whether its answer gets lost."""
        self.calls.append(what)
        codes = self.faults.get(what, [])
        code = codes.pop(0) if codes else ""
        if code and code != "lost":
            raise Refused(code)
        return code == "lost"

    def create(self, kind: str, name: str, tags: Mapping[str, str]) -> str:
        """Make a thing, and return its id."""
        lost = self.call(f"create {kind}")
        id_ = f"{kind}-{len(self.calls)}"
        self.things[id_] = Thing(kind, name, dict(tags))
        if lost:
            raise Refused("busy")
        return id_

    def list(self, kind: str) -> dict[str, Thing]:
        """Return the things of a type by id."""
        self.call(f"list {kind}")
        shown = {k: v for k, v in self.things.items() if v.kind == kind and k not in self.hidden}
        for id_, one in list(shown.items()):
            if one.looks is not None:
                one.looks -= 1
                if one.looks < 0:
                    del self.things[id_], shown[id_]
        return shown

    def get(self, id_: str) -> Thing:
        """Return a thing."""
        self.call("get")
        if id_ not in self.things:
            raise Refused("gone")
        return self.things[id_]

    def delete(self, id_: str, looks: int | None = None) -> None:
        """Delete a thing, or have it go after some looks."""
        lost = self.call(f"delete {id_.partition('-')[0]}")
        if id_ not in self.things:
            raise Refused("gone")
        if id_ in self.dropped:
            self.dropped.remove(id_)
        elif looks is None:
            del self.things[id_]
        else:
            self.things[id_].looks = looks
        if lost:
            raise Refused("busy")


class Shop(Account):
    """An account of the cloud."""

    provider = "shop"
    errors = ERRORS
    look_at = "look at it in the shop"

    def __init__(self, api: Api, access: Access | None = None, waits: CloudWaits = QUICK) -> None:
        super().__init__(access or {"cloud": "one"}, "shop one", waits)
        self.api = api


@dataclass(frozen=True)
class Type(ResourceType[Shop]):
    """A type of the cloud's."""

    def owned(
        self, account: Shop, run: str | None, unread: Unread = ignore_unreadable
    ) -> list[Found[Shop]]:
        """List those that carry our mark."""
        there = account.do(f"listing {self.name}s", lambda: account.api.list(self.name))
        marks = {id_: Mark.of_listed(one.tags, id_, unread) for id_, one in there.items()}
        return [
            Found(self.name, id_, there[id_].name, mark, account)
            for id_, mark in marks.items()
            if mark is not None and run in {None, mark.run}
        ]

    def look(self, account: Shop, id_: str) -> Found[Shop] | None:
        """Look at one by its id."""
        there = account.api.things.get(id_)
        mark = Mark.of_tags(there.tags) if there is not None else None
        if there is None or mark is None:
            return None
        return Found(self.name, id_, there.name, mark, account)

    def request(self, mark: Mark, name: str, **body: Any) -> Any:  # noqa: ARG002
        """Return the tags of one."""
        return {**mark.tags, **body}

    def create(self, account: Shop, name: str, request: Mapping[str, str]) -> str:
        """Make one, and return its id."""
        return account.api.create(self.name, name, request)

    def find(self, account: Shop, mark: Mark, name: str, request: Any) -> str | None:  # noqa: ARG002
        """Return the id of one of a run by its name."""
        return next((one.id for one in self.owned(account, mark.run) if one.name == name), None)

    def delete(self, found: Found[Shop]) -> None:
        """Delete one."""
        found.account.api.delete(found.id, 2 if self.is_slow else None)


@dataclass(frozen=True)
class Stubborn(Type):
    """VMs of which one may get stuck."""

    def still_there(self, account: Shop, some: Collection[Found[Shop]]) -> Mapping[str, str | None]:
        """Return which are there, and that one of the name "stuck" will stay."""
        there = account.api.list(self.name)
        stuck = {one.id: "is stuck" for one in some if one.name == "stuck"}
        return {one.id: stuck.get(one.id) for one in some if one.id in there}


TYPES = {
    one.name: one
    for one in (
        Stubborn("vm", 0, is_slow=True),
        Type("rule", 1),
        Type("net", 2),
        Type("project", 3, is_last=True),
    )
}


MARK = Mark("a-run", 1, 2)


def maker_for(ledger: Ledger) -> Maker[Shop, Mark]:
    """Return what makes things of a run in the cloud."""
    return Maker(MARK, ledger, TYPES)


class Provider(PublicCloud[Shop, Mark]):
    """What all clouds do with the table of types."""

    kind = "shop"
    types = TYPES
