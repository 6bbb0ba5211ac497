"""Lookup of the settings: image, machine types, their zones, and quotas.

Sources: Google's "Configure per VM Tier_1 networking performance", "Use Google Virtual NIC" and
"Multiple network interfaces".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.cloud import compute_v1

from osmef.errors import NotFoundError, ProviderError
from osmef.providers.base import Problem
from osmef.providers.cloud.lookup import (
    Flavor,
    Quota,
    WantedFlavor,
    compare_quotas,
    fitting,
    known_names,
    smallest,
)
from osmef.providers.gce.access import Project, last
from osmef.scenario.clouds.gce import GceSettings, NicType
from osmef.units import whole_gib

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


@dataclass(frozen=True)
class Image:
    """An image: its project and name, and its least disk size in GiB.

    ``gvnic`` is whether it declares a driver for gVNIC.
    """

    path: str
    disk_gib: int
    gvnic: bool


def region_of(zone: str) -> str:
    """Return the region of a zone: "us-central1" of "us-central1-a"."""
    return zone.rpartition("-")[0]


def zones_of(project: Project, region: str) -> list[str]:
    """List the available zones of a region. Raises NotFoundError, ProviderError."""
    there = project.every("listing zones", compute_v1.ZonesClient)
    up = [zone for zone in there if zone.status in {"UP", ""}]
    found = sorted(str(zone.name) for zone in up if last(zone.region) == region)
    if not found:
        known = ", ".join(sorted({last(zone.region) for zone in up}))
        is_known = any(last(zone.region) == region for zone in there)
        what = f"no zone of {region} is up" if is_known else f"there is no region {region!r}"
        cure = f"use one of: {known}" if known else "try again later"
        raise NotFoundError(what, where="provider.region", cure=cure)
    return found


def machine_type(project: Project, zone: str, wanted: WantedFlavor) -> Flavor | None:
    """Find a machine type in a zone: by name, or the smallest that fits the need.

    A need is for whole CPUs of the usual kind. Raises ProviderError.
    """
    service = compute_v1.MachineTypesClient
    if isinstance(wanted, str):
        doing = f"looking for the machine type {wanted}"
        found = project.find(doing, service, zone=zone, machine_type=wanted)
        return None if found is None else flavor_of(found)
    usual = [
        flavor_of(one)
        for one in project.every("listing machine types", service, zone=zone)
        if not (one.is_shared_cpu or one.accelerators or one.deprecated.state)
        and one.architecture in {_X86, ""}
    ]
    fit = fitting(usual, wanted)
    return smallest(fit, wanted, "") if fit else None


def flavor_of(one: Any) -> Flavor:
    """Return a machine type of the API's as a flavor."""
    vcpus, name = int(one.guest_cpus), str(one.name)
    nics = max(_LEAST_NICS, min(vcpus, _MOST_NICS))
    architecture = str(one.architecture or _X86)
    return Flavor(name, vcpus, int(one.memory_mb), architecture=architecture, nics=nics)


def types_in(
    project: Project, zone: str, wanted: Sequence[WantedFlavor]
) -> dict[WantedFlavor, Flavor] | None:
    """Find machine types in a zone; None if it lacks one. Raises ProviderError."""
    found = {one: machine_type(project, zone, one) for one in dict.fromkeys(wanted)}
    return {k: v for k, v in found.items() if v} if all(found.values()) else None


def check_zone(project: Project, zone: str) -> None:
    """Raise NotFoundError where there is no such zone that is up, or no such region."""
    known = zones_of(project, region_of(zone))
    if zone not in known:
        every = {zone.name for zone in project.every("listing zones", compute_v1.ZonesClient)}
        what = f"the zone {zone!r} is not up" if zone in every else f"there is no zone {zone!r}"
        cure = f"use one of: {', '.join(known)}"
        raise NotFoundError(what, where="provider.zone", cure=cure)


