"""Resource types of EC2: creation, listing and deletion."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from osmef.errors import NotFoundError
from osmef.providers.aws.access import Account, raise_unsuccessful, where
from osmef.providers.base import Unread, ignore_unreadable
from osmef.providers.cloud import resource_types
from osmef.providers.cloud.account import Again
from osmef.providers.cloud.resource_types import Found
from osmef.providers.marks import Mark

_KEY = "osmef_run"
_NAME = "Name"
_GONE = {"terminated", "released", "released-permanent-failure", "deleted"}
_MOST_TOKEN = 64

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class ResourceType(resource_types.ResourceType[Account]):
    """A type by its name in tags, EC2's noun for it, and what makes, lists and deletes it.

    A list of NOUNs is in the answer, or ``within`` each thing of another list. ``made`` is the key
    of what was made, if not the noun. An id is a NOUNId, or what ``id_as`` says. The deletion names
    a thing by its id or what else ``by`` says, and takes a list of ``many``.
    """

    noun: str
    creates: str
    lists: str
    deletes: str
    within: str = field(default="", kw_only=True)
    made: str = field(default="", kw_only=True)
    id_as: str = field(default="", kw_only=True)
    by: str = field(default="", kw_only=True)
    many: bool = field(default=False, kw_only=True)

    @property
    def id_key(self) -> str:
        """The key of an id."""
        return self.id_as or f"{self.noun}Id"

    def owned(
        self, account: Account, run: str | None, unread: Unread = ignore_unreadable
    ) -> list[Found[Account]]:
        """List marked resources, of one run or all. Raises ProviderError."""
        filters = "Filter" if self.lists == "describe_hosts" else "Filters"
        request: dict[str, Any] = {filters: where(tag_key=_KEY)}
        answer = account.read(self.lists, f"listing {self.name}s", **request)
        there = (self._found(one, account, unread) for one in self._listed(answer))
        return [one for one in there if one is not None and run in {None, one.mark.run}]

    def request(self, mark: Mark, name: str, **body: Any) -> dict[str, Any]:
        """Return the request to create one of this name."""
        tagged = [*body.get("TagSpecifications", ()), *tags_for(self.name, mark, name)]
        return {**body, "TagSpecifications": tagged}

    def create(self, account: Account, name: str, request: Facts) -> str:  # noqa: ARG002
        """Create one, and return its id. Raises as the SDK."""
        answer: Any = account.ask(self.creates, **request)
        found = answer.get(self.made or self.noun, answer)
        one = found[0] if isinstance(found, list) else found
        return str(one if isinstance(one, str) else one[self.id_key])

    def find(self, account: Account, mark: Mark, name: str, request: Facts) -> str | None:  # noqa: ARG002
        """Return the id of one of a run by its name. Raises ProviderError."""
        return next((one.id for one in self.owned(account, mark.run) if one.name == name), None)

    def look(self, account: Account, id_: str) -> Found[Account] | None:
        """Find one by its id, which EC2 knows before it lists it by tag. Raises ProviderError.

        None where there is none, or it is not ours, or it is gone already.
        """
        request: dict[str, Any] = {f"{self.id_key}s": [id_]}
        try:
            answer = account.read(self.lists, f"looking at the {self.name} {id_}", **request)
        except NotFoundError:
            return None
        there = (self._found(one, account) for one in self._listed(answer))
        return next((one for one in there if one is not None and one.id == id_), None)

    def _listed(self, answer: Facts) -> list[Facts]:
        holders = answer.get(self.within, ()) if self.within else [answer]
        return [one for holder in holders for one in holder.get(f"{self.noun}s", ())]

    def _found(
        self, facts: Facts, account: Account, unread: Unread = ignore_unreadable
    ) -> Found[Account] | None:
        reported = facts.get("Tags") or facts.get("TagSet", ())  # of interfaces
        tags = {tag.get("Key", ""): tag.get("Value", "") for tag in reported}
        state, id_ = facts.get("State"), str(facts.get(self.id_key, ""))
        if (state.get("Name") if isinstance(state, dict) else state) in _GONE:
            return None
        mark = Mark.of_listed(tags, f"{account.name}: {self.name} {id_ or 'of no id'}", unread)
        if mark is None or not id_ or not facts.get(self.by or self.id_key):
            return None
        return Found(self.name, id_, tags.get(_NAME, ""), mark, account, facts)

    def delete(self, found: Found[Account]) -> None:
        """Delete one; of an instance this only starts it. Raises as the SDK."""
        key = self.by or self.id_key
        what = found.facts[key]
        request: dict[str, Any] = {f"{key}s": [what]} if self.many else {key: what}
        raise_unsuccessful(found.account.ask(self.deletes, **request), "ReleaseHosts")


@dataclass(frozen=True)
class _Gateway(ResourceType):
    """An internet gateway, which is attached to a VPC."""

    def remove(self, found: Found[Account], again: Again) -> None:
        """Detach and delete one; absent is success. Raises ProviderError."""
        for attached in found.facts.get("Attachments", ()):
            which = {"InternetGatewayId": found.id, "VpcId": attached["VpcId"]}
            detach = partial(found.account.ask, "detach_internet_gateway", **which)
            try:
                found.account.do(f"detaching the {self.name} {found.name}", detach, again)
            except NotFoundError:
                continue
        super().remove(found, again)


def tags_for(kind: str, mark: Mark, name: str) -> list[dict[str, Any]]:
    """Return the mark as the tags of a creation request."""
    tags = {**mark.tags, _NAME: name}
    return [{"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]


def _type(
    name: str, stage: int, of: type[ResourceType] = ResourceType, **unusual: Any
) -> ResourceType:
    """Return a type whose noun and actions follow from its name, as far as they are usual."""
    snake, noun = name.replace("-", "_"), name.title().replace("-", "")
    usual = {
        "noun": noun,
        "creates": f"create_{snake}",
        "lists": f"describe_{snake}s",
        "deletes": f"delete_{snake}",
    }
    return of(name, stage, **{**usual, **unusual})


_INSTANCE: Any = {"creates": "run_instances", "deletes": "terminate_instances", "made": "Instances"}
_HOST: Any = {"creates": "allocate_hosts", "lists": "describe_hosts", "deletes": "release_hosts"}
TYPES = {
    one.name: one
    for one in (
        _type("instance", 0, within="Reservations", many=True, is_slow=True, **_INSTANCE),
        _type("key-pair", 0, creates="import_key_pair", by="KeyName"),
        _type("network-interface", 1),
        _type("placement-group", 2, id_as="GroupId", by="GroupName"),
        _type("security-group", 2, id_as="GroupId"),
        _type("subnet", 2),
        _type("internet-gateway", 2, _Gateway),
        _type("dedicated-host", 2, noun="Host", made="HostIds", many=True, **_HOST),
        _type("vpc", 3),
    )
}
"""By name, which is that in tags, too."""


def token_of(mark: Mark, name: str) -> str:
    """Return the idempotency token for a resource of this name."""
    whole = f"{mark.run} {mark.made} {name}"
    return hashlib.sha256(whole.encode()).hexdigest()[:_MOST_TOKEN]


Maker = resource_types.Maker[Account, Mark]
