"""Placement of endpoints: provisioning with it, its verification, and trials that share a host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, groupby
from typing import TypeVar

from osmef.engine.events import Replaced
from osmef.engine.plan import Plan, PlannedCell, PlannedTrial, most_at_once
from osmef.errors import EndpointError, OsmefError, PlacementError, ProviderError
from osmef.providers.base import Endpoint, EndpointRequest, RunContext
from osmef.providers.sites import Sites
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.location import Location, distance, same_host

Locations = Mapping[str, Location]
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


def common_value(values: Iterable[T]) -> T | None:
    """Return the common value of all, None where they differ."""
    distinct = list(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else None


def requested(cell: PlannedCell) -> PairPlacement:
    """Return the requested placement; None for one endpoint, no tenancy for hosts and sites."""
    scenario = cell.cell.scenario
    if scenario.workload.server_address is not None:
        return PairPlacement(None, None, None)
    free = len(cell.endpoints) == 1 or scenario.placement is Placement.ANY
    unknown = scenario.is_between_sites or EndpointKind.HOST in {end.kind for end in scenario.ends}
    return PairPlacement(
        None if free else scenario.placement, None if unknown else scenario.tenancy, cell.distance
    )


def pair_placement(
    one: EndpointRequest, other: EndpointRequest, locations: Mapping[str, Location]
) -> PairPlacement:
    """Return the placement of two endpoints, as far as their locations are known."""
    unknown_location = Location()
    here, there = (
        locations.get(one.name, unknown_location),
        locations.get(other.name, unknown_location),
    )
    if one is other:
        return PairPlacement(Placement.SAME_HOST, Tenancy.SAME_TENANT, 0)
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


def pair_placements(
    cell: PlannedCell, locations: Locations
) -> dict[tuple[str, str], PairPlacement]:
    """Return the placement of every pair of a cell, by the names of its ends."""
    if cell.cell.scenario.workload.server_address is not None:  # nothing is known of the other end
        return {(a.name, b.name): PairPlacement(None, None, None) for a, b in cell.pairs}
    return {(a.name, b.name): pair_placement(a, b, locations) for a, b in cell.pairs}


def overall(found: Iterable[PairPlacement]) -> PairPlacement:
    """Return the common placement of all pairs; None where they differ."""
    each = list(found)
    return PairPlacement(
        common_value(one.placement for one in each),
        common_value(one.tenancy for one in each),
        common_value(one.distance for one in each),
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
    reported = [
        f"the achieved {key} is {'unknown' if is_so is None else is_so}, not {getattr(wanted, key)}"
        for key in wrong
        for is_so in [getattr(found, key)]
    ]
    unknown = any(getattr(found, key) is None for key in wrong)
    return PlacementError(
        "; ".join(reported),
        where=" and ".join(dict.fromkeys(ends)),
        cure=_UNKNOWN_CURE if unknown else _WRONG_CURE,
    )


@dataclass
class ProvisionedEndpoints:
    """Endpoints by name, their locations, and earlier locations of replaced ones."""

    endpoints: dict[str, Endpoint]
    locations: dict[str, Location]
    earlier: dict[str, list[Location]] = field(default_factory=dict)


def provision(
    sites: Sites,
    context: RunContext,
    cells: Sequence[PlannedCell],
    tries: int,
    note: Callable[[Replaced], None],
) -> ProvisionedEndpoints:
    """Create all endpoints, and replace wrongly placed ones up to ``tries`` times.

    A failed replacement ends the tries: the endpoints are measured with their wrong placement.
    ``note`` is called with each. Raises ProviderError, Interrupted.
    """
    made = {endpoint.name: endpoint for endpoint in sites.create(context)}
    context.check()
    provisioned = ProvisionedEndpoints(made, _describe(sites, made))
    for number in range(1, tries + 1):
        moving = endpoints_to_replace(cells, provisioned.locations)
        if not moving:
            break
        context.progress(f"recreating {', '.join(moving)}, attempt {number} of {tries}")
        failed = _replace(sites, context, provisioned, moving)
        note(Replaced(tuple(moving), number, str(failed) if failed else None))
        provisioned.locations = _describe(sites, provisioned.endpoints)
        if failed:
            context.progress(f"that failed: {failed.message}")
            break
    return provisioned


def _replace(
    sites: Sites, context: RunContext, provisioned: ProvisionedEndpoints, names: Sequence[str]
) -> OsmefError | None:
    """Replace endpoints until the first error, which is returned."""
    for name in names:
        context.check()
        try:
            provisioned.endpoints[name] = sites.replace(provisioned.endpoints[name], context)
        except (ProviderError, EndpointError) as error:  # also one that SSH does not reach
            return error
        provisioned.earlier.setdefault(name, []).append(provisioned.locations[name])
    return None


def _describe(sites: Sites, endpoints: Mapping[str, Endpoint]) -> dict[str, Location]:
    found = sites.describe(list(endpoints.values()))
    return dict(zip(endpoints, found, strict=True))


def endpoints_to_replace(
    cells: Iterable[PlannedCell], locations: Mapping[str, Location]
) -> list[str]:
    """Return a small set of endpoints that covers every wrongly placed pair.

    The choice is greedy: the one in most such pairs, and of several the one in fewest good pairs.
    An unknown placement can't be corrected, and a physical host can't be moved.
    """
    wrong, good, movable = _sort(cells, locations)
    often = Counter(name for pair in good for name in pair)
    chosen: list[str] = []
    while wrong:
        missed = Counter(name for pair in wrong for name in pair if name in movable)
        best = max(missed, key=lambda name: (missed[name], -often[name]))
        chosen.append(best)
        wrong = [pair for pair in wrong if best not in pair]
    return chosen


Pairs = list[tuple[str, str]]


def _sort(
    cells: Iterable[PlannedCell], locations: Mapping[str, Location]
) -> tuple[Pairs, Pairs, set[str]]:
    """Return the wrongly placed pairs that can be helped, the good ones, and movable endpoints."""
    wrong: Pairs = []
    good: Pairs = []
    movable: set[str] = set()
    for cell in cells:
        wanted = requested(cell)
        movable |= {end.name for end in cell.endpoints if end.kind is EndpointKind.VM}
        for one, other in cell.pairs:
            found = pair_placement(one, other, locations)
            keys = mismatches(wanted, [found])
            if not keys:
                good.append((one.name, other.name))
            elif None not in {getattr(found, key) for key in keys} and (
                movable & {one.name, other.name}
            ):
                wrong.append((one.name, other.name))
    return list(dict.fromkeys(wrong)), list(dict.fromkeys(good)), movable


_BETWEEN_TENANTS = 4

Key = tuple[str, int | None]
"""Identity of a part of a cell."""


class TrialConflicts:
    """Conflicts between cells, by achieved placement, or the requested one if unknown."""

    def __init__(self, locations: Mapping[str, Location]) -> None:
        self._locations = locations
        self._known: dict[frozenset[Key], bool] = {}

    def startable(
        self, waiting: Sequence[PlannedTrial], running: Sequence[PlannedTrial], parallel: int
    ) -> list[PlannedTrial]:
        """Return the next trials without a conflict with the running ones, in order."""
        chosen: list[PlannedTrial] = []
        busy = [planned.cell for planned in running]
        blocked: set[Key] = set()  # what shares with one that is busy does so for all its trials
        for planned in waiting:
            if len(busy) >= parallel:
                break
            key = planned.cell.key
            if key in blocked:
                continue
            blocked.add(key)
            if not any(self.conflict(planned.cell, other) for other in busy):
                chosen.append(planned)
                busy.append(planned.cell)
        return chosen

    def conflict(self, one: PlannedCell, other: PlannedCell) -> bool:
        """Return whether concurrent trials of both would disturb each other."""
        key = frozenset({one.key, other.key})
        if key not in self._known:
            router = self._needs_router(one) and self._needs_router(other)
            self._known[key] = router or any(
                self._together(a, b) for a in one.endpoints for b in other.endpoints
            )
        return self._known[key]

    def _together(self, one: EndpointRequest, other: EndpointRequest) -> bool:
        """Return whether two endpoints share a host; unknown counts as shared."""
        unknown_location = Location()
        found = same_host(
            self._locations.get(one.name, unknown_location),
            self._locations.get(other.name, unknown_location),
        )
        if one.name == other.name or found is not None:
            return one.name == other.name or bool(found)
        return one.host == other.host or None in {one.host, other.host}

    def _needs_router(self, cell: PlannedCell) -> bool:
        """Return whether any pair's traffic goes through the router between tenants."""
        if cell.distance == _BETWEEN_TENANTS:
            return True
        return any(
            pair_placement(a, b, self._locations).distance == _BETWEEN_TENANTS
            for a, b in cell.pairs
        )


def _is_anywhere(*cells: PlannedCell) -> bool:
    """Return whether the cloud decides the placement of some endpoint."""
    return any(end.host is None for cell in cells for end in cell.endpoints)


def sequential_reason(plan: Plan) -> str | None:
    """Return why no two trials of a plan can run concurrently; None if they can.

    By the requested placement.
    """
    if not plan.trials or most_at_once(plan.trials) == 1:
        return None
    conflicts = TrialConflicts({})
    seen: set[frozenset[Key]] = set()
    for _, group in groupby(plan.trials, key=lambda planned: planned.group):
        parts = {planned.cell.key: planned.cell for planned in group}
        # Cells on the same endpoints are alike here.
        differing = {one.endpoints: one for one in parts.values()}
        if frozenset(parts) not in seen and any(
            not conflicts.conflict(one, other) or _is_anywhere(one, other)
            for one, other in combinations(differing.values(), 2)
        ):
            return None
        seen.add(frozenset(parts))
    key = "parallel" if plan.study.scenario.parallel > 1 else "pairs: side by side"
    return (
        f"{key} has no effect: any two trials that could run at once share a host or the router."
        " Each needs two hosts of its own"
    )
