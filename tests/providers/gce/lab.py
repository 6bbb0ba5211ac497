"""A lab: the Compute Engine of the tests, and ``osmef`` where its VMs can be reached."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from osmef.providers.base import EndpointRequest, Order
from osmef.providers.gce.provider import GceProvider
from osmef.remote.keys import KeyPair
from osmef.scenario.fields import EndpointKind, FlavorNeed
from tests.cli.conftest import Ended, Osmef
from tests.gce.cloud import CONTROLLER, GceCloud
from tests.providers.conftest import MemoryLedger

DEADLINE = 4_000_000_000
RUN = "lab-20260101T000000Z-abcd"


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
        top: dict[str, Any] = {
            key: settings.pop(key)
            for key in ("sweep", "on_mismatch", "placement", "repeat", "tenancy")
            if key in settings
        }
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
        return self.osmef.finish(self.start(*arguments))

    def owned(self, project: str = "alpha-1") -> list[str]:
        """Return what is ours in a project, as kind and name."""
        access = {"project": project, "endpoint_url": self.cloud.url}
        return [f"{one.kind} {one.name}" for one in GceProvider.owned(access)]

    @property
    def summary(self) -> Any:
        return json.loads((self.osmef.run / "summary.json").read_text())


def vm(
    name: str = "a",
    host: str | None = "host-1",
    tenant: str = "tenant-1",
    flavor: str | FlavorNeed | None = None,
) -> EndpointRequest:
    return EndpointRequest(name, "sender", EndpointKind.VM, flavor, host, tenant)


def order(*requests: EndpointRequest, run: str = RUN) -> Order:
    return Order(run, requests, KeyPair.generate("lab"), MemoryLedger(), DEADLINE)
