"""Placement of instances: requested, not guaranteed, and as read back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from osmef.errors import NotFoundError, PolicyError, ProviderError
from osmef.providers.aws.access import ENDED, ERRORS, Account, where
from osmef.providers.aws.lookup import FlavorInfo
from osmef.providers.aws.resource_types import Facts, Maker, token_of
from osmef.providers.base import EndpointRequest, Problem
from osmef.providers.cloud.lookup import HostRules, host_numbers
from osmef.providers.cloud.provisioning import Vm
from osmef.scenario.clouds.aws import AwsPlacedBy, AwsSettings
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.location import Location
from osmef.scenario.study import Cell

_MOST_PARTITIONS, _MOST_DEDICATED, _MOST_SPREAD = 7, 2, 7
"""Partitions of a placement group in one zone, also where its instances are dedicated ones, and
instances of a spread group there."""
_KEY = "provider.placement_by"
_FEWER = "plan fewer hosts, or write placement_by: dedicated-host"


def check_groups(settings: AwsSettings, requests: Sequence[EndpointRequest]) -> None:
    """Raise CapacityError where placement groups can't keep as many hosts apart as are needed."""
    if settings.placement_by is AwsPlacedBy.PARTITION:
        partitions_of(settings, requests)
    if settings.placement_by is AwsPlacedBy.SPREAD:
        zones = [request.zone or settings.zone for request in requests]
        for zone in dict.fromkeys(zones):
            here = [one for one, where in zip(requests, zones, strict=True) if where == zone]
            what = "instances of a spread group in one zone"
            host_numbers(here, _MOST_SPREAD, what, _KEY, _FEWER)


def partitions_of(settings: AwsSettings, requests: Sequence[EndpointRequest]) -> dict[str, int]:
    """Return the partition of each host slot: a different one for each of a lane.

    Raises CapacityError where there are more than EC2 has.
    """
    most, what, cure = _MOST_PARTITIONS, "partitions of a placement group", _FEWER
    if settings.dedicated:
        most, what = _MOST_DEDICATED, f"{what} of dedicated instances"
        cure = f"{cure} in place of dedicated, or leave that out"
    numbers = host_numbers(requests, most, what, _KEY, cure)
    return {slot: number + 1 for (_lane, slot), number in numbers.items()}


def _kind_of_host(slot: str, flavors: Sequence[FlavorInfo]) -> dict[str, Any]:
    """Return the instance type or family of a dedicated host. Raises ProviderError."""
    types = sorted({flavor.name for flavor in flavors})
    families = sorted({flavor.family for flavor in flavors})
    if len(families) > 1:
        raise ProviderError(
            f"a dedicated host is of one family, and {slot} is to have {' and '.join(types)}",
            where="flavor",
            cure=f"use instance types of one family, such as {families[0]}",
        )
    return {"InstanceType": types[0]} if len(types) == 1 else {"InstanceFamily": families[0]}


