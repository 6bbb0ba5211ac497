"""The Compute Engine of the tests, brought up once, and a lab for each test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from osmef.providers.gce.provider import GceProvider
from tests.cli.conftest import Osmef
from tests.gce.cloud import UNIVERSE, GceCloud
from tests.gce.services.contents import PROJECTS
from tests.providers.gce.lab import Lab


@pytest.fixture(scope="session")
def gce_cloud() -> Iterator[GceCloud]:
    if os.geteuid() != 0:
        pytest.skip("the VMs of the tests' cloud need root, for network namespaces")
    cloud = GceCloud(Path(tempfile.mkdtemp(prefix="osmef-gce-")))
    failed = True
    try:
        cloud.up()
        failed = False
        yield cloud
    finally:
        cloud.down(purge=not failed)


@pytest.fixture
def lab(gce_cloud: GceCloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Lab]:
    credentials = ("GOOGLE_APPLICATION_CREDENTIALS", str(gce_cloud.credentials))
    monkeypatch.setenv(*credentials)
    monkeypatch.setenv("GOOGLE_CLOUD_UNIVERSE_DOMAIN", UNIVERSE)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for name in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    osmef = Osmef(tmp_path, ("osmef.providers.gce.provider", "tests.providers.quick_command"))
    osmef.end_s = 240.0
    yield Lab(gce_cloud, osmef)
    osmef.close()
    monkeypatch.setenv(*credentials)  # a test may have taken them away
    for project in PROJECTS:
        left = GceProvider.owned({"cloud": project, "uri": gce_cloud.url})
        GceProvider.destroy(left, lambda _resource: None)
