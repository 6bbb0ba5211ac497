"""Work that takes its time and knows of no stop, done so that a stop does not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from osmef.engine.stop import Stop

_POLL_S = 0.1

S = TypeVar("S")
T = TypeVar("T")


def at_once(work: Callable[[T], S], things: Iterable[T], stop: Stop) -> list[S]:
    """Do the same with all things at once, and return the results in order.

    Raises what the work does, and Interrupted as soon as a stop is requested: what is not done then
    ends by itself.
    """
    todo = list(things)
    pool = ThreadPoolExecutor(max_workers=max(1, len(todo)))
    futures = [pool.submit(work, thing) for thing in todo]
    try:
        while wait(futures, timeout=_POLL_S).not_done:
            stop.check()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return [future.result() for future in futures]
