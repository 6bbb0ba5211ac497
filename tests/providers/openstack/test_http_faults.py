"""What goes wrong on the small cloud: credentials, quotas, hosts, the ways to its APIs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest

from osmef.errors import CapacityError, CredentialsError, PolicyError, QuotaError
from osmef.providers.base import Resource
from osmef.providers.openstack.provider import OpenStackProvider
from tests.openstack.calls import recorded
from tests.openstack.faults import all_calls_fail, hosts_fail
from tests.openstack.settings import FAR_REGION, REGION
from tests.openstack.small.talk import Talk
from tests.providers.openstack.lab import Lab, context, server, servers_of

MAKING = [
    ("nova-api", "POST .*/(servers|os-keypairs|os-server-groups)$"),
    ("neutron-server", "(POST|PUT) "),
]
DELETING = [
    ("nova-api", "POST .*/action"),
    ("nova-api", "DELETE .*/os-keypairs"),
    ("nova-api", "DELETE .*/os-server-groups"),
    *(("neutron-server", f"DELETE .*/{kind}/") for kind in ("floatingips", "routers", "networks")),
    ("neutron-server", "DELETE .*/security-groups/"),
]


def test_wrong_password_is_an_error_of_credentials(
    small_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = small_lab.cloud.settings.password
    text = small_lab.cloud.clouds_yaml.read_text().replace(password, "wrong")
    (tmp_path / "clouds.yaml").write_text(text)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    with pytest.raises(CredentialsError, match="requires authentication") as caught:
        small_lab.provider().check([server()])
    assert "clouds.yaml" in str(caught.value.cure)


def test_application_credential_is_enough(
    small_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk(small_lab.cloud.clouds_yaml)
    path = f"identity /users/{talk.ids['user alice']}/application_credentials"
    body = {"application_credential": {"name": "run", "secret": "s"}}
    _, _, made = talk.ask("alice", "POST", path, body)
    key = made["application_credential"]["id"]
    where = {"auth_url": small_lab.cloud.settings.public_url("keystone")}
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))

    def check(secret: str) -> None:
        login = {**where, "application_credential_id": key, "application_credential_secret": secret}
        entry = {"auth_type": "v3applicationcredential", "auth": login, "region_name": REGION}
        (tmp_path / "clouds.yaml").write_text(json.dumps({"clouds": {"alice": entry}}))
        small_lab.provider().check([server()])

    check("s")
    with pytest.raises(CredentialsError):
        check("t")
    talk.ask("alice", "DELETE", f"{path}/{key}")


def test_quota_of_one_stops_a_run_before_anything_is_made(small_lab: Lab) -> None:
    talk = Talk(small_lab.cloud.clouds_yaml)
    path = f"compute /os-quota-sets/{talk.ids['project alice']}"
    talk.ask("admin", "PUT", path, {"quota_set": {"instances": 1}})
    try:
        with recorded(small_lab.cloud) as calls:
            ended = small_lab("run", small_lab.write())
    finally:
        talk.ask("admin", "DELETE", path)
    assert ended.code == 3
    assert "2 instances (quota 1, in use 0)" in ended.err
    assert {c.method for c in calls if c.service != "keystone"} == {"GET"}


def test_quotas_of_the_network_are_compared(small_lab: Lab) -> None:
    requests = [server(f"s{n}", flavor="m1.tiny") for n in range(51)]
    with pytest.raises(QuotaError, match=r"51 floating IPs \(quota 50, in use 0\)"):
        small_lab.provider().check(requests)


def test_only_the_services_of_the_region_are_asked(small_lab: Lab) -> None:
    with recorded(small_lab.cloud) as calls:
        small_lab.provider(region=FAR_REGION).check([server()])
    far = {"far-glance-api", "far-nova-api", "far-neutron-server"}
    assert {call.service for call in calls} == {"keystone", *far}


def test_member_may_name_no_hosts(small_lab: Lab) -> None:
    with pytest.raises(PolicyError, match="only an administrator"):
        small_lab.provider(placement_by="host").check([server()])


def test_no_valid_host_is_an_error_of_capacity(small_lab: Lab) -> None:
    """The zone has one host, and the servers are to stand on two."""
    made = small_lab.provider(zones=["az2"])
    with pytest.raises(CapacityError, match="No valid host") as caught:
        small_lab.create(made, context(server("a"), server("b", "host-2")))
    assert "another placement" in str(caught.value.cure)
    made.close()
    assert small_lab.owned() == servers_of("alice") == []


def test_a_server_in_error_is_reported_with_its_fault_message_and_nothing_is_left(
    small_lab: Lab,
) -> None:
    made = small_lab.provider(zones=["az2"])
    with hosts_fail(small_lab.cloud), pytest.raises(CapacityError, match="not start") as caught:
        small_lab.create(made, context(server()))
    assert "Exhausted all hosts available for retrying build failures" in caught.value.message
    made.close()
    assert small_lab.owned() == servers_of("alice") == []


@pytest.mark.parametrize(("how", "times"), [("lose", 1000), (503, 3)])
def test_answers_that_are_lost_and_calls_that_fail_make_nothing_twice(
    small_lab: Lab, how: int | Literal["lose"], times: int
) -> None:
    """The answer to each request for something is lost; or some fail before they arrive."""
    made = small_lab.provider()
    with (
        recorded(small_lab.cloud) as calls,
        all_calls_fail(small_lab.cloud, MAKING, how, times),
    ):
        small_lab.create(made, context(server("a"), server("b", "host-2")))
    assert len([call for call in calls if call.lost or call.status == 503]) >= 2 * 3
    there = Counter(one.split()[0] for one in small_lab.owned())
    assert there == {
        "server": 2,
        "floating-ip": 2,
        "server-group": 1,
        "key-pair": 1,
        "network": 1,
        "router": 1,
        "security-group": 1,
    }
    made.close()
    assert small_lab.owned() == servers_of("alice") == []


def test_a_deletion_whose_answer_was_lost_counts_as_deleted(small_lab: Lab) -> None:
    """Each deletion is done and its answer lost, so that it is asked for again: 404."""
    made, gone = small_lab.provider(), list[Resource]()
    small_lab.create(made, context(server("a"), server("b", "host-2")))
    left = OpenStackProvider.owned({"cloud": "alice"})
    with recorded(small_lab.cloud) as calls, all_calls_fail(small_lab.cloud, DELETING, "lose"):
        OpenStackProvider.destroy(left, gone.append)
    assert sorted(one.name for one in gone) == sorted(one.name for one in left)
    # A server may be still on its way when it is asked for again.
    missed = [call for call in calls if call.status == 404 and call.method == "DELETE"]
    assert len(missed) == len(DELETING) - 1
    assert small_lab.owned() == servers_of("alice") == []
