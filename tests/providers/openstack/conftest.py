"""A lab: the real cloud of the tests, and ``osmef`` where its servers can be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from osmef.providers.openstack.provider import OpenStackProvider
from osmef.scenario.clouds.openstack import OpenStackSettings
from tests.cli.conftest import Osmef
from tests.openstack.cloud import Cloud
from tests.openstack.small.cloud import SmallCloud
from tests.providers.openstack.lab import Lab


@pytest.fixture
def clouds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where a clouds.yaml is to be written that alone counts."""
    path = tmp_path / "clouds.yaml"
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(path))
    for name in ("OS_CLOUD", "OS_AUTH_URL", "OS_REGION_NAME"):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture
def lab(openstack_cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Lab]:
    with _lab(openstack_cloud, monkeypatch, tmp_path) as lab:
        yield lab


@pytest.fixture
def small_lab(
    small_cloud: SmallCloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Lab]:
    """A lab in the small cloud of the tests."""
    with _lab(small_cloud, monkeypatch, tmp_path) as lab:
        yield lab


@contextmanager
def _lab(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Lab]:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(cloud.clouds_yaml))
    for name in ("OS_CLOUD", "OS_AUTH_URL"):
        monkeypatch.delenv(name, raising=False)
    osmef = Osmef(tmp_path)
    osmef.end_s = 600.0
    lab = Lab(cloud, osmef)
    yield lab
    osmef.close()
    for name in lab.dirty:
        left = OpenStackProvider.owned({"cloud": name})
        OpenStackProvider.destroy(left, lambda _resource: None)


@pytest.fixture
def provider(lab: Lab) -> Callable[..., OpenStackProvider]:
    """Make a provider of alice's cloud, with other settings if need be."""

    def make(**settings: Any) -> OpenStackProvider:
        usual: dict[str, Any] = {"cloud": "alice", "boot": {"image": "guest"}}
        return OpenStackProvider(OpenStackSettings(**(usual | settings)))

    return make
