"""Resource types of EC2: creation, listing and deletion."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from osmef.errors import NotFoundError
from osmef.providers.aws.access import Account, raise_unsuccessful, where
from osmef.providers.base import Unread, pass_over
from osmef.providers.cloud import maker, resource_types
from osmef.providers.cloud.account import Again
from osmef.providers.cloud.maker import Creation
from osmef.providers.cloud.resource_types import Found
from osmef.providers.marks import Mark

_KEY = "osmef_run"
_NAME = "Name"
_GONE = {"terminated", "released", "released-permanent-failure", "deleted"}
_MOST_TOKEN = 64

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class ResourceType(resource_types.ResourceType[Account]):
    """A type by its name in tags, its list action, and its deletion.

    ``creates`` makes one, which ``made`` is the key of in the answer, "" for the answer itself.
    ``path`` are the keys to the list in an answer, ``id_key`` is that of an id. ``action`` deletes,
    ``key`` is what it names the thing by, as ``by`` says; ``many`` if it takes a list.
    """

    creates: str
    made: str
    lists: str
    path: Sequence[str]
    id_key: str
    action: str
    key: str
    by: str | None = None
    many: bool = field(default=False, kw_only=True)

    def owned(
        self, account: Account, run: str | None, unread: Unread = pass_over
    ) -> list[Found[Account]]:
        """List marked resources, of one run or all. Raises ProviderError."""
        filters = "Filter" if self.lists == "describe_hosts" else "Filters"
        request: dict[str, Any] = {filters: where(tag_key=_KEY)}
        answer = account.read(self.lists, f"listing what is a {self.name}", **request)
        there = (self._found(one, account, unread) for one in _walk(answer, self.path))
        return [one for one in there if one is not None and run in {None, one.mark.run}]

    def create(self, account: Account, request: Mapping[str, Any]) -> str:
        """Make one in one call, and return its id. Raises as the SDK."""
        answer: Any = account.ask(self.creates, **request)
        found = answer[self.made] if self.made else answer
        one = found[0] if isinstance(found, list) else found
        return str(one if isinstance(one, str) else one[self.id_key])

    def find(self, account: Account, run: str, name: str) -> str | None:
        """Return the id of one of a run by its name. Raises ProviderError."""
        return next((one.id for one in self.owned(account, run) if one.name == name), None)

    def look(self, account: Account, id_: str) -> Found[Account] | None:
        """Find one by its id, which EC2 knows before it lists it by tag. Raises ProviderError.

        None where there is none, or it is not ours, or it is gone already.
        """
        request: dict[str, Any] = {f"{self.id_key}s": [id_]}
        try:
            answer = account.read(self.lists, f"looking at the {self.name} {id_}", **request)
        except NotFoundError:
            return None
        there = (self._found(one, account) for one in _walk(answer, self.path))
        return next((one for one in there if one is not None and one.id == id_), None)

    def _found(
        self, facts: Facts, account: Account, unread: Unread = pass_over
    ) -> Found[Account] | None:
        told = facts.get("Tags") or facts.get("TagSet", ())  # of interfaces
        tags = {tag.get("Key", ""): tag.get("Value", "") for tag in told}
        state, id_ = facts.get("State"), str(facts.get(self.id_key, ""))
        if (state.get("Name") if isinstance(state, dict) else state) in _GONE:
            return None
        mark = Mark.of_listed(tags, f"{account.name}: {self.name} {id_ or 'of no id'}", unread)
        if mark is None or not id_ or not facts.get(self.by or self.id_key):
            return None
        return Found(self.name, id_, tags.get(_NAME, ""), mark, account, facts)

    def delete(self, found: Found[Account]) -> None:
        """Delete one; of an instance this only starts it. Raises as the SDK."""
        what = found.facts[self.by or self.id_key]
        request: dict[str, Any] = {self.key: [what] if self.many else what}
        raise_unsuccessful(found.account.ask(self.action, **request), "ReleaseHosts")


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


def _walk(answer: Facts, path: Sequence[str]) -> Iterable[Facts]:
    first, *rest = path
    for one in answer.get(first, ()):
        if rest:
            yield from _walk(one, rest)
        else:
            yield one


def tags_for(kind: str, mark: Mark, name: str) -> list[dict[str, Any]]:
    """Return the mark as the tags of a creation request."""
    tags = {**mark.tags, _NAME: name}
    return [{"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]


TYPES = {
    one.name: one
    for one in (
        ResourceType(
            *("instance", 0, "run_instances", "Instances"),
            *("describe_instances", ("Reservations", "Instances"), "InstanceId"),
            *("terminate_instances", "InstanceIds"),
            many=True,
            is_slow=True,
        ),
        ResourceType(
            *("key-pair", 0, "import_key_pair", ""),
            *("describe_key_pairs", ("KeyPairs",), "KeyPairId"),
            *("delete_key_pair", "KeyName", "KeyName"),
        ),
        ResourceType(
            *("network-interface", 1, "create_network_interface", "NetworkInterface"),
            *("describe_network_interfaces", ("NetworkInterfaces",)),
            *("NetworkInterfaceId", "delete_network_interface", "NetworkInterfaceId"),
        ),
        ResourceType(
            *("placement-group", 2, "create_placement_group", "PlacementGroup"),
            *("describe_placement_groups", ("PlacementGroups",), "GroupId"),
            *("delete_placement_group", "GroupName", "GroupName"),
        ),
        ResourceType(
            *("security-group", 2, "create_security_group", ""),
            *("describe_security_groups", ("SecurityGroups",), "GroupId"),
            *("delete_security_group", "GroupId"),
        ),
        ResourceType(
            *("subnet", 2, "create_subnet", "Subnet"),
            *("describe_subnets", ("Subnets",), "SubnetId"),
            *("delete_subnet", "SubnetId"),
        ),
        _Gateway(
            *("internet-gateway", 2, "create_internet_gateway", "InternetGateway"),
            *("describe_internet_gateways", ("InternetGateways",)),
            *("InternetGatewayId", "delete_internet_gateway", "InternetGatewayId"),
        ),
        ResourceType(
            *("dedicated-host", 2, "allocate_hosts", "HostIds"),
            *("describe_hosts", ("Hosts",), "HostId"),
            *("release_hosts", "HostIds"),
            many=True,
        ),
        ResourceType(
            *("vpc", 3, "create_vpc", "Vpc"),
            *("describe_vpcs", ("Vpcs",), "VpcId"),
            *("delete_vpc", "VpcId"),
        ),
    )
}
"""By name, which is that in tags, too."""


class Maker(maker.Maker[Account, Mark]):
    """Creates the resources of a run. Thread-safe."""

    def make(self, account: Account, kind: str, name: str, **request: Any) -> str:
        """Make one resource of this name, and return its id. Raises ProviderError."""
        tagged = [*request.pop("TagSpecifications", ()), *tags_for(kind, self.mark, name)]
        whole, type_ = {**request, "TagSpecifications": tagged}, TYPES[kind]
        wanted = Creation(
            kind,
            name,
            lambda: type_.create(account, whole),
            lambda: type_.find(account, self.mark.run, name),
            str,
        )
        return self.create(account, wanted)

    def token(self, name: str) -> str:
        """Return the idempotency token for a resource of this name."""
        whole = f"{self.mark.run} {self.mark.made} {name}"
        return hashlib.sha256(whole.encode()).hexdigest()[:_MOST_TOKEN]
