"""Images: by publisher, offer and SKU, of the newest version, or by resource id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from osmef.errors import NotFoundError, ProviderError
from osmef.providers.azure.access import Subscription, word
from osmef.scenario.clouds.azure import AzureSettings
from osmef.units import parse_count

DEFAULT = {"x64": "Debian:debian-12:12-gen2", "Arm64": "Debian:debian-12:12-arm64"}
"""The newest Debian 12, by the architecture of the size."""
_LATEST = "latest"
_SHARED = {
    "/sharedgalleries/": "sharedGalleryImageId",
    "/communitygalleries/": "communityGalleryImageId",
}


@dataclass(frozen=True)
class Image:
    """An image: its name with the version, and how a request refers to it.

    ``architecture`` and ``generation`` (of Hyper-V) are None where only Azure knows. ``plan`` is
    that of the marketplace, None for an image without one.
    """

    name: str
    reference: dict[str, str]
    architecture: str | None = None
    generation: str | None = None
    plan: dict[str, str] | None = None

    def refuse_unfit(self, size: str, architecture: str, generations: frozenset[str]) -> None:
        """Raise ProviderError if VMs of a size can't boot it."""
        if self.architecture not in {None, architecture}:
            raise ProviderError(
                f"the image {self.name} is for {self.architecture}, the size {size} is"
                f" {architecture}",
                where="provider.image",
                cure="use another image or size",
            )
        if self.generation not in {None, *generations}:
            raise ProviderError(
                f"the image {self.name} is of generation {self.generation}, the size {size} takes"
                f" {', '.join(sorted(generations))}",
                where="provider.image",
                cure="use another SKU of the image, often with or without -gen2",
            )


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
            number = max(there, key=_order, default=None)
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


def _order(version: str) -> tuple[int, ...]:
    """Versions are numbers with dots between."""
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
