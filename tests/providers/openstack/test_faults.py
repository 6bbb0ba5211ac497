"""Faults, made for real: kills, lost answers, a stopped API, failing hosts, a guest that hangs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import openstack
import pytest

from osmef.providers.base import Resource
from osmef.providers.openstack.provider import OpenStackProvider
from osmef.scenario.clouds.openstack import BootSource, OpenStackSettings
from tests.openstack.calls import recorded
from tests.openstack.faults import calls_fail, guests_hang, hosts_fail
from tests.providers.openstack.lab import Lab, context, server, servers_of
from tests.waiting import until

pytestmark = pytest.mark.timeout(1200)  # the first test waits for the cloud


@contextmanager
def asked(lab: Lab) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Hand out what tells the calls since now, also while they are made."""
    path = lab.cloud.state / "log/calls.jsonl"
    before = len(path.read_text().splitlines())
    yield lambda: [json.loads(line) for line in path.read_text().splitlines()[before:]]


def intended(lab: Lab, kind: str) -> bool:
    results = lab.osmef.directory / "results"
    journals = list(results.glob("*/journal.jsonl"))
    return bool(journals) and ("intend", kind) in lab.osmef.events


def test_killed_between_request_and_answer_leaves_what_reap_finds(lab: Lab) -> None:
    with (
        asked(lab) as calls,
        calls_fail(lab.cloud, "nova-api", "(POST|GET) .*/servers", "lose", times=1000),
    ):
        process = lab.start("run", lab.write(placement="any"))  # so both are asked for at once
        until(lambda: sum(c["method"] == "POST" and c["lost"] for c in calls()) == 2)
        process.kill()
        process.communicate()
    assert ("intend", "server") in lab.osmef.events
    assert ("created", "server") not in lab.osmef.events
    assert len(servers_of("alice")) == 2
    reaped = lab("reap", "--yes")
    assert reaped.code == 0, reaped.err
    assert lab.owned() == servers_of("alice") == []


def test_resources_of_a_killed_run_are_found_by_their_mark_alone(lab: Lab) -> None:
    process = lab.start("run", lab.write())
    until(
        lambda: intended(lab, "server") and lab.osmef.events.count(("created", "floating-ip")) == 2
    )
    process.kill()
    process.communicate()
    left = OpenStackProvider.owned({"cloud": "alice"})
    runs = {one.run for one in left}
    assert runs == {lab.osmef.run.name}
    assert {"server", "network", "router", "key-pair", "server-group"} <= {o.kind for o in left}
    assert all(one.made and one.deadline and one.made < one.deadline for one in left)
    assert OpenStackProvider.owned({"cloud": "alice"}, "another-run") == []
    gone: list[Resource] = []
    OpenStackProvider.destroy(left, gone.append)
    assert sorted(one.name for one in gone) == sorted(one.name for one in left)
    assert lab.owned() == []


def test_lost_answers_make_nothing_twice(lab: Lab) -> None:
    with (
        recorded(lab.cloud) as calls,
        calls_fail(lab.cloud, "nova-api", "POST .*/servers$", "lose", times=2),
    ):
        ended = lab("run", lab.write())
    assert ended.code == 0, ended.err
    asked = [call for call in calls if call.method == "POST" and call.path.endswith("/servers")]
    assert len(asked) == 2
    assert lab.owned() == servers_of("alice") == []


def test_an_api_that_stops_in_the_middle_and_comes_back_costs_nothing(lab: Lab) -> None:
    with asked(lab) as calls:
        process = lab.start("run", lab.write())
        until(lambda: intended(lab, "network"))
        lab.cloud.processes.stop("nova-api")
        until(lambda: 503 in {call["status"] for call in calls()})
        lab.cloud.restart("nova-api")
        ended = lab.osmef.finish(process)
    assert ended.code == 0, ended.err
    assert lab.owned() == []


def test_a_server_in_error_is_reported_with_its_reason_and_nothing_is_left(lab: Lab) -> None:
    with hosts_fail(lab.cloud):
        ended = lab("run", lab.write())
    assert ended.code == 3
    assert "the server does not start" in ended.err
    assert "cure:" in ended.err
    assert lab.owned() == []


def test_no_valid_host_is_an_error_of_capacity(lab: Lab) -> None:
    """The zone has one host, and the servers are to stand on two."""
    ended = lab("run", lab.write(zones=["az2"], placement="different-host"))
    assert ended.code == 3
    # Where both were on their way at once, nova finds out on the host itself.
    assert re.search("no valid host|exhausted all hosts", ended.err, re.IGNORECASE)
    assert "another placement" in ended.err
    assert lab.owned() == []


