"""Lookup of the settings in a subscription: region, zones, sizes, image, quotas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osmef.errors import CapacityError, NotFoundError, ProviderError
from osmef.providers.azure.access import ERRORS, Subscription, word
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud.errors import Meaning
from osmef.providers.cloud.lookup import (
    Flavor,
    Offers,
    Quota,
    WantedFlavor,
    Zones,
    compare_quotas,
    known_names,
    smallest,
)
from osmef.providers.parallel import map_by_key, run_concurrently
from osmef.scenario.clouds.azure import AzureSettings
from osmef.units import parse_count

_BURSTABLE = re.compile("Standard_B[0-9]", re.IGNORECASE)


@dataclass(frozen=True)
class Size(Flavor):
    """A size of VMs, as listed among the SKUs of one region.

    ``plain`` is whether it has CPUs of its own, and neither GPUs nor confidential memory, with
    which VMs are made differently. ``closed`` says why it can't be used in the region, None if it
    can.
    """

    family: str
    accelerated: bool
    generations: frozenset[str]
    spot: bool
    plain: bool
    closed: str | None


def look_up(
    subscription: Subscription, settings: AzureSettings, requests: Sequence[EndpointRequest]
) -> Offers[Size, Image]:
    """Look up all names. Raises NotFoundError with the known ones, CapacityError, ProviderError."""
    region = settings.region
    zones, skus = run_concurrently(
        lambda: _zones(subscription, region),
        lambda: subscription.do(
            "listing sizes",
            lambda: list(subscription.compute.resource_skus.list(filter=f"location eq '{region}'")),
        ),
    )
    sizes = [_info(sku, zones) for sku in skus if sku.resource_type == "virtualMachines"]
    asked = {request.flavor or settings.default_flavor for request in requests}
    wanted = {one: _size(sizes, one) for one in asked}
    for size in wanted.values():
        _refuse_unusable(settings, size)
    images = {
        architecture: find_image(subscription, settings, architecture)
        for architecture in {size.architecture for size in wanted.values()}
    }
    found = Offers(settings.default_flavor, wanted, images, zones)
    for request in requests:
        size = found.check(request, request.zone or settings.zone)
        found.image_of(size).refuse_unfit(size)
    return found


def _zones(subscription: Subscription, region: str) -> Zones:
    """Return the region's physical zones by logical ones; a subscription has names of its own."""
    there = subscription.do(
        "listing regions",
        lambda: list(subscription.subscriptions.subscriptions.list_locations(subscription.id)),
    )
    for location in there:
        if location.name == region:
            mappings = location.availability_zone_mappings or ()
            return Zones({str(m.logical_zone): str(m.physical_zone) for m in mappings})
    names = [str(location.name) for location in there]
    raise NotFoundError(
        f"there is no region {region!r}", where="provider.region", cure=known_names(names, region)
    )


def _info(sku: Any, known: Zones) -> Size:
    can = {str(one.name): str(one.value) for one in sku.capabilities or ()}
    zoned = [one for one in sku.location_info or () if one.zones]
    zones = {str(zone) for one in zoned for zone in one.zones}
    closed = None
    for restriction in sku.restrictions or ():
        if restriction.type == "Zone":
            reported = restriction.restriction_info
            zones -= {*((reported and reported.zones) or ())}
        else:
            closed = word(restriction.reason_code) or "restricted"
    return Size(
        name=str(sku.name),
        family=str(sku.family),
        vcpus=int(can.get("vCPUsAvailable") or can.get("vCPUs") or 0),
        ram_mib=int(float(can.get("MemoryGB") or 0) * 1024),
        zones=frozenset(known[zone] for zone in zones if zone in known),
        accelerated=can.get("AcceleratedNetworkingEnabled") == "True",
        architecture=can.get("CpuArchitectureType", "x64"),
        generations=frozenset(can.get("HyperVGenerations", "V1").split(",")),
        spot=can.get("LowPriorityCapable") == "True",
        plain=not (
            _BURSTABLE.match(str(sku.name))
            or can.get("GPUs", "0") != "0"
            or "ConfidentialComputingType" in can
        ),
        closed=closed,
        nics=int(can["MaxNetworkInterfaces"]) if "MaxNetworkInterfaces" in can else None,
    )


