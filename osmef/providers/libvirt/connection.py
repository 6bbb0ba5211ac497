"""Connection to a libvirt host, and creation of marked resources through it.

A connection is reopened when it breaks, and its errors are translated. Each resource is noted in
the ledger before and after: by its mark a thing on a host is known to be ours from the moment it is
made.
"""

from __future__ import annotations

import importlib
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from osmef.errors import (
    ApiError,
    CapacityError,
    CredentialsError,
    HostKeyError,
    LoginError,
    NotFoundError,
    OsmefError,
    PolicyError,
    ProviderError,
    ReachError,
)
from osmef.providers import marks
from osmef.providers.base import Access, Ledger, Resource
from osmef.providers.libvirt import xml
from osmef.providers.retry import Retry

Meaning = tuple[type[OsmefError], str]

# Numbers of virErrorNumber in libvirt's virterror.h, which never change.
_NO_MEMORY, _NO_SUPPORT, _OPERATION_DENIED = 2, 3, 29
_AUTHENTICATION = {45, 79, 94}  # failed, cancelled, unavailable
_ACCESS_DENIED = 88
_MISSING = {42, 43, 49, 50, 62}  # domain, network, pool, volume, filter
_NO_SUCH = {_NO_SUPPORT, *_MISSING}

_GROUP = "add your user to the group libvirt, or use an account that is in it"
_DAEMON = "is libvirtd running there? try: virsh -c URI list"
_SPACE = "free memory or disk space on the host, or ask for less: flavor, count, parallel"
_STORAGE = "name another directory under provider.storage, one that libvirt and QEMU may use"
_HELPER = (
    "let it: `allow BRIDGE` in /etc/qemu/bridge.conf of that host, chmod u+s on qemu-bridge-helper,"
    " and /dev/net/tun open to all"
)
_WAY = "check the address, and the way there: router, VPN, or ProxyJump in ~/.ssh/config"
# What libvirt, ssh and QEMU say, in C's locale; the first that is found counts.
_WORDS: tuple[tuple[str, type[OsmefError], str], ...] = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        HostKeyError,
        "somebody else may be answering at this address; find out who before you go on",
    ),
    (
        "Host key verification failed",
        HostKeyError,
        "log in once with ssh, compare the fingerprint, and let known_hosts have it",
    ),
    (r"Permission denied \(", LoginError, "let ssh in to that host without a password"),
    ("Could not resolve hostname", ReachError, "check its spelling, and the resolver here"),
    ("No route to host|Network is unreachable", ReachError, _WAY),
    ("ssh: .*Connection refused", ReachError, "is sshd running there, on this port?"),
    ("ssh: .*timed out", ReachError, "is the host up? a firewall may drop SSH from here"),
    ("bridge helper", PolicyError, _HELPER),
    ("connect socket .*Permission denied", CredentialsError, _GROUP),
    ("authentication unavailable", CredentialsError, _GROUP),
    ("/dev/kvm", PolicyError, "let QEMU use /dev/kvm on the host, or set accelerator: tcg"),
    (
        r"kvm\.c:",
        PolicyError,
        "KVM does not work on the host as it is: set accelerator: auto, or tcg",
    ),
    ("Permission denied|Read-only file system|cannot create path", PolicyError, _STORAGE),
    (
        "interface MTU on .*No such device",
        NotFoundError,
        "check the bridge under provider.networks: ip link show type bridge",
    ),
    ("Maximum CPUs greater", CapacityError, "use a flavor with fewer vcpus"),
    ("Cannot allocate memory|cannot set up guest memory", CapacityError, _SPACE),
    ("No space left on device", CapacityError, _SPACE),
    ("connect socket|Cannot recv data|unable to connect to server", ApiError, _DAEMON),
)
_RIGHT = "ask the owner of the host for this right"
_CODES: dict[int, Meaning] = {
    **dict.fromkeys(_AUTHENTICATION, (CredentialsError, _GROUP)),
    **dict.fromkeys((_ACCESS_DENIED, _OPERATION_DENIED), (PolicyError, _RIGHT)),
    **dict.fromkeys(_MISSING, (NotFoundError, "check the name with virsh on that host")),
    _NO_MEMORY: (CapacityError, _SPACE),
    _NO_SUPPORT: (ProviderError, "use a libvirt with drivers for QEMU, storage and networks"),
}
_ELSE: Meaning = (ApiError, "look at the log of libvirtd on that host")
_CHANGED = re.compile(r"@{9}.*?HAS CHANGED.*?(SHA256:\S+?)\.? .*", re.DOTALL)


