"""Availability zones. Their names differ between accounts, their ids do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from osmef.errors import CapacityError, NotFoundError
from osmef.providers.aws.access import Account


def zones_of(account: Account) -> dict[str, str]:
    """Return the ids of the zones that the account may use, by its own names of them."""
    answer = account.read(
        "describe_availability_zones",
        "listing zones",
        Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}],
    )
    return {
        str(zone["ZoneName"]): str(zone["ZoneId"])
        for zone in answer["AvailabilityZones"]
        if zone["State"] == "available"
    }


def id_of(zones: Mapping[str, str], wanted: str) -> str:
    """Return the id of a zone that is given by name or id. Raises NotFoundError."""
    if wanted in zones.values():
        return wanted
    try:
        return zones[wanted]
    except KeyError:
        known = ", ".join(f"{name} ({key})" for name, key in sorted(zones.items()))
        raise NotFoundError(
            f"there is no zone {wanted!r}", where="provider.zone", cure=f"use one of: {known}"
        ) from None


def offering(account: Account, flavors: Iterable[str]) -> dict[str, set[str]]:
    """Return the ids of the zones that have each instance type."""
    wanted = sorted(set(flavors))
    found: dict[str, set[str]] = {flavor: set() for flavor in wanted}
    if wanted:
        answer = account.read(
            "describe_instance_type_offerings",
            "listing which zone has which instance type",
            LocationType="availability-zone-id",
            Filters=[{"Name": "instance-type", "Values": wanted}],
        )
        for one in answer["InstanceTypeOfferings"]:
            found[str(one["InstanceType"])].add(str(one["Location"]))
    return found


def candidates(
    zones: Sequence[Mapping[str, str]], offered: Sequence[Mapping[str, set[str]]]
) -> list[str]:
    """Return the ids of the zones that have all instance types, in all accounts, in order.

    The order is that of the first account's names. Raises CapacityError where there is none.
    """
    names = sorted(zones[0])
    found = [
        zones[0][name]
        for name in names
        if all(zones[0][name] in other.values() for other in zones)
        and all(zones[0][name] in places for flavors in offered for places in flavors.values())
    ]
    if not found:
        flavors = ", ".join(sorted({flavor for one in offered for flavor in one}))
        raise CapacityError(
            f"no zone has all of {flavors}",
            where="provider.zone",
            cure="use other instance types, or another region",
        )
    return found
