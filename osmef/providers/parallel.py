"""Concurrent calls to a cloud."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

from osmef.errors import Interrupted

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE = 12
"""Requests on their way to one cloud at once; a usual API service has fewer workers."""


def map_concurrently(
    work: Callable[[T], S], things: Iterable[T], *, at_once: int = AT_ONCE
) -> list[S]:
    """Map a function over things concurrently, and return the results in order.

    All that began ends before this returns; after a failure nothing more begins, and the first
    failure is raised.
    """
    todo = list(things)
    if len(todo) < 2:
        return [work(thing) for thing in todo]
    with ThreadPoolExecutor(min(at_once, len(todo))) as pool:
        futures: list[Future[S]] = [pool.submit(work, thing) for thing in todo]
        for future in as_completed(futures):
            if not future.cancelled() and future.exception() is not None:
                for other in futures:
                    other.cancel()
                future.result()
    return [future.result() for future in futures]


def map_by_key(
    work: Callable[[T], S], things: Iterable[T], *, at_once: int = AT_ONCE
) -> dict[T, S]:
    """Map a function over hashable things, as map_concurrently, and return the results by them."""
    keys = list(things)
    return dict(zip(keys, map_concurrently(work, keys, at_once=at_once), strict=True))


def run_in_thread(work: Callable[[Callable[[], None]], T], check: Callable[[], None]) -> T:
    """Run a function in a thread that Ctrl-C does not reach, and return its result.

    The work is given what to call in every wait: it raises what ``check`` does, and Interrupted
    once the thread that waits here is interrupted.
    """
    over = threading.Event()

    def check_both() -> None:
        check()
        if over.is_set():
            raise Interrupted("stopped")

    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(work, check_both).result()
        finally:
            over.set()


def run_concurrently(*steps: Callable[[], Any]) -> list[Any]:
    """Run several functions concurrently, as map_concurrently, and return the results in order."""
    return map_concurrently(lambda step: step(), steps)
