"""Requests and responses: what is timed, from when on, and what goes wrong."""

from __future__ import annotations

import itertools
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.agents.lab import Event, StartAgent, arm, job, reset
from tests.agents.two_ended_jobs import failure, follow, join, keep_quiet, lead, result, take

MS = 1_000_000
LONG_S = 60.0
QUANTILES = ("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns")


def serve(peer: socket.socket, size: int, answer: Callable[[int], bytes]) -> int:
    """Answer requests of this size until the other end has had enough; return their number."""
    served = 0
    while take(peer, size) is not None:
        peer.sendall(answer(served))
        served += 1
    peer.close()
    return served


def slower_than(event: Event, ns: int) -> int:
    """Count the exchanges in buckets that begin at or above this time."""
    table = event["histogram"]
    return sum(n for low, n in zip(table["lower_ns"], table["count"], strict=True) if low >= ns)


@pytest.mark.parametrize("flows", [1, 5])
def test_both_ends_and_all_tables_agree(start: StartAgent, flows: int) -> None:
    asking, answering = start(), start()
    join("exchange", asking, answering, connections=flows)
    intervals, asked = result(asking)
    counted, answered = result(answering)
    assert asked["count"] == answered["count"] > 0
    assert (asked["role"], answered["role"]) == ("sender", "receiver")
    assert asked["count"] == sum(asked["histogram"]["count"])
    assert asked["count"] == sum(i["count"] for i in intervals) == sum(i["count"] for i in counted)
    assert [f["count"] for f in asked["flows"]] == [f["count"] for f in answered["flows"]]
    assert all(f["tcp"]["mss"] > 0 for f in asked["flows"] + answered["flows"])
    for event in [asked, *asked["flows"], *intervals]:
        times = [event[name] for name in QUANTILES]
        assert times == sorted(times)
        assert event["min_ns"] <= event["mean_ns"] <= event["max_ns"]
    assert asked["elapsed_s"] >= 0.3
    assert (asked["late"], asked["unsent"]) == (0, 0)


@pytest.mark.parametrize(("request_size", "response_size"), [(1, 1), (200_000, 7), (3, 150_001)])
def test_messages_have_their_sizes(
    start: StartAgent, request_size: int, response_size: int
) -> None:
    asking = start()
    sizes = {"request_size": request_size, "response_size": response_size}
    peer = follow(asking, "exchange", **sizes)
    served = serve(peer, request_size, lambda _: bytes(response_size))
    assert result(asking)[1]["count"] == served > 0


def test_a_listening_end_answers_whole_requests(start: StartAgent) -> None:
    answering = start()
    with lead(answering, "exchange", request_size=3, response_size=2, duration_s=0.01) as peer:
        for _ in range(5):
            peer.sendall(b"ab")
            peer.sendall(b"c")
            assert take(peer, 2) is not None
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1) == b""
    assert result(answering)[1]["count"] == 5


def test_no_time_is_shorter_than_the_peers_delay(start: StartAgent) -> None:
    asking = start()
    peer = follow(asking, "exchange", duration_s=0.2)

    def late(_: int) -> bytes:
        keep_quiet(peer, 0.02)
        return b"x"

    served = serve(peer, 1, late)
    _, event = result(asking)
    assert event["min_ns"] >= 20 * MS
    assert event["count"] == served <= 11


def test_waiting_counts_from_the_time_that_a_request_was_due(start: StartAgent) -> None:
    """A peer that stalls once delays all that were due in that time (coordinated omission).

    Only one of them was slow itself, so there is one long round trip.
    """
    asking = start()
    peer = follow(asking, "exchange", rate_per_s=1000, duration_s=1)

    def stall_once(served: int) -> bytes:
        if served == 100:
            keep_quiet(peer, 0.2)
        return b"x"

    serve(peer, 1, stall_once)
    _, event = result(asking)
    response = event["response"]
    assert event["count"] == response["count"] == 1000 - event["unsent"]
    assert response["max_ns"] >= event["max_ns"] >= 200 * MS
    assert slower_than(response, 100 * MS) >= 95
    assert slower_than(response, 10 * MS) >= 185
    assert slower_than(event, 190 * MS) == 1
    assert event["late"] >= 185


