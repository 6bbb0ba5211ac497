"""Where the bearer token goes: to hosts of Google's by https, to this machine, and nowhere else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from google.cloud import compute_v1

from osmef.engine.journal import Journal
from osmef.errors import ProviderError
from osmef.providers.base import Resource
from osmef.providers.gce.access import Project
from tests.gce.cloud import UNIVERSE
from tests.invoked import invoke

RUN = "lab-20260101T000000Z-abcd"


@dataclass
class Listener:
    """An HTTP server that keeps the headers of what it is asked, also as a proxy."""

    port: int = 0
    to: str | None = None
    heard: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def tokens(self) -> list[str | None]:
        return [token for _, token in self.heard if token is not None]


@contextmanager
def listening(to: str | None = None) -> Iterator[Listener]:
    """Listen; hand tokens out at /token, and send all else elsewhere, or nowhere."""
    listener = Listener(to=to)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            listener.heard.append((self.path, self.headers.get("Authorization")))
            token = {"access_token": "secret", "expires_in": 3600, "token_type": "Bearer"}
            body = json.dumps(token if self.path == "/token" else {}).encode()
            moved = self.path != "/token" and listener.to is not None
            self.send_response(302 if moved else 200)
            if moved:
                self.send_header("Location", f"{listener.to}{self.path}")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_GET  # noqa: N815 - http.server's names

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        listener.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield listener
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """Credentials of an account whose token this machine hands out."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with listening() as found:
        account = {
            "type": "service_account",
            "client_email": "lab@example.com",
            "private_key": pem,
            "project_id": "lab",
            "universe_domain": UNIVERSE,  # of Google's own the library asks where it is
            "token_uri": f"{found.url}/token",
        }
        file = tmp_path / "account.json"
        file.write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        monkeypatch.setenv("GOOGLE_CLOUD_UNIVERSE_DOMAIN", UNIVERSE)
        yield found


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """A listener on the way to a host elsewhere: here as the proxy that leads there."""
    with listening() as found:
        monkeypatch.setenv("http_proxy", found.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield found


def reap(*arguments: str) -> tuple[int, str]:
    done = invoke("reap", *arguments)
    return done.exit_code, " ".join(done.output.split())


def test_a_journal_cannot_redirect_the_token_to_another_host(
    tmp_path: Path, google: Listener, stranger: Listener
) -> None:
    access = {"cloud": "lab", "uri": "http://api.example.org"}
    (tmp_path / RUN).mkdir()
    journal = Journal(tmp_path / RUN / "journal.jsonl")
    journal.intend(Resource("gce", "network", "osmef-net", RUN, access=access))
    for more in ((), ("--provider", "gce", "--cloud", "lab", "--uri", google.url)):
        code, told = reap("--out", str(tmp_path), "--yes", *more)
        assert stranger.tokens == []
        assert code == 1
        assert "credentials for api.example.org would be sent in clear text" in told
    assert len(journal.existing()) == 1


@pytest.mark.usefixtures("google")
@pytest.mark.parametrize("url", ["http://api.example.org", "http://127.0.0.2:9"])
def test_a_scenario_cannot_redirect_the_token(tmp_path: Path, stranger: Listener, url: str) -> None:
    """Nor to this machine, where that is on the way through a proxy."""
    provider = {
        "kind": "gce",
        "region": "us-central1",
        "controller_cidr": "198.51.100.7/32",
        "endpoint_url": url,
    }
    scenario = tmp_path / "lab.json"
    scenario.write_text(json.dumps({"name": "lab", "placement": "any", "provider": provider}))
    ended = invoke("run", scenario)
    assert stranger.tokens == []
    assert ended.exit_code == 2


@pytest.mark.usefixtures("google")
def test_a_command_line_cannot_redirect_the_token(stranger: Listener) -> None:
    code, told = reap("--provider", "gce", "--cloud", "lab", "--uri", "http://api.example.org")
    assert stranger.tokens == []
    assert (code, "--uri" in told) == (2, True)


@pytest.mark.usefixtures("google")
def test_a_redirection_does_not_take_it_along() -> None:
    with listening() as elsewhere, listening(elsewhere.url) as api:
        project = Project({"cloud": "lab", "uri": api.url})
        with suppress(ProviderError):  # what is there is no API
            project.every("listing zones", compute_v1.ZonesClient)
        assert len(api.tokens) == 1
        assert elsewhere.heard
        assert elsewhere.tokens == []
