"""Connection to a libvirt host, reopened when it breaks."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from osmef.errors import ApiError, ProviderError
from osmef.providers.base import Access
from osmef.providers.libvirt.errors import is_missing, translate

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
                    self._was_there = False  # whoever asks next need not wait again
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
        end = time.monotonic() + seconds
        while True:
            self.check()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 1.0))

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
