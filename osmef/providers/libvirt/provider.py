"""Provider of guests on libvirt hosts, and their teardown."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from osmef.errors import CapacityError, InputError, OsmefError, ProviderError
from osmef.providers.base import (
    Access,
    CancellationCheck,
    Endpoint,
    EndpointRequest,
    Provider,
    Resource,
    RunContext,
    Unread,
    ignore_unreadable,
    never_cancelled,
)
from osmef.providers.libvirt import provision, xml
from osmef.providers.libvirt.connection import (
    PROVIDER,
    Hypervisor,
    Maker,
    Mark,
    libvirt,
    mark_of_name,
    mark_of_xml,
    unread_in_xml,
)
from osmef.providers.libvirt.guest import check_emulator, find_guest
from osmef.providers.libvirt.networks import find_networks, source_address
from osmef.providers.libvirt.provision import Provisioner, architecture_of, need_of, ram_bytes_of
from osmef.providers.libvirt.storage import find_image, find_iso_tool, remove_pool
from osmef.providers.marks import unread_line
from osmef.providers.parallel import map_concurrently
from osmef.providers.static.provider import StaticProvider
from osmef.scenario.clouds.libvirt import DEFAULT_URI, LibvirtAccess, LibvirtSettings
from osmef.scenario.clouds.static import StaticSettings
from osmef.scenario.fields import EndpointKind
from osmef.scenario.layers import EVERYTHING
from osmef.scenario.location import Location
from osmef.scenario.study import Cell
from osmef.units import format_size

_GUEST = "domain"
_ORDER = (_GUEST, "filter", "network", "pool")
"""Guests use all the others."""
KINDS = frozenset(_ORDER)
_LATE_S = 2.0


def owned(host: Hypervisor, run: str | None, unread: Unread = ignore_unreadable) -> list[Resource]:
    """List marked resources on a host, of one run or of all. Raises ProviderError."""
    return [resource for kind in _ORDER for resource in _owned(host, kind, run, unread)]


def _owned(
    host: Hypervisor, kind: str, run: str | None, unread: Unread = ignore_unreadable
) -> list[Resource]:
    there = host.find(f"listing every {kind}", partial(_marked, kind)) or []
    for reported, name in ((mark, name) for mark, name, _ in there if isinstance(mark, str)):
        unread(unread_line(f"{host.name}: {kind} {name}", reported))
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
        map_concurrently(remove, [resource for resource in resources if resource.kind == kind])
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


_SOCKET = "/run/libvirt/libvirt-sock"


class LibvirtProvider(Provider):
    """Guests of QEMU on one or several hosts, beside physical hosts of an inventory."""

    kind = PROVIDER
    carries = EVERYTHING
    gives_nics = True
    nics_carry = EVERYTHING
    Settings = LibvirtSettings
    access_model = LibvirtAccess
    found_by = frozenset({"uri"})

    def __init__(self, settings: LibvirtSettings) -> None:
        self._settings = settings
        self._hosts: dict[str, Hypervisor] = {}
        self._maker: Maker | None = None
        self._machines: dict[str, StaticProvider] = {}
        self._placed: Mapping[str, str] = {}

    def check(
        self,
        requests: Sequence[EndpointRequest],
        check_cancelled: CancellationCheck = never_cancelled,
    ) -> None:
        """Check image, connections, emulators, networks and memory. Raises ProviderError."""
        settings = self._settings
        placed = provision.place(settings, requests)
        for machine, some in self._of_inventory(requests, placed).values():
            machine.check(some)
        guests = _guests(requests)
        if not guests:
            return
        image = find_image(settings.image)
        if image.guest_image is None:
            find_iso_tool()
        hosts = self._open(guests, placed)
        try:
            for host in hosts.values():
                host.check = check_cancelled
            self._check_identities(hosts)
            for host in hosts.values():
                check_emulator(host, architecture_of(host, image))
                here = [request for request in guests if placed[request.name] == host.name]
                self._check_memory(host, here)
            slots = list(dict.fromkeys(str(request.tenant) for request in guests))
            networks = find_networks(list(hosts.values()), settings.networks, slots)
            for network in networks.values():
                source_address(str(network.subnet[1]))
            for request in guests if networks else ():
                networks[str(request.tenant)].take()
        finally:
            for host in hosts.values():
                host.close()

    def _open(
        self, guests: Sequence[EndpointRequest], placed: Mapping[str, str]
    ) -> dict[str, Hypervisor]:
        names = dict.fromkeys(placed[request.name] for request in guests)
        return {name: Hypervisor(name, self._settings.hypervisors[name]) for name in names}

    @staticmethod
    def _check_identities(hosts: Mapping[str, Hypervisor]) -> None:
        """Check that two connections lead to two hosts."""

        def ask(connection: Any) -> tuple[str, str]:
            root = xml.parse(connection.getCapabilities())
            return str(connection.getHostname()), root.findtext("host/uuid") or ""

        seen: dict[tuple[str, str], str] = {}
        for host in hosts.values():
            identity = host.do("asking who it is", ask)
            if identity in seen:
                raise ProviderError(
                    f"{host.name} and {seen[identity]} are one machine: {identity[0]}",
                    where="provider.uris",
                    cure="name each host once",
                )
            seen[identity] = host.name

    def _check_memory(self, host: Hypervisor, guests: Sequence[EndpointRequest]) -> None:
        needed, memory = need_of(self._settings, guests), ram_bytes_of(host)
        if needed > memory:
            raise CapacityError(
                f"{len(guests)} guests need {format_size(needed)} of memory,"
                f" and the host has {format_size(memory)}",
                where=host.name,
                cure="use a smaller flavor, fewer guests, or another host",
            )

    def problems(self, cell: Cell) -> list[tuple[str, str, str]]:
        """List what these hosts do not support, as far as settings show."""
        return list(provision.problems_of(self._settings, cell))

    def warnings(self, cell: Cell) -> list[str]:
        """List the warnings that follow from the settings."""
        return list(provision.warnings_of(self._settings, cell))

    def machines(self, requests: Sequence[EndpointRequest]) -> Mapping[str, str]:
        """Return the host of each guest, and the machine of each physical host.

        Raises CapacityError.
        """
        return provision.place(self._settings, requests)

    def create(self, context: RunContext) -> list[Endpoint]:
        """Create networks and guests, and lock physical hosts."""
        self._placed = provision.place(self._settings, context.all_requests)
        guests, made = _guests(context.requests), {}
        for name, (machine, some) in self._of_inventory(context.requests, self._placed).items():
            self._machines[name] = machine
            (made[name],) = machine.create(replace(context, requests=some, planned=some))
        if guests:
            image = find_image(self._settings.image)
            self._hosts = self._open(guests, self._placed)
            for host in self._hosts.values():
                host.check = context.check
            self._maker = Maker(Mark.of(context), context.ledger)
            machines = [endpoint.data_address for endpoint in made.values()]
            provisioner = Provisioner(
                *(self._settings, context, self._maker, self._hosts, image, self._placed, machines)
            )
            made |= {endpoint.name: endpoint for endpoint in provisioner.make(guests)}
        return [made[request.name] for request in context.requests]

    def _of_inventory(
        self, requests: Sequence[EndpointRequest], placed: Mapping[str, str]
    ) -> dict[str, tuple[StaticProvider, list[EndpointRequest]]]:
        """Return the inventory entries of physical hosts by endpoint."""
        found = {}
        for request in requests:
            if request.kind is EndpointKind.HOST:
                entry = placed[request.name]
                hosts = {entry: self._settings.hosts[entry]}
                found[request.name] = (StaticProvider(StaticSettings(hosts=hosts)), [request])
        return found

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back the host and the network of each guest."""
        return [self._describe(endpoint) for endpoint in endpoints]

    def _describe(self, endpoint: Endpoint) -> Location:
        machine = self._machines.get(endpoint.name)
        if machine is not None:
            return machine.describe([endpoint])[0]
        made_at = self._hosts[self._placed[endpoint.name]]
        others = [host for host in self._hosts.values() if host is not made_at]
        found = find_guest([made_at, *others], endpoint.resource_id)
        if found is None:
            return Location()
        host, description = found
        source = xml.parse(description).find("devices/interface/source")
        network = "" if source is None else source.get("network") or source.get("bridge") or ""
        prefix = f"osmef-{self._maker.mark.run}-" if self._maker else ""
        return Location(host=host.name, tenant=network.removeprefix(prefix) or None)

    def access_after_run(self, endpoint: Endpoint) -> tuple[str, Access] | None:
        """Return how to reach a physical host after the run; guests are gone then."""
        if endpoint.request.kind is not EndpointKind.HOST:
            return None
        return StaticProvider(StaticSettings(hosts=self._settings.hosts)).access_after_run(endpoint)

    def close(self) -> None:
        """Destroy all resources. Raises the first ProviderError."""
        errors: list[OsmefError] = []
        for machine in self._machines.values():
            try:
                machine.close()
            except OsmefError as error:
                errors.append(error)
        maker = self._maker

        def remove(host: Hypervisor) -> None:
            host.check = lambda: None
            made = list(maker.made.values()) if maker else []
            ours = [one for one in made if one.access["uri"] == host.uri]
            try:
                gone = maker.note_destroyed if maker else lambda _one: None
                destroy(host, ours, gone, {one.name for one in made})
            except OsmefError as error:
                errors.append(error)
            finally:
                host.close()

        map_concurrently(remove, self._hosts.values())
        if errors:
            raise errors[0]

    @classmethod
    def owned(
        cls, access: Access, run: str | None = None, unread: Unread = ignore_unreadable
    ) -> list[Resource]:
        """List marked resources on a host, by default on this machine.

        Raises ProviderError, InputError where this machine has no libvirt.
        """
        uri = access.get("uri") or os.environ.get("LIBVIRT_DEFAULT_URI") or _own_uri()
        if uri is None:
            cure = "name the host by its URI: --uri qemu+ssh://me@host/system"
            raise InputError("this machine has no libvirt", where="libvirt", cure=cure)
        host = Hypervisor(uri, uri)
        try:
            return owned(host, run, unread)
        finally:
            host.close()

    @classmethod
    def recognises(cls, resource: Resource) -> bool:
        """Return whether a resource is of a type that it creates."""
        return resource.kind in KINDS

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        """Destroy resources, on each host in order of dependency."""
        errors: list[OsmefError] = []
        for uri in dict.fromkeys(resource.access["uri"] for resource in resources):
            host = Hypervisor(uri, uri)
            ours = [resource for resource in resources if resource.access["uri"] == uri]
            try:
                destroy(host, ours, gone, {resource.name for resource in resources})
            except OsmefError as error:
                errors.append(error)
            finally:
                host.close()
        if errors:
            raise errors[0]


def _own_uri() -> str | None:
    return DEFAULT_URI if Path(_SOCKET).exists() else None


def _guests(requests: Sequence[EndpointRequest]) -> list[EndpointRequest]:
    return [request for request in requests if request.kind is EndpointKind.VM]
