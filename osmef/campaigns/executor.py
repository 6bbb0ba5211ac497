"""Where sessions run: threads of this process, or somewhere else behind the same interface."""

from __future__ import annotations

import resource
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from osmef.campaigns.session import End, Work

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


class Threads:
    """Sessions in threads of this process."""

    def __init__(self, room: int) -> None:
        self.room = room
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each session has some open
        self._pool = ThreadPoolExecutor(max_workers=room, thread_name_prefix="session")

    def submit(self, measure: Measure, work: Work) -> Future[End]:
        """Begin a session in a thread."""
        return self._pool.submit(measure, work)

    def close(self) -> None:
        """Wait for what runs."""
        self._pool.shutdown()
