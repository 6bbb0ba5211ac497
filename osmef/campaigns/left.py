"""VMs that a dead conductor has kept: found by the journals of their run directories."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from osmef.engine.controller import Controller, State, controller_of
from osmef.engine.cost import spent, total
from osmef.engine.holding import BACK, LENT, PAID, PREFIX, WANTED
from osmef.engine.journal import Journal
from osmef.engine.reap import destroy, leftovers
from osmef.results.files import storage
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Cost


@dataclass(frozen=True)
class Bill:
    """What VMs have cost that nobody has counted yet, and the session that used them last.

    None where that is not known.
    """

    session: int | None
    cost: Cost | None


def unended(out: Path) -> list[tuple[RunDirectory, Controller]]:
    """Return the run directories under ``out`` that hold VMs, or did so until their holders died.

    Without those whose holders surely live. Raises StorageError.
    """
    with storage("look into", out):
        journals = sorted(out.glob(f"{PREFIX}*/journal.jsonl"))
    found = []
    for path in journals:
        directory, journal = RunDirectory(path.parent), Journal(path)
        if not journal.read(WANTED) or journal.read("end") or (live := directory.is_live()):
            continue
        controller = controller_of(directory, lock_is_free=live is False)
        if controller.state is not State.LIVE:
            found.append((directory, controller))
    return found


def bury(directory: RunDirectory) -> Bill:
    """Destroy what a dead holder has left, and return what it has cost. Raises OsmefError."""
    with directory:
        directory.acquire()
        for left in destroy(leftovers(directory)):
            raise left.error
        journal = Journal(directory.journal)
        journal.note("gone")
        journal.note("end")
        return _bill(journal)


def _bill(journal: Journal) -> Bill:
    """Return what is due: for the time since the cost was counted or a session began."""
    notes = [n for n in journal.read() if n["event"] in {"provision", WANTED, LENT, BACK, PAID}]
    last = next((n["session"] for n in reversed(notes) if "session" in n), None)
    used = spent(journal)
    whole = total(used.most)
    begins, gone = journal.read("provision"), journal.read("destroyed") or journal.read("gone")
    if whole is None or not begins:
        return Bill(last, None)
    begin, since, end = (
        datetime.fromisoformat(note["at"]) for note in (begins[0], notes[-1], gone[-1])
    )
    counted = datetime.fromisoformat(journal.read("gone")[-1]["at"]) - begin
    share = max(0.0, (end - since) / counted) if counted else 0.0
    return Bill(last, Cost(amount=whole.amount * share, currency=whole.currency))
