"""Lookup of what a run needs: flavors, quotas, promises about hosts, and zones with capacity."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from osmef.errors import CapacityError, NotFoundError, QuotaError
from osmef.providers.base import EndpointRequest, Problem
from osmef.providers.cloud.errors import USUAL_CURES, Meaning
from osmef.scenario.clouds.base import PublicCloudSettings
from osmef.scenario.fields import RECORD, FlavorNeed, Placement, Tenancy
from osmef.scenario.model import Scenario
from osmef.units import counted

WantedFlavor = str | FlavorNeed
"""A flavor by its name, or a need that the smallest meets."""

_MOST_NAMES = 20
_MIB = 2**20


@dataclass(frozen=True)
class Flavor:
    """A size of VMs, whatever the cloud calls it: its name, CPUs and memory in MiB.

    ``zones`` are the ids of the zones that have it; ``nics`` how many network cards it may have
    with the usual one, None where the cloud reports no limit.
    """

    name: str
    vcpus: int
    ram_mib: int
    architecture: str = field(default="", kw_only=True)
    zones: frozenset[str] = field(default=frozenset(), kw_only=True)
    nics: int | None = field(default=None, kw_only=True)


F = TypeVar("F", bound=Flavor)
I = TypeVar("I")  # noqa: E741 - of images
T = TypeVar("T")
P = TypeVar("P")


def known_names(known: Iterable[str], wanted: str, what: str = "of them") -> str:
    """Return the cure for an unknown name: close ones, or all known ones."""
    names = sorted({*known})
    close = get_close_matches(wanted, names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return (
        f"use one of: {', '.join(names[:_MOST_NAMES])}" if names else f"there is no {what} at all"
    )


def fitting(there: Iterable[F], need: FlavorNeed) -> list[F]:
    """Return the flavors with the CPUs and the memory that are needed."""
    ram = need.ram or 0
    return [one for one in there if one.vcpus >= need.vcpus and one.ram_mib * _MIB >= ram]


def smallest(
    there: Iterable[F],
    need: FlavorNeed,
    lacks: str,
    then: Callable[[F], tuple[Any, ...]] = lambda _flavor: (),
) -> F:
    """Return the smallest of the flavors that fit a need, of several the first by ``then``.

    Raises NotFoundError, with ``lacks`` as its message, where there is none.
    """

    def size_of(one: F) -> tuple[Any, ...]:
        return one.vcpus, one.ram_mib, *then(one), one.name

    found = min(fitting(there, need), key=size_of, default=None)
    if found is None:
        cure = "ask for less, write the name of one, or use another region"
        raise NotFoundError(lacks, where="flavor", cure=cure)
    return found


def check_cards(request: EndpointRequest, flavor: Flavor) -> None:
    """Raise CapacityError where a flavor has too few network cards for a request."""
    most = flavor.nics
    if most is not None and request.nics >= most:
        free = most - 1
        raise CapacityError(
            f"{flavor.name} has {counted(most, 'network card')}, and {request.nics + 1} are needed:"
            f" the usual one and nics: {request.nics}",
            where=request.name,
            cure=f"use a larger flavor, or write nics: {free}" if free else "use a larger flavor",
        )


class Zones(dict[str, str]):
    """The ids of a region's zones, which all accounts share, by an account's own names of them."""

    def id_of(self, zone: str) -> str:
        """Return the id of a zone that is given by name or id. Raises NotFoundError."""
        if zone in self.values():
            return zone
        if zone not in self:
            there = f"use one of: {self.listed(self.values())}"
            cure = there if self else "leave it out: there are no zones"
            raise NotFoundError(f"there is no zone {zone!r}", where="provider.zone", cure=cure)
        return self[zone]

    def name_of(self, zone: str) -> str:
        """Return the account's own name of a zone that is given by its id."""
        return next(name for name, id_ in self.items() if id_ == zone)

    def listed(self, some: Container[str]) -> str:
        """Format the zones of some ids."""
        return ", ".join(f"{name} ({id_})" for name, id_ in sorted(self.items()) if id_ in some)


@dataclass(frozen=True)
class Offers(Generic[F, I]):
    """Offers of an account for what requests ask for.

    Flavors by what is asked for, where ``default`` is that of a request that names none; images by
    CPU architecture; and the zones of the region.
    """

    default: WantedFlavor
    flavors: Mapping[WantedFlavor, F]
    images: Mapping[str, I]
    zones: Zones

    def flavor_of(self, request: EndpointRequest) -> F:
        """Return the flavor of a request."""
        return self.flavors[request.flavor or self.default]

    def image_of(self, flavor: F) -> I:
        """Return the image for VMs of a flavor."""
        return self.images[flavor.architecture]

    def check(self, request: EndpointRequest, zone: str | None) -> F:
        """Return the flavor of a request. ``zone`` is the one it has to be in, if any.

        Raises CapacityError where that lacks the flavor, or the flavor network cards.
        """
        flavor = self.flavor_of(request)
        check_cards(request, flavor)
        if zone is not None and self.zones.id_of(zone) not in flavor.zones:
            there = self.zones.listed(flavor.zones)
            cure = f"use one of: {there}" if there else "use another flavor"
            lacks = f"the zone {zone} has no {flavor.name}"
            raise CapacityError(lacks, where="provider.zone", cure=cure)
        return flavor


