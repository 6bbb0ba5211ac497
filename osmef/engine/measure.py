"""Execution of trials: one at a time or several concurrently, until no cell needs more."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from osmef.analysis.bulk_transfer import trial_limit
from osmef.analysis.quantiles import is_narrow_enough
from osmef.engine.cancellation import CancellationToken, map_cancellable
from osmef.engine.events import Observer
from osmef.engine.journal import Journal
from osmef.engine.placement import (
    PairPlacement,
    TrialConflicts,
    check,
    overall,
    pair_placements,
    requested,
)
from osmef.engine.plan import Plan, PlannedTrial
from osmef.engine.station import BROKEN, Station, lost_ends
from osmef.errors import EndpointError, Interrupted, OsmefError, ProgramError
from osmef.providers.sites import Sites
from osmef.results.observations import Carried
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Failure, SessionTag, Status, Trial
from osmef.scenario.fields import RECORD, Family
from osmef.scenario.location import Location
from osmef.scenario.workload import UntilKnown
from osmef.workloads import Outcome, Pair, TrialJob, TrialWorkload

if TYPE_CHECKING:
    from osmef.engine.layers import Layers


class StoppingRule:
    """Evaluates finished trials; further trials of cells that it has ended are skipped.

    It holds the values of the one metric that the rule is about, so that a run that goes on, and
    the summary, come to the same from the trials that are recorded.
    """

    def __init__(self, plan: Plan, trials: Iterable[Trial] = ()) -> None:
        rule = plan.study.scenario.repeat
        self._rule = rule if isinstance(rule, UntilKnown) else None
        self._metrics = {
            planned.cell.key: rule.metric or TrialWorkload(planned.cell.scenario).measures[0].name
            for planned in plan.cells
            if isinstance(rule, UntilKnown)
        }
        self._values: dict[str, dict[int, float]] = defaultdict(dict)
        self._known: dict[str, bool] = {}
        for trial in trials:
            self.add(trial)

    def add(self, trial: Trial) -> None:
        """Add a trial; the latest of an index counts, which may have failed afterwards."""
        if self._rule is None:
            return
        self._values[trial.cell].pop(trial.index, None)
        self._known.pop(trial.cell, None)
        value = trial.metrics.get(self._metrics.get(trial.cell, ""))
        if trial.status is Status.OK and value is not None:
            self._values[trial.cell][trial.index] = value

    def skips(self, planned: PlannedTrial) -> bool:
        """Return whether a trial is skipped, as its cell has ended."""
        key = planned.cell.cell.key
        if self._rule is None:
            return False
        if key not in self._known:
            values = list(self._values[key].values())
            enough = len(values) >= self._rule.least
            self._known[key] = enough and is_narrow_enough(values, 2 * self._rule.until)
        return self._known[key]


_POLL_S = 0.1
# The sshd of an endpoint that goes down may outlive the agent by a moment.
_FOLLOWS_S = 0.5
RECONNECT_TIMEOUT_S = 180.0
"""So long a run waits for an endpoint that can't be reached: a VM boots in a minute."""
_LOOPBACK = {Family.IPV4: "127.0.0.1", Family.IPV6: "::1"}


@dataclass(frozen=True)
class EndedTrial:
    """A finished trial: its record, its outcome, and its lost ends."""

    trial: Trial
    outcome: Outcome
    lost: Sequence[str] = ()


@dataclass
class Batch:
    """Trials up to the next reading of locations, and their results so far.

    ``ended`` are those that were recorded, ``skipped`` those whose cell is known, ``disturbed``
    those that lost an end: they were not recorded.
    """

    trials: Sequence[PlannedTrial]
    ended: list[PlannedTrial] = field(default_factory=list)
    skipped: list[PlannedTrial] = field(default_factory=list)
    disturbed: list[EndedTrial] = field(default_factory=list)


@dataclass(frozen=True)
class TrialContext:
    """State shared by all trials of one run."""

    sites: Sites
    stations: dict[str, Station]
    directory: RunDirectory
    journal: Journal
    observer: Observer
    stop: CancellationToken
    session_tag: SessionTag = field(default_factory=SessionTag)
    reconnect_timeout_s: float = RECONNECT_TIMEOUT_S
    layers: Layers | None = None
    stopping_rule: StoppingRule | None = None

    @property
    def locations(self) -> dict[str, Location]:
        """The locations of the endpoints."""
        return {name: station.location for name, station in self.stations.items()}


