"""Which trials would share a host or the router, and so must not run at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osmef.engine.placement import standing
from osmef.engine.plan import PlannedCell, PlannedTrial
from osmef.providers.base import EndpointRequest
from osmef.scenario.location import Location, same_host

_BETWEEN_TENANTS = 4


class Sharing:
    """Compares cells by where their endpoints really stand, and by what was asked for elsewhere."""

    def __init__(self, places: Mapping[str, Location]) -> None:
        self._places = places
        self._known: dict[frozenset[str], bool] = {}

    def startable(
        self, waiting: Sequence[PlannedTrial], running: Sequence[PlannedTrial], parallel: int
    ) -> list[PlannedTrial]:
        """Return the next trials that may start beside those that run, in their order."""
        chosen: list[PlannedTrial] = []
        busy = [planned.cell for planned in running]
        blocked: set[str] = set()  # what shares with one that is busy does so for all its trials
        for planned in waiting:
            if len(busy) >= parallel:
                break
            key = planned.cell.cell.key
            if key in blocked:
                continue
            blocked.add(key)
            if not any(self.share(planned.cell, other) for other in busy):
                chosen.append(planned)
                busy.append(planned.cell)
        return chosen

    def share(self, one: PlannedCell, other: PlannedCell) -> bool:
        """Return whether trials of both would disturb each other."""
        key = frozenset({one.cell.key, other.cell.key})
        if key not in self._known:
            router = self._needs_router(one) and self._needs_router(other)
            self._known[key] = router or any(
                self._together(a, b) for a in one.endpoints for b in other.endpoints
            )
        return self._known[key]

    def _together(self, one: EndpointRequest, other: EndpointRequest) -> bool:
        """Tell whether two endpoints share a host; what nobody can tell counts as shared."""
        nowhere = Location()
        found = same_host(
            self._places.get(one.name, nowhere), self._places.get(other.name, nowhere)
        )
        if one.name == other.name or found is not None:
            return one.name == other.name or bool(found)
        return one.host == other.host or None in {one.host, other.host}

    def _needs_router(self, cell: PlannedCell) -> bool:
        """Tell whether any pair's traffic goes through the router between tenants."""
        if cell.distance == _BETWEEN_TENANTS:
            return True
        return any(standing(a, b, self._places).distance == _BETWEEN_TENANTS for a, b in cell.pairs)
