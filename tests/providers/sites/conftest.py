"""A lab of two clouds: EC2 of moto's server and the tests' Compute Engine, joined by a cable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from osmef.providers.aws.provider import AwsProvider
from osmef.providers.base import Resource
from osmef.providers.gce.provider import GceProvider
from tests.aws.api import FAR, REGION
from tests.aws.cloud import Cloud, skip_unless_possible
from tests.aws.wiring import OUTSIDE
from tests.cli.conftest import Ended, Osmef
from tests.gce.cloud import UNIVERSE, GceCloud
from tests.gce.services.contents import PROJECTS
from tests.sites.internet import Shore, joined, relayed

_ALL = {"user": "debian", "controller_cidr": f"{OUTSIDE}/32"}


@dataclass
class Lab:
    """Both clouds, and the runs of one test, which begin at the shore of EC2."""

    aws: Cloud
    gce: GceCloud
    osmef: Osmef

    @property
    def prefix(self) -> tuple[str, ...]:
        return tuple(self.aws.inside)

    def ec2(self, **more: Any) -> dict[str, Any]:
        """Return settings of EC2."""
        own = {"kind": "aws", "region": REGION, "default_flavor": "c5.large"}
        return {**_ALL, **own, "endpoint_url": self.aws.url, **more}

    def google(self, **more: Any) -> dict[str, Any]:
        """Return settings of Compute Engine."""
        own = {"kind": "gce", "region": "here-1", "endpoint_url": self.gce.url}
        return {**_ALL, **own, **more}

    def write(self, **more: Any) -> str:
        """Write a scenario of one short trial, from EC2 to Compute Engine if not told otherwise."""
        pair = {
            "sites": {"ec2": self.ec2(), "google": self.google()},
            "endpoints": {"sender": {"site": "ec2"}, "receiver": {"site": "google"}},
        }
        scenario = {
            "name": "two-clouds",
            **({} if "provider" in more or "sites" in more else pair),
            "workload": {"kind": "btc", "duration": "300ms", "interval": "100ms"},
            "repeat": 1,
            **more,
        }
        return self.osmef.write(json.dumps(scenario), "two-clouds.json")

    def __call__(self, *arguments: str) -> Ended:
        return self.osmef(*arguments, prefix=self.prefix)

    def left(self) -> list[str]:
        """Return what is ours in both clouds, as cloud, kind and name."""
        regions = [{"region": region, "uri": self.aws.url} for region in (REGION, FAR)]
        found = [*google_things(self.gce)] + [
            one for region in regions for one in AwsProvider.owned(region)
        ]
        return [f"{one.provider} {one.kind} {one.name}" for one in found]


def google_things(cloud: GceCloud) -> list[Resource]:
    """Return what is ours in all projects."""
    return [
        one
        for project in PROJECTS
        for one in GceProvider.owned({"cloud": project, "uri": cloud.url})
    ]


@pytest.fixture(scope="session")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cloud, GceCloud]]:
    """Both clouds, for all tests that want them."""
    skip_unless_possible()
    aws = Cloud(state=tmp_path_factory.mktemp("aws"))
    gce = GceCloud(tmp_path_factory.mktemp("gce"))
    aws.up()
    try:
        gce.up()
        here = Shore(aws.inside[1].removeprefix("--net="), "54.214.0.0/16", OUTSIDE)
        there = Shore(gce.inside[1].removeprefix("--net="), "198.51.100.0/24", "198.51.100.1")
        with joined(here, there), relayed(here, gce.port):
            yield aws, gce
    finally:
        gce.down(purge=True)
        aws.down()


@pytest.fixture
def lab(
    clouds: tuple[Cloud, GceCloud], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Lab]:
    aws, gce = clouds
    aws.reset()
    for name in ("AWS_PROFILE", "AWS_REGION", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    values = {
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ACCESS_KEY_ID": "AKIARED",
        "AWS_SECRET_ACCESS_KEY": "x",
        "GOOGLE_APPLICATION_CREDENTIALS": str(gce.credentials),
        "GOOGLE_CLOUD_UNIVERSE_DOMAIN": UNIVERSE,
        "NO_GCE_CHECK": "true",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    osmef = Osmef(tmp_path)
    osmef.end_s = 180.0
    yield Lab(aws, gce, osmef)
    osmef.close()
    GceProvider.destroy(google_things(gce), lambda _resource: None)
