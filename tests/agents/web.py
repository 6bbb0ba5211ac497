"""Foreign ends of HTTP for the agent's pong, ping and siege."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.agents.lab import TIMEOUT_S, Agent

Talk = Callable[[socket.socket], None]


def pong_body(size: int) -> bytes:
    """Return what the published programs answer: "pong" at least."""
    return b"p" + b"o" * (max(size, 4) - 3) + b"ng"


def serve_pong(agent: Agent, **changes: object) -> int:
    """Have the agent be a pong; return its port."""
    agent.command("pong", **({"id": "pong-1", "bind": "127.0.0.1", "port": 0} | changes))
    port: int = agent.expect("listening")["port"]
    return port


def serve_ping(agent: Agent, pong: int, **changes: object) -> int:
    """Have the agent be a ping before that pong; return its port."""
    usual = {"id": "ping-1", "bind": "127.0.0.1", "listen_port": 0, "host": "127.0.0.1"}
    agent.command("ping", **(usual | {"port": pong, "threads": 2} | changes))
    port: int = agent.expect("listening")["port"]
    return port


def get(port: int, path: str) -> tuple[int, bytes]:
    """Return status and body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def metered(port: int, size: int) -> dict[str, Any]:
    """Return what a ping tells about its request to pong."""
    told: dict[str, Any] = json.loads(get(port, f"/mping/{size}")[1])
    return told


class _PublishedPong(BaseHTTPRequestHandler):
    """Answers as the published pongs do: with a length, in chunks, or to the connection's end."""

    protocol_version = "HTTP/1.1"
    framing = "length"

    def do_GET(self) -> None:
        body = pong_body(int(self.path.removeprefix("/pong/")))
        self.send_response(200)
        if self.framing == "chunks":
            self.send_header("Transfer-Encoding", "chunked")
            pieces = [body[i : i + 3000] for i in range(0, len(body), 3000)]
            body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in [*pieces, b""])
        elif self.framing == "length":
            self.send_header("Content-Length", str(len(body)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _PublishedPing(BaseHTTPRequestHandler):
    """Relays as the published pings do, with JSON laid out as the Java one has it."""

    pong = 0

    def do_GET(self) -> None:
        _, kind, size = self.path.split("/")
        begin = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.pong}/pong/{size}") as answer:
            body = answer.read()
        if kind == "mping":
            ms = (time.monotonic() - begin) * 1000
            told = {"length": len(body), "code": 200, "duration": ms, "retries": 0}
            body = json.dumps(told, indent=2).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that leave in the middle are part of the tests."""


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def published_pong(framing: str = "length") -> Iterator[int]:
    """Run a foreign pong; give its port."""
    handler = type("Pong", (_PublishedPong,), {"framing": framing})
    with _serving(handler) as port:
        yield port


@contextmanager
def published_ping(pong: int) -> Iterator[int]:
    """Run a foreign ping before that pong; give its port."""
    with _serving(type("Ping", (_PublishedPing,), {"pong": pong})) as port:
        yield port


@contextmanager
def talker(talk: Talk) -> Iterator[int]:
    """Run a server that says what it likes to each connection, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.settimeout(TIMEOUT_S)
                    talk(connection)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def read_head(connection: socket.socket) -> bytes:
    """Return what a client sends up to the empty line."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        got = connection.recv(1)
        if not got:
            raise ConnectionResetError
        head += got
    return head


def besiege_in_a_row(pong: Agent, ping: Agent, siege: Agent) -> None:
    """Let siege ask ping, and ping ask pong, each with one thread, and check what they say."""
    port = serve_ping(ping, serve_pong(pong, threads=1), threads=1)
    assert get(port, "/ping/70000") == (200, pong_body(70000))
    keys = {"id": "siege-1", "host": "127.0.0.1", "port": port, "sizes": "5,5000", "repetitions": 4}
    siege.command("siege", **keys, connections=2, threads=1)
    siege.expect("connected")
    siege.command("start", id="siege-1")
    assert sorted(siege.expect("requests")["length"]) == [5] * 4 + [5000] * 4
    assert siege.expect("result")["failed"] == 0
    for server, name in ((ping, "ping-1"), (pong, "pong-1")):
        server.command("stop", id=name)
        assert server.expect("result")["requests"] == 9
