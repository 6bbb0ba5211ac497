"""What a run needs of a cloud: flavors, quotas, and places with room for its VMs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from osmef.errors import CapacityError, NotFoundError, QuotaError
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud.errors import USUAL_CURES, Meaning
from osmef.scenario.fields import FlavorNeed

F = TypeVar("F")
WantedFlavor = str | FlavorNeed
"""A flavor by its name, or a need that the smallest meets."""

_MOST_NAMES = 20
_MIB = 2**20


@dataclass(frozen=True)
class Flavor:
    """A size of VMs, whatever the cloud calls it: its name and CPUs."""

    name: str
    vcpus: int


def known_names(known: Iterable[str], wanted: str, what: str = "of them") -> str:
    """Return the cure for an unknown name: close ones, or all known ones."""
    names = sorted({*known})
    close = get_close_matches(wanted, names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return (
        f"use one of: {', '.join(names[:_MOST_NAMES])}" if names else f"there is no {what} at all"
    )


def meets(need: FlavorNeed, vcpus: int, ram_mib: int) -> bool:
    """Return whether so many CPUs and MiB of memory meet a need."""
    return vcpus >= need.vcpus and ram_mib * _MIB >= (need.ram or 0)


def smallest(fitting: Iterable[F], size_of: Callable[[F], tuple[Any, ...]], lacks: str) -> F:
    """Return the smallest of the flavors that fit a need.

    Raises NotFoundError, with ``lacks`` as its message, where there is none.
    """
    found = min(fitting, key=size_of, default=None)
    if found is None:
        cure = "ask for less, write the name of one, or use another region"
        raise NotFoundError(lacks, where="flavor", cure=cure)
    return found


def check_cards(request: EndpointRequest, flavor: str, most: int | None) -> None:
    """Raise CapacityError where a flavor has too few network cards for a request.

    ``most`` is how many it may have with the usual one, None where the cloud reports no limit.
    """
    if most is not None and request.nics >= most:
        free = most - 1
        raise CapacityError(
            f"{flavor} has {most} network card{'s' * (most != 1)}, and {request.nics + 1} are"
            f" needed: the usual one and nics: {request.nics}",
            where=request.name,
            cure=f"use a larger flavor, or write nics: {free}" if free else "use a larger flavor",
        )


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


T = TypeVar("T")
P = TypeVar("P")


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


def first_with_room(
    places: Sequence[P],
    make: Callable[[P], T],
    roll_back: Callable[[], None],
    progress: Callable[[str], None],
) -> T:
    """Create everything in the first zone, or the like, with capacity for it.

    ``roll_back`` destroys what was created in a zone without enough capacity, and raises where
    another zone would not help; ``progress`` gets a line for the user. Raises CapacityError where
    no zone has capacity, and what ``make`` does.
    """
    for place in places[:-1]:
        try:
            return make(place)
        except CapacityError as error:
            roll_back()
            progress(f"no room in {place}: {error.message}")
    try:
        return make(places[-1])
    except CapacityError as error:
        if len(places) > 1:
            error.message = f"{error.message}; tried: {', '.join(map(str, places))}"
        raise
