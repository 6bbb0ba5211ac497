"""The SSH connection below a session: its bounds, public-key authentication, and its errors.

paramiko by itself sends late messages to a closed channel, at which sshd ends the whole connection
(RFC 4254, 5.3), and accepts packets of up to 4 GiB, an endless version exchange, and data beyond a
channel's window.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import io
import os
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.agent import AgentSSH
from paramiko.common import (
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EXTENDED_DATA,
    cMSG_CHANNEL_CLOSE,
    cMSG_CHANNEL_DATA,
    cMSG_CHANNEL_EOF,
    cMSG_CHANNEL_EXTENDED_DATA,
    cMSG_CHANNEL_REQUEST,
)
from paramiko.packet import Packetizer
from paramiko.pkey import UnknownKeyType

from osmef.errors import LoginError, OsmefError, ReachError, limit_cure
from osmef.files import exists, read_file
from osmef.remote.login import SLOW_SHELL_CURE, KeyPair, Login, OwnKeys
from osmef.units import format_size

MAX_OUTPUT_BYTES = 8_000_000
"""Largest output of a program on each of stdout and stderr."""
MAX_SFTP_BYTES = 1_000_000
"""Of all answers of a file server, beside what the files hold that are read."""

_MAX_PACKET_BYTES = 262_144
"""OpenSSH's limit; RFC 4253 (6.1) requires at least 35000."""
_MAX_GREETING_BYTES = 64_000
"""Of all lines that come before the encrypted connection (RFC 4253, 4.2)."""
_MAX_WAITING_BYTES = 4_194_304
"""Largest amount of received data that is not read yet, of a channel; its window is half of it."""
_PART_BYTES = 65_536
_CLOSE_S = 1.0
"""How long the peer is given to close a channel after us."""


class LimitExceededError(paramiko.SSHException):
    """The peer exceeds a bound."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(f"{what} of more than {format_size(most)}")


class _Packetizer(Packetizer):
    _greeting_bytes = 0

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if n > _MAX_PACKET_BYTES:
            raise LimitExceededError("it sent a packet", _MAX_PACKET_BYTES)
        return super().read_all(n, check_rekey)

    def _read_timeout(self, timeout: float) -> bytes:
        """Read a part of the unencrypted greeting."""
        data = cast("bytes", super()._read_timeout(timeout))  # type: ignore[misc] # no stub
        self._greeting_bytes += len(data)
        if self._greeting_bytes > _MAX_GREETING_BYTES:
            raise LimitExceededError("it sent a greeting", _MAX_GREETING_BYTES)
        return data


def _feed(take: Callable[[paramiko.Channel, Any], None]) -> Callable[[paramiko.Channel, Any], None]:
    def feed(channel: Any, message: Any) -> None:
        if len(channel.in_buffer) + len(channel.in_stderr_buffer) > _MAX_WAITING_BYTES:
            raise LimitExceededError("it sent output that was not asked for", _MAX_WAITING_BYTES)
        take(channel, message)

    return feed


_TO_A_CHANNEL = {
    *(cMSG_CHANNEL_DATA, cMSG_CHANNEL_EXTENDED_DATA, cMSG_CHANNEL_EOF, cMSG_CHANNEL_REQUEST),
}


class Transport(paramiko.Transport):
    """A transport that is closed with LimitExceededError when the peer exceeds a bound."""

    _channel_handler_table = {  # noqa: RUF012 - as in paramiko
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined] # noqa: SLF001
        MSG_CHANNEL_DATA: _feed(paramiko.Channel._feed),  # type: ignore[attr-defined] # noqa: SLF001
        MSG_CHANNEL_EXTENDED_DATA: _feed(paramiko.Channel._feed_extended),  # type: ignore[attr-defined] # noqa: SLF001
    }

    def __init__(self, connection: socket.socket | paramiko.Channel) -> None:
        super().__init__(connection, packetizer_class=_Packetizer)
        self._opened: weakref.WeakSet[paramiko.Channel] = weakref.WeakSet()
        self._closed: set[bytes] = set()
        """The peer's numbers of channels to which we have sent a close, as in messages."""
        self._ends: dict[int, threading.Event] = {}
        """For each channel by its number, whether the peer has closed it."""

    def open_channel(self, kind: str, *args: Any, **more: Any) -> paramiko.Channel:
        """Open a channel, as paramiko does, and register it.

        A session that is refused is requested once more: sshd counts those whose close it has just
        read (MaxSessions) until it has handled all that it had received.
        """
        try:
            channel = super().open_channel(kind, *args, **more)
        except paramiko.ChannelException:
            if kind != "session":
                raise
            channel = super().open_channel(kind, *args, **more)
        self._ends[channel.chanid] = threading.Event()
        self._closed.discard(struct.pack(">I", channel.remote_chanid))
        self._opened.add(channel)
        return channel

    def _send_message(self, data: paramiko.Message) -> None:
        """Send a message, but none to a channel after its close: its end may overtake a thread."""
        words = data.asbytes()
        kind, number = words[:1], words[1:5]
        if kind == cMSG_CHANNEL_CLOSE:
            self._closed.add(number)
        elif kind in _TO_A_CHANNEL and number in self._closed:
            return
        super()._send_message(data)  # type: ignore[misc] # no stub

    def _unlink_channel(self, number: int) -> None:
        """Forget a channel, which the peer has closed."""
        super()._unlink_channel(number)  # type: ignore[misc] # no stub
        if (end := self._ends.pop(number, None)) is not None:
            end.set()

    def run(self) -> None:
        """Serve the connection to its end, as paramiko does."""
        try:
            super().run()
        finally:
            for end in list(self._ends.values()):
                end.set()

    def await_close(self, channel: paramiko.Channel) -> None:
        """Wait until the peer has closed a channel, or once for some time: many may close one."""
        end = self._ends.get(channel.chanid)
        if end is not None and self.is_active() and not end.wait(_CLOSE_S):
            end.set()

    def give_up(self) -> None:
        """Close the connection, and wake all waiting threads.

        paramiko lets a caller that begins to wait just as a connection ends do so for ever.
        """
        self.close()
        for channel in list(self._opened):
            channel.event.set()


