"""Physical hosts of the inventory that take part beside servers, by SSH."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address

from osmef.errors import ProviderError
from osmef.providers.base import Access, Endpoint, EndpointRequest, Order
from osmef.providers.static.assign import assign, physical_host
from osmef.providers.static.provider import StaticProvider
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.clouds.static import StaticSettings
from osmef.scenario.fields import EndpointKind
from osmef.scenario.location import Location


class HostEndpoints:
    """The physical hosts of a run. Every method does nothing where there are none."""

    def __init__(self, settings: OpenStackSettings) -> None:
        self._inventory = settings.hosts
        self._static: StaticProvider | None = None

    def _provider(self) -> StaticProvider:
        if self._static is None:
            self._static = StaticProvider(StaticSettings(hosts=self._inventory))
        return self._static

    def check(self, requests: Sequence[EndpointRequest]) -> None:
        """Find a host for each request, and keys for it. Raises ProviderError."""
        if wanted := _of_hosts(requests):
            self._provider().check(wanted)

    def machines(self, requests: Sequence[EndpointRequest]) -> Mapping[str, str]:
        """Return the entry of the inventory for each physical host. Raises CapacityError."""
        return assign(_of_hosts(requests), self._inventory)

    def names(self, requests: Sequence[EndpointRequest]) -> Mapping[str, str]:
        """Return the name of the physical host on each slot where one takes part."""
        wanted = _of_hosts(requests)
        chosen = self.machines(wanted)
        found = {
            request.host: physical_host(entry, self._inventory[entry])
            for request in wanted
            for entry in [chosen[request.name]]
        }
        return {slot: name for slot, name in found.items() if slot and name}

    def stays(self, endpoint: Endpoint) -> tuple[str, Access] | None:
        """Tell how to reach the machine of an endpoint after the run; None where it is no host."""
        is_host = endpoint.request.kind is EndpointKind.HOST
        return self._provider().stays(endpoint) if is_host else None

    def create(self, order: Order) -> list[Endpoint]:
        """Log into the hosts, and lock them. Raises ProviderError, ReachError."""
        wanted = _of_hosts(order.requests)
        made = self._provider().create(replace(order, requests=wanted)) if wanted else []
        for endpoint in made:
            if ip_address(endpoint.data_address).version != 4:
                raise ProviderError(
                    f"all that is known of it is an IPv6 address, {endpoint.data_address}, and on"
                    " OpenStack IPv4 is measured",
                    where=endpoint.login.name,
                    cure=f"write provider.hosts.{endpoint.login.name}.data_address, or interface",
                )
        return made

    def describe(self, endpoints: Sequence[Endpoint]) -> Mapping[str, Location]:
        """Return where those of the endpoints stand that are physical hosts, by name."""
        ours = [e for e in endpoints if e.request.kind is EndpointKind.HOST]
        found = self._provider().describe(ours) if ours else []
        return {endpoint.name: place for endpoint, place in zip(ours, found, strict=True)}

    def close(self) -> None:
        """Give the hosts back. Raises ProviderError, ReachError."""
        if self._static is not None:
            self._static.close()


def _of_hosts(requests: Sequence[EndpointRequest]) -> list[EndpointRequest]:
    return [request for request in requests if request.kind is EndpointKind.HOST]
