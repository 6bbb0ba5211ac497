"""Placement of VMs: zones, availability sets, proximity groups, dedicated hosts.

An availability set spreads VMs over fault domains, which share no rack. It holds within one network
of one region only, not in a zone, and not for spot VMs. Only a dedicated host promises one host to
several VMs. Source: Microsoft's "Availability sets overview", "Error messages for Azure Spot
Virtual Machines", "Azure Dedicated Hosts", "Proximity placement groups".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osmef.providers.azure.network import TenantNet
from osmef.providers.azure.resource_types import Body, Maker, body_in
from osmef.providers.base import EndpointRequest, Problem
from osmef.providers.cloud.lookup import HostRules
from osmef.providers.parallel import map_by_key
from osmef.scenario.clouds.azure import AzureSettings
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.model import Scenario
from osmef.scenario.study import Cell

FAULT_DOMAINS = 2
"""Every region has at least two for availability sets; some have no more."""
_UPDATE_DOMAINS = 5

_Lane = tuple[str, int]
"""A lane of a tenant, or of a subscription."""
_Slot = tuple[str, str | None, str]
"""A host of the plan in a subscription and a zone."""


@dataclass(frozen=True)
class VmPlacement:
    """Requested placement of a VM: a zone and resource ids, each None where Azure chooses."""

    zone: str | None = None
    availability_set: str | None = None
    proximity: str | None = None
    host: str | None = None

    @property
    def properties(self) -> dict[str, Any]:
        """Return it as properties of a VM."""
        found = {
            "availabilitySet": self.availability_set,
            "proximityPlacementGroup": self.proximity,
            "host": self.host,
        }
        return {key: {"id": value} for key, value in found.items() if value is not None}


def needs_set(settings: AzureSettings, members: Sequence[EndpointRequest]) -> bool:
    """Return whether an availability set is to spread the VMs of a tenant in a lane."""
    taken = settings.dedicated_host is not None or settings.spot
    free = not taken and all(zone_of(settings, member) is None for member in members)
    return free and len({member.host for member in members} - {None}) > 1


def zone_of(settings: AzureSettings, request: EndpointRequest) -> str | None:
    """Return the requested zone of an endpoint, None without one."""
    return request.zone or settings.zone


@dataclass(frozen=True)
class Placer:
    """Creates the placement resources of VMs. Every method raises ProviderError."""

    maker: Maker
    settings: AzureSettings
    nets: Mapping[str, TenantNet]

    def place(self, requests: Sequence[EndpointRequest]) -> dict[str, VmPlacement]:
        """Return the placement of each request by name."""
        lanes: dict[_Lane, list[EndpointRequest]] = defaultdict(list)
        for request in requests:
            lanes[str(request.tenant), request.lane].append(request)
        near = self._proximity_groups(requests)
        sets = self._availability_sets(lanes, near)
        hosts = self._hosts(requests)
        return {
            request.name: VmPlacement(
                zone=self._zone(request),
                # Others would take up its fault domains.
                availability_set=sets.get((str(request.tenant), request.lane))
                if request.host
                else None,
                proximity=near.get(self._vicinity(request)),
                host=hosts.get(self._slot(request)),
            )
            for request in requests
        }

    def _zone(self, request: EndpointRequest) -> str | None:
        zones, zone = self.nets[str(request.tenant)].offers.zones, zone_of(self.settings, request)
        return None if zone is None else zones.name_of(zones.id_of(zone))

    def _account(self, request: EndpointRequest) -> str:
        return self.nets[str(request.tenant)].account.id

    def _slot(self, request: EndpointRequest) -> _Slot:
        return self._account(request), self._zone(request), request.host or ""

    def _vicinity(self, request: EndpointRequest) -> _Lane:
        return self._account(request), request.lane

    def _net_of(self, account: str) -> TenantNet:
        """Return the first tenant's network of a subscription: it holds what its tenants share."""
        return next(net for net in self.nets.values() if net.account.id == account)

    def _proximity_groups(self, requests: Sequence[EndpointRequest]) -> dict[_Lane, str]:
        if not self.settings.proximity:
            return {}

        def make(vicinity: _Lane) -> str:
            account, lane = vicinity
            net = self._net_of(account)
            return self._make(net, "proximity-group", f"near-{lane}", self._body())

        wanted = sorted({self._vicinity(request) for request in requests})
        return map_by_key(make, wanted)

    def _availability_sets(
        self, lanes: Mapping[_Lane, Sequence[EndpointRequest]], near: Mapping[_Lane, str]
    ) -> dict[_Lane, str]:
        def make(key: _Lane) -> str:
            tenant, lane = key
            within = VmPlacement(proximity=near.get(self._vicinity(lanes[key][0])))
            counts = {"platformFaultDomainCount": FAULT_DOMAINS}
            counts["platformUpdateDomainCount"] = _UPDATE_DOMAINS
            body = self._body(**counts, **within.properties)
            body["sku"] = {"name": "Aligned"}
            return self._make(self.nets[tenant], "availability-set", f"apart-{lane}", body)

        wanted = sorted(key for key, ones in lanes.items() if needs_set(self.settings, ones))
        return map_by_key(make, wanted)

    def _hosts(self, requests: Sequence[EndpointRequest]) -> dict[_Slot, str]:
        """Create a dedicated host for each slot in a zone, in one group a zone."""
        if self.settings.dedicated_host is None:
            return {}
        slots = list(dict.fromkeys(self._slot(request) for request in requests if request.host))
        groups: dict[tuple[str, str | None], str] = {}
        keys = sorted({(account, zone) for account, zone, _ in slots}, key=str)
        for number, key in enumerate(keys, 1):
            groups[key] = f"hosts-{number}"
            body = self._body(platformFaultDomainCount=1, supportAutomaticPlacement=False)
            if key[1] is not None:
                body["zones"] = [key[1]]
            self._make(self._net_of(key[0]), "host-group", groups[key], body)

        def make(one: _Slot) -> str:
            account, zone, slot = one
            body = self._body(platformFaultDomain=0, autoReplaceOnFailure=False)
            body["sku"] = {"name": self.settings.dedicated_host}
            name = f"{groups[account, zone]}/{slot}"
            return self._make(self._net_of(account), "dedicated-host", name, body)

        return map_by_key(make, slots)

    def _body(self, **properties: Any) -> Body:
        return body_in(self.settings.region, **properties)

    def _make(self, net: TenantNet, kind: str, name: str, body: Body) -> str:
        """Make one in a network's group, and return its id."""
        return str(self.maker.make(net.account, kind, net.path(name), **body).id)


