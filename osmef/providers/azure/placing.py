"""Where Azure is asked to put each VM: zones, availability sets, proximity groups, own hosts.

An availability set spreads VMs over fault domains, which share no rack. It holds within one network
of one region only, not in a zone, and not for spot VMs. Only a dedicated host promises one host to
several VMs. Source: Microsoft's "Availability sets overview", "Error messages for Azure Spot
Virtual Machines", "Azure Dedicated Hosts", "Proximity placement groups".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osmef.providers.azure.making import Maker
from osmef.providers.azure.sites import Site
from osmef.providers.base import EndpointRequest
from osmef.providers.parallel import side_by_side
from osmef.scenario.clouds.azure import AzureSettings

FAULT_DOMAINS = 2
"""Every region has at least two for availability sets; some have no more."""
_UPDATE_DOMAINS = 5

_Slot = tuple[str, str | None, str]
"""A host of the plan in a subscription and a zone."""


@dataclass(frozen=True)
class Place:
    """Where a VM is asked to be: a zone and resource ids, each None where Azure may choose."""

    zone: str | None = None
    availability_set: str | None = None
    proximity: str | None = None
    host: str | None = None

    @property
    def properties(self) -> dict[str, Any]:
        """The same as properties of a VM."""
        found = {
            "availabilitySet": self.availability_set,
            "proximityPlacementGroup": self.proximity,
            "host": self.host,
        }
        return {key: {"id": value} for key, value in found.items() if value is not None}


def needs_set(settings: AzureSettings, members: Sequence[EndpointRequest]) -> bool:
    """Tell whether the VMs of one tenant in one lane are to be spread by an availability set."""
    taken = settings.dedicated_host is not None or settings.spot
    free = not taken and all(zone_of(settings, member) is None for member in members)
    return free and len({member.host for member in members} - {None}) > 1


def zone_of(settings: AzureSettings, request: EndpointRequest) -> str | None:
    """Return the zone that an endpoint is asked for in, None for none."""
    return request.zone or settings.zone


class Placer:
    """Makes what places VMs, and tells the place of each. Every method raises ProviderError."""

    def __init__(self, maker: Maker, settings: AzureSettings, sites: Mapping[str, Site]) -> None:
        self._maker = maker
        self._settings = settings
        self._sites = sites

    def place(self, requests: Sequence[EndpointRequest]) -> dict[str, Place]:
        """Return the place of each request by its name."""
        lanes: dict[tuple[str, int], list[EndpointRequest]] = defaultdict(list)
        for request in requests:
            lanes[str(request.tenant), request.lane].append(request)
        near = self._proximity_groups(requests)
        sets = self._availability_sets(lanes, near)
        hosts = self._hosts(requests)
        return {
            request.name: Place(
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
        names = self._sites[str(request.tenant)].names
        return names.logical(zone_of(self._settings, request))

    def _account(self, request: EndpointRequest) -> str:
        return self._sites[str(request.tenant)].subscription.id

    def _slot(self, request: EndpointRequest) -> _Slot:
        return self._account(request), self._zone(request), request.host or ""

    def _vicinity(self, request: EndpointRequest) -> tuple[str, int]:
        return self._account(request), request.lane

    def _site_of(self, account: str) -> Site:
        """Return the first tenant's site of a subscription: it holds what its tenants share."""
        return next(site for site in self._sites.values() if site.subscription.id == account)

    def _proximity_groups(self, requests: Sequence[EndpointRequest]) -> dict[tuple[str, int], str]:
        if not self._settings.proximity:
            return {}

        def make(vicinity: tuple[str, int]) -> str:
            account, lane = vicinity
            site = self._site_of(account)
            body: dict[str, Any] = {"location": self._settings.region, "properties": {}}
            name = f"{site.group}/near-{lane}"
            return str(self._maker.make(site.subscription, "proximity-group", name, body).id)

        wanted = sorted({self._vicinity(request) for request in requests})
        return dict(zip(wanted, side_by_side(make, wanted), strict=True))

    def _availability_sets(
        self,
        lanes: Mapping[tuple[str, int], Sequence[EndpointRequest]],
        near: Mapping[tuple[str, int], str],
    ) -> dict[tuple[str, int], str]:
        def make(key: tuple[str, int]) -> str:
            tenant, lane = key
            site = self._sites[tenant]
            proximity = near.get(self._vicinity(lanes[key][0]))
            properties: dict[str, Any] = {
                "platformFaultDomainCount": FAULT_DOMAINS,
                "platformUpdateDomainCount": _UPDATE_DOMAINS,
            }
            if proximity is not None:
                properties["proximityPlacementGroup"] = {"id": proximity}
            body = {
                "location": self._settings.region,
                "sku": {"name": "Aligned"},
                "properties": properties,
            }
            name = f"{site.group}/apart-{lane}"
            return str(self._maker.make(site.subscription, "availability-set", name, body).id)

        wanted = sorted(key for key, ones in lanes.items() if needs_set(self._settings, ones))
        return dict(zip(wanted, side_by_side(make, wanted), strict=True))

    def _hosts(self, requests: Sequence[EndpointRequest]) -> dict[_Slot, str]:
        """Make a dedicated host for each slot in a zone, all of a zone in one group."""
        if self._settings.dedicated_host is None:
            return {}
        slots = list(dict.fromkeys(self._slot(request) for request in requests if request.host))
        groups: dict[tuple[str, str | None], str] = {}
        for number, key in enumerate(
            sorted({(account, zone) for account, zone, _ in slots}, key=str), 1
        ):
            groups[key] = self._host_group(*key, number)

        def make(one: _Slot) -> str:
            account, zone, slot = one
            site = self._site_of(account)
            body = {
                "location": self._settings.region,
                "sku": {"name": self._settings.dedicated_host},
                "properties": {"platformFaultDomain": 0, "autoReplaceOnFailure": False},
            }
            name = f"{groups[account, zone]}/{slot}"
            return str(self._maker.make(site.subscription, "dedicated-host", name, body).id)

        return dict(zip(slots, side_by_side(make, slots), strict=True))

    def _host_group(self, account: str, zone: str | None, number: int) -> str:
        site = self._site_of(account)
        body: dict[str, Any] = {
            "location": self._settings.region,
            "properties": {"platformFaultDomainCount": 1, "supportAutomaticPlacement": False},
        }
        if zone is not None:
            body["zones"] = [zone]
        name = f"{site.group}/hosts-{number}"
        self._maker.make(site.subscription, "host-group", name, body)
        return name
