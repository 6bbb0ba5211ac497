"""An endpoint in memory: an SSH server in a thread, with files, a shell's answers, and agents."""

from __future__ import annotations

import errno
import os
import posixpath
import shlex
import socket
import stat
import threading
from contextlib import suppress
from dataclasses import dataclass, field

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)
from paramiko.sftp import SFTP_FAILURE, SFTP_NO_SUCH_FILE, SFTP_OK
from typing_extensions import Buffer

from osmef.facts.collect import EACH_INTERFACE, SOURCES, Command
from osmef.remote.connection import pkey_of
from osmef.remote.login import HostKeys, KeyPair, Login
from tests.memory.agent import Agents, Heed
from tests.memory.network import Network, now_ns

MACHINE = "memory"
"""What `uname -m` says there: no binary can be taken for one of another machine."""
BINARY = b"\x7fMEM an agent in memory\n"
_USER_ID = 1000
_NOT_RUN, _NOT_FOUND = 126, 127
_BROKEN = (OSError, EOFError, paramiko.SSHException)

# What endpoints have always told of themselves: the text of a file by its path, or what a program
# prints by its name.
TOLD = {
    "date": "2026-03-01T12:00:00Z\n",
    "/proc/uptime": "1000.50 1900.25\n",
    "/proc/loadavg": "0.10 0.20 0.30 1/100 4711\n",
    "/etc/os-release": 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "/proc/sys/kernel/osrelease": "6.1.0-memory\n",
    "/proc/cpuinfo": "processor\t: 0\nmodel name\t: Memory CPU\nflags\t\t: fpu hypervisor\n",
    "/sys/devices/system/cpu/online": "0-1\n",
    "/proc/sys/net/ipv4/tcp_congestion_control": "cubic\n",
    "/sys/class/net/$interface/mtu": "1450\n",
}


@dataclass
class File:
    """A file: its bytes, and who may do what with it."""

    data: bytearray = field(default_factory=bytearray)
    mode: int = 0o644


class Machine:
    """An endpoint that can be switched off and on, and what is on it."""

    def __init__(self, name: str, address: str, network: Network, heed: Heed) -> None:
        self.name, self.address = name, address
        self.user = KeyPair.generate("user")
        self.host = KeyPair.generate(name)
        self.files: dict[str, File] = {}
        self.directories: dict[str, int] = {}
        self.clock_ahead_ns = 0
        self.is_off = False
        self.boots = False
        """Whether the next connection takes no files, as where homes come later."""
        self._network, self._heed = network, heed
        self._vouched = self.host
        self._transports: list[paramiko.Transport] = []
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def login(self, key: KeyPair) -> Login:
        """Return how to log in, with the host key that it had when it was made."""
        self.user = key
        keys = HostKeys((self._vouched.public,))
        return Login(self.name, "osmef", self.address, keys, key, connect=self.connect)

    def connect(self) -> socket.socket:
        """Serve a new connection, and return its other end."""
        if self.is_off:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        here, there = socket.socketpair()
        transport = paramiko.Transport(there)
        transport.add_server_key(pkey_of(self.host))
        if not self.boots:
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, Files, self)
        self.boots = False
        transport.start_server(threading.Event(), _Server(self))
        self._transports.append(transport)
        self._sockets.append(there)
        return here

    def clock_ns(self) -> tuple[int, int]:
        """Return what its real-time and its monotonic clock show."""
        real_ns, steady_ns = now_ns()
        return real_ns + self.clock_ahead_ns, steady_ns + self.clock_ahead_ns

    def switch_off(self) -> None:
        """End all that it runs, and take no connection any more."""
        self.is_off = True
        self._cut()

    def switch_on(self) -> None:
        """Take connections again; what was written stays."""
        self.is_off = False

    def change_host_key(self) -> None:
        """Show another host key from now on."""
        self.host = KeyPair.generate("stranger")

    def close(self) -> None:
        """End all that it runs, and wait for that."""
        self.switch_off()
        for transport in self._transports:
            transport.close()
        for thread in self._threads:
            thread.join()

    def _cut(self) -> None:
        sockets, self._sockets = self._sockets, []
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def run(self, channel: paramiko.Channel, command: str) -> None:
        """Run a program in a thread of its own."""
        thread = threading.Thread(
            target=self._run, args=[channel, shlex.split(command)], name=f"{self.name}: {command}"
        )
        thread.start()
        self._threads.append(thread)

    def _run(self, channel: paramiko.Channel, argv: list[str]) -> None:
        try:
            match argv:
                # Nothing ends before its input has, or it might before its start was confirmed.
                case ["uname", "-m"]:
                    _whole(channel)
                    channel.sendall(f"{MACHINE}\n".encode())
                    status = 0
                case ["sh", "-s"]:
                    channel.sendall(self._told(_whole(channel).decode()))
                    status = 0
                case [path, "serve", "--many"]:
                    status = self._serve(channel, path)
                case _:
                    status = _NOT_FOUND
            _exit(channel, status)
        except _BROKEN:  # nobody listens any more
            pass
        finally:
            with suppress(*_BROKEN):  # the connection may go at any moment
                channel.close()

    def _serve(self, channel: paramiko.Channel, path: str) -> int:
        """Be an agent until its input ends, or it is killed; return its exit status."""
        file = self.files.get(posixpath.normpath(path))
        if file is None:
            return _NOT_FOUND
        if not file.mode & stat.S_IXUSR or bytes(file.data) != BINARY:
            return _NOT_RUN
        agents = Agents(self, self._network, lambda line: _say(channel, line))
        agents.begin(MACHINE, threading.get_native_id())
        rest = b""
        try:
            while data := channel.recv(65536):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    agents.obey(line.decode(), self._heed)
        finally:
            agents.end()
        return 0

    def _told(self, script: str) -> bytes:
        """Return what the script that collects facts prints here."""
        boundary = shlex.split(script.partition("printf '\\n%s %s\\n' ")[2])[0]
        parts = []
        told = {**TOLD, "/proc/sys/kernel/hostname": f"{self.name}\n"}
        for number, source in enumerate(SOURCES):
            key = source.argv[0] if isinstance(source, Command) else source.path
            interface = "eth0" if EACH_INTERFACE in str(source) else ""
            if key in told:
                parts.append(f"\n{boundary} {number} {interface}\n{told[key]}")
        return "".join(parts).encode()


