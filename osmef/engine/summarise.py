"""Summary of a run, from its run directory."""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import osmef
from osmef.agent.messages import PROTOCOL
from osmef.analysis.describe import describe, describe_pairs, judge
from osmef.analysis.price import per_price
from osmef.analysis.throughput import contended
from osmef.engine.check import named, warnings_from_facts, warnings_from_metrics, warnings_of
from osmef.engine.cost import spent, total
from osmef.engine.events import (
    Disturbed,
    Ended,
    Located,
    PoolAcquired,
    Recovered,
    Recreated,
    Replaced,
    Started,
)
from osmef.engine.findings import (
    bucket_findings,
    burst_warnings,
    layer_costs_of,
    past_traffic_warnings,
    search_findings,
)
from osmef.engine.journal import History, Journal
from osmef.engine.measure import StoppingRule
from osmef.engine.placement import PairPlacement, mismatches, overall, pair_placements, requested
from osmef.engine.plan import Plan, PlannedCell
from osmef.engine.recovery import extension_text, moved_from, session_tag_of
from osmef.engine.station import Station, creation_moment
from osmef.errors import StorageError
from osmef.facts.collect import change
from osmef.files import exists
from osmef.results.observations import LoadPhase, Purpose
from osmef.results.rundir import RunDirectory, TrialLog
from osmef.results.summary import (
    CellInfo,
    EndpointInfo,
    Expectation,
    HourlyPrice,
    MetricSummary,
    RunInfo,
    Summary,
)
from osmef.results.trial import Bottleneck, Status, Trial
from osmef.scenario.fields import read_bound
from osmef.scenario.location import Location
from osmef.scenario.workload import UntilKnown
from osmef.units import counted
from osmef.workloads import measures_of
from osmef.workloads.trial_workload import OTHERS, STEAL

_MOST_LATE_PERCENT = 5.0
"""Of requests at a rate; single ones are late wherever a CPU is busy."""
_LEAST_SENT_PERCENT = 95.0
"""Of the rate that was offered: senders that sent less are noted."""
_LEAST_COMMON_PERCENT = 80.0
"""Of the duration: a shorter common interval is noted."""
_OFFERED = "offered_bps"
_OTHERS = (OTHERS.name, STEAL.name)


def endpoint_info(
    station: Station, earlier: list[Location], price: HourlyPrice | None
) -> EndpointInfo:
    """Return the description of a deployed endpoint, with earlier locations."""
    request = station.endpoint.request
    return EndpointInfo(
        name=request.name,
        kind=request.kind,
        flavor=station.endpoint.flavor,
        vcpus=station.endpoint.vcpus,
        image=station.endpoint.image,
        network=station.endpoint.network,
        requested=Location(site=request.site, host=request.host, tenant=request.tenant),
        achieved=station.location,
        earlier=earlier,
        price=price,
        data_address=station.endpoint.data_address,
        data_address6=station.endpoint.data_address6,
        listen_address=station.endpoint.listen_address,
        warnings=list(station.endpoint.warnings),
        agent_sha256=station.deployment.binary.sha256,
        facts={},
    )


def summarise(plan: Plan, directory: RunDirectory, *, running: bool = False) -> Summary:
    """Summarise the trials in the run directory, also of an incomplete or a ``running`` run.

    Raises StorageError when the directory is gone.
    """
    journal = Journal(directory.journal)
    history = journal.history()
    log = directory.read_trials()
    endpoints = _endpoints(history)
    by_cell: dict[str, list[Trial]] = defaultdict(list)
    for trial in log.trials:
        by_cell[trial.cell].append(trial)
    cells = [_cell_info(cell, by_cell[cell.cell.key], endpoints) for cell in plan.cells]
    unread = [*_damaged(history), *_not_read(history, log.trials, running=running)]
    losses = [*_of_losses(history), *_of_repeats(log)]
    reported = named((text, one.name) for one in endpoints.values() for text in one.warnings)
    mtus = _path_mtus(log.trials)
    infos = [_with_facts(info, directory, mtus.get(name)) for name, info in endpoints.items()]
    facts = {info.name: info.facts.get("before") or {} for info in infos}
    there = warnings_from_facts(plan.cells, facts)
    warnings = [
        *losses,
        *unread,
        *log.warnings,
        *reported,
        *there,
        *warnings_from_metrics(plan.cells, by_cell),
        *placement_findings(cells),
        *late_request_findings(cells),
        *offered_rate_findings(by_cell),
        *contended_cells(by_cell),
        *short_intervals(by_cell),
        *overlap_findings(
            by_cell, is_staggered=any(one.cell.scenario.stagger for one in plan.cells)
        ),
        *short_backgrounds(by_cell, {one.cell.key: one.cell.scenario.lead for one in plan.cells}),
        *bucket_findings(log.trials),
        *search_findings(log.trials),
        *burst_warnings(plan.cells, endpoints),
        *past_traffic_warnings(plan.cells, log.trials),
    ]
    return Summary(
        run=_run_info(plan, directory, history, log, warnings),
        endpoints=infos,
        measures=list(measures_of(planned.cell.scenario for planned in plan.cells)),
        cells=cells,
        layers=layer_costs_of(cells, directory),
    )


