"""Resuming a run: its plan is made again from the run directory."""

from __future__ import annotations

import contextlib
from dataclasses import fields
from datetime import UTC
from hashlib import sha256

from osmef.engine.events import Extended, Planned, Started
from osmef.engine.journal import History, Journal
from osmef.engine.plan import Plan, extended, make_plan
from osmef.errors import InputError
from osmef.results.files import read_lines, read_whole
from osmef.results.rundir import RunDirectory
from osmef.results.trial import SessionTag
from osmef.scenario.load import load
from osmef.scenario.study import Study
from osmef.units import counted

_NONE = SessionTag()
_CURE = (
    "put back from a copy what was changed; else look at the trials with `osmef report`, and"
    " measure the rest in a new run"
)


def reopen(directory: RunDirectory) -> Plan:
    """Return the plan of a run, by the seed and the skipped cells in its journal.

    Raises InputError where that can't be: the run died before its plan was written down, or the
    scenario file, the journal or the trials are not those of one run any more. StorageError.
    """
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
            "the trials of each cell end once it is known: repeat is a rule, and no number",
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


def added(history: History) -> list[str]:
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
        if sha256(read_whole(path)).hexdigest() == digest:  # another version took it
            raise
    else:
        if study.digest == digest:
            return study
    raise InputError(
        "the scenario file is not the one that the journal of the run names: it has been changed"
        " since the run began, or one of both is damaged",
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
    if not (damage or trials or directory.summary.exists()):
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
    if directory.journal.exists() or not directory.summary.exists():
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
