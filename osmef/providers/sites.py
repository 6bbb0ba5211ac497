"""The clouds of a scenario: one, or one at each of several sites."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from osmef.errors import Interrupted, OsmefError, ProviderError
from osmef.kinds import PROVIDERS, naming_the_package
from osmef.providers import provider_for
from osmef.providers.base import (
    Access,
    CancellationCheck,
    Endpoint,
    EndpointRequest,
    Problem,
    Provider,
    RunContext,
    never_cancelled,
)
from osmef.providers.parallel import map_concurrently, run_in_thread
from osmef.scenario.fields import Family, Placement, ProviderNetwork, Tenancy
from osmef.scenario.location import Location
from osmef.scenario.model import Endpoints, EndpointSettings, Scenario
from osmef.scenario.study import Cell
from osmef.scenario.workload import Directions

T = TypeVar("T")

_SETTINGS = re.compile(r"\bprovider\.(?=[a-z_])")
_ALONE = re.compile(r"^provider(?=$|: )")
_LONE = "endpoints.loopback"


def seen_from(site: str | None, cell: Cell) -> Cell:
    """Return a cell as one site sees it: with a peer elsewhere, its end alone.

    That end appears as a loopback with placement any, as nothing is asked of its place.
    """
    scenario = cell.scenario
    if not scenario.is_between_sites:
        return cell
    alone = Endpoints.model_construct(loopback=_ends_at(site, cell)[0][1])
    seen = scenario.model_copy(update={"endpoints": alone, "placement": Placement.ANY})
    return replace(cell, scenario=seen)


def _ends_at(site: str | None, cell: Cell) -> list[tuple[str, EndpointSettings]]:
    """Return the ends at a site with their keys."""
    named = cell.scenario.endpoints.given_ends.items()
    return [(f"endpoints.{name}", end) for name, end in named if end.site == site]


def problems_at(site: str | None, cloud: Provider, cell: Cell) -> Iterator[Problem]:
    """Yield what the cloud at a site does not support of a cell."""
    ends = _ends_at(site, cell)
    yield from _missing(cloud, cell, ends)
    for words in _listed(cloud, "problems", cloud.problems(seen_from(site, cell)), tuple):
        key, message, cure = (word.replace(_LONE, ends[0][0]) for word in words)
        if site is None:
            yield key, message, cure
        else:
            yield renamed(key, site), f"{site}: {renamed(message, site)}", renamed(cure, site)


def _missing(
    cloud: Provider, cell: Cell, ends: list[tuple[str, EndpointSettings]]
) -> Iterator[Problem]:
    family = cell.scenario.family
    if family not in cloud.families:
        message = f"the provider {cloud.kind} gives its endpoints no addresses of {family}"
        yield "family", message, f"use one of: {', '.join(sorted(cloud.families))}"
    elif cell.scenario.is_between_sites and family not in cloud.outside:
        what = f"over {family}" if cloud.outside else "at all"
        message = (
            f"endpoints of the provider {cloud.kind} can't be reached from another site {what}"
        )
        yield f"{ends[0][0]}.site", message, "use one site for both ends, or another site here"
    stack = cell.scenario.stack
    carries = {"udp"} if cell.scenario.is_between_sites else cloud.carries
    if stack and stack[-1].needs_exclusive_nics and not cell.scenario.is_between_sites:
        carries = cloud.nics_carry
    if stack and stack[-1].carried_by not in carries:
        where = "between sites" if cell.scenario.is_between_sites else f"of {cloud.kind}"
        message = f"the networks {where} don't carry what the layer {stack[-1].kind} sends"
        yield "layer", message, "use one over UDP: vxlan, geneve or wireguard; or bare"
    apart = cell.scenario.tenancy is Tenancy.DIFFERENT_TENANT and not cloud.shares_nics
    for key, end in ends:
        if end.zone is not None and not cloud.has_zones:
            message = f"endpoints of the provider {cloud.kind} can't name a zone"
            yield f"{key}.zone", message, "remove zone"
        if end.nics and not cloud.gives_nics:
            message = f"the provider {cloud.kind} gives an endpoint one network card only"
            yield f"{key}.nics", message, "remove nics, or use another provider"
        elif end.nics and apart:
            message = "further network cards of two tenants are on different networks"
            yield f"{key}.nics", message, "remove nics, or use tenancy: same-tenant"


def renamed(text: str, site: str) -> str:
    """Replace the key ``provider`` by that of a site."""
    here = f"sites.{site}"
    return _ALONE.sub(here, _SETTINGS.sub(f"{here}.", text))


def sites_of(scenario: Scenario) -> Sites:
    """Return the clouds of a scenario, in which nothing is created yet."""
    return Sites({name: provider_for(settings) for name, settings in scenario.clouds.items()})


class Sites:
    """Clouds by site, the only one by None, for the duration of one run.

    Methods do what those of the same names of a Provider do, each endpoint at its own site.
    """

    def __init__(self, clouds: Mapping[str | None, Provider]) -> None:
        self._clouds = clouds
        self._made: dict[str, Endpoint] = {}

    def check(
        self,
        requests: Sequence[EndpointRequest],
        check_cancelled: CancellationCheck = never_cancelled,
    ) -> None:
        """Check each cloud against its requests. Raises ProviderError with a cure."""
        used = _used(requests)

        def check(site: str | None, check_cancelled: CancellationCheck) -> None:
            elsewhere = [request for request in requests if request.site != site]
            with _naming(site):
                self._clouds[site].check_peers(_at(site, requests), elsewhere)
                self._clouds[site].check(_at(site, requests), check_cancelled)

        if len(used) == 1:  # in this thread, which Ctrl-C reaches
            check(used[0], check_cancelled)
        else:
            run_in_thread(
                lambda both: map_concurrently(lambda site: check(site, both), used), check_cancelled
            )

    def problems(self, cell: Cell) -> list[tuple[str, str, str]]:
        """List what the clouds do not support of a cell, as (scenario key, message, cure)."""
        ends = dict.fromkeys(end.site for end in cell.scenario.ends)
        return [one for site in ends for one in problems_at(site, self._clouds[site], cell)]

    def warnings(self, cell: Cell) -> list[str]:
        """List the warnings about the clouds for a cell's summary."""
        ends = dict.fromkeys(end.site for end in cell.scenario.ends)
        return [
            text if site is None else f"{site}: {renamed(text, site)}"
            for site in ends
            for cloud in (self._clouds[site],)
            for text in _listed(cloud, "warnings", cloud.warnings(seen_from(site, cell)), str)
        ]

    def machines(self, requests: Sequence[EndpointRequest]) -> dict[str, str]:
        """Return the physical machine of each endpoint, as far as settings show.

        Raises ProviderError where a site has not enough machines.
        """
        found: dict[str, str] = {}
        for site in _used(requests):
            with _naming(site):
                found |= self._clouds[site].machines(_at(site, requests))
        return found

    def create(self, context: RunContext) -> list[Endpoint]:
        """Create the endpoints of all sites concurrently, and admit peers of other sites.

        When one site fails, the others stop. Raises the first failure.
        """
        failures: list[BaseException] = []

        def check() -> None:
            context.check()
            if failures:
                raise Interrupted("another site has failed")

        def create(site: str | None) -> list[Endpoint]:
            try:
                with _naming(site):
                    cloud, here = self._clouds[site], self._context_at(site, context, check)
                    names = [request.name for request in here.requests]
                    return _listed(cloud, "create", cloud.create(here), Endpoint, names)
            except BaseException as error:
                failures.append(error)
                return []

        made = map_concurrently(create, _used(context.requests))
        if failures:
            raise failures[0]
        self._made = {endpoint.name: endpoint for some in made for endpoint in some}
        all_endpoints = list(self._made.values())
        map_concurrently(lambda site: self._admit(site, all_endpoints), _used(context.requests))
        return [self._made[request.name] for request in context.requests]

    def _context_at(
        self, site: str | None, context: RunContext, check: Callable[[], None]
    ) -> RunContext:
        """Return the context of one site, whose progress is prefixed by its name."""
        if site is None:
            return context
        return replace(
            context,
            requests=_at(site, context.requests),
            planned=_at(site, context.planned),
            progress=lambda line: context.progress(f"{site}: {line}"),
            check=check,
            site=list(self._clouds).index(site) + 1,
        )

    def _admit(self, site: str | None, all_endpoints: Sequence[Endpoint]) -> None:
        """Admit the peers at other sites, and only these, to a site's endpoints."""
        here = [end for end in all_endpoints if end.request.site == site]
        there = [end.public_address for end in all_endpoints if end.request.site != site]
        peers = sorted({address for address in there if address is not None})
        if here and peers:
            with _naming(site):
                self._clouds[site].admit(here, peers)

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back the locations of the endpoints, in their order."""

        def describe(site: str | None) -> dict[str, Location]:
            ours = [end for end in endpoints if end.request.site == site]
            with _naming(site):
                cloud, names = self._clouds[site], [end.name for end in ours]
                found = _listed(cloud, "describe", cloud.describe(ours), Location, names)
            return {
                end.name: location.model_copy(update={"site": site})
                for end, location in zip(ours, found, strict=True)
            }

        found = map_concurrently(describe, _used([end.request for end in endpoints]))
        locations = {name: location for some in found for name, location in some.items()}
        return [locations[end.name] for end in endpoints]

    def prepare(self, endpoints: Sequence[Endpoint], directions: Directions) -> None:
        """Prepare the networks for a trial between endpoints. Raises ProviderError."""
        for site in _used([end.request for end in endpoints]):
            with _naming(site):
                ours = [end for end in endpoints if end.request.site == site]
                self._clouds[site].prepare(ours, directions)

    def replace(self, endpoint: Endpoint, context: RunContext) -> Endpoint:
        """Recreate an endpoint at its site. Raises ProviderError."""
        site = endpoint.request.site
        with _naming(site):
            made = self._clouds[site].replace(
                endpoint, self._context_at(site, context, context.check)
            )
        self._made[made.name] = made
        all_endpoints = list(self._made.values())
        for site in _used([end.request for end in all_endpoints]):
            self._admit(site, all_endpoints)
        return made

    def close(self) -> None:
        """Destroy everything at all sites, and raise the first error."""

        def close(site: str | None) -> OsmefError | None:
            try:
                with _naming(site), naming_the_package():
                    self._clouds[site].close()
            except OsmefError as error:
                return error
            return None

        for error in map_concurrently(close, self._clouds):
            if error is not None:
                raise error

    def access_after_run(self, endpoint: Endpoint) -> tuple[str, Access] | None:
        """Return provider and access of a machine that outlives the run; None otherwise.

        None where it goes with the endpoint.
        """
        return self._clouds[endpoint.request.site].access_after_run(endpoint)

    def data_address(
        self, receiver: Endpoint, sender: Endpoint, layer: ProviderNetwork, family: Family
    ) -> str:
        """Return the address at which this sender measures the receiver.

        Raises ProviderError where it has none.
        """
        if receiver.request.site == sender.request.site:
            return self._clouds[receiver.request.site].data_address(receiver, sender, layer, family)
        six = family is Family.IPV6
        found = receiver.data_address6 if six else receiver.public_address
        if found is None:
            other = Family.IPV4 if six else Family.IPV6
            keys = "data_address6" if six else "data_address, public_address"
            raise ProviderError(
                f"it has no address of {family} at which another site could reach it",
                where=receiver.name,
                cure=f"give it one (a static host: {keys} or interface in the inventory), or use"
                f" family: {other}",
            )
        return found

    def listen_address(
        self, receiver: Endpoint, sender: Endpoint, layer: ProviderNetwork, family: Family
    ) -> str:
        """Return the receiver's own address for this sender's connections."""
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


def _listed(
    cloud: Provider, method: str, found: object, kind: type[T], names: Sequence[str] | None = None
) -> list[T]:
    """Return what a method has returned: a list of this type, with one for each of ``names``.

    A cloud of another package may return anything. Raises ProviderError.
    """
    listed: Sequence[object] = found if isinstance(found, list | tuple) else ()
    right = [one for one in listed if isinstance(one, kind)]
    wanted = len(listed) if names is None else len(names)
    if listed is found and len(right) == len(listed) == wanted:
        return right
    each = "" if names is None else f", one for each of {', '.join(names)}"
    raise ProviderError(
        f"{method}() of {cloud.kind} returned {found!r:.200}, and must return a list of"
        f" {kind.__name__}{each}",
        cure=PROVIDERS.cure(type(cloud)),
    )


@contextmanager
def _naming(site: str | None) -> Iterator[None]:
    """Name the site in errors about the provider."""
    try:
        yield
    except OsmefError as error:
        if site is not None:
            error.where = renamed(error.where or "provider", site)
            error.cure = renamed(error.cure, site) if error.cure else None
            error.message = renamed(error.message, site)
        raise
