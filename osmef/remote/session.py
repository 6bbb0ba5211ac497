"""An SSH connection to one endpoint: run a program, put and read a file, start the agent."""

from __future__ import annotations

import contextlib
import shlex
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import paramiko

from osmef.errors import HostKeyError, ProviderError, ReachError
from osmef.remote.keys import KeyPair

CONNECT_TIMEOUT_S = 20.0
COMMAND_TIMEOUT_S = 30.0
KEEPALIVE_S = 15
EXIT_STATUS_S = 1.0
MAX_LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class Login:
    """How to reach an endpoint's sshd.

    ``host_key`` is the public key in OpenSSH's format that the provider vouches for; a server that
    shows another one is not talked to. ``connect`` opens the TCP connection; by default to address
    and port, but a provider may know another way in.
    """

    name: str
    user: str
    address: str
    host_key: str
    port: int = 22
    connect: Callable[[], socket.socket] | None = field(default=None, compare=False)

    def open_socket(self) -> socket.socket:
        """Open a TCP connection to the sshd; raises OSError."""
        if self.connect is not None:
            return self.connect()
        return socket.create_connection((self.address, self.port), timeout=CONNECT_TIMEOUT_S)


@dataclass(frozen=True)
class Output:
    """What a program on an endpoint left behind."""

    status: int
    stdout: bytes
    stderr: bytes


class RemoteProcess:
    """A program on an endpoint that is spoken to in lines. One thread may read, one may write."""

    def __init__(self, name: str, channel: paramiko.Channel) -> None:
        self.name = name
        self._channel = channel
        self._buffer = b""

    def send_line(self, line: str) -> None:
        """Send one line; raises ReachError when the connection or the program is gone."""
        try:
            self._channel.sendall(line.encode() + b"\n")
        except (OSError, paramiko.SSHException) as error:
            raise ReachError("the connection is gone", where=self.name) from error

    def read_line(self) -> str | None:
        """Wait for the next line; None at the end of the program's output."""
        while b"\n" not in self._buffer:
            try:
                data = self._channel.recv(65536)
            except (OSError, paramiko.SSHException):
                return None
            if not data or len(self._buffer) > MAX_LINE_BYTES:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode(errors="replace")

    def ending(self) -> str:
        """Say how the program ended: its exit status, and the end of what it wrote on stderr."""
        stderr = b""
        # The exit status follows the end of the output, in a message of its own.
        self._channel.status_event.wait(EXIT_STATUS_S)
        with contextlib.suppress(OSError, paramiko.SSHException):
            while self._channel.recv_stderr_ready() and len(stderr) < MAX_LINE_BYTES:
                stderr += self._channel.recv_stderr(4096)
        said = stderr.decode(errors="replace").strip()[-500:]
        status = self._channel.exit_status if self._channel.exit_status_ready() else None
        how = "the connection was lost" if status is None else _exit_text(status)
        return f"{how}: {said}" if said else how

    def close(self) -> None:
        """Close the program's standard input and output."""
        self._channel.close()