def close(channel: paramiko.Channel) -> None:
    """Close a channel, and wait for the peer to close it. Never raises.

    Until then it counts as a session (MaxSessions), and Dropbear breaks one that is opened as the
    program of another one ends.
    """
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        channel.close()
    transport = channel.get_transport()
    if isinstance(transport, Transport):
        transport.await_close(channel)


class FileClient(paramiko.SFTPClient):
    """An SFTP client with bounded answers."""

    left = MAX_SFTP_BYTES
    """How many further bytes are accepted; a reader of a file adds its length."""

    def close(self) -> None:
        """End the session and its channel."""
        super().close()
        if (channel := self.get_channel()) is not None:
            close(channel)

    def _read_all(self, n: int) -> bytes:
        self.left -= n
        if self.left < 0:
            raise LimitExceededError("its file server sent answers", MAX_SFTP_BYTES)
        return cast("bytes", super()._read_all(n))  # type: ignore[misc] # the stubs leave it out


def outputs_of(channel: paramiko.Channel) -> tuple[bytes, bytes]:
    """Return a program's standard output and error. Raises LimitExceededError, and as paramiko."""
    with ThreadPoolExecutor(1) as pool:
        errors = pool.submit(_whole, channel, partial(_receive_errors, channel), "errors")
        output = _whole(channel, channel.recv, "output")
        return output, errors.result()


def _receive_errors(channel: paramiko.Channel, count: int) -> bytes:
    """Wait for standard error as long as for standard output.

    A channel that is closed has what came before: a program may have ended by now.
    """
    while True:
        try:
            return channel.recv_stderr(count)
        except TimeoutError:
            if channel.closed:
                return b""


def _whole(channel: paramiko.Channel, receive: Callable[[int], bytes], what: str) -> bytes:
    """Read to the end; an error closes the channel, which ends the other stream, too."""
    data = bytearray()
    try:
        while part := receive(_PART_BYTES):
            data += part
            if len(data) > MAX_OUTPUT_BYTES:
                raise LimitExceededError(f"it printed {what}", MAX_OUTPUT_BYTES)
    except BaseException:
        channel.close()
        raise
    return bytes(data)


