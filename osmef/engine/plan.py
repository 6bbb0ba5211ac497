"""Plan of a run: the endpoints that it needs, and its trials in order."""

from __future__ import annotations

import hashlib
import random
import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from osmef.kinds import LAYERS
from osmef.providers.base import EndpointRequest
from osmef.scenario.fields import EndpointKind, Placement, Tenancy, TrialOrder
from osmef.scenario.location import Location, distance
from osmef.scenario.model import EndpointSettings, Scenario
from osmef.scenario.study import Cell, Study
from osmef.scenario.workload import PairsAt
from osmef.supply.program import Program
from osmef.units import counted, format_duration
from osmef.workloads import TrialWorkload
from osmef.workloads.base import End, Span

if TYPE_CHECKING:
    from osmef.layers.base import Layer

# Rough times for the estimate; a run measures the real ones.
_PROVISION_S = 3.0
_TRIAL_OVERHEAD_S = 0.1

_NO_WORD = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_WORD = 40

Sites = tuple[str | None, str | None]
"""Where sender and receiver are."""


@dataclass(frozen=True)
class PlannedCell:
    """A cell with the endpoints of its trials: every sender sends to every receiver.

    Loopback uses one endpoint for both ends. Nodes are senders and receivers all of them, and none
    sends to itself. Of ``pairs`` each sender sends to its own receiver. All pairs are to be equally
    far apart; ``distance`` is None where the cloud decides. ``number`` is that of the pair, from 1,
    where it is the part of a cell that trials of one pair use.
    """

    cell: Cell
    senders: tuple[EndpointRequest, ...]
    receivers: tuple[EndpointRequest, ...]
    distance: int | None
    number: int | None = None

    @property
    def key(self) -> tuple[str, int | None]:
        """The key that identifies it in a plan."""
        return (self.cell.key, self.number)

    @property
    def turns(self) -> tuple[PlannedCell, ...]:
        """What each trial of a repetition measures: the whole cell, or one pair each."""
        pairs = self.cell.scenario.pairs
        if pairs is None or pairs.at is PairsAt.ONCE:
            return (self,)
        return tuple(
            replace(self, senders=(one,), receivers=(other,), number=number)
            for number, (one, other) in enumerate(self.pairs, 1)
        )

    @property
    def receiver_names(self) -> list[str]:
        """The receivers by their names; the address of a server that is there already."""
        asked = self.cell.scenario.workload.server_address
        return [end.name for end in self.receivers] if asked is None else [asked]

    @property
    def endpoints(self) -> tuple[EndpointRequest, ...]:
        """All its endpoints, each once."""
        return tuple(dict.fromkeys((*self.senders, *self.receivers)))

    @property
    def pairs(self) -> tuple[tuple[EndpointRequest, EndpointRequest], ...]:
        """Every sender with every receiver, or with its own."""
        if self.cell.scenario.pairs is not None:
            return tuple(zip(self.senders, self.receivers, strict=True))
        alone = len(self.endpoints) == 1
        every = ((one, other) for one in self.senders for other in self.receivers)
        return tuple((one, other) for one, other in every if alone or one is not other)

    @property
    def ring(self) -> tuple[tuple[EndpointRequest, EndpointRequest], ...]:
        """Every endpoint once, with the next one; the last with the first."""
        first, *others = self.endpoints
        return tuple(zip((first, *others), (*others, first), strict=True))


def programs_of(cells: Iterable[PlannedCell]) -> dict[str, dict[Program, None]]:
    """Return the external programs that cells need, by endpoint."""
    needed: dict[str, dict[Program, None]] = {}
    for cell in cells:
        workload = TrialWorkload(cell.cell.scenario)
        ends: tuple[tuple[End, tuple[EndpointRequest, ...]], ...]
        ends = (("sender", cell.senders), ("receiver", cell.receivers))
        if cell.cell.scenario.workload.together:
            ends = (("sender", cell.endpoints),)
        for end, there in ends:
            programs = dict.fromkeys(workload.needs(end))
            for endpoint in there if programs else ():
                needed.setdefault(endpoint.name, {}).update(programs)
        for program in programs_of_layers(cell.cell.scenario):
            for endpoint in cell.endpoints:
                needed.setdefault(endpoint.name, {})[program] = None
    return needed


def programs_of_layers(scenario: Scenario) -> tuple[Program, ...]:
    """Return the programs that the layers of a scenario need at both ends."""
    kinds: list[type[Layer[Any]]] = [LAYERS.get(one.kind) for one in scenario.stack]
    return tuple(dict.fromkeys(program for kind in kinds for program in kind.programs))


