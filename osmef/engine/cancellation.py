"""Cancellation on Ctrl-C, SIGTERM and at a deadline, at safe points.

Work that knows of no cancellation is done by ``at_once``, such that a stop does not wait for it.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from osmef.clock import since_boot
from osmef.engine.events import contain_failures
from osmef.errors import Interrupted

# That a machine slept is noticed after so long.
_LOOK_S = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S = 0.1

S = TypeVar("S")
T = TypeVar("T")


class CancellationToken:
    """A cancellation token: safe to set in a signal handler; every wait of a run ends on it.

    Cancelling the ``parent`` cancels this one, not the reverse: of many runs each has its own
    deadline, and one of them can stop alone.
    """

    def __init__(self, parent: CancellationToken | None = None) -> None:
        self._parent = parent
        self._reason: str | None = None
        self._deadline = float("inf")
        self._why_deadline = ""
        self._pipe: tuple[int, int] | None = None  # made for the first wait: descriptors are few
        self._making = threading.Lock()

    @property
    def reason(self) -> str | None:
        """The reason of the cancellation; None without one."""
        if self._reason is None and since_boot() >= self._deadline:
            self.request(self._why_deadline)
        if self._reason is None and self._parent is not None:
            return self._parent.reason
        return self._reason

    @property
    def wakers(self) -> list[int]:
        """File descriptors that become readable on cancellation, here or in a parent token."""
        with self._making:
            self._pipe = self._pipe or os.pipe()
        return [self._pipe[0], *(self._parent.wakers if self._parent else [])]

    def expire(self, deadline: float, reason: str) -> None:
        """Cancel at a UNIX time, by the clock as it is now: one that is set changes nothing."""
        self._deadline, self._why_deadline = since_boot() + deadline - time.time(), reason

    def request(self, reason: str) -> None:
        """Cancel; the first reason is kept."""
        if self._reason is None:
            self._reason = reason  # before the pipe is looked at: a waiter does it the other way
            if self._pipe is not None:
                os.write(self._pipe[1], b"x")  # never read again: it wakes all, now and later

    def check(self) -> None:
        """Raise Interrupted if cancelled."""
        reason = self.reason
        if reason is not None:
            raise Interrupted(reason)

    def wait(self, seconds: float) -> None:
        """Wait; raise Interrupted as soon as it is cancelled."""
        end = time.monotonic() + seconds
        poll = select.poll()  # select(2) takes no descriptor above 1023
        for waker in self.wakers:
            poll.register(waker, select.POLLIN)
        self.check()
        while (left := end - time.monotonic()) > 0:
            poll.poll(1000 * min(left, _LOOK_S))
            self.check()

    def close(self) -> None:
        """Close the pipe."""
        pipe, self._pipe = self._pipe, None
        for descriptor in pipe or ():
            os.close(descriptor)


@contextmanager
def stop_on_signals(notify: Callable[[str], None]) -> Iterator[CancellationToken]:
    """Cancel on Ctrl-C, SIGTERM and SIGHUP, for the length of the context.

    ``notify`` is called with a line for the user at each signal; what it raises is contained, since
    a handler would raise it anywhere. Only for the main thread.
    """
    stop, notify = CancellationToken(), contain_failures(notify)

    def handle(number: int, _frame: object) -> None:
        name = signal.Signals(number).name
        again = stop.reason is not None
        stop.request(f"stopped by {name}")
        notify("still cleaning up, please wait" if again else f"{name}: stopping and cleaning up")

    before = {
        number: signal.signal(number, handle)
        for number in _SIGNALS
        # nohup(1) ignores it, so that a run outlives its terminal.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    }
    signal.pthread_sigmask(
        signal.SIG_UNBLOCK, before
    )  # a process of ``start_in_new_session`` has some
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop.close()


def map_cancellable(
    work: Callable[[T], S], things: Iterable[T], stop: CancellationToken
) -> list[S]:
    """Map work over things concurrently, cancellable by ``stop``; return the results in order.

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
