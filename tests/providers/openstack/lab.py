"""A lab: the real cloud of the tests, and ``osmef`` where its servers can be reached."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from typing import Any

import openstack

from osmef.providers.base import Endpoint, EndpointRequest, RunContext
from osmef.providers.openstack.provider import OpenStackProvider
from osmef.remote.login import KeyPair
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.fields import EndpointKind, FlavorNeed
from tests.cli.conftest import Ended, Osmef
from tests.openstack.cloud import Cloud
from tests.providers.conftest import MemoryLedger

DEADLINE = 4_000_000_000
RUN = "lab-20260101T000000Z-abcd"
_TOP = ("sweep", "on_mismatch", "workload", "placement", "repeat", "tenancy", "endpoints", "pause")


@dataclass
class Lab:
    """The cloud, and the runs of one test."""

    cloud: Cloud
    osmef: Osmef
    dirty: set[str] = field(default_factory=set)
    """The clouds that runs of this test may have made something in."""

    def write(self, name: str = "lab", **settings: Any) -> str:
        """Write a scenario of one short trial, with these keys of the provider, or others."""
        top: dict[str, Any] = {key: settings.pop(key) for key in _TOP if key in settings}
        usual: dict[str, Any] = {"kind": "openstack", "cloud": "alice", "default_flavor": "m1.tiny"}
        provider = {**usual, "boot": {"image": "guest"}, **settings}
        two = isinstance(provider.get("projects"), dict)
        self.dirty |= {"alice", "bob"} if two else {provider["cloud"]}
        scenario: dict[str, Any] = {
            "name": name,
            "provider": provider,
            "workload": {"kind": "btc", "duration": "300ms", "interval": "100ms"},
            "repeat": 1,
            **top,
        }
        return self.osmef.write(json.dumps(scenario), f"{name}.json")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return self.osmef.start(*arguments, prefix=tuple(self.cloud.inside))

    def __call__(self, *arguments: str) -> Ended:
        return self.osmef.finish(self.start(*arguments))

    def provider(self, **settings: Any) -> OpenStackProvider:
        """Return a provider of alice's cloud, with other settings if need be."""
        usual: dict[str, Any] = {"cloud": "alice", "boot": {"image": "guest"}}
        return OpenStackProvider(OpenStackSettings.model_validate({**usual, **settings}))

    def create(self, provider: OpenStackProvider, wanted: RunContext) -> list[Endpoint]:
        """Have alice's provider make things in this process, where it can reach the servers."""
        self.dirty.add("alice")
        return self.cloud.here(lambda: provider.create(wanted))

    def owned(self, cloud: str = "alice") -> list[str]:
        """Return what is ours in a project, as kind and name."""
        return [f"{one.kind} {one.name}" for one in OpenStackProvider.owned({"cloud": cloud})]


def servers_of(cloud: str) -> list[str]:
    with openstack.connect(cloud=cloud) as api:
        return [one.name for one in api.compute.servers()]


def server(
    name: str = "a",
    host: str = "host-1",
    tenant: str = "tenant-1",
    flavor: str | FlavorNeed = "m1.tiny",
    lane: int = 1,
) -> EndpointRequest:
    return EndpointRequest(name, "sender", EndpointKind.VM, flavor, host, tenant, lane)


def context(*requests: EndpointRequest, run: str = RUN) -> RunContext:
    return RunContext(run, requests, KeyPair.generate("lab"), MemoryLedger(), DEADLINE)
