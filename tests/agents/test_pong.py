"""The agent as pong, against foreign clients and those that mean no good."""

from __future__ import annotations

import resource
import shutil
import socket
import subprocess
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.agents.lab import TIMEOUT_S, Agent, StartAgent, dial
from tests.agents.web import get, pong_body, serve_pong


@pytest.fixture
def agent(start: StartAgent) -> Agent:
    return start()


@pytest.fixture
def port(agent: Agent) -> int:
    return serve_pong(agent, threads=2)


def receive_all(connection: socket.socket) -> bytes:
    """Return what comes up to the end; a reset is one too."""
    data = b""
    try:
        while more := connection.recv(65536):
            data += more
    except ConnectionResetError:
        pass
    return data


def talk(port: int, data: bytes) -> bytes:
    with dial(port) as connection:
        connection.sendall(data)
        return receive_all(connection)


@pytest.mark.parametrize(
    "size",
    [
        *[0, 1, 2, 3, 4, 5, 100, 65536, 69634, 69635, 69636, 100_000],
        *[262145, 262146, 262147, 262148, 700_000, 5_000_000],
    ],
)
def test_pong_answers_like_the_published_programs(port: int, size: int) -> None:
    assert get(port, f"/pong/{size}") == (200, pong_body(size))


@pytest.mark.parametrize("size", [65536, 69635, 100_000, 700_000])
def test_many_clients_that_come_and_go_in_the_middle_of_answers(port: int, size: int) -> None:
    """Answers begin as copies, go on from a file while there are many, and end as copies."""
    request = b"GET /pong/%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % size
    with ExitStack() as clients:
        connections = [clients.enter_context(dial(port)) for _ in range(2)]
        for connection in connections:
            connection.sendall(request)
            connection.recv(1, socket.MSG_PEEK)
        connections += [clients.enter_context(dial(port)) for _ in range(40)]
        for connection in connections[2:]:
            connection.sendall(request)
        for connection in connections:
            assert receive_all(connection).partition(b"\r\n\r\n")[2] == pong_body(size)
            connection.close()


