"""Where the cloud is asked to put each server: makes the server groups, or names hosts or zones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openstack.utils import supports_microversion

from osmef.errors import CapacityError, PolicyError
from osmef.providers.base import EndpointRequest
from osmef.providers.openstack.access import Cloud
from osmef.providers.openstack.groups import Group, assign_places, plan_groups
from osmef.providers.openstack.making import Maker
from osmef.providers.parallel import side_by_side
from osmef.scenario.clouds.openstack import OpenStackSettings, PlacedBy

_HOST_SINCE = "2.74"
"""The microversion of nova that takes a host which its scheduler then looks at, too."""


@dataclass(frozen=True)
class Place:
    """Where the cloud is asked to put a server: each is None where it may choose."""

    group: str | None = None
    host: str | None = None
    zone: str | None = None

    @property
    def attributes(self) -> dict[str, object]:
        """The same as attributes of a request to nova."""
        found: dict[str, object] = {}
        if self.group is not None:
            found["scheduler_hints"] = {"group": self.group}
        if self.host is not None:
            found["host"] = self.host
        if self.zone is not None:
            found["availability_zone"] = self.zone
        return found


@dataclass(frozen=True)
class ComputeHost:
    """A compute host that is up, and its availability zone."""

    name: str
    zone: str


def places_of(
    maker: Maker,
    settings: OpenStackSettings,
    clouds: Mapping[str, Cloud],
    requests: Sequence[EndpointRequest],
    fixed: Mapping[str, str],
) -> dict[str, Place]:
    """Return the place of each request by its name, given the project of each tenant's slot.

    ``fixed`` are the compute hosts of the slots on which physical hosts take part. Makes the server
    groups. Raises CapacityError, PolicyError, ProviderError.
    """
    if settings.placement_by is PlacedBy.SERVER_GROUP:
        zone = settings.zones[0] if settings.zones else None
        groups = plan_groups(requests, soft=settings.soft)
        made = _make_groups(maker, clouds, set(groups.values()))
        return {r.name: Place(group=made.get(groups.get(r.name)), zone=zone) for r in requests}
    if settings.placement_by is PlacedBy.ZONE:
        zones = assign_places(requests, settings.zones)
        return {r.name: Place(zone=zones.get(r.host or "")) for r in requests}
    cloud = next(iter(clouds.values()))
    hosts = {host.name: host for host in usable_hosts(cloud, settings)}
    slots = assign_places(requests, list(hosts), fixed)
    by_name = cloud.do(
        "looking at nova's version", lambda c: supports_microversion(c.compute, _HOST_SINCE)
    )
    if by_name:
        return {r.name: Place(host=slots.get(r.host or "")) for r in requests}
    forced = {s: f"{hosts[name].zone}:{name}" for s, name in slots.items() if name in hosts}
    return {r.name: Place(zone=forced.get(r.host or "")) for r in requests}


def _make_groups(
    maker: Maker, clouds: Mapping[str, Cloud], groups: set[Group]
) -> dict[Group | None, str]:
    def make(group: Group) -> str:
        name = maker.mark.whole_name(f"group-{group.number}")
        made = maker.make(
            clouds[group.tenant],
            "server-group",
            name,
            lambda c: c.compute.create_server_group(name=name, policy=group.policy),
        )
        return str(made.id)

    ordered = sorted(groups, key=lambda group: group.number)
    return dict(zip(ordered, side_by_side(make, ordered), strict=True))


def usable_hosts(cloud: Cloud, settings: OpenStackSettings) -> list[ComputeHost]:
    """List the compute hosts that are up and enabled, of those that the settings name, if any.

    Raises PolicyError for who may not list them, CapacityError for one that is not up.
    """
    try:
        there = cloud.do(
            "listing compute hosts", lambda c: list(c.compute.services(binary="nova-compute"))
        )
    except PolicyError as error:
        if settings.compute_hosts:  # may be asked for all the same; zones are asked by name then
            return [ComputeHost(name, "nova") for name in settings.compute_hosts]
        raise PolicyError(
            "only an administrator may list compute hosts",
            where="provider.placement_by: host",
            cure="use an admin's cloud, or placement_by: server-group",
        ) from error
    up = {
        str(one.host): ComputeHost(str(one.host), str(one.availability_zone))
        for one in there
        if one.state == "up" and one.status == "enabled"
    }
    wanted = settings.compute_hosts or sorted(up)
    missing = [name for name in wanted if name not in up]
    if missing:
        raise CapacityError(
            f"the compute host {missing[0]} is not up and enabled",
            where="provider.compute_hosts",
            cure=f"those that are: {', '.join(sorted(up)) or 'none'}",
        )
    return [up[name] for name in wanted]
