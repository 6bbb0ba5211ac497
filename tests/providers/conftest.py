"""Shared by the tests of all providers: a ledger in memory, and requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from osmef.providers import retry
from osmef.providers.base import EndpointRequest, Resource
from osmef.scenario.fields import EndpointKind
from tests.providers.quick import QuickTime


@dataclass
class MemoryLedger:
    """What a run's journal would hold."""

    events: list[tuple[str, Resource]] = field(default_factory=list)

    def intend(self, resource: Resource) -> None:
        self.events.append(("intend", resource))

    def created(self, resource: Resource) -> None:
        self.events.append(("created", resource))

    def destroyed(self, resource: Resource) -> None:
        self.events.append(("destroyed", resource))


@pytest.fixture(autouse=True)
def quick_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all waits for clouds pass quickly."""
    monkeypatch.setattr(retry, "time", QuickTime())


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture(scope="session")
def vm() -> Callable[..., EndpointRequest]:
    def make(
        name: str,
        host: str,
        tenant: str = "tenant-1",
        role: str = "sender",
        flavor: str | None = None,
    ) -> EndpointRequest:
        return EndpointRequest(name, role, EndpointKind.VM, flavor, host, tenant)

    return make


@pytest.fixture(scope="session")
def host() -> Callable[[str, str], EndpointRequest]:
    def make(name: str, slot: str) -> EndpointRequest:
        return EndpointRequest(name, "sender", EndpointKind.HOST, None, slot, None)

    return make
