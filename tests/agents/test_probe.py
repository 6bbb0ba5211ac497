"""Requests beside the flow's connection: each with its own, or in datagrams of UDP and ICMP."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.agents.lab import COOKIE, TIMEOUT_S, Agent, Event, StartAgent, arm, dial, job
from tests.agents.two_ended_jobs import failure, join, keep_quiet, lead, result, take

MS = 1_000_000
SIZES: dict[str, object] = {"request_size": 16, "response_size": 16}
HEAD = bytes.fromhex(COOKIE)[:8] + bytes(2)
beside = pytest.mark.parametrize("protocol", ["tcp-connect", "udp", "icmp"])


@contextmanager
def asked(agent: Agent, port: int, protocol: str, **changes: object) -> Iterator[socket.socket]:
    """Play the end that answers at a port of ours; give the flow's connection."""
    keys = job(protocol=protocol, **{**SIZES, **changes})
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = server.getsockname()[1]
        agent.command("exchange", side="connect", host="127.0.0.1", port=there, **keys)
        server.settimeout(TIMEOUT_S)
        peer, _ = server.accept()
    with peer:
        peer.settimeout(TIMEOUT_S)
        take(peer, 48)
        peer.sendall(b"+")
        keep_quiet(peer, 0.05)  # the port is not always there at once
        peer.sendall(port.to_bytes(2))
        agent.expect("connected")
        agent.command("start", id="job-1")
        assert take(peer, 1) == b"G"
        yield peer


@contextmanager
def echo_server(answer: Callable[[int], list[float]]) -> Iterator[int]:
    """Answer datagrams as told: after how many seconds each copy of an answer is to come."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        timers = []

        def serve() -> None:
            while True:
                data, who = sock.recvfrom(65536)
                if data == b"end":
                    return
                for delay in answer(int.from_bytes(data[10:16])):
                    timers.append(threading.Timer(delay, sock.sendto, (data, who)))
                    timers[-1].start()

        thread = threading.Thread(target=serve)
        thread.start()
        port = sock.getsockname()[1]
        yield port
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", ("127.0.0.1", port))
        thread.join()
        for timer in timers:
            timer.join()


def udp_result(
    start: StartAgent, answer: Callable[[int], list[float]], **changes: object
) -> tuple[list[Event], Event]:
    """Ask a server of ours that answers so; return what the agent tells."""
    asking = start()
    with echo_server(answer) as port, asked(asking, port, "udp", **changes) as peer:
        assert take(peer, 1) is None
        peer.close()
        return result(asking)


@beside
@pytest.mark.parametrize("keys", [{}, {"rate_per_s": 100}, {"connections": 4}, {"gap_s": 0.01}])
def test_both_ends_agree(start: StartAgent, protocol: str, keys: dict[str, object]) -> None:
    asking, answering = start(), start()
    join("exchange", asking, answering, protocol=protocol, **SIZES, **keys)
    told, one = result(asking)
    _, other = result(answering)
    lost = 0 if protocol == "tcp-connect" else sum(flow["lost"] for flow in one["flows"])
    assert one["count"] == sum(one["histogram"]["count"]) == sum(i["count"] for i in told) > 0
    assert one["lost"] == (None if protocol == "tcp-connect" else lost)
    if protocol != "icmp":  # there the kernel answers
        assert other["count"] == one["count"] + lost
        assert all(flow["count"] > 0 for flow in other["flows"])
    assert (one["refused"], other["refused"]) == (0, 0)


@beside
@pytest.mark.parametrize("size", [16, 1000, 60_000])
def test_messages_of_any_size_are_answered(start: StartAgent, protocol: str, size: int) -> None:
    asking, answering = start(), start()
    sizes = {"request_size": size, "response_size": size}
    join("exchange", asking, answering, protocol=protocol, duration_s=0.05, **sizes)
    assert result(asking)[1]["count"] > 0
    assert result(answering)[1]["event"] == "result"


@pytest.mark.parametrize("protocol", ["tcp-connect", "udp", "icmp"])
def test_requests_over_ipv6_are_counted(start: StartAgent, protocol: str) -> None:
    asking, answering = start(), start()
    keys = job(protocol=protocol, **SIZES)
    answering.command("exchange", side="listen", bind="::1", port=0, **keys)
    event = answering.event()
    if event["event"] == "error":
        pytest.skip("no IPv6 here")
    asking.command("exchange", side="connect", host="::1", port=event["port"], **keys)
    asking.expect("connected")
    answering.expect("connected")
    asking.command("start", id="job-1")
    assert result(asking)[1]["count"] > 0
    result(answering)


def test_each_request_has_a_connection_of_its_own(start: StartAgent) -> None:
    """Its time begins with the connection; the end that asks leaves no port behind."""
    asking = start()
    numbers, ports = [], set()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        port = server.getsockname()[1]
        with asked(asking, port, "tcp-connect", rate_per_s=50, duration_s=0.5) as flow:
            # A machine that is busy has time for fewer than 25 of them.
            while server in select.select([server, flow], [], [], TIMEOUT_S)[0]:
                peer, (_, theirs) = server.accept()
                with peer:
                    request = take(peer, 16)
                    assert request is not None
                    assert request[:10] == HEAD
                    numbers.append(int.from_bytes(request[10:]))
                    peer.sendall(bytes(16))
                    peer.settimeout(TIMEOUT_S)
                    with pytest.raises(ConnectionResetError):
                        peer.recv(1)
                ports.add(theirs)
            assert take(flow, 1) is None
            flow.close()
            assert result(asking)[1]["count"] == len(numbers) > 1
    assert numbers == list(range(len(numbers)))
    assert len(ports) == len(numbers)
    assert not {(port, theirs) for theirs in ports} & waiting()


def waiting() -> set[tuple[int, int]]:
    """Return the ports, in both orders, of connections in TIME-WAIT (state 06)."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    fields = [line.split() for line in lines]
    ends = [
        [int(end.rpartition(":")[2], 16) for end in one[1:3]] for one in fields if one[3] == "06"
    ]
    return {pair for here, there in ends for pair in ((here, there), (there, here))}


