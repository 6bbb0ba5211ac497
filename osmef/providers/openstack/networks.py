"""The network of a tenant: its addresses, its router, its security group and the rules in it."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from osmef.errors import ProviderError

_POOLS = tuple(IPv4Network(pool) for pool in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
_SMALLEST = 24
_TAKEN = 8
"""Addresses of a subnet that endpoints don't get: its own, router, DHCP, broadcast."""
DATA_PORTS = (20000, 20999)
SSH_PORT = 22


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
class Peers:
    """From where a group's servers are talked to: blocks for SSH, blocks for data."""

    ssh: frozenset[str]
    data: frozenset[str]


def group_rules(group: str, peers: Peers) -> list[dict[str, Any]]:
    """Return the rules of a security group: SSH from the controller, data from the peers.

    Those of the group itself are let in by its id, those of other projects by address.
    """
    rules = [_rule(group, "tcp", (SSH_PORT, SSH_PORT), remote_ip_prefix=p) for p in peers.ssh]
    for protocol in ("tcp", "udp"):
        rules.append(_rule(group, protocol, DATA_PORTS, remote_group_id=group))
        rules += [
            _rule(group, protocol, DATA_PORTS, remote_ip_prefix=p) for p in sorted(peers.data)
        ]
    return rules


def _rule(group: str, protocol: str, ports: tuple[int, int], **remote: str) -> dict[str, Any]:
    return {
        "security_group_id": group,
        "direction": "ingress",
        "ethertype": "IPv4",
        "protocol": protocol,
        "port_range_min": ports[0],
        "port_range_max": ports[1],
        **remote,
    }
