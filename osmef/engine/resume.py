"""Going on with a run: the same plan, made again from its directory."""

from __future__ import annotations

from dataclasses import asdict, fields

from osmef.engine.journal import Journal
from osmef.engine.plan import Plan, make_plan
from osmef.errors import InputError
from osmef.results.occasion import Occasion
from osmef.results.rundir import RunDirectory
from osmef.scenario.load import load

_NONE = Occasion()


def reopen(directory: RunDirectory) -> Plan:
    """Return the plan of a run, with the seed and without the cells that its journal names.

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
    return make_plan(study, notes[0]["seed"], notes[0].get("left_out", ()))


def note_plan(directory: RunDirectory, plan: Plan, occasion: Occasion = _NONE) -> None:
    """Write down what ``reopen`` and ``occasion_of`` need. Raises StorageError."""
    told = {name: value for name, value in asdict(occasion).items() if value is not None}
    if plan.left_out:
        told["left_out"] = plan.left_out
    Journal(directory.journal).note("plan", seed=plan.seed, digest=plan.study.digest, **told)


def occasion_of(journal: Journal) -> Occasion:
    """Return the session that a run belongs to, as its plan has noted it. Raises StorageError."""
    note = next(iter(journal.read("plan")), {})
    return Occasion(*(note.get(one.name) for one in fields(Occasion)))
