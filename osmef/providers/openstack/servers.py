"""Servers: their requests, concurrent creation, and waiting until they run."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any

from osmef.errors import BootError, NotFoundError, ProviderError
from osmef.files import in_home, read_text_file
from osmef.providers.base import Endpoint, EndpointRequest
from osmef.providers.cloud import provisioning
from osmef.providers.cloud_init import MOST_BYTES, cloud_config, user_data
from osmef.providers.openstack.access import ERRORS, FLOATING_AT_ONCE, Cloud, meaning_of_fault
from osmef.providers.openstack.lookup import FlavorInfo, volume_gib
from osmef.providers.openstack.network import TenantNet
from osmef.providers.openstack.placement import VmPlacement
from osmef.providers.openstack.resource_types import Maker, servers_in, servers_there
from osmef.providers.parallel import AT_ONCE, map_concurrently
from osmef.remote.login import KeyPair
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.location import Gone, Location

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")
_LOOKS = 3
_FIELDS = [
    *("id", "device_id", "fixed_ips", "network_id", "mac_address", "port_security_enabled"),
]
_LISTED = 100
"""Servers whose ports are asked for at once: the address of a request may have some 8000 bytes."""


@dataclass(frozen=True)
class ServerSpec(provisioning.VmSpec[TenantNet]):
    """A server to create."""

    flavor: FlavorInfo
    placement: VmPlacement

    @property
    def ip_name(self) -> str:
        """The name of its floating address."""
        return self.name.replace("osmef-", "osmef-ip-", 1)

    def networks(self, settings: OpenStackSettings) -> list[str]:
        """Return the networks of its cards, the first card's first."""
        cards = range(self.request.nics)
        return [self.net.network, *(self.net.nics[settings.nic_network(n)] for n in cards)]


@dataclass(frozen=True)
class Server(provisioning.Vm[ServerSpec]):
    """A running server, and the id of its port. Its public address is a floating one, if any.

    ``further`` are the SDK's ports of its further network cards, in the order of their networks.
    """

    port: str = ""
    further: tuple[Any, ...] = ()

    @property
    def floating(self) -> str | None:
        """Its floating address, None if it has none."""
        return None if self.public == self.private else self.public

    def console(self) -> str:
        """Return what it wrote on its console, as far as the cloud keeps it; maybe nothing."""
        try:
            answer = self.spec.account.ask(
                "reading a console", lambda c: c.compute.get_server_console_output(self.id)
            )
        except ProviderError:  # some hypervisors have none, and it only explains another error
            return ""
        return str((answer or {}).get("output") or "")

    def address_from(self, sender: Endpoint) -> str:
        """Return the address for a sender of another tenant, or on a physical host.

        Within one network it is the server's own: by way of the floating address the sender's would
        be translated, too, and then no rule lets it in.
        """
        address = ip_address(sender.data_address)
        beside = any(address in network for network in self.spec.net.names.own)
        return self.private if beside else self.public


def server_name(maker: Maker, number: int, request: EndpointRequest) -> str:
    """Return a valid name of a server for any flavor."""
    return maker.mark.name(f"{number}-{_NOT_IN_NAMES.sub('-', request.name)[:40]}")


def make_server(maker: Maker, spec: ServerSpec, settings: OpenStackSettings) -> str:
    """Request a server, and return its id; it does not run yet. Raises ProviderError."""
    net = spec.net
    source = net.names.source
    body: dict[str, Any] = {
        "flavor_id": spec.flavor.id,
        "networks": [{"uuid": network} for network in spec.networks(settings)],
        "security_groups": [{"name": group} for group in net.security_groups],
        "key_name": net.keypair,
        "user_data": user_data_of(settings, spec.login_key, spec.host_key),
        **spec.placement.attributes,
    }
    if settings.config_drive:
        body["config_drive"] = True
    size = volume_gib(settings, source)
    if not size:
        body["image_id"] = source.id
    else:
        body["block_device_mapping"] = [
            {
                "boot_index": 0,
                "uuid": _make_volume(maker, spec, size, settings.boot_timeout),
                "source_type": "volume",
                "destination_type": "volume",
            }
        ]
    return str(maker.make(net.account, "server", spec.name, **body).id)


