"""The endpoint requests of one cell."""

from __future__ import annotations

from dataclasses import replace

from osmef.providers.base import EndpointRequest
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.model import EndpointSettings, Scenario


def requests_of(scenario: Scenario) -> list[EndpointRequest]:
    """Return the endpoint requests of a cell, on the slots of a plan."""
    sender, receiver = scenario.ends
    vms: tuple[str | None, str | None] = ("host-1", "host-2")
    if scenario.placement is not Placement.DIFFERENT_HOST:
        vms = ("host-1", "host-1") if scenario.placement is Placement.SAME_HOST else (None, None)
    if scenario.endpoints.node is not None:
        apart = scenario.placement is Placement.DIFFERENT_HOST or sender.kind is EndpointKind.HOST
        return [
            _node(sender, f"host-{number}" if apart else vms[0], number)
            for number in range(1, sender.count + 1)
        ]
    if scenario.endpoints.loopback is not None:
        return _group("loopback", sender, vms[0], "tenant-1")
    owner = f"tenant-{1 + (scenario.tenancy is Tenancy.DIFFERENT_TENANT)}"
    if scenario.trials > 1:  # pairs share hosts only where there are too few: the plan knows
        sender, receiver = (end.model_copy(update={"count": 1}) for end in (sender, receiver))
    return [
        *_group("sender", sender, vms[0], "tenant-1"),
        *_group("receiver", receiver, vms[1], owner),
    ]


def _node(end: EndpointSettings, host: str | None, number: int) -> EndpointRequest:
    tenant = None if end.kind is EndpointKind.HOST else "tenant-1"
    request = EndpointRequest(f"node-{number}", "node", end.kind, end.flavor, host, tenant)
    return replace(request, nics=end.nics)


def _group(
    role: str, end: EndpointSettings, host: str | None, tenant: str
) -> list[EndpointRequest]:
    numbers = range(1, end.count + 1)
    first = EndpointRequest(role, role, end.kind, end.flavor, host, tenant, nics=end.nics)
    if end.kind is EndpointKind.HOST:  # each is its own host, wherever that is
        first = replace(first, flavor=None, tenant=None)
        where = [host or f"host-of-{role}", *(f"host-of-{role}-{n}" for n in numbers[1:])]
        return [
            replace(first, name=f"{role}-{n}", host=place)
            for n, place in zip(numbers, where, strict=True)
        ]
    return [replace(first, name=f"{role}-{n}") for n in numbers]
