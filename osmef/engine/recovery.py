"""Measurement of a group with recovery from lost endpoints: wait for them, or give up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from osmef.engine.cancellation import at_once
from osmef.engine.events import Disturbed, Recovered
from osmef.engine.journal import Journal
from osmef.engine.lost_endpoints import ask_cloud, is_measurable
from osmef.engine.measure import Batch, Bench, EndedTrial, record, run_trials
from osmef.engine.migration import look_again
from osmef.engine.plan import PlannedTrial
from osmef.engine.station import Station
from osmef.errors import Interrupted, OsmefError, ReachError
from osmef.providers.retry import Retry
from osmef.results.trial import Failure, Trial
from osmef.units import format_duration

MOST_ATTEMPTS = 3
"""A trial that has lost an endpoint so often has failed: it may be what brings that down."""


def measure_group(
    bench: Bench, trials: Sequence[PlannedTrial], parallel: int
) -> list[PlannedTrial]:
    """Run the trials of a group; return those whose endpoints stay lost.

    Nothing is measured while an endpoint is awaited; then the trials in which it was lost begin
    again. Where the endpoints stand is read after each batch. Raises Interrupted, StorageError,
    and CapacityError where an endpoint is not the run's own any more.
    """
    journal = Journal(bench.directory.journal)
    left = list(trials)
    while some := [one for one in left if is_measurable(one, bench.stations)]:
        batch = Batch(some)
        try:
            run_trials(bench, batch, parallel)
            if batch.disturbed:
                _recover(bench, batch, journal)
        except Interrupted:
            if batch.ended:
                look_again(bench, some[0].group, batch.ended, journal.note)
            raise
        look_again(bench, some[0].group, batch.ended, journal.note)
        ended = {one.index for one in (*batch.ended, *batch.spared)}
        left = [one for one in left if one.index not in ended]
    return left


def _recover(bench: Bench, batch: Batch, journal: Journal) -> None:
    """Wait for lost endpoints, and for others that do not answer."""
    _note_disturbed(bench, batch, journal)
    here = [one for one in bench.stations.values() if one.lost is None]
    answers = at_once(Station.answers, here, bench.stop)
    silent = [one for one, does in zip(here, answers, strict=True) if not does]
    for station in silent:
        station.lose(ReachError("it does not answer", where=station.name))
    _ask_cloud(bench, silent)  # what that has no more is not awaited
    if awaited := [one for one in silent if isinstance(one.lost, ReachError)]:
        _await(bench, awaited, journal)


def _note_disturbed(bench: Bench, batch: Batch, journal: Journal) -> None:
    """Note the trials that lost an end; after several such attempts a trial has failed."""
    before = Counter(one.trial for one in journal.history().all(Disturbed))
    planned = {one.index: one for one in batch.trials}
    for ended in batch.disturbed:
        trial = ended.trial
        why = trial.failure.message if trial.failure else None
        journal.note(Disturbed(trial.index, trial.cell, tuple(ended.lost), why))
        attempts = before[trial.index] + 1
        if attempts >= MOST_ATTEMPTS:
            record(bench, _failed(ended, attempts), ended.outcome)
            batch.ended.append(planned[trial.index])


def _failed(ended: EndedTrial, attempts: int) -> Trial:
    """Return the record of a trial that was disturbed too often."""
    names, last = ", ".join(ended.lost), ended.trial.failure
    failure = Failure(
        kind=last.kind if last else ReachError.kind,
        message=f"an endpoint was lost in each of its {attempts} attempts, in the last one"
        f" {names}" + (f": {last.message}" if last else ""),
        where=names,
        cure="find out whether the trial brings it down: console, kernel log, memory",
    )
    return ended.trial.model_copy(update={"failure": failure})


def _await(bench: Bench, stations: Sequence[Station], journal: Journal) -> None:
    """Wait until endpoints are reachable again, within the run's time limit."""
    names, limit = ", ".join(one.name for one in stations), format_duration(bench.patience_s)
    bench.observer.step(f"no answer from {names}: waiting up to {limit}")
    since, began = datetime.now(UTC), time.monotonic()
    retry = Retry(bench.stop.check, bench.patience_s)

    def reach(station: Station) -> OsmefError | float:
        try:
            station.reach_again(retry)
        except Interrupted:
            raise
        except OsmefError as error:
            return error
        return time.monotonic() - began

    found = list(zip(stations, at_once(reach, stations, bench.stop), strict=True))
    for station, after in found:
        if isinstance(after, OsmefError):
            station.lose(after)
        else:
            journal.note(Recovered(station.name, since.isoformat(), round(after, 1)))
            bench.observer.warning(f"{station.name} answers again, after {after:.0f} s")
    if bench.layers is not None:
        bench.layers.again(one.name for one, after in found if not isinstance(after, OsmefError))
    given_up = [station for station, after in found if isinstance(after, OsmefError)]
    _ask_cloud(bench, given_up)
    for station in given_up:
        if station.lost is not None:
            bench.observer.warning(f"{station.name} is given up: {station.lost.message}")


def _ask_cloud(bench: Bench, stations: Sequence[Station]) -> None:
    """Mark those lost that no longer exist in their cloud. Raises Interrupted."""
    if stations:
        at_once(lambda some: ask_cloud(bench.sites, some), [stations], bench.stop)
