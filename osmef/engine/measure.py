"""The trials of a run: one at a time, or several that share no host."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime

from osmef.engine.observer import Observer
from osmef.engine.plan import PlannedTrial
from osmef.engine.station import Station
from osmef.engine.stop import Stop
from osmef.errors import Interrupted, OsmefError, PlacementError
from osmef.providers.base import Provider
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Failure, Interval, Status, Trial
from osmef.scenario.fields import OnMismatch
from osmef.scenario.location import distance
from osmef.workloads import Job, Outcome, workload_for

_POLL_S = 0.1

Ended = tuple[Trial, list[Interval]]


@dataclass(frozen=True)
class Bench:
    """All that the trials of one run share."""

    provider: Provider
    stations: dict[str, Station]
    directory: RunDirectory
    observer: Observer
    stop: Stop


def run_trials(bench: Bench, trials: Sequence[PlannedTrial], parallel: int) -> None:
    """Run the trials, at most ``parallel`` at once, and record each as it ends.

    Trials that share a host, or the router, never run at once. After a stop those that have ended
    are recorded, too. Raises Interrupted, StorageError.
    """
    waiting = list(trials)
    running: dict[Future[Ended], PlannedTrial] = {}
    with ThreadPoolExecutor(max_workers=parallel) as pool, _stopping_others(bench.stop):
        while waiting or running:
            if bench.stop.reason is None:
                for planned in startable(waiting, list(running.values()), parallel):
                    waiting.remove(planned)
                    running[pool.submit(_run_trial, bench, planned)] = planned
            done, _ = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                del running[future]
                with contextlib.suppress(Interrupted):  # raised below, once all have ended
                    _record(bench, *future.result())
            if not running:
                bench.stop.check()


def _record(bench: Bench, trial: Trial, intervals: list[Interval]) -> None:
    bench.directory.write_intervals(trial.index, intervals)
    bench.directory.append_trial(trial)
    bench.observer.trial_ended(trial)


@contextlib.contextmanager
def _stopping_others(stop: Stop) -> Iterator[None]:
    """Stop the trials that still run when one can't be recorded: the pool waits for them."""
    try:
        yield
    except BaseException:
        stop.request("the run has failed")
        raise


def startable(
    waiting: Sequence[PlannedTrial], running: Sequence[PlannedTrial], parallel: int
) -> list[PlannedTrial]:
    """Return the next trials that may start beside those that run, in their order."""
    busy = {host for planned in running for host in planned.cell.hosts}
    chosen: list[PlannedTrial] = []
    for planned in waiting:
        if len(running) + len(chosen) >= parallel:
            break
        if busy.isdisjoint(planned.cell.hosts):
            chosen.append(planned)
            busy |= planned.cell.hosts
    return chosen


def _run_trial(bench: Bench, planned: PlannedTrial) -> Ended:
    """Run one trial. Its failure is a record; only a stop is raised."""
    bench.stop.wait(planned.cell.cell.scenario.pause)
    bench.observer.trial_started(planned)
    started_at, started = datetime.now(UTC), time.monotonic()
    outcome, failure = Outcome(metrics={}), None
    try:
        _check_placement(bench, planned)
        outcome = _measure(bench, planned)
    except Interrupted:
        raise
    except OsmefError as error:
        bench.stop.check()
        failure = Failure(
            kind=error.kind, message=error.message, where=error.where, cure=error.cure
        )
    cell = planned.cell
    trial = Trial(
        index=planned.index,
        cell=cell.cell.key,
        repetition=planned.repetition,
        group=planned.group,
        values=dict(cell.cell.values),
        sender=cell.sender.name,
        receiver=cell.receiver.name,
        placement=cell.cell.scenario.placement,
        tenancy=cell.cell.scenario.tenancy,
        distance=achieved_distance(bench.stations, planned),
        connections=cell.cell.scenario.workload.connections,
        workload=cell.cell.scenario.workload.kind,
        started_at=started_at,
        wall_s=time.monotonic() - started,
        status=Status.OK if failure is None else Status.FAILED,
        failure=failure,
        metrics=outcome.metrics,
        transfer=outcome.transfer,
    )
    return trial, outcome.intervals


def _measure(bench: Bench, planned: PlannedTrial) -> Outcome:
    cell = planned.cell
    sender, receiver = bench.stations[cell.sender.name], bench.stations[cell.receiver.name]
    if sender is receiver:
        address = "127.0.0.1"
    else:
        address = bench.provider.data_address(
            receiver.endpoint, sender.endpoint, cell.cell.scenario.layer
        )
    job = Job(
        trial=planned.index,
        sender=sender.agent("sender"),
        receiver=receiver.agent("receiver"),
        address=address,
        progress=lambda rate: bench.observer.rate(planned, rate),
        check=bench.stop.check,
    )
    return workload_for(cell.cell.scenario.workload).run(job)


def achieved_distance(stations: dict[str, Station], planned: PlannedTrial) -> int | None:
    """Return the distance between the places where both ends really stand."""
    sender, receiver = stations[planned.cell.sender.name], stations[planned.cell.receiver.name]
    return 0 if sender is receiver else distance(sender.location, receiver.location)


def _check_placement(bench: Bench, planned: PlannedTrial) -> None:
    """Let no number be published under the wrong label. Raises PlacementError."""
    achieved = achieved_distance(bench.stations, planned)
    wanted = planned.cell.distance
    if achieved == wanted or planned.cell.cell.scenario.on_mismatch is OnMismatch.RECORD:
        return
    raise PlacementError(
        f"the achieved distance is {'unknown' if achieved is None else achieved}, not {wanted}",
        where=f"{planned.cell.sender.name} and {planned.cell.receiver.name}",
        cure="free capacity on the wanted hosts, or set on_mismatch: record",
    )
