"""A lab: the Compute Engine of the tests, and ``osmef`` where its VMs can be reached."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from osmef.providers.base import Access, Endpoint, EndpointRequest, RunContext
from osmef.providers.gce.access import Project
from osmef.providers.gce.provider import GceProvider
from osmef.remote.login import KeyPair
from osmef.scenario.clouds.gce import GceSettings
from osmef.scenario.fields import EndpointKind, FlavorNeed
from tests.cli.conftest import Ended, Osmef
from tests.gce.cloud import CONTROLLER, GceCloud
from tests.providers.conftest import MemoryLedger

RUN = "lab-20260101T000000Z-abcd"
LONG_S = 7200.0


@dataclass
class Lab:
    """The cloud, and the runs of one test."""

    cloud: GceCloud
    osmef: Osmef

    @property
    def usual(self) -> dict[str, Any]:
        """The settings that all scenarios have."""
        return {
            "kind": "gce",
            "region": "here-1",
            "user": "debian",
            "controller_cidr": CONTROLLER,
            "endpoint_url": self.cloud.url,
        }

    def write(self, name: str = "lab", **settings: Any) -> str:
        """Write a scenario of one short trial, with these keys of the provider, or others."""
        keys = {"sweep", "on_mismatch", "placement", "repeat", "tenancy"}
        keys |= {"workload", "order", "prices", "budget", "endpoints"}
        top: dict[str, Any] = {key: settings.pop(key) for key in keys if key in settings}
        scenario: dict[str, Any] = {
            "name": name,
            "provider": {**self.usual, **settings},
            "workload": {"kind": "btc", "duration": "300ms", "interval": "100ms"},
            "repeat": 1,
            **top,
        }
        return self.osmef.write(json.dumps(scenario), f"{name}.json")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return self.osmef.start(*arguments, prefix=tuple(self.cloud.inside))

    def __call__(self, *arguments: str) -> Ended:
        return self.osmef(*arguments, prefix=tuple(self.cloud.inside))

    def settings(self, **keys: Any) -> GceSettings:
        """Return settings with these keys, and else the usual ones."""
        return GceSettings.model_validate({**self.usual, **keys})

    def provider(self, **keys: Any) -> GceProvider:
        """Return a provider with these keys of its settings."""
        return GceProvider(self.settings(**keys))

    @property
    def access(self) -> Access:
        """How to reach the usual project."""
        return {"cloud": "alpha-1", "uri": self.cloud.url}

    def project(self) -> Project:
        """Open the usual project."""
        return Project(self.access)

    def create(self, provider: GceProvider, wanted: RunContext) -> list[Endpoint]:
        """Have the provider make things in this process, where it can reach the VMs."""
        return self.cloud.here(lambda: provider.create(wanted))

    @contextmanager
    def made(
        self, *requests: EndpointRequest, **settings: Any
    ) -> Iterator[tuple[GceProvider, list[Endpoint]]]:
        """Hand out a provider and the endpoints that it made."""
        provider = self.provider(**settings)
        try:
            yield provider, self.create(provider, context(*requests))
        finally:
            provider.close()

    def owned(self, project: str = "alpha-1") -> list[str]:
        """Return what is ours in a project, as kind and name."""
        access = {**self.access, "cloud": project}
        return [f"{one.kind} {one.name}" for one in GceProvider.owned(access)]


def vm(
    name: str = "a",
    host: str | None = "host-1",
    tenant: str = "tenant-1",
    flavor: str | FlavorNeed | None = None,
    zone: str | None = None,
) -> EndpointRequest:
    return EndpointRequest(name, "sender", EndpointKind.VM, flavor, host, tenant, zone=zone)


def context(*requests: EndpointRequest, run: str = RUN) -> RunContext:
    return RunContext(run, requests, KeyPair.generate("lab"), MemoryLedger(), time.time() + LONG_S)


def asked(calls: Sequence[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    """Return the calls of a method, such as "instances.insert"."""
    return [call for call in calls if call.get("id") == f"compute.{method}"]


def refusal(status: int, reason: str, message: str = "no", **headers: str) -> dict[str, Any]:
    """Return what a fault of a call answers."""
    return {"status": status, "reason": reason, "message": message, "headers": headers}
