"""What clients talk to: a proxy before each API, as a real cloud has one, that keeps a list.

front.py GIVEN: JSON with "ip", "apis", a list of [name, port here, port of the service], "state"
and "lab", the network namespace in which the same ports answer too, or null. Each call is a line of
STATE/log/calls.jsonl. STATE/faults/front says which calls go wrong, and how often.
"""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import re
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

CLONE_NEWNET = 0x40000000
OWN = {"connection", "transfer-encoding", "content-length", "keep-alive", "server", "date"}


class Book:
    """The list of calls, and the faults that are wanted."""

    def __init__(self, state: Path) -> None:
        self.calls = (state / "log/calls.jsonl").open("a", buffering=1)
        self.wishes = state / "faults/front"
        self.read = 0  # when the wishes were written that are known
        self.rules: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    def wanted(self, service: str, request: str) -> int | str | None:
        """Return what is to go wrong with this call: a status, "lose" or nothing."""
        with self.lock:
            written = self.wishes.stat().st_mtime_ns if self.wishes.exists() else 0
            if written != self.read:
                self.rules = json.loads(self.wishes.read_text()) if written else []
                self.read = written
            for rule in self.rules:
                fits = rule["service"] == service and re.search(rule["request"], request)
                if fits and rule["times"] > 0:
                    rule["times"] -= 1
                    how: int | str = rule["how"]
                    return how
        return None

    def note(self, **call: Any) -> None:
        """Add a call to the list."""
        with self.lock:
            self.calls.write(json.dumps(call) + "\n")


class Handler(BaseHTTPRequestHandler):
    """Passes requests on, one after the other of a connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server

    def relay(self) -> None:
        """Pass one request on and its answer back."""
        began = time.monotonic()
        body = self.body()
        how = self.server.book.wanted(self.server.name, f"{self.command} {self.path}")
        status, headers, answer = (how, [], b"") if isinstance(how, int) else self.ask(body)
        if how == "lose" or status == 0:
            self.close_connection = True
        else:
            self.give(status, headers, answer)
        self.server.book.note(
            service=self.server.name,
            method=self.command,
            path=self.path,
            status=status,
            seconds=round(time.monotonic() - began, 4),
            lost=self.close_connection,
        )

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = relay  # noqa: N815

    def body(self) -> bytes:
        """Read the body of the request."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return the service's answer: 503 where nothing listens, status 0 when it broke off."""
        upstream = http.client.HTTPConnection(*self.server.upstream)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in OWN}
        try:
            upstream.request(self.command, self.path, body or None, headers)
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        except ConnectionRefusedError:
            return 503, [], b"No server is available to handle this request.\n"
        except (OSError, http.client.HTTPException):
            return 0, [], b""
        finally:
            upstream.close()

    def give(self, status: int, headers: list[tuple[str, str]], answer: bytes) -> None:
        """Write the answer."""
        self.send_response_only(status)
        for key, value in headers:
            if key.lower() not in OWN:
                self.send_header(key, value)
        if status == 429:
            self.send_header("Retry-After", "1")
        length = dict(headers).get("Content-Length", "0") if self.command == "HEAD" else len(answer)
        if status != 204:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(answer)


class Server(socketserver.ThreadingTCPServer):
    """One port of one API."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, name: str, ip: str, port: int, upstream: int, book: Book) -> None:
        super().__init__((ip, port), Handler)
        self.name, self.upstream, self.book = name, (ip, upstream), book

    def handle_error(self, *_: object) -> None:
        """Pass over clients that went away."""


def enter(namespace: int) -> None:
    """Make sockets in this network namespace from now on. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def main() -> None:
    """Serve until ended."""
    given = json.loads(sys.argv[1])
    book = Book(Path(given["state"]))
    home = os.open("/proc/self/ns/net", os.O_RDONLY)

    ip = given["ip"]

    def listen() -> list[Server]:
        return [Server(name, ip, port, upstream, book) for name, port, upstream in given["apis"]]

    servers = listen()
    if given["lab"]:
        enter(os.open(given["lab"], os.O_RDONLY))
        servers += listen()
        enter(home)
    for server in servers[1:]:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    servers[0].serve_forever()


main()
