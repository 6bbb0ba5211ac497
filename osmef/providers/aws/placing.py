"""Where EC2 is asked to put each instance: placement groups, or dedicated hosts."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from osmef.errors import CapacityError, ProviderError
from osmef.providers.aws.access import Account
from osmef.providers.aws.flavors import FlavorInfo
from osmef.providers.aws.making import Maker
from osmef.providers.base import EndpointRequest
from osmef.scenario.clouds.aws import AwsPlacedBy, AwsSettings

_MOST_PARTITIONS = 7
"""Of a placement group in one zone."""


def partitions_of(requests: Sequence[EndpointRequest]) -> dict[str, int]:
    """Return the partition of each host's slot: another one for each of a lane.

    Raises CapacityError where there are more than EC2 has.
    """
    lanes: dict[int, list[str]] = {}
    for request in requests:
        if request.host is not None:
            slots = lanes.setdefault(request.lane, [])
            slots += [request.host] * (request.host not in slots)
    most = max((len(slots) for slots in lanes.values()), default=0)
    if most > _MOST_PARTITIONS:
        raise CapacityError(
            f"{most} hosts are needed, and a placement group has {_MOST_PARTITIONS} partitions",
            where="provider.placement_by",
            cure="plan fewer hosts, or write placement_by: dedicated-host",
        )
    return {
        slot: number
        for slots in lanes.values()
        for number, slot in enumerate(sorted(slots, key=lambda slot: (len(slot), slot)), 1)
    }


def _kind_of_host(slot: str, flavors: Sequence[FlavorInfo]) -> dict[str, str]:
    """Return of which instance type or types a dedicated host has to be. Raises ProviderError."""
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
    """Makes placement groups and dedicated hosts as instances need them. Safe for threads."""

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
        """Return the placement to ask for, in a zone of this name. Raises ProviderError.

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
        parts = partitions_of(self.requests)
        count = {"PartitionCount": max(parts.values())}
        group = self._group(account, "partitions", "partition", count)
        return found | {"GroupName": group, "PartitionNumber": parts[slot]}

    def _group(
        self, account: Account, what: str, strategy: str, more: Mapping[str, Any] | None = None
    ) -> str:
        name = self.maker.mark.name(what)
        with self._lock:
            if (id(account), name) not in self._groups:
                self.maker.make(
                    account,
                    "placement-group",
                    name,
                    "create_placement_group",
                    lambda answer: answer["PlacementGroup"],
                    GroupName=name,
                    Strategy=strategy,
                    **(more or {}),
                )
                self._groups[id(account), name] = name
        return name

    def _host(self, account: Account, slot: str, zone: str, flavors: Sequence[FlavorInfo]) -> str:
        key = id(account), slot, zone
        with self._lock:
            # Those of a zone without room for all were given back.
            standing = {resource.id for resource, _account in self.maker.made}
            if self._hosts.get(key) not in standing:
                name = self.maker.mark.name(f"{slot}-{zone}")
                kind = _kind_of_host(slot, flavors)
                self._hosts[key] = self.maker.make(
                    account,
                    "dedicated-host",
                    name,
                    "allocate_hosts",
                    lambda answer: {"HostId": answer["HostIds"][0]},
                    AvailabilityZone=zone,
                    AutoPlacement="off",
                    Quantity=1,
                    ClientToken=self.maker.token(f"{name} {next(self._numbers)}"),
                    **kind,
                )
            return self._hosts[key]
