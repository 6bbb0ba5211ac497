"""What the settings name, looked up in a subscription: region, zones, sizes and image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from osmef.errors import CapacityError, NotFoundError, ProviderError
from osmef.providers.azure.access import Subscription, word
from osmef.providers.azure.images import Image, find_image
from osmef.providers.base import EndpointRequest
from osmef.providers.cards import check_cards
from osmef.providers.parallel import together
from osmef.scenario.clouds.azure import AzureSettings
from osmef.scenario.fields import FlavorNeed

_GIB = 2**30
Wanted = str | FlavorNeed


@dataclass(frozen=True)
class Size:
    """A size of VMs, as the list of SKUs shows it in one region.

    ``zones`` are the logical zones that have it, ``closed`` says why it can't be used in the
    region, None if it can; ``nics`` how many interfaces it has, None where Azure does not tell.
    """

    name: str
    family: str
    vcpus: int
    ram_bytes: int
    zones: frozenset[str]
    accelerated: bool
    architecture: str
    generations: frozenset[str]
    spot: bool
    closed: str | None
    nics: int | None = None


@dataclass(frozen=True)
class Names:
    """All that the settings name, as one subscription knows it.

    ``zones`` are the region's physical zones by the subscription's own names of them.
    """

    sizes: Mapping[str, Size]
    wanted: Mapping[Wanted, Size]
    images: Mapping[str, Image]
    zones: Mapping[str, str]

    def logical(self, zone: str | None) -> str | None:
        """Return the subscription's own name of a zone, also of one given by its physical name."""
        return _logical(self.zones, zone)

    def image_for(self, size: Size) -> Image:
        """Return the image that VMs of a size boot from."""
        return self.images[size.architecture]


def look_up(
    subscription: Subscription, settings: AzureSettings, requests: Sequence[EndpointRequest]
) -> Names:
    """Look all names up. Raises NotFoundError with what there is, CapacityError, ProviderError."""
    zones, sizes = together(
        lambda: _zones(subscription, settings.region), lambda: _sizes(subscription, settings.region)
    )
    asked = {request.flavor or settings.default_flavor for request in requests}
    wanted = {one: _size(sizes, one) for one in asked}
    for request in requests:
        size = wanted[request.flavor or settings.default_flavor]
        _refuse_unusable(settings, size, _logical(zones, request.zone or settings.zone), zones)
        check_cards(request, size.name, size.nics)
    images = {
        architecture: find_image(subscription, settings, architecture)
        for architecture in {size.architecture for size in wanted.values()}
    }
    for size in wanted.values():
        images[size.architecture].refuse_unfit(size.name, size.architecture, size.generations)
    return Names(sizes, wanted, images, zones)


def _zones(subscription: Subscription, region: str) -> dict[str, str]:
    """Return the region's physical zones by logical ones; a subscription has names of its own."""
    there = subscription.do(
        "listing regions",
        lambda: list(subscription.subscriptions.subscriptions.list_locations(subscription.id)),
    )
    for location in there:
        if location.name == region:
            mappings = location.availability_zone_mappings or ()
            return {str(m.logical_zone): str(m.physical_zone) for m in mappings}
    names = [str(location.name) for location in there]
    raise NotFoundError(
        f"there is no region {region!r}", where="provider.region", cure=_cure(names, region)
    )


def _logical(zones: Mapping[str, str], zone: str | None) -> str | None:
    return next((ours for ours, physical in zones.items() if physical == zone), zone)


def _cure(names: Iterable[str], wanted: str) -> str:
    known = sorted(names)
    close = get_close_matches(wanted, known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"use one of: {', '.join(known[:20])}" if known else "there is none at all"


def _sizes(subscription: Subscription, region: str) -> dict[str, Size]:
    there = subscription.do(
        "listing sizes",
        lambda: list(subscription.compute.resource_skus.list(filter=f"location eq '{region}'")),
    )
    return {str(sku.name): _info(sku) for sku in there if sku.resource_type == "virtualMachines"}


def _info(sku: Any) -> Size:
    can = {str(one.name): str(one.value) for one in sku.capabilities or ()}
    places = [place for place in sku.location_info or () if place.zones]
    zones = {str(zone) for place in places for zone in place.zones}
    closed = None
    for restriction in sku.restrictions or ():
        if restriction.type == "Zone":
            zones -= set(
                (restriction.restriction_info and restriction.restriction_info.zones) or ()
            )
        else:
            closed = word(restriction.reason_code) or "restricted"
    return Size(
        name=str(sku.name),
        family=str(sku.family),
        vcpus=int(can.get("vCPUsAvailable") or can.get("vCPUs") or 0),
        ram_bytes=int(float(can.get("MemoryGB") or 0) * _GIB),
        zones=frozenset(zones),
        accelerated=can.get("AcceleratedNetworkingEnabled") == "True",
        architecture=can.get("CpuArchitectureType", "x64"),
        generations=frozenset(can.get("HyperVGenerations", "V1").split(",")),
        spot=can.get("LowPriorityCapable") == "True",
        closed=closed,
        nics=int(can["MaxNetworkInterfaces"]) if "MaxNetworkInterfaces" in can else None,
    )


def _size(there: Mapping[str, Size], wanted: Wanted) -> Size:
    if isinstance(wanted, str):
        by_name = {name.lower(): size for name, size in there.items()}
        found = by_name.get(wanted.lower())
        if found is None:
            raise NotFoundError(
                f"there is no size {wanted!r} in this region",
                where="flavor",
                cure=_cure(there, wanted),
            )
        return found
    fitting = [
        size
        for size in there.values()
        if size.closed is None
        and size.architecture == "x64"
        and size.vcpus >= wanted.vcpus
        and size.ram_bytes >= (wanted.ram or 0)
    ]
    if not fitting:
        raise NotFoundError(
            f"no size has {wanted} that this subscription may use",
            where="flavor",
            cure="ask for less, or use another region",
        )
    return min(fitting, key=lambda s: (s.vcpus, s.ram_bytes, not s.accelerated, s.name))


def _refuse_unusable(
    settings: AzureSettings, size: Size, zone: str | None, zones: Mapping[str, str]
) -> None:
    """Raise CapacityError or ProviderError for a size that can't be used as it is asked for."""
    if size.closed is not None:
        raise CapacityError(
            f"the size {size.name} is not to be had in {settings.region}: {size.closed}",
            where="flavor",
            cure="use another size or region, or ask Azure to open it for the subscription",
        )
    if zone is not None and zone not in zones:
        raise NotFoundError(
            f"{settings.region} has no zone {zone!r}", where="zone", cure=_cure(zones, zone)
        )
    if zone is not None and zone not in size.zones:
        have = ", ".join(sorted(size.zones)) or "none"
        raise CapacityError(
            f"the size {size.name} is not to be had in zone {zone}",
            where="zone",
            cure=f"zones that have it: {have}",
        )
    if settings.accelerated and not size.accelerated:
        raise ProviderError(
            f"the size {size.name} has no accelerated networking",
            where="provider.accelerated",
            cure="use a size that has it, or leave the key out",
        )
    if settings.spot and not size.spot:
        raise CapacityError(
            f"the size {size.name} can't be had from spare capacity",
            where="provider.spot",
            cure="use another size, or spot: false",
        )
