"""Creation of marked resources, each noted in the ledger before and after.

By its mark a thing on a host is known to be ours from the moment it is made.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from xml.etree import ElementTree as ET

from osmef.providers import marks
from osmef.providers.base import Ledger, Resource
from osmef.providers.libvirt import xml
from osmef.providers.libvirt.connection import Hypervisor

PROVIDER = "libvirt"
_NAMESPACE = "urn:osmef:libvirt:1"
_TAG = f"{{{_NAMESPACE}}}run"
_NAME = re.compile(r"osmef-([a-z0-9A-Z-]+)-(pool|filter)-([0-9]+)-([0-9]+)")

ET.register_namespace("osmef", _NAMESPACE)


@dataclass(frozen=True)
class Mark(marks.Mark):
    """The mark, also as XML metadata, and as the name of objects without metadata."""

    def marking_name(self, kind: str) -> str:
        """Return the name of a pool or filter, which carries the mark."""
        return f"osmef-{self.run}-{kind}-{self.made}-{self.deadline}"

    def element(self, name: str, address: str | None = None) -> ET.Element:
        """Return the mark as metadata of a thing of this name.

        ``address`` is the one that a guest was given.
        """
        times = {"made": str(self.made), "deadline": str(self.deadline)}
        values = {"id": self.run, "name": name, **times}
        if address is not None:
            values["address"] = address
        return ET.Element(_TAG, values)


def mark_of_xml(description: str) -> Mark | None:
    """Return the mark in the description of a domain or network; None where it has none.

    A copy that somebody made of ours has our metadata too, but another name.
    """
    name, found = _told(description)
    if not found or found.get("name") != name:
        return None
    return Mark.read(*(found.get(key) for key in ("id", "made", "deadline")))


def unread_in_xml(description: str) -> str | None:
    """Return our metadata if they are no valid mark."""
    name, found = _told(description)
    own = found.get("name") == name and mark_of_xml(description) is None
    return str(dict(found)) if found and own else None


def address_of_xml(description: str) -> str | None:
    """Return the address that was assigned to a guest of ours."""
    return _told(description)[1].get("address")


def _told(description: str) -> tuple[str | None, Mapping[str, str]]:
    """Return the name in our metadata, and the metadata; empty without any."""
    try:
        root = xml.parse(description)
    except ET.ParseError:
        return None, {}
    found = root.find(f"metadata/{_TAG}")
    return root.findtext("name"), {} if found is None else found.attrib


def mark_of_name(name: str, kind: str) -> Mark | None:
    """Return the mark in the name of a pool or filter; None where it has none."""
    match = _NAME.fullmatch(name)
    if match is None or match[2] != kind:
        return None
    return Mark.read(match[1], match[3], match[4])


T = TypeVar("T")


@dataclass
class Maker:
    """Creates the resources of a run. Thread-safe."""

    mark: Mark
    ledger: Ledger
    made: dict[tuple[str, str, str], Resource] = field(default_factory=dict)
    """All that was asked for, by URI, kind and name."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make(
        self,
        host: Hypervisor,
        kind: str,
        name: str,
        call: Callable[[Any], T],
        find: Callable[[Any], T],
    ) -> T:
        """Create a resource of this name; ``call`` gets the run's mark. Raises ProviderError."""
        resource = self.mark.resource(PROVIDER, kind, name, host.access)
        with self._lock:
            self.ledger.intend(resource)
            self.made[host.uri, kind, name] = resource
        thing = host.create(f"making the {kind} {name}", call, find)
        known = replace(resource, id=str(thing.UUIDString()))  # type: ignore[attr-defined]
        with self._lock:
            self.ledger.created(known)
            self.made[host.uri, kind, name] = known
        return thing

    def gone(self, resource: Resource) -> None:
        """Note that a resource is destroyed."""
        with self._lock:
            self.ledger.destroyed(resource)
            self.made.pop((resource.access["uri"], resource.kind, resource.name), None)
