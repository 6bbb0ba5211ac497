"""Sessions in threads of this process."""

from __future__ import annotations

import threading

import pytest

from osmef.campaigns.executor import Threads
from osmef.campaigns.rows import State
from osmef.campaigns.session import End, Work
from osmef.errors import StorageError


def work(session: int) -> Work:
    return Work(session, "slot", "window", "platform", "", "a.yaml", "out", 1)


def test_a_thread_that_can_not_begin_costs_its_session_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What could not begin does not so later, when another thread has time."""
    begun, goes_on = list[int](), threading.Event()

    def measure(one: Work) -> End:
        begun.append(one.session)
        assert goes_on.wait(60)
        return End(State.DONE, trials_ok=1)

    def refuses(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = Threads(2)
    first = threads.submit(measure, work(1))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuses)
        second = threads.submit(measure, work(2))
    assert isinstance(second.exception(0), StorageError)
    goes_on.set()
    assert first.result(60).state is State.DONE
    threads.close()
    assert begun == [1]
