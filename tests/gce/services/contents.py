"""What is there in the cloud of the tests from the first: zones, machine types, images, quotas."""

from __future__ import annotations

from typing import Any

PROJECTS = ("alpha-1", "beta-2")
NAMES = ("here-1-a", "here-1-b", "here-1-c", "there-1-a", "dark-1-a")
ZONES = {zone: zone.rpartition("-")[0] for zone in NAMES}
DOWN = ("here-1-c", "dark-1-a")
TYPES = {
    "e2-standard-2": (2, 8192),
    "n2-standard-4": (4, 16384),
    "n2-highmem-4": (4, 32768),
    "c4-standard-8": (8, 30720),
    "t2a-standard-4": (4, 16384),
}
ARM = ("t2a-standard-4",)
RARE = {"c4-standard-8": ("here-1-b",)}
"""Machine types that only some zones have."""
IMAGES = {"debian-12": "debian-12-bookworm-v20261110"}
NODES = {"nodes": ("here-1-a", ("node-1", "node-2"))}
"""Groups of sole-tenant nodes: the zone and the nodes of each."""
ROOT = "https://www.googleapis.com/compute/v1"


def zone(project: str, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#zone",
        "name": name,
        "region": f"{ROOT}/projects/{project}/regions/{ZONES[name]}",
        "status": "DOWN" if name in DOWN else "UP",
    }


def machine_type(project: str, zone: str, name: str) -> dict[str, Any]:
    cpus, memory = TYPES[name]
    return {
        "kind": "compute#machineType",
        "name": name,
        "guestCpus": cpus,
        "memoryMb": memory,
        "isSharedCpu": False,
        "architecture": "ARM64" if name in ARM else "X86_64",
        "zone": zone,
        "selfLink": f"{ROOT}/projects/{project}/zones/{zone}/machineTypes/{name}",
    }


def has_type(zone: str, name: str) -> bool:
    return name in TYPES and zone in RARE.get(name, ZONES)


def image(project: str, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#image",
        "name": name,
        "id": "4711",
        "diskSizeGb": "10",
        "architecture": "X86_64",
        "guestOsFeatures": [{"type": "UEFI_COMPATIBLE"}, {"type": "GVNIC"}],
        "status": "READY",
        "family": next(family for family, one in IMAGES.items() if one == name),
        "selfLink": f"{ROOT}/projects/{project}/global/images/{name}",
    }


def quotas(limits: dict[str, float], usage: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {"metric": metric, "limit": limit, "usage": usage.get(metric, 0.0)}
        for metric, limit in limits.items()
    ]


REGION_QUOTAS = {
    "CPUS": 64.0,
    "E2_CPUS": 0.0,  # in which E2 machines do not count
    "N2_CPUS": 64.0,
    "INSTANCES": 50.0,
    "IN_USE_ADDRESSES": 50.0,
    "SSD_TOTAL_GB": 1000.0,
}
PROJECT_QUOTAS = {"NETWORKS": 10.0, "SUBNETWORKS": 50.0, "FIREWALLS": 50.0}
