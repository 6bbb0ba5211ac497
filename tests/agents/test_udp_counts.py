"""What a receiver makes of datagrams whose fate is known: the test is the sender and the path."""

from __future__ import annotations

import itertools
import math
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.lab import Agent, StartAgent
from tests.agents.udp_peer import (
    MEASURED,
    REVERSE,
    WARMUP,
    Peer,
    count,
    datagram,
    flow_of,
    playing_sender,
)

WINDOW = 65536


def receive(receiver: Agent, sequences: list[int], sent: int) -> dict[str, Any]:
    """Have the agent receive these numbers of `sent`; return its flow."""
    with playing_sender(receiver) as peer:
        peer.send(sequences)
        peer.end(sent)
        return flow_of(receiver.ending()[1])


def reference(sequences: list[int], sent: int) -> dict[str, int]:
    """Count by the definitions, over lists of everything."""
    first = list(dict.fromkeys(sequences))
    extents = []
    for index, sequence in enumerate(first):
        before = [at for at in range(index) if first[at] > sequence]
        if before:  # RFC 4737: reordered; the extent is the way back to the first that overtook it
            extents.append(index - before[0])
    runs = [
        len(list(run))
        for lost, run in itertools.groupby(n not in first for n in range(sent))
        if lost
    ]
    return {
        "sent": sent,
        "datagrams": len(first),
        "lost": sent - len(first),
        "duplicates": len(sequences) - len(first),
        "reordered": len(extents),
        "reordering_extent_max": max(extents, default=0),
        "loss_episodes": len(runs),
        "loss_longest": max(runs, default=0),
        "late": 0,
        "foreign": 0,
        "dropped": 0,
    }


CASES: list[tuple[str, list[int], int]] = [
    ("all", list(range(20)), 20),
    ("none", [], 20),
    ("the first is lost", list(range(1, 20)), 20),
    ("the last are lost", list(range(15)), 20),
    ("two holes", [0, 1, 4, 5, 6, 9], 10),
    ("a swap", [0, 2, 1, 3], 4),
    ("one comes three later", [0, 2, 3, 4, 1], 5),
    ("backwards", [4, 3, 2, 1, 0], 5),
    ("each twice", [0, 0, 1, 1, 2, 2], 3),
    ("a duplicate of the past", [0, 1, 2, 3, 0], 4),
    ("a late duplicate of a reordered one", [0, 2, 1, 3, 1], 4),
    ("nothing was sent", [], 0),
]


