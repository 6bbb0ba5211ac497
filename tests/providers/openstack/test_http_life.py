"""Runs on the small cloud: from the API's calls to a number, and what a killed one leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import openstack
import pytest

from osmef.scenario.location import Location
from tests.openstack.calls import Call, recorded
from tests.openstack.faults import calls_fail
from tests.openstack.small.talk import kind_of, read
from tests.openstack.small.tour import RECORDED
from tests.providers.openstack.lab import Lab, context, server, servers_of
from tests.waiting import until

ALMOST_OURS = "osmef-lab-20260101T000000Z-abcd-1-a"


def uncompared(calls: list[Call]) -> set[str]:
    """Return the calls whose answers were never compared with those of the real services."""
    compared = {said.call for said in read(RECORDED).values()}
    return {kind_of(call.method, call.path) for call in calls} - compared


def test_run_measures_on_each_placement_and_tenancy_and_leaves_nothing(small_lab: Lab) -> None:
    sweep = {
        "tenancy": ["same-tenant", "different-tenant"],
        "placement": ["same-host", "different-host"],
    }
    scenario = small_lab.write(cloud="admin", projects="made", placement_by="host", sweep=sweep)
    with recorded(small_lab.cloud) as calls:
        ended = small_lab("run", scenario)
    assert ended.code == 0, ended.err
    cells = {(c["tenancy"], c["placement"]): c for c in small_lab.osmef.summary["cells"]}
    assert {place: (c["achieved_placement"], c["distance"]) for place, c in cells.items()} == {
        ("same-tenant", "same-host"): ("same-host", 0),
        ("same-tenant", "different-host"): ("different-host", 2),
        ("different-tenant", "same-host"): ("same-host", 4),
        ("different-tenant", "different-host"): ("different-host", 4),
    }
    for cell in cells.values():
        assert cell["n_ok"] == 1
        assert cell["metrics"]["aggregate_btc_bps"]["median"] > 0
    assert small_lab.owned("admin") == servers_of("admin") == []
    made = small_lab.osmef.kinds_of("created")
    gone = small_lab.osmef.kinds_of("destroyed")
    assert sorted(made) == sorted(gone)
    assert made.count("project") == 2
    assert uncompared(calls) == set()


def test_server_groups_keep_servers_together_and_apart(small_lab: Lab) -> None:
    """A member sees ids of hosts; which they are, the settings tell by naming all hosts."""
    pairs = [("a", "host-1"), ("b", "host-1"), ("c", "host-2"), ("d", "host-3")]
    requests = [server(name, host, lane=1 + n // 2) for n, (name, host) in enumerate(pairs)]
    made = small_lab.provider(compute_hosts=["cmp1", "cmp2", "cmp3"], host_keys="console")
    with recorded(small_lab.cloud) as calls:
        try:
            places: list[Location] = made.describe(small_lab.create(made, context(*requests)))
        finally:
            made.close()
    a, b, c, d = (place.host for place in places)
    assert a == b
    assert c != d
    assert {a, c, d} <= {"cmp1", "cmp2", "cmp3"}
    assert small_lab.owned() == servers_of("alice") == []
    assert uncompared(calls) == set()


@pytest.fixture
def foreign(small_lab: Lab) -> Iterator[tuple[Any, Any]]:
    """A connection, and a server whose name and metadata are almost those of a run."""
    with openstack.connect(cloud="alice") as api:
        network = api.network.create_network(name="theirs")
        api.network.create_subnet(network_id=network.id, ip_version=4, cidr="10.77.0.0/24")
        image, flavor = next(api.image.images()), next(api.compute.flavors())
        made = api.compute.create_server(
            name=ALMOST_OURS,
            image_id=image.id,
            flavor_id=flavor.id,
            networks=[{"uuid": network.id}],
            metadata={"osmef_run": "lab"},
        )
        yield api, made
        api.compute.delete_server(made)
        until(lambda: not list(api.network.ports(device_id=made.id)))
        api.network.delete_network(network)


def test_reap_takes_what_a_killed_run_left_and_no_foreign_server(
    small_lab: Lab, foreign: tuple[Any, Any]
) -> None:
    """Killed between its request for servers and the answer: it knows of none of them."""
    api, theirs = foreign
    of_a_run = r"POST .*/servers$|GET .*/servers.*name="
    with calls_fail(small_lab.cloud, "nova-api", of_a_run, "lose", times=1000):
        process = small_lab.start("run", small_lab.write(placement="any"))
        small_lab.osmef.until(process, "making 2 servers")
        until(lambda: len(list(api.compute.servers())) == 3)
        process.kill()
        process.communicate()
    assert ("intend", "server") in small_lab.osmef.events
    assert ("created", "server") not in small_lab.osmef.events
    kinds = {one.split()[0] for one in small_lab.owned()}
    assert {"server", "network", "router", "key-pair", "security-group"} <= kinds
    with recorded(small_lab.cloud) as calls:
        reaped = small_lab("reap", "--yes")
    assert reaped.code == 0, reaped.err
    assert small_lab.owned() == []
    assert servers_of("alice") == [theirs.name]
    deleted = [c.path for c in calls if c.path.endswith("/action") or c.method == "DELETE"]
    assert not any(theirs.id in path for path in deleted)
    assert uncompared(calls) == set()


def test_a_pair_is_made_and_deleted_by_so_many_calls(small_lab: Lab) -> None:
    requests = [server("a", "host-1"), server("b", "host-1")]
    provider = small_lab.provider()
    with recorded(small_lab.cloud) as calls:
        small_lab.create(provider, context(*requests))
        provider.close()
    made = [call for call in calls if call.method in {"POST", "PUT"} and call.service != "keystone"]
    assert Counter(f"{call.method} {call.path.split('/')[-1]}" for call in made) == {
        "POST networks": 1,
        "POST subnets": 1,
        "POST routers": 1,
        "PUT add_router_interface": 1,
        "POST security-groups": 1,
        "POST security-group-rules": 1,
        "POST os-keypairs": 1,
        "POST os-server-groups": 1,
        "POST servers": 2,
        "POST floatingips": 2,
        "POST action": 2,  # deletions
        "PUT remove_router_interface": 1,
    }
    named = Counter(call.path.split("?")[0] for call in calls if call.method == "GET")
    for looked_up in (
        "/v2.1/flavors/detail",
        "/v2/images",
        "/v2.0/subnets",
        "/v2.1/servers/detail",
    ):
        assert named[looked_up] == 1, looked_up
