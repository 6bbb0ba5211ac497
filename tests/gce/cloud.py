"""A Compute Engine of the tests: its API, as Google describes it, and VMs that answer SSH."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.gce.inside import inside
from tests.openstack.processes import WITH_US, Processes

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
UNIVERSE = "lab.invalid"
CONTROLLER = "198.51.100.1/32"
_READY_S = 60.0


class GceCloud:
    """One cloud, known by its state folder."""

    def __init__(self, state: Path) -> None:
        (state / "guests").mkdir(parents=True, exist_ok=True)
        self.state = state
        self.processes = Processes(state)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def url(self) -> str:
        """The address of the API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def credentials(self) -> Path:
        """The file of a service account."""
        return self.state / "account.json"

    @property
    def inside(self) -> list[str]:
        """What to put before a command that is to run where the VMs can be reached."""
        return ["nsenter", f"--net={self._lab()}", "--"]

    def up(self) -> None:
        """Start it. Raises CloudError."""
        self.make_account()
        environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(ROOT),
            "LANG": "C.UTF-8",
        }
        alone = (*WITH_US, "unshare", "--mount", "--propagation", "private")
        fabric = (sys.executable, "-m", "tests.openstack.services.fabric", str(self.state))
        self.processes.start("fabric", [*alone, *fabric], environment)
        self.processes.wait("fabric", _READY_S, (self.state / "fabric.sock").exists)
        serve = (*WITH_US, sys.executable, "-m", "tests.gce.services.serve", str(self.state))
        self.processes.start("api", [*serve, str(self.port), str(self._lab())], environment)
        self.processes.wait("api", _READY_S, self._answers)

    def down(self, *, purge: bool) -> None:
        """Stop all; with purge, also remove the state."""
        self.processes.stop(*self.processes.names(), timeout_s=0)
        if purge:
            shutil.rmtree(self.state)

    @contextmanager
    def fault(self, kind: str, pattern: str = "", times: int = 1, **more: Any) -> Iterator[None]:
        """Have something go wrong: see services/faults.py."""
        with self.faults({"kind": kind, "pattern": pattern, "times": times, **more}):
            yield

    @contextmanager
    def faults(self, *rules: dict[str, Any]) -> Iterator[None]:
        """Have several things go wrong."""
        path = self.state / "faults"
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"id": str(uuid.uuid4()), "rules": rules}))
        new.rename(path)
        try:
            yield
        finally:
            path.unlink()

    @contextmanager
    def recorded(self) -> Iterator[Callable[[], list[dict[str, Any]]]]:
        """Hand out what tells the calls since now, also while they are made.

        Each has "call" ("METHOD path"), "body", "status", "at" (seconds), and "id" if it conforms.
        """
        path = self.state / "log/calls.jsonl"
        before = len(path.read_text().splitlines())

        def calls() -> list[dict[str, Any]]:
            whole = path.read_text().rpartition("\n")[0]
            return [json.loads(line) for line in whole.splitlines()[before:]]

        yield calls

    def here(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns where the VMs can be reached."""
        return inside(self._lab(), work)

    def _lab(self) -> Path:
        return Path(f"/proc/{self.processes.pid('fabric')}/root/run/netns/lab")

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def make_account(self) -> None:
        """Make a service account: a key, its certificate, and the file that users have."""
        key = rsa.generate_private_key(65537, 2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lab")])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=30))
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        (self.state / "account.pem").write_bytes(certificate.public_bytes(pem))
        private = key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {
            "type": "service_account",
            "project_id": "alpha-1",
            "private_key_id": "1",
            "private_key": private.decode(),
            "client_email": "lab@alpha-1.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": f"{self.url}/token",
            # For an account of Google's own universe the library asks Google where it may be used.
            "universe_domain": UNIVERSE,
        }
        descriptor = os.open(self.credentials, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(account, file)
