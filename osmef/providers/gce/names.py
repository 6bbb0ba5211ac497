"""What the settings name, looked up: the image, machine types, and the zones that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.cloud import compute_v1

from osmef.errors import NotFoundError
from osmef.providers.base import EndpointRequest
from osmef.providers.gce.access import Project, last
from osmef.scenario.clouds.gce import GceSettings
from osmef.scenario.fields import FlavorNeed

_MIB = 2**20
_X86, _ARM = "X86_64", "ARM64"
_DEBIAN = {_X86: "debian-12", _ARM: "debian-12-arm64"}
_PUBLIC = {
    "almalinux-": "almalinux-cloud",
    "centos-": "centos-cloud",
    "cos-": "cos-cloud",
    "debian-": "debian-cloud",
    "fedora-": "fedora-cloud",
    "opensuse-": "opensuse-cloud",
    "rhel-": "rhel-cloud",
    "rocky-": "rocky-linux-cloud",
    "sles-": "suse-cloud",
    "ubuntu-": "ubuntu-os-cloud",
}
"""Google's projects of public images, by how the names of their families begin."""
Wanted = str | FlavorNeed


@dataclass(frozen=True)
class Image:
    """An image: its project and name, the least disk for it in GiB, and its architecture.

    ``gvnic`` tells whether it says that it has a driver for gVNIC.
    """

    path: str
    disk_gib: int
    architecture: str
    gvnic: bool


@dataclass(frozen=True)
class MachineType:
    """A machine type: its name, CPUs and architecture."""

    name: str
    vcpus: int
    architecture: str


def region_of(zone: str) -> str:
    """Return the region of a zone: "us-central1" of "us-central1-a"."""
    return zone.rpartition("-")[0]


def zones_of(project: Project, region: str) -> list[str]:
    """List the zones of a region that are up. Raises NotFoundError, ProviderError."""
    there = project.every("listing zones", compute_v1.ZonesClient)
    found = sorted(
        str(zone.name)
        for zone in there
        if last(zone.region) == region and zone.status in {"UP", ""}
    )
    if not found:
        known = ", ".join(sorted({last(zone.region) for zone in there}))
        raise NotFoundError(
            f"there is no region {region!r}", where="provider.region", cure=f"use one of: {known}"
        )
    return found


def wanted_of(settings: GceSettings, request: EndpointRequest) -> Wanted:
    """Return the machine type that a request wants, by name or need."""
    return request.flavor or settings.default_flavor


def machine_type(project: Project, zone: str, wanted: Wanted) -> MachineType | None:
    """Look for a machine type in a zone: that of the name, or the smallest that fits the need.

    A need is for whole CPUs of the usual kind. Raises ProviderError.
    """
    if isinstance(wanted, str):
        try:
            found = project.ask(
                f"looking for the machine type {wanted}",
                compute_v1.MachineTypesClient,
                "get",
                zone=zone,
                machine_type=wanted,
            )
        except NotFoundError:
            return None
        return _info(found)
    ram_mib = -(-(wanted.ram or 0) // _MIB)
    there = project.every("listing machine types", compute_v1.MachineTypesClient, zone=zone)
    fitting = [
        one
        for one in there
        if one.guest_cpus >= wanted.vcpus
        and one.memory_mb >= ram_mib
        and not (one.is_shared_cpu or one.accelerators or one.deprecated.state)
        and one.architecture in {_X86, ""}
    ]
    best = min(fitting, key=lambda one: (one.guest_cpus, one.memory_mb, one.name), default=None)
    return None if best is None else _info(best)


def _info(one: Any) -> MachineType:
    return MachineType(str(one.name), int(one.guest_cpus), str(one.architecture or _X86))


def types_in(
    project: Project, zone: str, wanted: Sequence[Wanted]
) -> dict[Wanted, MachineType] | None:
    """Look machine types up in a zone; None if it lacks one. Raises ProviderError."""
    found = {one: machine_type(project, zone, one) for one in dict.fromkeys(wanted)}
    return {k: v for k, v in found.items() if v} if all(found.values()) else None


def find_image(project: Project, wanted: str | None, architecture: str) -> Image:
    """Look an image up: a family or image, as NAME, PROJECT/NAME or the API's path.

    Raises NotFoundError, ProviderError.
    """
    text = wanted or _DEBIAN[architecture]
    parts = text.removeprefix("https://www.googleapis.com/compute/v1/").split("/")
    name = parts[-1]
    public = next((home for start, home in _PUBLIC.items() if name.startswith(start)), project.id)
    home = public if len(parts) == 1 else parts[1] if parts[0] == "projects" else parts[0]
    asked = {"project": home}
    ways: tuple[tuple[str, dict[str, str]], ...] = (
        ("get_from_family", {**asked, "family": name}),
        ("get", {**asked, "image": name}),
    )
    for method, fields in ways:
        try:
            found = project.ask(
                f"looking for the image {text}", compute_v1.ImagesClient, method, **fields
            )
        except NotFoundError:
            continue
        path = f"projects/{home}/global/images/{found.name}"
        gvnic = any(feature.type_ == "GVNIC" for feature in found.guest_os_features)
        return Image(path, int(found.disk_size_gb or 1), str(found.architecture or _X86), gvnic)
    raise NotFoundError(
        f"{home} has no image {name!r}, neither of this family nor of this name",
        where="provider.image",
        cure="write a family or an image as PROJECT/NAME; see: gcloud compute images list",
    )
