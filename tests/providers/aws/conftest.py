"""A lab: EC2 of moto's server, and ``osmef`` where its instances can be reached."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import JSONFileLoader

from osmef.providers.aws.provider import AwsProvider
from osmef.scenario.clouds.aws import AwsSettings
from tests.aws.api import ACCOUNTS, REGION, Api
from tests.aws.cloud import Cloud, skip_unless_possible
from tests.aws.policy import allowed
from tests.aws.wiring import OUTSIDE
from tests.cli.conftest import Ended, Osmef


def settings_for(api: Api, **more: Any) -> dict[str, Any]:
    """Return the keys of a provider at this API."""
    return {
        "kind": "aws",
        "region": REGION,
        "default_flavor": "c5.large",
        "user": "debian",
        "controller_cidr": f"{OUTSIDE}/32",
        "endpoint_url": api.url,
        **more,
    }


@dataclass
class Lab:
    """The cloud, and the runs of one test."""

    cloud: Cloud
    osmef: Osmef

    def write(self, name: str = "lab", **settings: Any) -> str:
        """Write a scenario of one short trial, with these keys of the provider, or others."""
        keys = {"sweep", "on_mismatch", "placement", "repeat", "tenancy", "endpoints"}
        keys |= {"workload", "order", "prices", "budget"}
        top = {key: settings.pop(key) for key in keys if key in settings}
        scenario = {
            "name": name,
            "provider": settings_for(self.cloud, **settings),
            "workload": {"kind": "btc", "duration": "300ms", "interval": "100ms"},
            "repeat": 1,
            **top,
        }
        return self.osmef.write(json.dumps(scenario), f"{name}.json")

    def __call__(self, *arguments: str) -> Ended:
        return self.osmef(*arguments, prefix=tuple(self.cloud.inside))

    def settings(self, **more: Any) -> AwsSettings:
        """Return the settings of a provider that is used directly."""
        return AwsSettings.model_validate(settings_for(self.cloud, **more))

    @property
    def access(self) -> dict[str, str]:
        """How to reach the API again."""
        return {"region": REGION, "uri": self.cloud.url}

    def owned(self, profile: str = "red") -> list[str]:
        """Return what is ours in an account, as kind and name."""
        access = {**self.access, "cloud": profile}
        return [f"{one.kind} {one.name}" for one in AwsProvider.owned(access)]


@pytest.fixture(scope="session")
def aws_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """EC2 for all tests that want it."""
    skip_unless_possible()
    cloud = Cloud(state=tmp_path_factory.mktemp("aws"))
    cloud.up()
    yield cloud
    cloud.down()


@pytest.fixture(scope="session")
def aws_api() -> Iterator[Api]:
    """The API alone, which needs no root."""
    api = Api()
    api.up()
    yield api
    api.down()


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have files of credentials for both accounts, and nothing else; return that of secrets."""
    config, secrets = tmp_path / "aws-config", tmp_path / "aws-secrets"
    config.write_text("".join(f"[profile {key[4:].lower()}]\n" for key in ACCOUNTS))
    lines = [
        f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = x\n"
        for key in ACCOUNTS
        for name in (key[4:].lower(), *(["default"] if key == "AKIARED" else []))
    ]
    secrets.write_text("".join(lines))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(secrets))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return secrets


@pytest.fixture(scope="session", autouse=True)
def _models_are_read_once() -> Iterator[None]:
    """Each session of botocore reads its descriptions of the API anew, megabytes of JSON."""
    with pytest.MonkeyPatch.context() as patch:
        read = cache(JSONFileLoader().load_file)
        patch.setattr(JSONFileLoader, "load_file", lambda _self, path: read(path))
        yield


@pytest.fixture
def api(aws_api: Api, credentials: Path) -> Api:
    """The API, in which nothing was made yet."""
    aws_api.reset()
    return aws_api


@pytest.fixture
def lab(aws_cloud: Cloud, credentials: Path, tmp_path: Path) -> Iterator[Lab]:
    aws_cloud.reset()
    osmef = Osmef(tmp_path, ("osmef.providers.aws.provider", "tests.providers.quick_command"))
    osmef.end_s = 120.0
    yield Lab(aws_cloud, osmef)
    osmef.close()
    called = {call.permission for call in aws_cloud.calls}
    aws_cloud.reset()
    assert called <= allowed(), "the policy of the docs does not allow all that was called"