def translate(error: Any, doing: str, where: str) -> OsmefError:  # libvirt brings no types
    """Translate an error of libvirt, or of its ssh transport, and add a cure."""
    said = " ".join(str(error.get_error_message() or error).split())
    found = ((kind, cure) for words, kind, cure in _WORDS if re.search(words, said))
    kind, cure = next(found, None) or _CODES.get(error.get_error_code(), _ELSE)
    reported = _CHANGED.sub(r"the host shows another key than known_hosts has, \1", said)
    return kind(f"{doing}: {reported}", where=where, cure=cure)


def is_missing(error: Any) -> bool:
    """Return whether an object does not exist, or its driver does not."""
    return error.get_error_code() in _NO_SUCH


T = TypeVar("T")
S = TypeVar("S")


_OPEN_S = 20.0
_BACK_S = 30.0
"""How long a connection that broke may take to come back."""
_PAUSE_S = 0.5
_KEEPALIVE_S, _KEEPALIVES = 5, 4


class _Library:
    """libvirt-python, with its event loop, which detects silent hosts by keepalive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._module: Any = None  # it brings no types

    def load(self) -> Any:
        with self._lock:
            if self._module is None:
                self._module = self._import()
            return self._module

    @staticmethod
    def _import() -> Any:
        try:
            module = importlib.import_module("libvirt")
        except ImportError as error:
            raise ProviderError(
                f"libvirt-python can't be used: {error}",
                where="provider: libvirt",
                cure="pip install 'osmef[libvirt]'",
            ) from error
        module.registerErrorHandler(lambda _context, _error: None, None)  # they are raised as well
        module.virEventRegisterDefaultImpl()

        def serve() -> None:
            while True:
                module.virEventRunDefaultImpl()

        threading.Thread(target=serve, name="libvirt-events", daemon=True).start()
        return module


_library = _Library()
libvirt = _library.load
"""Return libvirt-python. Raises ProviderError where it is not installed."""


class Hypervisor:
    """A libvirt host. Thread-safe."""

    def __init__(self, name: str, uri: str) -> None:
        self.name = name
        self.uri = uri
        self.check: Callable[[], None] = lambda: None
        """Called at least once a second in every wait; may raise."""
        self._lock = threading.Lock()
        self._connection: Any = None
        self._was_there = False

    @property
    def access(self) -> Access:
        """The access of its resources."""
        return {"uri": self.uri}

    @property
    def is_session(self) -> bool:
        """Whether it is a session daemon, which can't create networks."""
        return is_session(self.uri)

    def do(self, doing: str, call: Callable[[Any], T]) -> T:
        """Make an idempotent call, with retry: read, change, delete.

        Raises ProviderError, or ReachError where ssh does not get there.
        """
        return self._repeat(doing, call)

    def find(self, doing: str, call: Callable[[Any], T]) -> T | None:
        """Look something up; None where it does not exist."""
        return self._repeat(doing, lambda connection: _or_none(call, connection))

    def create(self, doing: str, call: Callable[[Any], T], find: Callable[[Any], T]) -> T:
        """Create a resource, never twice. ``find`` looks for it by name after a lost answer.

        Raises ProviderError.
        """
        asked = False

        def attempt(connection: Any) -> T:
            nonlocal asked
            found = _or_none(find, connection) if asked else None
            if found is not None:
                return found
            asked = True
            return call(connection)

        return self._repeat(doing, attempt)

    def _repeat(self, doing: str, call: Callable[[Any], T]) -> T:
        error_type = libvirt().libvirtError
        end = time.monotonic() + _BACK_S
        while True:
            connection = None
            try:
                connection = self._open()
                return call(connection)
            except error_type as error:
                broken = connection is None or not _is_alive(connection)
                if not (broken and self._was_there):
                    raise translate(error, doing, self.name) from error
                if time.monotonic() > end:
                    self._was_there = False  # the next caller need not wait again
                    raise translate(error, doing, self.name) from error
                self._forget(connection)
            self.wait(_PAUSE_S)

    def _open(self) -> Any:
        with self._lock:
            if self._connection is None:
                self._connection = _open_within(_OPEN_S, self.uri, self.name)
                self._was_there = True
            return self._connection

    def _forget(self, connection: Any) -> None:
        with self._lock:
            if self._connection is connection:
                self._connection = None

    def wait(self, seconds: float) -> None:
        """Wait, and call ``check`` once a second meanwhile."""
        Retry(self.check).wait(seconds)

    def close(self) -> None:
        """Close the connection; the next call reopens it."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            _or_error(connection.close)


def is_session(uri: str) -> bool:
    """Return whether a URI is of a session daemon."""
    return urlsplit(uri).path == "/session"


def _or_none(call: Callable[[Any], T], connection: Any) -> T | None:
    try:
        return call(connection)
    except libvirt().libvirtError as error:
        if is_missing(error):
            return None
        raise


def _or_error(call: Callable[[], object]) -> object:
    try:
        return call()
    except libvirt().libvirtError as error:
        return error


def _is_alive(connection: Any) -> bool:
    return _or_error(connection.isAlive) == 1


def _open_within(seconds: float, uri: str, name: str) -> Any:
    """Open a connection within a time limit: libvirt has none for a silent host."""
    answers: list[Any] = []
    connect = libvirt().open
    thread = threading.Thread(
        target=lambda: answers.append(_or_error(lambda: connect(_no_questions(uri)))),
        name=f"libvirt-open-{name}",
        daemon=True,
    )
    thread.start()
    thread.join(seconds)
    if not answers:
        raise ApiError(
            f"connecting to {uri}: no answer for {seconds:.0f} s",
            where=name,
            cure="is libvirtd stuck there? try: virsh -c URI list",
        )
    if isinstance(answers[0], Exception):
        raise answers[0]
    _or_error(lambda: answers[0].setKeepAlive(_KEEPALIVE_S, _KEEPALIVES))
    return answers[0]


def _no_questions(uri: str) -> str:
    """Disable ssh's password prompts."""
    parts = urlsplit(uri)
    if not parts.scheme.endswith("+ssh"):
        return uri
    return parts._replace(query="&".join(filter(None, (parts.query, "no_tty=1")))).geturl()


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

    A user's copy of ours has our metadata too, but another name.
    """
    name, found = _metadata(description)
    if not found or found.get("name") != name:
        return None
    return Mark.read(*(found.get(key) for key in ("id", "made", "deadline")))


def unread_in_xml(description: str) -> str | None:
    """Return our metadata if they are no valid mark."""
    name, found = _metadata(description)
    own = found.get("name") == name and mark_of_xml(description) is None
    return str(dict(found)) if found and own else None


def address_of_xml(description: str) -> str | None:
    """Return the address that was assigned to a guest of ours."""
    return _metadata(description)[1].get("address")


def _metadata(description: str) -> tuple[str | None, Mapping[str, str]]:
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

    def note_destroyed(self, resource: Resource) -> None:
        """Note that a resource is destroyed."""
        with self._lock:
            self.ledger.destroyed(resource)
            self.made.pop((resource.access["uri"], resource.kind, resource.name), None)