@dataclass(frozen=True)
class PlannedTrial:
    """A planned trial. A group is the trials between two collections of facts.

    ``cell`` is the part of a cell that it measures: one of its pairs, or all of it.
    """

    index: int
    cell: PlannedCell
    repetition: int
    group: int


@dataclass(frozen=True)
class Plan:
    """The plan of a run. ``estimate_s`` is the upper bound of its length, in seconds, roughly.

    ``usual_s`` is how long it usually takes: as long, but where trials end once they know enough;
    None where it is unknown. ``most_bytes`` is the payload that all trials move at most,
    None where only time bounds it.

    ``cells`` are the study's, but for what is left out; ``endpoints`` are those of all, since which
    machine one of them is may follow from the others.
    """

    study: Study
    seed: int
    endpoints: tuple[EndpointRequest, ...]
    cells: tuple[PlannedCell, ...]
    trials: tuple[PlannedTrial, ...]
    estimate_s: float
    usual_s: float | None
    most_bytes: int | None

    @property
    def left_out(self) -> tuple[str, ...]:
        """The keys of the study's cells that are not measured."""
        measured = {one.cell.key for one in self.cells}
        return tuple(one.key for one in self.study.cells if one.key not in measured)


def make_plan(study: Study, seed: int | None = None, left_out: Collection[str] = ()) -> Plan:
    """Plan a study. Deterministic in study, seed and ``left_out`` cells.

    Without a seed here or in the scenario one is drawn.
    """
    scenario = study.scenario
    if seed is None:
        seed = scenario.seed if scenario.seed is not None else secrets.randbits(32)
    placed = _place(study.cells, scenario)
    cells = tuple(one for one in placed if one.cell.key not in left_out)
    trials = _order(cells, scenario, seed)
    return Plan(
        study, seed, _endpoints(placed), cells, trials,
        *_whole(scenario, trials), _most_bytes(trials),
    )  # fmt: skip


def extended(plan: Plan, repetitions: int) -> Plan:
    """Return a plan with additional trials of each cell, after those that it has.

    Seed and order of the first ones stay, so that a run that has measured them measures the others.
    """
    study = plan.study
    cells = tuple(
        replace(cell, scenario=_repeated(cell.scenario, repetitions)) for cell in study.cells
    )
    longer = make_plan(
        replace(study, scenario=_repeated(study.scenario, repetitions), cells=cells),
        plan.seed,
        plan.left_out,
    )
    known = {(one.cell.key, one.repetition) for one in plan.trials}
    now = {one.cell.key: one.cell for one in longer.trials}
    trials = [replace(one, cell=now[one.cell.key]) for one in plan.trials]
    last = max((one.group for one in trials), default=0)
    groups: dict[int, int] = {}
    for one in longer.trials:
        if (one.cell.key, one.repetition) not in known:
            group = groups.setdefault(one.group, last + 1 + len(groups))
            trials.append(replace(one, index=len(trials) + 1, group=group))
    most_s, usual_s = _whole(longer.study.scenario, trials)
    return replace(
        longer,
        trials=tuple(trials),
        estimate_s=most_s,
        usual_s=usual_s,
        most_bytes=_most_bytes(trials),
    )


def _repeated(scenario: Scenario, repetitions: int) -> Scenario:
    return scenario.model_copy(update={"repeat": repetitions})


def endpoints_of(study: Study) -> tuple[EndpointRequest, ...]:
    """Return the endpoints that a plan of the study needs."""
    return _endpoints(_place(study.cells, study.scenario))


