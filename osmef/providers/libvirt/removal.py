"""Find what is ours on a host by its mark, and remove it in the order that it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from osmef.errors import OsmefError
from osmef.providers.base import Resource
from osmef.providers.libvirt.connection import Hypervisor, libvirt
from osmef.providers.libvirt.marks import PROVIDER, Mark, mark_of_name, mark_of_xml
from osmef.providers.libvirt.storage import remove_pool
from osmef.providers.parallel import side_by_side

_ORDER = ("domain", "filter", "network", "pool")
"""Guests use all the others."""


def owned(host: Hypervisor, run: str | None) -> list[Resource]:
    """List what carries our mark on a host, of one run or of all. Raises ProviderError."""
    found = []
    for kind in _ORDER:
        things = host.find(f"listing every {kind}", partial(_marked, kind))
        for mark, name, uuid in things or []:
            if run in {None, mark.run}:
                found.append(mark.resource(PROVIDER, kind, name, host.access, uuid))
    return found


def _marked(kind: str, connection: Any) -> list[tuple[Mark, str, str]]:
    lists = {
        "domain": connection.listAllDomains,
        "filter": connection.listAllNWFilters,
        "network": connection.listAllNetworks,
        "pool": connection.listAllStoragePools,
    }
    found = [(_mark(thing, kind), thing) for thing in lists[kind]()]
    return [(mark, thing.name(), thing.UUIDString()) for mark, thing in found if mark is not None]


def _mark(thing: Any, kind: str) -> Mark | None:
    if kind in {"filter", "pool"}:
        return mark_of_name(thing.name(), kind)
    try:
        return mark_of_xml(thing.XMLDesc())
    except libvirt().libvirtError:  # gone in between
        return None


def destroy(
    host: Hypervisor, resources: Sequence[Resource], gone: Callable[[Resource], None]
) -> None:
    """Remove things of one host, those of a kind at once. Raises the first ProviderError."""
    errors: list[OsmefError] = []
    host.do("connecting", lambda connection: connection.getLibVersion())  # else each would wait

    def remove(resource: Resource) -> None:
        try:
            host.find(f"removing the {resource.kind} {resource.name}", _remover(host, resource))
        except OsmefError as error:
            errors.append(error)
        else:
            gone(resource)

    for kind in _ORDER:
        side_by_side(remove, [resource for resource in resources if resource.kind == kind])
    if errors:
        raise errors[0]


def _remover(host: Hypervisor, resource: Resource) -> Callable[[Any], None]:
    def remove(connection: Any) -> None:
        look = {
            "domain": connection.lookupByName,
            "filter": connection.nwfilterLookupByName,
            "network": connection.networkLookupByName,
            "pool": connection.storagePoolLookupByName,
        }[resource.kind]
        thing = look(resource.name)
        mark = _mark(thing, resource.kind)
        if mark is None or mark.run != resource.run:
            return  # somebody else's, under a name like ours
        if resource.kind == "pool":
            remove_pool(thing, host.check)
        elif resource.kind == "filter":
            thing.undefine()
        else:
            thing.destroy()

    return remove