def test_a_rate_that_cannot_be_kept_does_not_lengthen_the_round_trip(start: StartAgent) -> None:
    """A path of 20 ms, asked every 5 ms: each request waits for longer, and none takes longer."""
    asking = start()
    peer = follow(asking, "exchange", rate_per_s=200, duration_s=1)

    def far(_: int) -> bytes:
        keep_quiet(peer, 0.02)
        return b"x"

    serve(peer, 1, far)
    _, event = result(asking)
    assert event["unsent"] > event["count"] / 2
    assert event["late"] == event["count"] - 1, "the first one waits for none"
    assert 20 * MS <= event["min_ns"] <= event["p50_ns"] < event["response"]["p50_ns"] / 3
    assert event["response"]["p50_ns"] > 200 * MS


def test_in_a_closed_loop_a_stall_is_one_late_exchange(start: StartAgent) -> None:
    asking = start()
    peer = follow(asking, "exchange", duration_s=0.6)

    def stall_once(served: int) -> bytes:
        if served == 10:
            keep_quiet(peer, 0.2)
        return b"x"

    serve(peer, 1, stall_once)
    event = result(asking)[1]
    assert slower_than(event, 190 * MS) == 1
    assert "response" not in event, "nothing was due at any time"


def test_requests_due_but_never_sent_are_counted(start: StartAgent) -> None:
    asking = start()
    peer = follow(asking, "exchange", rate_per_s=100, duration_s=0.5)

    def slow(_: int) -> bytes:
        keep_quiet(peer, 0.1)
        return b"x"

    served = serve(peer, 1, slow)
    _, event = result(asking)
    assert event["count"] == served <= 6
    assert event["unsent"] == 50 - served


def test_a_rate_is_that_of_each_flow(start: StartAgent) -> None:
    asking, answering = start(), start()
    join("exchange", asking, answering, connections=4, rate_per_s=50, duration_s=0.4)
    _, event = result(asking)
    assert [f["count"] + f["unsent"] for f in event["flows"]] == [20] * 4


def test_a_gap_follows_each_response(start: StartAgent) -> None:
    asking, answering = start(), start()
    join("exchange", asking, answering, gap_s=0.05, duration_s=0.5)
    assert 1 <= result(asking)[1]["count"] <= 10


def test_the_warmup_is_reported_but_not_measured(start: StartAgent) -> None:
    asking = start()
    peer = follow(asking, "exchange", rate_per_s=100, warmup_s=0.2, duration_s=0.3)

    def first_slow(served: int) -> bytes:
        keep_quiet(peer, 0.05 if served == 0 else 0)
        return b"x"

    serve(peer, 1, first_slow)
    intervals, event = result(asking)
    assert max(i["max_ns"] for i in intervals if i["count"]) >= 50 * MS
    assert event["count"] + event["unsent"] == 30
    assert sum(i["count"] for i in intervals) == event["count"] + 20
    assert event["elapsed_s"] < sum(i["length_s"] for i in intervals) - 0.19


def test_intervals_follow_each_other(start: StartAgent) -> None:
    asking, answering = start(), start()
    join("exchange", asking, answering, duration_s=0.35)
    intervals, _ = result(asking)
    assert intervals[0]["start_s"] == 0
    for one, other in itertools.pairwise(intervals):
        assert other["start_s"] == pytest.approx(one["start_s"] + one["length_s"], abs=1e-6)


def test_an_interval_without_an_exchange_has_no_times(start: StartAgent) -> None:
    asking = start()
    peer = follow(asking, "exchange", duration_s=0.3)

    def slow(_: int) -> bytes:
        keep_quiet(peer, 0.35)
        return b"x"

    serve(peer, 1, slow)
    intervals, _ = result(asking)
    assert (intervals[0]["count"], intervals[0]["p50_ns"], intervals[0]["max_ns"]) == (
        0,
        None,
        None,
    )


def silence(_: socket.socket) -> None:
    pass


def end(peer: socket.socket) -> None:
    peer.shutdown(socket.SHUT_WR)


FAULTS = [(silence, "stalled"), (end, "reset"), (reset, "reset")]


@pytest.mark.parametrize(("behave", "kind"), FAULTS)
@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_peer_that_no_longer_answers(
    start: StartAgent, behave: Callable[[socket.socket], None], kind: str, size: int
) -> None:
    asking = start()
    keys = {"duration_s": LONG_S, "stall_timeout_s": 0.5, "request_size": size}
    with follow(asking, "exchange", **keys) as peer:
        assert take(peer, 1) is not None
        behave(peer)
        event = failure(asking)
    assert (event["kind"], event["flow"]) == (kind, 0)
    asking.idle()


