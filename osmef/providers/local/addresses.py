"""Address plan of a local cloud: one private block that nothing on this machine uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from pathlib import Path

from osmef.errors import ProviderError

BLOCK_PREFIX_LENGTH = 17
_SHORTEST_ROUTE = 8
_FIRST_TENANT_SUBNET = 64
_POOLS = tuple(
    IPv4Network(pool) for pool in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15")
)
"""Private networks (RFC 1918), then the one for benchmarks of network devices (RFC 2544)."""


_ROUTES = Path("/proc/net/fib_trie")
_IPV6 = IPv6Network("fd5c:8c1e:37a2::/48")
"""Drawn at random, once, so that it is in use nowhere else (RFC 4193, section 3.2)."""
IPV6_PREFIX_LENGTH = 64


def has_ipv6() -> bool:
    """Return whether this machine's kernel supports IPv6."""
    return Path("/proc/sys/net/ipv6").exists()


def ipv6_of(address: str) -> str:
    """Return the IPv6 address derived from an IPv4 one; each /24 becomes a /64."""
    number = int(IPv4Address(address))
    return str(_IPV6[(number >> 8 & 0xFFFF) << 64 | number])


def choose_block(used: Iterable[IPv4Network]) -> IPv4Network:
    """Return the first /17 of the pools that overlaps no used network.

    Routes shorter than /8 are default routes, whole or (as VPNs do it) in halves, and say nothing
    about who uses an address. Raises ProviderError when no block is free.
    """
    taken = [network for network in used if network.prefixlen >= _SHORTEST_ROUTE]
    for pool in _POOLS:
        for block in pool.subnets(new_prefix=BLOCK_PREFIX_LENGTH):
            if not any(block.overlaps(network) for network in taken):
                return block
    raise ProviderError(
        "this machine's routes use all private networks, so none is free for the local cloud",
        where="provider",
        cure="remove a route (see: ip route show table all), for instance by leaving a VPN",
    )


def resolver_networks(resolv_conf: str) -> list[IPv4Network]:
    """Return the IPv4 addresses of the name servers that a resolv.conf(5) lists."""
    found = []
    for line in resolv_conf.splitlines():
        match line.split():
            case ["nameserver", address, *_]:
                try:
                    found.append(IPv4Network(address))
                except ValueError:  # an IPv6 address
                    continue
    return found


def used_networks() -> list[IPv4Network]:
    """Return the networks of this machine's routes and resolvers."""
    resolv_conf = Path("/etc/resolv.conf")
    text = resolv_conf.read_text(errors="replace") if resolv_conf.exists() else ""
    routes = _ROUTES.read_text() if _ROUTES.exists() else ""  # not on Linux
    return routed_networks(routes) + resolver_networks(text)


def routed_networks(fib_trie: str) -> list[IPv4Network]:
    """Return the routed networks but the default, from /proc/net/fib_trie (proc(5)).

    A leaf is an address, and the lines below it are its prefixes: the length, the scope, the kind.
    """
    found: dict[IPv4Network, None] = {}
    address = ""
    for line in fib_trie.splitlines():
        match line.split():
            case ["|--", address]:
                pass
            case [prefix, _, _, *_] if prefix.startswith("/") and prefix != "/0":
                found[IPv4Network(f"{address}{prefix}")] = None
    return list(found)


@dataclass(frozen=True)
class AddressPlan:
    """Division of a block: physical network, management network, 64 tenants."""

    block: IPv4Network

    @property
    def physical(self) -> IPv4Network:
        """The physical network, a /24: hosts from .1, the network node at .254."""
        return next(self.block.subnets(new_prefix=24))

    @property
    def network_node(self) -> IPv4Address:
        """The network node's address on the physical network."""
        return self.physical[254]

    @property
    def management(self) -> IPv4Network:
        """The management network, a /19: the daemon at .1, then the endpoints."""
        return list(self.block.subnets(new_prefix=19))[1]

    def host(self, number: int) -> IPv4Address:
        """Return a host's address on the physical network; hosts count from 0."""
        return self.physical[number + 1]

    def tenant(self, number: int) -> IPv4Network:
        """Return a tenant's network, a /24 with its gateway at .1; tenants count from 0."""
        return list(self.block.subnets(new_prefix=24))[_FIRST_TENANT_SUBNET + number]

    def endpoints(self, network: IPv4Network) -> Iterator[str]:
        """Yield a network's addresses from the second. Raises ProviderError at the end."""
        for index in range(2, network.num_addresses - 1):
            yield str(network[index])
        raise ProviderError(
            f"more than {network.num_addresses - 3} endpoints in one network of the local cloud",
            cure="split the scenario into several",
        )
