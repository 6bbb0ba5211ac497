"""What the settings name, looked up in a project: image, flavors, networks; and its quotas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from openstack.connection import Connection
from openstack.exceptions import NotFoundException, raise_from_response

from osmef.errors import NotFoundError, ProviderError
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud.account import nic_network_count
from osmef.providers.cloud.lookup import (
    Flavor,
    Quota,
    WantedFlavor,
    compare_quotas,
    fitting,
    known_names,
)
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.placement import plan_groups
from osmef.providers.openstack.resource_types import rules_for
from osmef.providers.parallel import run_concurrently
from osmef.scenario.clouds.openstack import OpenStackSettings, PlacedBy, Reach
from osmef.units import whole_gib

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True)
class FlavorInfo(Flavor):
    """A flavor, with its GiB of disk and its id."""

    disk_gib: int
    id: str


@dataclass(frozen=True)
class ResolvedBootSource:
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
class ResolvedNames:
    """Results of the lookup in a project.

    ``used`` are the subnets that it sees, ``own`` those of the network that the settings name.
    """

    source: ResolvedBootSource
    flavors: dict[WantedFlavor | None, FlavorInfo]
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
) -> ResolvedNames:
    """Look up all names; ``floating`` says that the external network is needed.

    Raises NotFoundError with what there is, ProviderError.
    """
    wanted = {request.flavor or settings.default_flavor for request in requests}
    keys = [] if settings.keypair is None else [settings.keypair]
    key = "provider.security_groups"
    flavors, source, networks, groups, subnets, _, _ = run_concurrently(
        lambda: _flavors(cloud),
        lambda: _source(cloud, settings),
        lambda: _networks(cloud, settings, floating=floating),
        lambda: _find(cloud, "security group", settings.security_groups, key),
        lambda: _subnets(cloud),
        lambda: _find(cloud, "key pair", keys, "provider.keypair"),
        lambda: _zones(cloud, settings.zones),
    )
    network, external = networks
    chosen: dict[WantedFlavor | None, FlavorInfo] = {
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
    ids = tuple(str(one.id) for one in groups)
    return ResolvedNames(source, chosen, network, external, ids, used, own)


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


_LISTS: Mapping[str, Callable[[Connection, str], Iterable[Any]]] = {
    "flavor": lambda c, _project: c.compute.flavors(details=True),
    "image": lambda c, _project: c.image.images(),
    "snapshot": lambda c, _project: c.block_storage.snapshots(),
    "volume": lambda c, _project: c.block_storage.volumes(),
    "network": lambda c, _project: c.network.networks(),
    "subnet": lambda c, _project: c.network.subnets(ip_version=4),
    "security group": lambda c, project: c.network.security_groups(project_id=project),
    "availability zone": lambda c, _project: c.compute.availability_zones(),
    "key pair": lambda c, _project: c.compute.keypairs(),
}
"""How to list what settings name, in a project given by its id."""


def _list(cloud: Cloud, what: str) -> list[Any]:
    return cloud.ask(f"listing {what}s", lambda c: list(_LISTS[what](c, cloud.id)))


def _find(cloud: Cloud, what: str, wanted: Sequence[str], key: str) -> list[Any]:
    there = _list(cloud, what) if wanted else []
    return [_pick(there, one, what, key) for one in wanted]


def _flavors(cloud: Cloud) -> list[FlavorInfo]:
    return [
        FlavorInfo(str(one.name), int(one.vcpus), int(one.ram), int(one.disk), str(one.id))
        for one in _list(cloud, "flavor")
    ]


def choose_flavor(
    there: Sequence[FlavorInfo], wanted: WantedFlavor, source: ResolvedBootSource
) -> FlavorInfo:
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
    large = fitting(there, wanted)
    # With a disk of 0 only users whom a policy allows may boot an image.
    bootable = [f for f in large if source.fits(f) and (f.disk_gib or not source.own_disk)]
    if not bootable:
        largest = max(there, key=lambda f: (f.vcpus, f.ram_mib), default=None)
        room = f" and room for what servers boot from: {source}" if large else ""
        usual = f"the largest is {largest.name}" if largest else "there is no flavor at all"
        raise NotFoundError(
            f"no flavor has {wanted}{room}", where="flavor", cure=_BIGGER if large else usual
        )
    return min(bootable, key=lambda f: (f.vcpus, f.ram_mib, f.disk_gib, f.name))


_BIGGER = "use a larger flavor, or another image; a flavor without a disk needs provider.boot.size"


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
    return _find(cloud, "image", [wanted], "provider.boot.image")[0]


def _source(cloud: Cloud, settings: OpenStackSettings) -> ResolvedBootSource:
    boot = settings.boot
    if boot.image is not None:
        image = _image(cloud, boot.image)
        if image.status != "active":
            raise ProviderError(
                f"the image {boot.image!r} is {image.status}",
                where="provider.boot.image",
                cure="use an image that is active",
            )
        needs = (int(image.min_disk or 0), int(image.min_ram or 0))
        return ResolvedBootSource("image", str(image.id), *needs, own_disk=boot.size is None)
    if not cloud.ask("looking for volumes", lambda c: c.has_service("block-storage")):
        raise NotFoundError(
            "the cloud has no volumes (no block-storage service)",
            where="provider.boot",
            cure="boot from an image",
        )
    kind, wanted = ("volume" if boot.snapshot is None else "snapshot"), boot.snapshot or boot.volume
    (found,) = _find(cloud, kind, [str(wanted)], f"provider.boot.{kind}")
    return ResolvedBootSource(kind, str(found.id), int(found.size))


def _networks(
    cloud: Cloud, settings: OpenStackSettings, *, floating: bool
) -> tuple[str | None, str | None]:
    """Return the ids of the network to use and of the external one, as far as needed."""
    there = _list(cloud, "network")
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


def _subnets(cloud: Cloud) -> list[tuple[str, IPv4Network]]:
    there = _list(cloud, "subnet")
    return [(str(one.network_id), IPv4Network(one.cidr, strict=False)) for one in there]


def _zones(cloud: Cloud, wanted: Sequence[str]) -> None:
    there = _list(cloud, "availability zone") if wanted else []
    up = [zone for zone in there if (zone.state or {}).get("available")]
    for one in wanted:
        # An administrator may name a host, too, as ZONE:HOST.
        _pick(up, one.partition(":")[0], "usable availability zone", "provider.zones")


def needs_floating(settings: OpenStackSettings, requests: Iterable[EndpointRequest]) -> bool:
    """Return whether servers need floating addresses: for SSH, or across tenants and from hosts."""
    parties = {request.tenant for request in requests}  # None is that of physical hosts
    return settings.way_in is Reach.FLOATING or (settings.network is None and len(parties) > 1)


KEY_PAIRS = "key pairs"
_OWN_RULES = 2
"""Neutron gives every new security group two rules for what goes out."""
_COMPUTE = {
    "instances": ("instances", "maxTotalInstances", "totalInstancesUsed"),
    "cores": ("cores", "maxTotalCores", "totalCoresUsed"),
    "ram (MiB)": ("ram", "maxTotalRAMSize", "totalRAMUsed"),
    "server groups": ("server_groups", "maxServerGroups", "totalServerGroupsUsed"),
    "members of a server group": ("server_group_members", "maxServerGroupMembers", ""),
    KEY_PAIRS: ("key_pairs", "maxTotalKeypairs", ""),
}
"""Each by its name in a set of defaults, and those of its limit and use in nova's limits."""
_NETWORK = {
    "networks": ("networks", 0),
    "subnets": ("subnets", 0),
    "routers": ("routers", 0),
    "ports": ("ports", 0),
    "floating IPs": ("floating_ips", 0),
    "security groups": ("security_groups", 1),
    "security group rules": ("security_group_rules", 4),
}
"""Each by its name, and how much of it a new project uses: neutron gives it a group, which lets
out all, and in what comes from itself."""
_VOLUMES = {
    "volumes": ("volumes", "maxTotalVolumes", "totalVolumesUsed"),
    "volume space (GiB)": ("gigabytes", "maxTotalVolumeGigabytes", "totalGigabytesUsed"),
}
"""As those of compute, by cinder."""