def _endpoints(history: History) -> dict[str, EndpointInfo]:
    """Return the endpoints of the run by name, as last created and moved."""
    found: dict[str, EndpointInfo] = {}
    for name, known in history.endpoints.items():
        found[name] = known.info
        for location, group in known.moves:
            found[name] = _moved(found[name], location, group)
    return found


def _moved(info: EndpointInfo, location: Location, group: int) -> EndpointInfo:
    where = moved_from(info.achieved, location)
    warning = f"the cloud moved it {where}, in group {group} of the trials"
    return info.model_copy(
        update={
            "achieved": location,
            "earlier": [*info.earlier, info.achieved],
            "warnings": [*info.warnings, warning],
        }
    )


def _damaged(history: History) -> list[str]:
    """Warn of damaged lines of the journal."""
    where = [str(error.where).rpartition(":")[2] for error in history.damage()]
    reported = (
        "damaged in journal.jsonl, so their content is missing here, and the cost is not known"
    )
    return [f"lines {', '.join(where)}: {reported}"] if where else []


def _not_read(history: History, trials: Sequence[Trial], *, running: bool) -> list[str]:
    """Warn of groups of trials after which locations were not read.

    A run that was killed has not looked, and once it goes on it has other endpoints. A running one
    looks after its present group.
    """
    looks = (look.trials for look in history.all(Located) if not look.error)
    seen = {index for some in looks for index in some}
    unread = {one.group for one in trials if one.status is Status.OK and one.index not in seen}
    if running and trials:
        unread.discard(trials[-1].group)
    if not unread:
        return []
    groups = f"group{'s' * (len(unread) > 1)} {', '.join(map(str, sorted(unread)))}"
    reported = f"the endpoints' placement could not be checked after {groups} of the trials"
    return [f"{reported}: a migration would have gone unnoticed"]


def _of_losses(history: History) -> list[str]:
    """Report lost and recovered endpoints, and the disturbed trials."""
    found = [
        f"{one.endpoint} was lost, and answered again {one.after_s} s later"
        for one in history.all(Recovered)
    ]
    trials = ", ".join(dict.fromkeys(str(one.trial) for one in history.all(Disturbed)))
    if trials:
        found.append(f"an endpoint was lost in attempts at these trials: {trials}")
    return found


def _of_repeats(log: TrialLog) -> list[str]:
    """Report how many failed trials were repeated."""
    if not log.replaced:
        return []
    return [f"measured again after they had failed: {counted(log.replaced, 'trial')}"]


def _not_replaced(history: History) -> list[str]:
    """Report why the replacement of an endpoint has ended."""
    failed = [one.error for one in history.all(Replaced) if one.error]
    return [f"on_mismatch: retry ended early: {error}" for error in dict.fromkeys(failed)]


def _left_out(plan: Plan) -> list[str]:
    """Report the cells of the scenario that the run skipped."""
    keys = "; ".join(plan.left_out)
    return (
        [f"not measured, as the campaign's stopping rule has ended these cells: {keys}"]
        if keys
        else []
    )


def _recreated(history: History) -> list[str]:
    """Report why pooled VMs were recreated for the run."""
    reasons = [one.why for one in history.all(Recreated)]
    return [f"its VMs were recreated, not kept: {why}" for why in dict.fromkeys(reasons)]


def _ends(trials: Iterable[Trial]) -> Iterator[datetime]:
    for trial in trials:
        if trial.started_at is not None:
            yield trial.started_at + timedelta(seconds=trial.wall_s or 0)


