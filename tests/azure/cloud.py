"""The Azure of the tests as processes and ports: HTTPS before ``Arm``, guests behind it."""

from __future__ import annotations

import ctypes
import datetime
import ipaddress
import json
import os
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.azure.arm import SUBSCRIPTION, Answer, Arm
from tests.openstack.processes import WITH_US, Processes
from tests.openstack.services import data_plane_client

TENANT = "22222222-2222-4222-8222-222222222222"
SECRET = "of-the-lab"  # noqa: S105 - nobody takes it but the lab
_ROOT = Path(__file__).parents[2]
_NEWNET = 0x40000000


def write_certificate(folder: Path) -> Path:
    """Write a certificate for 127.0.0.1 with its key; it is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Azure of the tests")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=2))
    builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    path = folder / "certificate.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    path.write_bytes(public)
    (folder / "key.pem").write_bytes(secret)
    return path


class Handler(BaseHTTPRequestHandler):
    """Answers for the authority, for Arm, and for files of serial logs."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    arm: Arm

    def relay(self) -> None:
        """Answer one request."""
        url = urlsplit(self.path)
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if url.path.startswith("/console/"):
            leaked = "Authorization" in self.headers
            console = self.arm.console(url.path.rpartition("/")[2])
            self.give(403 if leaked else 200, console.encode(), {"Content-Type": "text/plain"})
            return
        if url.path.startswith(f"/{TENANT}/"):
            answer = self.authority(url.path, text.decode())
        elif self.headers.get("Authorization") != "Bearer token-of-the-lab":
            told = {"code": "InvalidAuthenticationToken", "message": "no token"}
            answer = Answer(401, {"error": told})
        else:
            body = json.loads(text) if text else None
            answer = self.arm.handle(self.command, url.path, dict(parse_qsl(url.query)), body)
        shown = b"" if answer.body is None else json.dumps(answer.body).encode()
        self.give(answer.status, shown, answer.headers)

    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = relay  # noqa: N815

    def authority(self, path: str, form: str) -> Answer:
        """Answer as the authority that gives out tokens."""
        if path.endswith("/openid-configuration"):
            base = f"{self.arm.url}/{TENANT}"
            return Answer(
                200,
                {
                    "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                    "token_endpoint": f"{base}/oauth2/v2.0/token",
                    "issuer": f"{base}/v2.0",
                },
            )
        if dict(parse_qsl(form)).get("client_secret") != SECRET:
            told = "AADSTS7000215: Invalid client secret provided."
            return Answer(401, {"error": "invalid_client", "error_description": told})
        token = {"token_type": "Bearer", "expires_in": 3600, "access_token": "token-of-the-lab"}
        return Answer(200, token)

    def give(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Write an answer."""
        self.send_response_only(status)
        for key, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """HTTPS at a socket that listens already."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, arm: Arm) -> None:
        handler = type("ArmHandler", (Handler,), {"arm": arm})
        super().__init__(("127.0.0.1", 0), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening

    def handle_error(self, *_: object) -> None:
        """Pass over clients that went away."""


def _listen(context: ssl.SSLContext, port: int, namespace: Path | None) -> socket.socket:
    """Listen at the loopback of a network namespace, by default of this one."""
    found: list[socket.socket] = []

    def make() -> None:
        if namespace is not None:  # of this thread alone
            with namespace.open() as there:
                if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), _NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
        plain = socket.create_server(("127.0.0.1", port), backlog=128)
        found.append(context.wrap_socket(plain, server_side=True))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return found[0]


@contextmanager
def serve(arm: Arm, folder: Path, namespace: Path | None = None) -> Iterator[dict[str, str]]:
    """Serve an Arm, also in a namespace; yields the environment of its clients."""
    certificate = write_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, folder / "key.pem")
    first = _listen(context, 0, None)
    port = first.getsockname()[1]
    listening = [first] if namespace is None else [first, _listen(context, port, namespace)]
    arm.url = f"https://127.0.0.1:{port}"
    servers = [Server(one, arm) for one in listening]
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield {
            "AZURE_AUTHORITY_HOST": arm.url,
            "AZURE_TENANT_ID": TENANT,
            "AZURE_CLIENT_ID": "33333333-3333-4333-8333-333333333333",
            "AZURE_CLIENT_SECRET": SECRET,
            "AZURE_SUBSCRIPTION_ID": SUBSCRIPTION,
            "AZURE_TOKEN_CREDENTIALS": "environmentcredential",
            "REQUESTS_CA_BUNDLE": str(certificate),
        }
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


@contextmanager
def with_guests(state: Path) -> Iterator[tuple[Arm, dict[str, str], list[str]]]:
    """Serve an Arm whose VMs answer SSH.

    Yields it, the environment of its clients, and what to put before a command that is to run where
    the guests can be reached.
    """
    processes, fabric = Processes(state), state / "fabric.sock"
    python = [sys.executable, "-m", "tests.openstack.services.fabric", str(state)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    alone = [*WITH_US, "unshare", "--mount", "--propagation", "private"]
    processes.start("fabric", [*alone, *python], environment)
    try:
        processes.wait("fabric", 60.0, fabric.exists)
        lab = Path(f"/proc/{processes.pid('fabric')}/root/run/netns/lab")
        arm = Arm(lambda request: data_plane_client.ask(str(fabric), request))
        arm.console = lambda key: (state / "guests" / key / "console").read_text(errors="replace")
        with serve(arm, state, lab) as client:
            yield arm, client, ["nsenter", f"--net={lab}", "--"]
    finally:
        processes.stop("fabric", timeout_s=0)
