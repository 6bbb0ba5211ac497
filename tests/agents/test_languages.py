"""ping and pong in other languages say what those of the agent say, to the last byte."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPResponse
from itertools import product
from pathlib import Path

import pytest

from osmef.importers.pingpong import parse_ppbench
from osmef.importers.record import Text
from osmef.report.export import COLUMNS
from osmef.workloads.kinds.pingpong import LANGUAGES, Implementation
from tests.agents.lab import closed_port, dial
from tests.agents.languages import Reply, head_of, made, reply, serving
from tests.agents.test_pong import receive_all, talk
from tests.agents.web import get, metered, pong_body, published_pong, read_head, talker

HEAD = ",".join(f'"{name}"' for name in COLUMNS)
BOTH = [
    *[("GET", path) for path in ("/", "/pong", "/pang/5", "/pong/", "/ping/", "/mping/x")],
    *[("GET", path) for path in ("/pong/-1", "/pong/5x", "/pong/5/", "/pong/%35")],
    *[("HEAD", path) for path in ("/", "/nothing/5")],
    *[(method, path) for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH")
      for path in ("/", "/pong/5", "/ping/5")],
    *[("GET", path) for path in ("//pong/5", "//x/pong/5", "//ping/5", "//x/ping/5")],
    *[("GET", path) for path in ("/pong/5#x", "/ping/5#x", "/pong/+5", "/pong/1_000")],
    *[(method, f"{scheme}://a/{path}/5") for method in ("GET", "HEAD", "PUT")
      for scheme in ("HTTP", "hTtp", "https", "HTTPS") for path in ("pong", "ping")],
    *[("GET", f"http://{host}/pong/5?x=1") for host in ("a:80", "[::1]:8", "u@a", "a_b", "")],
    *[("GET", f"http:///{path}") for path in ("", "pong", "pong/5", "ping/5", "/pong/5")],
    ("GET", "/pong/5?a#b"),
    *[(method, "/pong/5") for method in ("CONNECT", "TRACE", "PROPFIND", "NOTHING", "get")],
]  # fmt: skip
SIZES = (
    "0" * 1999 + "5",
    "0" * 30,
    "0",
    "1",
    "3",
    "4",
    "5",
    "007",
    "1000",
    "65535",
    "65536",
    "65539",
    "65540",
    "1000000",
)
HOST_TARGETS = ("/pong/5", "/ping/5", "http://a/pong/5", "/")
WRONG_HOSTS = [("a", "b"), ("a", "a"), ("a b",), ("a/b",), ("\xff",), ("<",)]
TOO_LARGE = ("1073741825", "99999999999999999999999", "9" * 300)


@pytest.fixture(scope="module", params=[*LANGUAGES], ids=str)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    language: Implementation = request.param
    return made(language, tmp_path_factory.mktemp(language))


@pytest.fixture(scope="module")
def agent(binary: Path) -> Iterator[int]:
    with serving([str(binary)], "pong") as port:
        yield port


@pytest.fixture(scope="module")
def agents_ping(binary: Path, agent: int) -> Iterator[int]:
    with serving([str(binary)], "ping", "--pong", f"127.0.0.1:{agent}") as port:
        yield port


@pytest.fixture(scope="module")
def pong(program: list[str]) -> Iterator[int]:
    with serving(program, "pong") as port:
        yield port


@pytest.fixture(scope="module")
def ping(program: list[str], agent: int) -> Iterator[int]:
    with serving(program, "ping", "--pong", f"127.0.0.1:{agent}") as port:
        yield port


@pytest.fixture(scope="module")
def servers(pong: int, ping: int) -> dict[str, int]:
    return {"pong": pong, "ping": ping}


def asked(prefix: str) -> list[tuple[str, str]]:
    """Return requests below a path: good ones, and such as are refused."""
    sizes = [("GET", f"{prefix}{size}") for size in (*SIZES, *TOO_LARGE)]
    heads = [("HEAD", f"{prefix}{size}") for size in ("0", "5", "1073741824", "1073741825")]
    return [*sizes, *heads, ("GET", f"{prefix}5?x=1"), ("GET", f"http://a{prefix}5")]


def differences(requests: Iterable[bytes], *answer: Callable[[bytes], Reply]) -> list[str]:
    """Return the requests that two servers answer differently, with what either says."""
    ours, agents = answer
    return [
        f"{request!r}\n  here  {here}\n  agent {there}"
        for request in requests
        if (here := ours(request)) != (there := agents(request))
    ]


def test_pong_answers_as_the_agent(pong: int, agent: int) -> None:
    requests = [head_of(method, target) for method, target in [*asked("/pong/"), *BOTH]]
    assert not differences(requests, partial(reply, pong), partial(reply, agent))


def test_ping_answers_as_the_agent(ping: int, agents_ping: int) -> None:
    targets = [*asked("/ping/")[:-4], *asked("/mping/")[:-4], *BOTH]
    requests = [head_of(method, target) for method, target in targets]
    assert not differences(requests, partial(reply, ping), partial(reply, agents_ping))


@pytest.mark.parametrize("said", [b"\x16\x03\x01\x02\r\n\r\n", b"nonsense\r\n\r\n"])
def test_nonsense_is_refused_and_the_connection_ended(pong: int, said: bytes) -> None:
    assert re.match(rb"HTTP/1\.[01] 400 |$", talk(pong, said)), "refused, or closed at once"
    assert get(pong, "/pong/5") == (200, pong_body(5))


def with_hosts(words: str, target: str, hosts: Iterable[str]) -> bytes:
    method, version = words.split()
    fields = "".join(f"Host: {host}\r\n" for host in hosts)
    return f"{method} {target} HTTP/{version}\r\n{fields}\r\n".encode("latin1")


def test_an_http_1_0_request_may_omit_the_host_header(pong: int, agent: int) -> None:
    requests = [
        with_hosts(words, target, ())
        for words, target in product(("GET 1.0", "HEAD 1.0"), HOST_TARGETS)
    ]
    assert not differences(requests, partial(reply, pong), partial(reply, agent))


@pytest.mark.parametrize("words", ["GET 1.1", "HEAD 1.1", "POST 1.1", "GET 1.0", "HEAD 1.0"])
def test_a_request_that_names_no_one_host_is_refused(pong: int, agent: int, words: str) -> None:
    """net/http refuses in its own words before it asks a program (RFC 9112, section 3.2)."""
    wrong = WRONG_HOSTS if words.endswith("1.0") else [(), *WRONG_HOSTS]
    for target, hosts in product(HOST_TARGETS, wrong):
        request = with_hosts(words, target, hosts)
        with dial(pong) as connection:
            connection.sendall(request + head_of("GET", "/pong/9"))
            said = Reply.read(connection, words.split(maxsplit=1)[0].encode())
            assert said.status == reply(agent, request).status == 400, request
            if said.fields["Content-Type"] != "text/plain; charset=utf-8":
                assert said == reply(agent, request), request
            assert b"HTTP/1.1 200" not in receive_all(connection), request


def test_any_one_host_will_do(pong: int, agent: int) -> None:
    for host in ("", "a", "a:80", "[::1]:8080", "a_b", "1.2.3.4"):
        request = with_hosts("GET 1.1", "/pong/5", [host])
        assert reply(pong, request) == reply(agent, request), host
        assert reply(pong, request).status == 200, host


def test_a_number_of_thousands_of_digits_is_answered_or_too_long(pong: int) -> None:
    status, body = get(pong, f"/pong/{'0' * 4999}5")
    assert (status, body) == (200, pong_body(5)) or status == 414


def test_the_unread_body_of_a_rejected_request_is_not_parsed_as_a_request(pong: int) -> None:
    answers = talk(pong, head_of("POST", "/pong/5", "Content-Length: 24", "Connection: close")
                   + b"GET /pong/9 HTTP/1.1\r\nHost: a\r\n\r\n")  # fmt: skip
    assert answers.count(b"HTTP/1.1 ") == 1
    assert b" 405 " in answers


@pytest.mark.parametrize("which", ["pong", "ping"])
def test_a_connection_is_kept(servers: dict[str, int], which: str) -> None:
    with dial(servers[which]) as connection:
        for size in (7, 70_000, 0, 5):
            connection.sendall(head_of("GET", f"/{which}/{size}"))
            assert Reply.read(connection, b"GET").body == pong_body(size)
            connection.sendall(head_of("HEAD", f"/{which}/{size}"))
            assert Reply.read(connection, b"HEAD").status == 200
        connection.sendall(head_of("GET", "/none"))
        assert Reply.read(connection, b"GET").status == 404
        connection.sendall(head_of("GET", f"/{which}/6", "Connection: close"))
        assert Reply.read(connection, b"GET").body == pong_body(6)
        assert connection.recv(1) == b"", "it was told to close"


def test_requests_may_stand_in_a_row(pong: int) -> None:
    requests = b"".join(head_of("GET", f"/pong/{size}") for size in range(20))
    answers = talk(pong, requests + head_of("GET", "/pong/9", "Connection: close"))
    assert len(re.findall(rb"HTTP/1\.1 200 ", answers)) == 21
    assert answers.endswith(pong_body(9))


@pytest.mark.parametrize("keep", [True, False])
def test_old_clients_may_keep_a_connection(pong: int, keep: bool) -> None:
    fields = ["Connection: keep-alive"] if keep else []
    with dial(pong) as connection:
        for _ in range(2 if keep else 1):
            connection.sendall(head_of("GET", "/pong/5", *fields, version="1.0"))
            assert Reply.read(connection, b"GET").body == pong_body(5)
        if not keep:
            assert connection.recv(1) == b""


@pytest.mark.parametrize(("which", "path"), [("pong", "pong"), ("ping", "ping"), ("ping", "mping")])
def test_many_clients_at_once_are_answered(servers: dict[str, int], which: str, path: str) -> None:
    port = servers[which]

    def visit(number: int) -> bool:
        sizes = [number, 1000 * number, 70_000]
        with dial(port) as connection:
            for size in sizes:
                connection.sendall(head_of("GET", f"/{path}/{size}"))
                body = Reply.read(connection, b"GET").body
                told = json.loads(body.replace(b"T}", b"0}"))["length"] if path == "mping" else body
                if told != (max(size, 4) if path == "mping" else pong_body(size)):
                    return False
        return True

    with ThreadPoolExecutor(60) as visitors:
        assert all(visitors.map(visit, range(120)))


def test_ping_measures_what_it_got(ping: int) -> None:
    for size in (5, 300_000):
        told = metered(ping, size)
        assert (told["length"], told["code"], told["retries"]) == (size, 200, 0)
        assert told["duration"] > 0


def test_ppbench_can_be_the_client(ping: int) -> None:
    """As HTTPClient of Ruby asks, on a connection that it keeps, and what ppbench reads of it."""
    asks = ("User-Agent: HTTPClient/1.0 (2.8.3, ruby 3.1.2)", "Accept: */*",
            "Date: Sat, 21 Nov 2026 03:15:00 GMT")  # fmt: skip
    rows = [HEAD]
    with dial(ping) as connection:
        for size in (5, 1000, 247_430):
            connection.sendall(head_of("GET", f"/mping/{size}", *asks))
            response = HTTPResponse(connection)
            response.begin()
            told = json.loads(response.read())
            assert list(told) == ["length", "code", "retries", "duration"]
            length, ms = float(told["length"]), told["duration"]
            rate = told["length"] * 1000 / ms
            row = [0, 4, length, ms, rate, 1000 / ms, told["retries"], told["code"]]
            rows.append(",".join(f'"{value}"' for value in ("here", "go", f"/mping/{size}", *row)))
    parsed = parse_ppbench(Text("log.csv", "\n".join([*rows, ""])))
    (record,) = parsed.records
    assert parsed.oddities == []
    assert [(one.size, one.length, one.code) for one in record.requests] == [
        (5, 5, 200), (1000, 1000, 200), (247_430, 247_430, 200),
    ]  # fmt: skip


def test_a_pong_that_can_t_be_reached_is_tried_again(program: list[str]) -> None:
    options = ("--pong", f"127.0.0.1:{closed_port()}", "--retries", "3")
    with serving(program, "ping", *options) as port:
        code, body = get(port, "/mping/5")
        told = json.loads(body)
        assert (code, told["length"], told["code"], told["retries"]) == (503, 0, 503, 3)
        assert told["duration"] >= 1 + 2 + 4, "it waits 1 ms, 2 ms and 4 ms"
        assert get(port, "/ping/5") == (503, b"pong can't be reached\n")


def test_a_malformed_answer_of_pong_is_retried(program: list[str]) -> None:
    with (
        talker(lambda connection: connection.sendall(b"nonsense\r\n\r\n")) as foreign,
        serving(program, "ping", "--pong", f"127.0.0.1:{foreign}", "--retries", "2") as port,
    ):
        told = json.loads(get(port, "/mping/5")[1])
        assert (told["code"], told["retries"]) == (503, 2)


def test_a_silent_pong_fails_after_the_timeout(program: list[str]) -> None:
    def keep_silent(connection: socket.socket) -> None:
        while connection.recv(1000):
            pass

    options = ("--timeout", "0.3")
    with (
        talker(keep_silent) as foreign,
        serving(program, "ping", "--pong", f"127.0.0.1:{foreign}", *options) as port,
    ):
        told = json.loads(get(port, "/mping/5")[1])
    assert (told["length"], told["code"], told["retries"]) == (0, 503, 0)
    assert told["duration"] >= 300


def test_a_kept_connection_that_pong_has_closed_is_no_failure(program: list[str]) -> None:
    def talk_once(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npoong")

    with (
        talker(talk_once) as foreign,
        serving(program, "ping", "--pong", f"127.0.0.1:{foreign}") as port,
        dial(port) as connection,
    ):
        for _ in range(5):
            connection.sendall(head_of("GET", "/mping/5"))
            told = json.loads(Reply.read(connection, b"GET").body.replace(b"T}", b"0}"))
            assert (told["length"], told["code"], told["retries"]) == (5, 200, 0)


def test_addresses_may_be_of_ipv6(program: list[str]) -> None:
    with (
        serving(program, "pong", bind="::1") as pong_port,
        serving(program, "ping", "--pong", f"[::1]:{pong_port}") as port,
    ):
        assert get(port, "/ping/9") == (200, pong_body(9))
        assert metered(port, 9)["length"] == 9


@pytest.mark.parametrize("framing", ["length", "chunks", "end"])
def test_ping_reads_the_answers_of_foreign_pongs(program: list[str], framing: str) -> None:
    with (
        published_pong(framing) as foreign,
        serving(program, "ping", "--pong", f"127.0.0.1:{foreign}") as port,
    ):
        for size in (5, 100_000):
            assert get(port, f"/ping/{size}") == (200, pong_body(size))
            assert metered(port, size)["length"] == size


def test_an_answer_that_breaks_off_is_not_whole(program: list[str]) -> None:
    def talk_short(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort")

    with (
        talker(talk_short) as foreign,
        serving(program, "ping", "--pong", f"127.0.0.1:{foreign}", "--retries", "1") as port,
    ):
        told = json.loads(get(port, "/mping/50")[1])
        assert (told["code"], told["retries"]) == (503, 1)
        answer = talk(port, head_of("GET", "/ping/50"))
        assert not answer.partition(b"\r\n\r\n")[2].endswith(b"o" * 40)
        assert len(answer.partition(b"\r\n\r\n")[2]) < 50
