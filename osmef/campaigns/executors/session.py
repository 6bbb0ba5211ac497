"""Execution of one session as a run in its own directory, and the executor on threads.

The interface of executors is here, too.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from osmef.campaigns.state.rows import SessionState
from osmef.campaigns.vm_pool import LoanRequest, VmPool
from osmef.engine.cancellation import CancellationToken
from osmef.engine.check import check_provider, check_study
from osmef.engine.cost import check_budget, cost_of, spent
from osmef.engine.events import Observer, Recreated
from osmef.engine.held_endpoints import HeldEndpoints, User
from osmef.engine.journal import Journal
from osmef.engine.plan import Plan, make_plan
from osmef.engine.reap import destroy, leftovers
from osmef.engine.recovery import note_plan, reopen
from osmef.engine.run import Run
from osmef.engine.summarise import summarise
from osmef.errors import Interrupted, OsmefError, StorageError
from osmef.files import exists
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary
from osmef.results.trial import SessionTag, Status
from osmef.scenario.load import load_text


@dataclass(frozen=True)
class SessionJob:
    """Description of a session for any executor: plain values that can be pickled.

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
class SessionResult:
    """Result of a session. ``cost`` is None where prices are unknown."""

    state: SessionState
    trials_ok: int = 0
    trials_failed: int = 0
    cost: float | None = None
    currency: str | None = None
    why: str | None = None


class CancellableSessions:
    """Sessions of this process that can be cancelled one by one, or all with their campaign.

    ``run`` measures one, with a stop of its own.
    """

    def __init__(
        self, stop: CancellationToken, run: Callable[[SessionJob, CancellationToken], SessionResult]
    ) -> None:
        self._stop, self._run = stop, run
        self._stops: dict[int, CancellationToken] = {}
        self._lock = threading.Lock()

    def measure(self, work: SessionJob) -> SessionResult:
        """Run a session; raises as ``run`` does."""
        stop = self._stops[work.session] = CancellationToken(parent=self._stop)
        try:
            return self._run(work, stop)
        finally:
            with self._lock:
                del self._stops[work.session]
                stop.close()

    def halt(self, session: int) -> None:
        """Cancel a session that runs here: another process has taken over its lease."""
        with self._lock:
            if session in self._stops:
                self._stops[session].request("another process has taken the session over")


def measure(
    work: SessionJob, stop: CancellationToken, observer: Observer, vm_pool: VmPool | None = None
) -> SessionResult:
    """Run a session, or resume an interrupted attempt; resources of that are destroyed first.

    VMs that are to be kept are the ``vm_pool``'s. A run that reaches its own deadline is done with
    the trials that it has. Raises what Run.execute does: OsmefError, and Interrupted when a stop is
    requested.
    """
    own = CancellationToken(parent=stop)  # a run has a deadline, and the campaign goes on after it
    try:
        with _directory(work) as directory:
            for left in destroy(leftovers(directory)):
                raise left.error
            plan = _plan(work, directory)
            try:
                with _vms(work, plan, directory, vm_pool, User(own, observer)) as held:
                    summary, why = Run(plan, directory, observer, own, held).execute(), None
            except Interrupted as interrupted:
                if stop.reason is not None:
                    raise
                summary, why = directory.read_summary(), interrupted.message
    finally:
        own.close()
    return _end(summary, why)


def clear(path: Path) -> None:
    """Destroy leftover resources of a session that will not be resumed. Raises OsmefError."""
    if not exists(RunDirectory(path).journal):
        return
    with RunDirectory.open(path) as directory:
        directory.acquire()
        for left in destroy(leftovers(directory)):
            raise left.error


def conclude(path: Path) -> SessionResult:
    """Summarise the run of a session that won't be resumed, and return its result.

    Raises OsmefError.
    """
    if Journal(RunDirectory(path).journal).history().plan:
        with RunDirectory.open(path) as directory:
            directory.acquire()
            directory.finish()
            directory.write_summary(summarise(reopen(directory), directory))
    return partial_result(path, SessionState.FAILED, None)


def partial_result(path: Path, state: SessionState, why: str | None) -> SessionResult:
    """Return the partial result of an attempt that failed: its trials and its cost."""
    try:
        trials = RunDirectory(path).read_trials().trials
        cost = spent(Journal(RunDirectory(path).journal).history()).cost
    except OsmefError:  # it is reported already
        return SessionResult(state, why=why)
    ok = sum(trial.status is Status.OK for trial in trials)
    amount, currency = (cost.amount, cost.currency) if cost else (None, None)
    return SessionResult(state, ok, len(trials) - ok, amount, currency, why)


