"""The endpoints that one cell needs."""

from __future__ import annotations

from osmef.providers.base import EndpointRequest
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.model import EndpointSettings, Scenario


def requests_of(scenario: Scenario) -> list[EndpointRequest]:
    """Return the endpoints that a cell asks for, on the slots that a plan gives them."""
    sender, receiver = scenario.ends
    if scenario.endpoints.loopback is not None:
        return _group("loopback", sender, 1, 1)
    host = 1 + (scenario.placement is Placement.DIFFERENT_HOST)
    tenant = 1 + (scenario.tenancy is Tenancy.DIFFERENT_TENANT)
    return [*_group("sender", sender, 1, 1), *_group("receiver", receiver, host, tenant)]


def _group(role: str, end: EndpointSettings, host: int, tenant: int) -> list[EndpointRequest]:
    owner = None if end.kind is EndpointKind.HOST else f"tenant-{tenant}"
    return [
        EndpointRequest(f"{role}-{n}", role, end.kind, end.flavor, f"host-{host}", owner)
        for n in range(1, end.count + 1)
    ]
