"""The agent's HTTP parsers, called directly on bytes behind which nothing can be read."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.shared import load

BAD, MORE = -1, -2
DONE = 0  # HTTP_BODY_DONE
PROT_NONE = 0
ROOM = 4 * mmap.PAGESIZE


class Text(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("size", ctypes.c_size_t))

    def value(self) -> bytes:
        return ctypes.string_at(self.at, self.size) if self.size else b""


class Framing(ctypes.Structure):
    _fields_ = (
        ("minor", ctypes.c_int),
        ("length", ctypes.c_int64),
        ("chunked", ctypes.c_bool),
        ("close", ctypes.c_bool),
        ("keep_alive", ctypes.c_bool),
    )


class Request(ctypes.Structure):
    _fields_ = (("method", Text), ("target", Text), ("framing", Framing))


class Response(ctypes.Structure):
    _fields_ = (("status", ctypes.c_int), ("framing", Framing))


class Body(ctypes.Structure):
    _fields_ = (("state", ctypes.c_int), ("left", ctypes.c_int64))


@dataclass(frozen=True)
class Parser:
    agent: ctypes.CDLL
    memory: int

    def guarded(self, data: bytes) -> int:
        """Return an address where the data lies, up to the last byte that may be read."""
        address = self.memory + ROOM - len(data)
        ctypes.memmove(address, data, len(data))
        return address

    def request(self, data: bytes) -> tuple[int, Request]:
        request = Request()
        got: int = self.agent.http_read_request(
            ctypes.c_void_p(self.guarded(data)), ctypes.c_size_t(len(data)), ctypes.byref(request)
        )
        return got, request

    def response(self, data: bytes) -> tuple[int, Response]:
        response = Response()
        got: int = self.agent.http_read_response(
            ctypes.c_void_p(self.guarded(data)), ctypes.c_size_t(len(data)), ctypes.byref(response)
        )
        return got, response

    def body(self, body: Body, data: bytes) -> tuple[int, bytes]:
        piece = Text()
        got: int = self.agent.http_take_body(
            ctypes.byref(body),
            ctypes.c_void_p(self.guarded(data)),
            ctypes.c_size_t(len(data)),
            ctypes.byref(piece),
        )
        return got, piece.value()

    def read(self, body: Body, pieces: list[bytes]) -> tuple[bytes, bytes, bool]:
        """Return the payload, what is left behind the body, and whether the body has ended."""
        payload, rest = b"", b"".join(pieces)
        for data in pieces:
            at = 0
            while at < len(data) and body.state != DONE:
                got, piece = self.body(body, data[at:])
                assert got > 0
                at += got
                payload += piece
                rest = rest[got:]
        return payload, rest, body.state == DONE


# A plain char has a sign on x86, and none on the other machines.
@pytest.fixture(scope="module", params=["-fsigned-char", "-funsigned-char"])
def parser(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Parser]:
    folder = tmp_path_factory.mktemp("http")
    agent = load(folder, "http.c", "httpbody.c", flags=(request.param,))
    agent.http_request_body.restype = agent.http_response_body.restype = Body
    agent.http_persists.restype = ctypes.c_bool
    pages = mmap.mmap(-1, ROOM + mmap.PAGESIZE)
    memory = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    libc = ctypes.CDLL(None)
    guard, size = ctypes.c_void_p(memory + ROOM), ctypes.c_size_t(mmap.PAGESIZE)
    assert libc.mprotect(guard, size, PROT_NONE) == 0
    yield Parser(agent, memory)
    assert libc.mprotect(guard, size, mmap.PROT_READ | mmap.PROT_WRITE) == 0


CURL = b"GET /pong/5 HTTP/1.1\r\nHost: a:8080\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n"
AB = b"GET /pong/5 HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: a\r\nAccept: */*\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 12\r\n\r\n"
CHUNKS = b"PUT /x HTTP/1.1\nTransfer-Encoding:chunked\nConnection: x, Close\n\n"
GO = b"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 06:00:00 GMT\r\nTransfer-Encoding: chunked\r\n\r\n"
OLD = b"HTTP/1.0 404 Not found\r\n\r\n"


@pytest.mark.parametrize("head", [CURL, AB, POST, CHUNKS])
def test_a_request_that_is_cut_anywhere_is_read_on(parser: Parser, head: bytes) -> None:
    for end in range(len(head)):
        assert parser.request(head[:end])[0] == MORE
    assert parser.request(head)[0] == len(head)
    assert parser.request(head + b"GET / HTTP")[0] == len(head)


@pytest.mark.parametrize("head", [GO, OLD, b"HTTP/1.1 204\r\n\r\n"])
def test_a_response_that_is_cut_anywhere_is_read_on(parser: Parser, head: bytes) -> None:
    for end in range(len(head)):
        assert parser.response(head[:end])[0] == MORE
    assert parser.response(head)[0] == len(head)
    assert parser.response(head + b"body")[0] == len(head)


@pytest.mark.parametrize(
    ("head", "line", "framing", "persists"),
    [
        (CURL, (b"GET", b"/pong/5"), (1, -1, False, False, False), True),
        (AB, (b"GET", b"/pong/5"), (0, -1, False, False, True), True),
        (b"GET /x HTTP/1.0\r\n\r\n", (b"GET", b"/x"), (0, -1, False, False, False), False),
        (POST, (b"POST", b"/"), (1, 12, False, False, False), True),
        (CHUNKS, (b"PUT", b"/x"), (1, -1, True, True, False), False),
        (b"\r\n\r\nGET / HTTP/1.1\r\n\r\n", (b"GET", b"/"), (1, -1, False, False, False), True),
        (
            b"GET http://a/b HTTP/1.1\r\nContent-Length: 7\r\ncontent-length:\t7 \r\n\r\n",
            (b"GET", b"http://a/b"),
            (1, 7, False, False, False),
            True,
        ),
    ],
)
def test_a_request_head_is_parsed(
    parser: Parser,
    head: bytes,
    line: tuple[bytes, bytes],
    framing: tuple[int, int, bool, bool, bool],
    persists: bool,
) -> None:
    got, request = parser.request(head)
    assert got == len(head)
    assert (request.method.value(), request.target.value()) == line
    told = request.framing
    assert (told.minor, told.length, told.chunked, told.close, told.keep_alive) == framing
    assert parser.agent.http_persists(ctypes.byref(told)) == persists


@pytest.mark.parametrize(
    "head",
    [
        b" GET / HTTP/1.1\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET / HTTP/1.1 \r\n\r\n",
        b"GET / HTTP/1.12\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
        b"GET /\xc3\xb6 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\n: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length:\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1000000000000000000\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\n\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    ],
)
def test_bad_requests_are_refused(parser: Parser, head: bytes) -> None:
    assert parser.request(head)[0] == BAD


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 20\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1200 OK\r\n\r\n",
        b"\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"+\n\n",
    ],
)
def test_bad_responses_are_refused(parser: Parser, head: bytes) -> None:
    assert parser.response(head)[0] == BAD


NEAR_HTTP = st.lists(
    st.sampled_from(
        [b"GET", b"HTTP/1.1", b" ", b"\r", b"\n", b"\r\n", b":", b"/", b"200", b"Content-Length"]
    )
    | st.sampled_from([b"Transfer-Encoding", b"chunked", b"Connection", b",", b"close", b"7"])
    | st.binary(max_size=3),
    max_size=30,
).map(b"".join)


@given(NEAR_HTTP | st.binary(max_size=200), st.binary(max_size=20))
def test_further_bytes_never_change_a_finished_parse(
    parser: Parser, data: bytes, more: bytes
) -> None:
    for read in (parser.request, parser.response):
        before, after = read(data)[0], read(data + more)[0]
        assert before in {BAD, MORE} or 0 < before <= len(data)
        assert before in {after, MORE}
        if before == MORE:
            assert after in {BAD, MORE} or after > len(data)


TOKENS = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_", min_size=1, max_size=12)
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)


@given(st.dictionaries(TOKENS, VALUES, max_size=6), st.none() | st.integers(0, 10**17))
def test_fields_that_do_not_matter_are_passed_over(
    parser: Parser, fields: dict[str, str], length: int | None
) -> None:
    known = {"content-length", "transfer-encoding", "connection"}
    lines = [f"{name}: {value}" for name, value in fields.items() if name.lower() not in known]
    lines += [] if length is None else [f"Content-LENGTH: {length}"]
    head = "\r\n".join(["HTTP/1.1 200 Fine", *lines, "", ""]).encode("ascii")
    got, response = parser.response(head)
    assert got == len(head)
    assert response.framing.length == (-1 if length is None else length)


def chunked(pieces: list[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    coded = b"".join(b"%x%s\r\n%s\r\n" % (len(p), extension, p) for p in pieces if p)
    return coded + b"0" + extension + b"\r\n" + trailer + b"\r\n"


def cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(i, len(data)) for i in at), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(
    st.lists(st.binary(max_size=40), max_size=5),
    st.sampled_from([b"", b";x", b' ;q="1"']),
    st.sampled_from([b"", b"Expires: never\r\n", b"a:b\r\nc:d\r\n"]),
    st.lists(st.integers(0, 300), max_size=8),
)
def test_chunks_that_are_cut_anywhere_are_joined(
    parser: Parser, pieces: list[bytes], extension: bytes, trailer: bytes, at: list[int]
) -> None:
    _, response = parser.response(GO)
    body = parser.agent.http_response_body(ctypes.byref(response), False)
    data = chunked(pieces, extension, trailer)
    payload, rest, ended = parser.read(body, cut(data + b"HTTP/1.1", at))
    assert (payload, rest, ended) == (b"".join(pieces), b"HTTP/1.1", True)


@given(st.binary(max_size=60), st.lists(st.integers(0, 100), max_size=4))
def test_chunks_of_any_bytes_are_read_or_refused(
    parser: Parser, data: bytes, at: list[int]
) -> None:
    _, response = parser.response(GO)
    body = parser.agent.http_response_body(ctypes.byref(response), False)
    for piece in cut(data, at):
        used = 0
        while used < len(piece) and body.state != DONE:
            got, _ = parser.body(body, piece[used:])
            assert got == BAD or 0 < got <= len(piece) - used
            if got == BAD:
                return
            used += got
            assert body.left >= 0


@pytest.mark.parametrize(
    "data", [b"\r\n", b"x\r\n", b"-1\r\n", b"1\r\nab", b"1000000000000000\r\n", b"1\r\na\rx"]
)
def test_bad_chunks_are_refused(parser: Parser, data: bytes) -> None:
    _, response = parser.response(GO)
    body = parser.agent.http_response_body(ctypes.byref(response), False)
    at = got = 0
    while at < len(data):
        got, _ = parser.body(body, data[at:])
        if got == BAD:
            break
        at += got
    assert got == BAD


@pytest.mark.parametrize(
    ("head", "to_head", "data", "outcome"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", False, b"abcd", (b"abc", True)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", False, b"ab", (b"ab", False)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", False, b"ab", (b"", True)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", True, b"abc", (b"", True)),
        (b"HTTP/1.1 304 Same\r\nContent-Length: 3\r\n\r\n", False, b"abc", (b"", True)),
        (b"HTTP/1.1 204 None\r\n\r\n", False, b"abc", (b"", True)),
        (b"HTTP/1.0 200 OK\r\n\r\n", False, b"abc", (b"abc", False)),
    ],
)
def test_the_end_of_a_response_body_is_found(
    parser: Parser, head: bytes, to_head: bool, data: bytes, outcome: tuple[bytes, bool]
) -> None:
    _, response = parser.response(head)
    body = parser.agent.http_response_body(ctypes.byref(response), to_head)
    got, _, done = parser.read(body, [data])
    assert (got, done) == outcome
