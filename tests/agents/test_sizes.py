"""A size sweep between agents, and against a peer that does wrong."""

from __future__ import annotations

import signal
import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.agents.lab import Event, StartAgent, arm, job, reset
from tests.agents.two_ended_jobs import failure, follow, join, keep_quiet, lead, result, take

QUICK = {"duration_s": 60, "point_s": 0.002, "min_repetitions": 1, "min_size": 1, "max_size": 96}
LONG = {"duration_s": 1000, "point_s": 0.5, "max_size": 1_000_000}
SIZES = [1, 2, 3, 4, 6, 8, 12, 13, 16, 19, 21, 24, 27, 29, 32, 35, 45, 48, 51, 61, 64, 67, 93, 96]
MODES = ("pingpong", "stream", "both")
MASK = 2**64 - 1


class Batch(NamedTuple):
    size: int
    repetitions: int
    number: int
    mode: int
    check: int

    def header(self) -> bytes:
        return struct.pack(">QQIBBH", *self, 0)


def next_batch(peer: socket.socket) -> Batch | None:
    """Read what the leading agent says before a batch; None at the end of the sweep."""
    header = take(peer, 24)
    assert header is not None
    *values, zero = struct.unpack(">QQIBBH", header)
    assert zero == 0
    batch = Batch(*values)
    return batch if batch.size else None