def _size(there: Sequence[Size], wanted: WantedFlavor) -> Size:
    if isinstance(wanted, str):
        found = next((one for one in there if one.name.lower() == wanted.lower()), None)
        if found is None:
            lacks = f"there is no size {wanted!r} in this region"
            cure = known_names([one.name for one in there], wanted)
            raise NotFoundError(lacks, where="flavor", cure=cure)
        return found
    open_ = [one for one in there if one.plain and one.closed is None and one.architecture == "x64"]
    lacks = f"no size has {wanted} that this subscription may use"

    def then(one: Size) -> tuple[Any, ...]:
        return not one.accelerated, -len(one.generations)

    return smallest(open_, wanted, lacks, then)


def _refuse_unusable(settings: AzureSettings, size: Size) -> None:
    """Raise CapacityError or ProviderError for a size that is not usable as requested."""
    kind: type[ProviderError] = CapacityError
    if size.closed is not None:
        key, cure = (
            "flavor",
            "use another size or region, or ask Azure to open it for the subscription",
        )
        message = f"the size {size.name} is not offered in {settings.region}: {size.closed}"
    elif settings.accelerated and not size.accelerated:
        kind, key = ProviderError, "provider.accelerated"
        cure = "use a size that has it, or leave the key out"
        message = f"the size {size.name} has no accelerated networking"
    elif settings.spot and not size.spot:
        key, cure = "provider.spot", "use another size, or spot: false"
        message = f"the size {size.name} is not offered as a spot VM"
    else:
        return
    raise kind(message, where=key, cure=cure)


DEFAULT = {"x64": "Debian:debian-12:12-gen2", "Arm64": "Debian:debian-12:12-arm64"}
"""The newest Debian 12, by the architecture of the size."""
_LATEST = "latest"
_SHARED = {
    "/sharedgalleries/": "sharedGalleryImageId",
    "/communitygalleries/": "communityGalleryImageId",
}


@dataclass(frozen=True)
class Image:
    """An image: its name with the version, and its reference in requests.

    ``architecture`` and ``generation`` (of Hyper-V) are None where only Azure knows. ``plan`` is
    that of the marketplace, None for an image without one.
    """

    name: str
    reference: dict[str, str]
    architecture: str | None = None
    generation: str | None = None
    plan: dict[str, str] | None = None

    def refuse_unfit(self, size: Size) -> None:
        """Raise ProviderError if VMs of a size can't boot it."""
        image, key = f"the image {self.name} is", "provider.image"
        if self.architecture not in {None, size.architecture}:
            message = (
                f"{image} for {self.architecture}, the size {size.name} is {size.architecture}"
            )
            raise ProviderError(message, where=key, cure="use another image or size")
        if self.generation not in {None, *size.generations}:
            taken = f"the size {size.name} takes {', '.join(sorted(size.generations))}"
            cure = "use another SKU of the image, often with or without -gen2"
            message = f"{image} of generation {self.generation}, {taken}"
            raise ProviderError(message, where=key, cure=cure)


def find_image(subscription: Subscription, settings: AzureSettings, architecture: str) -> Image:
    """Find the image of the settings. Raises NotFoundError, ProviderError."""
    wanted = settings.image or DEFAULT.get(architecture, DEFAULT["x64"])
    if wanted.startswith("/"):
        lower = wanted.lower()
        key = next((key for start, key in _SHARED.items() if lower.startswith(start)), "id")
        return Image(wanted, {key: wanted})
    parts = wanted.split(":")
    if len(parts) not in {3, 4} or not all(parts):
        raise ProviderError(
            f"{wanted!r} names no image",
            where="provider.image",
            cure="write publisher:offer:sku, such as Debian:debian-12:12-gen2, or a resource id",
        )
    publisher, offer, sku = family = parts[:3]
    version = parts[3] if len(parts) == 4 and parts[3] != _LATEST else None
    images = subscription.compute.virtual_machine_images

    def look() -> Image:
        number = version
        if number is None:
            there = [str(one.name) for one in images.list(settings.region, *family)]
            number = max(there, key=_spec, default=None)
        if number is None:
            raise _missing(wanted, settings.region)
        found = images.get(settings.region, publisher, offer, sku, number)
        return _marketplace(family, number, found)

    try:
        return subscription.do(f"looking for the image {wanted}", look)
    except NotFoundError as error:
        raise _missing(wanted, settings.region) from error


