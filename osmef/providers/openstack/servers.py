"""Servers: what each is asked to be, asking for them, and what the cloud says of them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from osmef.errors import BootError, ProviderError
from osmef.named_file import read_text_file
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud_init import MOST_BYTES, cloud_config, user_data
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.kinds import servers_there
from osmef.providers.openstack.making import Maker
from osmef.providers.openstack.names import FlavorInfo
from osmef.providers.openstack.placing import Place
from osmef.providers.openstack.tenants import Site
from osmef.remote.keys import KeyPair
from osmef.remote.ssh_text import in_home
from osmef.scenario.clouds.openstack import OpenStackSettings

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

    def networks(self, settings: OpenStackSettings) -> list[str]:
        """Return the networks of its cards, that of the usual one first."""
        cards = range(self.request.nics)
        return [self.site.network, *(self.site.nics[settings.nic_network(n)] for n in cards)]


@dataclass(frozen=True)
class Port:
    """A port of a server: the network it is on, its Ethernet address, its IPv4 one or none."""

    id: str
    network: str
    mac: str
    address: str | None
    secured: bool


@dataclass(frozen=True)
class Server:
    """A server that runs, its port, and the address that its network gave that.

    ``nics`` are the ports of its further network cards, in the order of their networks.
    """

    order: ServerOrder
    id: str
    port: str
    fixed: str
    nics: tuple[Port, ...] = ()

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
        "networks": [{"uuid": network} for network in order.networks(settings)],
        "security_groups": [{"name": group} for group in site.security_groups],
        "key_name": site.keypair,
        "metadata": maker.mark.tags,
        "user_data": user_data_of(settings, order.login_key, order.host_key),
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


def free_nics(server: Server) -> None:
    """Let frames of all addresses through at a server's further cards. Raises ProviderError.

    Nova makes the ports with the server's security groups, which keep back what other addresses
    send. Where neutron knows no port security, there is nothing to lift.
    """
    for port in server.nics:
        if port.secured:
            server.cloud.do(
                "letting all through at a port",
                lambda c, port=port: c.network.update_port(  # type: ignore[misc]
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
        cloud.wait(cloud.waits.look_s)


def list_servers(cloud: Cloud, run: str) -> list[Any]:
    """List the servers of a run in one project, in one call."""
    return cloud.do("listing servers", lambda c: list(servers_there(c, run)))


def console_of(server_id: str, cloud: Cloud) -> str:
    """Return what a guest wrote on its console, as far as the cloud keeps it; maybe nothing."""
    try:
        answer = cloud.do(
            "reading a console", lambda c: c.compute.get_server_console_output(server_id)
        )
    except ProviderError:  # some hypervisors have none, and it only explains another error
        return ""
    return str((answer or {}).get("output") or "")
