"""Make servers side by side, and wait until they run."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from osmef.errors import BootError, NotFoundError, ProviderError
from osmef.providers.openstack import failures
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.kinds import servers_in
from osmef.providers.openstack.making import Maker
from osmef.providers.openstack.servers import Port, Server, ServerOrder, list_servers, make_server
from osmef.providers.parallel import AT_ONCE, side_by_side
from osmef.scenario.clouds.openstack import OpenStackSettings

_LOOKS = 3
_FIELDS = [
    *("id", "device_id", "fixed_ips", "network_id", "mac_address", "port_security_enabled"),
]
_LISTED = 100
"""Servers whose ports are asked for at once: the address of a request may have some 8000 bytes."""

Ready = Callable[[Sequence[Server]], None]


def make_servers(
    maker: Maker, orders: Sequence[ServerOrder], settings: OpenStackSettings, ready: Ready
) -> list[Server]:
    """Make servers, and wait until all run and have an address; in the order of the orders.

    ``ready`` is told those that have come about since the last look, while others are still being
    asked for and built. The first of a server group is asked for before the others, and these when
    it runs: two at once know nothing of each other, and nova's scheduler puts them anywhere. Only
    some groups are begun at once, else the first ones take the room of the others on their host,
    and only some servers are built at once: the more, the more work is each of them to the cloud.
    Raises BootError, CapacityError, QuotaError, what ``ready`` does.
    """
    clouds = {id(o.site.tenant.cloud): o.site.tenant.cloud for o in orders}
    boot = Boot(maker.mark.run, [*clouds.values()], settings.boot_timeout, ready)

    def ask(order: ServerOrder, *, leads: bool = False) -> None:
        if boot.admits(leads=leads):
            boot.asked[make_server(maker, order, settings)] = order

    def ask_group(group: Sequence[ServerOrder]) -> None:
        leader, *others = group
        ask(leader, leads=True)
        if others and boot.runs(leader):
            side_by_side(ask, others)

    with ThreadPoolExecutor(1) as beside:
        asking = beside.submit(side_by_side, ask_group, _groups(orders))
        try:
            boot.watch(asking)
        finally:
            boot.end()
    by_name = {server.order.name: server for server in boot.found.values()}
    return [by_name[order.name] for order in orders]


def _groups(orders: Sequence[ServerOrder]) -> list[list[ServerOrder]]:
    """Return the servers of each server group, and each of the others by itself, in order."""
    groups: dict[tuple[str | None, str], list[ServerOrder]] = defaultdict(list)
    for order in orders:
        group = order.place.group
        groups[group, order.name if group is None else ""].append(order)
    return list(groups.values())


@dataclass
class Boot:
    """Servers on their way, by id: those asked for so far, and those of them that run."""

    run: str
    clouds: Sequence[Cloud]
    timeout_s: float
    ready: Ready
    asked: dict[str, ServerOrder] = field(default_factory=dict)
    found: dict[str, Server] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)  # names
    building: int = 0  # or asked for right now
    following: int = 0  # wait until they may be built, and their leader runs
    over: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def admits(self, *, leads: bool) -> bool:
        """Wait until one more may be built; False if the work is over.

        A new group waits for those that have begun, so that it does not take their room. Raises
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

    def runs(self, leader: ServerOrder) -> bool:
        """Wait until a server runs; False if the work is over. Raises BootError."""
        with self.changed:
            if not self.changed.wait_for(
                lambda: self.over or leader.name in self.running, self.timeout_s
            ):
                raise self._late(leader, "BUILD")
            return not self.over

    def end(self) -> None:
        """Let nobody ask for anything more."""
        with self.changed:
            self.over = True
            self.changed.notify_all()

    def watch(self, asking: Future[Any]) -> None:
        """Wait for all that ``asking`` asks for, all of a project looked at in one call."""
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

    def _late(self, order: ServerOrder, status: str) -> BootError:
        return BootError(
            f"the server is still {status} after {self.timeout_s:.0f} s",
            where=order.request.name,
            cure="is the compute service of its host alive? else raise provider.boot_timeout",
        )

    def _look(self) -> dict[str, str]:
        """Add the servers that run now, and return the status of the others."""
        wanted = {k: order for k, order in dict(self.asked).items() if k not in self.found}
        missing: dict[str, str] = {}
        for cloud in self.clouds:
            ours = {k: o for k, o in wanted.items() if o.site.tenant.cloud is cloud}
            if ours:
                missing |= self._look_at(cloud, ours)
        return missing

    def _look_at(self, cloud: Cloud, orders: Mapping[str, ServerOrder]) -> dict[str, str]:
        built = orders.keys() - self._list(cloud, "BUILD")
        missing = dict.fromkeys(orders.keys() - built, "BUILD")
        if not built:
            return missing
        running = built & self._list(cloud, "ACTIVE")
        with self.changed:
            new = {orders[key].name for key in running} - self.running
            self.running |= new
            self.building -= len(new)
            self.changed.notify_all()
        if lost := built - running:
            there = {str(server.id): server for server in list_servers(cloud, self.run)}
            missing |= {
                key: _status(orders[key], _look_closer(cloud, key, there.get(key))) for key in lost
            }
        for key, ports in _ports(cloud, sorted(running)[:_LISTED]).items():
            if (server := _server(orders[key], key, ports)) is not None:
                self.found[key] = server
        return missing | dict.fromkeys(running - self.found.keys(), "ACTIVE")

    def _list(self, cloud: Cloud, status: str) -> set[str]:
        return cloud.do("listing servers", lambda c: servers_in(c, self.run, status))


