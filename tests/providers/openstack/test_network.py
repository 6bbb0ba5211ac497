from __future__ import annotations

import json
import subprocess
from ipaddress import IPv4Network
from itertools import combinations
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import ProviderError
from osmef.providers.openstack.network import choose_subnets, source_address, used_here
from osmef.providers.openstack.resource_types import Rule, rules_for

used_networks = st.lists(
    st.builds(
        lambda address, length: IPv4Network((address, length), strict=False),
        st.one_of(
            st.integers(0x0A000000, 0x0AFFFFFF),
            st.integers(0xC0A80000, 0xC0A8FFFF),
            st.integers(0, 2**32 - 1),
        ),
        st.integers(8, 32),
    ),
    max_size=20,
)


@given(st.lists(st.integers(1, 600), min_size=1, max_size=8), used_networks)
def test_subnets_overlap_nothing_and_have_room(sizes: list[int], used: list[IPv4Network]) -> None:
    if any(one.supernet_of(IPv4Network("10.0.0.0/8")) for one in used):
        used = []
    chosen = choose_subnets(sizes, used)
    assert not any(a.overlaps(b) for a, b in combinations(chosen, 2))
    assert not any(subnet.overlaps(one) for subnet in chosen for one in used)
    assert all(subnet.is_private for subnet in chosen)
    for size, subnet in zip(sizes, chosen, strict=True):
        # Its own address, the router, DHCP, broadcast.
        assert subnet.num_addresses >= size + 4


def test_an_address_pool_in_use_is_skipped() -> None:
    assert choose_subnets([2], [IPv4Network("10.0.0.0/8")]) == [IPv4Network("172.16.0.0/24")]


def test_a_small_network_in_the_way_costs_one_subnet() -> None:
    used = [IPv4Network("10.0.0.7/32"), IPv4Network("10.0.1.0/25")]
    assert choose_subnets([2, 2], used) == [
        IPv4Network("10.0.2.0/24"),
        IPv4Network("10.0.3.0/24"),
    ]


def test_no_room_at_all_names_a_cure() -> None:
    pools = [IPv4Network(p) for p in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
    with pytest.raises(ProviderError, match="none is free") as caught:
        choose_subnets([2], pools)
    assert caught.value.cure is not None


def test_only_ssh_and_the_data_ports_are_admitted() -> None:
    rules = rules_for({"198.51.100.7/32"}, ["203.0.113.5/32"])
    assert [rule for rule in rules if rule.source == "198.51.100.7/32"] == [
        Rule("tcp", (22, 22), "198.51.100.7/32")
    ]
    for source in (None, "203.0.113.5/32"):
        allow_ingress = {(r.protocol, r.ports) for r in rules if r.source == source}
        assert allow_ingress == {("tcp", (20000, 20999)), ("udp", (20000, 20999))}
    assert len(rules) == 5


def test_a_rule_is_read_back_as_it_was_written() -> None:
    for rule in rules_for({"198.51.100.7/32"}, ["203.0.113.5/32"]):
        written = {"remote_ip_prefix": None, **rule.attributes("group-id")}
        assert Rule.of(SimpleNamespace(**written)) == rule
        assert not str(written["remote_ip_prefix"]).endswith("/0")


def test_all_networks_that_ip_route_shows_are_in_use_here() -> None:
    try:
        shown = subprocess.run(
            ["ip", "-json", "-4", "route"], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        pytest.skip("no ip(8) here")
    routes = {one["dst"] for one in json.loads(shown.stdout) if one["dst"] != "default"}
    known = used_here()
    assert all(network.prefixlen >= 8 for network in known)
    assert set(known) >= {n for one in routes if (n := IPv4Network(one)).prefixlen >= 8}


def test_the_source_address_to_the_loopback_is_the_loopback() -> None:
    assert source_address("127.0.0.1") == "127.0.0.1"