def test_a_guest_that_never_boots_leaves_its_console(lab: Lab) -> None:
    with guests_hang(lab.cloud, "receiver"):
        ended = lab("run", lab.write(boot_timeout="60s"))
    assert ended.code == 3
    assert "Kernel panic" in ended.err
    (kept,) = lab.osmef.run.glob("logs/console-receiver*")
    assert "unknown-block" in kept.read_text()
    assert lab.owned() == []


def test_a_quota_of_one_stops_the_run_before_anything_is_made(lab: Lab) -> None:
    with openstack.connect(cloud="admin") as admin:
        project = admin.identity.find_project("alpha", ignore_missing=False)  # type: ignore[union-attr]
        admin.compute.update_quota_set(project, instances=1)
        try:
            with recorded(lab.cloud) as calls:
                ended = lab("run", lab.write())
        finally:
            admin.compute.update_quota_set(project, instances=10)
    assert ended.code == 3
    assert "2 instances (quota 1, in use 0)" in ended.err
    assert not [c for c in calls if c.method == "POST" and c.service != "keystone"]


def test_ports_taken_away_in_a_trial_fail_trials_and_leave_nothing(lab: Lab) -> None:
    work = {"kind": "btc", "duration": "1s", "interval": "100ms"}
    process = lab.start("run", lab.write(workload=work, repeat=2, pause="30s"))
    lab.osmef.until(process, "trial 1")
    with openstack.connect(cloud="alice") as api:
        for rule in api.network.security_group_rules(direction="ingress"):
            if rule.port_range_min == 20000:
                api.network.delete_security_group_rule(rule)
    ended = lab.osmef.finish(process)
    assert ended.code == 1, ended.err
    failed = [one for one in lab.osmef.trials if one["status"] == "failed"]
    assert failed
    assert all(one["failure"]["cure"] for one in failed)
    assert lab.owned() == []


@pytest.fixture
def keeps_deleted(lab: Lab) -> Iterator[None]:
    """Have nova keep deleted servers for an hour."""
    path = lab.cloud.state / "etc/nova.conf"
    before = path.read_text()
    path.write_text(f"{before}\n[DEFAULT]\nreclaim_instance_interval = 3600\n")
    try:
        lab.cloud.restart("nova-api")
        yield
    finally:
        path.write_text(before)
        lab.cloud.restart("nova-api")


@pytest.mark.usefixtures("keeps_deleted")
def test_servers_are_deleted_for_good_in_a_cloud_with_soft_deletion(lab: Lab) -> None:
    ended = lab("run", lab.write())
    assert ended.code == 0, ended.err
    assert lab.owned() == []
    with openstack.connect(cloud="admin") as admin:
        assert list(admin.compute.servers(all_projects=True, status="SOFT_DELETED")) == []


def test_destroying_what_is_gone_or_not_ours_is_success_and_touches_nothing(lab: Lab) -> None:
    lab.dirty.add("alice")
    with openstack.connect(cloud="alice") as api:
        foreign = api.network.create_network(name="osmef-lab-net-1", description="mine")
        gone: list[Resource] = []
        access = {"cloud": "alice"}
        wanted = [
            Resource("openstack", "network", foreign.name, "lab", foreign.id, access=access),
            Resource("openstack", "server", "osmef-lab-1-a", "lab", access=access),
            Resource("openstack", "key-pair", "osmef-lab-key-1-2-3", "lab", access=access),
            Resource(
                "openstack",
                "router",
                "osmef-lab-r",
                "lab",
                access={"cloud": "admin", "project": "0" * 32},
            ),
        ]
        OpenStackProvider.destroy(wanted, gone.append)
        assert {one.name for one in gone} == {one.name for one in wanted}
        assert api.network.get_network(foreign.id).name == foreign.name
        api.network.delete_network(foreign.id)


def test_a_failure_half_way_is_cleared_away(lab: Lab) -> None:
    lab.dirty.add("alice")
    provider = OpenStackProvider(OpenStackSettings(cloud="alice", boot=BootSource(image="guest")))
    wanted = context(server("a"), server("b", "host-2"))
    with (
        calls_fail(lab.cloud, "neutron-server", "POST .*/routers", 400),
        pytest.raises(Exception, match="router") as caught,
    ):
        provider.create(wanted)
    assert "making the router" in str(caught.value)
    provider.close()
    assert lab.owned() == []
    provider.close()