def _run_info(
    plan: Plan, directory: RunDirectory, history: History, log: TrialLog, found: list[str]
) -> RunInfo:
    scenario, cost = plan.study.scenario, spent(history)
    starts, ends = history.timed(Started), history.timed(Ended)
    from_pool = history.all(PoolAcquired)
    if not starts and exists(history.path):
        raise StorageError(
            "the journal of the run is damaged where its start is noted",
            where=str(history.path),
            cure="put the file back from a copy, or start again with `osmef run`",
        )
    if not starts:
        raise StorageError(
            "the journal of the run is missing",
            where=str(history.path),
            cure="did something remove the run directory? start again with `osmef run`",
        )
    return RunInfo(
        id=directory.id,
        scenario=scenario.name,
        description=scenario.description,
        scenario_digest=plan.study.digest,
        provider=scenario.kinds_of_clouds,
        sites={name: cloud.kind for name, cloud in scenario.sites.items()},
        tags=scenario.tags,
        seed=plan.seed,
        started_at=starts[0][0],
        ended_at=ends[-1][0] if ends else None,
        worked_s=history.worked_s(_ends(log.trials)),
        complete=_is_complete(plan, log),
        repeated=log.replaced,
        **vars(session_tag_of(history)),
        vms_since=datetime.fromisoformat(from_pool[-1].since) if from_pool else None,
        vms_held_by=from_pool[-1].by if from_pool else None,
        versions={
            "osmef": osmef.__version__,
            "agent_protocol": str(PROTOCOL),
            "python": platform.python_version(),
            "controller_kernel": platform.release(),
        },
        warnings=[
            *warnings_of(plan.study),
            *_left_out(plan),
            *extension_text(history),
            *_not_replaced(history),
            *_recreated(history),
            *found,
        ],
        vm_hours=cost.vm_hours,
        cost=cost.cost,
    )


def _is_complete(plan: Plan, log: TrialLog) -> bool:
    rule, done = StoppingRule(plan, log.trials), {trial.index for trial in log.trials}
    return all(one.index in done or rule.skips(one) for one in plan.trials)


def _with_facts(
    info: EndpointInfo, directory: RunDirectory, path_mtus: dict[str, int] | None
) -> EndpointInfo:
    moments = directory.fact_moments(info.name)
    facts: dict[str, Any] = {}
    if moments:
        facts["before"] = directory.read_facts(moments[0], info.name)
        facts["after"] = directory.read_facts(moments[-1], info.name)
        made = directory.read_facts(creation_moment(moments), info.name)
        facts["change"] = change(made or {}, facts["after"])
    if path_mtus:
        facts["path_mtu_bytes"] = path_mtus
    return info.model_copy(update={"facts": facts})


def _path_mtus(trials: Sequence[Trial]) -> Mapping[str, dict[str, int]]:
    """Return the MTU of the path from each sending endpoint to each that it sent to, in bytes.

    It is the smallest that any connection or UDP flow of theirs has ended with: a path that takes
    less is found by a packet that is too large for it (RFC 1191).
    """
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for trial in trials:
        for sender, receiver, mtu in _mtus_of(trial):
            known = found[sender].get(receiver, mtu)
            found[sender][receiver] = min(mtu, known)
    return {sender: dict(sorted(of.items())) for sender, of in found.items()}


def _mtus_of(trial: Trial) -> Iterator[tuple[str, str, int]]:
    for transfer in trial.transfers:
        for flow in transfer.sender.flows:
            if flow.tcp.path_mtu is not None:
                yield transfer.sender.endpoint, transfer.receiver.endpoint, flow.tcp.path_mtu
    for one in trial.datagrams:
        for sent in one.sender.flows:
            if sent.path_mtu is not None:
                yield one.sender.endpoint, one.receiver.endpoint, sent.path_mtu


def _cell_info(
    planned: PlannedCell, trials: list[Trial], endpoints: dict[str, EndpointInfo]
) -> CellInfo:
    scenario = planned.cell.scenario
    found = _found(planned, trials, endpoints)
    achieved = overall(found)
    infos = [endpoints.get(end.name) for end in planned.endpoints]
    prices = [info.price if info else None for info in infos]
    per_hour = total(prices)
    hourly = [price.amount for price in prices if price] if per_hour else []
    metrics = _metrics(planned, trials, hourly)
    return CellInfo(
        key=planned.cell.key,
        values=dict(planned.cell.values),
        workload=scenario.workload.kind,
        settings=scenario.workload.non_default,
        background=scenario.background.kind if scenario.background else None,
        senders=[end.name for end in planned.senders],
        receivers=planned.receiver_names,
        placement=scenario.placement,
        tenancy=None if scenario.is_between_sites else scenario.tenancy,
        achieved_placement=achieved.placement,
        achieved_tenancy=achieved.tenancy,
        distance=achieved.distance,
        requested_distance=planned.distance,
        mismatch=mismatches(requested(planned), found),
        connections=planned.cell.connections,
        n_ok=sum(trial.status is Status.OK for trial in trials),
        n_failed=sum(trial.status is Status.FAILED for trial in trials),
        price_per_hour=per_hour,
        repeat_until=scenario.repeat.until if isinstance(scenario.repeat, UntilKnown) else None,
        start_spread_s=max(
            (s for t in trials if (s := t.start_spread_s) is not None), default=None
        ),
        limited_by=_limits(trials),
        expectations=list(_expectations(planned, metrics)),
        metrics=metrics,
    )


