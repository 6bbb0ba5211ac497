"""Errors of connections to endpoints, by cause, each with its cure."""

from __future__ import annotations

import errno
import socket

import paramiko

from osmef.errors import LoginError, OsmefError, ReachError
from osmef.remote.bounded import Flood
from osmef.remote.login import SLOW_SHELL_CURE, Login

_NO_ROUTE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL}
_MOST_TOLD = 300
QUIET_CURE = (
    "let the shell's start files (~/.bashrc) print nothing where it is not interactive, and the"
    " user run any program (no ForceCommand)"
)
_FORBIDDEN = 1  # SSH_OPEN_ADMINISTRATIVELY_PROHIBITED, RFC 4254 section 5.1


def connection_failed(login: Login, error: BaseException) -> ReachError:
    """Return the error of a failed TCP connection to sshd."""
    message, cure = _of_connection(login, error)
    if login.jump is not None:
        message = f"from {login.jump.name}, its jump host: {message}"
    return ReachError(f"no SSH connection: {message}", where=login.name, cure=cure)


def _of_connection(login: Login, error: BaseException) -> tuple[str, str]:
    """Return message and cure."""
    place = login.place
    if isinstance(error, OsmefError):
        return error.message, error.cure or "is the endpoint up?"
    if isinstance(error, paramiko.ChannelException):
        if error.code == _FORBIDDEN:
            return f"it does not forward to {place}", "set AllowTcpForwarding and PermitOpen there"
        return f"{place} does not take the connection", f"is {login.address} up? {_FROM_THE_JUMP}"
    for kind, message, cure in _SOCKET:
        if isinstance(error, kind):
            return message.format(place=place, address=login.address), cure
    if isinstance(error, OSError) and error.errno in _NO_ROUTE:
        cure = "check the address, and the way there: router, floating IP, VPN, or a jump host"
        return f"no route to {login.address}", cure
    return reason(error), "is the endpoint up, and does its firewall let SSH in from here?"


_FROM_THE_JUMP = "does its firewall let SSH in from the jump host?"
_SOCKET = (
    (
        socket.gaierror,
        "no name server knows the name {address}",
        "check its spelling, and the resolver here",
    ),
    (
        TimeoutError,
        "no answer from {place}",
        "is the endpoint up? a firewall or a security group may drop SSH from here",
    ),
    (
        ConnectionRefusedError,
        "{place} refused it",
        "is sshd running there, on this port? a firewall may refuse it, too",
    ),
)


def handshake_failed(login: Login, error: BaseException) -> ReachError:
    """Return the error of a failed SSH handshake."""
    return ReachError(
        f"{login.place} takes connections, and does not speak SSH with us: {reason(error)}",
        where=login.name,
        cure="is this the port of sshd? one that is just starting or overloaded is silent at first",
    )


def login_refused(login: Login, tried: list[str], unusable: list[str]) -> LoginError:
    """Return the error of a refused login."""
    return LoginError(
        f"sshd does not let {login.user} in with {', '.join(tried)}"
        + "".join(f"; {one}" for one in unusable),
        where=login.name,
        cure=f"is the public key in ~{login.user}/.ssh/authorized_keys there, and this the right"
        " user?",
    )


def command_failed(name: str, program: str, error: BaseException) -> ReachError:
    """Return the error of a program that did not complete on an endpoint."""
    if isinstance(error, TimeoutError):
        told = f"{program} did not end: no answer in time, or the login's shell is slow to begin it"
        return ReachError(told, where=name, cure=SLOW_SHELL_CURE)
    cure = QUIET_CURE if isinstance(error, Flood) else None
    return ReachError(f"{program} did not end: {reason(error)}", where=name, cure=cure)


def transfer_failed(
    name: str, doing: str, error: BaseException, *, begun: bool, connected: bool
) -> ReachError:
    """Return the error of a file transfer over SFTP.

    ``begun`` is whether its file server had answered, ``connected`` whether the connection is up.
    """
    closed = isinstance(error, OSError) and not isinstance(error, TimeoutError)
    if isinstance(error, Flood | paramiko.SFTPError) or (closed and not begun and connected):
        cure = QUIET_CURE
    elif not connected and not isinstance(error, TimeoutError):
        cure = "the connection has ended: see sshd's log there (journalctl -u ssh)"
    elif isinstance(error, paramiko.ChannelException):
        cure = "its sshd allows one session only: set MaxSessions there to 10, the usual"
    elif isinstance(error, PermissionError):
        cure = "let this user write there, or log in as another"
    elif closed:
        cure = "is its disk full, or is that read-only?"
    else:
        cure = "does its sshd have the sftp subsystem?"
    return ReachError(f"{doing}: {reason(error)}", where=name, cure=cure)


def reason(error: BaseException) -> str:
    """Return the reason in an exception of a connection, in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, EOFError):
        return "the other side closed the connection"
    return str(error)[:_MOST_TOLD] or type(error).__name__
