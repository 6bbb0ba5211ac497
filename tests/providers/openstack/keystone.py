"""An identity service that logs anybody in, where only the login is of interest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class _Handler(BaseHTTPRequestHandler):
    regions: tuple[str, ...] = ()

    def do_POST(self) -> None:
        """Give a token for the project that is asked for (POST /v3/auth/tokens)."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        token = {
            "methods": ["password"],
            "user": {"id": "u", "name": "u", "domain": {"id": "default", "name": "Default"}},
            "project": asked["auth"]["scope"]["project"],
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "catalog": [{"type": "compute", "name": "nova", "endpoints": self._endpoints()}],
        }
        body = json.dumps({"token": token}).encode()
        self.send_response(201)
        self.send_header("X-Subject-Token", "t")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _endpoints(self) -> list[dict[str, str]]:
        usual = {"id": "e", "interface": "public", "url": "http://127.0.0.1:9"}
        return [{**usual, "region": one, "region_id": one} for one in self.regions]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def keystone(*regions: str) -> Iterator[str]:
    """Run one, of a cloud that has servers in these regions, and return its URL."""
    handler = type("Handler", (_Handler,), {"regions": regions})
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
    auth = {"auth_url": url, "username": "u", "password": "p", "user_domain_id": "default"}
    cloud = {"auth_type": "v3password", "auth": {**auth, "project_id": project}, **more}
    path.write_text(json.dumps({"clouds": {"lab": cloud}}))