def _found(
    planned: PlannedCell, trials: list[Trial], endpoints: dict[str, EndpointInfo]
) -> list[PairPlacement]:
    """Return the placement in the successful trials; without any, by the present locations.

    A resumed run has other endpoints than before, maybe at other locations.
    """
    good = [trial for trial in trials if trial.status is Status.OK]
    if good:
        return [PairPlacement(t.achieved_placement, t.achieved_tenancy, t.distance) for t in good]
    locations = {name: info.achieved for name, info in endpoints.items()}
    exist = all(end.name in locations for end in planned.endpoints)
    return list(pair_placements(planned, locations).values()) if exist else []


def _limits(trials: list[Trial]) -> dict[Bottleneck, int]:
    """Count the bottlenecks of the measured connections, in the order of the verdicts."""
    found = Counter(
        limit.limited_by
        for trial in trials
        for transfer in trial.transfers
        if transfer.purpose is Purpose.MEASURED
        for limit in transfer.limits
    )
    return {limit: found[limit] for limit in Bottleneck if found[limit]}


def _metrics(
    planned: PlannedCell, trials: list[Trial], hourly: Sequence[float]
) -> dict[str, MetricSummary]:
    """Return the statistics of each metric over the trials that have it."""
    found, scenario = {}, planned.cell.scenario
    for measure in measures_of([scenario]):
        metric = _metric(measure.name, trials, often_looked_at=scenario.is_until_known)
        priced = per_price(measure, metric.median, hourly)
        found[measure.name] = metric.model_copy(update={"per_price": priced})
    return found


def _expectations(
    planned: PlannedCell, metrics: Mapping[str, MetricSummary]
) -> Iterator[Expectation]:
    """Return the verdicts on the expected bounds of a cell."""
    scenario = planned.cell.scenario
    units = {one.name: one.unit for one in measures_of([scenario])}
    for name, text in scenario.expect.items():
        if (metric := metrics.get(name)) is not None:
            wanted = read_bound(text)
            bound = wanted.within(units[name])
            verdict = judge(metric.ci95_low, metric.ci95_high, bound, at_least=wanted.at_least)
            yield Expectation(metric=name, expected=text, bound=bound, verdict=verdict)


def _metric(name: str, trials: Sequence[Trial], *, often_looked_at: bool) -> MetricSummary:
    """Return the statistics of a metric over the trials, or over pairs with trials of their own."""
    by_pair: dict[int, list[float]] = defaultdict(list)
    for trial in trials:
        value = trial.metrics.get(name)
        if trial.pair is not None and value is not None:
            by_pair[trial.pair].append(value)
    if by_pair:
        return describe_pairs(by_pair)
    known = [trial.metrics.get(name) for trial in trials]
    return describe(known, often_looked_at=often_looked_at)


def placement_findings(cells: list[CellInfo]) -> list[str]:
    """Report how many cells were measured at another placement than requested."""
    count = sum(bool(cell.mismatch and cell.n_ok) for cell in cells)
    if not count:
        return []
    reported = (
        "were not placed as requested, or their placement is unknown: table and figures say so"
    )
    return [f"{count} of {counted(len(cells), 'cell')} {reported}"]


def late_request_findings(cells: list[CellInfo]) -> list[str]:
    """Report in how many cells requests were due faster than they were answered."""
    late = [
        metric.median
        for cell in cells
        for name, metric in cell.metrics.items()
        if name.endswith("late_percent") and metric.median is not None
    ]
    found = [percent for percent in late if percent > _MOST_LATE_PERCENT]
    if not found:
        return []
    reported = (
        f"up to {max(found):.0f} % of the requests were due before the response to the one before"
    )
    kept = "the rate was not kept. Round trips are right, and response_..._us has that waiting"
    return [f"{reported}, or never sent: {kept}; ask for a lower rate, or none"]


def offered_rate_findings(trials: Mapping[str, Sequence[Trial]]) -> list[str]:
    """Report in how many trials senders of datagrams sent less than they were to offer."""
    found = (_sent_percent(trial) for of in trials.values() for trial in of)
    shares = [share for share in found if share is not None]
    short = [share for share in shares if share < _LEAST_SENT_PERCENT]
    if not short:
        return []
    note = (
        f"in {len(short)} of {len(shares)} trials less than {_LEAST_SENT_PERCENT:.0f} % of the"
        f" offered rate was sent, {min(short):.0f} % in the worst: it is more than the sender or"
        " its own interface can do, and the loss is of what was sent alone; offer a lower rate"
    )
    return [note]


