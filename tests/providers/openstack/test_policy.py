"""The policy of the documentation, applied: a member with its role may do what it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openstack
import pytest

from osmef.errors import PolicyError
from osmef.providers.openstack.provider import OpenStackProvider
from tests.providers.openstack.lab import Lab, server

pytestmark = pytest.mark.timeout(1200)  # the first test waits for the cloud

POLICY = Path(__file__).parents[3] / "docs/policies/openstack-nova.yaml"


@pytest.fixture
def allowed(lab: Lab) -> Iterator[None]:
    """Apply the policy, and give alice its role, as its head tells."""
    folder = lab.cloud.state / "etc/policy.d"
    folder.mkdir()
    (folder / "osmef.yaml").write_bytes(POLICY.read_bytes())
    with openstack.connect(cloud="admin") as admin:
        identity: Any = admin.identity
        role = identity.create_role(name="osmef")
        who = {name: getattr(identity, f"find_{name}") for name in ("project", "user")}
        grant = (who["project"]("alpha"), who["user"]("alice"), role)
        identity.assign_project_role_to_user(*grant)
        try:
            yield
        finally:
            identity.delete_role(role)
            (folder / "osmef.yaml").unlink()
            folder.rmdir()


def test_without_the_policy_a_member_cannot_place_by_host(
    provider: Callable[..., OpenStackProvider],
) -> None:
    with pytest.raises(PolicyError):
        provider(placement_by="host").check([server()])


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    ("settings", "placement", "hosts"),
    [
        (
            {"placement_by": "host", "compute_hosts": ["cmp2", "cmp3"]},
            "different-host",
            "cmp2 cmp3",
        ),
        ({"zones": ["az1:cmp2"]}, "same-host", "cmp2 cmp2"),
    ],
)
def test_a_member_with_the_role_names_hosts_and_sees_their_names(
    lab: Lab, settings: dict[str, Any], placement: str, hosts: str
) -> None:
    ended = lab("run", lab.write(placement=placement, **settings))
    assert ended.code == 0, ended.err
    achieved = [end["achieved"]["host"] for end in lab.osmef.summary["endpoints"]]
    assert sorted(achieved) == hosts.split()
    assert lab.owned() == []