def lacking_types(
    project: Project, where: str, zones: Sequence[str], wanted: Sequence[WantedFlavor]
) -> NotFoundError:
    """Return the error of zones each of which lacks a wanted machine type.

    It names those that no zone has, with close names. Raises ProviderError.
    """
    every = list(dict.fromkeys(wanted))
    lacking = [t for t in every if not any(machine_type(project, zone, t) for zone in zones)]
    names = ", ".join(str(one) for one in lacking or every)
    cure = "use another machine type or zone; see: gcloud compute machine-types list"
    if lacking and isinstance(lacking[0], str):
        service, doing = compute_v1.MachineTypesClient, "listing machine types"
        there = (one.name for zone in zones for one in project.every(doing, service, zone=zone))
        cure = known_names(there, lacking[0], "machine type")
    said = f"{where} lacks {'' if lacking else 'one of: '}{names}"
    return NotFoundError(said, where="flavor", cure=cure)


def find_image(project: Project, wanted: str | None, architecture: str) -> Image:
    """Find an image by family or image, as NAME, PROJECT/NAME or the API's path.

    Raises NotFoundError, also where it is for another architecture, and ProviderError.
    """
    text = wanted or _DEBIAN[architecture]
    parts = text.removeprefix("https://www.googleapis.com/compute/v1/").split("/")
    name = parts[-1]
    public = next((home for start, home in _PUBLIC.items() if name.startswith(start)), project.id)
    home = public if len(parts) == 1 else parts[1] if parts[0] == "projects" else parts[0]
    doing, service = f"looking for the image {text}", compute_v1.ImagesClient
    for method, key in {"get_from_family": "family", "get": "image"}.items():
        found = project.find(doing, service, method, **{"project": home, key: name})
        if found is None:
            continue
        if found.architecture in {_X86, _ARM} - {architecture}:
            raise NotFoundError(
                f"the image {text} is for {found.architecture}, and the machine type is not",
                where="provider.image",
                cure=f"use an image for {architecture}, or another machine type",
            )
        path = f"projects/{home}/global/images/{found.name}"
        gvnic = any(feature.type_ == "GVNIC" for feature in found.guest_os_features)
        return Image(path, int(found.disk_size_gb or 1), gvnic)
    raise NotFoundError(
        f"{home} has no image {name!r}, neither of this family nor of this name",
        where="provider.image",
        cure="write a family or an image as PROJECT/NAME; see: gcloud compute images list",
    )


def images_for(
    project: Project, settings: GceSettings, types: Iterable[Flavor]
) -> dict[str, Image]:
    """Find the image for machines of these types, by architecture. Raises as ``find_image``."""
    architectures = {one.architecture for one in types}
    return {one: find_image(project, settings.image, one) for one in architectures}


_OF_SERIES = {"a2", "c2", "c2d", "c3", "m1", "m2", "m3", "n2", "n2a", "n2d", "t2a", "t2d"}
"""Series of machines whose CPUs have quotas of their own among those of a region."""
_OF_ALL = {"custom", "e2", "f1", "g1", "n1"}
"""Series that share the quota of CPUs, custom types of N1 among them; others are not listed."""
_DISKS = {
    "hyperdisk-balanced": "HDB_TOTAL_GB",
    "pd-balanced": "SSD_TOTAL_GB",
    "pd-ssd": "SSD_TOTAL_GB",
    "pd-standard": "DISKS_TOTAL_GB",
}
_SPARE = "PREEMPTIBLE_CPUS"


def check_region(
    project: Project, region: str, settings: GceSettings, types: Sequence[Flavor]
) -> None:
    """Raise QuotaError with every exceeded quota of the region for VMs of these types."""
    found = project.ask("reading quotas", compute_v1.RegionsClient, "get", region=region)
    # Spot VMs count as others where the project has no quota of their own.
    spare = settings.spot and any(one.metric == _SPARE and one.limit for one in found.quotas)
    need: Counter[str] = Counter()
    for one in types:
        need[_SPARE if spare else _cpus_of(one)] += one.vcpus
        need["INSTANCES"] += 1
        need["IN_USE_ADDRESSES"] += 1
        need[_DISKS.get(disk_type_of(settings, one.name), "")] += whole_gib(settings.disk)
    _compare(f"{project.id} in {region}", found.quotas, need)