def directories(cells: Iterable[PlannedCell]) -> dict[str, list[str]]:
    """Return the parents of programs' own directories, by endpoint."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        reported = TrialWorkload(cell.cell.scenario).directories
        for ends, names in (
            (cell.senders, reported("sender")),
            (cell.receivers, reported("receiver")),
        ):
            for end in ends:
                found.setdefault(end.name, {}).update(dict.fromkeys(names))
    return {name: list(names) for name, names in found.items() if names}


def _endpoints(cells: Sequence[PlannedCell]) -> tuple[EndpointRequest, ...]:
    """Return all endpoints; a host has as many network cards as any cell needs."""
    found: dict[str, EndpointRequest] = {}
    for end in (end for cell in cells for end in cell.endpoints):
        known = found.setdefault(end.name, end)
        found[end.name] = replace(known, nics=max(known.nics, end.nics))
    return tuple(found.values())


def _place(cells: Sequence[Cell], scenario: Scenario) -> tuple[PlannedCell, ...]:
    """Assign endpoints to every cell; cells that differ only in workload or layer share them.

    In one lane all cells with ends at the same sites use the same two hosts, so that their numbers
    compare. Trials that may run at once need hosts of their own, so pairs are then spread over
    lanes of two hosts each. Nodes stay in the first lane: few of them are some of many.
    """
    lanes = _Lanes(cells, scenario)
    return tuple(_place_cell(cell, lanes) for cell in cells)


class _Lanes:
    """Assignment of the pairs of a cell to lanes of hosts."""

    def __init__(self, cells: Sequence[Cell], scenario: Scenario) -> None:
        self._scenario = scenario
        self._kinds: dict[Sites, dict[tuple[object, ...], int]] = {}
        for cell in cells:
            there = self._kinds.setdefault(_sites_of(cell), {})
            for number in range(1, cell.scenario.trials + 1):
                there.setdefault(_kind_of_pair(cell, number), len(there))
        self._at_once = max(scenario.parallel, *(cell.scenario.trials for cell in cells))

    def of(self, cell: Cell, number: int = 1) -> int:
        """Return the lane of a pair, by its number."""
        if cell.scenario.endpoints.node is not None:
            return 1
        there = self._kinds[_sites_of(cell)]
        clouds = [self._scenario.clouds[site] for site in _sites_of(cell)]
        lanes = min(cloud.lanes(self._at_once, len(there)) for cloud in clouds)
        return there[_kind_of_pair(cell, number)] % lanes + 1


def _sites_of(cell: Cell) -> Sites:
    sender, receiver = cell.scenario.ends
    return (sender.site, receiver.site)


def _kind_of_pair(cell: Cell, number: int) -> tuple[object, ...]:
    s = cell.scenario
    return (number, s.endpoints, s.placement, s.tenancy, s.network)


def _place_cell(cell: Cell, lanes: _Lanes) -> PlannedCell:
    scenario = cell.scenario
    sender, receiver = scenario.ends
    if scenario.endpoints.loopback is not None:
        lane = lanes.of(cell)
        end = _request("loopback", sender, _EndPlacement(lane, 2 * lane - 1, 1))
        return PlannedCell(
            cell, (end,), (end,), 0 if scenario.workload.server_address is None else None
        )
    if scenario.endpoints.node is not None:
        nodes = _nodes(scenario.endpoints.node, scenario.placement)
        return PlannedCell(cell, nodes, nodes, distance(_slots(nodes[0]), _slots(nodes[-1])))
    if scenario.trials > 1:
        ones, others = _pairs(scenario, [lanes.of(cell, n + 1) for n in range(scenario.trials)])
    else:
        slots = _slots_of(scenario, lanes.of(cell))
        ones, others = _group("sender", sender, slots[0]), _group("receiver", receiver, slots[1])
    return PlannedCell(cell, ones, others, distance(_slots(ones[0]), _slots(others[0])))


def _pairs(
    scenario: Scenario, lanes: Sequence[int]
) -> tuple[tuple[EndpointRequest, ...], tuple[EndpointRequest, ...]]:
    """Return senders and receivers of the pairs in these lanes."""
    made: list[tuple[EndpointRequest, ...]] = []
    for place, lane in enumerate(lanes):
        slots = _slots_of(scenario, lane)
        ends = zip(("sender", "receiver"), scenario.ends, slots, strict=True)
        made.append(
            tuple(
                # A physical host is of one pair; VMs follow each other where lanes are few.
                _request(role, end, replace(slot, host=slot.host + 2 * (place + 1 - lane)))
                if end.kind is EndpointKind.HOST
                else _member(_request(role, end, slot), 1 + lanes[:place].count(lane))
                for role, end, slot in ends
            )
        )
    senders, receivers = zip(*made, strict=True)
    return senders, receivers


@dataclass(frozen=True)
class _EndPlacement:
    """Where an end is to be placed; with placement any, a VM anywhere in the lane."""

    lane: int
    host: int
    tenant: int
    anywhere: bool = False


def _slots_of(scenario: Scenario, lane: int) -> tuple[_EndPlacement, _EndPlacement]:
    """Return the slots of sender and receiver in a lane."""
    anywhere = scenario.placement is Placement.ANY or scenario.is_between_sites
    first_host = 2 * lane - 1
    other_host = first_host + (scenario.placement is not Placement.SAME_HOST)
    other_tenant = 1 + (scenario.tenancy is Tenancy.DIFFERENT_TENANT)
    here = _EndPlacement(lane, first_host, 1, anywhere)
    return here, _EndPlacement(lane, other_host, other_tenant, anywhere)


def _member(first: EndpointRequest, number: int) -> EndpointRequest:
    """Return a member of a group by its number, from 1.

    VMs of a group share a host unless they may be anywhere. A physical host has a place of its own:
    senders and receivers take turns, so that a smaller group is the start of a larger one.
    """
    if number == 1:
        return first
    if first.kind is EndpointKind.HOST and first.host is not None:
        host = f"host-{int(first.host.removeprefix('host-')) + 2 * (number - 1)}"
        return replace(first, name=_host_name(first.site, host), host=host)
    return replace(first, name=f"{first.name}-m{number}")


def _host_name(site: str | None, host: str) -> str:
    # A host is one endpoint, whatever its role in a cell.
    return "-".join(filter(None, (site, host)))


def _group(role: str, end: EndpointSettings, slot: _EndPlacement) -> tuple[EndpointRequest, ...]:
    """Return the members of a group of one tenant; a smaller group is a prefix of a larger."""
    first = _request(role, end, slot)
    return tuple(_member(first, number) for number in range(1, end.count + 1))


def _nodes(end: EndpointSettings, placement: Placement) -> tuple[EndpointRequest, ...]:
    """Return nodes of one tenant: on a host each, all on one, or anywhere.

    Fewer of them are the start of more.
    """
    first = _EndPlacement(1, 1, 1, placement is Placement.ANY)
    if placement is not Placement.DIFFERENT_HOST and end.kind is EndpointKind.VM:
        return _group("node", end, first)
    slots = (replace(first, host=first.host + number) for number in range(end.count))
    return tuple(_request("node", end, slot) for slot in slots)


def _request(role: str, end: EndpointSettings, slot: _EndPlacement) -> EndpointRequest:
    host = f"host-{slot.host}"
    if end.kind is EndpointKind.HOST:
        name = _host_name(end.site, host)
        request = EndpointRequest(name, role, end.kind, None, host, None, slot.lane)
        return replace(request, site=end.site, nics=end.nics)
    flavor = None if end.flavor is None else _word(str(end.flavor))
    place = f"any{slot.lane}" if slot.anywhere else f"h{slot.host}"
    if end.zone is not None:
        place = f"{_word(end.zone)}.{place}"
    cards = f"nics{end.nics}" if end.nics else None
    return EndpointRequest(
        name="-".join(filter(None, (end.site, role, flavor, cards, place, f"t{slot.tenant}"))),
        role=role,
        kind=end.kind,
        flavor=end.flavor,
        host=None if slot.anywhere else host,
        tenant=f"tenant-{slot.tenant}",
        lane=slot.lane,
        zone=end.zone,
        site=end.site,
        nics=end.nics,
    )


def _word(text: str) -> str:
    """Return a cloud's name as a part of file names, injectively."""
    plain = _NO_WORD.sub("-", text)[:_LONGEST_WORD]
    if plain == text:
        return text
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def _slots(request: EndpointRequest) -> Location:
    return Location(site=request.site, host=request.host, tenant=request.tenant)