def needs_of(
    settings: OpenStackSettings,
    names: ResolvedNames,
    slot: str,
    requests: Sequence[EndpointRequest],
) -> dict[str, int]:
    """Return what the requests of the tenant's slot need, by the name of the quota.

    Includes one spare server, so that a server can be replaced while the old one exists.
    """
    ours = [request for request in requests if request.tenant == slot]
    movable = [request for request in ours if request.movable]

    def total(of: Callable[[EndpointRequest], int]) -> int:
        return sum(map(of, ours)) + max(map(of, movable), default=0)

    def flavor(request: EndpointRequest) -> FlavorInfo:
        return names.flavors[request.flavor or settings.default_flavor]

    spare = int(bool(movable))
    count = len(ours) + spare
    need = {
        "instances": count,
        "cores": total(lambda one: flavor(one).vcpus),
        "ram (MiB)": total(lambda one: flavor(one).ram_mib),
        "ports": count + total(lambda one: one.nics),
    }
    if settings.placement_by is PlacedBy.SERVER_GROUP:
        planned = plan_groups(requests, soft=settings.soft).values()
        groups = Counter(group.number for group in planned if group.tenant == slot)
        need["server groups"] = len(groups)
        need["members of a server group"] = max(groups.values(), default=-spare) + spare
    if settings.keypair is None:
        need[KEY_PAIRS] = 1
    if needs_floating(settings, requests):
        need["floating IPs"] = count
    if settings.network is None:
        router = int(names.external is not None)
        need |= {"networks": 1, "subnets": 1, "routers": router}
        need["ports"] += 1 + router  # of DHCP and of the router
    if nics := nic_network_count(settings, ours):
        need |= {what: need.get(what, 0) + nics for what in ("networks", "subnets")}
    if not settings.security_groups:
        peers = [one for one in requests if one.tenant != slot]
        more = any(one.movable for one in peers)
        others = [str(number) for number in range(len(peers) + more)]
        need["security groups"] = 1
        need["security group rules"] = len(rules_for(["controller"], others)) + _OWN_RULES
    if size := volume_gib(settings, names.source):
        need |= {"volumes": count, "volume space (GiB)": size * count}
    return need


