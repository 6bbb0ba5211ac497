"""What goes wrong in a UDP job ends in one error event, or is a result."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.agents.lab import Agent, StartAgent, succeed
from tests.agents.paths import Paths
from tests.agents.udp_peer import (
    REVERSE,
    count,
    datagram,
    flow_of,
    playing_receiver,
    playing_sender,
    run,
    udp_job,
)

LONG_S = 60


def error_of(agent: Agent) -> tuple[str, str]:
    _, event = agent.ending()
    assert event["event"] == "error", event
    return event["kind"], event["message"]


def assert_works(one: Agent, other: Agent) -> None:
    run(one, other, duration_s=0.1)
    succeed(one, other)


def test_a_silent_path_is_a_result(start: StartAgent) -> None:
    """Nothing comes, but the peer says that it has sent: all is lost."""
    receiver = start()
    with playing_sender(receiver) as peer:
        peer.end(1000)
        flow = flow_of(receiver.ending()[1])
    assert (flow["sent"], flow["datagrams"], flow["lost"]) == (1000, 0, 1000)
    assert (flow["loss_episodes"], flow["loss_longest"]) == (1, 1000)
    assert flow["goodput_bps"] == 0
    assert flow["jitter_us"] is None
    assert flow["delay_variation"]["p99_us"] is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("victim", ["sender", "receiver"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_a_killed_peer_is_a_reset(
    start: StartAgent, direction: str, victim: str, number: signal.Signals
) -> None:
    connecting, listening = start(), start()
    run(connecting, listening, direction=direction, connections=3, duration_s=LONG_S)
    connecting.expect("interval")
    listening.expect("interval")
    sends = {"forward": connecting, "reverse": listening}[direction]
    receives = listening if sends is connecting else connecting
    dead, other = (sends, receives) if victim == "sender" else (receives, sends)
    dead.process.send_signal(number)
    began = time.monotonic()
    assert error_of(other)[0] == "reset"
    assert time.monotonic() - began < 5
    assert_works(other, start())


@pytest.mark.parametrize("aborted", [0, 1])
def test_abort_ends_both_ends(start: StartAgent, aborted: int) -> None:
    ends = start(), start()
    run(*ends, connections=3, duration_s=LONG_S)
    ends[aborted].expect("interval")
    ends[aborted].command("abort", id="job-1")
    assert error_of(ends[aborted])[0] == "aborted"
    assert error_of(ends[not aborted])[0] == "reset"
    assert_works(*ends)


@pytest.mark.parametrize("aborted", [0, 1])
def test_an_abort_before_the_start_ends_both_ends(start: StartAgent, aborted: int) -> None:
    ends = start(), start()
    keys = udp_job(connections=2)
    ends[1].command("udp", side="listen", bind="127.0.0.1", port=0, **keys)
    port = ends[1].expect("listening")["port"]
    ends[0].command("udp", side="connect", host="127.0.0.1", port=port, **keys)
    for end in ends:
        end.expect("connected")
    ends[aborted].command("abort", id="job-1")
    assert error_of(ends[aborted])[0] == "aborted"
    assert error_of(ends[not aborted])[0] == "reset"
    assert_works(*ends)


def test_no_start_is_an_arm_timeout(start: StartAgent) -> None:
    ends = start(), start()
    keys = udp_job(arm_timeout_s=0.3)
    ends[1].command("udp", side="listen", bind="127.0.0.1", port=0, **keys)
    port = ends[1].expect("listening")["port"]
    ends[0].command("udp", side="connect", host="127.0.0.1", port=port, **keys)
    for end in ends:
        end.expect("connected")
    kinds = {error_of(end)[0] for end in ends}
    assert "arm-timeout" in kinds
    assert kinds <= {"arm-timeout", "reset"}
    assert_works(*ends)


def test_a_closed_port_names_the_cure(start: StartAgent) -> None:
    """The peer lives, but its UDP port is shut: the datagrams are answered by ICMP."""
    sender = start()
    with playing_receiver(sender, duration_s=LONG_S) as peer:
        peer.data.close()
        sender.command("start", id="job-1")
        kind, message = error_of(sender)
    assert kind == "connect"
    assert "firewall" in message
    assert_works(sender, start())


def test_without_a_free_port_there_is_a_bind_error(start: StartAgent) -> None:
    listening, connecting = start(), start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 65535))
        keys = udp_job(udp_port=65535)
        listening.command("udp", side="listen", bind="127.0.0.1", port=0, **keys)
        port = listening.expect("listening")["port"]
        connecting.command("udp", side="connect", host="127.0.0.1", port=port, **udp_job())
        assert error_of(listening)[0] == "bind"
        assert error_of(connecting)[0] == "reset"
    assert_works(connecting, listening)


def test_a_peer_that_sends_no_port_is_an_arm_timeout(start: StartAgent) -> None:
    sender = start()
    with socket.create_server(("127.0.0.1", 0)) as server:
        keys = udp_job(arm_timeout_s=0.3)
        port = server.getsockname()[1]
        sender.command("udp", side="connect", host="127.0.0.1", port=port, **keys)
        peer, _ = server.accept()
    with peer:
        peer.sendall(b"+")
        assert error_of(sender)[0] == "arm-timeout"
    assert_works(sender, start())


def test_a_sender_that_never_sends_its_count_is_a_stall(start: StartAgent) -> None:
    receiver = start()
    with playing_sender(receiver, stall_timeout_s=0.3) as peer:
        peer.send([0])
        assert error_of(receiver)[0] == "stalled"
    assert_works(receiver, start())


def test_a_sender_that_ends_without_a_count(start: StartAgent) -> None:
    receiver = start()
    with playing_sender(receiver, duration_s=LONG_S) as peer:
        peer.send([0])
        peer.control.shutdown(socket.SHUT_WR)
        assert error_of(receiver)[0] == "reset"
    assert_works(receiver, start())


def test_a_receiver_that_never_closes(start: StartAgent) -> None:
    sender = start()
    with playing_receiver(sender, stall_timeout_s=0.2) as peer:
        sender.command("start", id="job-1")
        assert error_of(sender)[0] == "stalled"
        assert peer.control.recv(1) == b"G"
    assert_works(sender, start())


def test_a_receiver_that_resets_its_connection_ends_the_sender(start: StartAgent) -> None:
    sender = start()
    with playing_receiver(sender, duration_s=LONG_S) as peer:
        sender.command("start", id="job-1")
        sender.expect("interval")
        peer.control.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.control.close()
        assert error_of(sender)[0] == "reset"
    assert_works(sender, start())


def test_the_messages_and_datagrams_of_a_udp_sender_follow_the_protocol(start: StartAgent) -> None:
    """Go, datagrams numbered from 0 with times that rise, and the count of them."""
    sender = start()
    with playing_receiver(sender, rate_bps=4e5, size=100) as peer:
        sender.command("start", id="job-1")
        assert peer.control.recv(1) == b"G"
        told = peer.control.recv(24, socket.MSG_WAITALL)
        assert peer.control.recv(1) == b""
        warmup, count, length_ns = struct.unpack(">QQQ", told)
        data = [peer.data.recv(2000) for _ in range(count)]
        peer.control.close()
        flow = flow_of(sender.ending()[1])
    heads = [struct.unpack(">4s8sHBBQq", datagram[:32]) for datagram in data]
    assert (warmup, flow["sent"]) == (0, count)
    assert count > 100
    assert length_ns >= 0.3e9
    assert [head[5] for head in heads] == list(range(count))
    assert all(
        head[:5] == (b"OSMU", b"\x00\x11\x22\x33\x44\x55\x66\x77", 0, 1, 0) for head in heads
    )
    times = [head[6] for head in heads]
    assert times == sorted(times)
    assert all(len(datagram) == 100 for datagram in data)


def test_reverse_is_marked(start: StartAgent) -> None:
    """The listening end sends once the connecting one says go, and marks its direction."""
    sender = start()
    with playing_sender(sender, direction="reverse", duration_s=0.1) as peer:
        assert peer.data.recv(2000)[15] == REVERSE
        assert len(peer.control.recv(24, socket.MSG_WAITALL)) == 24
        peer.control.close()
        flow_of(sender.ending()[1])


@pytest.mark.parametrize(
    "said", [count(1 << 60), count(1, warmup=(1 << 64) - 1), struct.pack(">QQq", 0, 1, -1)]
)
def test_a_count_that_can_not_be(start: StartAgent, said: bytes) -> None:
    receiver = start()
    with playing_sender(receiver) as peer:
        peer.control.sendall(said)
        assert error_of(receiver)[0] == "protocol"
    assert_works(start(), receiver)


@pytest.mark.parametrize("sent_ns", [-(1 << 63), -1, 1 << 60, (1 << 63) - 1])
def test_a_datagram_with_an_impossible_time_counts_as_foreign(
    start: StartAgent, sent_ns: int
) -> None:
    receiver = start()
    with playing_sender(receiver) as peer:
        peer.send([0])
        peer.data.send(datagram(1, sent_ns=sent_ns))
        peer.end(1)
        flow = flow_of(receiver.ending()[1])
    assert (flow["datagrams"], flow["foreign"]) == (1, 1)


@pytest.mark.parametrize("rate_bps", [1e-300, 1e-9, 1])
def test_a_tiny_rate_sends_at_most_the_first_request(start: StartAgent, rate_bps: float) -> None:
    """The first datagram of a flow may be due at once, no other one within the job."""
    ends = start(), start()
    run(*ends, rate_bps=rate_bps, connections=3, duration_s=0.3)
    for _, result in succeed(*ends):
        assert [flow["sent"] for flow in result["flows"]] == [1, 0, 0]


def test_a_datagram_that_the_system_has_no_buffer_for(binary: Path) -> None:
    """Its fragments take more than the socket may have (ENOBUFS): it is counted."""
    if os.geteuid() != 0:
        pytest.skip("a namespace with a path of its own needs root")
    with closing(Paths(binary)) as paths:
        sent, received = paths.datagrams(size=60_000, window=8192, duration_s=0.5)
    assert sent["send_refused"] > 0
    assert sent["sent"] == received["sent"] == received["datagrams"] == 0
