"""Read-only HTTP server of the campaigns' pages, with token authentication.

It answers at 127.0.0.1 alone, and only those who call it by a name of this machine, so that no web
page that somebody looks at can read it under a name of its own (DNS rebinding). The token comes
once in the address, then in a cookie that other sites can't send; programs send it as a bearer
token (RFC 6750).
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from osmef.campaigns.watching.page import CampaignPages
from osmef.errors import InputError, OsmefError
from osmef.named_file import read_text_file
from osmef.results.files import storage, write_atomically

_OURS = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
# What a browser is sent on to: a path that no browser takes for another host.
_PLAIN = re.compile(r"/|(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")
_MOST_TOKEN = 4096
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,}")
# So long a client may be silent, and so long it may take for all it asks and reads.
_PATIENCE_S = 30.0
_WHOLE_S = 120.0
_MOST_CLIENTS = 64
_POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;"
_POLICY += " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# A figure has its styles in itself, and runs nothing.
_FIGURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"


@dataclass(frozen=True)
class Answer:
    """An HTTP response."""

    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/html; charset=utf-8"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def read_token(path: Path) -> str:
    """Return the token in a private file, which is created if absent.

    Raises InputError, StorageError.
    """
    if not path.exists():
        with storage("make a directory", path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        text = secrets.token_urlsafe(24)
        write_atomically(path, f"{text}\n".encode(), 0o600)
    with storage("read", path):
        token = read_text_file(path, _MOST_TOKEN, errors="replace").strip()
        about = path.stat()
    if about.st_mode & 0o077 or about.st_uid != os.geteuid():
        cure = f"chmod 600 {path}; or remove it if it is not yours: a new one is made"
        raise InputError("others may read the token", where=str(path), cure=cure)
    if not _TOKEN.fullmatch(token):
        cure = "remove the file: a new one is made"
        message = "this is no token: 16 or more letters, digits, - and _"
        raise InputError(message, where=str(path), cure=cure)
    return token


class Server(ThreadingHTTPServer):
    """Serves a view at a port of 127.0.0.1; 0 takes a free one. Raises InputError."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        port: int,
        view: CampaignPages,
        token: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.view, self.token, self._clock = view, token, clock
        self._since: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            cure = "name another one with --port; 0 takes one that is free"
            message = f"can't listen at port {port}: {error}"
            raise InputError(message, where="--port", cure=cure) from error

    @property
    def address(self) -> str:
        """The URL, without the token."""
        return f"http://127.0.0.1:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; over the limit of connections, close the slowest one."""
        with self._lock:
            if len(self._since) >= _MOST_CLIENTS:
                slowest = min(self._since, key=self._since.__getitem__)
                del self._since[slowest]
                _hang_up(slowest)
            self._since[request] = self._clock()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close connections that exceed the time limit."""
        with self._lock:
            for request, since in self._since.items():
                if self._clock() - since > _WHOLE_S:
                    _hang_up(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that the browser has closed."""


def _hang_up(connection: socket.socket) -> None:
    """Shut a connection down, so that its thread ends."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _PATIENCE_S
    server_version, sys_version = "osmef", ""

    def do_GET(self) -> None:
        self._send(self._answer())

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing: a request may hold the token."""

    def _answer(self) -> Answer:
        path, _, query = self.path.partition("?")
        return self._refusal() or self._login(path, query) or self._known(path)

    def _refusal(self) -> Answer | None:
        """Return the refusal of a wrong Host header (DNS rebinding); None for a right one."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not _OURS.fullmatch(hosts[0].strip()):
            return _told(HTTPStatus.MISDIRECTED_REQUEST, "This is not the name of this machine.")
        if not self.path.startswith("/"):
            return _told(HTTPStatus.BAD_REQUEST, "Ask for a path of this machine.")
        return None

    def _login(self, path: str, query: str) -> Answer | None:
        """Return a redirect that turns the token into a cookie; None without a valid token."""
        given = parse_qs(query).get("token", [""])[0]
        if given and self._is_token(given):
            cookie = f"{self._cookie}={given}; Path=/; HttpOnly; SameSite=Strict"
            there = path if _PLAIN.fullmatch(path) else "/"
            headers = {"Location": there, "Set-Cookie": cookie}
            return Answer(HTTPStatus.SEE_OTHER, headers=headers)
        return None

    def _known(self, path: str) -> Answer:
        """Return a page to an authenticated browser."""
        if not any(self._is_token(one) for one in (self._from_cookie(), self._bearer())):
            text = "Open the address that `osmef campaign serve` printed, with its token."
            return _told(HTTPStatus.FORBIDDEN, text)
        try:
            return self._page(path)
        except InputError as error:
            return _told(HTTPStatus.NOT_FOUND, error.message)
        except OsmefError as error:
            return _told(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def _page(self, path: str) -> Answer:
        view = self.server.view
        parts = [part for part in path.split("/") if part]
        match parts:
            case []:
                return Answer(body=view.home().encode())
            case ["metrics"]:
                kind = "text/plain; version=0.0.4; charset=utf-8"
                return Answer(kind=kind, body=view.metrics().encode())
            case ["static", name]:
                kind, body = view.static(name)
                return Answer(kind=kind, body=body)
            case ["campaign", name]:
                return Answer(body=view.campaign(name).encode())
            case ["campaign", name, "figures", figure]:
                headers = {"Content-Security-Policy": _FIGURE_POLICY}
                return Answer(kind="image/svg+xml", body=view.figure(name, figure), headers=headers)
        return _told(HTTPStatus.NOT_FOUND, "There is no such page.")

    @property
    def _cookie(self) -> str:
        return f"osmef-{self.server.server_port}"

    def _from_cookie(self) -> str:
        try:
            cookies = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            return ""
        return cookies[self._cookie].value if self._cookie in cookies else ""

    def _bearer(self) -> str:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.server.token.encode())

    def _send(self, answer: Answer) -> None:
        headers = {
            "Content-Type": answer.kind,
            "Content-Length": str(len(answer.body)),
            "Content-Security-Policy": _POLICY,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            **answer.headers,
        }
        self.send_response(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def _told(status: HTTPStatus, text: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{text}\n".encode())
