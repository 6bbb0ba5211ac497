"""Physical hosts beside the VMs of a cloud, from an inventory as of static hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from ipaddress import ip_address

from osmef.errors import ProviderError
from osmef.providers.base import Access, Endpoint, EndpointRequest, Order
from osmef.providers.static.assign import assign, physical_host
from osmef.providers.static.provider import StaticProvider
from osmef.scenario.clouds.static import InventoryHost, StaticSettings
from osmef.scenario.fields import EndpointKind
from osmef.scenario.location import Location


class HostEndpoints:
    """The physical hosts of a run; without any, every method does nothing.

    ``cloud`` is what the cloud beside whose VMs they are is called, which measures IPv4.
    """

    def __init__(self, inventory: Mapping[str, InventoryHost], cloud: str) -> None:
        self._inventory = inventory
        self._cloud = cloud
        self.made: Sequence[Endpoint] = ()

    @cached_property
    def _provider(self) -> StaticProvider:
        return StaticProvider(StaticSettings(hosts=self._inventory))

    def check(self, requests: Sequence[EndpointRequest]) -> None:
        """Assign a host to each request, and check its keys. Raises ProviderError."""
        if wanted := _of_hosts(requests):
            self._provider.check(wanted)

    def machines(self, requests: Sequence[EndpointRequest]) -> Mapping[str, str]:
        """Return the inventory entry of each physical host. Raises CapacityError."""
        return assign(_of_hosts(requests), self._inventory)

    def names(self, requests: Sequence[EndpointRequest]) -> Mapping[str, str]:
        """Return the name of the physical host on each slot that has one."""
        chosen = self.machines(requests)
        found = {one.host: chosen[one.name] for one in _of_hosts(requests)}
        named = {slot: physical_host(one, self._inventory[one]) for slot, one in found.items()}
        return {slot: name for slot, name in named.items() if slot and name}

    def stays(self, endpoint: Endpoint) -> tuple[str, Access] | None:
        """Return how to reach an endpoint's machine after the run; None if it is no host."""
        is_host = endpoint.request.kind is EndpointKind.HOST
        return self._provider.stays(endpoint) if is_host else None

    def create(self, order: Order) -> list[Endpoint]:
        """Log into the hosts, and lock them. Raises ProviderError, ReachError."""
        wanted = _of_hosts(order.requests)
        self.made = self._provider.create(replace(order, requests=wanted)) if wanted else []
        for endpoint in self.made:
            if ip_address(endpoint.data_address).version != 4:
                raise ProviderError(
                    f"all that is known of it is an IPv6 address, {endpoint.data_address}, and on"
                    f" {self._cloud} IPv4 is measured",
                    where=endpoint.login.name,
                    cure=f"write provider.hosts.{endpoint.login.name}.data_address, or interface",
                )
        return [*self.made]

    def describe(self, endpoints: Sequence[Endpoint]) -> Mapping[str, Location]:
        """Return the locations of the physical hosts among the endpoints, by name."""
        ours = [e for e in endpoints if e.request.kind is EndpointKind.HOST]
        found = self._provider.describe(ours) if ours else []
        return {endpoint.name: place for endpoint, place in zip(ours, found, strict=True)}

    def close(self) -> None:
        """Unlock the hosts. Raises ProviderError, ReachError."""
        if self._inventory:
            self._provider.close()


def _of_hosts(requests: Sequence[EndpointRequest]) -> list[EndpointRequest]:
    return [request for request in requests if request.kind is EndpointKind.HOST]
