"""What is chosen once for a cloud: its addresses, its passwords, its hosts."""

from __future__ import annotations

import json
import random
import secrets
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

LOOPBACK = "127.0.0.1"
HOSTS = {"cmp1": "az1", "cmp2": "az1", "cmp3": "az2"}
HOST_SIZE = {"vcpus": 64, "ram": 128 * 1024}
"""CPUs and MiB of memory: room for a hundred small servers and more."""
FLAVORS = {"m1.tiny": (1, 512, 1), "m1.small": (1, 2048, 10), "m1.medium": (2, 4096, 20)}
"""CPUs, MiB of memory and GiB of disk."""
EXTERNAL = "198.51.100.0/24"  # TEST-NET-2 (RFC 5737): nothing routes it
USERS = {"alice": "alpha", "bob": "beta"}  # each with the project it is a member of
REGION = "RegionOne"
FAR_REGION = "RegionTwo"
APIS = {
    "keystone": "/v3",
    "placement": "",
    "glance-api": "",
    "nova-api": "/v2.1",
    "neutron-server": "",
}
VOLUMES = "cinder-api"
"""The API that a cloud with volumes has, too."""
FAR_APIS = ("glance-api", "nova-api", "neutron-server")
_PATHS = {**APIS, VOLUMES: "/v3/%(project_id)s"}
_FRONTS = (*(f"front-{name}" for name in _PATHS), *(f"far-{name}" for name in FAR_APIS))
_LISTENERS = (*_PATHS, "metadata", *_FRONTS, "db", "mq", "epmd", "erlang")


@dataclass(frozen=True)
class Settings:
    """The ports of one cloud, all on one address, and the password of its accounts."""

    state: Path
    ip: str
    password: str
    ports: dict[str, int] = field(default_factory=dict)

    def url(self, service: str) -> str:
        """Return the address at which a service listens, for the other services."""
        return f"http://{self.ip}:{self.ports[service]}{_PATHS[service]}"

    def public_url(self, service: str) -> str:
        """Return the address at which clients reach it."""
        return f"http://{self.ip}:{self.ports[f'front-{service}']}{_PATHS[service]}"

    def far_url(self, service: str) -> str:
        """Return the address at which clients reach it in the other region."""
        return f"http://{self.ip}:{self.ports[f'far-{service}']}{_PATHS[service]}"

    @property
    def queue(self) -> str:
        return f"rabbit://osc:{self.password}@{self.ip}:{self.ports['mq']}/"

    def database(self, name: str) -> str:
        """Return the address of a database: a socket takes a sixth less of the services' time."""
        account = f"osc:{self.password}@{self.ip}:{self.ports['db']}"
        socket = f"{self.state}/db.sock"
        return f"mysql+pymysql://{account}/{name}?charset=utf8&unix_socket={socket}"


def load(state: Path, ip: str) -> Settings:
    """Return what was chosen for this state folder, or choose now."""
    path = state / "settings.json"
    if not path.exists():
        ports = dict(zip(_LISTENERS, _free_ports(), strict=False))
        chosen = Settings(state, ip, secrets.token_hex(8), ports)
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(chosen), default=str, indent=1))
    values = json.loads(path.read_text())
    return Settings(state, ip, values["password"], values["ports"])


def _free_ports() -> Iterator[int]:
    """Yield free ports below those that the kernel gives to clients."""
    for port in random.sample(range(15000, 32000), 1000):
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
        yield port
