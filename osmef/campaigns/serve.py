"""A page about campaigns on this machine: to be read, by whoever has the token.

It answers at 127.0.0.1 alone, and only those who call it by a name of this machine, so that no web
page that somebody looks at can read it under a name of its own (DNS rebinding). The token comes
once in the address, then in a cookie that other sites can't send; programs send it as a bearer
token (RFC 6750).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from osmef.campaigns.view import View
from osmef.errors import InputError, OsmefError
from osmef.results.files import storage, write_atomically

_OURS = {"127.0.0.1", "localhost", "::1"}
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,}")
_PATIENCE_S = 30.0
_POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;"
_POLICY += " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# A figure has its styles in itself, and runs nothing.
_FIGURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/html; charset=utf-8"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def read_token(path: Path) -> str:
    """Return the token of a file that only its owner reads; make it first where there is none.

    Raises InputError, StorageError.
    """
    if not path.exists():
        with storage("make a directory", path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        text = secrets.token_urlsafe(24)
        write_atomically(path, f"{text}\n".encode(), 0o600)
    with storage("read", path):
        token = path.read_text(encoding="utf-8").strip()
        mode = path.stat().st_mode
    if mode & 0o077:
        cure = f"chmod 600 {path}"
        raise InputError("others may read the token", where=str(path), cure=cure)
    if not _TOKEN.fullmatch(token):
        cure = "remove the file: a new one is made"
        message = "this is no token: 16 or more letters, digits, - and _"
        raise InputError(message, where=str(path), cure=cure)
    return token


class Server(ThreadingHTTPServer):
    """Serves a view at a port of 127.0.0.1; 0 takes a free one. Raises InputError."""

    daemon_threads = True

    def __init__(self, port: int, view: View, token: str) -> None:
        self.view, self.token = view, token
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            cure = "name another one with --port; 0 takes one that is free"
            message = f"can't listen at port {port}: {error}"
            raise InputError(message, where="--port", cure=cure) from error

    @property
    def address(self) -> str:
        """Where the page is, without the token."""
        return f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has gone."""


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
        url = urlsplit(self.path)
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        if host not in _OURS:
            return _told(HTTPStatus.MISDIRECTED_REQUEST, "This is not the name of this machine.")
        given = parse_qs(url.query).get("token", [""])[0]
        if given and self._is_token(given):
            cookie = f"{self._cookie}={given}; Path=/; HttpOnly; SameSite=Strict"
            headers = {"Location": url.path, "Set-Cookie": cookie}
            return Answer(HTTPStatus.SEE_OTHER, headers=headers)
        if not any(self._is_token(one) for one in (self._from_cookie(), self._bearer())):
            text = "Open the address that `osmef campaign serve` printed, with its token."
            return _told(HTTPStatus.FORBIDDEN, text)
        try:
            return self._page(url.path)
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
