"""The tenants of a run: a project each, or a network each in one project."""

from __future__ import annotations

from collections.abc import Sequence

from osmef.errors import ProviderError
from osmef.providers.base import Access, EndpointRequest
from osmef.providers.gce.access import open_project
from osmef.providers.gce.networks import Tenant
from osmef.scenario.clouds.gce import GceSettings


def access_of(settings: GceSettings) -> Access:
    """Return how to reach the settings' own project."""
    found = {"cloud": settings.project, "uri": settings.endpoint_url}
    return {key: value for key, value in found.items() if value}


def slots_of(requests: Sequence[EndpointRequest]) -> list[str]:
    """Return the tenants of a plan, in their order."""
    return list(dict.fromkeys(request.tenant for request in requests if request.tenant))


def tenants_of(settings: GceSettings, slots: Sequence[str]) -> list[Tenant]:
    """Open the project of each tenant of a plan. Raises ProviderError."""
    base = access_of(settings)
    if settings.tenants is None:
        project = open_project(base)
        return [Tenant(slot, n, f"{project.id}/{slot}", project) for n, slot in enumerate(slots, 1)]
    named = list(settings.tenants.items())[: len(slots)]
    if len(named) < len(slots):
        raise ProviderError(
            f"the plan has {len(slots)} tenants, and the provider names {len(named)}",
            where="provider.tenants",
            cure="name more projects, or leave tenants out",
        )
    return [
        Tenant(slot, n, label, open_project({**base, "cloud": project}))
        for n, (slot, (label, project)) in enumerate(zip(slots, named, strict=True), 1)
    ]
