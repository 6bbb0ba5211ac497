"""Placement as achieved against placement as requested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from osmef.engine.plan import PlannedCell
from osmef.errors import PlacementError
from osmef.providers.base import EndpointRequest
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.location import Location, distance, same_host

Places = Mapping[str, Location]
"""Where each endpoint is placed, by its name."""

T = TypeVar("T")

_UNKNOWN_CURE = (
    "use credentials that show hosts and tenants, or set placement: any or on_mismatch: record"
)
_WRONG_CURE = "free capacity where it is wanted, or set on_mismatch: retry 3 or record"


@dataclass(frozen=True)
class PairPlacement:
    """The placement of a pair: same or different host and tenant, and the distance.

    None means unknown, or in a request that anything is as good.
    """

    placement: Placement | None
    tenancy: Tenancy | None
    distance: int | None


def the_same(values: Iterable[T]) -> T | None:
    """Return the common value of all, None where they differ."""
    distinct = list(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else None


def requested(cell: PlannedCell) -> PairPlacement:
    """Return the requested placement; None for one endpoint, no tenancy for hosts and sites."""
    scenario = cell.cell.scenario
    if scenario.workload.asked is not None:
        return PairPlacement(None, None, None)
    free = len(cell.endpoints) == 1 or scenario.placement is Placement.ANY
    untold = scenario.is_between_sites or EndpointKind.HOST in {end.kind for end in scenario.ends}
    return PairPlacement(
        None if free else scenario.placement, None if untold else scenario.tenancy, cell.distance
    )


def pair_placement(
    one: EndpointRequest, other: EndpointRequest, places: Mapping[str, Location]
) -> PairPlacement:
    """Return the placement of two endpoints, as far as their locations are known."""
    nowhere = Location()
    here, there = places.get(one.name, nowhere), places.get(other.name, nowhere)
    if one is other:
        return PairPlacement(Placement.SAME_HOST, _tenancy(here, there), 0)
    together = same_host(here, there)
    placement = None
    if together is not None:
        placement = Placement.SAME_HOST if together else Placement.DIFFERENT_HOST
    return PairPlacement(placement, _tenancy(here, there), distance(here, there))


def _tenancy(here: Location, there: Location) -> Tenancy | None:
    if here.tenant is None or there.tenant is None:
        return None
    one = (here.site, here.tenant) == (there.site, there.tenant)
    return Tenancy.SAME_TENANT if one else Tenancy.DIFFERENT_TENANT


def pair_placements(cell: PlannedCell, places: Places) -> dict[tuple[str, str], PairPlacement]:
    """Return the placement of every pair of a cell, by the names of its ends."""
    if cell.cell.scenario.workload.asked is not None:  # nothing is known of the other end
        return {(a.name, b.name): PairPlacement(None, None, None) for a, b in cell.pairs}
    return {(a.name, b.name): pair_placement(a, b, places) for a, b in cell.pairs}


def overall(found: Iterable[PairPlacement]) -> PairPlacement:
    """Return the common placement of all pairs; None where they differ."""
    each = list(found)
    return PairPlacement(
        the_same(one.placement for one in each),
        the_same(one.tenancy for one in each),
        the_same(one.distance for one in each),
    )


def mismatches(wanted: PairPlacement, found: Iterable[PairPlacement]) -> list[str]:
    """Name the requested properties that are not achieved, or unknown."""
    each = list(found)
    return [
        key
        for key in ("placement", "tenancy", "distance")
        if (asked := getattr(wanted, key)) is not None
        and any(getattr(one, key) != asked for one in each)
    ]


def check(wanted: PairPlacement, found: Mapping[tuple[str, str], PairPlacement]) -> None:
    """Raise PlacementError where a pair is not placed as requested, or that is unknown."""
    for ends, one in found.items():
        wrong = mismatches(wanted, [one])
        if wrong:
            raise _error(ends, wanted, one, wrong)


def _error(
    ends: tuple[str, str], wanted: PairPlacement, found: PairPlacement, wrong: Sequence[str]
) -> PlacementError:
    told = [
        f"the achieved {key} is {'unknown' if is_so is None else is_so}, not {getattr(wanted, key)}"
        for key in wrong
        for is_so in [getattr(found, key)]
    ]
    unknown = any(getattr(found, key) is None for key in wrong)
    return PlacementError(
        "; ".join(told),
        where=" and ".join(dict.fromkeys(ends)),
        cure=_UNKNOWN_CURE if unknown else _WRONG_CURE,
    )