def test_an_unrelated_connection_to_the_exchange_port_is_refused(start: StartAgent) -> None:
    answering = start()
    with lead(answering, "exchange", protocol="tcp-connect", **SIZES, duration_s=0.01) as flow:
        told = take(flow, 2)
        assert told is not None
        port = int.from_bytes(told)
        flow.sendall(b"G")
        for wrong in (b"", b"GET / HTTP/1.1\r\n\r\n", HEAD[:8] + b"\0\1" + bytes(6)):
            with dial(port) as stranger:
                with suppress(OSError):  # it may be reset before it has ended
                    stranger.sendall(wrong)
                    stranger.shutdown(socket.SHUT_WR)
                with suppress(ConnectionResetError):  # closed with what it said unread
                    assert stranger.recv(1) == b""
        with dial(port) as ours:
            ours.sendall(HEAD + bytes(6))
            assert take(ours, 16) == bytes(16)
        flow.shutdown(socket.SHUT_WR)
        assert flow.recv(1) == b""
    event = result(answering)[1]
    assert (event["count"], event["refused"]) == (1, 3)


def test_only_datagrams_of_the_job_are_answered(start: StartAgent) -> None:
    answering = start()
    with lead(answering, "exchange", protocol="udp", **SIZES, duration_s=0.01) as flow:
        told = take(flow, 2)
        assert told is not None
        flow.sendall(b"G")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(TIMEOUT_S)
            sock.connect(("127.0.0.1", int.from_bytes(told)))
            for wrong in (b"", b"x", bytes(16), HEAD + bytes(5)):
                sock.send(wrong)
            sock.send(HEAD + b"\0\0\0\0\0\7")
            assert sock.recv(100) == HEAD + b"\0\0\0\0\0\7"
        flow.shutdown(socket.SHUT_WR)
        assert flow.recv(1) == b""
    event = result(answering)[1]
    assert (event["count"], event["refused"]) == (1, 4)


