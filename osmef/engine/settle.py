"""Make the endpoints of a run, and some of them anew where the cloud put them wrongly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from osmef.engine.events import Replaced
from osmef.engine.placement import mismatches, requested, standing
from osmef.engine.plan import PlannedCell
from osmef.errors import EndpointError, OsmefError, ProviderError
from osmef.providers.base import Endpoint, Order
from osmef.providers.sites import Sites
from osmef.scenario.fields import EndpointKind
from osmef.scenario.location import Location


@dataclass
class Settled:
    """Endpoints by name, where they stand, and where those stood that were made anew."""

    endpoints: dict[str, Endpoint]
    places: dict[str, Location]
    earlier: dict[str, list[Location]] = field(default_factory=dict)


def settle(
    sites: Sites,
    order: Order,
    cells: Sequence[PlannedCell],
    tries: int,
    note: Callable[[Replaced], None],
) -> Settled:
    """Make all endpoints, and up to ``tries`` times anew what stands wrongly for any of the cells.

    A replacement that fails ends the tries: what stands wrongly then does so when it is measured.
    ``note`` is told of each. Raises ProviderError, Interrupted.
    """
    made = {endpoint.name: endpoint for endpoint in sites.create(order)}
    order.check()
    settled = Settled(made, _describe(sites, made))
    for number in range(1, tries + 1):
        moving = to_replace(cells, settled.places)
        if not moving:
            break
        order.progress(f"making {', '.join(moving)} anew, try {number} of {tries}")
        failed = _replace(sites, order, settled, moving)
        note(Replaced(tuple(moving), number, str(failed) if failed else None))
        settled.places = _describe(sites, settled.endpoints)
        if failed:
            order.progress(f"that failed: {failed.message}")
            break
    return settled


def _replace(
    sites: Sites, order: Order, settled: Settled, names: Sequence[str]
) -> OsmefError | None:
    """Make endpoints anew; return why one could not be made, and leave the others then."""
    for name in names:
        order.check()
        try:
            settled.endpoints[name] = sites.replace(settled.endpoints[name], order)
        except (ProviderError, EndpointError) as error:  # also one that SSH does not reach
            return error
        settled.earlier.setdefault(name, []).append(settled.places[name])
    return None


def _describe(sites: Sites, endpoints: Mapping[str, Endpoint]) -> dict[str, Location]:
    found = sites.describe(list(endpoints.values()))
    return dict(zip(endpoints, found, strict=True))


def to_replace(cells: Iterable[PlannedCell], places: Mapping[str, Location]) -> list[str]:
    """Return the names of few endpoints of which each pair that stands wrongly has one.

    The choice is greedy: the one in most such pairs, and of several the one in fewest good pairs.
    What nobody can tell can't be helped, and a physical host can't be moved.
    """
    wrong, good, movable = _sort(cells, places)
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
    cells: Iterable[PlannedCell], places: Mapping[str, Location]
) -> tuple[Pairs, Pairs, set[str]]:
    """Return the pairs that stand wrongly and can be helped, the good ones, and what can move."""
    wrong: Pairs = []
    good: Pairs = []
    movable: set[str] = set()
    for cell in cells:
        wanted = requested(cell)
        movable |= {end.name for end in cell.endpoints if end.kind is EndpointKind.VM}
        for one, other in cell.pairs:
            found = standing(one, other, places)
            keys = mismatches(wanted, [found])
            if not keys:
                good.append((one.name, other.name))
            elif None not in {getattr(found, key) for key in keys} and (
                movable & {one.name, other.name}
            ):
                wrong.append((one.name, other.name))
    return list(dict.fromkeys(wrong)), list(dict.fromkeys(good)), movable