def _order(cells: Sequence[PlannedCell], scenario: Scenario, seed: int) -> tuple[PlannedTrial, ...]:
    # Random: every repetition is a block of all cells in an order of its own, so that a slow
    # drift of the cloud touches all cells alike. Sequential: cell after cell.
    repetitions = range(1, scenario.repetitions + 1)
    shuffle = random.Random(seed).shuffle  # noqa: S311 - an order, not a secret
    plain: list[tuple[PlannedCell, int, int]] = []
    if scenario.order is TrialOrder.SEQUENTIAL:
        for group, cell in enumerate(cells, 1):
            plain += [(one, r, group) for r in repetitions for one in cell.turns]
    else:
        group = 0
        for r in repetitions:
            for block in _blocks(cells, shuffle):
                group += 1
                shuffle(block)
                plain += [(one, r, group) for one in block]
    return tuple(PlannedTrial(i, c, r, group) for i, (c, r, group) in enumerate(plain, 1))


def _blocks(
    cells: Sequence[PlannedCell], shuffle: Callable[[list[list[PlannedCell]]], None]
) -> list[list[PlannedCell]]:
    """Return the blocks of one repetition: one, or one per pair.

    A block of pairs has no cell twice, and all its cells on the same pair.
    """
    first: list[PlannedCell] = []
    in_turn: dict[int, list[PlannedCell]] = {}
    for cell in cells:
        pairs = cell.cell.scenario.pairs
        for one in cell.turns:
            if pairs is not None and pairs.at is PairsAt.IN_TURN:
                in_turn.setdefault(one.number or 1, []).append(one)
            else:
                first.append(one)
    blocks = list(in_turn.values())
    if first:
        blocks = [first + blocks[0], *blocks[1:]] if blocks else [first]
    if len(blocks) > 1:
        shuffle(blocks)
    return blocks


