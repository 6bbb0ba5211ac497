"""The agent as ping: before our pong and before foreign ones, reachable or not."""

from __future__ import annotations

import socket
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, IncompleteRead, RemoteDisconnected
from pathlib import Path

import pytest

from tests.agents.lab import TIMEOUT_S, StartAgent, closed_port, dial
from tests.agents.web import (
    get,
    metered,
    pong_body,
    published_ping,
    published_pong,
    read_head,
    serve_ping,
    serve_pong,
    talker,
)

SIZES = [0, 4, 5, 2000, 40000, 1_500_000]


def test_ping_relays_and_measures_pong(start: StartAgent) -> None:
    pong, ping = start(), start()
    port = serve_ping(ping, serve_pong(pong))
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    for size in SIZES:
        connection.request("GET", f"/ping/{size}")
        assert connection.getresponse().read() == pong_body(size)
        told = metered(port, size)
        assert (told["length"], told["code"], told["retries"]) == (max(size, 4), 200, 0)
        assert 0 < told["duration"] < TIMEOUT_S * 1000
    connection.close()
    for agent, name in ((ping, "ping"), (pong, "pong")):
        agent.command("stop", id=f"{name}-1")
        result = agent.expect("result")
        assert (result["job"], result["requests"]) == (name, 2 * len(SIZES))
        agent.idle()
    # The next client of a thread gets the connection of the one before.
    assert result["connections"] < len(SIZES)


@pytest.mark.parametrize("framing", ["length", "chunks", "close"])
def test_ping_works_with_the_published_pong(start: StartAgent, framing: str) -> None:
    with published_pong(framing) as pong:
        ping = start()
        port = serve_ping(ping, pong)
        for size in SIZES:
            assert get(port, f"/ping/{size}") == (200, pong_body(size))
            told = metered(port, size)
            assert (told["length"], told["code"], told["retries"]) == (max(size, 4), 200, 0)


def test_the_published_ping_works_with_our_pong(start: StartAgent) -> None:
    with published_ping(serve_pong(start())) as ping:
        for size in SIZES:
            assert get(ping, f"/ping/{size}") == (200, pong_body(size))
            assert metered(ping, size)["length"] == max(size, 4)


def test_many_clients_at_a_time(start: StartAgent) -> None:
    port = serve_ping(start(), serve_pong(start()))
    with ThreadPoolExecutor(16) as pool:
        sizes = [n * 997 for n in range(200)]
        answers = pool.map(lambda size: get(port, f"/ping/{size}"), sizes)
        assert list(answers) == [(200, pong_body(size)) for size in sizes]


def test_pipelined_requests_are_answered_in_order(start: StartAgent) -> None:
    port = serve_ping(start(), serve_pong(start()))
    with dial(port) as connection:
        request = b"GET /%s/5 HTTP/1.1\r\nHost: a\r\n\r\n"
        last = b"GET /ping/6 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        connection.sendall((request % b"ping" + request % b"mping") * 100 + last)
        data = b""
        while more := connection.recv(65536):
            data += more
    assert data.count(b"HTTP/1.1 200 OK\r\n") == 201
    assert data.count(b'{"length": 5, "code": 200,') == 100
    assert data.endswith(pong_body(6))


def test_an_unreachable_pong_is_a_503_after_retries(start: StartAgent) -> None:
    ping = start()
    port = serve_ping(ping, closed_port(), retries=3)
    told = metered(port, 5)
    assert (told["length"], told["code"], told["retries"]) == (0, 503, 3)
    assert told["duration"] >= 1 + 2 + 4
    assert get(port, "/mping/5")[0] == 503
    assert get(port, "/ping/5")[0] == 503
    assert get(port, "/pong/5")[0] == 404


def test_requests_in_a_pipeline_when_there_is_no_pong(start: StartAgent) -> None:
    port = serve_ping(start(), closed_port(), retries=0)
    with dial(port) as connection:
        requests = b"GET /mping/5 HTTP/1.1\r\nHost: a\r\n\r\n" * 150
        connection.sendall(requests + b"GET /ping/5 HTTP/1.0\r\n\r\n")
        data = b""
        while more := connection.recv(65536):
            data += more
    assert data.count(b'"code": 503') == 150
    assert data.endswith(b"pong can't be reached\n")


def test_ping_waits_for_a_pong_that_comes_back(start: StartAgent) -> None:
    pong, ping = start(), start()
    there = serve_pong(pong)
    port = serve_ping(ping, there, retries=1000)
    assert metered(port, 5)["retries"] == 0
    pong.command("stop", id="pong-1")
    pong.expect("result")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(metered, port, 5)
        assert not waiting.done()
        serve_pong(pong, port=there)
        assert waiting.result(TIMEOUT_S)["code"] == 200