def check_project(
    project: Project,
    nics: Sequence[int],
    settings: GceSettings,
    types: Mapping[str, Sequence[Flavor]],
) -> None:
    """Raise QuotaError for networks, or for VMs over all regions, that exceed a quota.

    ``nics`` are the networks of further interfaces of each tenant, beside its usual one. Each
    network has a subnet in each region; ``types`` are the VMs' by region.
    """
    tenants, networks = len(nics), len(nics) + sum(nics)
    found = project.ask("reading quotas", compute_v1.ProjectsClient, "get")
    need = {
        "NETWORKS": networks,
        "SUBNETWORKS": networks * len(types),
        "FIREWALLS": 2 * tenants + networks,
    }
    if not settings.spot:
        need["CPUS_ALL_REGIONS"] = sum(one.vcpus for some in types.values() for one in some)
    _compare(project.id, found.quotas, need)


def _cpus_of(one: Flavor) -> str:
    """Return the region's quota of a machine type's CPUs, empty where the API does not list it."""
    series = series_of(one.name)
    if series in _OF_SERIES:
        return f"{series.upper()}_CPUS"
    return "CPUS" if series in _OF_ALL else ""


def _compare(where: str, quotas: Iterable[compute_v1.Quota], need: Mapping[str, int]) -> None:
    there = {one.metric: Quota(one.limit, one.usage) for one in quotas}
    compare_quotas(where, need, there)


_ONLY_HYPERDISK = {"c4", "c4a", "c4d", "h4d", "m4", "n4", "n4a", "n4d", "x4"}


def disk_type_of(settings: GceSettings, machine_type: str) -> str:
    """Return the type of the boot disk of a VM of this machine type."""
    only_hyperdisk = series_of(machine_type) in _ONLY_HYPERDISK
    return settings.disk_type or ("hyperdisk-balanced" if only_hyperdisk else "pd-balanced")


def series_of(machine_type: str) -> str:
    """Return the series of a machine type: "n2" of "n2-standard-4"."""
    return machine_type.partition("-")[0]


_LEAST_TIER_1_VCPUS = 30
"""Of the smallest machine types that have it; some series begin at more."""
_NEVER_TIER_1 = {"e2", "f1", "g1", "h3", "n1", "n4", "t2a", "t2d"}
_ONLY_GVNIC = {"c3", "c3d", "c4", "c4a", "c4d", "h3", "h4d", "n4", "n4a", "n4d", "t2a", "z3"}
_LEAST_NICS, _MOST_NICS = 2, 8
"""Of interfaces: one for each vCPU, and as many at least and at most."""
_NEVER_COMPACT = {"e2", "f1", "g1", "n1", "t2a", "t2d"}


def check_fits(settings: GceSettings, types: Iterable[Flavor], images: Iterable[Image]) -> None:
    """Raise ProviderError for what the cloud would refuse only after networks are created."""
    found = [problem for one in types for problem in _problems_of(settings, one)]
    for image in images:
        if settings.nic is NicType.GVNIC and not image.gvnic:
            message = f"the image {image.path} has no driver for gVNIC"
            found.append(("provider.image", message, "use another image, or write nic: virtio"))
    for key, message, cure in found:
        raise ProviderError(message, where=key, cure=cure)


def _problems_of(settings: GceSettings, one: Flavor) -> Iterator[Problem]:
    """Yield what a machine type lacks that the settings ask for."""
    series = series_of(one.name)
    if settings.tier_1 and (series in _NEVER_TIER_1 or one.vcpus < _LEAST_TIER_1_VCPUS):
        cure = (
            f"use a type of at least {_LEAST_TIER_1_VCPUS} vCPUs of a series that has it, such as"
            " n2, c2 or c3, or leave tier_1 out"
        )
        yield ("provider.tier_1", f"{one.name} has no Tier 1 bandwidth", cure)
    if settings.nic is NicType.VIRTIO and series in _ONLY_GVNIC:
        cure = "leave nic out, or use another series, such as n2"
        yield ("provider.nic", f"{one.name} takes no interface but gVNIC", cure)
    if settings.compact and series in _NEVER_COMPACT:
        cure = "use another series, such as n2 or c3, or leave compact out"
        yield ("provider.compact", f"{one.name} takes no compact placement policy", cure)