@contextmanager
def _directory(work: SessionJob) -> Iterator[RunDirectory]:
    path = Path(work.directory)
    if not exists(RunDirectory(path).journal):
        if exists(path):  # killed before its journal began: it is ours, and holds nothing
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
    work: SessionJob, plan: Plan, directory: RunDirectory, vm_pool: VmPool | None, user: User
) -> Iterator[HeldEndpoints | None]:
    """Return the pooled VMs of the session; None where its run creates its own."""
    if vm_pool is None or work.keep_until is None:
        check_provider(plan, user.stop.check)
        yield None
        return
    request = LoanRequest(work.session, work.platform, directory.path.parent, work.keep_until)
    with vm_pool.lend(request, plan, user) as lent:
        if lent.why_recreated is not None:
            Journal(directory.journal).note(Recreated(lent.why_recreated))
        yield lent.holding


def _plan(work: SessionJob, directory: RunDirectory) -> Plan:
    if Journal(directory.journal).history().plan:
        return reopen(directory)
    study = load_text(work.text, directory.scenario)
    check_study(study)
    seed = study.scenario.seed if study.scenario.seed is not None else work.seed
    plan = make_plan(study, seed, work.left_out)
    check_budget(plan, cost_of(plan))
    note_plan(directory, plan, SessionTag(work.slot, work.window, work.platform))
    return plan


def _end(summary: Summary, why: str | None = None) -> SessionResult:
    ok = sum(cell.n_ok for cell in summary.cells)
    failed = sum(cell.n_failed for cell in summary.cells)
    cost = summary.run.cost
    return SessionResult(
        state=SessionState.DONE if ok else SessionState.FAILED,
        trials_ok=ok,
        trials_failed=failed,
        cost=cost.amount if cost else None,
        currency=cost.currency if cost else None,
        why=why or (None if ok else "no trial succeeded"),
    )


# Enough for all sessions that there is room for.
_FILES = 1 << 17
# So many clean up at once, beside the sessions that run.
_CLEANERS = 8

Measure = Callable[[SessionJob], SessionResult]
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs sessions concurrently."""

    @property
    def capacity(self) -> int:
        """How many sessions it runs concurrently."""

    def submit(self, measure: Measure, work: SessionJob) -> Future[SessionResult]:
        """Start a session; the future gets its result or exception."""

    def clear(self, directory: Path, provider: str) -> Future[None]:
        """Destroy leftover resources of a session in its run directory.

        It uses no capacity of sessions. The future is done when all is destroyed, or has the error.
        """

    def close(self) -> None:
        """Wait for running sessions, and release all resources."""


def open_many_files() -> None:
    """Raise the limit of open files of this process, if permitted."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if most == resource.RLIM_INFINITY else min(most, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # the system may allow fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


class ThreadExecutor:
    """Sessions in threads of this process."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        open_many_files()
        self._pool = ThreadPoolExecutor(max_workers=capacity, thread_name_prefix="session")
        self._cleaners = ThreadPoolExecutor(_CLEANERS, thread_name_prefix="cleaning")

    def submit(self, measure: Measure, work: SessionJob) -> Future[SessionResult]:
        """Start a session in a thread; if that fails, the future gets the exception."""
        return _begin(self._pool, partial(measure, work))

    def clear(self, directory: Path, _provider: str) -> Future[None]:
        """Destroy leftover resources of a session, in a thread."""
        return _begin(self._cleaners, partial(clear, directory))

    def close(self) -> None:
        """Wait for running sessions."""
        self._pool.shutdown()
        self._cleaners.shutdown()


def _begin(pool: ThreadPoolExecutor, job: Callable[[], Result]) -> Future[Result]:
    future: Future[Result] = Future()
    try:
        pool.submit(run_into, future, job)
    except RuntimeError as error:  # a process may have only so many
        future.cancel()  # it may wait for another thread already
        future = Future()
        cure = "give a smaller --parallel, or allow more tasks"
        future.set_exception(StorageError(f"no thread can begin: {error}", cure=cure))
    return future


def run_into(future: Future[Result], job: Callable[[], Result]) -> None:
    """Run a job and set the future to its result or exception, unless it was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job())
    except BaseException as error:  # its reader judges it
        future.set_exception(error)
