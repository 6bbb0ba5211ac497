"""Context of a conductor, and cleanup of orphaned resources of its abandoned sessions.

The context is the dependencies that are injected. Cleanup is retried until all are destroyed.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.campaigns.executors.session import Executor, Measure, conclude
from osmef.campaigns.schedule.calendar import Clock
from osmef.campaigns.state.rows import CampaignRow, SessionRow, SessionState
from osmef.campaigns.vm_pool import VmPool
from osmef.campaigns.watching.monitoring import CampaignLog, NotifyCallback
from osmef.engine.journal import Journal
from osmef.errors import OsmefError, StorageError
from osmef.results.files import storage
from osmef.results.rundir import RunDirectory

if TYPE_CHECKING:
    from osmef.campaigns.state.store import Store


@dataclass(frozen=True)
class ConductorContext:
    """Dependencies of a conductor. ``holder`` names it; ``measure`` runs a session.

    ``halt`` ends a session whose lease was lost, by its number, where the executor can. With
    ``until_idle`` the conductor leaves while no window is open or opens soon. ``vm_pool`` has the
    kept VMs, where the executor can keep some. A cloud that others measure is looked at again after
    ``busy_poll``.
    """

    holder: str
    clock: Clock
    executor: Executor
    measure: Measure
    notify: NotifyCallback
    halt: Callable[[int], None] = lambda _session: None
    until_idle: bool = False
    vm_pool: VmPool | None = None
    busy_poll: timedelta = timedelta(seconds=2)


# What would not go is tried again after so long: so often, and then seldom.
_AGAIN, _OFTEN, _SELDOM = timedelta(minutes=10), 6, timedelta(hours=1)


def uncleared(paths: Iterable[str]) -> str | None:
    """Return the run directories whose journals name leftover resources, one a line.

    Those that are not here may be on another machine, and stay.
    """
    return "\n".join(path for path in paths if _still_exists(path)) or None


def paths_of(session: SessionRow) -> list[str]:
    """Return the run directories in which a session may have left resources."""
    own = [session.directory] if session.directory else []
    return list(dict.fromkeys([*_left(session), *own]))


def run_exists(path: Path) -> bool:
    """Return whether a run directory exists. Raises StorageError without permission to look."""
    with storage("look for", path), suppress(FileNotFoundError, NotADirectoryError):
        path.stat()
        return True
    return False


def is_absent(path: str) -> bool:
    """Return whether a run directory surely does not exist; False without permission to look."""
    try:
        return not run_exists(Path(path))
    except StorageError:
        return False


def _left(session: SessionRow) -> list[str]:
    return list(dict.fromkeys((session.uncleared or "").splitlines()))


def _still_exists(path: str) -> bool:
    if is_absent(path):
        return True
    try:
        return bool(Journal(RunDirectory(Path(path)).journal).existing())
    except OsmefError:  # unknown
        return True


@dataclass(frozen=True)
class _CleanupJob:
    """Leftover resources of a session, by run directory, and their destruction."""

    session: SessionRow
    parts: dict[str, Future[None]]

    @property
    def is_over(self) -> bool:
        return all(future.done() for future in self.parts.values())


class Cleanup:
    """Destroys leftover resources of sessions, and retries where a cloud refuses.

    The executor does it, so that a slow cloud delays no session.
    """

    def __init__(
        self, store: Store, row: CampaignRow, context: ConductorContext, log: CampaignLog
    ) -> None:
        self._store, self._campaign = store, row.id
        self._context, self._log = context, log
        self._jobs: dict[int, _CleanupJob] = {}
        self._unnotified: set[int] = set()
        """The sessions whose possible leftovers were not notified yet."""
        self._tries = 0
        self.next: datetime | None = context.clock.now()
        """When to sweep next; None where all orphans are being destroyed."""

    @property
    def is_busy(self) -> bool:
        """Whether a destruction is in progress."""
        return bool(self._jobs)

    @property
    def is_trying(self) -> bool:
        """Whether a retry is due soon."""
        return self.is_busy or (self.next is not None and self._tries < _OFTEN)

    @property
    def exclusive_resources(self) -> set[str]:
        """The exclusive resources of the sessions in cleanup."""
        return {name for job in self._jobs.values() for name in job.session.exclusive_resources}

    def take_over(self, sessions: Iterable[SessionRow], now: datetime) -> None:
        """Take over skipped sessions: destroy the leftover resources of their earlier attempts."""
        begun = {one.id for one in sessions if one.directory or one.uncleared}
        if begun:
            self._unnotified |= begun
            self.next, self._tries = now, 0

    def schedule(self, session: SessionRow, now: datetime, reason: str | None) -> None:
        """Schedule the cleanup of a session; ``reason`` is logged, if given."""
        if reason is not None:
            self._notify(session, reason)
        if _here(session):
            self._tries = 0
            self._sweep_at(now + _AGAIN)

    def _notify(self, session: SessionRow, why: str) -> None:
        directory = Path(session.directory or "").parent
        by_hand = f"it is tried again; by hand: osmef reap --out {shlex.quote(str(directory))}"
        self._log.note(
            "failure", f"{session.slot} {session.platform}: not destroyed: {why}; {by_hand}"
        )

    def _sweep_at(self, time: datetime) -> None:
        self.next = time if self.next is None else min(self.next, time)

    def start_due(self, now: datetime, wake: threading.Event) -> None:
        """Start the cleanups that are due; ``wake`` is set at the end of each."""
        if self.next is None or now < self.next:
            return
        for session in self._store.uncleared(self._campaign):
            if session.id not in self._jobs and (paths := _here(session)):
                clear = self._context.executor.clear
                parts = {path: clear(Path(path), session.provider) for path in paths}
                self._jobs[session.id] = _CleanupJob(session, parts)
                for future in parts.values():
                    future.add_done_callback(lambda _: wake.set())
        self._tries += 1
        self.next = None

    def collect(self, now: datetime) -> bool:
        """Record the outcome of finished cleanups; return whether there was any."""
        over = [job for job in self._jobs.values() if job.is_over]
        for job in over:
            self._finish(job, now)
            del self._jobs[job.session.id]
        return bool(over)

    def _finish(self, job: _CleanupJob, now: datetime) -> None:
        session, errors = job.session, []
        for path, future in job.parts.items():
            error = future.exception()
            if (
                error is None
                and path == session.directory
                and session.state is not SessionState.DONE
            ):
                error = self._conclude(session, path)
            if error is None:
                self._store.cleared(session, [path])
            else:
                errors.append(error)
        is_new = session.id in self._unnotified
        if errors:
            self._sweep_at(now + (_AGAIN if self._tries < _OFTEN else _SELDOM))
        if errors and is_new:
            self._notify(session, str(errors[-1]))
        if not errors and not is_new:
            text = f"{session.slot} {session.platform}: nothing is left"
            self._log.note("note", text)
        self._unnotified.discard(session.id)

    def _conclude(self, session: SessionRow, path: str) -> OsmefError | None:
        """Record the result of a session; return the error if that fails."""
        try:
            end = conclude(Path(path))
        except OsmefError as error:
            return error
        trials = {"trials_ok": end.trials_ok, "trials_failed": end.trials_failed}
        self._store.conclude(session, **trials, cost=end.cost, currency=end.currency)
        return None


def _here(session: SessionRow) -> Sequence[str]:
    """Return the local run directories whose session will not be resumed."""
    own = session.directory if session.state is SessionState.PLANNED else None
    return [path for path in _left(session) if path != own and not is_absent(path)]