def _ports(cloud: Cloud, servers: Sequence[str]) -> dict[str, list[Port]]:
    """Return the ports of servers by the server's id, in the order of their ids."""
    query = {"device_id": servers, "fields": _FIELDS}
    there = cloud.do("listing ports", lambda c: list(c.network.ports(**query))) if servers else []
    found: dict[str, list[Port]] = defaultdict(list)
    for one in sorted(there, key=lambda port: str(port.id)):
        addresses = (str(ip["ip_address"]) for ip in one.fixed_ips or ())
        port = Port(
            id=str(one.id),
            network=str(one.network_id),
            mac=str(one.mac_address),
            address=next((address for address in addresses if "." in address), None),
            secured=bool(one.is_port_security_enabled),
        )
        found[str(one.device_id)].append(port)
    return found


def _server(order: ServerOrder, key: str, ports: Sequence[Port]) -> Server | None:
    """Return a server that runs, None as long as it lacks the address or a card."""
    site = order.site
    usual = [port for port in ports if port.network == site.network and port.address]
    further = [port for network in site.nics for port in ports if port.network == network]
    if not usual or len(further) < order.request.nics:
        return None
    return Server(order, key, usual[0].id, str(usual[0].address), tuple(further))


def _look_closer(cloud: Cloud, server_id: str, server: Any | None) -> Any | None:
    """Return what nova says of a server, if it is in ERROR with the reason of that.

    A list lacks the reason of a server that was placed nowhere, and for a moment the server. The
    reason comes some moments after the ERROR.
    """
    for _ in range(_LOOKS):
        if server is not None and (server.status != "ERROR" or server.fault):
            break
        cloud.wait(cloud.waits.look_s)
        try:
            server = cloud.do("looking at a server", lambda c: c.compute.get_server(server_id))
        except NotFoundError:
            server = None
    return server


def _status(order: ServerOrder, server: Any | None) -> str:
    """Return the status of a server that nova was done with. Raises BootError, CapacityError."""
    if server is None or server.status in {"ERROR", "DELETED"}:
        raise _failed(order, server)
    return str(server.status)


def _failed(order: ServerOrder, server: Any) -> ProviderError:
    """Return the error of a server that will never run, from what nova says of it."""
    message = "it was deleted by somebody" if server is None else _fault(server)
    kind = failures.of_fault(message) or BootError
    return kind(
        f"the server does not start: {message}",
        where=order.request.name,
        cure=failures.cure_of(kind) or "look at it: openstack server show; try another host",
    )


def _fault(server: Any) -> str:
    fault = server.fault or {}
    return str(fault.get("message") or f"its status is {server.status}")
