"""Servers: what each is asked to be, making them, and waiting until they run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from osmef.errors import BootError, ProviderError
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud_init import cloud_config, user_data
from osmef.providers.openstack import failures
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.kinds import KINDS
from osmef.providers.openstack.making import Maker
from osmef.providers.openstack.names import FlavorInfo
from osmef.providers.openstack.placing import Place
from osmef.providers.openstack.tenants import Site
from osmef.remote.keys import KeyPair
from osmef.remote.ssh_config import in_home
from osmef.scenario.clouds.base import HostKeys
from osmef.scenario.clouds.openstack import OpenStackSettings

POLL_S = 1.0
_GIB = 2**30
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True)
class ServerOrder:
    """A server to be made. ``name`` is the one in the cloud; ``host_key`` the guest's own."""

    request: EndpointRequest
    name: str
    site: Site
    flavor: FlavorInfo
    place: Place
    login_key: KeyPair
    host_key: KeyPair | None


@dataclass(frozen=True)
class Server:
    """A server that runs, with the address that its network gave it."""

    order: ServerOrder
    id: str
    fixed: str
    facts: Mapping[str, Any] = field(repr=False)

    @property
    def cloud(self) -> Cloud:
        """The project it is in."""
        return self.order.site.tenant.cloud


def server_name(maker: Maker, number: int, request: EndpointRequest) -> str:
    """Return the name of a server; flavors may have names that no server can have."""
    return maker.mark.name(f"{number}-{_NOT_IN_NAMES.sub('-', request.name)[:40]}")


def make_server(maker: Maker, order: ServerOrder, settings: OpenStackSettings) -> str:
    """Ask for a server, and return its id; it does not run yet. Raises ProviderError."""
    site = order.site
    source = site.names.source
    body: dict[str, Any] = {
        "name": order.name,
        "flavor_id": order.flavor.id,
        "networks": [{"uuid": site.network}],
        "security_groups": [{"name": group} for group in site.security_groups],
        "key_name": site.keypair,
        "metadata": maker.mark.tags,
        "user_data": _user_data(order, settings),
        **order.place.attributes,
    }
    if settings.config_drive:
        body["config_drive"] = True
    if source.kind == "image" and settings.boot.size is None:
        body["image_id"] = source.id
    else:
        body["block_device_mapping"] = [
            {
                "boot_index": 0,
                "uuid": _make_volume(maker, order, settings),
                "source_type": "volume",
                "destination_type": "volume",
            }
        ]
    made = maker.make(
        site.tenant.cloud, "server", order.name, lambda c: c.compute.create_server(**body)
    )
    return str(made.id)


def _user_data(order: ServerOrder, settings: OpenStackSettings) -> str:
    own = None
    if settings.userdata is not None:
        try:
            own = in_home(settings.userdata).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ProviderError(
                f"can't read {settings.userdata}: {error}",
                where="provider.userdata",
                cure="is the path right, seen from where osmef is started?",
            ) from error
    given = order.host_key if settings.host_keys is HostKeys.GIVEN else None
    return user_data(cloud_config(settings.user, order.login_key, given), own)


def _make_volume(maker: Maker, order: ServerOrder, settings: OpenStackSettings) -> str:
    """Make the volume that a server boots from, and wait for it. Raises ProviderError."""
    source, cloud = order.site.names.source, order.site.tenant.cloud
    keys = {"image": "image_id", "snapshot": "snapshot_id", "volume": "source_volume_id"}
    asked_gib = -(-(settings.boot.size or 0) // _GIB)
    made = maker.make(
        cloud,
        "volume",
        order.name,
        lambda c: c.block_storage.create_volume(
            name=order.name,
            metadata=maker.mark.tags,
            size=max(1, asked_gib, source.disk_gib),
            **{keys[source.kind]: source.id},
        ),
    )
    end = time.monotonic() + settings.boot_timeout
    while True:
        volume = cloud.do("waiting for a volume", lambda c: c.block_storage.get_volume(made.id))
        if volume.status == "available":
            return str(made.id)
        if volume.status.startswith("error") or time.monotonic() > end:
            raise BootError(
                f"its volume is {volume.status}",
                where=order.request.name,
                cure="look at it: openstack volume show; is there room for volumes?",
            )
        cloud.wait(POLL_S)


def await_servers(
    run: str,
    orders: Mapping[str, ServerOrder],
    timeout_s: float,
    ready: Callable[[Sequence[Server]], None],
) -> list[Server]:
    """Wait until all servers, given by id, run and have an address; in the order of the ids.

    All of a project are listed in one call a second, and ``ready`` is told those that have come
    about since the last one. Raises BootError, CapacityError, QuotaError, and what ``ready`` does.
    """
    clouds = {id(o.site.tenant.cloud): o.site.tenant.cloud for o in orders.values()}
    found: dict[str, Server] = {}
    end = time.monotonic() + timeout_s
    while True:
        next(iter(clouds.values())).wait(POLL_S)
        missing: dict[str, str] = {}
        before = set(found)
        for cloud in clouds.values():
            wanted = {k: o for k, o in orders.items() if o.site.tenant.cloud is cloud}
            missing |= _look(run, cloud, {k: o for k, o in wanted.items() if k not in found}, found)
        if new := [server for server_id, server in found.items() if server_id not in before]:
            ready(new)
        if not missing:
            return [found[server] for server in orders]
        if time.monotonic() > end:
            server, status = next(iter(missing.items()))
            raise BootError(
                f"the server is still {status} after {timeout_s:.0f} s",
                where=orders[server].request.name,
                cure="is the compute service of its host alive? else raise provider.boot_timeout",
            )


def _look(
    run: str, cloud: Cloud, orders: Mapping[str, ServerOrder], found: dict[str, Server]
) -> dict[str, str]:
    """Add the servers that run now, and return the status of the others."""
    if not orders:
        return {}
    there = {server.id: server for server in list_servers(cloud, run)}
    missing = {}
    for server_id, order in orders.items():
        facts = there.get(server_id)
        status = "gone" if facts is None else str(facts.status)
        if facts is None or status in {"ERROR", "DELETED"}:
            raise failed(order, facts)
        address = fixed_address(facts)
        if status == "ACTIVE" and address is not None:
            found[server_id] = Server(order, server_id, address, facts)
        else:
            missing[server_id] = status
    return missing


def list_servers(cloud: Cloud, run: str) -> list[Any]:
    """List the servers of a run in one project, in one call."""
    return cloud.do(
        "listing servers", lambda c: list(KINDS["server"].there(c, cloud.project_id, run))
    )


def fixed_address(server: Any) -> str | None:
    """Return the IPv4 address that a server has on its own network."""
    for addresses in (server.addresses or {}).values():
        for one in addresses:
            if one["version"] == 4 and one.get("OS-EXT-IPS:type", "fixed") == "fixed":
                return str(one["addr"])
    return None


def failed(order: ServerOrder, server: Any) -> ProviderError:
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


def console_of(server_id: str, cloud: Cloud) -> str:
    """Return what a guest wrote on its console, as far as the cloud keeps it; maybe nothing."""
    try:
        answer = cloud.do(
            "reading a console", lambda c: c.compute.get_server_console_output(server_id)
        )
    except ProviderError:  # some hypervisors have none, and it only explains another error
        return ""
    return str((answer or {}).get("output") or "")
