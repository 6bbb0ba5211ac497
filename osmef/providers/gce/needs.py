"""What a plan needs of a project and a region, compared with what the quotas leave."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from google.cloud import compute_v1

from osmef.errors import QuotaError
from osmef.providers.gce.access import Project
from osmef.providers.gce.instances import series_of
from osmef.providers.gce.names import MachineType
from osmef.scenario.clouds.gce import GceSettings

_GIB = 2**30
_OF_SERIES = {"a2", "c2", "c2d", "c3", "e2", "m1", "m2", "m3", "n2", "n2a", "n2d", "t2a", "t2d"}
"""Series of machines whose CPUs have quotas of their own."""


def needs_of(settings: GceSettings, types: Iterable[MachineType]) -> dict[str, int]:
    """Return what VMs of these types need in their region, by the metric of the quota."""
    need: Counter[str] = Counter()
    for one in types:
        series = series_of(one.name)
        cpus = f"{series.upper()}_CPUS" if series in _OF_SERIES else "CPUS"
        need["PREEMPTIBLE_CPUS" if settings.spot else cpus] += one.vcpus
        need["INSTANCES"] += 1
        need["IN_USE_ADDRESSES"] += 1
        need["SSD_TOTAL_GB"] += math.ceil(settings.disk / _GIB)
    return dict(need)


def check_region(project: Project, region: str, need: Mapping[str, int]) -> None:
    """Raise QuotaError with everything that the region has too little of."""
    found = project.ask("reading quotas", compute_v1.RegionsClient, "get", region=region)
    _compare(f"{project.id} in {region}", found.quotas, need)


def check_project(project: Project, networks: int, regions: int) -> None:
    """Raise QuotaError where the project has no room for networks with a subnet a region."""
    found = project.ask("reading quotas", compute_v1.ProjectsClient, "get")
    need = {"NETWORKS": networks, "SUBNETWORKS": networks * regions, "FIREWALLS": 3 * networks}
    _compare(project.id, found.quotas, need)


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