def run_trials(context: TrialContext, batch: Batch, parallel: int) -> None:
    """Run trials, at most ``parallel`` concurrently, and record each when it ends.

    Trials that share a host, or the router, never run at once. After a cancellation ended trials
    are recorded, too. Once a trial has lost an endpoint, no further one begins. Raises Interrupted,
    StorageError.
    """
    conflicts = TrialConflicts(context.locations)
    waiting = list(batch.trials)
    running: dict[Future[EndedTrial], PlannedTrial] = {}
    with ThreadPoolExecutor(max_workers=parallel) as pool, _stopping_others(context.stop):
        while running or (waiting and not batch.disturbed):
            if context.stop.reason is None and not batch.disturbed:
                _skip(context, batch, waiting)
                for planned in conflicts.startable(waiting, list(running.values()), parallel):
                    waiting.remove(planned)
                    running[pool.submit(_run_trial, context, planned)] = planned
            done, _ = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                planned = running.pop(future)
                with contextlib.suppress(Interrupted):  # raised below, once all have ended
                    _take(context, batch, planned, future.result())
            if not running:
                context.stop.check()


def _skip(context: TrialContext, batch: Batch, waiting: list[PlannedTrial]) -> None:
    """Remove the trials of cells that the stopping rule has ended."""
    if context.stopping_rule is None:
        return
    for planned in [one for one in waiting if context.stopping_rule.skips(one)]:
        waiting.remove(planned)
        batch.skipped.append(planned)
        context.observer.trial_skipped(planned)


def _take(context: TrialContext, batch: Batch, planned: PlannedTrial, ended: EndedTrial) -> None:
    lost = ended.lost or lost_ends(context.sites, context.stations, ended.trial)
    if lost:
        batch.disturbed.append(replace(ended, lost=lost))
        return
    record(context, ended.trial, ended.outcome)
    batch.ended.append(planned)


def record(context: TrialContext, trial: Trial, outcome: Outcome) -> None:
    """Record a trial, and notify the observer. Raises StorageError."""
    context.directory.write_intervals(trial.index, outcome.intervals)
    context.directory.write_requests(trial.index, outcome.requests)
    context.directory.append_trial(trial)
    if context.stopping_rule is not None:
        context.stopping_rule.add(trial)
    context.observer.trial_ended(trial)


@contextlib.contextmanager
def _stopping_others(stop: CancellationToken) -> Iterator[None]:
    """Cancel the running trials when one can't be recorded: the pool waits for them."""
    try:
        yield
    except BaseException:
        stop.request("the run has failed")
        raise


def _run_trial(context: TrialContext, planned: PlannedTrial) -> EndedTrial:
    """Run one trial. Its failure is recorded; only a cancellation is raised."""
    context.stop.wait(planned.cell.cell.scenario.pause)
    context.observer.trial_started(planned)
    started_at, started = context.journal.now(), time.monotonic()
    outcome, failure = Outcome(metrics={}), None
    carried: list[Carried] = []
    silent: Sequence[str] = ()
    found = pair_placements(planned.cell, context.locations)
    try:
        for end in planned.cell.endpoints:
            context.stations[end.name].check()
        if planned.cell.cell.scenario.on_mismatch != RECORD:
            check(requested(planned.cell), found)
        ends = [context.stations[end.name] for end in planned.cell.endpoints]
        carried = map_cancellable(Station.carried, ends, context.stop)
        outcome = _measure(context, planned)
    except Interrupted:
        raise
    except OsmefError as error:
        context.stop.check()
        failure = Failure.of(error)
        silent = _silent_ends(context, planned) if failure.kind in BROKEN else ()
    result = _TrialResult(started_at, time.monotonic() - started, overall(found.values()), carried)
    return EndedTrial(
        _record(planned, context.session_tag, result, outcome, failure), outcome, silent
    )


@dataclass(frozen=True)
class _TrialResult:
    """Result of a trial: its time, its pairs' locations, and the previous traffic of its ends."""

    started_at: datetime
    wall_s: float
    achieved: PairPlacement
    carried: list[Carried]