def disable_port_security(server: Server) -> None:
    """Disable port security of a server's further cards. Raises ProviderError.

    Nova makes the ports with the server's security groups, which keep back what other addresses
    send. Where neutron knows no port security, there is nothing to lift.
    """
    for port in server.further:
        if port.is_port_security_enabled:
            server.spec.account.ask(
                "letting all through at a port",
                lambda c, port=port: c.network.update_port(
                    port.id, security_groups=[], is_port_security_enabled=False
                ),
            )


def user_data_of(settings: OpenStackSettings, login: KeyPair, host: KeyPair | None) -> str:
    """Return the userdata of a server, with the user's own in it. Raises ProviderError."""
    own = None
    if settings.userdata is not None:
        try:
            own = read_text_file(in_home(settings.userdata), MOST_BYTES)
        except (OSError, UnicodeDecodeError) as error:
            raise ProviderError(
                f"can't read {settings.userdata}: {error}",
                where="provider.userdata",
                cure="is the path right, seen from where osmef is started?",
            ) from error
    return user_data(cloud_config(settings.user, login, host), own)


def _make_volume(maker: Maker, spec: ServerSpec, size_gib: int, timeout_s: float) -> str:
    """Create a server's boot volume, and wait for it. Raises ProviderError."""
    source, cloud = spec.net.names.source, spec.account
    keys = {"image": "image_id", "snapshot": "snapshot_id", "volume": "source_volume_id"}
    body = {"size": size_gib, keys[source.kind]: source.id}
    made = maker.make(cloud, "volume", spec.name, **body)

    def available(*, late: bool) -> str | None:
        volume = cloud.ask("waiting for a volume", lambda c: c.block_storage.get_volume(made.id))
        if volume.status == "available":
            return str(made.id)
        if not late and not volume.status.startswith("error"):
            return None
        raise BootError(
            f"its volume is {volume.status}",
            where=spec.request.name,
            cure="look at it: openstack volume show; is there room for volumes?",
        )

    volume: str = cloud.poll(available, timeout_s)
    return volume


def list_servers(cloud: Cloud, run: str) -> list[Any]:
    """List the servers of a run in one project, in one call."""
    return cloud.ask("listing servers", lambda c: list(servers_there(c, run)))


def unlisted(server: Server) -> Location:
    """Return Gone for a server in no list, or else an unknown location."""
    try:
        server.spec.account.ask("looking at a server", lambda c: c.compute.get_server(server.id))
    except NotFoundError:
        return Gone()
    return Location()


