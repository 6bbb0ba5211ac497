from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import CapacityError
from osmef.providers.base import EndpointRequest
from osmef.providers.openstack.placement import assign_places, plan_groups
from osmef.scenario.fields import EndpointKind


def request(name: str, host: str, tenant: str = "tenant-1", lane: int = 1) -> EndpointRequest:
    return EndpointRequest(name, "sender", EndpointKind.VM, None, host, tenant, lane)


def policies(*requests: EndpointRequest, soft: bool = False) -> dict[str, tuple[int, str]]:
    planned = plan_groups(requests, soft=soft)
    return {name: (group.number, group.policy) for name, group in planned.items()}


def test_a_pair_on_one_host_gets_an_affinity_group() -> None:
    found = policies(request("a", "host-1"), request("b", "host-1"))
    assert found == {"a": (1, "affinity"), "b": (1, "affinity")}


def test_a_pair_on_two_hosts_is_held_apart() -> None:
    found = policies(request("a", "host-1"), request("b", "host-2"), soft=True)
    assert found == {"a": (1, "soft-anti-affinity"), "b": (1, "soft-anti-affinity")}


def test_server_groups_do_not_reach_across_tenants() -> None:
    assert policies(request("a", "host-1"), request("b", "host-1", "tenant-2")) == {}


def test_each_lane_has_a_group_of_its_own() -> None:
    found = policies(
        *(request(f"{end}{lane}", "host-1", lane=lane) for lane in (1, 2) for end in "ab")
    )
    assert found["a1"] == found["b1"] != found["a2"] == found["b2"]


def test_many_to_one_on_two_hosts_holds_the_many_together() -> None:
    found = policies(request("a", "host-1"), request("b", "host-1"), request("c", "host-2"))
    assert found == {"a": (1, "affinity"), "b": (1, "affinity")}


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 4)), max_size=20))
def test_a_group_never_contradicts_the_slots(wanted: list[tuple[int, int]]) -> None:
    requests = [
        request(f"r{n}", f"host-{host}", lane=lane) for n, (host, lane) in enumerate(wanted)
    ]
    members = defaultdict(list)
    for name, group in plan_groups(requests, soft=False).items():
        members[group].append(next(r for r in requests if r.name == name))
    for group, ones in members.items():
        hosts = {one.host for one in ones}
        assert len({one.lane for one in ones}) == 1
        assert len(hosts) == (1 if group.policy == "affinity" else len(ones))


@given(st.integers(2, 5), st.integers(1, 6))
def test_both_slots_of_a_lane_get_different_places(places: int, lanes: int) -> None:
    requests = [
        request(f"{lane}-{end}", f"host-{2 * lane - 1 + end}", lane=lane)
        for lane in range(1, lanes + 1)
        for end in (0, 1)
    ]
    chosen = assign_places(requests, [f"cmp{n}" for n in range(places)])
    for lane in range(1, lanes + 1):
        assert chosen[f"host-{2 * lane - 1}"] != chosen[f"host-{2 * lane}"]


def test_a_server_beside_a_physical_host_is_asked_for_there() -> None:
    requests = [request("a", "host-1"), request("b", "host-2")]
    chosen = assign_places(requests, ["cmp1", "cmp2"], fixed={"host-1": "cmp2"})
    assert chosen == {"host-1": "cmp2", "host-2": "cmp1"}


def test_too_few_places_are_an_error_with_a_cure() -> None:
    with pytest.raises(CapacityError, match="needs 2 different hosts") as caught:
        assign_places([request("a", "host-1"), request("b", "host-2")], ["cmp1"])
    assert caught.value.cure is not None
