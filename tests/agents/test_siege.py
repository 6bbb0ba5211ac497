"""The agent as siege: what it asks for, when, and what it records."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from osmef.workloads.kinds.pingpong import PingPongSettings
from tests.agents.lab import TIMEOUT_S, Agent, Event, StartAgent, closed_port
from tests.agents.web import (
    published_ping,
    published_pong,
    read_head,
    serve_ping,
    serve_pong,
    talker,
)
from tests.waiting import until

COLUMNS = ("size", "start_us", "duration_us", "relay_us", "code", "length", "retries", "error")
ERRORS = ("ok", "connect", "timeout", "closed", "protocol", "status")
Columns = dict[str, list[Any]]


def arm(agent: Agent, port: int, **changes: object) -> None:
    usual = {"id": "siege-1", "host": "127.0.0.1", "path": "/pong/{size}", "threads": 2}
    agent.command("siege", **(usual | {"port": port} | changes))


def records(agent: Agent) -> tuple[Columns, Event]:
    """Return the columns of all requests, and the result."""
    columns: Columns = {name: [] for name in COLUMNS}
    while (event := agent.event())["event"] == "requests":
        assert event["first"] == len(columns["size"])
        for name in COLUMNS:
            columns[name] += event[name]
    assert event["event"] == "result", event
    assert {len(column) for column in columns.values()} == {event["requests"]}
    return columns, event


def besiege(agent: Agent, port: int, **changes: object) -> tuple[Columns, Event]:
    arm(agent, port, **changes)
    agent.expect("connected")
    agent.command("start", id="siege-1")
    columns, result = records(agent)
    agent.idle()
    for number, name in enumerate(ERRORS[1:], 1):
        assert columns["error"].count(number) == result["errors"][name]
    assert result["failed"] == sum(result["errors"].values())
    assert sum(result["histogram"]["count"]) == columns["error"].count(0)
    return columns, result


def test_a_long_siege_reports_how_far_it_is(start: StartAgent) -> None:
    agent, pong = start(), serve_pong(start())
    besiege(agent, pong, sizes="1", repetitions=30, rate_per_s=20)
    first = agent.progress[0]
    assert (first["id"], first["event"]) == ("siege-1", "progress")
    assert first["elapsed_s"] >= 1
    assert 0 < first["requests"] <= 30


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("connections", [1, 7])
def test_siege_records_every_answer_of_pong(
    start: StartAgent, keep_alive: bool, connections: int
) -> None:
    siege, pong = start(), start()
    columns, result = besiege(
        siege,
        serve_pong(pong),
        sizes="5,1000,300000",
        repetitions=100,
        connections=connections,
        keep_alive=keep_alive,
    )
    assert Counter(columns["size"]) == {5: 100, 1000: 100, 300000: 100}
    assert columns["length"] == columns["size"]
    assert set(columns["code"]) == {200}
    assert set(columns["retries"]) == set(columns["relay_us"]) == {None}
    assert (result["failed"], result["retries"]) == (0, None)
    assert result["length"] == 100 * 301005 < result["received_bytes"]
    assert result["connections"] == (connections if keep_alive else 301)
    assert all(duration > 0 for duration in columns["duration_us"])
    assert result["duration_us"]["min"] == min(columns["duration_us"])
    assert result["duration_us"]["max"] == max(columns["duration_us"])
    pong.command("stop", id="pong-1")
    assert pong.expect("result")["requests"] == 300


def test_siege_records_the_times_that_ping_measured(start: StartAgent) -> None:
    ping = serve_ping(start(), serve_pong(start()))
    columns, result = besiege(
        start(), ping, path="/mping/{size}", sizes="4,90000", repetitions=50, connections=5
    )
    assert columns["length"] == columns["size"]
    assert set(columns["retries"]) == {0}
    for duration, relay in zip(columns["duration_us"], columns["relay_us"], strict=True):
        assert 0 < relay < duration
    assert (result["failed"], result["retries"]) == (0, 0)


def test_published_ping_and_pong_answer_siege(start: StartAgent) -> None:
    with published_pong("chunks") as pong, published_ping(pong) as ping:
        columns, _ = besiege(start(), ping, path="/mping/{size}", sizes="5,20000", repetitions=5)
        assert columns["length"] == columns["size"]
        columns, _ = besiege(start(), pong, sizes="5,20000", repetitions=5, connections=3)
        assert columns["length"] == columns["size"]


@pytest.mark.parametrize("framing", ["length", "chunks", "close"])
def test_bodies_of_foreign_servers_are_read_in_every_framing(
    start: StartAgent, framing: str
) -> None:
    with published_pong(framing) as pong:
        columns, result = besiege(start(), pong, sizes="4,2000,100000", repetitions=3)
    assert columns["length"] == columns["size"]
    assert result["failed"] == 0


def test_a_path_without_a_size_is_requested_as_it_is(start: StartAgent) -> None:
    columns, _ = besiege(start(), serve_pong(start()), path="/pong/77", sizes="1", repetitions=3)
    assert columns["length"] == [77, 77, 77]


def test_a_range_is_covered_without_replacement(start: StartAgent) -> None:
    pong = serve_pong(start())
    drawn = {"size_min": 100, "size_max": 599, "coverage": 0.5, "replacement": False}
    columns, _ = besiege(start(), pong, **drawn, repetitions=2, seed=7)
    times = Counter(columns["size"])
    assert (len(times), set(times.values())) == (250, {2})
    assert min(times) >= 100
    assert max(times) <= 599
    assert columns["size"] != sorted(columns["size"])
    again, _ = besiege(start(), pong, **drawn, repetitions=2, seed=7)
    assert again["size"] == columns["size"]
    other, _ = besiege(start(), pong, **drawn, repetitions=2, seed=8)
    assert set(other["size"]) != set(columns["size"])
    whole, _ = besiege(start(), pong, **(drawn | {"coverage": 1}))
    assert sorted(whole["size"]) == list(range(100, 600))


@pytest.mark.parametrize(
    ("sizes", "coverage", "drawn"),
    [(100, 0.29, 29), (100, 0.294, 29), (100, 0.296, 30), (1, 0.01, 1), (1000, 0.007, 7)],
)
def test_the_share_is_rounded(start: StartAgent, sizes: int, coverage: float, drawn: int) -> None:
    pong = serve_pong(start())
    written = {"min": "10B", "max": f"{9 + sizes}B", "coverage": coverage}
    asked = PingPongSettings.model_validate(written)
    columns, _ = besiege(start(), pong, size_min=10, size_max=9 + sizes, coverage=coverage)
    assert len(columns["size"]) == asked.requests == drawn


def test_bytes_of_failed_requests_are_not_counted(start: StartAgent) -> None:
    def answer(connection: socket.socket) -> None:
        for status, size in ((500, 900), (200, 5)):
            read_head(connection)
            head = f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n\r\n"
            connection.sendall(head.encode() + size * b"o")
        connection.recv(1)

    with talker(answer) as port:
        columns, result = besiege(start(), port, sizes="5", repetitions=2)
    assert sorted(columns["length"]) == [5, 900]
    assert (result["failed"], result["length"]) == (1, 5)


def test_a_range_is_covered_with_replacement(start: StartAgent) -> None:
    drawn = {"size_min": 1, "size_max": 100, "coverage": 1, "replacement": True}
    columns, _ = besiege(start(), serve_pong(start()), **drawn, repetitions=3)
    times = Counter(columns["size"])
    assert sum(times.values()) == 300
    assert set(times) <= set(range(1, 101))
    # That every size is drawn once has a chance of 100!/100^100, about 1e-42.
    assert len(times) < 100
    assert all(count % 3 == 0 for count in times.values())


def test_open_loop_keeps_its_rate(start: StartAgent) -> None:
    columns, result = besiege(
        start(), serve_pong(start()), sizes="100", repetitions=200, rate_per_s=500, connections=4
    )
    for number, start_us in enumerate(columns["start_us"]):
        assert start_us == pytest.approx(number * 2000, abs=0.01)
    assert result["elapsed_s"] >= 199 / 500


def test_open_loop_counts_from_when_a_request_was_due(start: StartAgent) -> None:
    """A server that stalls once delays all requests that fall due meanwhile: none is omitted."""
    siege, pong = start(), start()
    arm(siege, serve_pong(pong), sizes="10", repetitions=200, rate_per_s=200, connections=1)
    siege.expect("connected")
    siege.command("clock")
    began_ns = siege.expect("clock")["monotonic_ns"] + 300_000_000
    pong.process.send_signal(signal.SIGSTOP)
    siege.command("start", id="siege-1", at_monotonic_ns=began_ns)
    until(lambda: time.monotonic_ns() > began_ns + 400_000_000)
    stalled_us = (time.monotonic_ns() - began_ns) / 1000
    pong.process.send_signal(signal.SIGCONT)
    columns, result = records(siege)
    assert (result["requests"], result["failed"]) == (200, 0)
    # The n-th request was due n * 5 ms after the start, and answered after the stall at the best.
    for number, duration in enumerate(columns["duration_us"][:60]):
        assert duration >= stalled_us - number * 5000
    assert result["duration_us"]["p50"] < result["duration_us"]["p90"]
    assert result["duration_us"]["p90"] >= 200_000


def test_a_start_at_a_time(start: StartAgent) -> None:
    siege = start()
    arm(siege, serve_pong(start()), sizes="5")
    siege.expect("connected")
    siege.command("clock")
    clock = siege.expect("clock")
    siege.command("start", id="siege-1", at_monotonic_ns=clock["monotonic_ns"] + 300_000_000)
    _, result = records(siege)
    assert result["start_realtime_ns"] >= clock["realtime_ns"] + 290_000_000


def failures(agent: Agent, port: int, **changes: object) -> set[str]:
    """Return the errors of ten requests, of which each must have one."""
    columns, _ = besiege(agent, port, sizes="50", repetitions=10, **changes)
    return {ERRORS[error] for error in columns["error"]}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", "closed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\npooo", "closed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npooo", "closed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "protocol"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10000, "protocol"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "status"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503\r\n\r\n", "status"),
    ],
)
def test_each_failure_of_a_server_has_its_name(
    start: StartAgent, answer: bytes, error: str
) -> None:
    def fail(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)

    with talker(fail) as port:
        assert failures(start(), port) == {error}


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"pong",
        b"[]",
        b'{"length": 5, "code": 200, "retries": 0}',
        b'{"length": "5", "code": 200, "retries": 0, "duration": 1.0}',
        b'{"length": 5, "code": 200, "retries": 0, "duration": -1}',
        b'{"length": 5, "code": 200, "retries": 0, "duration": 1}' + b" " * 2000,
    ],
)
def test_answers_that_are_not_those_of_ping(start: StartAgent, told: bytes) -> None:
    def tell(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + told)

    with talker(tell) as port:
        assert failures(start(), port, path="/mping/{size}") == {"protocol"}


def test_an_unreachable_pong_is_a_503_of_ping(start: StartAgent) -> None:
    ping = serve_ping(start(), closed_port(), retries=1)
    columns, result = besiege(start(), ping, path="/mping/{size}", sizes="5", repetitions=4)
    assert columns["code"] == [503] * 4
    assert columns["retries"] == [1] * 4
    assert result["errors"]["status"] == 4
    assert result["retries"] == 4


def test_a_server_that_hangs_is_a_timeout_of_each_request(start: StartAgent) -> None:
    def hang(connection: socket.socket) -> None:
        read_head(connection)
        connection.recv(1)

    with talker(hang) as port:
        columns, _ = besiege(start(), port, sizes="5", repetitions=3, timeout_s=0.1)
    assert columns["error"] == [ERRORS.index("timeout")] * 3
    assert min(columns["duration_us"]) >= 100_000
    assert columns["code"] == columns["length"] == [None] * 3


def test_requests_to_a_dead_server_fail_and_have_no_times(start: StartAgent) -> None:
    siege, pong = start(), start()
    arm(siege, serve_pong(pong), sizes="5", repetitions=1000, rate_per_s=2000, connections=4)
    siege.expect("connected")
    pong.process.kill()
    siege.command("start", id="siege-1")
    columns, result = records(siege)
    assert result["failed"] == 1000
    assert {ERRORS[error] for error in columns["error"]} <= {"closed", "connect"}
    assert result["errors"]["connect"] > 0
    assert result["duration_us"]["p50"] is None


def test_a_siege_without_a_server_is_a_connect_error(start: StartAgent) -> None:
    siege = start()
    arm(siege, closed_port())
    error = siege.expect("error")
    assert (error["kind"], "refused" in error["message"]) == ("connect", True)
    arm(siege, 80, host="localhost")
    assert "numeric address" in siege.expect("error")["message"]
    siege.idle()


def test_a_missing_start_is_an_arm_timeout(start: StartAgent) -> None:
    siege = start()
    arm(siege, serve_pong(start()), arm_timeout_s=1)
    siege.expect("connected")
    assert siege.expect("error")["kind"] == "arm-timeout"


def test_an_aborted_siege_leaves_the_agent_usable(start: StartAgent) -> None:
    siege, pong = start(), start()
    port = serve_pong(pong)
    for _ in range(2):
        arm(siege, port, sizes="5", repetitions=10**6, connections=10)
        siege.expect("connected")
        siege.command("start", id="siege-1")
        siege.command("stop", id="siege-1")
        assert siege.expect("error")["kind"] == "protocol"
        siege.command("abort", id="siege-1")
        assert siege.expect("error")["kind"] == "aborted"
    assert besiege(siege, port, sizes="5")[1]["failed"] == 0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sizes": "5,"}, "sizes"),
        ({"sizes": "5,x"}, "sizes"),
        ({"sizes": "-5"}, "sizes"),
        ({"sizes": "2000000000"}, "sizes"),
        ({"size_min": 6, "size_max": 5}, "size_min"),
        ({"size_max": 2**31}, "size_max"),
        ({"size_max": 2**30, "coverage": 0.001, "replacement": False}, "replacement"),
        ({"size_max": 2**30}, "requests"),
        ({"repetitions": 10**7, "sizes": "1,2"}, "requests"),
        ({"authority": "a\r\nX: y"}, "authority has what no Host field can have"),
        ({"authority": "a b"}, "authority has what no Host field can have"),
        ({"sizes": "5", "size_max": 9}, "with sizes, size_max has no effect"),
        ({"sizes": "5", "replacement": True}, "with sizes, replacement has no effect"),
        ({"path": "/{size}/{size}"}, "{size} only once"),
        ({"path": "pong"}, "path"),
        ({"path": "/a b"}, "path"),
        ({"path": "/" + "x" * 600}, "path"),
        ({"connections": 1001}, "connections"),
        ({"rate_per_s": -1}, "rate_per_s"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"keep_alive": "yes"}, "keep_alive"),
        ({"host": None}, "host"),
    ],
)
def test_wrong_keys_are_a_protocol_error_that_names_them(
    start: StartAgent, changes: dict[str, object], named: str
) -> None:
    siege = start()
    arm(siege, 80, **changes)
    error = siege.expect("error")
    assert (error["kind"], named in error["message"]) == ("protocol", True), error


def run(binary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [binary, "siege", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_siege_by_hand_prints_a_summary_or_events(binary: Path, start: StartAgent) -> None:
    pong = serve_pong(start())
    ping = serve_ping(start(), pong)
    url = f"http://localhost:{ping}"
    done = run(binary, url, "--max", "1000", "--coverage", "0.1", "--connections", "3")
    assert done.returncode == 0, done.stderr
    assert "100 requests (0 failed)" in done.stdout
    assert "retries of ping: 0" in done.stdout
    url = f"http://127.0.0.1:{pong}/pong/{{size}}"
    done = run(binary, url, "--sizes", "1,5", "--close", "--rate", "1000", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["connected", "requests", "result"]
    assert sorted(events[1]["length"]) == [4, 5]


def test_an_interrupted_siege_by_hand_ends_with_an_error(binary: Path) -> None:
    began: Future[subprocess.Popen[str]] = Future()

    def hang(connection: socket.socket) -> None:
        read_head(connection)
        began.result(TIMEOUT_S).send_signal(signal.SIGINT)
        connection.recv(1)

    with talker(hang) as port:
        argv = [str(binary), "siege", f"http://127.0.0.1:{port}/x", "--sizes", "5"]
        siege = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        began.set_result(siege)
        _, problem = siege.communicate(timeout=TIMEOUT_S)
    assert (siege.returncode, problem) == (1, "osmef-agent: aborted: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "URL"),
        (["localhost:8080"], "http://"),
        (["http://a:b/"], "port"),
        (["http://a/", "http://b/"], "http://b/"),
        (["http://a/", "--connections"], "lacks its value"),
        (["http://a/", "--connections", "0"], "connections"),
        (["http://a/", "--seed", "1", "--seed", "2"], "twice"),
        (["http://a/", "--fly"], "--fly"),
    ],
)
def test_wrong_usage_ends_with_2(binary: Path, arguments: list[str], named: str) -> None:
    done = run(binary, *arguments)
    assert done.returncode == 2
    assert named in done.stderr


@pytest.mark.parametrize("command", ["pong", "ping", "siege"])
def test_help_begins_with_the_usage(binary: Path, command: str) -> None:
    done = subprocess.run(
        [binary, command, "--help"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    assert done.stdout.startswith(f"Usage: osmef-agent {command}")