def mix(value: int) -> int:
    """SplitMix64."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def content(batch: Batch, repetition: int, *, from_listener: bool) -> bytes:
    """Return what docs/agent-protocol.md says of a message that is checked."""
    seed = mix((mix(mix(batch.size) + batch.number & MASK) + 2 * repetition + from_listener) & MASK)
    words = range(-(-batch.size // 8))
    return b"".join(mix(seed + w & MASK).to_bytes(8, "little") for w in words)[: batch.size]


def bounce(
    peer: socket.socket, reply: Callable[[Batch, int, bytes], bytes] = lambda _b, _r, got: got
) -> list[Batch]:
    """Play the listening end of a ping-pong; return what was announced."""
    batches = []
    while (batch := next_batch(peer)) is not None:
        batches.append(batch)
        peer.sendall(b"+")
        for repetition in range(batch.repetitions):
            got = take(peer, batch.size)
            assert got is not None
            peer.sendall(reply(batch, repetition, got))
    return batches


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("flows", [1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_sweep_measures_every_size(start: StartAgent, mode: str, flows: int, check: bool) -> None:
    leader, follower = start(), start()
    join("sizes", leader, follower, mode=mode, connections=flows, check=check, **QUICK)
    points, led = result(leader)
    nothing, followed = result(follower)
    assert nothing == []
    assert [p["size"] for p in points] == SIZES
    for point in points:
        assert (point["event"], point["trials"]) == ("point", 3)
        assert point["repetitions"] >= 3
        times = zip(
            point["time_min_us"], point["time_median_us"], point["time_max_us"], strict=True
        )
        assert all(0 < low <= middle <= high for low, middle, high in times)
        assert len(point["time_min_us"]) == flows
        # No flow's median trial is slower than the median of the slowest ones.
        assert max(point["time_median_us"]) <= point["time_slowest_us"] * (1 + 1e-9)
        assert point["time_slowest_us"] <= max(point["time_max_us"]) * (1 + 1e-9)
    assert (led["points"], led["complete"], led["mode"], led["check"]) == (24, True, mode, check)
    assert [f["messages"] for f in led["flows"]] == [f["messages"] for f in followed["flows"]]


@pytest.mark.parametrize("mode", MODES)
def test_messages_larger_than_all_buffers(start: StartAgent, mode: str) -> None:
    leader, follower = start(), start()
    keys = {**QUICK, "min_size": 5_000_000, "max_size": 5_000_000, "connections": 2, "check": True}
    join("sizes", leader, follower, mode=mode, window=65536, **keys)
    points, _ = result(leader)
    assert [p["size"] for p in points] == [5_000_000]
    result(follower)


def test_a_message_takes_half_a_round_trip(start: StartAgent) -> None:
    leader = start()
    with follow(leader, "sizes", **{**QUICK, "max_size": 2, "trials": 2}) as peer:

        def late(_batch: Batch, _repetition: int, got: bytes) -> bytes:
            keep_quiet(peer, 0.02)
            return got

        batches = bounce(peer, late)
    points, led = result(leader)
    assert [p["time_min_us"][0] >= 10_000 for p in points] == [True, True]
    assert [b.number for b in batches] == list(range(len(batches)))
    assert led["flows"][0]["messages"] == 2 * sum(b.repetitions for b in batches)


def test_a_stream_is_over_when_it_is_acknowledged(start: StartAgent) -> None:
    leader = start()
    keys = {**QUICK, "max_size": 1, "trials": 1, "mode": "stream"}
    with follow(leader, "sizes", **keys) as peer:
        while (batch := next_batch(peer)) is not None:
            peer.sendall(b"+")
            assert take(peer, batch.size * batch.repetitions) is not None
            keep_quiet(peer, 0.02)
            peer.sendall(b"+")
            last = batch
    (point,), _ = result(leader)
    assert point["repetitions"] == last.repetitions
    assert point["time_min_us"][0] * last.repetitions >= 20_000


def test_repetitions_adapt_to_the_time(start: StartAgent) -> None:
    leader = start()
    keys = {**QUICK, "max_size": 1, "point_s": 0.3, "trials": 3}
    with follow(leader, "sizes", **keys) as peer:

        def late(_batch: Batch, _repetition: int, got: bytes) -> bytes:
            keep_quiet(peer, 0.01)
            return got

        bounce(peer, late)
    (point,), _ = result(leader)
    assert 3 <= point["repetitions"] <= 30


def test_a_burst_at_first_does_not_mislead(start: StartAgent) -> None:
    """As a token bucket lets the first messages pass: a few of them say little of the next."""
    leader = start()
    messages = 0
    with follow(leader, "sizes", **{**QUICK, "max_size": 1, "point_s": 0.3}) as peer:

        def later(_batch: Batch, _repetition: int, got: bytes) -> bytes:
            nonlocal messages
            messages += 1
            if messages > 5:
                keep_quiet(peer, 0.01)
            return got

        bounce(peer, later)
    result(leader)
    assert messages <= 1 + 8 + 64 + 3 * 10


def test_the_following_end_closes_after_the_leading_end(start: StartAgent) -> None:
    """Else the leader, whose own end is still on its way, takes that for a broken flow."""
    follower = start()
    with lead(follower, "sizes", **QUICK) as peer:
        batch = Batch(1, 1, 0, 0, 0)
        peer.sendall(batch.header() + b"x")
        assert take(peer, 2) is not None
        peer.sendall(Batch(0, 0, 1, 0, 0).header())
        keep_quiet(peer, 0.2)
        peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.recv(1)
        peer.setblocking(True)
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1) == b""
        result(follower)


def test_the_content_is_that_of_the_manual(start: StartAgent) -> None:
    leader = start()
    keys = {**QUICK, "min_size": 13, "max_size": 19, "check": True}
    with follow(leader, "sizes", **keys) as peer:

        def compare(batch: Batch, repetition: int, got: bytes) -> bytes:
            assert got == content(batch, repetition, from_listener=False)
            return content(batch, repetition, from_listener=True)

        bounce(peer, compare)
    points, _ = result(leader)
    assert [p["size"] for p in points] == [13, 16, 19]


@pytest.mark.parametrize("offset", [0, 7, 8, 12])
def test_a_wrong_byte_is_found_by_the_leading_end(start: StartAgent, offset: int) -> None:
    leader = start()
    keys = {**QUICK, "min_size": 13, "max_size": 13, "check": True}
    with follow(leader, "sizes", **keys) as peer:
        batch = next_batch(peer)
        assert batch is not None
        peer.sendall(b"+")
        wrong = bytearray(content(batch, 0, from_listener=True))
        wrong[offset] ^= 1
        peer.sendall(wrong)
        event = failure(leader)
    assert (event["kind"], event["flow"]) == ("corrupt", 0)
    assert (
        f"byte {offset} is 0x{wrong[offset]:02x}, not 0x{wrong[offset] ^ 1:02x}" in event["message"]
    )
    assert "size 13" in event["message"]
    leader.idle()


@pytest.mark.parametrize("mode", MODES)
def test_a_wrong_byte_is_found_by_the_following_end(start: StartAgent, mode: str) -> None:
    follower = start()
    batch = Batch(20, 5, 0, MODES.index(mode), 1)
    with lead(follower, "sizes", **QUICK, check=True, mode=mode) as peer:
        peer.sendall(batch.header())
        assert peer.recv(1) == b"+"
        peer.sendall(content(batch, 0, from_listener=False))
        if mode != "stream":
            assert take(peer, 20) == content(batch, 0, from_listener=True)
        peer.sendall(content(batch, 0, from_listener=False))  # the first one again
        event = failure(follower)
    assert event["kind"] == "corrupt"
    assert "repetition 1: byte 0" in event["message"]


@pytest.mark.parametrize(
    "batch",
    [
        Batch(97, 1, 0, 0, 0),
        Batch(2**64 - 1, 1, 0, 0, 0),
        Batch(1, 0, 0, 0, 0),
        Batch(1, 2**63, 0, 0, 0),
        Batch(1, 1, 1, 0, 0),
        Batch(1, 1, 0, 1, 0),
        Batch(1, 1, 0, 0, 1),
    ],
)
def test_a_batch_that_makes_no_sense(start: StartAgent, batch: Batch) -> None:
    follower = start()
    with lead(follower, "sizes", **QUICK) as peer:
        peer.sendall(batch.header())
        event = failure(follower)
    assert (event["kind"], event["flow"]) == ("protocol", 0)
    follower.idle()


@pytest.mark.parametrize("mode", ["pingpong", "stream"])
def test_an_answer_that_makes_no_sense(start: StartAgent, mode: str) -> None:
    leader = start()
    with follow(leader, "sizes", **QUICK, mode=mode) as peer:
        assert next_batch(peer) is not None
        peer.sendall(b"+-" if mode == "stream" else b"-")
        assert failure(leader)["kind"] == "protocol"


def silence(_: socket.socket) -> None:
    pass


def end(peer: socket.socket) -> None:
    peer.shutdown(socket.SHUT_WR)


FAULTS = [(silence, "stalled"), (end, "reset"), (reset, "reset")]


@pytest.mark.parametrize(("behave", "kind"), FAULTS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 3_000_000])
def test_a_follower_that_stops_ends_the_leader(
    start: StartAgent, behave: Callable[[socket.socket], None], kind: str, mode: str, size: int
) -> None:
    leader = start()
    keys = {**QUICK, "min_size": size, "max_size": size, "stall_timeout_s": 0.5, "mode": mode}
    with follow(leader, "sizes", **keys) as peer:
        assert next_batch(peer) is not None
        peer.sendall(b"+")
        behave(peer)
        assert failure(leader)["kind"] == kind
    leader.idle()


@pytest.mark.parametrize(("behave", "kind"), FAULTS)
@pytest.mark.parametrize("said", [b"\0", Batch(50, 3, 0, 0, 0).header(), None])
def test_a_leader_that_stops_ends_the_follower(
    start: StartAgent, behave: Callable[[socket.socket], None], kind: str, said: bytes | None
) -> None:
    follower = start()
    with lead(follower, "sizes", **QUICK, stall_timeout_s=0.5) as peer:
        peer.sendall(Batch(50, 3, 0, 0, 0).header() + bytes(70) if said is None else said)
        behave(peer)
        assert failure(follower)["kind"] == kind
    follower.idle()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("victim", ["leader", "follower"])
def test_an_abort_ends_both(start: StartAgent, victim: str, mode: str) -> None:
    leader, follower = start(), start()
    join("sizes", leader, follower, **{**LONG, "connections": 3, "mode": mode})
    leader.expect("point")
    one, other = (leader, follower) if victim == "leader" else (follower, leader)
    one.command("abort", id="job-1")
    assert failure(one)["kind"] == "aborted"
    assert failure(other)["kind"] == "reset"
    one.idle()


@pytest.mark.parametrize(("number", "kind"), [("SIGKILL", "reset"), ("SIGSTOP", "stalled")])
@pytest.mark.parametrize("victim", ["leader", "follower"])
def test_a_peer_that_is_killed_or_suspended(
    start: StartAgent, victim: str, number: str, kind: str
) -> None:
    leader, follower = start(), start()
    join("sizes", leader, follower, **{**LONG, "connections": 2, "stall_timeout_s": 0.5})
    leader.expect("point")
    one, other = (leader, follower) if victim == "leader" else (follower, leader)
    one.process.send_signal(signal.Signals[number])
    assert failure(other)["kind"] == kind


def points_of(events: list[Event]) -> list[int]:
    return [event["size"] for event in events]


def test_no_size_is_begun_that_would_end_too_late(start: StartAgent) -> None:
    leader = start()
    keys = {**QUICK, "trials": 1, "duration_s": 0.2}
    with follow(leader, "sizes", **keys) as peer:

        def late(_batch: Batch, _repetition: int, got: bytes) -> bytes:
            keep_quiet(peer, 0.02)
            return got

        bounce(peer, late)
    points, led = result(leader)
    assert points_of(points) == SIZES[: len(points)]
    assert (led["points"], led["complete"]) == (len(points), False)
    assert len(points) <= 5


def test_an_agent_does_one_after_the_other(start: StartAgent) -> None:
    leader, follower = start(), start()
    for high, flows in ((8, 2), (3, 1), (12, 3)):
        join("sizes", leader, follower, **{**QUICK, "max_size": high, "connections": flows})
        assert points_of(result(leader)[0]) == [s for s in SIZES if s <= high]
        result(follower)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"min_size": 0}, "min_size"),
        ({"min_size": 9, "max_size": 8}, "min_size"),
        ({"max_size": 2**31}, "max_size"),
        ({"connections": 1000, "max_size": 2**26}, "2 GiB"),
        ({"mode": "sideways"}, "mode"),
        ({"check": 1}, "check"),
        ({"point_s": 0}, "point_s"),
        ({"trials": 32}, "trials"),
        ({"min_repetitions": 0}, "min_repetitions"),
        ({"duration_s": 0}, "duration_s"),
    ],
)
def test_a_wrong_value_is_named(start: StartAgent, changes: dict[str, object], named: str) -> None:
    agent = start()
    agent.command("sizes", side="listen", bind="127.0.0.1", port=0, **job(**changes))
    assert named in agent.expect("error")["message"]
    assert arm(agent, "sizes") > 0
