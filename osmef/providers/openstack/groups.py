"""Which compute host each server is asked for: by server groups, by name, or by zone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from osmef.errors import CapacityError
from osmef.providers.base import EndpointRequest

TOGETHER, APART = "affinity", "anti-affinity"


@dataclass(frozen=True)
class Group:
    """A server group to be made: its number in the run, its tenant's slot, and its policy."""

    number: int
    tenant: str
    policy: str


def plan_groups(requests: Sequence[EndpointRequest], *, soft: bool) -> dict[str, Group]:
    """Return the server group of each request that needs one, by the request's name.

    A server is in one group only, and a group in one project. So of a lane's servers in a project
    those on one host slot form an affinity group; only where each has a slot of its own they form
    an anti-affinity group. Those that may stand anywhere are in none.
    """
    sets: dict[tuple[int, str], list[EndpointRequest]] = defaultdict(list)
    for request in requests:
        if request.tenant is not None and request.host is not None:
            sets[request.lane, request.tenant].append(request)
    groups: dict[str, Group] = {}
    number = 0
    for (_, tenant), members in sets.items():
        for policy, together in _divide(members):
            number += 1
            group = Group(number, tenant, f"soft-{policy}" if soft else policy)
            groups.update({member.name: group for member in together})
    return groups


def _divide(
    members: Sequence[EndpointRequest],
) -> list[tuple[str, list[EndpointRequest]]]:
    by_slot: dict[str | None, list[EndpointRequest]] = defaultdict(list)
    for member in members:
        by_slot[member.host].append(member)
    if len(by_slot) == len(members):
        return [(APART, list(members))] if len(members) > 1 else []
    return [(TOGETHER, ones) for ones in by_slot.values() if len(ones) > 1]


def assign_places(
    requests: Sequence[EndpointRequest],
    places: Sequence[str],
    fixed: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the place (host or zone) of each host slot, taking them in turn.

    Slots of one lane get different places; ``fixed`` are slots whose place is known. Raises
    CapacityError where there are too few.
    """
    slots: dict[int, list[str]] = defaultdict(list)
    for request in sorted(requests, key=lambda request: request.lane):
        if request.host is not None and request.host not in slots[request.lane]:
            slots[request.lane].append(request.host)
    most = max((len(lane) for lane in slots.values()), default=0)
    if most > len(places):
        raise CapacityError(
            f"the plan needs {most} different hosts at once, and there are {len(places)}",
            where="provider: openstack",
            cure="name more of them in provider.compute_hosts or provider.zones",
        )
    chosen = dict(fixed or {})
    turn = 0
    for lane in slots.values():
        for slot in (slot for slot in lane if slot not in chosen):
            taken = {chosen[other] for other in lane if other in chosen}
            free = (place for place in (*places[turn:], *places[:turn]) if place not in taken)
            chosen[slot] = next(free)
            turn = (places.index(chosen[slot]) + 1) % len(places)
    return chosen