def _sent_percent(trial: Trial) -> float | None:
    """Return how much of the offered rate a trial sent, in its worst direction."""
    shares = [
        100 * sent / offered
        for name, offered in trial.metrics.items()
        if name.endswith(_OFFERED) and offered
        if (sent := trial.metrics.get(f"{name.removesuffix(_OFFERED)}sent_bps")) is not None
    ]
    return min(shares, default=None)


def contended_cells(trials: Mapping[str, Sequence[Trial]]) -> list[str]:
    """Report in how many cells other processes used the CPUs of endpoints."""
    of_cells = [
        {
            name: [v for trial in of if (v := trial.metrics.get(name)) is not None]
            for name in _OTHERS
        }
        for of in trials.values()
    ]
    busy = [of for of in of_cells if contended(*of.values())]
    if not busy:
        return []
    worst = [max((v for of in busy for v in of[name]), default=0.0) for name in _OTHERS]
    reported = f"{contended([worst[0]], [worst[1]])} in the worst of their trials"
    where = f"{len(busy)} of {counted(len(of_cells), 'cell')}"
    cure = "Stop what else runs there, and measure again"
    what = "rates that need CPU are too low and vary more"
    return [f"the machines were not idle in {where}: {reported}; {what}. {cure}"]


def _known(trials: Sequence[Trial], name: str) -> list[float]:
    return [value for trial in trials if (value := trial.metrics.get(name)) is not None]


def short_intervals(trials: Mapping[str, Sequence[Trial]]) -> list[str]:
    """Report in how many trials the connections overlapped for a part of the duration only."""
    shares = [share for of in trials.values() for share in _known(of, "common_percent")]
    short = [share for share in shares if share < _LEAST_COMMON_PERCENT]
    if not short:
        return []
    note = (
        f"in {len(short)} of {len(shares)} trials all connections ran together for less than"
        f" {_LEAST_COMMON_PERCENT:.0f} % of the duration, {min(short):.0f} % in the worst, and the"
        " rate is that of this time: make the duration longer"
    )
    return [note]


def overlap_findings(
    trials: Mapping[str, Sequence[Trial]], *, is_staggered: bool = False
) -> list[str]:
    """Say in how many trials the pairs, whose rates are added, ran at different times."""
    shares = [share for of in trials.values() for share in _known(of, "overlap_percent")]
    short = [share for share in shares if share < _LEAST_COMMON_PERCENT]
    if not short:
        return []
    note = (
        f"in {len(short)} of {len(shares)} trials all pairs ran together for less than"
        f" {_LEAST_COMMON_PERCENT:.0f} % of the time, {min(short):.0f} % in the worst: their"
        " aggregate adds rates of different times, and may be more than a link carries; let them"
        f" run longer, by duration or bytes{', or stagger shorter' if is_staggered else ''}"
    )
    return [note]


def short_backgrounds(
    trials: Mapping[str, Sequence[Trial]], leads: Mapping[str, float]
) -> list[str]:
    """Report in how many trials the programs of the background ended during the measurement.

    ``leads`` has how long they run before it, in seconds, by cell.
    """
    shares = [
        100 * max(0.0, ran_s - leads.get(cell, 0.0)) / measured_s
        for cell, of in trials.items()
        for trial in of
        if trial.background is not None
        and (ran_s := trial.metrics.get("background_program_s")) is not None
        and (measured_s := _measured_s(trial)) > 0
    ]
    short = [share for share in shares if share < _LEAST_COMMON_PERCENT]
    if not short:
        return []
    note = (
        f"in {len(short)} of {len(shares)} trials the background ran for less than"
        f" {_LEAST_COMMON_PERCENT:.0f} % of the measurement, {min(short):.0f} % in the worst: let"
        " its program run longer; it is stopped at the end"
    )
    return [note]


def _measured_s(trial: Trial) -> float:
    """Return how long the measurement beside a background took, 0 where that is unknown."""
    known = [trial.metrics.get("program_s") or 0.0]
    known += [one.sender.elapsed_s for one in trial.transfers if one.purpose is Purpose.MEASURED]
    known += [one.sender.elapsed_s for one in trial.datagrams if one.purpose is Purpose.MEASURED]
    known += [
        one.elapsed_s
        for one in trial.exchanges
        if (one.purpose, one.phase) == (Purpose.MEASURED, LoadPhase.LOADED)
    ]
    return max(known)
