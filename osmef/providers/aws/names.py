"""Look up all that the settings and requests name in an account, before anything is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from osmef.errors import CapacityError, ProviderError
from osmef.providers.aws import zones
from osmef.providers.aws.access import Account
from osmef.providers.aws.flavors import FlavorInfo, Wanted, find_flavors
from osmef.providers.aws.images import Image, find_image
from osmef.providers.base import EndpointRequest
from osmef.providers.cards import check_cards
from osmef.scenario.clouds.aws import AwsPlacedBy, AwsSettings

_GROUPS = {AwsPlacedBy.PARTITION, AwsPlacedBy.SPREAD, AwsPlacedBy.CLUSTER}


@dataclass(frozen=True)
class Names:
    """What an account has of what a run needs.

    Instance types by what was asked for, images by CPU architecture, the ids of zones by their
    names, and the ids of the zones that have each instance type.
    """

    flavors: Mapping[Wanted, FlavorInfo]
    images: Mapping[str, Image]
    zones: Mapping[str, str]
    offered: Mapping[str, set[str]]

    def zone_name(self, zone: str) -> str:
        """Return the account's own name of a zone, given by its id."""
        return next(name for name, key in self.zones.items() if key == zone)


def look_up(account: Account, settings: AwsSettings, requests: Sequence[EndpointRequest]) -> Names:
    """Look up instance types, images and zones. Raises ProviderError."""
    flavors = find_flavors(account, [r.flavor or settings.default_flavor for r in requests])
    for request in requests:
        flavor = flavors[request.flavor or settings.default_flavor]
        _check_placing(flavor, request, settings)
        check_cards(request, flavor.name, flavor.nics)
    images = {
        architecture: find_image(account, settings, architecture)
        for architecture in {flavor.architecture for flavor in flavors.values()}
    }
    for flavor in flavors.values():
        image = images[flavor.architecture]
        if flavor.ena and not image.ena:
            raise ProviderError(
                f"the image {image.id} has no driver for the enhanced networking of {flavor.name}",
                where="provider.image",
                cure="use an image with ENA support, as all of the last years have",
            )
    there = zones.zones_of(account)
    offered = zones.offering(account, [flavor.name for flavor in flavors.values()])
    for request in requests:
        flavor = flavors[request.flavor or settings.default_flavor]
        if settings.is_ambiguous(request.zone):
            raise ProviderError(
                f"the zone {request.zone} means another place in each account",
                where=request.name,
                cure=f"write its id: {zones.id_of(there, str(request.zone))}",
            )
        _check_zone(flavor.name, request.zone or settings.zone, there, offered)
    return Names(flavors, images, there, offered)


def free_zones(
    names: Mapping[str, Names], settings: AwsSettings, requests: Sequence[EndpointRequest]
) -> list[str]:
    """Return the ids of the zones that have all that requests without a zone ask for, in order.

    ``names`` are those of the tenants by their slots. Raises CapacityError where there is none.
    """
    offered = []
    for request in requests:
        if request.zone is None:
            there = names[str(request.tenant)]
            flavor = there.flavors[request.flavor or settings.default_flavor].name
            offered.append({flavor: there.offered[flavor]})
    return zones.candidates([one.zones for one in names.values()], offered)


def _check_zone(
    flavor: str, wanted: str | None, there: Mapping[str, str], offered: Mapping[str, set[str]]
) -> None:
    if wanted is None:
        return
    zone = zones.id_of(there, wanted)
    if zone not in offered[flavor]:
        has = [f"{name} ({key})" for name, key in sorted(there.items()) if key in offered[flavor]]
        raise CapacityError(
            f"the zone {wanted} has no {flavor}",
            where="provider.zone",
            cure=f"use one of: {', '.join(has)}" if has else "use another instance type",
        )


def _check_placing(flavor: FlavorInfo, request: EndpointRequest, settings: AwsSettings) -> None:
    by = settings.placement_by
    placed = request.host is not None or by is AwsPlacedBy.CLUSTER
    if placed and by in _GROUPS and by.value not in flavor.groups:
        raise ProviderError(
            f"{flavor.name} can't be in a placement group of strategy {by}",
            where=request.name,
            cure="use another instance type, or another provider.placement_by",
        )
    if placed and by is AwsPlacedBy.DEDICATED_HOST and not flavor.hosts:
        raise ProviderError(
            f"there are no dedicated hosts for {flavor.name}",
            where=request.name,
            cure="use another instance type",
        )
