"""What a check finds wrong, with the real answers of the services."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openstack
import pytest

from osmef.errors import (
    ApiError,
    CapacityError,
    CredentialsError,
    NotFoundError,
    PolicyError,
    ProviderError,
    QuotaError,
)
from osmef.providers.cloud.account import CloudWaits
from osmef.providers.openstack.provider import OpenStackProvider
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.fields import FlavorNeed
from tests.openstack.calls import recorded
from tests.openstack.faults import calls_fail
from tests.openstack.settings import REGION
from tests.providers.openstack.lab import Lab, context, server

pytestmark = pytest.mark.timeout(1200)  # the first test waits for the cloud

Make = Callable[..., OpenStackProvider]


@pytest.mark.parametrize(
    ("settings", "kind", "message", "cure"),
    [
        ({"boot": {"image": "gest"}}, NotFoundError, "no image 'gest'", "did you mean guest?"),
        ({"boot": {"volume": "v"}}, NotFoundError, "has no volumes", "boot from an image"),
        ({"cloud": "alise"}, CredentialsError, "alise", "alice"),
        ({"region": "Mars"}, CredentialsError, "Mars", "RegionOne"),
        ({"zones": ["az1", "az9"]}, NotFoundError, "zone 'az9'", "az1"),
        ({"external_network": "text"}, NotFoundError, "no external network 'text'", "ext"),
        ({"network": "lan"}, NotFoundError, "no network 'lan'", "ext"),
        ({"security_groups": ["defalt"]}, NotFoundError, "'defalt'", "did you mean default?"),
        ({"keypair": "mine"}, NotFoundError, "no key pair 'mine'", "no key pair at all"),
        ({"placement_by": "host"}, PolicyError, "only an administrator", "server-group"),
        (
            {"cloud": "admin", "placement_by": "host", "compute_hosts": ["cmp9"]},
            CapacityError,
            "cmp9 is not up",
            "cmp1, cmp2, cmp3",
        ),
    ],
)
def test_names_in_the_settings_are_looked_up(
    provider: Make, settings: dict[str, Any], kind: type[ProviderError], message: str, cure: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        provider(**settings).check([server()])
    assert cure in str(caught.value.cure)


@pytest.mark.parametrize("cidr", [None, "2001:db8:77::/64"])
def test_a_network_without_ipv4_is_reported_before_anything_is_created(
    provider: Make, cidr: str | None
) -> None:
    with openstack.connect(cloud="alice") as api:
        network = api.network.create_network(name="no-v4")
        try:
            if cidr is not None:
                api.network.create_subnet(network_id=network.id, ip_version=6, cidr=cidr)
            with pytest.raises(NotFoundError, match="no IPv4 subnet") as caught:
                provider(network="no-v4").check([server()])
        finally:
            api.network.delete_network(network)
    assert "add a subnet" in str(caught.value.cure)


def test_an_image_that_needs_more_gets_a_larger_flavor(provider: Make) -> None:
    with openstack.connect(cloud="alice") as api:
        image = api.image.create_image(
            name="large", data=b"x", disk_format="raw", container_format="bare", min_ram=1024
        )
        try:
            asked = provider(boot={"image": "large"})
            with pytest.raises(ProviderError, match="too small"):
                asked.check([server(flavor="m1.tiny")])
            asked.check([server(flavor=FlavorNeed(vcpus=1))])
        finally:
            api.image.delete_image(image.id)


def test_an_unlisted_image_is_found_by_its_id(provider: Make) -> None:
    with openstack.connect(cloud="alice") as api:
        image = api.image.create_image(
            name="old", data=b"x", disk_format="raw", container_format="bare"
        )
        try:
            api.image.update_image(image.id, is_hidden=True)
            with pytest.raises(NotFoundError, match="no image 'old'"):
                provider(boot={"image": "old"}).check([server()])
            provider(boot={"image": image.id}).check([server()])
        finally:
            api.image.delete_image(image.id)
    with pytest.raises(NotFoundError, match="no image"):
        provider(boot={"image": image.id}).check([server()])


@pytest.mark.parametrize(
    ("flavor", "message", "cure"),
    [
        ("m1.tinny", "no flavor 'm1.tinny'", "did you mean m1.tiny?"),
        (FlavorNeed(vcpus=999), "no flavor has", "the largest is"),
    ],
)
def test_flavors_are_looked_up(
    provider: Make, flavor: str | FlavorNeed, message: str, cure: str
) -> None:
    with pytest.raises(NotFoundError, match=message) as caught:
        provider().check([server(flavor=flavor)])
    assert cure in str(caught.value.cure)


def test_a_plan_beyond_the_quotas_is_refused_whole(provider: Make) -> None:
    requests = [server(f"s{n}", flavor="m1.small") for n in range(11)]
    with pytest.raises(QuotaError, match="11 instances") as caught:
        provider().check(requests)
    with pytest.raises(QuotaError, match="11 members of a server group") as caught:
        provider().check(requests)
    assert caught.value.cure is not None


@pytest.fixture
def one_instance(lab: Lab) -> Iterator[None]:
    """A cloud whose projects may have one server, unless they were given more."""
    with openstack.connect(cloud="admin") as admin:
        usual = admin.compute.get_quota_class_set().instances
        admin.compute.update_quota_class_set("default", instances=1)
        yield
        admin.compute.update_quota_class_set("default", instances=usual)


def test_projects_to_be_made_are_measured_by_what_new_ones_get(provider: Make) -> None:
    asked = provider(cloud="admin", projects="made")
    asked.check([server("a"), server("b", "host-2"), server("c", "host-3", "tenant-2")])
    with pytest.raises(QuotaError, match=r"51 floating IPs \(quota 50, in use 0\)") as caught:
        asked.check([server(f"s{n}") for n in range(51)])
    assert "51 instances (quota 10, in use 0)" in caught.value.message
    assert "openstack quota set --default" in str(caught.value.cure)


@pytest.mark.usefixtures("one_instance")
def test_a_plan_beyond_the_default_quotas_makes_no_project(lab: Lab) -> None:
    with openstack.connect(cloud="admin") as admin:
        before = {project.id for project in admin.identity.projects()}  # type: ignore[union-attr]
        with recorded(lab.cloud) as calls:
            ended = lab("run", lab.write(cloud="admin", projects="made"))
        after = {project.id for project in admin.identity.projects()}  # type: ignore[union-attr]
    assert ended.code == 3
    assert "the plan needs 2 instances (quota 1, in use 0)" in ended.err
    assert after == before
    assert {call.method for call in calls if call.service != "keystone"} == {"GET"}


def test_a_wrong_password_is_reported_as_such(
    provider: Make, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = lab.cloud.clouds_yaml.read_text().replace(lab.cloud.settings.password, "wrong")
    (tmp_path / "clouds.yaml").write_text(text)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    with pytest.raises(CredentialsError, match="requires authentication") as caught:
        provider().check([server()])
    assert "clouds.yaml" in str(caught.value.cure)
    monkeypatch.undo()


def test_os_variables_win_over_a_clouds_yaml_in_reach(
    provider: Make, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "OS_AUTH_URL": lab.cloud.settings.url("keystone"),
        "OS_USERNAME": "bob",
        "OS_PASSWORD": lab.cloud.settings.password,
        "OS_PROJECT_NAME": "beta",
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_REGION_NAME": REGION,
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    with openstack.connect(cloud="bob") as bob:
        group = bob.network.create_security_group(name="only-bob")
        provider(cloud=None, security_groups=["only-bob"]).check([server()])
        bob.network.delete_security_group(group)


def test_a_missing_cloud_name_is_an_error(provider: Make) -> None:
    with pytest.raises(CredentialsError, match="no cloud is configured"):
        provider(cloud=None).check([server()])
    with pytest.raises(CredentialsError, match="no cloud is configured"):
        OpenStackProvider.owned({})


def test_a_member_may_not_make_projects(provider: Make) -> None:
    asked = provider(projects="made")
    with pytest.raises(PolicyError) as caught:
        asked.create(context(server()))
    assert "name projects" in str(caught.value.cure)
    asked.close()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_api_that_fails_now_and_then_is_asked_again(
    provider: Make, lab: Lab, status: int
) -> None:
    with (
        recorded(lab.cloud) as calls,
        calls_fail(lab.cloud, "neutron-server", "GET .*/networks", status, times=2),
    ):
        provider().check([server()])
    asked = [call.status for call in calls if "/networks" in call.path]
    assert asked == [status, status, 200]


def test_an_api_that_stays_away_is_an_error_with_a_cure(lab: Lab) -> None:
    settings = OpenStackSettings.model_validate({"cloud": "alice", "boot": {"image": "guest"}})
    with (
        calls_fail(lab.cloud, "glance-api", "GET", 503, times=1000),
        pytest.raises(ApiError) as caught,
    ):
        OpenStackProvider(settings, CloudWaits(retry_s=1.0)).check([server()])
    assert caught.value.cure is not None


def test_a_check_makes_nothing_and_asks_little(provider: Make, lab: Lab) -> None:
    with recorded(lab.cloud) as calls:
        provider().check([server("a"), server("b", "host-2")])
    assert {call.method for call in calls if call.service != "keystone"} == {"GET"}
    assert len(calls) <= 15