class FloatingAddresses:
    """Assigns floating addresses to servers, while others are still being created."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._pool = ThreadPoolExecutor(FLOATING_AT_ONCE)
        self._asked: dict[str, Future[str]] = {}

    def __enter__(self) -> FloatingAddresses:
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def give(self, servers: Sequence[Server]) -> None:
        """Start assigning addresses to servers."""
        for server in servers:
            self._asked[server.id] = self._pool.submit(self._add, server)

    def given(self, servers: Sequence[Server]) -> list[Server]:
        """Wait for all of them, and return servers with theirs. Raises ProviderError."""
        found = {server: future.result() for server, future in self._asked.items()}
        return [replace(one, public=found.get(one.id, one.public)) for one in servers]

    def _add(self, server: Server) -> str:
        made = self._maker.make(
            *(server.spec.account, "floating-ip", server.spec.ip_name),
            floating_network_id=server.spec.net.names.external,
            port_id=server.port,
        )
        return str(made.floating_ip_address)


Ready = Callable[[Sequence[Server]], None]


def make_servers(
    maker: Maker, specs: Sequence[ServerSpec], settings: OpenStackSettings, ready: Ready
) -> list[Server]:
    """Create servers, and wait until all run and have an address, in order.

    ``ready`` is called with servers that began to run since the last poll, while others are still
    requested and built. The first of a server group is asked for before the others, and these when
    it runs: of two concurrent requests nova's scheduler places each without the other. Only
    some groups are begun at once, else the first ones take the capacity of the others on their
    host, and only some servers are built at once: the more, the more work is each of them to the
    cloud.
    Raises BootError, CapacityError, QuotaError, what ``ready`` does.
    """
    clouds = {id(o.account): o.account for o in specs}
    boot = BootingServers(maker.mark.run, [*clouds.values()], settings.boot_timeout, ready)

    def ask(spec: ServerSpec, *, leads: bool = False) -> None:
        if boot.await_slot(leads=leads):
            boot.asked[make_server(maker, spec, settings)] = spec

    def ask_group(group: Sequence[ServerSpec]) -> None:
        leader, *others = group
        ask(leader, leads=True)
        if others and boot.await_running(leader):
            map_concurrently(ask, others)

    with ThreadPoolExecutor(1) as beside:
        asking = beside.submit(map_concurrently, ask_group, _groups(specs))
        try:
            boot.watch(asking)
        finally:
            boot.end()
    by_name = {server.spec.name: server for server in boot.found.values()}
    return [by_name[spec.name] for spec in specs]


def _groups(specs: Sequence[ServerSpec]) -> list[list[ServerSpec]]:
    """Return the servers of each server group, and each of the others by itself, in order."""
    groups: dict[tuple[str | None, str], list[ServerSpec]] = defaultdict(list)
    for spec in specs:
        group = spec.placement.group
        groups[group, spec.name if group is None else ""].append(spec)
    return list(groups.values())


@dataclass
class BootingServers:
    """Servers during their boot, by id: the requested ones, and the running ones."""

    run: str
    clouds: Sequence[Cloud]
    timeout_s: float
    ready: Ready
    asked: dict[str, ServerSpec] = field(default_factory=dict)
    found: dict[str, Server] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)  # names
    building: int = 0  # or asked for right now
    following: int = 0  # wait until they may be built, and their leader runs
    over: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def await_slot(self, *, leads: bool) -> bool:
        """Wait for a free place among concurrent builds; False if the work is over.

        A new group waits for those that have begun, so that it does not take their capacity. Raises
        BootError where none of those that are built comes to run.
        """
        with self.changed:
            self.following += not leads
            ran = -1
            while not self.changed.wait_for(
                lambda: self.over or self._has_room(leads), self.timeout_s
            ):
                late = [o for o in list(self.asked.values()) if o.name not in self.running]
                if late and len(self.running) == ran:
                    raise self._late(late[0], "BUILD")
                ran = len(self.running)
            self.following -= not leads
            self.building += 1
            self.changed.notify_all()
            return not self.over

    def _has_room(self, leads: bool) -> bool:
        return self.building < AT_ONCE and not (leads and self.following)

    def await_running(self, leader: ServerSpec) -> bool:
        """Wait until a server runs; False if the work is over. Raises BootError."""
        with self.changed:
            if not self.changed.wait_for(
                lambda: self.over or leader.name in self.running, self.timeout_s
            ):
                raise self._late(leader, "BUILD")
            return not self.over

    def end(self) -> None:
        """Stop further requests."""
        with self.changed:
            self.over = True
            self.changed.notify_all()

    def watch(self, asking: Future[Any]) -> None:
        """Wait for the servers of ``asking``, with one list call a project."""
        missing: dict[str, str] = {}
        cloud, changed = self.clouds[0], time.monotonic()
        began = changed
        while True:
            cloud.wait(cloud.waits.pause_for(len(missing), time.monotonic() - changed))
            complete = asking.done()
            if not complete:
                began = time.monotonic()
            before = set(self.found)
            missing = self._look()
            if new := [server for key, server in self.found.items() if key not in before]:
                self.ready(new)
                changed = time.monotonic()
            if complete:
                asking.result()
                if not missing:
                    return
            if missing and time.monotonic() > began + self.timeout_s:
                server_id, status = next(iter(missing.items()))
                raise self._late(self.asked[server_id], status)

    def _late(self, spec: ServerSpec, status: str) -> BootError:
        return BootError(
            f"the server is still {status} after {self.timeout_s:.0f} s",
            where=spec.request.name,
            cure="is the compute service of its host alive? else raise provider.boot_timeout",
        )

    def _look(self) -> dict[str, str]:
        """Add the running servers, and return the status of the others."""
        wanted = {k: spec for k, spec in dict(self.asked).items() if k not in self.found}
        missing: dict[str, str] = {}
        for cloud in self.clouds:
            ours = {k: o for k, o in wanted.items() if o.account is cloud}
            if ours:
                missing |= self._look_at(cloud, ours)
        return missing

    def _look_at(self, cloud: Cloud, specs: Mapping[str, ServerSpec]) -> dict[str, str]:
        begun = specs.keys() - self._list(cloud, "BUILD")
        missing = dict.fromkeys(specs.keys() - begun, "BUILD")
        if not begun:
            return missing
        running = begun & self._list(cloud, "ACTIVE")
        with self.changed:
            new = {specs[key].name for key in running} - self.running
            self.running |= new
            self.building -= len(new)
            self.changed.notify_all()
        if lost := begun - running:
            there = {str(server.id): server for server in list_servers(cloud, self.run)}
            missing |= {
                key: _status(specs[key], _look_closer(cloud, key, there.get(key))) for key in lost
            }
        for key, ports in _ports(cloud, sorted(running)[:_LISTED]).items():
            if (server := _server(specs[key], key, ports)) is not None:
                self.found[key] = server
        return missing | dict.fromkeys(running - self.found.keys(), "ACTIVE")

    def _list(self, cloud: Cloud, status: str) -> set[str]:
        return cloud.ask("listing servers", lambda c: servers_in(c, self.run, status))


def _ports(cloud: Cloud, servers: Sequence[str]) -> dict[str, list[Any]]:
    """Return the ports of servers by the server's id, in the order of their ids."""
    query = {"device_id": servers, "fields": _FIELDS}
    there = cloud.ask("listing ports", lambda c: list(c.network.ports(**query))) if servers else []
    found: dict[str, list[Any]] = defaultdict(list)
    for one in sorted(there, key=lambda port: str(port.id)):
        found[str(one.device_id)].append(one)
    return found


