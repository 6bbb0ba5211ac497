"""Conflicts of trials: those that share a host or the router must not run concurrently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, groupby

from osmef.engine.placement import pair_placement
from osmef.engine.plan import Plan, PlannedCell, PlannedTrial, most_at_once
from osmef.providers.base import EndpointRequest
from osmef.scenario.location import Location, same_host

_BETWEEN_TENANTS = 4

Key = tuple[str, int | None]
"""What tells a part of a cell from others."""


class TrialConflicts:
    """Conflicts between cells, by achieved placement, or the requested one if unknown."""

    def __init__(self, places: Mapping[str, Location]) -> None:
        self._places = places
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
            if not any(self.share(planned.cell, other) for other in busy):
                chosen.append(planned)
                busy.append(planned.cell)
        return chosen

    def share(self, one: PlannedCell, other: PlannedCell) -> bool:
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
        nowhere = Location()
        found = same_host(
            self._places.get(one.name, nowhere), self._places.get(other.name, nowhere)
        )
        if one.name == other.name or found is not None:
            return one.name == other.name or bool(found)
        return one.host == other.host or None in {one.host, other.host}

    def _needs_router(self, cell: PlannedCell) -> bool:
        """Return whether any pair's traffic goes through the router between tenants."""
        if cell.distance == _BETWEEN_TENANTS:
            return True
        return any(
            pair_placement(a, b, self._places).distance == _BETWEEN_TENANTS for a, b in cell.pairs
        )


def _is_anywhere(*cells: PlannedCell) -> bool:
    """Return whether the cloud decides the placement of some endpoint."""
    return any(end.host is None for cell in cells for end in cell.endpoints)


def without_effect(plan: Plan) -> str | None:
    """Return why no two trials of a plan can run concurrently; None if they can.

    As far as what is asked for tells it.
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
            not conflicts.share(one, other) or _is_anywhere(one, other)
            for one, other in combinations(differing.values(), 2)
        ):
            return None
        seen.add(frozenset(parts))
    key = "parallel" if plan.study.scenario.parallel > 1 else "pairs: side by side"
    return (
        f"{key} has no effect: any two trials that could run at once share a host or the router."
        " Each needs two hosts of its own"
    )