def problems_of(settings: AzureSettings, cell: Cell) -> Iterator[Problem]:
    """Yield what is not supported for a cell of two ends."""
    scenario, why = cell.scenario, _unknown_hosts(settings, cell.scenario)
    ask = "name a type of dedicated hosts in provider.dedicated_host"
    rules = HostRules(
        own="a dedicated host",
        owner="subscription",
        given=settings.dedicated_host is not None,
        ask=ask,
        near="placement: any with provider.proximity",
        unknown=why and f"{why}, and Azure does not report whether hosts differ there",
        cure=f"give the ends two zones, {ask}, or write placement: any, or on_mismatch: record",
    )
    yield from _zones(settings, scenario)
    yield from rules.of_several(scenario)
    yield from rules.problems_of(settings, scenario)


def _zones(settings: AzureSettings, scenario: Scenario) -> Iterator[Problem]:
    ends = scenario.endpoints.given_ends.items()
    named = {"provider": settings.zone, **{f"endpoints.{name}": end.zone for name, end in ends}}
    for key, zone in named.items():
        if zone is not None and zone.isdigit() and len(settings.tenants or ()) > 1:
            cure = f"write its physical name, such as {settings.region}-az1"
            message = "the number of a zone means another place in each subscription"
            yield (f"{key}.zone", message, cure)
    zones = {*scenario.zones_of_ends} - {None}
    if settings.proximity and len(zones) > 1:
        cure = "write one zone for both ends, or leave provider.proximity out"
        yield ("endpoints", "a proximity group is in one zone", cure)


def _are_apart(zones: tuple[str | None, str | None]) -> bool:
    """Return whether two zones are certainly different."""
    here, there = zones
    if here is None or there is None:
        return False
    return here != there and here.isdigit() == there.isdigit()


def warnings_of(settings: AzureSettings, cell: Cell) -> Iterator[str]:
    """Yield what Azure does not guarantee for a cell, and the cure."""
    why = _unknown_hosts(settings, cell.scenario)
    if why is not None:
        yield f"{why}: whether hosts differ is left to chance, and not reported"


def _unknown_hosts(settings: AzureSettings, scenario: Scenario) -> str | None:
    """Return why it is unknown whether hosts differ, None if it is known."""
    zones, given = scenario.zones_of_ends, settings.dedicated_host is not None
    if scenario.placement is not Placement.DIFFERENT_HOST or given or _are_apart(zones):
        return None
    if scenario.tenancy is Tenancy.DIFFERENT_TENANT:
        return "availability sets do not reach across tenants"
    if zones != (None, None):
        return "there are no availability sets in a zone"
    return "spot VMs take no availability set" if settings.spot else None
