"""Measurement of a group of trials whose endpoints may be lost, or migrated by their cloud."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC
from hashlib import sha256

from osmef.engine.cancellation import map_cancellable
from osmef.engine.events import Disturbed, Extended, Located, Planned, Recovered, Started
from osmef.engine.journal import History, Journal
from osmef.engine.measure import Batch, EndedTrial, TrialContext, record, run_trials
from osmef.engine.placement import Locations, mismatches, pair_placements, requested
from osmef.engine.plan import Plan, PlannedTrial, extended, make_plan
from osmef.engine.station import Station, is_measurable, lose, loss_of, mark_lost
from osmef.errors import (
    CapacityError,
    InputError,
    Interrupted,
    OsmefError,
    PlacementError,
    ReachError,
)
from osmef.files import exists
from osmef.providers.retry import Retry
from osmef.results.files import read_lines, read_whole
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Failure, SessionTag, Status, Trial
from osmef.scenario.fields import RECORD
from osmef.scenario.load import load
from osmef.scenario.location import Location, has_moved
from osmef.scenario.study import Study
from osmef.units import counted, format_duration
from osmef.workloads import Outcome

_NONE = SessionTag()
_CURE = (
    "put back from a copy what was changed; else look at the trials with `osmef report`, and"
    " measure the rest in a new run"
)


def reopen(directory: RunDirectory) -> Plan:
    """Return the plan of a run, by the seed and the skipped cells in its journal.

    Raises InputError where that can't be: the run died before its plan was written down, or the
    scenario file, the journal or the trials are not those of one run any more; and where its
    summary, which would be replaced, is of a newer version. StorageError.
    """
    directory.refuse_newer_summary()
    history = Journal(directory.journal).history()
    noted = history.plan
    if noted is None:
        raise _without_plan(directory)
    study = _study(directory, noted.digest)
    seeds = {start.seed for start in history.all(Started)} - {None}
    if seeds - {noted.seed}:
        raise InputError(
            "its journal has two seeds for the order of trials, so it is damaged",
            where=str(directory.journal),
            cure=_CURE,
        )
    plan = make_plan(study, noted.seed, noted.left_out)
    for event in history.all(Extended):
        plan = extended(plan, event.repeat)
    _check_trials(plan, directory)
    return plan


def extend(directory: RunDirectory, plan: Plan, repetitions: int) -> Plan:
    """Return the plan of a run with so many trials of each cell; see ``note_extension``.

    Raises InputError where it has so many already, where a rule ends its trials, and for a session
    of a campaign; StorageError.
    """
    scenario = plan.study.scenario
    where = str(directory.path)
    if scenario.is_until_known:
        raise InputError(
            "repeat is a stopping rule (until), not a number of trials",
            where=where,
            cure="start a new run, such as with --set repeat.most=100",
        )
    if session_tag_of(Journal(directory.journal).history()) != _NONE:
        raise InputError(
            "the run is a session of a campaign, and all sessions have the same trials",
            where=where,
            cure="add windows to the campaign, or run its scenario with `osmef run`",
        )
    if repetitions <= scenario.repetitions:
        raise InputError(
            f"each cell has {counted(scenario.repetitions, 'trial')} already, or will have",
            where="--repeat",
            cure=f"give more than {scenario.repetitions}",
        )
    return extended(plan, repetitions)


def note_extension(directory: RunDirectory, longer: Plan) -> None:
    """Note that a run has more trials than its scenario. Raises StorageError."""
    Journal(directory.journal).note(Extended(longer.study.scenario.repetitions))


def extension_text(history: History) -> list[str]:
    """Describe the trials that were added to a run after planning."""
    return [
        f"trials were added on {at.astimezone(UTC):%Y-%m-%d %H:%M} UTC, to {event.repeat} of each"
        " cell: later ones are of another time, and maybe of other machines; osmef statistics looks"
        " for a drift"
        for at, event in history.timed(Extended)
    ]


def _study(directory: RunDirectory, digest: str) -> Study:
    """Load the scenario that a run began with."""
    path = directory.scenario
    try:
        study = load(path)
    except InputError:
        if sha256(read_whole(path)).hexdigest() == digest:  # another version accepted it
            raise
    else:
        if study.digest == digest:
            return study
    raise InputError(
        "the scenario file is not the one that the journal of the run names: it has been changed"
        " since the run began, or one of the two is damaged",
        where=str(path),
        cure="restore the file, or start a new run with the changed one",
    )


def _without_plan(directory: RunDirectory) -> InputError:
    """Return the error of a journal without a plan."""
    where = str(directory.path)
    if _is_imported(directory):
        return InputError(
            "this run was imported, so there is nothing to go on with",
            where=where,
            cure="look at it with `osmef show`; resume is for runs that were interrupted",
        )
    damage = Journal(directory.journal).history().damage()
    trials = sum(line.is_whole for line in read_lines(directory.trials))
    if not (damage or trials or exists(directory.summary)):
        return InputError(
            "the run has no plan in its journal, so nothing was measured",
            where=where,
            cure="remove the directory and start again with `osmef run`",
        )
    why = f"line {damage[0].where} is damaged" if damage else "a line of it, or all, is missing"
    return InputError(
        f"its journal has no plan any more, so what is left to measure is not known: {why};"
        f" {counted(trials, 'measured trial')} kept",
        where=where,
        cure=_CURE,
    )


def _is_imported(directory: RunDirectory) -> bool:
    if exists(directory.journal) or not exists(directory.summary):
        return False
    with contextlib.suppress(InputError):
        return directory.read_summary().run.scenario_digest is None
    return False


def _check_trials(plan: Plan, directory: RunDirectory) -> None:
    """Check that the measured trials belong to the plan."""
    planned = {one.index: (one.cell.key, one.repetition) for one in plan.trials}
    for trial in directory.read_trials().trials:
        if planned.get(trial.index) != ((trial.cell, trial.pair), trial.repetition):
            raise InputError(
                f"trial {trial.index} is not in the plan of the journal and the scenario of the"
                " run: one of the three files is damaged, or of another run",
                where=str(directory.trials),
                cure=_CURE,
            )


def note_plan(directory: RunDirectory, plan: Plan, session_tag: SessionTag = _NONE) -> None:
    """Note what ``reopen`` and ``session_tag_of`` need. Raises StorageError."""
    occurs = {one.name: getattr(session_tag, one.name) for one in fields(SessionTag)}
    event = Planned(plan.seed, plan.study.digest, **occurs, left_out=tuple(plan.left_out))
    Journal(directory.journal).note(event)


def session_tag_of(history: History) -> SessionTag:
    """Return the session of a run by its journal."""
    return SessionTag(*(getattr(history.plan, one.name, None) for one in fields(SessionTag)))


Why = Sequence[str] | OsmefError
"""Why trials are corrected: the endpoints that have moved, or what else spoilt them."""


def recheck_locations(
    context: TrialContext,
    group: int,
    trials: Sequence[PlannedTrial],
    note: Callable[[Located], None],
) -> None:
    """Read locations after some trials of a group, and correct the affected trials.

    If the placement of its ends changed during a trial, the trial fails; with ``placement: any`` or
    ``on_mismatch: record`` its placement becomes unknown. A location that can't be read counts as
    unchanged, and is reported. ``note`` is called with each reading.
    Raises StorageError, and CapacityError where an endpoint is not the run's own any more: then
    all of these fail.
    """
    before = context.locations
    indexes = tuple(planned.index for planned in trials)
    try:
        after = _moved(context)
    except CapacityError as error:  # another run measures there, too, since an unknown time
        _correct(context, {one.index: one for one in trials}, error)
        raise
    except OsmefError as error:  # also Interrupted: the next trial meets the stop, too
        context.observer.warning(f"the endpoints' present placement can't be read: {error.message}")
        note(Located(group, indexes, {}, str(error)))
        return
    for name, location in after.items():
        context.stations[name].location = location
        context.observer.warning(
            f"the cloud has moved {name}, {moved_from(before[name], location)}"
        )
    wrong = {one.index: one for one in trials if _differs(one, before, context.locations)}
    if wrong:
        _correct(context, wrong, list(after))
    note(Located(group, indexes, after, None))


def _moved(context: TrialContext) -> dict[str, Location]:
    """Return the new locations of endpoints that have moved."""
    stations = [station for station in context.stations.values() if station.lost is None]
    found = context.sites.describe([station.endpoint for station in stations])
    for station in lose(stations, found):
        context.observer.warning(f"{station.label}: {loss_of(station.label).message}")
    return {
        station.name: location
        for station, location in zip(stations, found, strict=True)
        if has_moved(station.location, location)
    }


def moved_from(before: Location, after: Location) -> str:
    """Describe a move, from where to where, as far as known."""
    here, there = (location.host or location.rack or location.zone for location in (before, after))
    return f"from {here or 'somewhere'} to {there or 'somewhere else'}"


def _differs(planned: PlannedTrial, before: Locations, after: Locations) -> bool:
    return pair_placements(planned.cell, before) != pair_placements(planned.cell, after)


def _correct(context: TrialContext, wrong: Mapping[int, PlannedTrial], why: Why) -> None:
    """Clear the placement in the records of trials, or fail those that depend on it."""
    found = {trial.index: trial for trial in context.directory.read_trials().trials}
    corrected = [
        _corrected(trial, wrong[index], why, context)
        for index, trial in found.items()
        if index in wrong and trial.status is Status.OK
    ]
    context.directory.correct_trials(corrected)
    if (rule := context.stopping_rule) is not None:
        for trial in corrected:
            rule.add(trial)


def _corrected(trial: Trial, planned: PlannedTrial, why: Why, context: TrialContext) -> Trial:
    if isinstance(why, OsmefError):
        return _failed_by(trial, why)
    if not _fails(planned, context):
        return _unplaced(trial)
    ends = [end.name for end in planned.cell.endpoints if end.name in why]
    error = PlacementError(
        "the cloud migrated it during the group of trials of which this is one",
        where=" and ".join(ends),
        cure="keep the cloud from moving it, or set on_mismatch: record; then measure again",
    )
    return _failed_by(trial, error)


def _fails(planned: PlannedTrial, context: TrialContext) -> bool:
    """Return whether the trial would fail with the present placement."""
    found = pair_placements(planned.cell, context.locations).values()
    recorded = planned.cell.cell.scenario.on_mismatch == RECORD
    return not recorded and bool(mismatches(requested(planned.cell), found))


def _unplaced(trial: Trial) -> Trial:
    return trial.model_copy(update={"achieved_placement": None, "distance": None})


def _failed_by(trial: Trial, error: OsmefError) -> Trial:
    """Return the record of a trial that has failed afterwards, without its measurements."""
    none = vars(Outcome(metrics={})) | {"limited_by": None}
    nothing = {name: value for name, value in none.items() if name in Trial.model_fields}
    reported = {"status": Status.FAILED, "failure": Failure.of(error)}
    return _unplaced(trial).model_copy(update={**reported, **nothing})


MOST_ATTEMPTS = 3
"""A trial that has lost an endpoint so often has failed: it may be what brings that down."""


def measure_group(
    context: TrialContext, trials: Sequence[PlannedTrial], parallel: int
) -> list[PlannedTrial]:
    """Run the trials of a group; return those whose endpoints stay lost.

    Nothing is measured while an endpoint is awaited; then the trials in which it was lost begin
    again. Locations are read after each batch. Raises Interrupted, StorageError, and CapacityError
    where an endpoint no longer belongs to the run.
    """
    journal = context.journal
    left = list(trials)
    while some := [one for one in left if is_measurable(one, context.stations)]:
        batch = Batch(some)
        try:
            run_trials(context, batch, parallel)
            if batch.disturbed:
                _recover(context, batch, journal)
        except Interrupted:
            if batch.ended:
                recheck_locations(context, some[0].group, batch.ended, journal.note)
            raise
        recheck_locations(context, some[0].group, batch.ended, journal.note)
        ended = {one.index for one in (*batch.ended, *batch.skipped)}
        left = [one for one in left if one.index not in ended]
    return left


def _recover(context: TrialContext, batch: Batch, journal: Journal) -> None:
    """Wait for lost endpoints, and for others that do not answer."""
    _note_disturbed(context, batch, journal)
    here = [one for one in context.stations.values() if one.lost is None]
    answers = map_cancellable(Station.answers, here, context.stop)
    silent = [one for one, does in zip(here, answers, strict=True) if not does]
    for station in silent:
        station.lose(ReachError("it does not answer", where=station.label))
    _ask_cloud(context, silent)  # a deleted one is not awaited
    if awaited := [one for one in silent if isinstance(one.lost, ReachError)]:
        _await(context, awaited, journal)


def _note_disturbed(context: TrialContext, batch: Batch, journal: Journal) -> None:
    """Note the trials that lost an end; after several such attempts a trial has failed."""
    before = Counter(one.trial for one in journal.history().all(Disturbed))
    planned = {one.index: one for one in batch.trials}
    for ended in batch.disturbed:
        trial = ended.trial
        why = trial.failure.message if trial.failure else None
        journal.note(Disturbed(trial.index, trial.cell, tuple(ended.lost), why))
        attempts = before[trial.index] + 1
        if attempts >= MOST_ATTEMPTS:
            record(context, _failed(ended, attempts), ended.outcome)
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


def _await(context: TrialContext, stations: Sequence[Station], journal: Journal) -> None:
    """Wait until endpoints are reachable again, within the run's time limit."""
    names, limit = (
        ", ".join(one.label for one in stations),
        format_duration(context.reconnect_timeout_s),
    )
    context.observer.activity(f"no answer from {names}: waiting up to {limit}")
    since, began = journal.now(), time.monotonic()
    retry = Retry(context.stop.check, context.reconnect_timeout_s)

    def reach(station: Station) -> OsmefError | float:
        try:
            station.reach_again(retry)
        except Interrupted:
            raise
        except OsmefError as error:
            return error
        return time.monotonic() - began

    found = list(zip(stations, map_cancellable(reach, stations, context.stop), strict=True))
    for station, after in found:
        if isinstance(after, OsmefError):
            station.lose(after)
        else:
            journal.note(Recovered(station.name, since.isoformat(), round(after, 1)))
            context.observer.warning(f"{station.label} answers again, after {after:.0f} s")
    if context.layers is not None:
        context.layers.raise_again(
            one.name for one, after in found if not isinstance(after, OsmefError)
        )
    given_up = [station for station, after in found if isinstance(after, OsmefError)]
    _ask_cloud(context, given_up)
    for station in given_up:
        if station.lost is not None:
            context.observer.warning(f"{station.label} is given up: {station.lost.message}")


def _ask_cloud(context: TrialContext, stations: Sequence[Station]) -> None:
    """Mark those lost that no longer exist in their cloud. Raises Interrupted."""
    if stations:
        map_cancellable(lambda some: mark_lost(context.sites, some), [stations], context.stop)
