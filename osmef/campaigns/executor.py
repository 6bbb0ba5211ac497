"""Where sessions run: threads of this process, or somewhere else behind the same interface."""

from __future__ import annotations

import resource
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from osmef.campaigns.session import End, Work
from osmef.errors import StorageError

Measure = Callable[[Work], End]


class Executor(Protocol):
    """Takes work."""

    @property
    def room(self) -> int:
        """How many sessions it runs at once."""

    def submit(self, measure: Measure, work: Work) -> Future[End]:
        """Begin a session; its end, or what it raised, comes through the future."""

    def close(self) -> None:
        """Wait for what runs, and give everything back."""


def open_many_files() -> None:
    """Let this process open as many files as it may: each session has some."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Threads:
    """Sessions in threads of this process."""

    def __init__(self, room: int) -> None:
        self.room = room
        open_many_files()
        self._pool = ThreadPoolExecutor(max_workers=room, thread_name_prefix="session")

    def submit(self, measure: Measure, work: Work) -> Future[End]:
        """Begin a session in a thread; where there can be none, the future says so."""
        future: Future[End] = Future()
        try:
            self._pool.submit(_run, future, measure, work)
        except RuntimeError as error:  # a process may have only so many
            future.cancel()  # it may wait for another thread already
            future = Future()
            cure = "give a smaller --parallel, or allow more tasks"
            future.set_exception(StorageError(f"no thread for a session: {error}", cure=cure))
        return future

    def close(self) -> None:
        """Wait for what runs."""
        self._pool.shutdown()


def _run(future: Future[End], measure: Measure, work: Work) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(measure(work))
    except BaseException as error:  # its reader judges it
        future.set_exception(error)
