"""Teardown: find a run's resources by mark, and destroy them in order of dependency."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from osmef.errors import OsmefError
from osmef.providers.base import Resource, Unread, pass_over
from osmef.providers.libvirt.connection import (
    PROVIDER,
    Hypervisor,
    Mark,
    libvirt,
    mark_of_name,
    mark_of_xml,
    unread_in_xml,
)
from osmef.providers.libvirt.storage import remove_pool
from osmef.providers.marks import unread_line
from osmef.providers.parallel import side_by_side

_GUEST = "domain"
_ORDER = (_GUEST, "filter", "network", "pool")
"""Guests use all the others."""
KINDS = frozenset(_ORDER)
_LATE_S = 2.0


def owned(host: Hypervisor, run: str | None, unread: Unread = pass_over) -> list[Resource]:
    """List marked resources on a host, of one run or of all. Raises ProviderError."""
    return [resource for kind in _ORDER for resource in _owned(host, kind, run, unread)]


def _owned(
    host: Hypervisor, kind: str, run: str | None, unread: Unread = pass_over
) -> list[Resource]:
    there = host.find(f"listing every {kind}", partial(_marked, kind)) or []
    for told, name in ((mark, name) for mark, name, _ in there if isinstance(mark, str)):
        unread(unread_line(f"{host.name}: {kind} {name}", told))
    things = ((mark, name, uuid) for mark, name, uuid in there if isinstance(mark, Mark))
    return [
        mark.resource(PROVIDER, kind, name, host.access, uuid)
        for mark, name, uuid in things
        if run in {None, mark.run}
    ]


def _marked(kind: str, connection: Any) -> list[tuple[Mark | str, str, str]]:
    """List objects with a mark, valid or unreadable, with name and id."""
    lists = {
        _GUEST: connection.listAllDomains,
        "filter": connection.listAllNWFilters,
        "network": connection.listAllNetworks,
        "pool": connection.listAllStoragePools,
    }
    found = [(_mark(thing, kind), thing) for thing in lists[kind]()]
    return [(mark, thing.name(), thing.UUIDString()) for mark, thing in found if mark is not None]


def _mark(thing: Any, kind: str) -> Mark | str | None:
    """Return the mark of an object, the text of an unreadable one, or None."""
    if kind in {"filter", "pool"}:
        return mark_of_name(thing.name(), kind)
    try:
        description = thing.XMLDesc()
    except libvirt().libvirtError:  # gone in between
        return None
    return mark_of_xml(description) or unread_in_xml(description)


def destroy(
    host: Hypervisor,
    resources: Sequence[Resource],
    gone: Callable[[Resource], None],
    elsewhere: Collection[str] = (),
) -> None:
    """Destroy resources of one host, by type. Raises the first ProviderError.

    Of the guests that are to go from other hosts, by their names, those that were migrated to this
    one go, too.
    What was only intended, as far as is known, and is not there is looked for once more: libvirtd
    goes on with what a controller asked for just before it was killed.
    """
    errors: list[OsmefError] = []
    came = _migrated_to(host, resources, elsewhere)
    missing = _remove_all(host, [*came, *resources], gone, errors)
    late = [resource for resource in missing if resource.id is None]
    for resource in missing:
        if resource.id is not None:
            gone(resource)
    if late:
        host.wait(_LATE_S)
        for resource in _remove_all(host, late, gone, errors):
            gone(resource)
    if errors:
        raise errors[0]


def _migrated_to(
    host: Hypervisor, resources: Sequence[Resource], elsewhere: Collection[str]
) -> list[Resource]:
    """List a run's guests on this host that were created on another."""
    known = {resource.name for resource in resources if resource.kind == _GUEST}
    if not set(elsewhere) - known:
        return []
    there = _owned(host, _GUEST, None)
    return [guest for guest in there if guest.name in elsewhere and guest.name not in known]


def _remove_all(
    host: Hypervisor,
    resources: Sequence[Resource],
    gone: Callable[[Resource], None],
    errors: list[OsmefError],
) -> list[Resource]:
    """Destroy existing resources, and return absent ones; those that a failed guest uses stay."""
    missing: list[Resource] = []
    held: set[str] = set()

    def remove(resource: Resource) -> None:
        if resource.kind != _GUEST and resource.run in held:
            return
        try:
            found = host.find(
                f"removing the {resource.kind} {resource.name}", _remover(host, resource)
            )
        except OsmefError as error:
            errors.append(error)
            if resource.kind == _GUEST:
                held.add(resource.run)
            return
        if found:
            gone(resource)
        else:
            missing.append(resource)

    for kind in _ORDER:
        side_by_side(remove, [resource for resource in resources if resource.kind == kind])
    return missing


def _remover(host: Hypervisor, resource: Resource) -> Callable[[Any], bool]:
    def remove(connection: Any) -> bool:
        look = {
            _GUEST: connection.lookupByName,
            "filter": connection.nwfilterLookupByName,
            "network": connection.networkLookupByName,
            "pool": connection.storagePoolLookupByName,
        }[resource.kind]
        thing = look(resource.name)
        mark = _mark(thing, resource.kind)
        if not isinstance(mark, Mark) or mark.run != resource.run:
            return False  # another owner's, under a name like ours
        if resource.kind == "pool":
            remove_pool(thing, host.check)
        elif resource.kind == "filter":
            thing.undefine()
        else:
            thing.destroy()
        return True

    return remove
