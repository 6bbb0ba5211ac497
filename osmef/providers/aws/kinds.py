"""The kinds of things that a run makes: how to list those of ours, and how to delete one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from osmef.errors import NotFoundError
from osmef.providers.aws import failures
from osmef.providers.aws.access import Account
from osmef.providers.base import Resource, Unread, pass_over
from osmef.providers.marks import Mark

PROVIDER = "aws"
_KEY = "osmef_run"
_NAME = "Name"
_GONE = {"terminated", "released", "released-permanent-failure", "deleted"}

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Thing:
    """Something of ours that exists: its kind, id and name, its mark, and where it is."""

    kind: str
    id: str
    name: str
    mark: Mark
    account: Account
    facts: Facts = field(repr=False)

    @property
    def resource(self) -> Resource:
        """The same, as the engine knows it."""
        return self.mark.resource(PROVIDER, self.kind, self.name, self.account.access, self.id)


@dataclass(frozen=True)
class Kind:
    """A kind of thing: its name in tags, the action that lists it, and how to delete one.

    ``path`` are the keys to the list in an answer, ``id`` is that of a thing's id. ``delete`` is
    the action, ``key`` what it names the thing by, as ``by`` says; ``many`` if it takes a list.
    """

    name: str
    action: str
    path: Sequence[str]
    id: str
    delete: str
    key: str
    by: str | None = None
    many: bool = False

    def owned(self, account: Account, run: str | None, unread: Unread = pass_over) -> list[Thing]:
        """List those that carry our mark, of one run or all. Raises ProviderError."""
        request: dict[str, Any] = {self._filters: [{"Name": "tag-key", "Values": [_KEY]}]}
        answer = account.read(self.action, f"listing what is a {self.name}", **request)
        things = (self._thing(one, account, unread) for one in _walk(answer, self.path))
        return [one for one in things if one is not None and run in {None, one.mark.run}]

    @property
    def _filters(self) -> str:
        """What its action calls filters."""
        return "Filter" if self.action == "describe_hosts" else "Filters"

    def find(self, account: Account, run: str, name: str) -> Thing | None:
        """Look for one of a run by its name. Raises ProviderError."""
        return next((one for one in self.owned(account, run) if one.name == name), None)

    def look(self, account: Account, id_: str) -> Thing | None:
        """Look at one by its id, which EC2 knows before it lists it by tag. Raises ProviderError.

        None where there is none, or it is not ours, or it is gone already.
        """
        request: dict[str, Any] = {f"{self.id}s": [id_]}
        try:
            answer = account.read(self.action, f"looking at the {self.name} {id_}", **request)
        except NotFoundError:
            return None
        things = (self._thing(one, account) for one in _walk(answer, self.path))
        return next((one for one in things if one is not None and one.id == id_), None)

    def _thing(self, facts: Facts, account: Account, unread: Unread = pass_over) -> Thing | None:
        told = facts.get("Tags") or facts.get("TagSet", ())  # of interfaces
        tags = {tag.get("Key", ""): tag.get("Value", "") for tag in told}
        state, id_ = facts.get("State"), str(facts.get(self.id, ""))
        if (state.get("Name") if isinstance(state, dict) else state) in _GONE:
            return None
        mark = Mark.of_listed(tags, f"{account.name}: {self.name} {id_ or 'of no id'}", unread)
        if mark is None or not id_ or not facts.get(self.by or self.id):
            return None
        return Thing(self.name, id_, tags.get(_NAME, ""), mark, account, facts)

    def remove(self, thing: Thing) -> None:
        """Delete one; an instance is only on its way then. Gone already is success.

        Raises ProviderError.
        """
        what = thing.facts[self.by or self.id]
        account, doing = thing.account, f"deleting the {self.name} {thing.name or thing.id}"
        if self.name == "internet-gateway":
            _detach(thing, doing)
        request: dict[str, Any] = {self.key: [what] if self.many else what}
        call = partial(account.ask, self.delete, **request)
        account.do(partial(_unless_gone, call), doing, failures.is_in_use)


def _unless_gone(call: partial[Facts]) -> Facts:
    try:
        answer = call()
        failures.raise_unsuccessful(answer, "ReleaseHosts")
    except failures.LIBRARY_ERRORS as error:
        if not failures.is_missing(error):
            raise
        return {}
    return answer


def _detach(gateway: Thing, doing: str) -> None:
    for attached in gateway.facts.get("Attachments", ()):
        call = partial(
            gateway.account.ask,
            "detach_internet_gateway",
            InternetGatewayId=gateway.id,
            VpcId=attached["VpcId"],
        )
        gateway.account.do(partial(_unless_gone, call), doing, failures.is_in_use)


def _walk(answer: Facts, path: Sequence[str]) -> Iterable[Facts]:
    first, *rest = path
    for one in answer.get(first, ()):
        if rest:
            yield from _walk(one, rest)
        else:
            yield one


def tags_for(kind: str, mark: Mark, name: str) -> list[dict[str, Any]]:
    """Return the mark as a request to make a thing takes it."""
    tags = {**mark.tags, _NAME: name}
    return [{"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "instance",
            *("describe_instances", ("Reservations", "Instances"), "InstanceId"),
            *("terminate_instances", "InstanceIds"),
            many=True,
        ),
        Kind(
            "key-pair",
            *("describe_key_pairs", ("KeyPairs",), "KeyPairId"),
            *("delete_key_pair", "KeyName"),
            by="KeyName",
        ),
        Kind(
            "placement-group",
            *("describe_placement_groups", ("PlacementGroups",), "GroupId"),
            *("delete_placement_group", "GroupName"),
            by="GroupName",
        ),
        Kind(
            "security-group",
            *("describe_security_groups", ("SecurityGroups",), "GroupId"),
            *("delete_security_group", "GroupId"),
        ),
        Kind(
            "network-interface",
            *("describe_network_interfaces", ("NetworkInterfaces",), "NetworkInterfaceId"),
            *("delete_network_interface", "NetworkInterfaceId"),
        ),
        Kind("subnet", "describe_subnets", ("Subnets",), "SubnetId", "delete_subnet", "SubnetId"),
        Kind(
            "internet-gateway",
            *("describe_internet_gateways", ("InternetGateways",), "InternetGatewayId"),
            *("delete_internet_gateway", "InternetGatewayId"),
        ),
        Kind("vpc", "describe_vpcs", ("Vpcs",), "VpcId", "delete_vpc", "VpcId"),
        Kind(
            "dedicated-host",
            *("describe_hosts", ("Hosts",), "HostId"),
            *("release_hosts", "HostIds"),
            many=True,
        ),
    )
}
"""By name, which is that in tags, too."""