class Session:
    """An open, authenticated connection. Safe to use from several threads."""

    def __init__(self, name: str, transport: paramiko.Transport) -> None:
        self.name = name
        self._transport = transport

    @classmethod
    def open(cls, login: Login, key: KeyPair) -> Session:
        """Connect, verify the host key, log in. Raises HostKeyError or ReachError."""
        try:
            transport = paramiko.Transport(login.open_socket())
        except (OSError, paramiko.SSHException, ProviderError) as error:
            raise _unreachable(login, error) from error
        try:
            transport.banner_timeout = CONNECT_TIMEOUT_S
            transport.auth_timeout = CONNECT_TIMEOUT_S
            # The provider vouches for one key; asking for its type alone keeps an honest server
            # from showing another of its keys.
            transport.get_security_options().key_types = [login.host_key.split()[0]]
            transport.start_client(timeout=CONNECT_TIMEOUT_S)
            _verify(transport, login)
            transport.auth_publickey(login.user, key.paramiko())
        except (paramiko.SSHException, OSError, EOFError) as error:
            transport.close()
            raise _unreachable(login, error) from error
        except BaseException:
            transport.close()
            raise
        transport.set_keepalive(KEEPALIVE_S)
        return cls(login.name, transport)

    @property
    def is_open(self) -> bool:
        """Whether the connection still stands, as far as this side knows."""
        return self._transport.is_active()

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = COMMAND_TIMEOUT_S
    ) -> Output:
        """Run a program to its end. Raises ReachError when it is silent for too long."""
        channel = self._channel(argv, timeout_s)
        try:
            with self._limit(timeout_s + CONNECT_TIMEOUT_S):
                channel.sendall(stdin)
                channel.shutdown_write()
                stdout = channel.makefile("rb").read()
                stderr = channel.makefile_stderr("rb").read()
                return Output(channel.recv_exit_status(), stdout, stderr)
        except (OSError, paramiko.SSHException) as error:
            raise ReachError(f"{argv[0]} did not end: {_reason(error)}", where=self.name) from error
        finally:
            channel.close()

    def start(self, argv: Sequence[str]) -> RemoteProcess:
        """Start a program that is spoken to in lines."""
        return RemoteProcess(self.name, self._channel(argv, None))

    def put(self, data: bytes, path: str, mode: int) -> None:
        """Write a file, making its directory if need be. Raises ReachError."""
        with self._sftp(f"writing {path}") as sftp:
            parent = path.rpartition("/")[0]
            if parent:
                with contextlib.suppress(OSError):
                    sftp.mkdir(parent, 0o700)
            with sftp.open(path, "wb") as file:
                file.set_pipelined(True)
                file.write(data)
            sftp.chmod(path, mode)

    def read(self, path: str) -> bytes:
        """Read a file. Raises ReachError."""
        with self._sftp(f"reading {path}") as sftp, sftp.open(path, "rb") as file:
            file.prefetch()
            return bytes(file.read())

    def remove_directory(self, path: str) -> None:
        """Remove a directory and the files in it, if it is there. Raises ReachError."""
        with self._sftp(f"removing {path}") as sftp, contextlib.suppress(FileNotFoundError):
            for name in sftp.listdir(path):
                sftp.remove(f"{path}/{name}")
            sftp.rmdir(path)

    def close(self) -> None:
        """Close the connection; every program started through it loses its input."""
        self._transport.close()

    def _channel(self, argv: Sequence[str], timeout_s: float | None) -> paramiko.Channel:
        try:
            with self._limit(CONNECT_TIMEOUT_S):
                channel = self._transport.open_session()
                channel.settimeout(timeout_s)
                channel.exec_command(shlex.join(argv))
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise ReachError(f"can't run {argv[0]}: {_reason(error)}", where=self.name) from error
        return channel

    @contextlib.contextmanager
    def _limit(self, seconds: float) -> Iterator[None]:
        """Give the whole connection up when this takes too long, and raise TimeoutError.

        paramiko waits for some answers for ever, and a server that hangs gives none.
        """
        expired = threading.Event()

        def give_up() -> None:
            expired.set()
            self._transport.close()

        timer = threading.Timer(seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (OSError, EOFError, paramiko.SSHException) as error:
            if expired.is_set():
                raise TimeoutError(f"no answer in {seconds:g} s") from error
            raise
        finally:
            timer.cancel()

    @contextlib.contextmanager
    def _sftp(self, doing: str) -> Iterator[paramiko.SFTPClient]:
        try:
            with self._limit(COMMAND_TIMEOUT_S):
                sftp = paramiko.SFTPClient.from_transport(self._transport)
                if sftp is None:
                    raise ReachError(f"{doing}: no SFTP channel", where=self.name)
                with sftp:
                    yield sftp
        except (OSError, EOFError, paramiko.SSHException) as error:
            cure = "does its sshd have the sftp subsystem, and its disk room?"
            raise ReachError(f"{doing}: {_reason(error)}", where=self.name, cure=cure) from error


def _verify(transport: paramiko.Transport, login: Login) -> None:
    shown = transport.get_remote_server_key()
    if [shown.get_name(), shown.get_base64()] != login.host_key.split()[:2]:
        raise HostKeyError(
            f"the server shows the host key {shown.fingerprint},"
            " which is not the one that the provider gave it",
            where=login.name,
            cure="somebody else may be answering at this address; find out who before you go on",
        )


def _unreachable(login: Login, error: BaseException) -> ReachError:
    return ReachError(
        f"no SSH connection: {_reason(error)}",
        where=login.name,
        cure="is the endpoint up, and does its firewall let SSH in from here?",
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, EOFError):
        return "the other side closed the connection"
    return str(error) or type(error).__name__


def _exit_text(status: int) -> str:
    # A shell reports death by a signal as 128 + its number, sshd itself as -1.
    if status > 128:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(status - 128).name}"
    return "killed by a signal" if status == -1 else f"exit status {status}"
