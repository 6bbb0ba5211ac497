from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from osmef.errors import ProviderError
from osmef.providers.local.addresses import (
    IPV6_PREFIX_LENGTH,
    AddressPlan,
    choose_block,
    ipv6_of,
    resolver_networks,
    routed_networks,
    used_networks,
)

networks = st.builds(
    lambda address, length: IPv4Network((address, length), strict=False),
    st.one_of(
        st.integers(0x0A000000, 0x0AFFFFFF),
        st.integers(0xAC100000, 0xAC1FFFFF),
        st.integers(0xC0A80000, 0xC0A8FFFF),
        st.integers(0, 2**32 - 1),
    ),
    st.integers(0, 32),
)


@given(st.lists(networks, max_size=40))
def test_the_block_is_private_and_overlaps_nothing_in_use(used: list[IPv4Network]) -> None:
    try:
        block = choose_block(used)
    except ProviderError:
        assume(False)
    assert block.is_private
    assert not any(block.overlaps(network) for network in used if network.prefixlen >= 8)


@pytest.mark.parametrize("default", [["0.0.0.0/0"], ["0.0.0.0/1", "128.0.0.0/1"]])
def test_a_default_route_whole_or_in_halves_takes_nothing(default: list[str]) -> None:
    assert choose_block(map(IPv4Network, default)) == choose_block([])


def test_the_next_pool_is_taken_when_one_is_in_use() -> None:
    assert choose_block([IPv4Network("10.0.0.0/8")]).subnet_of(IPv4Network("172.16.0.0/12"))


def test_no_free_block_is_an_error_with_a_cure() -> None:
    used = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15"]
    with pytest.raises(ProviderError, match="none is free") as caught:
        choose_block(map(IPv4Network, used))
    assert "route" in (caught.value.cure or "")


def test_resolvers_are_in_use() -> None:
    text = "# nameserver 1.1.1.1\nnameserver 10.0.0.53\nsearch lab\nnameserver fe80::1\n"
    assert resolver_networks(text) == [IPv4Network("10.0.0.53")]


FIB_TRIE = """\
Id 200:
  +-- 10.177.0.0/24 2 0 2
     |-- 10.177.0.0
        /24 link UNICAST tos=16
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 172.16.0.0
        /12 link UNICAST
        /16 link UNICAST
     |-- 192.0.2.1
        /32 host LOCAL
"""


def test_routes_of_all_tables_are_in_use() -> None:
    found = ["10.177.0.0/24", "172.16.0.0/12", "172.16.0.0/16", "192.0.2.1/32"]
    assert routed_networks(FIB_TRIE) == [IPv4Network(one) for one in found]


def test_this_machines_loopback_is_in_use() -> None:
    assert IPv4Network("127.0.0.0/8") in used_networks()


def test_the_parts_of_a_block_do_not_overlap() -> None:
    plan = AddressPlan(choose_block([]))
    parts = [plan.physical, plan.management, *(plan.tenant(number) for number in range(64))]
    assert all(part.subnet_of(plan.block) for part in parts)
    assert not any(a.overlaps(b) for i, a in enumerate(parts) for b in parts[i + 1 :])
    hosts = {plan.host(number) for number in range(64)} | {plan.network_node}
    assert len(hosts) == 65
    assert all(address in plan.physical for address in hosts)


def test_a_full_network_is_an_error() -> None:
    network = IPv4Network("10.0.0.0/29")
    pool = AddressPlan(choose_block([])).endpoints(network)
    assert [next(pool) for _ in range(5)] == [f"10.0.0.{n}" for n in range(2, 7)]
    with pytest.raises(ProviderError, match="more than 5 endpoints"):
        next(pool)


@given(st.ip_addresses(v=4), st.ip_addresses(v=4))
def test_ipv6_addresses_are_apart_as_those_of_ipv4_are(
    one: IPv4Address, other: IPv4Address
) -> None:
    six = [IPv6Address(ipv6_of(str(address))) for address in (one, other)]
    assert all(address in IPv6Network("fd00::/8") for address in six)
    assert (six[0] == six[1]) == (one == other)


def test_each_network_of_a_block_has_an_ipv6_network_of_its_own() -> None:
    block = choose_block([])
    first = [str(network[1]) for network in block.subnets(new_prefix=24)]
    found = {IPv6Network((ipv6_of(address), IPV6_PREFIX_LENGTH), strict=False) for address in first}
    assert len(found) == len(first)
