"""EC2 for tests: moto's server, with real sshd behind its instances.

The API is served at one port of two loopbacks: this process's, and that of the network namespace in
which the instances can be reached, where ``osmef`` is run.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from tests.aws import gaps
from tests.aws.wiring import guest_of, key_of, running, told_of
from tests.openstack.services.line import ask

REGION = "eu-central-1"
ACCOUNTS = {"AKIARED": DEFAULT_ACCOUNT_ID, "AKIABLUE": "210987654321"}
"""By the access key that means it."""
_ROOT = Path(__file__).parents[2]
_UP_S = 30.0
_CLONE_NEWNET = 0x40000000
_ERROR = (
    '<?xml version="1.0"?><Response><Errors><Error><Code>{code}</Code><Message>{message}</Message>'
    "</Error></Errors><RequestID>1</RequestID></Response>"
)


@dataclass
class Fault:
    """What the API does wrong, ``times`` times: answers to an action with an error.

    With ``after`` the action is carried out all the same. ``then`` is called before the answer.
    """

    action: str
    code: str
    status: int = 400
    message: str = "as the test wants it"
    times: int = 1
    after: bool = False
    holding: str = ""
    then: Callable[[], None] = lambda: None

    def hits(self, action: str, body: str) -> bool:
        """Tell whether it is for this request, and count it."""
        if self.action != action or self.times == 0 or self.holding not in body:
            return False
        self.times -= 1
        return True


@dataclass
class Cloud:
    """The API and the data plane; ``state`` is an empty folder."""

    state: Path
    faults: list[Fault] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    stuck: bool = False
    """Whether guests panic instead of booting."""
    _guests: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _servers: list[BaseWSGIServer] = field(default_factory=list)

    def up(self) -> None:
        """Start all."""
        self._start_fabric()
        gaps.fill(lambda instance: self.state / "guests" / key_of(instance) / "console")
        self._app = DomainDispatcherApplication(create_backend_app)
        here = socket.create_server(("127.0.0.1", 0))
        self.port = here.getsockname()[1]
        for listening in (here, self._inside_socket()):
            listening.listen(128)
            server = make_server("127.0.0.1", self.port, self, threaded=True, fd=listening.fileno())
            listening.close()
            self._servers.append(server)
            threading.Thread(target=server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where the API is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def inside(self) -> Sequence[str]:
        """The prefix of a command that shall reach the instances."""
        return ("nsenter", f"--net={self._lab}", "--")

    @property
    def _lab(self) -> str:
        return f"/proc/{self._fabric.pid}/root/run/netns/lab"

    def _start_fabric(self) -> None:
        argv = ["unshare", "--mount", "--propagation", "private", sys.executable]
        with (self.state / "fabric.log").open("ab") as log:
            self._fabric = subprocess.Popen(
                [*argv, "-m", "tests.openstack.services.fabric", str(self.state)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                start_new_session=True,
            )
        end = time.monotonic() + _UP_S
        while not (self.state / "fabric.sock").exists():
            if self._fabric.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.state / "fabric.log").read_text())
            threading.Event().wait(0.05)

    def _inside_socket(self) -> socket.socket:
        """Listen at the port in the namespace of the instances."""
        found: list[socket.socket] = []

        def listen() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            namespace = os.open(self._lab, os.O_RDONLY)
            if libc.setns(namespace, _CLONE_NEWNET) == 0:  # of this thread alone
                found.append(socket.create_server(("127.0.0.1", self.port)))
            os.close(namespace)

        thread = threading.Thread(target=listen)
        thread.start()
        thread.join()
        return found[0]

    def down(self) -> None:
        """End all."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
        os.killpg(self._fabric.pid, signal.SIGKILL)
        self._fabric.wait()

    def reset(self) -> None:
        """Forget all that was made, and the faults."""
        self.faults.clear()
        self.calls.clear()
        self.stuck = False
        with self._lock:
            ec2_backends.reset()
            for account in ACCOUNTS.values():
                _add_images(ec2_backends[account][REGION])
        self._sync()

    def backends(self) -> list[Any]:
        """Return what moto knows, by account."""
        return [ec2_backends[account][REGION] for account in ACCOUNTS.values()]

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request, as WSGI has it (PEP 3333)."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        signed = environ.get("HTTP_AUTHORIZATION", "")
        for key, account in ACCOUNTS.items():
            if f"Credential={key}/" in signed:
                environ["HTTP_X_MOTO_ACCOUNT_ID"] = account
        text = body.decode(errors="replace")
        action = parse_qs(text).get("Action", [""])[0]
        with self._lock:
            self.calls.append(action)
            fault = next((fault for fault in self.faults if fault.hits(action, text)), None)
        if fault is None or fault.after:
            with self._lock:
                answer = list(self._app(environ, start if fault is None else _nowhere))
            if not action.startswith(("Describe", "Get")):
                self._sync()
            if fault is None:
                return answer
        fault.then()
        start(f"{fault.status} Fault", [("Content-Type", "text/xml")])
        return [_ERROR.format(code=fault.code, message=fault.message).encode()]

    def _sync(self) -> None:
        """Make the data plane what moto says."""
        with self._lock:
            line = str(self.state / "fabric.sock")
            there = {one.id: one for backend in self.backends() for one in running(backend)}
            for gone in self._guests.keys() - there.keys():
                ask(line, {"do": "end", "id": self._guests.pop(gone)})
            ask(line, {"do": "apply", "told": told_of(self.backends())})
            for key in there.keys() - self._guests.keys():
                guest = guest_of(there[key], stuck=self.stuck)
                ask(line, {"do": "boot", "guest": guest})
                self._guests[key] = guest["id"]


def _nowhere(*_answer: object) -> None:
    """Begin an answer that nobody gets."""


def _add_images(backend: Any) -> None:
    """Have two images of Debian, as its owner publishes them."""
    for day in ("20260101-1", "20260301-2"):
        image = backend.register_image(f"debian-12-amd64-{day}", f"Debian 12 {day}")
        image.owner_id, image.architecture, image.ena_support = "136693071363", "x86_64", True
        image.creation_date = datetime.strptime(day[:8], "%Y%m%d").replace(tzinfo=UTC)
        image.root_device_name = "/dev/xvda"


def skip_unless_possible() -> None:
    """Skip a test where namespaces can't be made."""
    if os.geteuid() != 0:
        pytest.skip("the EC2 of the tests needs root, for namespaces")
    for program in ("ip", "nft", "nsenter", "unshare"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            pytest.skip(f"the EC2 of the tests needs {program}")
