"""A lab: the Azure of the tests, and ``osmef`` where its VMs can be reached."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from osmef.providers.azure.provider import AzureProvider
from tests.azure.arm import REGION, Arm
from tests.azure.cloud import with_guests
from tests.cli.conftest import Ended, Osmef


@dataclass
class Lab:
    """The cloud, and the runs of one test."""

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
        return self.osmef.finish(self.start(*arguments))

    def owned(self) -> list[str]:
        found = AzureProvider.owned({"uri": self.arm.url})
        return [f"{one.kind} {one.name}" for one in found]

    @property
    def summary(self) -> Any:
        return json.loads((self.osmef.run / "summary.json").read_text())


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("guests of the tests are namespaces, and need root")
    state, directory = tmp_path / "azure", tmp_path / "osmef"
    directory.mkdir()
    with with_guests(state) as (arm, environment, inside):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        osmef = Osmef(directory)
        osmef.end_s = 200.0
        yield Lab(arm, osmef, inside)
        for process in osmef.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
