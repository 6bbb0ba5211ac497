"""Lookup of the settings in a project: image, flavors, networks, groups, key pair."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from openstack.connection import Connection
from openstack.exceptions import NotFoundException

from osmef.errors import NotFoundError, ProviderError
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud.lookup import Wanted, known_names
from osmef.providers.openstack.access import Cloud
from osmef.providers.parallel import together
from osmef.scenario.clouds.openstack import OpenStackSettings

_MIB = 2**20
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True)
class FlavorInfo:
    """A flavor: its id and name, CPUs, MiB of memory and GiB of disk."""

    id: str
    name: str
    vcpus: int
    ram_mib: int
    disk_gib: int


@dataclass(frozen=True)
class Source:
    """The boot source of servers: image, snapshot or volume; its id, and its minimum sizes.

    ``own_disk`` says that it is the flavor's disk that has to hold it.
    """

    kind: str
    id: str
    disk_gib: int = 0
    ram_mib: int = 0
    own_disk: bool = False

    def fits(self, flavor: FlavorInfo) -> bool:
        """Return whether a server of this flavor can boot from it."""
        # A disk of 0 takes the size of the image.
        disk = flavor.disk_gib >= self.disk_gib or flavor.disk_gib == 0 or not self.own_disk
        return disk and flavor.ram_mib >= self.ram_mib

    def __str__(self) -> str:
        """Format its minimum sizes."""
        disk = f" and {max(1, self.disk_gib)} GiB of disk" if self.own_disk else ""
        return f"{self.ram_mib} MiB of memory{disk}"


@dataclass(frozen=True)
class Names:
    """Results of the lookup in a project.

    ``used`` are the subnets that it sees, ``own`` those of the network that the settings name.
    """

    source: Source
    flavors: dict[Wanted | None, FlavorInfo]
    network: str | None
    external: str | None
    security_groups: tuple[str, ...]
    used: tuple[IPv4Network, ...]
    own: tuple[IPv4Network, ...]


def look_up(
    cloud: Cloud,
    settings: OpenStackSettings,
    requests: Sequence[EndpointRequest],
    *,
    floating: bool,
) -> Names:
    """Look up all names; ``floating`` says that the external network is needed.

    Raises NotFoundError with what there is, ProviderError.
    """
    wanted = {request.flavor or settings.default_flavor for request in requests}
    flavors, source, networks, groups, subnets, _, _ = together(
        lambda: _flavors(cloud),
        lambda: _source(cloud, settings),
        lambda: _networks(cloud, settings, floating=floating),
        lambda: _groups(cloud, settings.security_groups),
        lambda: _subnets(cloud),
        lambda: _keypair(cloud, settings.keypair),
        lambda: _zones(cloud, settings.zones),
    )
    network, external = networks
    chosen: dict[Wanted | None, FlavorInfo] = {
        one: choose_flavor(flavors, one, source) for one in wanted if one is not None
    }
    own = tuple(cidr for of, cidr in subnets if of == network)
    if settings.network is not None and not own:
        raise NotFoundError(
            f"the network {settings.network!r} has no IPv4 subnet",
            where="provider.network",
            cure="name one that has, or add a subnet to it",
        )
    used = tuple(cidr for _, cidr in subnets)
    return Names(source, chosen, network, external, groups, used, own)


def _pick(there: Iterable[Any], wanted: str, what: str, key: str) -> Any:
    """Return the one of this id or name. Raises NotFoundError, ProviderError if ambiguous."""
    things = list(there)
    by_id = [thing for thing in things if thing.id == wanted]
    found = by_id or [thing for thing in things if thing.name == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        raise ProviderError(
            f"{len(found)} {what}s are called {wanted!r}",
            where=key,
            cure=f"write the id of one: {', '.join(str(thing.id) for thing in found[:5])}",
        )
    cure = known_names((str(thing.name) for thing in things if thing.name), wanted, what)
    raise NotFoundError(f"there is no {what} {wanted!r}", where=key, cure=cure)


def _flavors(cloud: Cloud) -> list[FlavorInfo]:
    there = cloud.ask("listing flavors", lambda c: list(c.compute.flavors(details=True)))
    return [_info(flavor) for flavor in there]


def choose_flavor(there: Sequence[FlavorInfo], wanted: Wanted, source: Source) -> FlavorInfo:
    """Return the named flavor, or the smallest that meets a need and boots the source.

    Raises NotFoundError, ProviderError.
    """
    if isinstance(wanted, str):
        named: FlavorInfo = _pick(there, wanted, "flavor", "flavor")
        if not source.fits(named):
            raise ProviderError(
                f"the flavor {wanted!r} is too small for what servers boot from: {source}",
                where="flavor",
                cure=_BIGGER,
            )
        return named
    ram_mib = -(-(wanted.ram or 0) // _MIB)
    fitting = [f for f in there if f.vcpus >= wanted.vcpus and f.ram_mib >= ram_mib]
    # On a disk of 0 only those may boot an image whom a policy lets.
    bootable = [f for f in fitting if source.fits(f) and (f.disk_gib or not source.own_disk)]
    if not bootable:
        largest = max(there, key=lambda f: (f.vcpus, f.ram_mib), default=None)
        room = f" and room for what servers boot from: {source}" if fitting else ""
        usual = f"the largest is {largest.name}" if largest else "there is no flavor at all"
        raise NotFoundError(
            f"no flavor has {wanted}{room}", where="flavor", cure=_BIGGER if fitting else usual
        )
    return min(bootable, key=lambda f: (f.vcpus, f.ram_mib, f.disk_gib, f.name))


_BIGGER = "use a larger flavor, or another image; a flavor without a disk needs provider.boot.size"


def _info(flavor: Any) -> FlavorInfo:
    return FlavorInfo(
        str(flavor.id), str(flavor.name), int(flavor.vcpus), int(flavor.ram), int(flavor.disk)
    )


def _image(cloud: Cloud, wanted: str) -> Any:
    """Find an image by its id, or else in the list, which omits hidden and community ones."""

    def get(connection: Connection) -> Any:
        try:
            return connection.image.get_image(wanted)
        except NotFoundException:
            return None

    found = cloud.ask("looking for an image", get) if _ID.fullmatch(wanted) else None
    if found is not None:
        return found
    there = cloud.ask("listing images", lambda c: list(c.image.images()))
    return _pick(there, wanted, "image", "provider.boot.image")


def _source(cloud: Cloud, settings: OpenStackSettings) -> Source:
    boot = settings.boot
    if boot.image is not None:
        wanted = boot.image
        image = _image(cloud, wanted)
        if image.status != "active":
            raise ProviderError(
                f"the image {wanted!r} is {image.status}",
                where="provider.boot.image",
                cure="use an image that is active",
            )
        needs = (int(image.min_disk or 0), int(image.min_ram or 0))
        return Source("image", str(image.id), *needs, own_disk=boot.size is None)
    if not cloud.ask("looking for volumes", lambda c: c.has_service("block-storage")):
        raise NotFoundError(
            "the cloud has no volumes (no block-storage service)",
            where="provider.boot",
            cure="boot from an image",
        )
    if boot.snapshot is not None:
        there = cloud.ask("listing snapshots", lambda c: list(c.block_storage.snapshots()))
        found = _pick(there, boot.snapshot, "snapshot", "provider.boot.snapshot")
        return Source("snapshot", str(found.id), int(found.size))
    there = cloud.ask("listing volumes", lambda c: list(c.block_storage.volumes()))
    found = _pick(there, str(boot.volume), "volume", "provider.boot.volume")
    return Source("volume", str(found.id), int(found.size))


def _networks(
    cloud: Cloud, settings: OpenStackSettings, *, floating: bool
) -> tuple[str | None, str | None]:
    """Return the ids of the network to use and of the external one, as far as needed."""
    there = cloud.ask("listing networks", lambda c: list(c.network.networks()))
    network = None
    if settings.network is not None:
        network = str(_pick(there, settings.network, "network", "provider.network").id)
    outside = [one for one in there if one.is_router_external]
    if settings.external_network is not None:
        key = "provider.external_network"
        return network, str(_pick(outside, settings.external_network, "external network", key).id)
    if len(outside) == 1:
        return network, str(outside[0].id)
    if not floating:
        return network, None
    names = ", ".join(str(one.name) for one in outside)
    raise NotFoundError(
        f"{len(outside) or 'no'} networks of the cloud are external",
        where="provider.external_network",
        cure=f"name one of: {names}"
        if names
        else "name a network that this machine reaches: provider.network; or a jump host",
    )


def _groups(cloud: Cloud, wanted: Sequence[str]) -> tuple[str, ...]:
    if not wanted:
        return ()
    there = cloud.ask(
        "listing security groups",
        lambda c: list(c.network.security_groups(project_id=cloud.id)),
    )
    key = "provider.security_groups"
    return tuple(str(_pick(there, one, "security group", key).id) for one in wanted)


def _subnets(cloud: Cloud) -> list[tuple[str, IPv4Network]]:
    there = cloud.ask("listing subnets", lambda c: list(c.network.subnets(ip_version=4)))
    return [(str(one.network_id), IPv4Network(one.cidr, strict=False)) for one in there]


def _zones(cloud: Cloud, wanted: Sequence[str]) -> None:
    if wanted:
        there = cloud.ask(
            "listing availability zones", lambda c: list(c.compute.availability_zones())
        )
        up = [zone for zone in there if (zone.state or {}).get("available")]
        for one in wanted:
            # An administrator may name a host, too, as ZONE:HOST.
            _pick(up, one.partition(":")[0], "usable availability zone", "provider.zones")


def _keypair(cloud: Cloud, wanted: str | None) -> None:
    if wanted is not None:
        there = cloud.ask("listing key pairs", lambda c: list(c.compute.keypairs()))
        _pick(there, wanted, "key pair", "provider.keypair")
