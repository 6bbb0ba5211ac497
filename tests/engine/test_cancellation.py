from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from osmef.engine.cancellation import CancellationToken, stop_on_signals
from osmef.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Put the handlers of all signals back that a test sets."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_every_wait_at_once(number: signal.Signals, handlers: None) -> None:
    told: list[str] = []
    signal.signal(number, signal.default_int_handler)  # nohup(1) has it ignore SIGHUP
    with stop_on_signals(told.append) as stop:
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        started = time.monotonic()
        with pytest.raises(Interrupted, match=number.name):
            stop.wait(60)
        assert time.monotonic() - started < 30
        with pytest.raises(Interrupted):
            stop.check()
        with pytest.raises(Interrupted):
            stop.wait(60)
    assert told == [f"{number.name}: stopping and cleaning up"]


def test_a_second_signal_does_not_break_the_cleaning_up() -> None:
    told: list[str] = []
    with stop_on_signals(told.append) as stop:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert stop.reason == "stopped by SIGINT"
    assert told[1] == "still cleaning up, please wait"


def test_a_signal_stops_even_if_reporting_it_fails() -> None:
    def tell(text: str) -> None:
        raise BrokenPipeError(text)

    with stop_on_signals(tell) as stop:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert stop.reason == "stopped by SIGINT"


def test_the_handlers_before_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals(lambda _text: None) as stop:
        stop.wait(0)
        stop.check()
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_under_nohup_a_run_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals(lambda _text: None) as stop:
            signal.raise_signal(signal.SIGHUP)
            stop.check()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_deadline_ends_a_wait_that_is_longer() -> None:
    with stop_on_signals(lambda _text: None) as stop:
        stop.expire(time.time() + 0.2, "the deadline is near")
        stop.check()
        started = time.monotonic()
        with pytest.raises(Interrupted, match="the deadline is near"):
            stop.wait(60)
        assert time.monotonic() - started < 30
        with pytest.raises(Interrupted):
            stop.check()


def test_a_clock_that_is_set_forward_brings_no_deadline_nearer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop, now = CancellationToken(), time.time
    stop.expire(now() + 60, "the deadline is near")
    monkeypatch.setattr(time, "time", lambda: now() + 25 * 3600)
    assert stop.reason is None


def test_a_clock_that_is_set_back_defers_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, now = CancellationToken(), time.time
    stop.expire(now() + 0.1, "the deadline is near")
    monkeypatch.setattr(time, "time", lambda: now() - 3600)
    with pytest.raises(Interrupted, match="the deadline is near"):
        stop.wait(60)
    stop.close()


def test_a_signal_before_the_deadline_is_the_reason() -> None:
    with stop_on_signals(lambda _text: None) as stop:
        stop.request("stopped by the test")
        stop.expire(0, "the deadline is near")
        assert stop.reason == "stopped by the test"


def test_cancellation_of_a_parent_token_reaches_its_children_and_not_vice_versa() -> None:
    above = CancellationToken()
    one, other = CancellationToken(above), CancellationToken(above)
    one.expire(time.time() - 1, "its deadline")
    assert (one.reason, other.reason, above.reason) == ("its deadline", None, None)
    threading.Timer(0.05, above.request, ("enough",)).start()
    started = time.monotonic()
    with pytest.raises(Interrupted, match="enough"):
        other.wait(60)
    assert time.monotonic() - started < 30
    for each in (one, other, above):
        each.close()


def test_a_process_with_many_open_files_waits_too() -> None:
    """A thousand sessions at once have more descriptors than select(2) can take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1500:
        pytest.skip(f"at most {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1500, hard))
    opened: list[int] = []
    try:
        with Path("/dev/null").open() as null:
            while not opened or opened[-1] < 1100:
                opened.append(os.dup(null.fileno()))
        stop = CancellationToken()
        threading.Timer(0.05, stop.request, ["enough"]).start()
        with pytest.raises(Interrupted, match="enough"):
            stop.wait(60)
        stop.close()
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
