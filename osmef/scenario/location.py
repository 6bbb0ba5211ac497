"""Locations of endpoints, and the distance of two of them."""

from __future__ import annotations

from pydantic import Field

from osmef.scenario.base import Model


class Location(Model):
    """A location in a cloud. Unknown parts are None, and never assumed."""

    host: str | None = Field(default=None, description="name or id of the physical host")
    host_scope: str | None = Field(
        default=None,
        description="within what the ids of host and rack mean something; null if everywhere",
    )
    rack: str | None = Field(
        default=None,
        description="the narrowest part of the cloud above the host that it reports: a rack, a"
        " fault domain, a node of its network",
    )
    zone: str | None = Field(default=None, description="availability zone")
    region: str | None = Field(default=None, description="region of the cloud")
    site: str | None = Field(
        default=None, description="site of the scenario; null where it has one cloud"
    )
    tenant: str | None = Field(default=None, description="tenant, project, account or VPC")


class Gone(Location):
    """The location of an endpoint that no longer exists in its cloud."""


def same_host(one: Location, other: Location) -> bool | None:
    """Return whether both are on one host; None where that is unknown.

    Host ids that a cloud derives for each tenant can't be compared with those of another tenant. A
    host is in one rack, zone and region. Two sites are two regions, unless both report the same
    one.
    """
    apart = [
        None not in pair and pair[0] != pair[1]
        for pair in ((one.region, other.region), (one.zone, other.zone))
    ]
    apart.append(_are_two_sites(one, other) and None in {one.region, other.region})
    if any(apart):
        return False
    if one.host_scope != other.host_scope:
        return None
    if None not in {one.rack, other.rack} and one.rack != other.rack:
        return False
    if one.host is None or other.host is None:
        return None
    return one.host == other.host


def has_moved(before: Location, after: Location) -> bool:
    """Return whether a location has changed; a part that became unknown is no change.

    If the whole location became unknown, that is a change to an unknown place, and so is its
    becoming known again.
    """
    if _is_unknown(before) != _is_unknown(after):
        return True
    pairs = [(before.zone, after.zone), (before.region, after.region)]
    if before.host_scope == after.host_scope:
        pairs += [(before.host, after.host), (before.rack, after.rack)]
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _is_unknown(location: Location) -> bool:
    return location == Location(site=location.site)


def _are_two_sites(one: Location, other: Location) -> bool:
    return None not in {one.site, other.site} and one.site != other.site


def distance(sender: Location, receiver: Location) -> int | None:
    """Return 0, 2 or 4: edges between two endpoints in the tree of the cloud.

    The tree is router - tenant network - (tenant, host): 0 for one tenant on one host, 2 for one
    tenant on two hosts, 4 for two tenants, on one host too, as their traffic goes through the
    router. None where the locations are unknown. Source: Venzano and Michiardi, "A Measurement
    Study of Data-intensive Network Traffic Patterns in a Private Cloud", section IV-D and figure 1.

    Physical hosts have no tenant: two of them are one tenant's, and so is a host with a VM.
    Between two sites it is 4: their traffic goes through routers at both.
    """
    if _are_two_sites(sender, receiver):
        return 4
    if None not in {sender.tenant, receiver.tenant} and sender.tenant != receiver.tenant:
        return 4
    together = same_host(sender, receiver)
    if together is None:
        return None
    return 0 if together else 2
