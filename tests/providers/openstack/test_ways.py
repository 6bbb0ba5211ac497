"""What a run may be asked for beside the usual, and Ctrl-C in each phase of it."""

from __future__ import annotations

import signal
from typing import Any

import openstack
import pytest

from osmef.scenario.fields import DATA_PORTS
from tests.openstack.faults import hosts_fail
from tests.providers.openstack.lab import Lab, servers_of

pytestmark = pytest.mark.timeout(1200)  # the first test waits for the cloud

# HOST FLAVOR NAME: the first server can only be on cmp1, the second on cmp2, and what is made in
# the place of one of them only beside the other.
APART_AND_THEN_TOGETHER = "|".join(
    f"{hosts} .*Z-....-{server}"
    for hosts, server in (
        ("cmp[23]", "1-"),
        ("cmp[13]", "2-"),
        ("cmp[13]", "3-sender"),
        ("cmp[23]", "3-receiver"),
    )
)


def peers_of(*clouds: str) -> tuple[set[str], set[str]]:
    """Return the blocks that data is let in from, and the floating addresses that there are."""
    allow_ingress, addresses = set(), set()
    for cloud in clouds:
        with openstack.connect(cloud=cloud) as api:
            rules = [one for one in api.network.security_group_rules() if one.port_range_min]
            allow_ingress |= {
                r.remote_ip_prefix for r in rules if r.port_range_min == DATA_PORTS.start
            }
            addresses |= {f"{ip.floating_ip_address}/32" for ip in api.network.ips()}
    return {block for block in allow_ingress if block}, addresses


def test_on_mismatch_retry_recreates_a_server_at_the_requested_placement(lab: Lab) -> None:
    """Two projects know nothing of each other's hosts, so their servers stand apart by chance."""
    scenario = lab.write(
        projects={"red": "alice", "blue": "bob"},
        compute_hosts=["cmp1", "cmp2", "cmp3"],
        tenancy="different-tenant",
        placement="same-host",
        on_mismatch="retry 2",
    )
    with hosts_fail(lab.cloud, APART_AND_THEN_TOGETHER):
        process = lab.start("run", scenario)
        lab.osmef.until(process, "measuring")
        there = servers_of("alice") + servers_of("bob")
        allow_ingress, addresses = peers_of("alice", "bob")
        ended = lab.osmef.finish(process)
    assert ended.code == 0, ended.err
    assert len(there) == 2, "the old one goes before anything is measured"
    assert any("-3-" in name for name in there)
    assert allow_ingress == addresses, "an address that was given back lets nobody in"
    events = lab.osmef.events
    assert events.count(("replace", "")) == 1
    assert events.count(("created", "server")) == events.count(("destroyed", "server")) == 3
    assert events.count(("created", "floating-ip")) == 3
    assert events.count(("destroyed", "floating-ip")) == 3
    (cell,) = lab.osmef.summary["cells"]
    assert (cell["achieved_placement"], cell["n_ok"]) == ("same-host", 1)
    earlier = [place["host"] for end in lab.osmef.summary["endpoints"] for place in end["earlier"]]
    assert earlier in (["cmp1"], ["cmp2"])
    assert lab.owned() == lab.owned("bob") == []


def test_config_drive_soft_groups_and_a_flavor_by_its_id(lab: Lab) -> None:
    with openstack.connect(cloud="alice") as api:
        tiny = next(flavor.id for flavor in api.compute.flavors() if flavor.name == "m1.tiny")
        scenario = lab.write(
            default_flavor=tiny,
            config_drive=True,
            soft=True,
            sweep={"placement": ["same-host", "different-host"]},
            on_mismatch="record",
        )
        process = lab.start("run", scenario)
        lab.osmef.until(process, "waiting for SSH")
        servers: list[Any] = list(api.compute.servers())
        groups: list[Any] = list(api.compute.server_groups())
        ended = lab.osmef.finish(process)
    assert ended.code == 0, ended.err
    assert len(servers) == 4
    assert {server.flavor.original_name for server in servers} == {"m1.tiny"}
    assert all(server.has_config_drive for server in servers)
    assert {group.policy for group in groups} == {"soft-affinity", "soft-anti-affinity"}
    members = [member for group in groups for member in group.member_ids]
    assert sorted(members) == sorted(server.id for server in servers)
    assert {end["flavor"] for end in lab.osmef.summary["endpoints"]} == {"m1.tiny"}
    assert [cell["n_ok"] for cell in lab.osmef.summary["cells"]] == [1, 1]
    assert lab.owned() == []


@pytest.mark.parametrize(
    "phase", ["making networks", "making 2 servers", "waiting for SSH", "measuring"]
)
def test_ctrl_c_in_any_phase_leaves_nothing(lab: Lab, phase: str) -> None:
    process = lab.start("run", lab.write())
    lab.osmef.until(process, phase)
    lab.osmef.interrupt(process, signal.SIGINT)
    ended = lab.osmef.finish(process)
    assert ended.code == 4, ended.err
    assert "stopped by SIGINT" in ended.err
    assert "Traceback" not in ended.err
    made = lab.osmef.kinds_of("intend")
    gone = lab.osmef.kinds_of("destroyed")
    assert sorted(made) == sorted(gone)
    assert lab.owned() == servers_of("alice") == []


def test_ctrl_c_while_all_is_taken_away_leaves_nothing(lab: Lab) -> None:
    process = lab.start("run", lab.write())
    lab.osmef.until(process, "tearing down")
    lab.osmef.interrupt(process, signal.SIGINT)
    ended = lab.osmef.finish(process)
    assert ended.code == 0, ended.err
    assert [cell["n_ok"] for cell in lab.osmef.summary["cells"]] == [1]
    assert lab.owned() == servers_of("alice") == []