def test_one_connection_serves_many_requests(agent: Agent, port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    for size in (7, 70000, 8, 0):
        connection.request("GET", f"/pong/{size}")
        assert connection.getresponse().read() == pong_body(size)
    connection.request("HEAD", "/pong/900")
    head = connection.getresponse()
    assert (head.status, head.getheader("Content-Length"), head.read()) == (200, "900", b"")
    connection.close()
    agent.command("stop", id="pong-1")
    result = agent.expect("result")
    assert result["job"] == "pong"
    assert (result["requests"], result["bad"], result["connections"]) == (5, 0, 1)
    assert result["bytes"] > 70019
    agent.idle()


def test_curl_reads_the_answers(port: int) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("no curl on this machine")
    url = f"http://127.0.0.1:{port}/pong/"
    for options in ([], ["--http1.0"], ["--http1.0", "-H", "Connection: keep-alive"]):
        argv = [curl, "-sS", "--noproxy", "*", *options, url + "5", url + "10"]
        done = subprocess.run(argv, capture_output=True, timeout=TIMEOUT_S, check=True)
        assert done.stdout == pong_body(5) + pong_body(10)


def test_requests_in_a_pipeline_are_all_answered(port: int) -> None:
    requests = b"".join(b"GET /pong/%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(500))
    last = b"GET /pong/9 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    answers = talk(port, requests + last)
    assert answers.count(b"HTTP/1.1 200 OK\r\n") == 501
    assert answers.endswith(b"\r\n\r\n" + pong_body(9))


def test_a_request_that_comes_byte_by_byte_is_answered(port: int) -> None:
    with dial(port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"GET /pong/6 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n":
            connection.sendall(bytes([byte]))
        assert receive_all(connection).endswith(b"pooong")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        (b"GET /pong/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        (b"GET /pong/five HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        (b"GET /pong/-5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        (b"GET /pong/5/6 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        (b"GET /ping/5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
        (b"GET /pong/1073741825 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
        (
            b"GET /pong/99999999999999999999999 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            400,
        ),
        (b"GET /pong/5?x=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200),
        (b"GET http://a:1/pong/5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200),
        (b"GET /pong/5 HTTP/1.0\r\n\r\n", 200),
        (b"GET /pong/5 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", 200),
        (b"PUT /pong/5 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", 405),
        (b"DELETE /pong/5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 405),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400),
        (b"GET /pong/5 HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 2000, 431),
        (b"GET /pong/5 HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    ],
)
def test_the_connection_ends_behind_the_answer(port: int, request_: bytes, status: int) -> None:
    answer = talk(port, request_)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_client_that_does_not_read(agent: Agent, port: int) -> None:
    with dial(port) as slow:
        slow.sendall(b"GET /pong/1000000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert slow.recv(9) == b"HTTP/1.1 "
        assert get(port, "/pong/5") == (200, b"poong")
        agent.command("stop", id="pong-1")
        assert agent.expect("result")["bytes"] < 1_000_000_000
    agent.idle()


def test_a_client_that_takes_its_time_for_a_head(port: int) -> None:
    with dial(port) as slow:
        slow.sendall(b"GET /pong/5 HT")
        assert receive_all(slow) == b""


def test_clients_that_disconnect_within_a_request_do_not_disturb_pong(
    agent: Agent, port: int
) -> None:
    with ExitStack() as stack:
        for i in range(300):
            connection = stack.enter_context(dial(port))
            connection.sendall(b"GET /pong/3000000 HTTP/1.1\r\nHost: a\r\n\r\n"[: i % 40])
        assert get(port, "/pong/5") == (200, b"poong")
    agent.command("abort", id="pong-1")
    assert agent.expect("error")["kind"] == "aborted"
    agent.idle()
    assert get(serve_pong(agent), "/pong/5") == (200, b"poong")


def test_more_clients_than_descriptors_are_all_answered(agent: Agent, port: int) -> None:
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (40, 40))
    with ExitStack() as stack:
        crowd = [stack.enter_context(dial(port)) for _ in range(100)]
        for connection in crowd:
            connection.sendall(b"GET /pong/5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        for connection in crowd:
            assert receive_all(connection).endswith(b"poong")


def test_the_port_is_taken(agent: Agent) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        agent.command("pong", id="p", bind="127.0.0.1", port=taken.getsockname()[1])
        error = agent.expect("error")
    assert error["kind"] == "bind"
    agent.command("pong", id="p", bind="not an address", port=0)
    assert "numeric" in agent.expect("error")["message"]


@pytest.mark.parametrize(
    ("key", "value"), [("port", 70000), ("port", None), ("bind", 7), ("threads", 0)]
)
def test_a_wrong_key_is_a_protocol_error_that_names_it(
    agent: Agent, key: str, value: object
) -> None:
    agent.command("pong", **({"id": "p", "bind": "::", "port": 0} | {key: value}))
    error = agent.expect("error")
    assert (error["kind"], key in error["message"]) == ("protocol", True)


def test_the_end_of_input_ends_it(agent: Agent, port: int) -> None:
    assert get(port, "/pong/5") == (200, b"poong")
    assert agent.close_input() == 0


def test_pong_by_hand_counts_its_requests(binary: Path) -> None:
    with subprocess.Popen(
        [binary, "pong", "--port", "0", "--bind", "127.0.0.1", "--threads", "1"],
        stdout=subprocess.PIPE,
        text=True,
    ) as pong:
        assert pong.stdout is not None
        first = pong.stdout.readline()
        assert get(int(first.split()[-1]), "/pong/5") == (200, b"poong")
        pong.terminate()
        assert pong.wait(TIMEOUT_S) == 0
        assert pong.stdout.read().startswith("1 requests (0 bad) on 1 connections")
