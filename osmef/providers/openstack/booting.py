"""Make servers side by side, and wait until they run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from osmef.errors import BootError, ProviderError
from osmef.providers.openstack import failures
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.kinds import building
from osmef.providers.openstack.making import Maker
from osmef.providers.openstack.servers import (
    POLL_S,
    Server,
    ServerOrder,
    list_servers,
    make_server,
)
from osmef.providers.parallel import side_by_side
from osmef.scenario.clouds.openstack import OpenStackSettings

_LOOK_S = 0.03
"""The pause between two looks for each server that is being built, where that is more than
POLL_S: no cloud builds them faster."""
_NAMED = 40
"""Servers that a list is asked for by name; the address of a request may have some 8000 bytes."""

Ready = Callable[[Sequence[Server]], None]


def make_servers(
    maker: Maker, orders: Sequence[ServerOrder], settings: OpenStackSettings, ready: Ready
) -> list[Server]:
    """Make servers, and wait until all run and have an address; in the order of the orders.

    ``ready`` is told those that have come about since the last look, while others are still being
    asked for and built. Raises BootError, CapacityError, QuotaError, what ``ready`` does.
    """
    asked: dict[str, ServerOrder] = {}
    over = threading.Event()

    def ask(order: ServerOrder) -> None:
        if not over.is_set():
            asked[make_server(maker, order, settings)] = order

    with ThreadPoolExecutor(1) as beside:
        asking = beside.submit(side_by_side, ask, orders)
        clouds = {id(o.site.tenant.cloud): o.site.tenant.cloud for o in orders}
        try:
            made = _await(maker.mark.run, [*clouds.values()], asked, asking, settings, ready)
        finally:
            over.set()
    by_name = {server.order.name: server for server in made}
    return [by_name[order.name] for order in orders]


def _await(
    run: str,
    clouds: Sequence[Cloud],
    asked: Mapping[str, ServerOrder],
    asking: Future[Any],
    settings: OpenStackSettings,
    ready: Ready,
) -> list[Server]:
    """Wait for servers, ``asked`` for by id so far, all of a project looked at in one call."""
    found: dict[str, Server] = {}
    missing: dict[str, str] = {}
    end = time.monotonic() + settings.boot_timeout
    while True:
        clouds[0].wait(max(POLL_S, _LOOK_S * len(missing)))
        if not asking.done():
            end = time.monotonic() + settings.boot_timeout
        complete, orders, before = asking.done(), dict(asked), set(found)
        missing = {}
        for cloud in clouds:
            wanted = {k: o for k, o in orders.items() if o.site.tenant.cloud is cloud}
            missing |= _look(run, cloud, {k: o for k, o in wanted.items() if k not in found}, found)
        if new := [server for server_id, server in found.items() if server_id not in before]:
            ready(new)
        if complete:
            asking.result()
        if complete and not missing:
            return list(found.values())
        if time.monotonic() > end:
            raise _late(*next((orders[k], v) for k, v in missing.items()), settings.boot_timeout)


def _late(order: ServerOrder, status: str, timeout_s: float) -> BootError:
    return BootError(
        f"the server is still {status} after {timeout_s:.0f} s",
        where=order.request.name,
        cure="is the compute service of its host alive? else raise provider.boot_timeout",
    )


def _look(
    run: str, cloud: Cloud, orders: Mapping[str, ServerOrder], found: dict[str, Server]
) -> dict[str, str]:
    """Add the servers that run now, and return the status of the others."""
    if not orders:
        return {}
    # For the details of a server nova asks neutron, and that costs both a multiple of this.
    ids = cloud.do("listing servers", lambda c: {server.id for server in building(c, run)})
    missing = {k: "BUILD" for k in orders if k in ids}
    ended = {k: order for k, order in orders.items() if k not in ids}
    if not ended:
        return missing
    names = [order.name for order in ended.values()]
    there = {s.id: s for s in list_servers(cloud, run, names if len(names) <= _NAMED else ())}
    for server_id, order in ended.items():
        server = there.get(server_id)
        status = "gone" if server is None else str(server.status)
        if server is None or status in {"ERROR", "DELETED"}:
            raise _failed(order, server)
        address = _fixed_address(server)
        if status == "ACTIVE" and address is not None:
            found[server_id] = Server(order, server_id, address)
        else:
            missing[server_id] = status
    return missing


def _fixed_address(server: Any) -> str | None:
    """Return the IPv4 address that a server has on its own network."""
    for addresses in (server.addresses or {}).values():
        for one in addresses:
            if one["version"] == 4 and one.get("OS-EXT-IPS:type", "fixed") == "fixed":
                return str(one["addr"])
    return None


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