DEFAULT_FILES = tuple(Path("~/.ssh", name) for name in ("id_ed25519", "id_ecdsa", "id_rsa"))
"""The files that OpenSSH looks for where none is named."""

_SIGN_S = 20.0  # the key may need a touch
_MOST_BYTES = 64 << 10
_CERTIFICATE = "-cert.pub"
_MAGIC = b"openssh-key-v1\0"


@dataclass(frozen=True)
class OfferedKeys:
    """Keys to offer, each with a name for messages, and why others are unusable."""

    keys: list[tuple[str, paramiko.PKey]]
    unusable: list[str] = field(default_factory=list)


@contextlib.contextmanager
def offers_of(key: KeyPair | OwnKeys, agent_s: float) -> Iterator[OfferedKeys]:
    """Provide the keys of a login, for as long as the SSH agent is connected.

    An agent that has not listed its keys after ``agent_s`` seconds is done without.
    """
    if isinstance(key, KeyPair):
        yield OfferedKeys([("the key of the run", pkey_of(key))])
        return
    try:
        agent = _Agent(agent_s)
    except (OSError, paramiko.SSHException) as error:
        hangs = isinstance(error, TimeoutError | BlockingIOError)
        why = "it does not answer" if hangs else error
        yield _choose(key, {}, f"the SSH agent can't be used: {why}")
        return
    try:
        yield _choose(key, {one.asbytes(): one for one in agent.get_keys()}, None)
    finally:
        agent.close()


def pkey_of(pair: KeyPair) -> paramiko.PKey:
    """Return the private key as paramiko's type."""
    return paramiko.Ed25519Key(file_obj=io.StringIO(pair.private))


def _choose(own: OwnKeys, held: Mapping[bytes, paramiko.PKey], trouble: str | None) -> OfferedKeys:
    offers = OfferedKeys([], [trouble] if trouble else [])
    left = dict(held)
    for path in own.files or (path for path in map(Path.expanduser, DEFAULT_FILES)):
        public = _public_of(path)
        if public in left:
            offers.keys.append((f"{path} in the agent", left.pop(public)))
            continue
        if not own.files and not exists(path):
            continue
        try:
            offers.keys.append((str(path), _load(path)))
        except ValueError as error:
            offers.unusable.append(f"{path} {error}")
    if own.others_of_agent:
        offers.keys.extend(("a key of the agent", one) for one in left.values())
    return offers


class _Agent(AgentSSH):
    """The user's SSH agent, or none. Raises OSError or SSHException on a time-out.

    paramiko's own class would wait for ever.
    """

    def __init__(self, list_s: float) -> None:
        super().__init__()
        path = os.environ.get("SSH_AUTH_SOCK")
        if path is None:
            return
        agent = socket.socket(socket.AF_UNIX)
        agent.settimeout(list_s)
        try:
            agent.connect(path)
            self._connect(agent)  # type: ignore[attr-defined] # the stubs leave it out
            agent.settimeout(_SIGN_S)
        except (ConnectionRefusedError, FileNotFoundError):  # it is gone
            agent.close()
        except BaseException:
            agent.close()
            raise

    def close(self) -> None:
        """Close the connection to the agent."""
        self._close()  # type: ignore[attr-defined]


def _load(path: Path) -> paramiko.PKey:
    """Load a private key. Raises ValueError, whose text continues the file's name."""
    try:
        for file in _files_of(path):
            read_file(file, _MOST_BYTES)  # paramiko would read anything
        return paramiko.PKey.from_path(path)
    except OSError as error:
        raise ValueError(f"can't be read: {error.strerror}") from None
    except (TypeError, paramiko.PasswordRequiredException):  # how the libraries say "encrypted"
        raise ValueError("is encrypted, and no SSH agent holds it (ssh-add)") from None
    except (ValueError, UnsupportedAlgorithm, paramiko.SSHException, UnknownKeyType):
        raise ValueError("holds no private key that can be used") from None


def _files_of(path: Path) -> list[Path]:
    """Return the key file and, if it exists, its certificate."""
    key = path.with_name(path.name.removesuffix(_CERTIFICATE))
    certificate = key.with_name(key.name + _CERTIFICATE)
    return [key, certificate] if exists(certificate) else [key]


