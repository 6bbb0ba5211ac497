"""The network of a tenant: its addresses, its router, its security group and the rules in it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from osmef.errors import ProviderError
from osmef.remote.login import SSH_PORT
from osmef.scenario.ports import DATA_PORTS

_POOLS = tuple(IPv4Network(pool) for pool in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
_SMALLEST = 24
_SHORTEST_ROUTE = 8
_TAKEN = 8
"""Addresses of a subnet that endpoints don't get: its own, router, DHCP, broadcast."""
_DATA = (DATA_PORTS.start, DATA_PORTS.stop - 1)


def choose_subnets(sizes: Sequence[int], used: Iterable[IPv4Network]) -> list[IPv4Network]:
    """Choose a subnet for each tenant, with room for its number of endpoints.

    None overlaps another nor what is in use. Raises ProviderError.
    """
    taken = list(used)
    chosen = []
    for size in sizes:
        prefix = min(_SMALLEST, 32 - (size + _TAKEN - 1).bit_length())
        chosen.append(_first_free(prefix, taken))
        taken.append(chosen[-1])
    return chosen


def _first_free(prefix: int, taken: Sequence[IPv4Network]) -> IPv4Network:
    step = 2 ** (32 - prefix)
    for pool in _POOLS:
        start = int(pool.network_address)
        while start + step - 1 <= int(pool.broadcast_address):
            subnet = IPv4Network((start, prefix))
            ends = [int(used.broadcast_address) for used in taken if used.overlaps(subnet)]
            if not ends:
                return subnet
            start = (max(ends) // step + 1) * step  # past what is in the way, however large it is
    raise ProviderError(
        "all private networks are in use, so none is free for a tenant",
        where="provider: openstack",
        cure="name a network that is there: provider.network",
    )


def source_address(target: str) -> str:
    """Return the address from which this machine talks to another. Raises ProviderError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, SSH_PORT))
        except OSError as error:
            raise ProviderError(
                f"this machine has no route to {target}: {error.strerror}",
                where="provider: openstack",
                cure="is that network reachable from here? else write provider.jump",
            ) from error
        return str(probe.getsockname()[0])


@dataclass(frozen=True)
class Rule:
    """What a security group lets in: a protocol and its ports, from a block or from the group."""

    protocol: str
    ports: tuple[int, int]
    source: str | None

    def attributes(self, group: str) -> dict[str, Any]:
        """Return the rule as neutron takes it; without a source it is for the group's own."""
        remote = {"remote_ip_prefix": self.source} if self.source else {"remote_group_id": group}
        return {
            "security_group_id": group,
            "direction": "ingress",
            "ethertype": "IPv4",
            "protocol": self.protocol,
            "port_range_min": self.ports[0],
            "port_range_max": self.ports[1],
            **remote,
        }

    @classmethod
    def of(cls, rule: Any) -> Rule:
        """Return what neutron's rule lets in."""
        ports = (rule.port_range_min, rule.port_range_max)
        return cls(str(rule.protocol), ports, rule.remote_ip_prefix)


def rules_for(controllers: Iterable[str], peers: Iterable[str]) -> list[Rule]:
    """Return the rules of a group: SSH from the controller, data from each other and from peers.

    Both are blocks of addresses; peers are the servers of other projects.
    """
    ssh = [Rule("tcp", (SSH_PORT, SSH_PORT), block) for block in sorted(set(controllers))]
    sources = [None, *sorted(set(peers))]
    return ssh + [Rule(protocol, _DATA, s) for protocol in ("tcp", "udp") for s in sources]


def controller_networks() -> list[IPv4Network]:
    """Return the networks that this machine's routes lead to, but for default routes.

    proc_pid_net(5): /proc/net/route holds addresses as hexadecimal numbers of this machine.
    """
    table = Path("/proc/net/route")
    if not table.exists():  # not on Linux
        return []
    rows = (line.split() for line in table.read_text().splitlines()[1:])
    routes = ((_address(row[1]), _address(row[7])) for row in rows if len(row) > 7)
    found = (IPv4Network((address, mask), strict=False) for address, mask in routes)
    return [network for network in found if network.prefixlen >= _SHORTEST_ROUTE]


def _address(text: str) -> str:
    return str(IPv4Address(int(text, 16).to_bytes(4, sys.byteorder)))
