"""Where instances really stand, as far as EC2 tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osmef.errors import PolicyError, ProviderError
from osmef.providers.aws.access import Account
from osmef.providers.aws.instances import Instance, list_standing
from osmef.providers.aws.kinds import Facts
from osmef.scenario.clouds.aws import AwsPlacedBy
from osmef.scenario.location import Location


def locations_of(instances: Sequence[Instance], by: AwsPlacedBy) -> dict[str, Location]:
    """Read back where instances run, by the ids of those that do. Raises ProviderError."""
    found: dict[str, Location] = {}
    for account in {id(i.order.account): i.order.account for i in instances}.values():
        ours = {i.id: i for i in instances if i.order.account is account}
        there = list_standing(account, list(ours))
        nodes = _nodes(account, [str(facts["InstanceId"]) for facts in there]) if there else {}
        for facts in there:
            instance = ours[str(facts["InstanceId"])]
            host = facts.get("Placement", {}).get("HostId")
            found[instance.id] = Location(
                host=host,
                host_scope=account.id if host is None else None,  # ids of hosts are Amazon's own
                rack=_rack(facts, by, nodes),
                zone=instance.order.zone,
                region=account.region,
                tenant=instance.order.site.label,
            )
    return found


def _rack(facts: Facts, by: AwsPlacedBy, nodes: Mapping[str, str]) -> str | None:
    """Return what tells instances apart that share no rack.

    Partitions of a group share none, and instances of a group that spreads them neither. Ids mean
    the same for all instances of a lane, and nothing beside those of another kind of group.
    """
    placement, key = facts.get("Placement", {}), str(facts["InstanceId"])
    group = placement.get("GroupName")
    if by is AwsPlacedBy.PARTITION and group:
        number = placement.get("PartitionNumber")
        return None if number is None else f"{group}/partition-{number}"
    if by is AwsPlacedBy.SPREAD and group:
        return f"{group}/{key}"
    return None if placement.get("HostId") else nodes.get(key)


def _nodes(account: Account, ids: Sequence[str]) -> dict[str, str]:
    """Return the node of EC2's network right above each instance, of the types that tell it."""
    try:
        answer = account.read(
            "describe_instance_topology", "reading the topology", InstanceIds=list(ids)
        )
    except PolicyError:
        raise
    except ProviderError:  # not in every region, nor for every instance type
        return {}
    return {
        str(one["InstanceId"]): str(one["NetworkNodes"][-1])
        for one in answer.get("Instances", ())
        if one.get("NetworkNodes")
    }