def volume_gib(settings: OpenStackSettings, source: ResolvedBootSource) -> int:
    """Return the size of a server's boot volume in GiB, 0 if it boots from the flavor's disk."""
    if source.kind == "image" and settings.boot.size is None:
        return 0
    return max(1, whole_gib(settings.boot.size or 0), source.disk_gib)


def check_quotas(cloud: Cloud, need: Mapping[str, int], *, made: bool = False) -> None:
    """Raise QuotaError with everything that the project has too little of.

    If ``made``, that is one to be made for the run, and ``cloud`` one of the administrator's.
    """
    quotas = _limits(cloud, "compute", _COMPUTE, made=made) | _network(cloud, made=made)
    # The user has them, in whichever project.
    quotas[KEY_PAIRS] = Quota(quotas[KEY_PAIRS].limit, len(_list(cloud, "key pair")))
    if "volumes" in need:
        quotas |= _limits(cloud, "block_storage", _VOLUMES, made=made)
    usual = "remove what you don't need, or ask for more"
    default = "raise what new projects get (openstack quota set --default)"
    cure = f"plan fewer or smaller endpoints; or {default if made else usual}"
    compare_quotas(cloud.name, need, quotas, cure)


def _quota(limit: object, used: object = 0) -> Quota:
    """Return a quota; one that the cloud does not report is no limit."""
    number = -1 if limit is None else int(str(limit))
    return Quota(None if number < 0 else number, 0 if used is None else int(str(used)))


def _limits(
    cloud: Cloud, service: str, table: Mapping[str, tuple[str, str, str]], *, made: bool
) -> dict[str, Quota]:
    """Return the quotas of nova or cinder, which the SDK calls ``service``."""
    of = "volumes" if service == "block_storage" else service

    def limits(connection: Connection) -> dict[str, Any]:
        # The SDK's own object of limits warns of fields that it holds itself.
        answer = getattr(connection, service).get("/limits")
        raise_from_response(answer)
        return dict(answer.json()["limits"].get("absolute") or {})

    if made:
        default = cloud.ask(
            f"reading the default quotas of {of}",
            lambda c: getattr(c, service).get_quota_set_defaults(cloud.id),
        )
        return {what: _quota(getattr(default, name)) for what, (name, _, _) in table.items()}
    reported = cloud.ask(f"reading the quotas of {of}", limits)
    return {
        what: _quota(reported.get(most), reported.get(used))
        for what, (_, most, used) in table.items()
    }


def _network(cloud: Cloud, *, made: bool) -> dict[str, Quota]:
    if made:
        default = cloud.ask(
            "reading the default quotas of the network",
            lambda c: c.network.get_quota_default(cloud.id),
        )
        return {
            what: _quota(getattr(default, name), used) for what, (name, used) in _NETWORK.items()
        }
    quota = cloud.ask(
        "reading the quotas of the network",
        lambda c: c.network.get_quota(cloud.id, details=True),
    )
    reported = {what: getattr(quota, name) for what, (name, _) in _NETWORK.items()}
    return {
        what: _quota(one.get("limit"), (one.get("used") or 0) + (one.get("reserved") or 0))
        for what, one in reported.items()
        if isinstance(one, dict)
    }