def _server(spec: ServerSpec, key: str, ports: Sequence[Any]) -> Server | None:
    """Return a running server, None while it lacks an address or a card."""
    net = spec.net
    usual = [
        (str(port.id), str(ip["ip_address"]))
        for port in ports
        for ip in port.fixed_ips or ()
        if port.network_id == net.network and "." in ip["ip_address"]
    ]
    further = tuple(port for one in net.nics for port in ports if port.network_id == one)
    if not usual or len(further) < spec.request.nics:
        return None
    (port, own), macs = usual[0], tuple(str(port.mac_address) for port in further)
    return Server(spec, key, own, own, macs, port, further)


def _look_closer(cloud: Cloud, server_id: str, server: Any | None) -> Any | None:
    """Return nova's details of a server in ERROR, with its fault.

    A list lacks the reason of a server that was placed nowhere, and for a moment the server. The
    reason comes some moments after the ERROR.
    """
    for _ in range(_LOOKS):
        if server is not None and (server.status != "ERROR" or server.fault):
            break
        cloud.wait(cloud.waits.look_s)
        try:
            server = cloud.ask("looking at a server", lambda c: c.compute.get_server(server_id))
        except NotFoundError:
            server = None
    return server


def _status(spec: ServerSpec, server: Any | None) -> str:
    """Return the final status of a server. Raises by its fault where it will never run."""
    if server is not None and server.status not in {"ERROR", "DELETED"}:
        return str(server.status)
    message, cure = (
        "it was deleted by somebody",
        "look at it: openstack server show; try another host",
    )
    if server is not None:
        message = str((server.fault or {}).get("message") or f"its status is {server.status}")
    meaning = meaning_of_fault(message)
    kind: type[ProviderError] = BootError
    if meaning is not None:
        kind, cure = ERRORS.class_of(meaning), ERRORS.cure_of(meaning)
    raise kind(f"the server does not start: {message}", where=spec.request.name, cure=cure)
