"""The API of the cloud of the tests: serve.py STATE PORT LAB, the latter a network namespace.

It answers at 127.0.0.1 here and in the namespace.
"""

from __future__ import annotations

import json
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from google.auth import jwt
from google.auth.exceptions import GoogleAuthError

from tests.gce.inside import inside
from tests.gce.services.cloud import Cloud
from tests.gce.services.description import Description, RefusalError
from tests.gce.services.faults import Faults
from tests.gce.services.machines import Machines

_decode: Callable[..., object] = jwt.decode


class Api:
    """What all ports share."""

    def __init__(self, state: Path) -> None:
        self.faults = Faults(state)
        self.description = Description()
        self.cloud = Cloud(Machines(state, self.faults), self.faults)
        self.certificate = (state / "account.pem").read_bytes()
        self.calls = (state / "log/calls.jsonl").open("a", buffering=1)

    def admit(self, who: str) -> None:
        """Look at what the client's real chain of credentials signed. Raises RefusalError."""
        try:
            _decode(who.removeprefix("Bearer "), certs=self.certificate)
        except (ValueError, GoogleAuthError) as error:
            message = f"Request had invalid authentication credentials: {error}"
            raise RefusalError(401, "authError", message) from error

    def answer(
        self, verb: str, target: str, who: str, given: Any, record: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the answer to a call, and write down which it is. Raises RefusalError."""
        self.admit(who)
        parts = urlsplit(target)
        call = self.description.read(verb, parts.path, dict(parse_qsl(parts.query)), given)
        record["id"] = call.id
        answer = self.cloud.do(call)
        self.description.check(call.response, answer, call.id)
        return answer


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    api: Api

    def handle_call(self) -> None:
        """Answer one request."""
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.loads(text) if text else None
        wrong = self.api.faults.call(f"{self.command} {self.path}")
        headers: dict[str, str] = {}
        record: dict[str, Any] = {"call": f"{self.command} {self.path}", "body": body}
        try:
            if wrong and "status" in wrong:
                headers = wrong.get("headers", {})
                raise RefusalError(wrong["status"], wrong["reason"], wrong["message"])
            who = self.headers.get("Authorization", "")
            status, answer = 200, self.api.answer(self.command, self.path, who, body, record)
        except RefusalError as refusal:
            status, answer = refusal.status, refusal.body
        self.api.calls.write(
            json.dumps({**record, "status": status, "at": time.monotonic()}) + "\n"
        )
        if wrong and wrong.get("lose"):
            self.close_connection = True
            return
        self._give(status, headers, json.dumps(answer).encode())

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_call  # noqa: N815

    def _give(self, status: int, headers: dict[str, str], text: bytes) -> None:
        self.send_response_only(status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(text)), **headers}
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(text)


class Server(socketserver.ThreadingTCPServer):
    """One port."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """Serve until ended."""
    state, port, lab = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    Handler.api = Api(state)
    here = Server(("127.0.0.1", port), Handler)
    there = inside(lab, lambda: Server(("127.0.0.1", port), Handler))
    threading.Thread(target=there.serve_forever, daemon=True).start()
    here.serve_forever()


main()