def test_lost_requests_do_not_delay_others_at_a_fixed_rate(start: StartAgent) -> None:
    every_fifth = udp_result(
        start, lambda n: [] if n % 5 == 0 else [0.0], rate_per_s=100, duration_s=0.5
    )
    told, event = every_fifth
    # On a busy machine a few are not sent at their time, or answered too late.
    assert event["count"] + event["lost"] + event["unsent"] == 50
    assert event["lost"] >= 10 - event["unsent"]
    assert event["count"] > 30
    assert sum(i["lost"] for i in told) == event["lost"]


def test_slow_answers_are_not_late_at_a_rate(start: StartAgent) -> None:
    """Requests go on while others are on their way: each has its own time."""
    _, event = udp_result(start, lambda _: [0.1], rate_per_s=50, duration_s=0.4)
    assert (event["count"], event["lost"], event["late"]) == (20, 0, 0)
    assert event["min_ns"] >= 100 * MS


def test_one_after_the_other_a_lost_one_is_waited_for(start: StartAgent) -> None:
    _, event = udp_result(
        start, lambda n: [] if n == 2 else [0.02], loss_threshold_s=0.1, duration_s=0.3
    )
    assert event["lost"] == 1
    assert 2 <= event["count"] <= 10


def test_a_silent_path_is_a_result_in_which_all_is_lost(start: StartAgent) -> None:
    _, event = udp_result(start, lambda _: [], rate_per_s=20, loss_threshold_s=0.05, duration_s=0.4)
    assert (event["count"], event["lost"], event["min_ns"]) == (0, 8, None)


def test_duplicate_answers_count_once_and_late_ones_as_lost(start: StartAgent) -> None:
    def answer(number: int) -> list[float]:
        return [0.0, 0.0] if number % 2 else [1.0]

    _, event = udp_result(start, answer, rate_per_s=20, loss_threshold_s=0.5, duration_s=0.4)
    assert (event["count"], event["lost"]) == (4, 4)


def test_the_warmup_counts_neither_answers_nor_losses(start: StartAgent) -> None:
    _, event = udp_result(
        start, lambda n: [] if n in {1, 12} else [0.0], rate_per_s=50, warmup_s=0.2,
        duration_s=0.2,
    )  # fmt: skip
    assert (event["count"], event["lost"]) == (9, 1)


def test_a_port_may_be_asked_for(start: StartAgent) -> None:
    answering = start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with lead(answering, "exchange", protocol="udp", probe_port=port, **SIZES) as flow:
            told = take(flow, 2)
            assert told is not None
            assert int.from_bytes(told) > port


@pytest.mark.parametrize("protocol", ["tcp-connect", "udp"])
def test_a_peer_that_sends_no_port_is_an_arm_timeout(start: StartAgent, protocol: str) -> None:
    asking = start()
    keys = job(protocol=protocol, **SIZES, arm_timeout_s=0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        asking.command("exchange", side="connect", host="127.0.0.1", port=port, **keys)
        peer, _ = server.accept()
        with peer:
            take(peer, 48)
            peer.sendall(b"+")
            assert failure(asking)["kind"] == "arm-timeout"


def test_a_wrong_start_byte_of_the_peer_is_a_protocol_error(start: StartAgent) -> None:
    answering = start()
    with lead(answering, "exchange", protocol="udp", **SIZES) as flow:
        flow.sendall(b"X")
        assert failure(answering)["kind"] == "protocol"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"protocol": "sctp"}, "protocol"),
        ({"protocol": "udp", "request_size": 15}, "request_size and response_size"),
        ({"protocol": "icmp", "response_size": 65508}, "request_size and response_size"),
        ({"protocol": "tcp-connect", "request_size": 15}, "request_size"),
        ({"probe_port": 65536}, "probe_port"),
        ({"loss_threshold_s": 0}, "loss_threshold_s"),
    ],
)
def test_a_wrong_value_is_named(start: StartAgent, changes: dict[str, object], named: str) -> None:
    agent = start()
    keys = job(**{**SIZES, **changes})
    agent.command("exchange", side="listen", bind="127.0.0.1", port=0, **keys)
    assert named in agent.expect("error")["message"]
    assert arm(agent, "exchange") > 0