def _record(
    planned: PlannedTrial,
    tag: SessionTag,
    result: _TrialResult,
    outcome: Outcome,
    failure: Failure | None,
) -> Trial:
    """Return the record of a trial."""
    cell = planned.cell
    scenario = cell.cell.scenario
    return Trial(
        index=planned.index,
        cell=cell.cell.key,
        repetition=planned.repetition,
        group=planned.group,
        pair=cell.number,
        values=dict(cell.cell.values),
        senders=[end.name for end in cell.senders],
        receivers=cell.receiver_names,
        placement=scenario.placement,
        tenancy=None if scenario.is_between_sites else scenario.tenancy,
        achieved_placement=result.achieved.placement,
        achieved_tenancy=result.achieved.tenancy,
        distance=result.achieved.distance,
        connections=cell.cell.connections,
        workload=scenario.workload.kind,
        background=scenario.background.kind if scenario.background else None,
        started_at=result.started_at,
        wall_s=result.wall_s,
        **vars(tag),
        status=Status.OK if failure is None else Status.FAILED,
        failure=failure,
        metrics=dict(outcome.metrics),
        start_spread_s=outcome.start_spread_s,
        start_uncertainty_s=outcome.start_uncertainty_s,
        transfers=outcome.transfers,
        limited_by=trial_limit(outcome.transfers),
        exchanges=outcome.exchanges,
        datagrams=outcome.datagrams,
        sizes=outcome.sizes,
        buckets=outcome.buckets,
        search=outcome.search,
        interfaces=outcome.interfaces,
        carried=result.carried,
    )


def _silent_ends(context: TrialContext, planned: PlannedTrial) -> list[str]:
    """Return the ends of a failed trial that no longer answer. Raises Interrupted."""
    ends = [context.stations[end.name] for end in planned.cell.endpoints]
    if any(station.has_lost_agents for station in ends):
        context.stop.wait(_FOLLOWS_S)
    answers = map_cancellable(Station.answers, ends, context.stop)
    return [one.name for one, does in zip(ends, answers, strict=True) if not does]


def _measure(context: TrialContext, planned: PlannedTrial) -> Outcome:
    scenario, cell = planned.cell.cell.scenario, planned.cell
    ends = [context.stations[end.name] for end in cell.endpoints]
    context.sites.prepare([end.endpoint for end in ends], scenario.directions)
    if context.layers is not None:
        context.layers.prepare(cell)
    watch = context.layers.watch(cell) if context.layers is not None else None
    job = TrialJob(
        trial=planned.index,
        pairs=[
            _pair(context, one.name, other.name, planned)
            for one, other in (cell.ring if scenario.workload.together else cell.pairs)
        ],
        progress=lambda rate: context.observer.rate(planned, rate),
        round_trip=lambda us: context.observer.round_trip(planned, us),
        request_rate=lambda per_second: context.observer.request_rate(planned, per_second),
        check=context.stop.check,
        stagger_s=scenario.stagger,
        keep=lambda name, data: context.directory.write_raw(planned.index, name, data),
    )
    ends = [station for station in ends if station.has_brought]
    try:
        outcome = TrialWorkload(scenario).run(job)
    except ProgramError as error:
        _check_programs(context, ends, f"; {error.message}")
        raise
    _check_programs(context, ends)
    return outcome if watch is None else watch.add_to(outcome)


def _check_programs(context: TrialContext, ends: Sequence[Station], failed: str = "") -> None:
    """Fail a trial during which a supplied program was modified on an endpoint.

    Raises EndpointError.
    """
    try:
        if ends:
            map_cancellable(Station.check_programs, ends, context.stop)
    except EndpointError as error:
        error.message += failed
        raise


def _pair(context: TrialContext, sender: str, receiver: str, planned: PlannedTrial) -> Pair:
    here, there = context.stations[sender], context.stations[receiver]
    scenario, sites = planned.cell.cell.scenario, context.sites
    if here is there:
        loopback = _LOOPBACK[scenario.family]
        return Pair(here, there, loopback, loopback)
    inner = context.layers.pair(planned.cell, sender, receiver) if context.layers else None
    if inner is not None:
        return inner
    path = (scenario.network, scenario.family)
    return Pair(
        here,
        there,
        sender_address=sites.data_address(here.endpoint, there.endpoint, *path),
        receiver_address=sites.data_address(there.endpoint, here.endpoint, *path),
        sender_bind=sites.listen_address(here.endpoint, there.endpoint, *path),
        receiver_bind=sites.listen_address(there.endpoint, here.endpoint, *path),
    )
