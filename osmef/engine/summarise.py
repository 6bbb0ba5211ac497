"""The summary of a run, made of what its directory holds."""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from datetime import datetime
from typing import Any

import osmef
from osmef.agent.messages import PROTOCOL
from osmef.analysis.describe import describe
from osmef.engine.check import warnings_of
from osmef.engine.journal import Journal
from osmef.engine.metadata import made_at
from osmef.engine.plan import Plan, PlannedCell, the_same
from osmef.engine.station import Station
from osmef.errors import StorageError
from osmef.facts.change import change
from osmef.results.exchange import Purpose
from osmef.results.limits import Limit
from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo, EndpointInfo, Metric, RunInfo, Summary
from osmef.results.trial import Status, Trial
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.location import Location
from osmef.scenario.workload import connections_of
from osmef.workloads import Programme


def endpoint_info(station: Station) -> EndpointInfo:
    """Return what is known of an endpoint when it is ready."""
    request = station.endpoint.request
    return EndpointInfo(
        name=request.name,
        kind=request.kind,
        flavor=station.endpoint.flavor,
        vcpus=station.endpoint.vcpus,
        requested=Location(host=request.host, tenant=request.tenant),
        achieved=station.location,
        data_address=station.endpoint.data_address,
        data_address6=station.endpoint.data_address6,
        warnings=list(station.endpoint.warnings),
        agent_sha256=station.deployment.binary.sha256,
        facts={},
    )


def summarise(plan: Plan, directory: RunDirectory) -> Summary:
    """Summarise the trials that the run directory holds, all of them or as far as the run came.

    Raises StorageError when the directory is gone.
    """
    journal = Journal(directory.journal)
    log = directory.read_trials()
    found = [EndpointInfo.model_validate(n["endpoint"]) for n in journal.read("endpoint")]
    endpoints = {info.name: info for info in found}
    by_cell: dict[str, list[Trial]] = defaultdict(list)
    for trial in log.trials:
        by_cell[trial.cell].append(trial)
    return Summary(
        run=_run_info(plan, directory, journal, log.trials, log.warnings),
        endpoints=[_with_facts(info, directory) for info in endpoints.values()],
        cells=[_cell_info(cell, by_cell[cell.cell.key], endpoints) for cell in plan.cells],
    )


def _run_info(
    plan: Plan, directory: RunDirectory, journal: Journal, trials: list[Trial], torn: list[str]
) -> RunInfo:
    scenario = plan.study.scenario
    starts, ends = journal.read("start"), journal.read("end")
    if not starts:
        raise StorageError(
            "the journal of the run is gone",
            where=str(journal.path),
            cure="did something remove the run directory? start again with `osmef run`",
        )
    return RunInfo(
        id=directory.id,
        scenario=scenario.name,
        description=scenario.description,
        scenario_digest=plan.study.digest,
        provider=scenario.provider.kind,
        tags=scenario.tags,
        seed=plan.seed,
        started_at=datetime.fromisoformat(starts[0]["at"]),
        ended_at=datetime.fromisoformat(ends[-1]["at"]) if ends else None,
        complete=len({trial.index for trial in trials}) == len(plan.trials),
        versions={
            "osmef": osmef.__version__,
            "agent_protocol": str(PROTOCOL),
            "python": platform.python_version(),
            "controller_kernel": platform.release(),
        },
        warnings=[*warnings_of(plan.study), *torn],
    )


def _with_facts(info: EndpointInfo, directory: RunDirectory) -> EndpointInfo:
    moments = directory.fact_moments(info.name)
    facts: dict[str, Any] = {}
    if moments:
        facts["before"] = directory.read_facts(moments[0], info.name)
        facts["after"] = directory.read_facts(moments[-1], info.name)
        made = directory.read_facts(made_at(moments), info.name)
        facts["change"] = change(made or {}, facts["after"])
    return info.model_copy(update={"facts": facts})


def _cell_info(
    planned: PlannedCell, trials: list[Trial], endpoints: dict[str, EndpointInfo]
) -> CellInfo:
    scenario = planned.cell.scenario
    places = {name: info.achieved for name, info in endpoints.items()}
    ends = [
        (places.get(one.name, Location()), places.get(other.name, Location()))
        for one, other in planned.pairs
    ]
    return CellInfo(
        key=planned.cell.key,
        values=dict(planned.cell.values),
        workload=scenario.workload.kind,
        background=scenario.background.kind if scenario.background else None,
        senders=[end.name for end in planned.senders],
        receivers=[end.name for end in planned.receivers],
        placement=scenario.placement,
        tenancy=scenario.tenancy,
        achieved_placement=the_same(_placement(*pair) for pair in ends),
        achieved_tenancy=the_same(_tenancy(*pair) for pair in ends),
        distance=the_same(planned.distances(places).values()),
        requested_distance=planned.distance,
        connections=connections_of(scenario.workload),
        n_ok=sum(trial.status is Status.OK for trial in trials),
        n_failed=sum(trial.status is Status.FAILED for trial in trials),
        limited_by=_limits(trials),
        metrics=_metrics(planned, trials),
    )


def _placement(here: Location, there: Location) -> Placement | None:
    if here.host is None or there.host is None:
        return None
    return Placement.SAME_HOST if here.host == there.host else Placement.DIFFERENT_HOST


def _tenancy(here: Location, there: Location) -> Tenancy | None:
    if here.tenant is None or there.tenant is None:
        return None
    return Tenancy.SAME_TENANT if here.tenant == there.tenant else Tenancy.DIFFERENT_TENANT


def _limits(trials: list[Trial]) -> dict[Limit, int]:
    """Count the verdicts on the measured connections, in the order of the verdicts."""
    found = Counter(
        limit.limited_by
        for trial in trials
        for transfer in trial.transfers
        if transfer.purpose is Purpose.MEASURED
        for limit in transfer.limits
    )
    return {limit: found[limit] for limit in Limit if found[limit]}


def _metrics(planned: PlannedCell, trials: list[Trial]) -> dict[str, Metric]:
    """Describe each metric of the trials over those that have it."""
    names = Programme(planned.cell.scenario).metrics
    return {name: describe(trial.metrics.get(name) for trial in trials) for name in names}
