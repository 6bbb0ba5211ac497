"""Placement of a run's VMs: which hosts a cloud promises, host slots, and zones with room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from osmef.errors import CapacityError
from osmef.providers.base import EndpointRequest, Problem
from osmef.scenario.clouds.base import PublicCloudSettings
from osmef.scenario.fields import RECORD, Placement, Tenancy
from osmef.scenario.model import Scenario

T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True)
class HostRules:
    """What a cloud promises of hosts, by the settings of a run.

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
            progress(f"no room in {zone}: {error.message}")
    try:
        return make(zones[-1])
    except CapacityError as error:
        if len(zones) > 1:
            error.message = f"{error.message}; tried: {', '.join(map(str, zones))}"
        raise
