"""An SSH connection to one endpoint: programs, files, the agent's channel, and its beginning."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import paramiko

from osmef.errors import CredentialsError, HostKeyError, OsmefError, ProviderError, ReachError
from osmef.remote.connection import (
    QUIET_CURE,
    SESSIONS_CURE,
    FileClient,
    LimitExceededError,
    Transport,
    close,
    command_failed,
    connection_failed,
    handshake_failed,
    login_refused,
    offers_of,
    outputs_of,
    reason,
    transfer_failed,
)
from osmef.remote.login import Login, SshTimeouts

_CONNECT_S = 20.0
KEEPALIVE_S = 15
EXIT_STATUS_S = 1.0
MAX_LINE_BYTES = 1 << 20
# What paramiko raises where a connection breaks.
_BROKEN = (OSError, EOFError, paramiko.SSHException)
_MAX_MESSAGE_CHARS = 80
_WORD = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
_SLOWEST_BYTES_S = 100_000
"""Of a connection over which a file is still waited for."""
_DEEPEST = 4
"""Of directories in a directory that is removed: a run makes one."""
_NO_STATUS = -1  # paramiko's value if the server sent no exit status
# A key of this type signs in newer ways than its name says (RFC 8332).
_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


@dataclass(frozen=True)
class ProgramResult:
    """Result of a program on an endpoint."""

    status: int
    stdout: bytes
    stderr: bytes


class RemoteProcess:
    """A program on an endpoint with a line protocol. One thread may read, one may write."""

    def __init__(self, name: str, channel: paramiko.Channel) -> None:
        self.name = name
        self._channel = channel
        self._buffer = b""
        self._exceeded: LimitExceededError | None = None

    def send_line(self, line: str) -> None:
        """Send one line. Raises ReachError if the connection or the program has ended."""
        try:
            self._channel.sendall(line.encode() + b"\n")
        except _BROKEN as error:
            raise ReachError("the connection is gone", where=self.name) from error

    def read_line(self) -> str | None:
        """Wait for the next line; None at the end of the output, or on a time-out."""
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_LINE_BYTES:
                self._exceeded = LimitExceededError("it printed a line", MAX_LINE_BYTES)
                return None
            try:
                data = self._channel.recv(65536)
            except _BROKEN:
                return None
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode(errors="replace")

    def exit_text(self) -> str:
        """Return how the program ended: its exit status, and the end of its stderr."""
        exceeded = self._exceeded or self._channel.get_transport().saved_exception
        if isinstance(exceeded, LimitExceededError):
            return str(exceeded)
        # The exit status follows the end of the output, in a message of its own.
        self._channel.status_event.wait(EXIT_STATUS_S)
        status = self._channel.exit_status if self._channel.exit_status_ready() else None
        how = "the connection was lost" if status is None else _exit_text(status)
        return f"{how}{self.recent_stderr()}"

    def recent_stderr(self) -> str:
        """Return the end of its stderr since the last call, after a colon."""
        stderr = b""
        with contextlib.suppress(*_BROKEN):
            while self._channel.recv_stderr_ready() and len(stderr) < MAX_LINE_BYTES:
                stderr += self._channel.recv_stderr(4096)
        said = stderr.decode(errors="replace").strip()[-500:]
        return f": {said}" if said else ""

    def close(self) -> None:
        """Close the program's standard input and output. Never raises."""
        close(self._channel)


