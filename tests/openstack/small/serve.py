"""The APIs of the small cloud: serve.py STATE IP LAB PASSWORD, LAB being a network namespace.

They answer at any free ports of this address, here and there; STATE/ports.json tells which.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tests.openstack.services import data_plane_client
from tests.openstack.services.api_ports import Answer, Asked, Book, api_ports, lab_ports, serve
from tests.openstack.settings import APIS, FAR_APIS, FAR_REGION, REGION, USERS
from tests.openstack.small.calls import Call, RefusalError, Reply, read, written
from tests.openstack.small.compute import Compute, Rooms, version_of
from tests.openstack.small.identity import Identity
from tests.openstack.small.images import Images
from tests.openstack.small.machines import Machines
from tests.openstack.small.network import Network
from tests.openstack.small.servers import Servers
from tests.openstack.small.tables import Tables
from tests.openstack.small.wires import told_of

NAMES = ("keystone", "glance-api", "nova-api", "neutron-server")


class Service(Protocol):
    """What answers the calls of one API."""

    def do(self, call: Call) -> Reply:
        """Answer a call. Raises RefusalError."""

    def refusal(self, error: RefusalError) -> Any:
        """Return what it says when it refuses."""


class World:
    """All services, and the one lock of all of them."""

    def __init__(self, state: Path, password: str) -> None:
        self.state, self.password = state, password
        self.lock = threading.RLock()
        self.services: dict[str, Service] = {}

    def furnish(self, urls: dict[str, dict[str, str]]) -> None:
        """Make what there is from the first, given the addresses by region and API."""
        self.identity = Identity(self.password, urls)
        for user, project in USERS.items():
            self.identity.add_member(user, project)
        admin = next(p["id"] for p in self.identity.projects.values() if p["name"] == "admin")
        tables, rooms, images = Tables(self.tell), Rooms(), Images(admin)
        network = Network(tables, admin)
        self.tables = tables
        machines = Machines(self.state, rooms, network, self.lock)
        self.services = {
            "keystone": self.identity,
            "glance-api": images,
            "neutron-server": network,
            "nova-api": Compute(rooms, Servers(rooms, network, images, machines)),
        }
        self.tell()

    def tell(self) -> None:
        """Have the data plane be what neutron says."""
        data_plane_client.ask(
            str(self.state / "fabric.sock"), {"do": "apply", "told": told_of(self.tables)}
        )

    def answer(self, name: str, asked: Asked) -> Answer:
        """Answer a request to an API."""
        service, headers = self.services[name], dict[str, str]()
        who = self.identity.who(asked.headers.get("x-auth-token"))
        try:
            version = None
            if name == "nova-api":
                asked_for = asked.headers.get("openstack-api-version", "compute 2.1")
                headers = _versions(asked_for.removeprefix("compute").strip()) if who else {}
                version = version_of(asked.headers)
                headers = _versions(version)
            with self.lock:
                reply = service.do(read(asked, who, version))
        except RefusalError as refusal:
            headers = {} if refusal.status == 401 else headers
            reply = Reply(service.refusal(refusal), refusal.status)
        except Exception as error:
            traceback.print_exc()  # to the log of this process
            reply = Reply(service.refusal(RefusalError(500, repr(error))), 500)
        status, more, body = written(reply)
        return status, [*headers.items(), *more], body


def _versions(version: str) -> dict[str, str]:
    return {
        "OpenStack-API-Version": f"compute {version}",
        "X-OpenStack-Nova-API-Version": version,
    }


def main() -> None:
    """Serve until ended."""
    state, ip, lab, password = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    world = World(state, password)
    apis = [(name, 0, partial(world.answer, name)) for name in NAMES]
    apis += [(f"far-{name}", 0, partial(world.answer, name)) for name in FAR_APIS]
    here = api_ports(ip, apis, Book(state))
    ports = {door.name: door.address[1] for door in here}
    url = {name: f"http://{ip}:{port}" for name, port in ports.items()}
    near = {name: url[name] + APIS[name] for name in NAMES}
    far = {name: url[f"far-{name}"] + APIS[name] for name in FAR_APIS}
    world.furnish({REGION: near, FAR_REGION: far})
    there = lab_ports(here, lab)
    (state / "ports.new").write_text(json.dumps(ports))
    (state / "ports.new").rename(state / "ports.json")
    serve([*here, *there])


main()
