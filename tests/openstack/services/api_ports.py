"""The ports of an API: what is asked there is answered, noted, or goes wrong as a test wants.

Each call is a line of STATE/log/calls.jsonl. STATE/faults/front says which calls go wrong, and how
often.
"""

from __future__ import annotations

import json
import re
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.gce.inside import inside

OWN = {"connection", "transfer-encoding", "content-length", "keep-alive", "server", "date"}


@dataclass(frozen=True)
class Asked:
    """A request; ``path`` has the query, too, and the names of headers are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Answer = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and body; status 0 where there is no answer at all."""
Ask = Callable[[Asked], Answer]


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
    server: ApiPort

    def relay(self) -> None:
        """Pass one request on and its answer back."""
        began = time.monotonic()
        given = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, self.path, given, self.body())
        how = self.server.book.wanted(self.server.name, f"{self.command} {self.path}")
        status, headers, answer = (how, [], b"") if isinstance(how, int) else self.server.ask(asked)
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


class ApiPort(socketserver.ThreadingTCPServer):
    """One port of one API."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, name: str, address: tuple[str, int], ask: Ask, book: Book) -> None:
        super().__init__(address, Handler)
        self.name, self.ask, self.book = name, ask, book
        self.address = (address[0], int(self.server_address[1]))

    def handle_error(self, *_: object) -> None:
        """Pass over clients that went away."""


def api_ports(ip: str, apis: Iterable[tuple[str, int, Ask]], book: Book) -> list[ApiPort]:
    """Listen at this address for each API: its name, its port (0 for any), what answers there."""
    return [ApiPort(name, (ip, port), ask, book) for name, port, ask in apis]


def lab_ports(first: Iterable[ApiPort], lab: Path) -> list[ApiPort]:
    """Listen at the same ports in a network namespace, too."""

    def listen() -> list[ApiPort]:
        return [ApiPort(door.name, door.address, door.ask, door.book) for door in first]

    return inside(lab, listen)


def serve(all_: list[ApiPort]) -> None:
    """Serve until ended."""
    for door in all_[1:]:
        threading.Thread(target=door.serve_forever, daemon=True).start()
    all_[0].serve_forever()
