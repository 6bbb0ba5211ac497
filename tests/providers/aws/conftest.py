"""A lab: EC2 of moto's server, and ``osmef`` where its instances can be reached."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from osmef.providers.aws.provider import AwsProvider
from tests.aws.cloud import ACCOUNTS, REGION, Cloud, skip_unless_possible
from tests.aws.wiring import OUTSIDE
from tests.cli.conftest import Ended, Osmef


@dataclass
class Lab:
    """The cloud, and the runs of one test."""

    cloud: Cloud
    osmef: Osmef

    def write(self, name: str = "lab", **settings: Any) -> str:
        """Write a scenario of one short trial, with these keys of the provider, or others."""
        keys = ("sweep", "on_mismatch", "placement", "repeat", "tenancy", "endpoints")
        top = {key: settings.pop(key) for key in keys if key in settings}
        provider = {
            "kind": "aws",
            "region": REGION,
            "default_flavor": "c5.large",
            "user": "debian",
            "controller_cidr": f"{OUTSIDE}/32",
            "endpoint_url": self.cloud.url,
            **settings,
        }
        scenario = {
            "name": name,
            "provider": provider,
            "workload": {"kind": "btc", "duration": "300ms", "interval": "100ms"},
            "repeat": 1,
            **top,
        }
        return self.osmef.write(json.dumps(scenario), f"{name}.json")

    def __call__(self, *arguments: str) -> Ended:
        return self.osmef.finish(self.osmef.start(*arguments, prefix=tuple(self.cloud.inside)))

    @property
    def access(self) -> dict[str, str]:
        """How to reach the API again."""
        return {"region": REGION, "uri": self.cloud.url}

    def owned(self, profile: str = "red") -> list[str]:
        """Return what is ours in an account, as kind and name."""
        access = {**self.access, "cloud": profile}
        return [f"{one.kind} {one.name}" for one in AwsProvider.owned(access)]

    def journal(self) -> list[tuple[str, str]]:
        """Return the events of the run and the kinds of things that they are about."""
        path = self.osmef.run / "journal.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [(one["event"], one.get("resource", {}).get("kind", "")) for one in lines]

    @property
    def summary(self) -> Any:
        return json.loads((self.osmef.run / "summary.json").read_text())


@pytest.fixture(scope="session")
def aws_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """EC2 for all tests that want it."""
    skip_unless_possible()
    cloud = Cloud(tmp_path_factory.mktemp("aws"))
    cloud.up()
    yield cloud
    cloud.down()


@pytest.fixture
def lab(aws_cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Lab]:
    aws_cloud.reset()
    config, secrets = tmp_path / "aws-config", tmp_path / "aws-secrets"
    config.write_text("".join(f"[profile {key[4:].lower()}]\n" for key in ACCOUNTS))
    lines = [
        f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = x\n"
        for key in ACCOUNTS
        for name in (key[4:].lower(), *(["default"] if key == "AKIARED" else []))
    ]
    secrets.write_text("".join(lines))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(secrets))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    osmef = Osmef(tmp_path)
    osmef.end_s = 60.0
    yield Lab(aws_cloud, osmef)
    for process in osmef.started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    aws_cloud.reset()
