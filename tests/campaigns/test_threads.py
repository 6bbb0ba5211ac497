"""Sessions in threads of this process."""

from __future__ import annotations

import resource
import threading

import pytest

from osmef.campaigns.executors.session import (
    SessionJob,
    SessionResult,
    ThreadExecutor,
    open_many_files,
)
from osmef.campaigns.state.rows import SessionState
from osmef.errors import StorageError


def work(session: int) -> SessionJob:
    return SessionJob(session, "slot", "window", "platform", "", "a.yaml", "out", 1)


def test_a_thread_that_can_not_begin_costs_its_session_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What could not begin does not so later, when another thread has time."""
    begun, goes_on = list[int](), threading.Event()

    def measure(one: SessionJob) -> SessionResult:
        begun.append(one.session)
        assert goes_on.wait(60)
        return SessionResult(SessionState.DONE, trials_ok=1)

    def refuses(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = ThreadExecutor(2)
    first = threads.submit(measure, work(1))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuses)
        second = threads.submit(measure, work(2))
    assert isinstance(second.exception(0), StorageError)
    goes_on.set()
    assert first.result(60).state is SessionState.DONE
    threads.close()
    assert begun == [1]


@pytest.mark.parametrize("error", [ValueError("not allowed to raise it"), OSError("no")])
def test_a_refused_raise_of_the_open_file_limit_is_ignored(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """macOS says that there is no limit, and takes no such one."""
    asked: list[tuple[int, int]] = []

    def refuses(_which: int, limits: tuple[int, int]) -> None:
        asked.append(limits)
        raise error

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuses)
    open_many_files()
    ((soft, most),) = asked
    assert 256 < soft <= 1 << 20
    assert most == resource.RLIM_INFINITY
