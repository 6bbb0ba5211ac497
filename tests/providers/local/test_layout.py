from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import ProviderError
from osmef.providers.base import EndpointRequest
from osmef.providers.local.provider import cpus_for, flavor_of, lay_out
from osmef.scenario.clouds.local import LocalFlavor, LocalSettings
from osmef.scenario.fields import EndpointKind, FlavorNeed

BLOCK = IPv4Network("10.0.0.0/17")
Vm = Callable[..., EndpointRequest]


@given(st.integers(1, 64), st.sets(st.integers(0, 63), min_size=1))
def test_both_ends_share_cpus_only_where_there_are_too_few(wanted: int, cpus: set[int]) -> None:
    available = sorted(cpus)
    sender, receiver = (cpus_for(role, wanted, available) for role in ("sender", "receiver"))
    assert len(sender) == len(receiver) == min(wanted, len(available))
    assert min(sender) == available[0]
    assert max(receiver) == available[-1]
    assert bool(set(sender) & set(receiver)) == (2 * wanted > len(available))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(1, 16))
def test_nodes_share_cpus_only_where_there_are_too_few(sizes: list[int], cpus: int) -> None:
    taken = 0
    used: list[int] = []
    for size in sizes:
        used += cpus_for("node", size, range(cpus), taken)
        taken += size
    each = [used.count(cpu) for cpu in range(cpus)]
    if max(sizes) <= cpus:
        assert max(each) - min(each) <= 1


slots = st.tuples(st.integers(1, 6), st.integers(1, 5) | st.none())


@given(st.lists(slots, min_size=1, max_size=30))
def test_slots_keep_together_and_apart(pairs: list[tuple[int, int | None]]) -> None:
    requests = [
        EndpointRequest(
            name=f"endpoint-{number}",
            role="sender",
            kind=EndpointKind.HOST if tenant is None else EndpointKind.VM,
            flavor=None,
            host=f"host-{host}",
            tenant=None if tenant is None else f"tenant-{tenant}",
        )
        for number, (host, tenant) in enumerate(pairs)
    ]
    layout = lay_out(LocalSettings(hosts=6, tenants=5), requests, BLOCK, [0, 1])
    for one in layout.placed_endpoints:
        for other in layout.placed_endpoints:
            assert (one.host == other.host) == (one.request.host == other.request.host)
            if None not in {one.request.tenant, other.request.tenant}:
                assert (one.tenant == other.tenant) == (one.request.tenant == other.request.tenant)
    addresses = [a for p in layout.placed_endpoints for a in (p.address, p.management)]
    assert len(set(addresses)) == len(addresses)
    networks = {tenant.name: tenant for tenant in layout.cloud.tenants}
    for place in layout.placed_endpoints:
        assert place.host in networks[place.tenant].hosts


def test_only_what_is_needed_is_made(vm: Vm) -> None:
    layout = lay_out(
        LocalSettings(hosts=9, tenants=9),
        [vm("a", "host-1"), vm("b", "host-2", "tenant-2")],
        BLOCK,
        [0],
    )
    assert [host.name for host in layout.cloud.hosts] == ["host-1", "host-2"]
    assert [(t.name, t.hosts) for t in layout.cloud.tenants] == [
        ("tenant-1", ("host-1",)),
        ("tenant-2", ("host-2",)),
    ]


@pytest.mark.parametrize(
    ("settings", "what"),
    [(LocalSettings(hosts=1), "hosts"), (LocalSettings(tenants=1), "tenants")],
)
def test_too_few_hosts_or_tenants(vm: Vm, settings: LocalSettings, what: str) -> None:
    with pytest.raises(ProviderError, match=f"needs 2 {what}") as caught:
        lay_out(settings, [vm("a", "host-1"), vm("b", "host-2", "tenant-2")], BLOCK, [0])
    assert caught.value.where == f"provider.{what}"


def test_a_flavor_is_its_own_the_default_or_the_first(vm: Vm) -> None:
    requests = [vm("a", "host-1", flavor="large"), vm("b", "host-1")]
    first = lay_out(LocalSettings(), requests, BLOCK, range(8))
    assert [(place.flavor, len(place.cpus)) for place in first.placed_endpoints] == [
        ("large", 4),
        ("small", 1),
    ]
    default = lay_out(LocalSettings(default_flavor="medium"), requests, BLOCK, range(8))
    assert default.placed_endpoints[1].flavor == "medium"


@pytest.mark.parametrize(
    ("need", "flavor"),
    [
        (FlavorNeed(vcpus=1), "one"),
        (FlavorNeed(vcpus=2), "three"),
        (FlavorNeed(vcpus=3, ram="1GiB"), "three"),
        (FlavorNeed(vcpus=4), "eight"),
        (FlavorNeed(vcpus=9), "9vcpu"),
    ],
)
def test_a_need_gets_the_smallest_flavor_that_fits(need: FlavorNeed, flavor: str) -> None:
    sizes = {"eight": 8, "three": 3, "one": 1}
    settings = LocalSettings(flavors={n: LocalFlavor(vcpus=v) for n, v in sizes.items()})
    assert flavor_of(settings, need) == flavor
