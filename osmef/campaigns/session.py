"""One session: a run of one platform's scenario, in a run directory of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.campaigns.rows import State
from osmef.engine.check import check_provider, check_study
from osmef.engine.cost import check_budget, cost_of, spent
from osmef.engine.holding import Holding, User
from osmef.engine.journal import Journal
from osmef.engine.observer import Observer
from osmef.engine.plan import Plan, make_plan
from osmef.engine.reap import destroy, leftovers
from osmef.engine.resume import note_plan, reopen
from osmef.engine.run import Run
from osmef.engine.stop import Stop
from osmef.engine.summarise import summarise
from osmef.errors import Interrupted, OsmefError
from osmef.results.occasion import Occasion
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary
from osmef.results.trial import Status
from osmef.scenario.load import load_text

if TYPE_CHECKING:
    from osmef.campaigns.keeper import Keeper


@dataclass(frozen=True)
class Work:
    """What a session needs to run anywhere: plain values, that travel to another machine.

    ``text`` is the scenario with the platform's values in it, ``file`` its name, ``directory`` the
    run directory, also one that an interrupted attempt has left. ``provider`` is its name in the
    campaign, "" where the scenario names its own. ``keep_until`` is the UNIX time until which the
    campaign keeps its VMs for later sessions, None where each has VMs of its own. ``left_out`` are
    the keys of cells that are known well enough.
    """

    session: int
    slot: str
    window: str
    platform: str
    text: str
    file: str
    directory: str
    seed: int
    provider: str = ""
    keep_until: float | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class End:
    """How a session ended. ``cost`` is None where prices are unknown."""

    state: State
    trials_ok: int = 0
    trials_failed: int = 0
    cost: float | None = None
    currency: str | None = None
    why: str | None = None


class Measurer:
    """Measures sessions in this process. Each stops with the campaign, and can be stopped alone.

    ``run`` measures one, with a stop of its own.
    """

    def __init__(self, stop: Stop, run: Callable[[Work, Stop], End]) -> None:
        self._stop, self._run = stop, run
        self._stops: dict[int, Stop] = {}
        self._lock = threading.Lock()

    def measure(self, work: Work) -> End:
        """Run a session; raises what ``run`` does."""
        stop = self._stops[work.session] = Stop(above=self._stop)
        try:
            return self._run(work, stop)
        finally:
            with self._lock:
                del self._stops[work.session]
                stop.close()

    def halt(self, session: int) -> None:
        """Stop a session, if it runs here: another process has taken it over."""
        with self._lock:
            if session in self._stops:
                self._stops[session].request("another process has taken the session over")


def measure(work: Work, stop: Stop, observer: Observer, keeper: Keeper | None = None) -> End:
    """Run a session, or what an interrupted attempt has left of it; what that left is destroyed.

    VMs that are to be kept are the ``keeper``'s. A run that reaches its own deadline is done with
    the trials that it has. Raises what Run.execute does: OsmefError, and Interrupted when a stop is
    requested.
    """
    own = Stop(above=stop)  # a run has a deadline, and the campaign goes on after it
    try:
        with _directory(work) as directory:
            for left in destroy(leftovers(directory)):
                raise left.error
            plan = _plan(work, directory)
            try:
                with _vms(work, plan, directory, keeper, User(own, observer)) as held:
                    summary, why = Run(plan, directory, observer, own, held).execute(), None
            except Interrupted as interrupted:
                if stop.reason is not None:
                    raise
                summary, why = directory.read_summary(), interrupted.message
    finally:
        own.close()
    return _end(summary, why)


def clear(path: Path) -> None:
    """Destroy what a session has left that won't be taken up again. Raises OsmefError."""
    if not (path / "journal.jsonl").exists():
        return
    with RunDirectory.open(path) as directory:
        directory.acquire()
        for left in destroy(leftovers(directory)):
            raise left.error


def conclude(path: Path) -> End:
    """Summarise the run of a session that won't be taken up again, and return what it has come to.

    Raises OsmefError.
    """
    if Journal(path / "journal.jsonl").read("plan"):
        with RunDirectory.open(path) as directory:
            directory.acquire()
            directory.finish()
            directory.write_summary(summarise(reopen(directory), directory))
    return so_far(path, State.FAILED, None)


def so_far(path: Path, state: State, why: str | None) -> End:
    """Return what an attempt has come to that did not end well: its trials, and what it cost."""
    try:
        trials = RunDirectory(path).read_trials().trials
        cost = spent(Journal(path / "journal.jsonl")).cost
    except OsmefError:  # it is being told already
        return End(state, why=why)
    ok = sum(trial.status is Status.OK for trial in trials)
    amount, currency = (cost.amount, cost.currency) if cost else (None, None)
    return End(state, ok, len(trials) - ok, amount, currency, why)


@contextmanager
def _directory(work: Work) -> Iterator[RunDirectory]:
    path = Path(work.directory)
    if not (path / "journal.jsonl").exists():
        if path.exists():  # killed before its journal began: it is ours, and holds nothing
            for left in path.iterdir():
                left.unlink()
            path.rmdir()
        with RunDirectory.create_at(path, work.text, Path(work.file).suffix) as directory:
            yield directory
        return
    with RunDirectory.open(path) as directory:
        directory.acquire()
        yield directory


@contextmanager
def _vms(
    work: Work, plan: Plan, directory: RunDirectory, keeper: Keeper | None, user: User
) -> Iterator[Holding | None]:
    """Give the VMs that are kept for the session; None where its run makes its own."""
    if keeper is None or work.keep_until is None:
        check_provider(plan, user.stop.check)
        yield None
        return
    with keeper.lend(work, plan, user) as lent:
        if lent.anew is not None:
            Journal(directory.journal).note("anew", why=lent.anew)
        yield lent.holding


def _plan(work: Work, directory: RunDirectory) -> Plan:
    if Journal(directory.journal).read("plan"):
        return reopen(directory)
    study = load_text(work.text, directory.scenario)
    check_study(study)
    seed = study.scenario.seed if study.scenario.seed is not None else work.seed
    plan = make_plan(study, seed, work.left_out)
    check_budget(plan, cost_of(plan))
    note_plan(directory, plan, Occasion(work.slot, work.window, work.platform))
    return plan


def _end(summary: Summary, why: str | None = None) -> End:
    ok = sum(cell.n_ok for cell in summary.cells)
    failed = sum(cell.n_failed for cell in summary.cells)
    cost = summary.run.cost
    return End(
        state=State.DONE if ok else State.FAILED,
        trials_ok=ok,
        trials_failed=failed,
        cost=cost.amount if cost else None,
        currency=cost.currency if cost else None,
        why=why or (None if ok else "no trial succeeded"),
    )