def _whole(channel: paramiko.Channel) -> bytes:
    data = b""
    while part := channel.recv(65536):
        data += part
    return data


def _say(channel: paramiko.Channel, line: str) -> None:
    with suppress(*_BROKEN):  # nobody listens any more
        channel.sendall(line.encode() + b"\n")


def _exit(channel: paramiko.Channel, status: int) -> None:
    with suppress(*_BROKEN):
        if not channel.closed:
            channel.send_exit_status(status)
        channel.close()


class _Server(paramiko.ServerInterface):
    """Lets in whoever shows the run's key, and runs what is asked for."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:  # noqa: ARG002
        known = self._machine.user.public.split()[1] == key.get_base64()
        return AUTH_SUCCESSFUL if known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._machine.run(channel, command.decode())
        return True


class Files(paramiko.SFTPServerInterface):
    """The files of a machine."""

    def __init__(self, server: paramiko.ServerInterface, machine: Machine) -> None:
        super().__init__(server)
        self._files, self._directories = machine.files, machine.directories

    def open(
        self,
        path: str,
        flags: int,
        attr: paramiko.SFTPAttributes,  # noqa: ARG002
    ) -> _Handle | int:
        path = posixpath.normpath(path)
        file = self._files.get(path)
        if file is not None and flags & os.O_EXCL:
            return SFTP_FAILURE
        if file is None and not (flags & os.O_CREAT and self._is_in_a_directory(path)):
            return SFTP_NO_SUCH_FILE
        return _Handle(self._files.setdefault(path, File()))

    def _is_in_a_directory(self, path: str) -> bool:
        return posixpath.dirname(path) in {"", *self._directories}

    def lstat(self, path: str) -> paramiko.SFTPAttributes | int:
        path = posixpath.normpath(path)
        if path in self._directories:
            return _attributes(stat.S_IFDIR | self._directories[path], 0)
        file = self._files.get(path)
        return SFTP_NO_SUCH_FILE if file is None else _attributes_of(file)

    stat = lstat

    def list_folder(self, path: str) -> list[paramiko.SFTPAttributes] | int:
        path = posixpath.normpath(path)
        if path not in self._directories:
            return SFTP_NO_SUCH_FILE
        found = []
        for name, file in list(self._files.items()):
            if posixpath.dirname(name) == path:
                found.append(_attributes_of(file))
                found[-1].filename = posixpath.basename(name)
        return found

    def mkdir(self, path: str, attr: paramiko.SFTPAttributes) -> int:
        path = posixpath.normpath(path)
        if path in self._directories or not self._is_in_a_directory(path):
            return SFTP_FAILURE
        self._directories[path] = attr.st_mode or 0o755
        return SFTP_OK

    def rmdir(self, path: str) -> int:
        path = posixpath.normpath(path)
        if any(posixpath.dirname(name) == path for name in self._files):
            return SFTP_FAILURE
        gone = self._directories.pop(path, None)
        return SFTP_NO_SUCH_FILE if gone is None else SFTP_OK

    def remove(self, path: str) -> int:
        gone = self._files.pop(posixpath.normpath(path), None)
        return SFTP_NO_SUCH_FILE if gone is None else SFTP_OK


class _Handle(paramiko.SFTPHandle):
    def __init__(self, file: File) -> None:
        super().__init__()
        self._file = file

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._file.data[offset : offset + length])

    def write(self, offset: int, data: Buffer) -> int:
        written = bytes(data)
        self._file.data[offset : offset + len(written)] = written
        return SFTP_OK

    def stat(self) -> paramiko.SFTPAttributes:
        return _attributes_of(self._file)

    def chattr(self, attr: paramiko.SFTPAttributes) -> int:
        self._file.mode = attr.st_mode or 0
        return SFTP_OK


def _attributes_of(file: File) -> paramiko.SFTPAttributes:
    return _attributes(stat.S_IFREG | file.mode, len(file.data))


def _attributes(mode: int, size: int) -> paramiko.SFTPAttributes:
    found = paramiko.SFTPAttributes()
    found.st_mode, found.st_size = mode, size
    found.st_uid = found.st_gid = _USER_ID
    return found
