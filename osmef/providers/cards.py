"""Network cards of VMs beside the usual one: how many networks they need, and may a flavor have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network

from osmef.errors import CapacityError
from osmef.providers.base import EndpointRequest
from osmef.scenario.clouds.base import CloudSettings


def networks_for(settings: CloudSettings, requests: Iterable[EndpointRequest]) -> int:
    """Return how many networks the further cards of all these endpoints need."""
    most = max((request.nics for request in requests), default=0)
    return most if settings.nics_apart else min(most, 1)


def split(block: IPv4Network) -> tuple[IPv4Network, Sequence[IPv4Network]]:
    """Return a half of a network's addresses for the usual cards, and eight parts for further."""
    usual, rest = block.subnets()
    return usual, list(rest.subnets(3))


def check_cards(request: EndpointRequest, flavor: str, most: int | None) -> None:
    """Raise CapacityError where a flavor has too few network cards for a request.

    ``most`` is how many it may have with the usual one, None where the cloud tells no limit.
    """
    if most is not None and request.nics >= most:
        free = most - 1
        raise CapacityError(
            f"{flavor} has {most} network card{'s' * (most != 1)}, and {request.nics + 1} are"
            f" needed: the usual one and nics: {request.nics}",
            where=request.name,
            cure=f"use a larger flavor, or write nics: {free}" if free else "use a larger flavor",
        )