@pytest.mark.parametrize(("behave", "kind"), FAULTS)
@pytest.mark.parametrize("sent", [b"xx", b"x"])
def test_a_peer_that_no_longer_asks(
    start: StartAgent, behave: Callable[[socket.socket], None], kind: str, sent: bytes
) -> None:
    answering = start()
    keys = {"duration_s": LONG_S, "stall_timeout_s": 0.5, "request_size": 2}
    with lead(answering, "exchange", **keys) as peer:
        peer.sendall(sent)
        behave(peer)
        event = failure(answering)
    assert (event["kind"], event["flow"]) == (kind, 0)
    answering.idle()


def test_more_than_was_asked_for_is_an_error(start: StartAgent) -> None:
    asking = start()
    with follow(asking, "exchange", duration_s=0.05) as peer, suppress(ConnectionError):
        serve(peer, 1, lambda _: b"xx")
    assert failure(asking)["kind"] == "protocol"


def test_a_pause_is_no_stall(start: StartAgent) -> None:
    asking, answering = start(), start()
    join("exchange", asking, answering, gap_s=0.5, stall_timeout_s=0.3, duration_s=0.7)
    assert result(asking)[1]["count"] == result(answering)[1]["count"] == 2


@pytest.mark.parametrize("pause", [{}, {"gap_s": 100}, {"rate_per_s": 0.001}])
@pytest.mark.parametrize("victim", ["asking", "answering"])
def test_an_abort_takes_effect_at_once(
    start: StartAgent, pause: dict[str, object], victim: str
) -> None:
    asking, answering = start(), start()
    join("exchange", asking, answering, connections=3, duration_s=LONG_S, interval_s=0.05, **pause)
    asking.expect("exchanges")
    one, other = (asking, answering) if victim == "asking" else (answering, asking)
    one.command("abort", id="job-1")
    assert failure(one)["kind"] == "aborted"
    if not pause or one is asking:
        assert failure(other)["kind"] == "reset"


@pytest.mark.parametrize(("number", "kind"), [("SIGKILL", "reset"), ("SIGSTOP", "stalled")])
@pytest.mark.parametrize("victim", ["asking", "answering"])
def test_a_peer_that_is_killed_or_suspended(
    start: StartAgent, victim: str, number: str, kind: str
) -> None:
    asking, answering = start(), start()
    join("exchange", asking, answering, connections=2, duration_s=LONG_S, stall_timeout_s=0.5)
    asking.expect("exchanges")
    one, other = (asking, answering) if victim == "asking" else (answering, asking)
    one.process.send_signal(signal.Signals[number])
    assert failure(other)["kind"] == kind


def test_no_request_within_the_time_to_arm(start: StartAgent) -> None:
    answering = start()
    with lead(answering, "exchange", arm_timeout_s=0.3):
        assert failure(answering)["kind"] == "arm-timeout"


def test_an_answering_end_that_gives_up_never_looks_like_one_that_has_ended(
    start: StartAgent,
) -> None:
    """Not even in the last second, in which an end is no longer too early."""
    answering = start()
    with lead(answering, "exchange", duration_s=0.5) as peer:
        peer.sendall(b"x")
        assert take(peer, 1) is not None
        answering.command("abort", id="job-1")
        assert failure(answering)["kind"] == "aborted"
        with pytest.raises(ConnectionResetError):
            peer.recv(1)


def test_an_agent_does_one_after_the_other(start: StartAgent) -> None:
    asking, answering = start(), start()
    for flows in (3, 1, 2):
        join("exchange", asking, answering, connections=flows, duration_s=0.05)
        assert len(result(asking)[1]["flows"]) == flows
        result(answering)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"request_size": 0}, "request_size"),
        ({"response_size": 2**31}, "response_size"),
        ({"rate_per_s": 0}, "rate_per_s"),
        ({"gap_s": -1}, "gap_s"),
        ({"gap_s": 1, "rate_per_s": 1}, "rate_per_s or gap_s"),
        ({"warmup_s": "long"}, "warmup_s"),
        ({"interval_s": 0}, "interval_s"),
    ],
)
def test_a_wrong_value_is_named(start: StartAgent, changes: dict[str, object], named: str) -> None:
    agent = start()
    agent.command("exchange", side="listen", bind="127.0.0.1", port=0, **job(**changes))
    event = agent.expect("error")
    assert named in event["message"]
    assert arm(agent, "exchange") > 0