def test_a_kept_connection_that_pong_has_closed_is_no_retry(start: StartAgent) -> None:
    def one_request(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong")

    with talker(one_request) as pong:
        port = serve_ping(start(), pong, threads=1)
        connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        for _ in range(20):
            connection.request("GET", "/mping/4")
            assert b'"code": 200, "retries": 0' in connection.getresponse().read()
        connection.close()


ANSWERS = [
    b"",
    b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\npooo",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npooo",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\npoong",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\x00" * 100,
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10000,
]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("reset", [False, True])
def test_truncated_and_malformed_answers_of_pong_are_retried_and_fail(
    start: StartAgent, answer: bytes, reset: bool
) -> None:
    def nonsense(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(answer)
        if reset:
            now = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)

    with talker(nonsense) as pong:
        port = serve_ping(start(), pong, retries=2)
        told = metered(port, 50)
        assert (told["code"], told["retries"], told["length"]) == (503, 2, 0)
        # What the client has already got can't be taken back: it must see that it is broken.
        with suppress(ConnectionResetError, RemoteDisconnected, IncompleteRead):
            assert get(port, "/ping/50")[0] == 503


def test_a_retry_that_succeeds_is_reported_with_its_retries(start: StartAgent) -> None:
    asked = []

    def twice(connection: socket.socket) -> None:
        asked.append(read_head(connection))
        if len(asked) > 2:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + b"poong")

    with talker(twice) as pong:
        told = metered(serve_ping(start(), pong), 5)
    assert (told["length"], told["code"], told["retries"]) == (5, 200, 2)
    assert asked[0].startswith(b"GET /pong/5 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % pong)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npo"])
def test_a_pong_that_hangs_is_given_up_without_a_retry(start: StartAgent, said: bytes) -> None:
    def hang(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(said)
        connection.recv(1)

    with talker(hang) as pong:
        port = serve_ping(start(), pong, timeout_s=0.2)
        told = metered(port, 9)
        assert (told["code"], told["retries"]) == (503, 0)
        assert told["duration"] >= 200


def test_errors_of_pong_are_handed_on(start: StartAgent) -> None:
    def not_found(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno")

    with talker(not_found) as pong:
        port = serve_ping(start(), pong)
        assert get(port, "/ping/5") == (404, b"no")
        assert metered(port, 5)["code"] == 404


def test_clients_that_leave_do_not_disturb_others(start: StartAgent) -> None:
    pong, ping = start(), start()
    port = serve_ping(ping, serve_pong(pong))
    for i in range(60):
        with dial(port) as connection:
            connection.sendall(b"GET /ping/%d HTTP/1.1\r\nHost: a\r\n\r\n" % (i * 100000))
            if i % 2:
                connection.recv(100)
    assert get(port, "/ping/5") == (200, b"poong")
    ping.command("stop", id="ping-1")
    assert ping.expect("result")["requests"] == 61


def test_a_slow_client_gets_a_large_answer_whole(start: StartAgent) -> None:
    port = serve_ping(start(), serve_pong(start()))
    with dial(port) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.sendall(b"GET /ping/30000000 HTTP/1.0\r\n\r\n")
        data = bytearray()
        while more := connection.recv(65536):
            data += more
    assert data.endswith(b"\r\n\r\n" + pong_body(30_000_000))


@pytest.mark.parametrize("key", ["host", "port", "bind", "listen_port", "retries", "timeout_s"])
def test_a_wrong_key_is_an_error_that_names_it(start: StartAgent, key: str) -> None:
    ping = start()
    usual: dict[str, object] = {"id": "p", "bind": "::", "listen_port": 0, "host": "::1"}
    ping.command("ping", **(usual | {"port": 80} | {key: -1}))
    assert key in ping.expect("error")["message"]


def test_ping_by_hand_relays_until_it_is_terminated(binary: Path, start: StartAgent) -> None:
    pong = serve_pong(start())
    with subprocess.Popen(
        [binary, "ping", "--pong", f"localhost:{pong}", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    ) as ping:
        assert ping.stdout is not None
        listening = ping.stdout.readline()
        port = int(listening.split('"port":')[1].strip("}\n"))
        assert metered(port, 7)["code"] == 200
        ping.terminate()
        assert ping.wait(TIMEOUT_S) == 0
        assert '"event":"result"' in ping.stdout.read()
