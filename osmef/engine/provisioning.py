"""Provisioning of endpoints, and replacement of those with a wrong placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from osmef.engine.events import Replaced
from osmef.engine.placement import mismatches, pair_placement, requested
from osmef.engine.plan import PlannedCell
from osmef.errors import EndpointError, OsmefError, ProviderError
from osmef.providers.base import Endpoint, Order
from osmef.providers.sites import Sites
from osmef.scenario.fields import EndpointKind
from osmef.scenario.location import Location


@dataclass
class ProvisionedEndpoints:
    """Endpoints by name, their locations, and earlier locations of replaced ones."""

    endpoints: dict[str, Endpoint]
    places: dict[str, Location]
    earlier: dict[str, list[Location]] = field(default_factory=dict)


def provision(
    sites: Sites,
    order: Order,
    cells: Sequence[PlannedCell],
    tries: int,
    note: Callable[[Replaced], None],
) -> ProvisionedEndpoints:
    """Create all endpoints, and replace wrongly placed ones up to ``tries`` times.

    A replacement that fails ends the tries: what stands wrongly then does so when it is measured.
    ``note`` is told of each. Raises ProviderError, Interrupted.
    """
    made = {endpoint.name: endpoint for endpoint in sites.create(order)}
    order.check()
    provisioned = ProvisionedEndpoints(made, _describe(sites, made))
    for number in range(1, tries + 1):
        moving = to_replace(cells, provisioned.places)
        if not moving:
            break
        order.progress(f"recreating {', '.join(moving)}, attempt {number} of {tries}")
        failed = _replace(sites, order, provisioned, moving)
        note(Replaced(tuple(moving), number, str(failed) if failed else None))
        provisioned.places = _describe(sites, provisioned.endpoints)
        if failed:
            order.progress(f"that failed: {failed.message}")
            break
    return provisioned


def _replace(
    sites: Sites, order: Order, provisioned: ProvisionedEndpoints, names: Sequence[str]
) -> OsmefError | None:
    """Replace endpoints until the first error, which is returned."""
    for name in names:
        order.check()
        try:
            provisioned.endpoints[name] = sites.replace(provisioned.endpoints[name], order)
        except (ProviderError, EndpointError) as error:  # also one that SSH does not reach
            return error
        provisioned.earlier.setdefault(name, []).append(provisioned.places[name])
    return None


def _describe(sites: Sites, endpoints: Mapping[str, Endpoint]) -> dict[str, Location]:
    found = sites.describe(list(endpoints.values()))
    return dict(zip(endpoints, found, strict=True))


def to_replace(cells: Iterable[PlannedCell], places: Mapping[str, Location]) -> list[str]:
    """Return a small set of endpoints that covers every wrongly placed pair.

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
    """Return the wrongly placed pairs that can be helped, the good ones, and movable endpoints."""
    wrong: Pairs = []
    good: Pairs = []
    movable: set[str] = set()
    for cell in cells:
        wanted = requested(cell)
        movable |= {end.name for end in cell.endpoints if end.kind is EndpointKind.VM}
        for one, other in cell.pairs:
            found = pair_placement(one, other, places)
            keys = mismatches(wanted, [found])
            if not keys:
                good.append((one.name, other.name))
            elif None not in {getattr(found, key) for key in keys} and (
                movable & {one.name, other.name}
            ):
                wrong.append((one.name, other.name))
    return list(dict.fromkeys(wrong)), list(dict.fromkeys(good)), movable