class SshSession:
    """An open, authenticated connection. Thread-safe."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        waits: SshTimeouts,
        jump: SshSession | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        self.name = name
        self._is_shared = is_shared
        self._transport = transport
        self._waits = waits
        self._jump = jump

    @classmethod
    def open(cls, login: Login, connect_s: float = _CONNECT_S) -> SshSession:
        """Connect, verify the host key, log in; through jump hosts if any.

        ``connect_s`` is how long to wait for TCP. Raises ReachError: HostKeyError, LoginError, or
        why it could not connect; CredentialsError if there is no key to offer.
        """
        if login.kept is not None and login.kept.is_open:
            return login.kept.shared()
        jump = cls.open(login.jump, connect_s) if login.jump is not None else None
        try:
            transport = Transport(_dial(login, jump, connect_s))
        except BaseException as error:
            if jump is not None:
                jump.close()
            if isinstance(error, (OSError, EOFError, paramiko.SSHException, ProviderError)):
                raise connection_failed(login, error) from error
            raise
        session = cls(login.name, transport, login.waits, jump)
        try:
            _handshake(transport, login)
            _log_in(transport, login)
        except BaseException:
            session.close()
            raise
        transport.set_keepalive(KEEPALIVE_S)
        return session

    def shared(self) -> SshSession:
        """Return a session on the same connection, which stays open when that one is closed."""
        return SshSession(self.name, self._transport, self._waits, is_shared=True)

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, as far as this side knows."""
        return self._transport.is_active()

    def answers(self, within_s: float) -> bool:
        """Return whether the peer answers within a time; a silent connection is closed."""
        try:
            with self._limit(within_s):
                channel = self._transport.open_session()
        except paramiko.ChannelException:  # it refuses further channels, so it answers
            return True
        except _BROKEN:
            return False
        close(channel)
        return True

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", within_s: float | None = None
    ) -> ProgramResult:
        """Run a program to its end, within a time limit.

        Raises ReachError when it is silent for too long, or exceeds a bound.
        """
        command_s = self._waits.command_s if within_s is None else within_s
        channel = self._channel(argv, command_s)
        try:
            with self._limit(command_s + self._waits.answer_s):
                _feed(channel, stdin)
                stdout, stderr = outputs_of(channel)
                status = channel.recv_exit_status()
                if status == _NO_STATUS and not self.is_open:
                    raise self._transport.saved_exception or EOFError
                return ProgramResult(status, stdout, stderr)
        except _BROKEN as error:
            raise command_failed(self.name, argv[0], error) from error
        finally:
            close(channel)

    def word(self, argv: Sequence[str]) -> str:
        """Return a program's output of one word, empty for none.

        Raises ReachError where not only the program speaks: nothing that is read there is right.
        """
        said = self.run(argv).stdout.strip()
        if said and not _WORD.fullmatch(said):
            output = said[:_MAX_MESSAGE_CHARS].decode(errors="replace")
            raise ReachError(
                f"programs that are run there print more than they should: {output!r}",
                where=self.name,
                cure=QUIET_CURE,
            )
        return said.decode()

    def start(self, argv: Sequence[str]) -> RemoteProcess:
        """Start a program with a line protocol."""
        return RemoteProcess(self.name, self._channel(argv, None))

    def put(self, data: bytes, path: str, mode: int) -> None:
        """Write a file, replacing an old one, and create its directory if need be.

        Through no link. Raises ReachError, also where others may write in its directory.
        """
        parent = path.rpartition("/")[0] or "."
        with self._sftp(f"writing {path}", len(data)) as sftp:
            _ensure_directory(sftp, parent)
            with contextlib.suppress(FileNotFoundError):
                sftp.remove(path)
            with sftp.open(path, "wx") as file:
                file.chmod(mode)
                if not _is_private(sftp.lstat(parent), file.stat()):
                    raise self._not_ours(parent)
                file.set_pipelined(True)
                file.write(data)

    def read(self, path: str, most: int) -> bytes:
        """Read a file, up to so many bytes. Raises ReachError."""
        with self._sftp(f"reading {path}", most) as sftp, sftp.open(path, "rb") as file:
            size = min(file.stat().st_size or 0, most)
            sftp.left += size
            # No read-ahead by a thread: it could not report that the connection broke.
            return bytes(file.read(size))

    def list_directory(self, path: str) -> list[str]:
        """Return the names in a directory; none if it does not exist.

        Raises ReachError.
        """
        with self._sftp(f"reading {path}") as sftp, contextlib.suppress(FileNotFoundError):
            return sorted(sftp.listdir(path))
        return []

    def link(self, target: str, path: str) -> bool:
        """Create a symbolic link; False if the path exists. Raises ReachError."""
        with self._sftp(f"making {path}") as sftp:
            try:
                sftp.symlink(target, path)
            except OSError:
                with contextlib.suppress(FileNotFoundError):
                    sftp.lstat(path)
                    return False
                raise
        return True

    def read_link(self, path: str) -> str | None:
        """Return the target of a symbolic link, None if it does not exist.

        Raises ReachError, also where another kind of file exists.
        """
        with self._sftp(f"reading {path}") as sftp, contextlib.suppress(FileNotFoundError):
            if stat.S_ISLNK(sftp.lstat(path).st_mode or 0):
                return sftp.readlink(path)
            raise ReachError(
                f"{path} is no link of ours",
                where=self.name,
                cure="find out who owns it, and remove it",
            )
        return None

    def remove(self, path: str) -> None:
        """Remove a file or a link, if it exists. Raises ReachError."""
        with self._sftp(f"removing {path}") as sftp, contextlib.suppress(FileNotFoundError):
            sftp.remove(path)

    def rename(self, path: str, new: str) -> bool:
        """Rename a file or link atomically; False if it does not exist. Raises ReachError."""
        with self._sftp(f"renaming {path}") as sftp:
            try:
                sftp.rename(path, new)
            except FileNotFoundError:
                return False
        return True

    def make_directory(self, path: str) -> None:
        """Create a private directory, if it does not exist.

        Raises ReachError, also where others may write in it, or something else is there.
        """
        with self._sftp(f"making {path}") as sftp:
            _ensure_directory(sftp, path)
            mode = sftp.lstat(path).st_mode or 0
            if not stat.S_ISDIR(mode) or mode & 0o022:
                raise self._not_ours(path)

    def remove_directory(self, path: str) -> None:
        """Remove a directory tree, if it exists. Raises ReachError.

        Through no link; what lies deeper than a run puts anything is an error.
        """
        with self._sftp(f"removing {path}") as sftp, contextlib.suppress(FileNotFoundError):
            _remove_tree(sftp, path, _DEEPEST)

    def forward(self, login: Login, timeout_s: float) -> paramiko.Channel:
        """Open a connection from this host to a login's sshd. Raises as paramiko."""
        # The second address is where the connection comes from, and only for the server's log.
        return self._transport.open_channel(
            "direct-tcpip", (login.address, login.port), ("127.0.0.1", 0), timeout=timeout_s
        )

    def close(self) -> None:
        """Close the connection; programs started through it get end-of-file.

        A shared session leaves the connection and its programs open.
        """
        if self._is_shared:
            return
        self._transport.close()
        if self._jump is not None:
            self._jump.close()

    def _channel(self, argv: Sequence[str], timeout_s: float | None) -> paramiko.Channel:
        try:
            with self._limit(self._waits.answer_s):
                channel = self._transport.open_session()
                channel.settimeout(timeout_s)
                # SHLVL as below another shell: bash reads ~/.bashrc for the first shell after sshd
                # only. It works where sshd accepts it (AcceptEnv SHLVL).
                channel.set_environment_variable("SHLVL", "1")
                channel.exec_command(shlex.join(argv))
        except _BROKEN as error:
            cure = SESSIONS_CURE if isinstance(error, paramiko.ChannelException) else None
            message = f"can't run {argv[0]}: {reason(error)}"
            raise ReachError(message, where=self.name, cure=cure) from error
        return channel

    @contextlib.contextmanager
    def _limit(self, seconds: float) -> Iterator[None]:
        """Close the connection after a time limit, and raise TimeoutError.

        paramiko waits for some answers for ever, and a server that hangs gives none.
        """
        expired = threading.Event()

        def give_up() -> None:
            expired.set()
            self._transport.give_up()

        timer = threading.Timer(seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except _BROKEN as error:
            if expired.is_set():
                raise TimeoutError(f"no answer in {seconds:g} s") from error
            raise
        finally:
            timer.cancel()

    def _not_ours(self, path: str) -> ReachError:
        return ReachError(
            f"others may write in {path}",
            where=self.name,
            cure="find out who made it, and remove it",
        )

    @contextlib.contextmanager
    def _sftp(self, doing: str, size: int = 0) -> Iterator[FileClient]:
        """Provide an SFTP client for a transfer of so many bytes."""
        begun = False
        try:
            with self._limit(self._waits.command_s + size / _SLOWEST_BYTES_S):
                sftp = FileClient.from_transport(self._transport)
                begun = True
                if sftp is None:
                    raise ReachError(f"{doing}: no SFTP channel", where=self.name)
                with sftp:
                    yield sftp
        except OsmefError:
            raise
        except Exception as error:  # paramiko fails in many ways where the answers make no sense
            connected = self._transport.is_active()
            raise transfer_failed(
                self.name, doing, error, begun=begun, connected=connected
            ) from error


def _ensure_directory(sftp: FileClient, path: str) -> None:
    """Create a private directory, if nothing is there. Raises OSError."""
    try:
        sftp.mkdir(path, 0o700)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            sftp.lstat(path)
            return
        raise  # why it could not be made, not that it is not there


def _remove_tree(sftp: FileClient, path: str, deepest: int) -> None:
    """Remove a directory tree of limited depth; a deeper one is an error."""
    for entry in sftp.listdir_attr(path):
        inner = f"{path}/{entry.filename}"
        with contextlib.suppress(FileNotFoundError):  # what ends there may remove it, too
            if stat.S_ISDIR(entry.st_mode or 0) and deepest:
                _remove_tree(sftp, inner, deepest - 1)
            else:
                sftp.remove(inner)
    sftp.rmdir(path)


def _is_private(directory: paramiko.SFTPAttributes, file: paramiko.SFTPAttributes) -> bool:
    """Return whether a directory is writable for its owner alone."""
    mode = directory.st_mode or 0
    return stat.S_ISDIR(mode) and not mode & 0o022 and directory.st_uid == file.st_uid


def _dial(
    login: Login, jump: SshSession | None, timeout_s: float
) -> socket.socket | paramiko.Channel:
    if jump is not None:
        return jump.forward(login, timeout_s)
    address = (login.address, login.port)
    found = login.connect() if login.connect else socket.create_connection(address, timeout_s)
    # Otherwise a second small packet waits 40 ms for the acknowledgement of the first (Nagle).
    if found.family != socket.AF_UNIX:
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _feed(channel: paramiko.Channel, stdin: bytes) -> None:
    """Write a program's standard input, which may have been closed."""
    try:
        channel.sendall(stdin)
        channel.shutdown_write()
    except OSError:
        if not channel.closed:
            raise


def _handshake(transport: paramiko.Transport, login: Login) -> None:
    transport.banner_timeout = transport.auth_timeout = login.waits.handshake_s
    # Requesting the types of known keys first keeps an honest server from showing another of its
    # keys; the other types are requested, too, so that an error can name the shown key.
    options = transport.get_security_options()
    known = [one for kind in login.host_keys.types for one in _ALGORITHMS.get(kind, (kind,))]
    supported = tuple(options.key_types)
    wanted = [one for one in known if one in supported]
    options.key_types = tuple(dict.fromkeys((*wanted, *supported)))
    try:
        transport.start_client(timeout=login.waits.handshake_s)
        if not transport.initial_kex_done:  # timed out; paramiko's error has no text
            raise TimeoutError
    except Exception as error:  # paramiko fails in many ways where the answers make no sense
        raise handshake_failed(login, error) from error
    login.host_keys.verify(transport.get_remote_server_key(), login.name)


def _log_in(transport: paramiko.Transport, login: Login) -> None:
    """Offer one key after the other. Raises LoginError, CredentialsError, ReachError."""
    tried: list[str] = []
    with offers_of(login.key, login.waits.agent_s) as offers:
        if not offers.keys:
            raise CredentialsError(
                "; ".join(["there is no key to log in with", *offers.unusable]),
                where=login.name,
                cure="start an SSH agent and add a key to it (ssh-add), or name an identity file",
            )
        try:
            for name, key in offers.keys:
                tried.append(name)
                with contextlib.suppress(paramiko.AuthenticationException):
                    more = transport.auth_publickey(login.user, key)
                    offers.unusable.extend(f"it also needs {one}" for one in more)
                    break
        except Exception as error:
            if tried[1:]:  # it hangs up after the first few (MaxAuthTries)
                raise login_refused(login, tried, [reason(error), *offers.unusable]) from error
            raise handshake_failed(login, error) from error
    if not transport.is_authenticated():
        raise login_refused(login, tried, offers.unusable)


def _exit_text(status: int) -> str:
    # A shell reports death by a signal as 128 + its number, sshd itself as -1.
    if status > 128:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(status - 128).name}"
    return "killed by a signal" if status == -1 else f"exit status {status}"


_CHECK_S = 0.5
_PAUSE_S = 1.0
_WAITED_CONNECT_S = 5.0
"""A silent address is retried after this time, so that it is found soon once it answers."""


def wait_for_ssh(login: Login, *, deadline: float, check: Callable[[], None]) -> SshSession:
    """Return a session as soon as sshd accepts the login; the caller closes it.

    ``deadline`` is a time of ``time.monotonic()``. ``check`` is called at least once a second, and
    may raise to end the wait. A server that is unreachable, refuses, is silent, or does not know
    our key yet is retried until then. Raises the ReachError or LoginError of the last attempt; at
    once HostKeyError, and CredentialsError if there is no key to offer.
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
        self._session: SshSession | None = None
        self._given_up = threading.Event()
        self._lock = threading.Lock()

    def run(self) -> None:
        """Retry until there is a session, a fatal error, or a cancellation."""
        while not self._given_up.is_set():
            try:
                session = SshSession.open(self._login, _WAITED_CONNECT_S)
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

    def take(self) -> SshSession | None:
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
