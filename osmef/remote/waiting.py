"""Waiting for the sshd of a booting endpoint."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from osmef.errors import HostKeyError, ReachError
from osmef.remote.failure import connection_failed
from osmef.remote.login import Login
from osmef.remote.session import Session

_CHECK_S = 0.5
_PAUSE_S = 1.0
_CONNECT_S = 5.0
"""A silent address is asked anew after this time, so that it is found soon once it answers."""


def wait_for_ssh(login: Login, *, deadline: float, check: Callable[[], None]) -> Session:
    """Return a session as soon as sshd accepts the login; the caller closes it.

    ``deadline`` is a time of ``time.monotonic()``. ``check`` is called at least once a second, and
    may raise to end the wait. A server that is not there yet, that refuses, is silent, or does not
    know our key yet is asked anew until then. Raises ReachError or LoginError, that of the last
    attempt; at once HostKeyError, and CredentialsError where there is no key to show.
    """
    began = time.monotonic()
    attempts = _Attempts(login)
    attempts.start()
    try:
        while attempts.is_alive() and (left := deadline - time.monotonic()) > 0:
            attempts.join(min(_CHECK_S, left))
            check()
        session = attempts.take()
    finally:
        attempts.give_up()
    if session is not None:
        return session
    error = attempts.error or connection_failed(login, TimeoutError())
    if not isinstance(error, ReachError) or isinstance(error, HostKeyError):
        raise error
    waited = f"{error.message}, after {time.monotonic() - began:.0f} s of waiting"
    raise type(error)(waited, where=error.where, cure=error.cure) from error


class _Attempts(threading.Thread):
    """Login attempts in a thread of their own: paramiko can't be interrupted."""

    def __init__(self, login: Login) -> None:
        super().__init__(name=f"ssh-{login.name}", daemon=True)
        self.error: Exception | None = None
        self._login = login
        self._session: Session | None = None
        self._given_up = threading.Event()
        self._lock = threading.Lock()

    def run(self) -> None:
        """Retry until there is a session, a fatal error, or a cancellation."""
        while not self._given_up.is_set():
            try:
                session = Session.open(self._login, _CONNECT_S)
            except Exception as error:
                self.error = error
                if not isinstance(error, ReachError) or isinstance(error, HostKeyError):
                    return
                self._given_up.wait(_PAUSE_S)
                continue
            with self._lock:
                self._session = session
            if self._given_up.is_set():
                self.give_up()
            return

    def take(self) -> Session | None:
        """Return the session, if any, which the caller owns."""
        with self._lock:
            session, self._session = self._session, None
        return session

    def give_up(self) -> None:
        """Stop, and close a session that was not taken."""
        self._given_up.set()
        session = self.take()
        if session is not None:
            session.close()
