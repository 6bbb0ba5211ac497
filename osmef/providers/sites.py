"""The clouds of a scenario, as the engine sees them: one, or one at each of several sites."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from osmef.errors import Interrupted, OsmefError, ProviderError
from osmef.providers import provider_for
from osmef.providers.base import Access, Check, Endpoint, EndpointRequest, Order, Provider, go_on
from osmef.providers.parallel import beside, side_by_side
from osmef.providers.seen import problems_at, renamed, seen_from
from osmef.scenario.fields import Family, Layer
from osmef.scenario.location import Location
from osmef.scenario.model import Scenario
from osmef.scenario.study import Cell


def sites_of(scenario: Scenario) -> Sites:
    """Return the clouds that a scenario asks for; nothing is made in them yet."""
    return Sites({name: provider_for(settings) for name, settings in scenario.clouds.items()})


class Sites:
    """The clouds by the names of their sites, the only one by None, for the length of one run.

    Methods do what those of the same names of a Provider do, each endpoint at its own site.
    """

    def __init__(self, clouds: Mapping[str | None, Provider]) -> None:
        self._clouds = clouds
        self._made: dict[str, Endpoint] = {}

    def check(self, requests: Sequence[EndpointRequest], still: Check = go_on) -> None:
        """Check each cloud against its requests. Raises ProviderError with a cure."""
        used = _used(requests)

        def check(site: str | None, still: Check) -> None:
            elsewhere = [request for request in requests if request.site != site]
            with _naming(site):
                self._clouds[site].check_peers(_at(site, requests), elsewhere)
                self._clouds[site].check(_at(site, requests), still)

        if len(used) == 1:  # in this thread, which Ctrl-C reaches
            check(used[0], still)
        else:
            beside(lambda both: side_by_side(lambda site: check(site, both), used), still)

    def problems(self, cell: Cell) -> list[tuple[str, str, str]]:
        """List what the clouds can't do for a cell, as (scenario key, message, cure)."""
        ends = dict.fromkeys(end.site for end in cell.scenario.ends)
        return [one for site in ends for one in problems_at(site, self._clouds[site], cell)]

    def warnings(self, cell: Cell) -> list[str]:
        """List what a reader of the cell's numbers has to know about the clouds."""
        ends = dict.fromkeys(end.site for end in cell.scenario.ends)
        return [
            text if site is None else f"{site}: {renamed(text, site)}"
            for site in ends
            for text in self._clouds[site].warnings(seen_from(site, cell))
        ]

    def machines(self, requests: Sequence[EndpointRequest]) -> dict[str, str]:
        """Tell the machine that each endpoint will be or stand on, as far as settings alone say.

        Raises ProviderError where a site has not enough machines.
        """
        found: dict[str, str] = {}
        for site in _used(requests):
            with _naming(site):
                found |= self._clouds[site].machines(_at(site, requests))
        return found

    def create(self, order: Order) -> list[Endpoint]:
        """Make the endpoints of all sites at once, and let those of other sites in.

        When one site fails, the others stop. Raises the first failure.
        """
        failures: list[BaseException] = []

        def check() -> None:
            order.check()
            if failures:
                raise Interrupted("another site has failed")

        def create(site: str | None) -> list[Endpoint]:
            try:
                with _naming(site):
                    return self._clouds[site].create(self._order_at(site, order, check))
            except BaseException as error:
                failures.append(error)
                return []

        made = side_by_side(create, _used(order.requests))
        if failures:
            raise failures[0]
        self._made = {endpoint.name: endpoint for some in made for endpoint in some}
        everybody = list(self._made.values())
        side_by_side(lambda site: self._admit(site, everybody), _used(order.requests))
        return [self._made[request.name] for request in order.requests]

    def _order_at(self, site: str | None, order: Order, check: Callable[[], None]) -> Order:
        """Return the order for one site, which tells its steps by its name."""
        if site is None:
            return order
        return replace(
            order,
            requests=_at(site, order.requests),
            planned=_at(site, order.planned),
            progress=lambda line: order.progress(f"{site}: {line}"),
            check=check,
            site=list(self._clouds).index(site) + 1,
        )

    def _admit(self, site: str | None, everybody: Sequence[Endpoint]) -> None:
        """Let those that are elsewhere, and nobody else, in to those that are at a site."""
        here = [end for end in everybody if end.request.site == site]
        there = [end.public_address for end in everybody if end.request.site != site]
        peers = sorted({address for address in there if address is not None})
        if here and peers:
            with _naming(site):
                self._clouds[site].admit(here, peers)

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back where the endpoints really stand, in their order."""

        def describe(site: str | None) -> dict[str, Location]:
            ours = [end for end in endpoints if end.request.site == site]
            with _naming(site):
                found = self._clouds[site].describe(ours)
            return {
                end.name: place.model_copy(update={"site": site})
                for end, place in zip(ours, found, strict=True)
            }

        found = side_by_side(describe, _used([end.request for end in endpoints]))
        places = {name: place for some in found for name, place in some.items()}
        return [places[end.name] for end in endpoints]

    def replace(self, endpoint: Endpoint, order: Order) -> Endpoint:
        """Make an endpoint anew at its site. Raises ProviderError."""
        site = endpoint.request.site
        with _naming(site):
            made = self._clouds[site].replace(endpoint, self._order_at(site, order, order.check))
        self._made[made.name] = made
        everybody = list(self._made.values())
        for place in _used([end.request for end in everybody]):
            self._admit(place, everybody)
        return made

    def close(self) -> None:
        """Destroy all that was made at all sites, and raise the first failure then."""

        def close(site: str | None) -> OsmefError | None:
            try:
                with _naming(site):
                    self._clouds[site].close()
            except OsmefError as error:
                return error
            return None

        for error in side_by_side(close, self._clouds):
            if error is not None:
                raise error

    def stays(self, endpoint: Endpoint) -> tuple[str, Access] | None:
        """Tell of which provider what is made on an endpoint is, and how to reach that again.

        None where it goes with the endpoint.
        """
        return self._clouds[endpoint.request.site].stays(endpoint)

    def data_address(
        self, receiver: Endpoint, sender: Endpoint, layer: Layer, family: Family
    ) -> str:
        """Return the address at which the receiver is measured from this sender.

        Raises ProviderError where it has none.
        """
        if receiver.request.site == sender.request.site:
            return self._clouds[receiver.request.site].data_address(receiver, sender, layer, family)
        six = family is Family.IPV6
        found = receiver.data_address6 if six else receiver.public_address
        if found is None:
            message = f"it has no address of {family} at which another site could reach it"
            raise ProviderError(message, where=receiver.name)
        return found

    def listen_address(
        self, receiver: Endpoint, sender: Endpoint, layer: Layer, family: Family
    ) -> str:
        """Return the receiver's own address that the sender's connections arrive at."""
        if receiver.request.site == sender.request.site:
            cloud = self._clouds[receiver.request.site]
            return cloud.listen_address(receiver, sender, layer, family)
        if family is Family.IPV6:
            return self.data_address(receiver, sender, layer, family)
        return receiver.listen_address or receiver.data_address


def _used(requests: Sequence[EndpointRequest]) -> list[str | None]:
    return list(dict.fromkeys(request.site for request in requests))


def _at(site: str | None, requests: Sequence[EndpointRequest]) -> list[EndpointRequest]:
    return [request for request in requests if request.site == site]


@contextmanager
def _naming(site: str | None) -> Iterator[None]:
    """Have errors name the site where they speak of the provider."""
    try:
        yield
    except OsmefError as error:
        if site is not None:
            error.where = renamed(error.where or "provider", site)
            error.cure = renamed(error.cure, site) if error.cure else None
            error.message = renamed(error.message, site)
        raise
