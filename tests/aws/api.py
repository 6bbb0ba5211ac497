"""The API of EC2 for tests: moto's server, with what it lacks, and with faults."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl, urlencode

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.ssm.models import ssm_backends
from werkzeug.serving import BaseWSGIServer, make_server

from tests.aws import gaps

REGION, FAR = "eu-central-1", "eu-west-1"
PLAIN: dict[str, Any] = {"region_name": REGION, "is_instance_type_default": False}
"""What moto wants to know of an instance that is run without the API."""
ACCOUNTS = {"AKIARED": DEFAULT_ACCOUNT_ID, "AKIABLUE": "210987654321"}
"""By the access key that means it."""
AMAZON = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-6.1-"
"""The parameter of the newest image, without its architecture."""
NO_INSTANCES = "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>"
NO_TABLES = "<DescribeRouteTablesResponse><routeTableSet/></DescribeRouteTablesResponse>"
"""Answers of an EC2 that does not list yet what was just made."""
_XML = (
    '<?xml version="1.0"?><Response><Errors><Error><Code>{code}</Code><Message>{message}</Message>'
    "</Error></Errors><RequestID>1</RequestID></Response>"
)


@dataclass(frozen=True)
class Call:
    """A request to a service, with its parameters."""

    service: str
    action: str
    request: dict[str, str]

    @property
    def permission(self) -> str:
        """What a policy has to allow for it."""
        return f"{self.service}:{self.action}"


@dataclass
class Fault:
    """What the API does wrong, ``times`` times (-1: always), to an action.

    It answers with an error of this code, with ``answer`` instead, or, with ``change``, carries out
    a request in which a text is another. With ``after`` the action is carried out all the same.
    ``holding`` is a text that the request must hold. ``then`` is called before the answer.
    """

    action: str
    code: str = ""
    status: int = 400
    message: str = "as the test wants it"
    times: int = 1
    after: bool = False
    holding: str = ""
    answer: str = ""
    change: tuple[str, str] | None = None
    retry_after: str = ""
    then: Callable[[], None] = lambda: None

    def hits(self, action: str, body: str) -> bool:
        """Tell whether it is for this request, and count it."""
        wanted = self.holding if self.change is None else self.change[0]
        if self.action != action or self.times == 0 or wanted not in body:
            return False
        self.times -= 1
        return True

    def body(self, *, is_json: bool) -> str:
        """Return the wrong answer."""
        if self.answer:
            return self.answer
        if is_json:
            return json.dumps({"__type": self.code, "message": self.message})
        return _XML.format(code=self.code, message=self.message)


@dataclass
class Api:
    """Serves the API at a port of the loopback. Lists of instances have one on each page."""

    faults: list[Fault] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _servers: list[BaseWSGIServer] = field(default_factory=list)

    def up(self) -> None:
        """Start all."""
        gaps.fill()
        self._app = DomainDispatcherApplication(create_backend_app)
        here = socket.create_server(("127.0.0.1", 0))
        self.port = here.getsockname()[1]
        self.serve(here)

    def serve(self, listening: socket.socket) -> None:
        """Serve at one more socket, and take it over."""
        listening.listen(128)
        server = make_server("127.0.0.1", self.port, self, threaded=True, fd=listening.fileno())
        listening.close()
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where the API is."""
        return f"http://127.0.0.1:{self.port}"

    def down(self) -> None:
        """End all."""
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def reset(self) -> None:
        """Forget all that was made, and the faults."""
        self.faults.clear()
        self.calls.clear()
        with self._lock:
            ec2_backends.reset()
            gaps.quotas.clear()
            for backend in self.everywhere():
                _add_images(backend)
        self.changed()

    def backends(self) -> list[Any]:
        """Return what moto knows of the usual region, by account."""
        return [ec2_backends[account][REGION] for account in ACCOUNTS.values()]

    def everywhere(self) -> list[Any]:
        """Return what moto knows of all regions that tests use."""
        return [*self.backends(), ec2_backends[ACCOUNTS["AKIARED"]][FAR]]

    def changed(self) -> None:
        """Do what has to follow a change of what moto knows."""

    def requests(self, action: str) -> list[dict[str, str]]:
        """Return the parameters of all requests for an action."""
        return [call.request for call in self.calls if call.action == action]

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request, as WSGI has it (PEP 3333)."""
        text = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)).decode()
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        call = _call(environ, target, text)
        with self._lock:
            self.calls.append(call)
            fault = next((one for one in self.faults if one.hits(call.action, text)), None)
        if fault is not None and fault.change is not None:
            text, fault = text.replace(*fault.change), None
        if fault is None or fault.after:
            answer = self._carry_out(call, _with_body(environ, call, text), start, fault)
            if fault is None:
                return answer
        fault.then()
        status = 200 if fault.answer else fault.status
        kind = "application/x-amz-json-1.1" if target else "text/xml"
        start(f"{status} Fault", [("Content-Type", kind), ("Retry-After", fault.retry_after)])
        return [fault.body(is_json=bool(target)).encode()]

    def _carry_out(
        self, call: Call, environ: dict[str, Any], start: Callable[..., Any], fault: Fault | None
    ) -> list[bytes]:
        with self._lock:
            answer = list(self._app(environ, start if fault is None else _nowhere))
        if not call.action.startswith(("Describe", "Get")):
            self.changed()
        return answer


def _call(environ: dict[str, Any], target: str, text: str) -> Call:
    """Return what is asked for, and have moto know by whom."""
    signed = environ.get("HTTP_AUTHORIZATION", "")
    for key, account in ACCOUNTS.items():
        if f"Credential={key}/" in signed:
            environ["HTTP_X_MOTO_ACCOUNT_ID"] = account
    service = signed.partition("Credential=")[2].split("/")[3]
    request = json.loads(text) if target else dict(parse_qsl(text))
    return Call(service, target.rpartition(".")[2] or request["Action"], request)


def _with_body(environ: dict[str, Any], call: Call, text: str) -> dict[str, Any]:
    """Return the request with a body; what lists instances gets pages of one."""
    if call.action == "DescribeInstances" and "InstanceId.1" not in call.request:
        text += "&" + urlencode({"MaxResults": 1})
    body = text.encode()
    return environ | {"wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(len(body))}


def _nowhere(*_answer: object) -> None:
    """Begin an answer that nobody gets."""


def _add_images(backend: Any) -> None:
    """Have images of Debian and Amazon, as their owners publish them."""
    for day in ("20260101-1", "20260301-2"):
        _add_image(backend, f"debian-12-amd64-{day}", "136693071363", "x86_64", day[:8])
    parameters = ssm_backends[backend.account_id][backend.region_name]
    for architecture in ("x86_64", "arm64"):
        name = f"al2023-ami-2023.12.20260930.0-kernel-6.1-{architecture}"
        image = _add_image(backend, name, "137112412989", architecture, "20260930")
        del backend.amis[image.id]
        parameter = parameters.get_parameter(AMAZON + architecture)
        assert parameter is not None
        image.id = parameter.value
        backend.amis[image.id] = image


def _add_image(backend: Any, name: str, owner: str, architecture: str, day: str) -> Any:
    image = backend.register_image(name, name)
    image.owner_id, image.architecture = owner, architecture
    image.creation_date = datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC)
    image.root_device_name = "/dev/xvda"
    return image