def common_zones(
    offers: Mapping[str, Offers[F, Any]], requests: Sequence[EndpointRequest]
) -> list[str]:
    """Return the ids of the zones that have all that these requests ask for.

    Offers are by the tenants' slots. The order is that of the first account's names of zones.
    """
    each = [(offers[str(request.tenant)], request) for request in requests]
    has = [{*there.zones.values()} & there.flavor_of(request).zones for there, request in each]
    return sorted(set.intersection(*has), key=each[0][0].zones.name_of)


@dataclass(frozen=True)
class Quota:
    """A quota: its limit, None for none, and its usage."""

    limit: float | None
    used: float = 0

    def lacks(self, need: int) -> bool:
        """Return whether an amount exceeds the rest."""
        return self.limit is not None and self.used + need > self.limit


def compare_quotas(
    where: str,
    need: Mapping[str, int],
    quotas: Mapping[str, Quota],
    cure: str = USUAL_CURES[Meaning.QUOTA],
) -> None:
    """Raise QuotaError with every exceeded quota, in the order of the needs.

    Both are by the names of the quotas; a quota that the cloud does not report is not checked.
    """
    short = [
        f"{count} {what} (quota {quotas[what].limit:.10g}, in use {quotas[what].used:.10g})"
        for what, count in need.items()
        if count and what in quotas and quotas[what].lacks(count)
    ]
    if short:
        raise QuotaError(f"the plan needs {', '.join(short)}", where=where, cure=cure)


@dataclass(frozen=True)
class HostRules:
    """Promises of a cloud about hosts, by the settings of a run.

    ``own`` is what VMs share a host on for sure, such as "a dedicated host", which belongs to one
    ``owner``. ``given`` says whether the settings ask for it; ``ask`` is how they do, and ``near``
    the nearest without it. Without it, ``unknown`` says why hosts may not differ, None if they do
    for sure, and ``cure`` how they would.
    """

    own: str
    owner: str
    given: bool
    ask: str
    near: str
    unknown: str | None = None
    cure: str = ""

    def problems_of(self, settings: PublicCloudSettings, scenario: Scenario) -> Iterator[Problem]:
        """Yield what hosts of this kind do not support."""
        across = scenario.tenancy is Tenancy.DIFFERENT_TENANT and settings.tenants is not None
        if scenario.placement is Placement.SAME_HOST and not self.given:
            cure = f"{self.ask}; the nearest without one is {self.near}"
            yield ("placement", f"VMs share a host for sure only on {self.own}", cure)
        elif scenario.placement is Placement.SAME_HOST and across:
            cure = "leave provider.tenants out: each tenant is a network of its own then"
            yield ("placement", f"{self.own} belongs to one {self.owner}", cure)
        if self.unknown is not None and scenario.on_mismatch != RECORD:
            yield ("placement", self.unknown, self.cure)

    def of_several(self, scenario: Scenario) -> Iterator[Problem]:
        """Yield what lacks where several VMs of one end are to share a host."""
        apart = scenario.placement is Placement.DIFFERENT_HOST and scenario.shares_hosts
        if apart and not self.given:
            cure = f"{self.ask}, or placement: any"
            yield ("placement", "several VMs of one end can't be kept on one host", cure)


def host_numbers(
    requests: Iterable[EndpointRequest], most: int | None, of: str, where: str, cure: str
) -> dict[tuple[int, str], int]:
    """Return the number of each host slot by lane and name, from 0 in each lane.

    Slots of one lane get different numbers, below ``most``. Raises CapacityError where a lane has
    more slots than ``most``, which are what ``of`` says.
    """
    lanes: dict[int, set[str]] = {}
    for request in requests:
        if request.host is not None:
            lanes.setdefault(request.lane, set()).add(request.host)
    needed = max(map(len, lanes.values()), default=0)
    if most is not None and needed > most:
        message = f"the plan needs {needed} different hosts at once, and there are {most} {of}"
        raise CapacityError(message, where=where, cure=cure)
    return {
        (lane, slot): number
        for lane, slots in lanes.items()
        for number, slot in enumerate(sorted(slots, key=lambda slot: (len(slot), slot)))
    }


def first_with_capacity(
    zones: Sequence[P],
    make: Callable[[P], T],
    roll_back: Callable[[], None],
    progress: Callable[[str], None],
) -> T:
    """Create everything in the first zone, or the like, with capacity for it.

    ``roll_back`` destroys what was created in a zone without enough capacity, and raises where
    another zone would not help; ``progress`` gets a line for the user. Raises CapacityError where
    no zone has capacity, and what ``make`` does.
    """
    for zone in zones[:-1]:
        try:
            return make(zone)
        except CapacityError as error:
            roll_back()
            progress(f"no capacity in {zone}: {error.message}")
    try:
        return make(zones[-1])
    except CapacityError as error:
        if len(zones) > 1:
            error.message = f"{error.message}; tried: {', '.join(map(str, zones))}"
        raise
