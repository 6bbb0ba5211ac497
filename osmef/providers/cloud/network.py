"""Address blocks of tenants' networks, and of those of further network cards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network

from osmef.providers.base import EndpointRequest
from osmef.scenario.clouds.base import CloudSettings

_POOL = IPv4Network("10.0.0.0/8")


def block_of(number: int, prefix: int) -> IPv4Network:
    """Return a block of private addresses by number; those of one prefix length are disjoint."""
    return IPv4Network((int(_POOL.network_address) + (number << (32 - prefix)), prefix))


def networks_for(settings: CloudSettings, requests: Iterable[EndpointRequest]) -> int:
    """Return how many networks the further cards of all these endpoints need."""
    most = max((request.nics for request in requests), default=0)
    return most if settings.nics_apart else min(most, 1)


def split(block: IPv4Network) -> tuple[IPv4Network, Sequence[IPv4Network]]:
    """Return half of a network for the usual cards, and eight parts for further ones."""
    usual, rest = block.subnets()
    return usual, list(rest.subnets(3))