@pytest.mark.parametrize(
    ("sequences", "sent"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_loss_and_reordering_of_known_patterns_are_counted(
    start: StartAgent, sequences: list[int], sent: int
) -> None:
    expected = reference(sequences, sent)
    flow = receive(start(), sequences, sent)
    assert {key: flow[key] for key in expected} == expected


@pytest.fixture(scope="module")
def one_receiver(binary: Path) -> Iterator[Agent]:
    with Agent(binary) as agent:
        yield agent


@st.composite
def paths(draw: st.DrawFn) -> tuple[list[int], int]:
    """Draw what arrives of some datagrams: some lost, some twice, some moved."""
    sent = draw(st.integers(1, 60))
    arrivals = draw(st.lists(st.integers(0, sent - 1), max_size=90))
    in_order = draw(st.booleans())
    return (sorted(arrivals) if in_order else arrivals), sent


@settings(max_examples=25, deadline=None)
@given(path=paths())
def test_any_loss_duplication_and_reordering_is_counted_correctly(
    one_receiver: Agent, path: tuple[list[int], int]
) -> None:
    sequences, sent = path
    expected = reference(sequences, sent)
    flow = receive(one_receiver, sequences, sent)
    assert {key: flow[key] for key in expected} == expected


def test_a_datagram_older_than_the_window_counts_as_late(start: StartAgent) -> None:
    """The numbers behind the window stay lost: nobody knows whether they had come."""
    top = 2 * WINDOW
    oldest = top - WINDOW + 1
    flow = receive(start(), [0, top, oldest, oldest - 1, 0], top + 1)
    assert flow["datagrams"] == 3
    assert flow["reordered"] == 1
    assert flow["late"] == 2
    assert flow["duplicates"] == 0
    assert flow["lost"] == top + 1 - 3
    assert flow["loss_episodes"] == 2
    assert flow["loss_longest"] == WINDOW


@pytest.mark.parametrize("outage", [WINDOW - 1, WINDOW, WINDOW + 1, 10**15])
def test_an_outage_of_any_length_is_one_episode(start: StartAgent, outage: int) -> None:
    before, after = [0, 1], [outage + 2, outage + 3]
    flow = receive(start(), before + after, outage + 4)
    assert (flow["loss_episodes"], flow["loss_longest"]) == (1, outage)
    assert flow["lost"] == outage


def test_the_warm_up_has_numbers_of_its_own(start: StartAgent) -> None:
    receiver = start()
    with playing_sender(receiver) as peer:
        peer.send([0, 1, 3], phase=WARMUP)
        peer.send([0, 0, 2], phase=MEASURED)
        peer.end(3, warmup=5)
        flow = flow_of(receiver.ending()[1])
    warmup = flow["warmup"]
    assert (warmup["sent"], warmup["datagrams"], warmup["lost"]) == (5, 3, 2)
    assert (flow["datagrams"], flow["lost"], flow["duplicates"]) == (2, 1, 1)


def foreign() -> list[bytes]:
    good = datagram(1)
    return [
        b"",
        b"x" * len(good),
        good[:-1],
        good + b".",
        datagram(1, cookie="ff" * 16),
        datagram(1, flow=1),
        datagram(1, direction=REVERSE),
        datagram(1, phase=2),
        datagram(2**63),
    ]


def test_foreign_datagrams_are_counted_separately(start: StartAgent) -> None:
    receiver = start()
    with playing_sender(receiver) as peer:
        peer.send([0])
        others = foreign()
        for data in others:
            peer.data.send(data)
        peer.send([1])
        peer.end(2)
        flow = flow_of(receiver.ending()[1])
    assert flow["foreign"] == len(others)
    assert (flow["datagrams"], flow["lost"], flow["duplicates"]) == (2, 0, 0)


def test_datagrams_of_another_source_port_are_not_counted(start: StartAgent) -> None:
    """Even one who knows the cookie: datagrams are taken from the peer's port alone."""
    receiver = start()
    with playing_sender(receiver) as peer, Peer(peer.control.dup()) as stranger:
        stranger.data.connect(peer.data.getpeername())
        stranger.data.send(datagram(0))
        peer.send([1])
        peer.end(2)
        flow = flow_of(receiver.ending()[1])
    assert (flow["datagrams"], flow["lost"]) == (1, 1)


def test_a_full_socket_buffer_is_not_the_network(start: StartAgent) -> None:
    """While the receiver can't read, its socket drops; that is told apart from other loss."""
    receiver = start()
    with playing_sender(receiver) as peer:
        peer.send([0])
        receiver.expect("interval")
        receiver.process.send_signal(signal.SIGSTOP)
        peer.send(range(1, 3000))
        receiver.process.send_signal(signal.SIGCONT)
        peer.end(3010)
        flow = flow_of(receiver.ending()[1])
    assert flow["dropped"] > 0
    assert flow["lost"] == flow["dropped"] + 10


def test_datagrams_queued_when_the_count_arrives_are_counted(start: StartAgent) -> None:
    """More than one look at the socket takes, and all of it before the count."""
    receiver = start()
    with playing_sender(receiver) as peer:
        receiver.process.send_signal(signal.SIGSTOP)
        peer.send([0] * 200)
        peer.control.sendall(count(1))
        receiver.process.send_signal(signal.SIGCONT)
        flow = flow_of(receiver.ending()[1])
    assert (flow["datagrams"], flow["duplicates"], flow["dropped"]) == (1, 199, 0)


def test_jitter_and_delay_variation_follow_the_times_of_sending(start: StartAgent) -> None:
    """Times of sending that we make up: the delay grows by 1 ms with each second datagram."""
    receiver = start()
    step_ns = 1_000_000_000
    with playing_sender(receiver) as peer:
        for sequence in range(40):
            # What really passes between two of them is far less than a second.
            lead_ns = -(sequence // 2) * step_ns
            sent_ns = time.monotonic_ns() + lead_ns
            peer.data.send(datagram(sequence, sent_ns=sent_ns))
        peer.end(40)
        flow = flow_of(receiver.ending()[1])
    variation = flow["delay_variation"]
    assert variation["count"] == 39
    assert variation["p50_us"] < 0.2e6
    assert math.isclose(variation["p90_us"], 1e6, rel_tol=0.2)
    assert math.isclose(variation["max_us"], 1e6, rel_tol=0.2)
    # RFC 3550: J += (|D| - J) / 16, with |D| = 0 and 1 s by turns.
    jitter, values = 0.0, []
    for index in range(1, 40):
        jitter += ((0.0 if index % 2 else 1e6) - jitter) / 16
        values.append(jitter)
    assert math.isclose(flow["jitter_us"], sum(values) / len(values), rel_tol=0.2)
    assert math.isclose(flow["jitter_max_us"], max(values), rel_tol=0.2)


def test_a_straggler_is_waited_for(start: StartAgent) -> None:
    """What comes within the loss threshold behind the count is not lost."""
    receiver = start()
    with playing_sender(receiver, loss_threshold_s=5) as peer:
        peer.send([0, 1])
        peer.control.sendall(bytes(8) + (3).to_bytes(8) + bytes(8))
        receiver.idle()
        began = time.monotonic()
        peer.send([2])
        flow = flow_of(receiver.ending()[1])
    assert flow["lost"] == 0
    assert time.monotonic() - began < 4, "it waited although nothing was missing"


def test_the_wait_for_the_count_is_no_part_of_the_transfer(start: StartAgent) -> None:
    receiver = start()
    with playing_sender(receiver, interval_s=0.3, duration_s=5) as peer:
        peer.send([0, 1])
        first = receiver.expect("interval")
        peer.end(2)
        result = receiver.ending()[1]
    assert result["elapsed_s"] < first["length_s"]


def test_the_wait_for_lost_datagrams_is_not_counted_in_the_transfer(start: StartAgent) -> None:
    wait_s = 3
    receiver = start()
    with playing_sender(receiver, loss_threshold_s=wait_s, interval_s=0.3) as peer:
        peer.send([0, 1])
        peer.end(4)
        intervals, result = receiver.ending()
    flow = flow_of(result)
    assert flow["lost"] == sum(interval["lost"][0] for interval in intervals) == 2
    for length_s in (result["elapsed_s"], flow["end_s"], result["endpoint"]["elapsed_s"]):
        assert 0 < length_s < wait_s
    assert sum(i["length_s"] for i in intervals) == pytest.approx(result["elapsed_s"], abs=1e-6)
