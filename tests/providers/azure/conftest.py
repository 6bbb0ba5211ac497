"""The Azure of the tests, with guests behind it or without."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from osmef.providers.azure.access import USUAL
from osmef.providers.azure.provider import AzureProvider, Vm
from osmef.providers.base import EndpointRequest, Resource, RunContext
from osmef.remote.login import KeyPair
from osmef.scenario.clouds.azure import AzureSettings
from osmef.scenario.fields import EndpointKind
from tests.azure.arm import REGION, Arm
from tests.azure.cloud import serve, with_guests
from tests.cli.conftest import Ended, Osmef
from tests.providers.conftest import MemoryLedger


def vm(name: str, **other: Any) -> EndpointRequest:
    """Return a request for a VM, wherever Azure likes unless other keys say more."""
    usual = {"flavor": None, "host": None, "tenant": "tenant-1"}
    return EndpointRequest(name=name, role="sender", kind=EndpointKind.VM, **{**usual, **other})


def config_of(machine: Any) -> Any:
    """Return the cloud-config that a VM was given."""
    text = base64.b64decode(machine["properties"]["osProfile"]["customData"]).decode()
    assert text.startswith("#cloud-config\n")
    return json.loads(text.removeprefix("#cloud-config\n"))


@dataclass
class Api:
    """The cloud as far as its API: nothing boots there."""

    arm: Arm
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    told: list[str] = field(default_factory=list)

    def settings(self, **keys: Any) -> AzureSettings:
        usual = {
            "region": REGION,
            "default_flavor": "Standard_D2s_v5",
            "controller_cidr": "198.51.100.1/32",
            "endpoint_url": self.arm.url,
        }
        return AzureSettings.model_validate({**usual, **keys})

    def provider(self, **keys: Any) -> AzureProvider:
        return AzureProvider(self.settings(**keys), replace(USUAL, listing_delay_s=0.1))

    def context(self, *requests: EndpointRequest, run: str = "lab-1") -> RunContext:
        return RunContext(
            run=run,
            requests=requests,
            key=KeyPair.generate("lab"),
            ledger=self.ledger,
            deadline=time.time() + 3600,
            progress=self.told.append,
        )

    def make(self, *requests: EndpointRequest, **keys: Any) -> tuple[AzureProvider, list[Vm]]:
        """Make VMs as a run does, up to where it would wait for SSH."""
        provider = self.provider(**keys)
        return provider, provider.begin(self.context(*requests)).create_all()

    def owned(self) -> list[Resource]:
        return AzureProvider.owned({"uri": self.arm.url})

    def bodies(self, type_: str) -> list[Any]:
        """Return all things of a type of Azure's, as they were asked for."""
        return [one for one in self.arm.things.values() if one["type"].endswith(f"/{type_}")]

    def events(self, event: str) -> list[str]:
        return sorted(f"{one.kind} {one.name}" for what, one in self.ledger.events if what == event)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Api]:
    arm = Arm()
    with serve(arm, tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield Api(arm)


@dataclass
class Lab:
    """The cloud with guests, and the runs of one test."""

    arm: Arm
    osmef: Osmef
    inside: list[str]

    def write(self, **top: Any) -> str:
        """Write a scenario of one short trial, with these keys of the provider, or others."""
        usual = {
            "kind": "azure",
            "region": REGION,
            "default_flavor": "Standard_D2s_v5",
            "user": "debian",
            "controller_cidr": "198.51.100.1/32",
            "endpoint_url": self.arm.url,
        }
        scenario = {
            "name": "lab",
            "workload": {"kind": "btc", "duration": "300ms", "interval": "100ms"},
            "repeat": 1,
            "placement": "any",
            **top,
            "provider": {**usual, **top.get("provider", {})},
        }
        return self.osmef.write(json.dumps(scenario), "lab.json")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return self.osmef.start(*arguments, prefix=tuple(self.inside))

    def __call__(self, *arguments: str) -> Ended:
        return self.osmef(*arguments, prefix=tuple(self.inside))

    def owned(self) -> list[str]:
        found = AzureProvider.owned({"uri": self.arm.url})
        return [f"{one.kind} {one.name}" for one in found]


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("guests of the tests are namespaces, and need root")
    state, directory = tmp_path / "azure", tmp_path / "osmef"
    directory.mkdir()
    with with_guests(state) as (arm, environment, inside):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        osmef = Osmef(directory, ("osmef.providers.azure.provider",))
        osmef.end_s = 200.0
        yield Lab(arm, osmef, inside)
        osmef.close()