def _public_of(path: Path) -> bytes | None:
    """Return the public key in an OpenSSH file, as an agent identifies it.

    The file holds either the public key alone, or a private key with the public one, which is never
    encrypted (OpenSSH, PROTOCOL.key).
    """
    try:
        text = read_file(path, _MOST_BYTES).decode("ascii")
        if not text.startswith("-----"):
            return base64.b64decode(text.split()[1])
        data = base64.b64decode("".join(text.splitlines()[1:-1]))
    except (OSError, ValueError, IndexError):
        return None
    if not data.startswith(_MAGIC):
        return None
    fields = paramiko.Message(data[len(_MAGIC) :])
    for _ in ("cipher", "key derivation", "its options"):
        fields.get_binary()
    fields.get_int()  # how many keys; it is always one
    return fields.get_binary()


_NO_ROUTE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL}
_MAX_MESSAGE_CHARS = 300
SESSIONS_CURE = "its sshd allows too few sessions: set MaxSessions there to 10, the usual"
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
    socket_address = login.socket_address
    if isinstance(error, OsmefError):
        return error.message, error.cure or "is the endpoint up?"
    if isinstance(error, paramiko.ChannelException):
        if error.code == _FORBIDDEN:
            return (
                f"it does not forward to {socket_address}",
                "set AllowTcpForwarding and PermitOpen there",
            )
        return (
            f"{socket_address} does not take the connection",
            f"is {login.address} up? {_FROM_THE_JUMP}",
        )
    for kind, message, cure in _SOCKET:
        if isinstance(error, kind):
            return message.format(socket_address=socket_address, address=login.address), cure
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
        "no answer from {socket_address}",
        "is the endpoint up? a firewall or a security group may drop SSH from here",
    ),
    (
        ConnectionRefusedError,
        "{socket_address} refused it",
        "is sshd running there, on this port? a firewall may refuse it, too",
    ),
)


def handshake_failed(login: Login, error: BaseException) -> ReachError:
    """Return the error of a failed SSH handshake."""
    if cure := limit_cure(error):
        message = f"no SSH with {login.socket_address}: {reason(error)}"
        return ReachError(message, where=login.name, cure=cure)
    return ReachError(
        f"{login.socket_address} takes connections, and does not speak SSH with us:"
        f" {reason(error)}",
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
        message = (
            f"{program} did not end: no answer in time, or the login's shell is slow to begin it"
        )
        return ReachError(message, where=name, cure=SLOW_SHELL_CURE)
    cure = QUIET_CURE if isinstance(error, LimitExceededError) else None
    return ReachError(f"{program} did not end: {reason(error)}", where=name, cure=cure)


def transfer_failed(
    name: str, doing: str, error: BaseException, *, begun: bool, connected: bool
) -> ReachError:
    """Return the error of a file transfer over SFTP.

    ``begun`` is whether its file server had answered, ``connected`` whether the connection is up.
    """
    closed = isinstance(error, OSError) and not isinstance(error, TimeoutError)
    if isinstance(error, LimitExceededError | paramiko.SFTPError) or (
        closed and not begun and connected
    ):
        cure = QUIET_CURE
    elif not connected and not isinstance(error, TimeoutError):
        cure = "the connection has ended: see sshd's log there (journalctl -u ssh)"
    elif isinstance(error, paramiko.ChannelException):
        cure = SESSIONS_CURE
    elif isinstance(error, PermissionError):
        cure = "let this user write there, or log in as another"
    elif isinstance(error, FileNotFoundError):
        cure = "make the directory of this path there, or mount what belongs there"
    elif closed:
        cure = "is its disk full, or is that read-only?"
    else:
        cure = (
            "does its sshd have the sftp subsystem? the shell's start files (~/.bashrc) must not"
            " read any input"
        )
    return ReachError(f"{doing}: {reason(error)}", where=name, cure=cure)


def reason(error: BaseException) -> str:
    """Return the reason in an exception of a connection, in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, EOFError):
        return "the other side closed the connection"
    return str(error)[:_MAX_MESSAGE_CHARS] or type(error).__name__
