"""Which project the credentials lead to, and what is wrong with those that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openstack.exceptions import ForbiddenException

from osmef.errors import CredentialsError, PolicyError, ProviderError, QuotaError
from osmef.providers.base import Resource
from osmef.providers.openstack import failures
from osmef.providers.openstack.access import open_cloud
from osmef.providers.openstack.provider import OpenStackProvider
from tests.providers.openstack.keystone import keystone, write_cloud


@pytest.fixture
def clouds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "clouds.yaml"
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(path))
    for name in ("OS_CLOUD", "OS_AUTH_URL", "OS_REGION_NAME"):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with keystone() as at:
        yield at


def test_the_way_to_a_project_names_it_and_its_cloud(clouds: Path, url: str) -> None:
    write_cloud(clouds, url, "p1", region_name="north")
    cloud = open_cloud({"cloud": "lab"})
    assert cloud.access == {"cloud": "lab", "region": "north", "auth_url": url, "home": "p1"}
    assert cloud.name == "lab"
    assert open_cloud(cloud.access).access == cloud.access


def test_failing_tls_is_told_at_once(clouds: Path, url: str) -> None:
    write_cloud(clouds, url.replace("http:", "https:"), "p1")
    with pytest.raises(CredentialsError, match="SSL") as caught:
        open_cloud({"cloud": "lab"})
    assert "cacert" in str(caught.value.cure)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Policy doesn't allow os_compute_api:os-quota-sets:show to be performed.", PolicyError),
        ("(rule:update_quota) is disallowed by policy", PolicyError),
        ("Quota exceeded for instances: Requested 1, but already used 1 of 1", QuotaError),
    ],
)
def test_a_policy_about_quotas_is_no_quota(said: str, kind: type[ProviderError]) -> None:
    refused = ForbiddenException(said, http_status=403)
    assert type(failures.translate(refused, "asking")) is kind


@pytest.mark.parametrize("made", [{}, {"project": "p-of-a-run"}])
def test_what_was_made_in_another_project_is_not_taken_for_gone(
    clouds: Path, url: str, made: dict[str, str]
) -> None:
    write_cloud(clouds, url, "p1")
    access = {**open_cloud({"cloud": "lab"}).access, **made}
    write_cloud(clouds, url, "p2")
    gone: list[Resource] = []
    resource = Resource("openstack", "network", "osmef-r-net-1", "r", access=access)
    with pytest.raises(CredentialsError, match=f"in the project p1 at {url}") as caught:
        OpenStackProvider.destroy([resource], gone.append)
    assert gone == []
    assert "clouds.yaml" in str(caught.value.cure)
    with pytest.raises(CredentialsError, match="project p1"):
        OpenStackProvider.owned(access)