def _missing(wanted: str, region: str) -> NotFoundError:
    return NotFoundError(
        f"there is no image {wanted} in {region}",
        where="provider.image",
        cure="look with: az vm image list --all --publisher PUBLISHER",
    )


def _spec(version: str) -> tuple[int, ...]:
    """Return the sort key of a version with dots."""
    numbers = (parse_count(part) for part in version.split("."))
    return tuple(-1 if number is None else number for number in numbers)


def _marketplace(family: list[str], version: str, found: Any) -> Image:
    publisher, offer, sku = family
    properties = found.properties
    plan = properties and properties.plan
    return Image(
        name=":".join([*family, version]),
        reference={"publisher": publisher, "offer": offer, "sku": sku, "version": version},
        architecture=properties and word(properties.architecture),
        generation=properties and word(properties.hyper_v_generation),
        plan={"name": plan.name, "publisher": plan.publisher, "product": plan.product}
        if plan
        else None,
    )


_NAMESPACES = ("Microsoft.Compute", "Microsoft.Network", "Microsoft.DevTestLab")
"""Of the types of all that a run makes in its groups; the last one of schedules."""


_ONE_EACH = (
    *("virtualMachines", "NetworkInterfaces"),
    *("PublicIPAddresses", "StandardSkuPublicIpAddresses"),
)
"""The quotas that each VM takes one of."""


def needs_of(
    settings: AzureSettings, sizes: Iterable[Size], networks: int, nics: int
) -> dict[str, int]:
    """Return the needs of VMs of these sizes in these networks, by quota.

    ``nics`` are the further network cards of all of them.
    """
    need: Counter[str] = Counter()
    for size in sizes:
        if settings.spot:
            need["lowPriorityCores"] += size.vcpus
        else:
            need["cores"] += size.vcpus
            need[size.family] += size.vcpus
        need.update(_ONE_EACH)
    need.update({"NetworkInterfaces": nics})
    need.update(dict.fromkeys(("VirtualNetworks", "NetworkSecurityGroups"), networks))
    return dict(need)


def check_quotas(subscription: Subscription, region: str, need: Mapping[str, int]) -> None:
    """Raise QuotaError with every exceeded quota of the region."""
    lists: list[list[Any]] = run_concurrently(
        lambda: subscription.do(
            "reading quotas of VMs", lambda: list(subscription.compute.usage.list(region))
        ),
        lambda: subscription.do(
            "reading quotas of networks", lambda: list(subscription.network.usages.list(region))
        ),
    )
    there = {str(one.name.value).lower(): one for some in lists for one in some}
    known = {name: there[name.lower()] for name in need if name.lower() in there}
    compare_quotas(
        f"{subscription.name} in {region}",
        need,
        {name: Quota(one.limit, one.current_value) for name, one in known.items()},
        ERRORS.cure_of(Meaning.QUOTA),
    )


def check_namespaces(subscription: Subscription) -> None:
    """Raise ProviderError for a resource provider that is not registered."""

    def state_of(namespace: str) -> str:
        found = subscription.do(
            f"looking at the namespace {namespace}",
            lambda: subscription.resources.providers.get(namespace),
        )
        return str(found.registration_state)

    for namespace, state in map_by_key(state_of, _NAMESPACES).items():
        if state not in {"Registered", "Registering"}:
            raise ProviderError(
                f"it is not registered to use the namespace {namespace} ({state})",
                where=subscription.name,
                cure=f"once: az provider register --namespace {namespace}"
                f" --subscription {subscription.id}",
            )
