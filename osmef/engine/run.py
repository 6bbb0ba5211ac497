"""Execution of a run: provision, deploy, measure, collect, tear down."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from osmef.engine.cancellation import CancellationToken, map_cancellable
from osmef.engine.check import warnings_from_facts
from osmef.engine.cost import (
    RunPrices,
    affordable_s,
    check_budget,
    note_provision,
    planned_cost,
    spent,
)
from osmef.engine.events import Deployed, Ended, Observer, PoolAcquired, Released, Started
from osmef.engine.held_endpoints import HeldEndpoints
from osmef.engine.journal import Journal, this_controller
from osmef.engine.measure import RECONNECT_TIMEOUT_S, StoppingRule, TrialContext
from osmef.engine.placement import ProvisionedEndpoints, provision
from osmef.engine.plan import (
    Plan,
    PlannedTrial,
    beyond_deadline,
    directories,
    estimate,
    most_at_once,
    programs_of,
    span_of,
)
from osmef.engine.recovery import measure_group, session_tag_of
from osmef.engine.station import (
    Station,
    close_stations,
    collect_facts,
    first_moment,
    is_measurable,
    lost_error,
    open_stations,
)
from osmef.engine.summarise import endpoint_info, summarise
from osmef.errors import Interrupted, LostError, OsmefError, ReachError
from osmef.files import exists
from osmef.providers.base import EndpointRequest, RunContext
from osmef.providers.sites import Sites, sites_of
from osmef.remote.login import KeyPair
from osmef.results.measure import Measure
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Declared, Summary
from osmef.results.trial import Status
from osmef.scenario.fields import tries_of
from osmef.units import counted, format_duration
from osmef.workloads import measures_of

if TYPE_CHECKING:
    from osmef.engine.layers import Layers

# A run's resources may be reaped after its deadline, so no living run may reach it: every trial may
# use up all its timeouts (arming, draining, stalling, aborting, reconnecting).
_LONGEST_TRIAL_OVERHEAD_S = 300.0
_DEADLINE_EXTRA_S = 1800.0
# So long before its deadline a run ends, to take away what it made; at most a tenth of it.
_TEARDOWN_S = 300.0


@dataclass(frozen=True)
class Run:
    """Executes a plan in its run directory."""

    plan: Plan
    directory: RunDirectory
    observer: Observer
    stop: CancellationToken
    held: HeldEndpoints | None = None
    """Endpoints that are held for several runs; without, the run creates its own."""
    retries_failed: bool = False
    """Whether to run those trials again that have failed."""
    reconnect_timeout_s: float = RECONNECT_TIMEOUT_S
    """How long to wait for an endpoint that is lost."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of its trials. Raises InputError for two definitions of a name."""
        return measures_of(planned.cell.scenario for planned in self.plan.cells)

    def execute(self) -> Summary:
        """Run the missing trials of the plan, and summarise all.

        With ``retries_failed`` those that it holds as failed, too.

        Whatever happens, all that was made for the run is destroyed before this returns or raises;
        what is held for it stays. Raises ProviderError, EndpointError while the endpoints are made
        ready, StorageError, Interrupted, and LostError where endpoints were lost for good: what
        needs them stays to be measured. A trial that fails raises nothing: it is a record.
        """
        trials = self.directory.read_trials().trials
        done = {t.index for t in trials if not (self.retries_failed and t.status is Status.FAILED)}
        rule = StoppingRule(self.plan, trials)
        missing = [
            planned
            for planned in self.plan.trials
            if planned.index not in done and not rule.skips(planned)
        ]
        journal = Journal(self.directory.journal)
        who = this_controller(self.directory)
        journal.note(Started(self.plan.seed, len(missing), who))
        try:
            if missing:
                self._work(missing, journal)
            else:
                self.observer.warning("every trial had ended before; osmef extend adds trials")
            if missing or not journal.history().has_ended:
                journal.note(Ended())
        finally:
            self.directory.finish()
            summary = summarise(self.plan, self.directory)
            self.directory.write_summary(summary)
        return summary

    def _deadline(
        self, missing: list[PlannedTrial], requests: list[EndpointRequest], journal: Journal
    ) -> float:
        """Return the deadline as a UNIX time, and schedule the cancellation before it.

        What a budget pays for ends then, too, even if this program does not live to see it.
        """
        scenario = self.plan.study.scenario
        length = longest_s(missing) if scenario.deadline is None else scenario.deadline
        why = f"the deadline of the run, {format_duration(length)}, is near"
        cost, before = planned_cost(scenario, requests, estimate(missing)), spent(journal.history())
        check_budget(self.plan, cost, before)
        paid = affordable_s(scenario, cost, before)
        if paid is not None and paid < length:
            length, why = paid, f"the budget of the run, {scenario.budget}, is nearly spent"
        deadline = time.time() + length
        if warning := beyond_deadline(missing, length):
            self.observer.warning(warning)
        self.stop.expire(deadline - min(_TEARDOWN_S, length / 10), why)
        return deadline

    def _declare(self) -> None:
        """Write what frames need beside trials, for as long as there is no summary."""
        if not exists(self.directory.summary):
            # An earlier file may be damaged, and is read for the costs of layers.
            self.directory.declare(Declared(measures=list(self.measures)))
            summary = summarise(self.plan, self.directory, running=True)
            self.directory.declare(Declared.of(summary))

    @property
    def _tries(self) -> int:
        return tries_of(self.plan.study.scenario.on_mismatch)

    def _work(self, missing: list[PlannedTrial], journal: Journal) -> None:
        """Measure the missing trials, on pooled endpoints or on the run's own."""
        names = {end.name for trial in missing for end in trial.cell.endpoints}
        requests = [request for request in self.plan.endpoints if request.name in names]
        context = RunContext(
            run=self.directory.id,
            requests=requests,
            key=KeyPair.generate(f"osmef-{self.directory.id}"),
            ledger=journal,
            deadline=self._deadline(missing, requests, journal),
            progress=self.observer.activity,
            check=self.stop.check,
            keep=self.directory.keep,
            planned=self.plan.endpoints,
            scratch=directories(trial.cell for trial in missing),
        )
        note_provision(journal, RunPrices(self.plan.study.scenario), requests, context.deadline)
        if self.held is None:
            self._provision(missing, context, journal)
            return
        journal.note(PoolAcquired(self.held.since.isoformat(), self.held.id))
        try:
            provisioned = self.held.select([request.name for request in requests])
            # Who takes away what is held takes away what is left on it, by the same mark.
            held = replace(context, run=self.held.id)
            self._use(missing, self.held.sites, provisioned, held, journal)
        finally:
            journal.note(Released())

    def _provision(
        self, missing: list[PlannedTrial], context: RunContext, journal: Journal
    ) -> None:
        """Create the endpoints, measure, and destroy them."""
        sites = sites_of(self.plan.study.scenario)
        cells = list({t.cell.key: t.cell for t in missing}.values())
        failed: BaseException | None = None
        try:
            self.observer.activity(f"provisioning {counted(len(context.requests), 'endpoint')}")
            provisioned = provision(sites, context, cells, self._tries, journal.note)
            self._use(missing, sites, provisioned, context, journal)
        except BaseException as error:
            failed = error
            raise
        finally:
            try:
                self.observer.activity("tearing down")
            finally:
                is_gone = self._close(sites, failed)
            if journal.unnoted is not None:
                raise journal.unnoted
            if is_gone:
                journal.note(Released())

    def _close(self, sites: Sites, failed: BaseException | None) -> bool:
        """Destroy the endpoints; return whether all were destroyed.

        After a run that has ``failed``, the error of the teardown is a warning, and does not take
        the place of the reason. So is a machine that is down at the end of one that was cut short:
        `osmef resume` and `osmef reap` take away what was put on it, as its journal says.
        """
        try:
            sites.close()
        except OsmefError as error:
            cut_short = isinstance(failed, Interrupted | LostError)
            if failed is None or (cut_short and not isinstance(error, ReachError)):
                raise
            where, cure = error.where or "the provider", f"; {error.cure}" if error.cure else ""
            self.observer.warning(
                f"{where} may still have what the run made there: {error.message}{cure}"
            )
            return False
        return True

    def _use(
        self,
        missing: list[PlannedTrial],
        sites: Sites,
        provisioned: ProvisionedEndpoints,
        context: RunContext,
        journal: Journal,
    ) -> None:
        """Deploy the agent, measure, and remove it."""
        stations: dict[str, Station] = {}
        layers: Layers | None = None
        tags = RunPrices(self.plan.study.scenario)
        self.observer.activity(
            f"putting the agent on {counted(len(provisioned.endpoints), 'endpoint')}"
        )
        try:
            stations = open_stations(provisioned, context)
            for name, station in stations.items():
                station.register_program_directories(context.scratch.get(name, ()))
            self._provide(missing, stations)
            layers = self._layers(missing, stations, sites, context, journal)
            if layers is not None:
                layers.up(trial.cell for trial in missing)
            for name, station in stations.items():
                what = (station.endpoint.request, station.endpoint.flavor)
                info = endpoint_info(
                    station, provisioned.earlier.get(name, []), tags.expected_price(*what)
                )
                journal.note(Deployed(info, tags.max_price(*what)))
            self._declare()
            shared = (sites, stations, self.directory, journal, self.observer, self.stop)
            rule = StoppingRule(self.plan, self.directory.read_trials().trials)
            more = (session_tag_of(journal.history()), self.reconnect_timeout_s, layers, rule)
            self._measure(missing, TrialContext(*shared, *more))
        finally:
            kept = self.held is not None
            error = layers.down(are_kept=kept) if layers is not None else None
            close_stations(stations)
            if error is not None:
                self.observer.warning(f"{error.message}; {error.cure}")

    def _layers(
        self,
        missing: list[PlannedTrial],
        stations: dict[str, Station],
        sites: Sites,
        context: RunContext,
        journal: Journal,
    ) -> Layers | None:
        """Return the layers of the trials, none of which is up; None where they have none."""
        if not any(trial.cell.cell.scenario.stack for trial in missing):
            return None
        # slow to load, and most runs need none of it
        from osmef.engine.layers import Layers  # noqa: PLC0415

        return Layers(stations, sites, replace(context, run=self.directory.id), journal)

    def _provide(self, missing: list[PlannedTrial], stations: dict[str, Station]) -> None:
        """Supply the programs that the trials need. Raises SupplyError."""
        cells = {trial.cell.key: trial.cell for trial in missing}
        needed = programs_of(cells.values())
        if not needed:
            return
        # slow to load, and our own workloads need none of it
        from osmef.supply.supply import Supplier, default_store  # noqa: PLC0415

        names = sorted({program.name for programs in needed.values() for program in programs})
        self.observer.activity(f"looking for {', '.join(names)} on {', '.join(sorted(needed))}")
        store = replace(default_store(), progress=self.observer.activity, check=self.stop.check)
        supplier = Supplier(store)
        map_cancellable(
            lambda name: stations[name].provide(needed[name], supplier), needed, self.stop
        )

    def _measure(self, missing: list[PlannedTrial], context: TrialContext) -> None:
        """Run the trials group by group, with the facts before and after each.

        Raises LostError where some are left, for want of their endpoints.
        """
        span = span_of(self.plan.study.scenario, missing)
        self.observer.measuring(len(missing), span, self.measures)
        starts = len(context.journal.history().all(Started))
        moment = first_moment(missing[0].group, starts)
        facts = collect_facts(context.stations, self.directory, moment, {})
        for text in warnings_from_facts(self.plan.cells, facts):
            context.observer.warning(text)
        left: list[PlannedTrial] = []
        for group, some in groupby(missing, key=lambda planned: planned.group):
            trials = list(some)
            if any(is_measurable(planned, context.stations) for planned in trials):
                trials = measure_group(context, trials, most_at_once(trials))
                facts = collect_facts(context.stations, self.directory, f"{group:05}", facts)
            left += trials
        if left:
            raise lost_error(context.stations, left, len(self.plan.trials))


def longest_s(trials: list[PlannedTrial]) -> float:
    """Return the upper bound of the length of a run of these trials, in seconds."""
    return estimate(trials) + _LONGEST_TRIAL_OVERHEAD_S * len(trials) + _DEADLINE_EXTRA_S
