"""An identity service that logs anybody in, and what else a test wants of a cloud beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

Answer = Callable[[str, str], tuple[int, Any] | None]
"""What a service says to a method and a path, with its query: a status and JSON; or None."""

SERVICES = {
    "compute": ("/compute/v2.1", "v2.1", "2.1", "2.95"),
    "image": ("/image/v2", "v2.0", "", ""),
    "network": ("/network/v2.0", "v2.0", "", ""),
    "block-storage": ("/volume/v3", "v3.0", "3.0", "3.70"),
}
"""Where each is, and the version that it tells of itself, with microversions."""


class _Handler(BaseHTTPRequestHandler):
    regions: tuple[str, ...] = ()
    answers: Mapping[str, Answer] = {}

    def do_POST(self) -> None:
        """Give a token for the project that is asked for (POST /v3/auth/tokens)."""
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        if not self.path.startswith("/v3/auth"):
            self._answer()
            return
        user = asked["auth"]["identity"]["password"]["user"]["name"]
        token = {
            "methods": ["password"],
            "user": {"id": user, "name": user, "domain": {"id": "default", "name": "Default"}},
            "project": asked["auth"]["scope"]["project"],
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "catalog": self._catalog(),
        }
        self._give(201, {"token": token}, {"X-Subject-Token": "t"})

    def do_GET(self) -> None:
        """Answer as the test wants, or tell which version of a service is here."""
        self._answer()

    do_DELETE = do_GET  # noqa: N815

    def _answer(self) -> None:
        for kind, (at, *version) in SERVICES.items():
            if kind in self.answers and self.path.startswith(at):
                found = self.answers[kind](self.command, self.path.removeprefix(at).strip("/"))
                status, content = found or (200, {"version": self._version(at, *version)})
                self._give(status, content)
                return
        self._give(404, {})

    def _version(self, at: str, name: str, lowest: str, highest: str) -> dict[str, object]:
        links = [{"rel": "self", "href": f"{self._here}{at}/"}]
        range_ = {"min_version": lowest, "version": highest}
        return {"id": name, "status": "CURRENT", "links": links, **range_}

    def _catalog(self) -> list[dict[str, object]]:
        usual = {"id": "e", "interface": "public", "url": "http://127.0.0.1:9"}
        ends = [{**usual, "region": one, "region_id": one} for one in self.regions]
        found: list[dict[str, object]] = []
        if "compute" not in self.answers:
            found.append({"type": "compute", "name": "nova", "endpoints": ends})
        for kind in self.answers:
            end = {**usual, "url": self._here + SERVICES[kind][0], "region": "r", "region_id": "r"}
            found.append({"type": kind, "name": kind, "endpoints": [end]})
        return found

    @property
    def _here(self) -> str:
        return f"http://{self.headers['Host']}"

    def _give(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        body = b"" if status == 204 else json.dumps(content).encode()
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def keystone(*regions: str, answers: Mapping[str, Answer] | None = None) -> Iterator[str]:
    """Run one, of a cloud that has servers in these regions, and return its URL.

    ``answers`` are those of other services, by their type in the catalog.
    """
    handler = type("Handler", (_Handler,), {"regions": regions, "answers": answers or {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v3"
        finally:
            server.shutdown()
            thread.join()


def write_cloud(path: Path, url: str, project: str, **more: object) -> None:
    """Write a clouds.yaml with one cloud, "lab"."""
    path.write_text(json.dumps({"clouds": {"lab": {**entry(url, project), **more}}}))


def entry(url: str, project: str, user: str = "u") -> dict[str, object]:
    """Return a cloud of clouds.yaml."""
    auth = {"auth_url": url, "username": user, "password": "p", "user_domain_id": "default"}
    return {"auth_type": "v3password", "auth": {**auth, "project_id": project}}