def most_at_once(trials: Iterable[PlannedTrial]) -> int:
    """Return how many trials may run concurrently, as the scenario allows."""
    return max(
        max(scenario.parallel, scenario.pairs.max_concurrent if scenario.pairs else 1)
        for scenario in (planned.cell.cell.scenario for planned in trials)
    )


def duration_of(planned: PlannedCell) -> float:
    """Return the length of a trial from first start to last end, in seconds."""
    scenario = planned.cell.scenario
    return TrialWorkload(scenario).duration_s + scenario.stagger * (len(planned.pairs) - 1)


def estimate(trials: Sequence[PlannedTrial]) -> float:
    """Return the upper bound of the trials' total length in seconds, with pauses."""
    each = (duration_of(t.cell) + t.cell.cell.scenario.pause + _TRIAL_OVERHEAD_S for t in trials)
    return sum(each)


def beyond_deadline(trials: Sequence[PlannedTrial], length_s: float | None) -> str | None:
    """Return a warning where the trials do not end before a deadline, else None."""
    if length_s is None or estimate(trials) <= length_s:
        return None
    deadline = f"the deadline, {format_duration(length_s)}"
    cells = {trial.cell.cell.key: trial.cell.cell for trial in trials}.values()
    shortest = min((TrialWorkload(one.scenario).span_s.usual_s or 0.0) for one in cells)
    if shortest > length_s:
        least = format_duration(shortest)
        return (
            f"by plan no trial fits into {deadline}: the shortest takes {least}."
            " Write a longer deadline"
        )
    return f"by plan the trials take longer than {deadline}"


def stagger_reason(trials: Sequence[PlannedTrial]) -> str | None:
    """Return a note where ``stagger`` has no effect, as trials are of one pair, else None.

    That is everywhere, or in cells that would measure something else only with it.
    """
    cells = {trial.cell.key: trial.cell for trial in trials}.values()
    staggered = [one for one in cells if one.cell.scenario.stagger]
    if not staggered:
        return None
    if all(len(one.pairs) == 1 for one in staggered):
        return (
            "stagger has no effect: no trial has several pairs. Write pairs with at: once, or an"
            " endpoint with a count"
        )
    alike: dict[str, set[str]] = defaultdict(set)
    for one in cells:
        if len(one.pairs) == 1:
            rest = one.cell.scenario.model_copy(update={"stagger": 0.0})
            alike[rest.model_dump_json()].add(one.cell.key)
    same = sorted(sorted(keys) for keys in alike.values() if len(keys) > 1)
    if not same:
        return None
    names, more = "; ".join(same[0]), len(same) - 1
    others = f", and so do those of {counted(more, 'other setting')}" if more else ""
    return (
        f"stagger has no effect on one pair, so these cells measure the same: {names}{others}."
        f" Leave all but one{' of each' if more else ''} out with exclude"
    )


def span_of(scenario: Scenario, trials: Sequence[PlannedTrial]) -> Span:
    """Return the trials' total length, with pauses: usual, and at most."""
    most_s = estimate(trials)
    if scenario.is_until_known:
        return Span(None, most_s)
    earlier = 0.0
    for cell, count in _counted(trials):
        span = TrialWorkload(cell.cell.scenario).span_s
        if span.usual_s is None:
            return Span(None, most_s)
        earlier += count * (span.most_s - span.usual_s)
    return Span(most_s - earlier, most_s)


def _whole(scenario: Scenario, trials: Sequence[PlannedTrial]) -> tuple[float, float | None]:
    """Return the largest and the usual length of a run, which makes its endpoints first."""
    usual_s, most_s = span_of(scenario, trials)
    return _PROVISION_S + most_s, None if usual_s is None else _PROVISION_S + usual_s


def _most_bytes(trials: Sequence[PlannedTrial]) -> int | None:
    total = 0
    for cell, count in _counted(trials):
        size = TrialWorkload(cell.cell.scenario).most_bytes
        if size is None:
            return None
        total += count * len(cell.pairs) * size
    return total


def _counted(trials: Sequence[PlannedTrial]) -> list[tuple[PlannedCell, int]]:
    """Return each cell, or pair of one, with its number of trials."""
    counts = Counter(trial.cell.key for trial in trials)
    return [(cell, counts[key]) for key, cell in {t.cell.key: t.cell for t in trials}.items()]
