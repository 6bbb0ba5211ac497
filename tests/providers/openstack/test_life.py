"""Whole runs on a real OpenStack, and what they leave: nothing, and nothing foreign touched."""

from __future__ import annotations

from typing import Any

import openstack
import pytest
from openstack.connection import Connection

from tests.providers.openstack.lab import Lab

pytestmark = pytest.mark.timeout(1200)  # the first test waits for the cloud


def connect(cloud: str) -> Connection:
    return openstack.connect(cloud=cloud)


def test_a_run_of_one_tenant_keeps_its_placement_and_leaves_nothing(lab: Lab) -> None:
    scenario = lab.write(sweep={"placement": ["same-host", "different-host"]})
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    cells = {cell["placement"]: cell for cell in lab.osmef.summary["cells"]}
    assert {name: cell["distance"] for name, cell in cells.items()} == {
        "same-host": 0,
        "different-host": 2,
    }
    assert all(cell["n_ok"] == 1 for cell in cells.values())
    assert lab.owned() == []
    made = lab.osmef.kinds_of("created")
    gone = lab.osmef.kinds_of("destroyed")
    assert sorted(made) == sorted(gone)
    assert made.count("server") == 4


def test_an_admin_makes_tenants_and_names_hosts(lab: Lab) -> None:
    with connect("admin") as admin:
        before = {project.id for project in admin.identity.projects()}  # type: ignore[union-attr]
    scenario = lab.write(
        cloud="admin",
        projects="made",
        placement_by="host",
        tenancy="different-tenant",
        sweep={"placement": ["same-host", "different-host"]},
    )
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    achieved = {
        c["placement"]: (c["achieved_placement"], c["distance"]) for c in lab.osmef.summary["cells"]
    }
    assert achieved == {
        "same-host": ("same-host", 4),
        "different-host": ("different-host", 4),
    }
    with connect("admin") as admin:
        assert {project.id for project in admin.identity.projects()} == before  # type: ignore[union-attr]
    assert lab.owned("admin") == []


def test_two_projects_that_are_there_with_their_own_network_on_each_side(lab: Lab) -> None:
    scenario = lab.write(
        projects={"red": "alice", "blue": "bob"},
        compute_hosts=["cmp1", "cmp2", "cmp3"],
        tenancy="different-tenant",
        on_mismatch="record",
    )
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    places = [end["achieved"] for end in lab.osmef.summary["endpoints"]]
    assert {place["tenant"] for place in places} == {"red", "blue"}
    assert {place["host"] for place in places} <= {"cmp1", "cmp2", "cmp3"}
    assert [cell["distance"] for cell in lab.osmef.summary["cells"]] == [4]
    assert lab.owned() == lab.owned("bob") == []


@pytest.fixture
def foreign(lab: Lab) -> Any:
    """Things that were there before, some of them with names and marks that are almost ours."""
    with connect("alice") as api:
        outside = next(one for one in api.network.networks() if one.is_router_external)
        made = [
            api.network.create_ip(floating_network_id=outside.id, description="osmef"),
            api.network.create_network(name="osmef-lab-20260101T000000Z-abcd-net-1"),
            api.network.create_security_group(name="lab-ssh"),
            api.compute.create_keypair(name="osmef-lab-key-1"),
        ]
        group = made[2].id
        for low, high, protocol in ((22, 22, "tcp"), (20000, 20999, "tcp")):
            api.network.create_security_group_rule(
                security_group_id=group,
                direction="ingress",
                protocol=protocol,
                port_range_min=low,
                port_range_max=high,
            )
        yield api
        there = {str(one.id) for one in (*api.network.ips(), *api.network.networks())}
        there |= {str(one.id) for one in (*api.network.security_groups(), *api.compute.keypairs())}
        assert {str(one.id) for one in made} <= there
        assert len(list(api.network.security_group_rules(security_group_id=group))) == 4
        api.network.delete_ip(str(made[0].id))
        api.network.delete_network(str(made[1].id))
        api.network.delete_security_group(str(made[2].id))
        api.compute.delete_keypair(str(made[3].id))


@pytest.mark.usefixtures("foreign")
def test_named_resources_are_used_and_kept(lab: Lab) -> None:
    scenario = lab.write(
        security_groups=["lab-ssh"], keypair="osmef-lab-key-1", host_keys="console"
    )
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    kinds = {kind for _event, kind in lab.osmef.events if kind}
    assert kinds == {"server", "server-group", "network", "router", "floating-ip"}
    assert lab.owned() == []
