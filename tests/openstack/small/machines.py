"""The hosts of nova, and its servers on them: guests of the data plane, with a real sshd."""

from __future__ import annotations

import base64
import re
import threading
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from tests.openstack.services import data_plane_client
from tests.openstack.services.fault_injection import wanted
from tests.openstack.settings import HOST_SIZE, HOSTS
from tests.openstack.small.calls import RefusalError, new_id, now
from tests.openstack.small.compute import Rooms
from tests.openstack.small.network import Network
from tests.openstack.small.wires import port_of

_ATTEMPTS = 3
_NO_HOST = "No valid host was found. There are not enough hosts available."
_NO_MORE = "Exceeded maximum number of retries. "
_EXHAUSTED = "Exhausted all hosts available for retrying build failures for instance {}."
_TOO_OFTEN = "Exceeded max scheduling attempts 3 for instance {}. Last exception: "
_WISH = "the test wants this server to fail"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")


@dataclass
class Server:
    """A server: what it was asked to be, and what became of it."""

    name: str
    project: str
    user: str
    flavor: dict[str, Any]
    image: str
    key: dict[str, Any] | None
    networks: list[str]
    security: list[str]
    group: str | None
    metadata: dict[str, str]
    user_data: str | None
    config_drive: bool
    zone: str | None
    asked_host: str | None
    id: str = field(default_factory=new_id)
    number: int = 0
    status: str = "BUILD"
    task: str | None = "scheduling"
    host: str | None = None
    fault: dict[str, Any] | None = None
    created: str = field(default_factory=now)
    updated: str = field(default_factory=now)
    launched: str | None = None
    work: threading.Lock = field(default_factory=threading.Lock)
    """Held while it is built, or taken away."""

    @property
    def hostname(self) -> str:
        """The name of the guest."""
        return _NOT_IN_NAMES.sub("-", self.name.lower())[:63].strip("-")


class Machines:
    """Places, builds and ends servers. ``lock`` is held in every call of an API."""

    def __init__(self, state: Path, rooms: Rooms, network: Network, lock: threading.RLock) -> None:
        self.servers: dict[str, Server] = {}
        self._state, self._fabric = state, str(state / "fabric.sock")
        self._rooms, self._network, self._lock = rooms, network, lock
        self._numbers = 0

    def build(self, server: Server) -> None:
        """Begin to build a server."""
        self._numbers += 1
        server.number = self._numbers
        self.servers[server.id] = server
        threading.Thread(target=self._build, args=[server], daemon=True).start()

    def take_away(self, server: Server) -> None:
        """Begin to take a server away."""
        if server.task != "deleting":
            server.task = "deleting"
            threading.Thread(target=self._take_away, args=[server], daemon=True).start()

    def console(self, server: Server) -> str:
        """Return what a guest wrote on its console."""
        path = self._state / "guests" / server.id / "console"
        return path.read_text(errors="replace") if path.exists() else ""

    def _build(self, server: Server) -> None:
        try:
            with server.work:
                self._place(server)
        except (OSError, RefusalError) as error:  # of the data plane, or of neutron
            self._fail(server, f"Build of instance {server.id} aborted: {error}")

    def _place(self, server: Server) -> None:
        """Boot a server on a host, or another one where that fails. Raises OSError."""
        tried: list[str] = []
        while server.task != "deleting":
            with self._lock:
                host = self._choose(server, tried)
                server.host = host
            if host is None:
                self._fail(server, _why(server, tried))
                return
            tried.append(host)
            if not wanted(self._state, "spawn", f"{host} {server.flavor['name']} {server.name}"):
                self._boot(server, host)
                return

    def _fail(self, server: Server, message: str) -> None:
        with self._lock:
            server.status, server.task, server.updated = "ERROR", None, now()
            server.fault = {"code": 500, "created": now(), "message": message}

    def _boot(self, server: Server, host: str) -> None:
        with self._lock:
            if server.task == "deleting":
                return
            server.task = "spawning"
            device = (server.id, f"compute:{HOSTS[host]}")
            ports = [
                self._network.plug(server.project, network, server.security, device)
                for network in server.networks
            ]
            for port in ports:
                port["binding:host_id"] = host
            guest = self._guest(server, ports[0])
        data_plane_client.ask(self._fabric, {"do": "boot", "guest": guest})
        with self._lock:
            if server.task != "deleting":
                server.status, server.task = "ACTIVE", None
            server.launched, server.updated = now(micro=True), now()

    def _guest(self, server: Server, port: dict[str, Any]) -> dict[str, Any]:
        """Return what the data plane wants to know of a server."""
        tables = self._network.tables
        network = tables.rows["network"][server.networks[0]]
        subnet = tables.rows["subnet"][port["fixed_ips"][0]["subnet_id"]]
        what = f"{server.host} {server.flavor['name']} {server.name}"
        shown = port_of(port, IPv4Network(subnet["cidr"]).prefixlen)
        ports = [
            {
                "id": port["id"],
                "mtu": network["mtu"],
                "gateway": subnet["gateway_ip"],
                "port": shown,
            }
        ]
        return {
            "id": server.id,
            "hostname": server.hostname,
            "keys": [server.key["public_key"]] if server.key else [],
            "user_data": base64.b64decode(server.user_data or "").decode(errors="replace"),
            "stuck": wanted(self._state, "boot", what),
            "ports": ports,
        }

    def _take_away(self, server: Server) -> None:
        with server.work:
            data_plane_client.ask(self._fabric, {"do": "end", "id": server.id})
            with self._lock:
                self._network.unplug(server.id)
                self.servers.pop(server.id, None)

    def _choose(self, server: Server, tried: list[str]) -> str | None:
        """Return the host with the most room, of those that may have a server."""
        if len(tried) >= _ATTEMPTS:
            return None
        others = [one for one in self.servers.values() if one is not server and one.host]
        free = dict.fromkeys(HOSTS, HOST_SIZE["ram"])
        cpus = dict.fromkeys(HOSTS, HOST_SIZE["vcpus"])
        for other in others:
            free[str(other.host)] -= other.flavor["ram"]
            cpus[str(other.host)] -= other.flavor["vcpus"]
        members = {str(one.host) for one in others if one.group and one.group == server.group}
        policy = (
            self._rooms.groups[server.group]["policy"] if server.group in self._rooms.groups else ""
        )
        fits = [
            host
            for host, zone in HOSTS.items()
            if host not in tried
            and server.asked_host in {None, host}
            and server.zone in {None, zone}
            and free[host] >= server.flavor["ram"]
            and cpus[host] >= server.flavor["vcpus"]
            and (policy != "affinity" or not members or host in members)
            and (policy != "anti-affinity" or host not in members)
        ]
        together, apart = policy == "soft-affinity", policy == "soft-anti-affinity"

        def rank(host: str) -> tuple[bool, int]:
            return (together and host not in members) or (apart and host in members), -free[host]

        return min(fits, key=rank, default=None)


def _why(server: Server, tried: list[str]) -> str:
    """Return what nova says of a server that is on no host, or failed on these."""
    if not tried:
        return _NO_HOST
    often = len(tried) == _ATTEMPTS
    text = f"{_TOO_OFTEN}{_WISH}" if often else _EXHAUSTED
    return _NO_MORE + text.format(server.id)
