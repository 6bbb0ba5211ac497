"""What a plan needs of a project and a region, compared with what the quotas leave."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from google.cloud import compute_v1

from osmef.errors import QuotaError
from osmef.providers.gce.access import Project
from osmef.providers.gce.instances import disk_type_of, series_of
from osmef.providers.gce.names import MachineType
from osmef.scenario.clouds.gce import GceSettings

_GIB = 2**30
_OF_SERIES = {"a2", "c2", "c2d", "c3", "e2", "m1", "m2", "m3", "n2", "n2a", "n2d", "t2a", "t2d"}
"""Series of machines whose CPUs have quotas of their own."""
_DISKS = {
    "hyperdisk-balanced": "HDB_TOTAL_GB",
    "pd-balanced": "SSD_TOTAL_GB",
    "pd-ssd": "SSD_TOTAL_GB",
    "pd-standard": "DISKS_TOTAL_GB",
}
_SPARE = "PREEMPTIBLE_CPUS"


def check_region(
    project: Project, region: str, settings: GceSettings, types: Sequence[MachineType]
) -> None:
    """Raise QuotaError with everything that the region has too little of for VMs of these types."""
    found = project.ask("reading quotas", compute_v1.RegionsClient, "get", region=region)
    # Spot VMs count as others where nobody asked for a quota of their own.
    spare = settings.spot and any(one.metric == _SPARE and one.limit for one in found.quotas)
    need: Counter[str] = Counter()
    for one in types:
        need[_SPARE if spare else _cpus_of(one)] += one.vcpus
        need["INSTANCES"] += 1
        need["IN_USE_ADDRESSES"] += 1
        need[_DISKS.get(disk_type_of(settings, one.name), "")] += math.ceil(settings.disk / _GIB)
    _compare(f"{project.id} in {region}", found.quotas, need)


def check_project(
    project: Project,
    nics: Sequence[int],
    settings: GceSettings,
    types: Mapping[str, Sequence[MachineType]],
) -> None:
    """Raise QuotaError where the project lacks room for networks, or for VMs in all regions.

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


def _cpus_of(one: MachineType) -> str:
    series = series_of(one.name)
    return f"{series.upper()}_CPUS" if series in _OF_SERIES else "CPUS"


def _compare(where: str, quotas: Iterable[compute_v1.Quota], need: Mapping[str, int]) -> None:
    short = [
        f"{count} {quota.metric} (quota {quota.limit:g}, in use {quota.usage:g})"
        for quota in quotas
        if (count := need.get(quota.metric, 0)) and quota.usage + count > quota.limit
    ]
    if short:
        raise QuotaError(
            f"the plan needs {', '.join(short)}",
            where=where,
            cure="plan fewer or smaller endpoints, remove what you don't need, or ask for more",
        )