@dataclass
class Placer:
    """Creates placement groups and dedicated hosts as instances need them. Thread-safe."""

    maker: Maker
    settings: AwsSettings
    requests: Sequence[EndpointRequest]
    _groups: dict[tuple[int, str], str] = field(default_factory=dict)
    """Names by account and name."""
    _hosts: dict[tuple[int, str, str], str] = field(default_factory=dict)
    """Ids by account, slot and zone."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def place(
        self, account: Account, request: EndpointRequest, zone: str, flavors: Sequence[FlavorInfo]
    ) -> dict[str, Any]:
        """Return the placement to request, in a zone of this name. Raises ProviderError.

        ``flavors`` are the instance types of all that share its host, which is of one account.
        """
        by, slot = self.settings.placement_by, request.host
        found: dict[str, Any] = {"Tenancy": "dedicated"} if self.settings.dedicated else {}
        if by is AwsPlacedBy.CLUSTER:
            return found | {"GroupName": self._group(account, f"cluster-{request.lane}", "cluster")}
        if slot is None:
            return found
        if by is AwsPlacedBy.DEDICATED_HOST:
            return {"Tenancy": "host", "HostId": self._host(account, slot, zone, flavors)}
        if by is AwsPlacedBy.SPREAD:
            return found | {"GroupName": self._group(account, f"spread-{request.lane}", "spread")}
        parts = partitions_of(self.settings, self.requests)
        count = {"PartitionCount": max(parts.values())}
        group = self._group(account, "partitions", "partition", count)
        return found | {"GroupName": group, "PartitionNumber": parts[slot]}

    def _group(
        self, account: Account, what: str, strategy: str, more: Mapping[str, Any] | None = None
    ) -> str:
        name = self.maker.mark.name(what)
        with self._lock:
            if (id(account), name) not in self._groups:
                reported = {"GroupName": name, "Strategy": strategy, **(more or {})}
                self.maker.make(account, "placement-group", name, **reported)
                self._groups[id(account), name] = name
        return name

    def _host(self, account: Account, slot: str, zone: str, flavors: Sequence[FlavorInfo]) -> str:
        key = id(account), slot, zone
        with self._lock:
            # Those of a zone without capacity for all were given back.
            existing = {resource.id for resource, _account in self.maker.made}
            if self._hosts.get(key) not in existing:
                name = self.maker.mark.name(f"{slot}-{zone}")
                self._hosts[key] = self.maker.make(
                    *(account, "dedicated-host", name),
                    AvailabilityZone=zone,
                    AutoPlacement="off",
                    Quantity=1,
                    ClientToken=token_of(self.maker.mark, f"{name} {next(self._numbers)}"),
                    **_kind_of_host(slot, flavors),
                )
            return self._hosts[key]


def locations_of(instances: Sequence[Vm[Any]], by: AwsPlacedBy) -> dict[str, Location]:
    """Read back the locations of running instances, by id. Raises ProviderError."""
    found: dict[str, Location] = {}
    for account in {id(i.spec.account): i.spec.account for i in instances}.values():
        ours = {i.id: i for i in instances if i.spec.account is account}
        there = _list_running(account, list(ours))
        nodes = _nodes(account, [str(facts["InstanceId"]) for facts in there]) if there else {}
        for facts in there:
            instance = ours[str(facts["InstanceId"])]
            host = facts.get("Placement", {}).get("HostId")
            found[instance.id] = Location(
                host=host,
                host_scope=account.id if host is None else None,  # ids of hosts are Amazon's own
                rack=_rack(facts, by, nodes),
                zone=instance.spec.zone,
                region=account.region,
                tenant=instance.spec.net.label,
            )
    return found


def _list_running(account: Account, ids: Sequence[str]) -> list[Facts]:
    """List those of the instances that still run. Raises ProviderError."""
    end = time.monotonic() + account.waits.gone_s

    def again(error: Exception) -> bool:
        late = ERRORS.is_gone(error) and time.monotonic() < end
        return late or ERRORS.is_transient(error)

    try:
        found = account.list_instances(again=again, InstanceIds=list(ids))
    except NotFoundError:  # some were taken back, and forgotten since, as those of spot are
        found = account.list_instances(Filters=where(instance_id=ids))
    return [one for one in found if one["State"]["Name"] not in ENDED]


def _rack(facts: Facts, by: AwsPlacedBy, nodes: Mapping[str, str]) -> str | None:
    """Return the rack's identity, by which instances in different racks differ.

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
    """Return the lowest network node of each instance, for types that report it."""
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


def problems_of(settings: AwsSettings, cell: Cell) -> Iterator[Problem]:
    """Yield what is not supported for a cell of two ends."""
    scenario, by = cell.scenario, settings.placement_by
    apart = scenario.placement is Placement.DIFFERENT_HOST
    across = scenario.tenancy is Tenancy.DIFFERENT_TENANT and settings.tenants is not None
    yield from HostRules(
        own="a dedicated host",
        owner="account",
        given=by is AwsPlacedBy.DEDICATED_HOST,
        ask="write provider.placement_by: dedicated-host",
        near="placement: any with placement_by: cluster",
    ).problems_of(settings, scenario)
    if by is AwsPlacedBy.CLUSTER and len(set(scenario.zones_of_ends)) > 1:
        cure = "write one zone for both ends, or provider.placement_by: partition"
        yield ("endpoints", "a cluster is in one zone", cure)
    if by is AwsPlacedBy.CLUSTER and apart:
        cure = "write provider.placement_by: partition or spread, or placement: any"
        yield ("placement", "a cluster keeps instances near each other, on one host or not", cure)
    elif across and apart and by is not AwsPlacedBy.DEDICATED_HOST:
        cure = (
            "leave provider.tenants out (each tenant is a VPC then), or write placement_by:"
            " dedicated-host"
        )
        yield ("placement", "a placement group does not reach across accounts", cure)
    if by is AwsPlacedBy.SPREAD and apart and scenario.shares_hosts:
        cure = "write provider.placement_by: partition or dedicated-host"
        yield ("placement", "several instances of one end are spread, too", cure)


def warnings_of(settings: AwsSettings, cell: Cell) -> Iterator[str]:
    """Yield what EC2 does not guarantee for a cell, and the cure."""
    scenario = cell.scenario
    if not settings.priced_by_flavor:
        yield "hardware for you alone has prices of its own, which no price list here holds"
    apart = scenario.placement is Placement.DIFFERENT_HOST and scenario.shares_hosts
    if apart and settings.placement_by is AwsPlacedBy.PARTITION:
        yield "several instances of one end share a partition, not for sure a host"
    if scenario.tenancy is Tenancy.DIFFERENT_TENANT:
        yield "traffic between tenants goes over public addresses, and Amazon charges for it"
