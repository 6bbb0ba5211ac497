"""Interface of executors, and the executor on threads of this process."""

from __future__ import annotations

import resource
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from osmef.campaigns.executors.session import SessionJob, SessionResult, clear
from osmef.errors import StorageError

# Enough for all sessions that there is room for.
_FILES = 1 << 17
# So many clean up at once, beside the sessions that run.
_CLEANERS = 8

Measure = Callable[[SessionJob], SessionResult]
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs sessions concurrently."""

    @property
    def room(self) -> int:
        """How many sessions it runs concurrently."""

    def submit(self, measure: Measure, work: SessionJob) -> Future[SessionResult]:
        """Start a session; the future gets its result or exception."""

    def clear(self, directory: Path, provider: str) -> Future[None]:
        """Destroy leftover resources of a session in its run directory.

        It takes no room from sessions. The future is done when nothing stands, or says why.
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

    def __init__(self, room: int) -> None:
        self.room = room
        open_many_files()
        self._pool = ThreadPoolExecutor(max_workers=room, thread_name_prefix="session")
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
        pool.submit(fulfil, future, job)
    except RuntimeError as error:  # a process may have only so many
        future.cancel()  # it may wait for another thread already
        future = Future()
        cure = "give a smaller --parallel, or allow more tasks"
        future.set_exception(StorageError(f"no thread can begin: {error}", cure=cure))
    return future


def fulfil(future: Future[Result], job: Callable[[], Result]) -> None:
    """Run a job and set the future to its result or exception, unless it was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job())
    except BaseException as error:  # its reader judges it
        future.set_exception(error)
