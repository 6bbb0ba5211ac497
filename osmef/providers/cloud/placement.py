"""Placement of VMs: numbers of host slots, and the first place with capacity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from osmef.errors import CapacityError
from osmef.providers.base import EndpointRequest

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
    give_back: Callable[[], None],
    tell: Callable[[str], None],
) -> T:
    """Create everything in the first place, such as a zone, that has capacity for it.

    ``give_back`` takes away what came about in one that had not, and raises where another would not
    help; ``tell`` gets a line for the user. Raises CapacityError where no place has room, and what
    ``make`` does.
    """
    for place in places[:-1]:
        try:
            return make(place)
        except CapacityError as error:
            give_back()
            tell(f"no room in {place}: {error.message}")
    try:
        return make(places[-1])
    except CapacityError as error:
        if len(places) > 1:
            error.message = f"{error.message}; tried: {', '.join(map(str, places))}"
        raise
