"""Going on with a run: the same plan, made again from its directory."""

from __future__ import annotations

from osmef.engine.journal import Journal
from osmef.engine.plan import Plan, make_plan
from osmef.errors import InputError
from osmef.results.rundir import RunDirectory
from osmef.scenario.load import load


def reopen(directory: RunDirectory) -> Plan:
    """Return the plan of a run, with the seed that its journal holds.

    Raises InputError when the scenario file was changed by hand or the run died before its plan
    was written down.
    """
    notes = Journal(directory.journal).read("plan")
    if not notes and directory.summary.exists():
        raise InputError(
            "this run was imported, so there is nothing to go on with",
            where=str(directory.path),
            cure="look at it with `osmef show`; resume is for runs that were interrupted",
        )
    if not notes:
        raise InputError(
            "the run has no plan in its journal, so nothing was measured",
            where=str(directory.path),
            cure="remove the directory and start again with `osmef run`",
        )
    study = load(directory.scenario)
    if study.digest != notes[0]["digest"]:
        raise InputError(
            "the scenario file of the run has been changed since it began",
            where=str(directory.scenario),
            cure="restore the file, or start a new run with the changed one",
        )
    return make_plan(study, notes[0]["seed"])


def note_plan(directory: RunDirectory, plan: Plan) -> None:
    """Write down what ``reopen`` needs. Raises StorageError."""
    Journal(directory.journal).note("plan", seed=plan.seed, digest=plan.study.digest)
