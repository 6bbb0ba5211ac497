"""A real sshd for tests, at the other end of socket pairs, or on a port of the loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from osmef.remote.login import HostKeys, KeyPair, Login
from tests.processes import descendants

CONFIG = """
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorized_keys
StrictModes no
UsePAM no
PidFile none
PrintMotd no
{more}
"""
# Without the start files of whose tests they are: one that takes a lock, as pyenv's does, keeps it
# when a program is killed, and all later ones wait for it.
OPTIONS = "Subsystem sftp internal-sftp\nAcceptEnv SHLVL"
# As root it wants a directory that only a running system has, and an account that is not locked.
AS_ROOT = """
mount -t tmpfs tmpfs /run && mkdir /run/sshd &&
printf 'root:*:19000:0:99999:7:::\\n' >/run/shadow && mount --bind /run/shadow /etc/shadow &&
mount --bind "$1" /dev/shm && shift && exec "$@"
"""


@dataclass
class Sshd:
    """Serves each connection by a process of its own, logged in as the user of the tests."""

    directory: Path
    options: str = OPTIONS
    host: KeyPair = field(default_factory=lambda: KeyPair.generate("host"))
    user: KeyPair = field(default_factory=lambda: KeyPair.generate("user"))
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)
    is_closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        found = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
        if found is None:
            pytest.skip("no sshd here (Debian: apt install openssh-server)")
        self.sshd = found
        (self.directory / "host_key").write_text(self.host.private)
        (self.directory / "host_key").chmod(0o600)
        (self.directory / "authorized_keys").write_text(self.user.public)
        text = CONFIG.format(directory=self.directory, more=self.options)
        (self.directory / "config").write_text(text)

    def connect(self) -> socket.socket:
        here, there = socket.socketpair()
        try:
            self._serve(there)
        except BaseException:
            here.close()
            raise
        return here

    def _serve(self, connection: socket.socket) -> None:
        with connection, self.lock:
            if self.is_closed:  # a login that was given up may still be connecting
                raise ConnectionRefusedError
            self._start(connection)

    def _start(self, connection: socket.socket) -> None:
        argv = [self.sshd, "-i", "-e", "-f", str(self.directory / "config")]
        if os.geteuid() == 0:  # each is a machine of its own, as far as locks on it go
            shm = self.directory / "shm"
            shm.mkdir(exist_ok=True)
            argv = ["unshare", "--mount", "sh", "-c", AS_ROOT, "sh", str(shm), *argv]
        with (self.directory / "log").open("ab") as log:
            ends = connection.fileno()
            self.servers.append(subprocess.Popen(argv, stdin=ends, stdout=ends, stderr=log))

    @contextmanager
    def listening(self, port: int = 0) -> Iterator[Login]:
        """Serve a port of the loopback, by default a free one; yields the login there."""
        with socket.create_server(("127.0.0.1", port)) as server:
            thread = threading.Thread(target=self._accept, args=[server])
            thread.start()
            try:
                address, port = server.getsockname()
                yield replace(self.login(), address=address, port=port, connect=None)
            finally:
                server.shutdown(socket.SHUT_RDWR)
                thread.join()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                self._serve(server.accept()[0])
            except OSError:  # it is shut down
                return

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def login(self) -> Login:
        name = pwd.getpwuid(os.getuid()).pw_name
        return Login(
            *("vm-1", name, "nowhere"),
            HostKeys((self.host.public,)),
            self.user,
            connect=self.connect,
        )

    def stop(self) -> None:
        """Let all servers hang: they answer nothing, and their connections stay."""
        for server in self.servers:
            for pid in (*descendants(server.pid), server.pid):
                _signal(pid, signal.SIGSTOP)
                self.stopped.append(pid)

    def kill(self) -> None:
        """End the newest connection at once, and nothing that was started by it."""
        newest = self.servers[-1].pid
        for pid in (newest, *descendants(newest, "sshd")):
            _signal(pid, signal.SIGKILL)

    def resume(self) -> None:
        """Let all servers go on."""
        for pid in self.stopped:
            _signal(pid, signal.SIGCONT)
        self.stopped.clear()

    def close(self) -> None:
        with self.lock:
            self.is_closed = True
        self.resume()
        for server in self.servers:
            if server.poll() is None:
                server.terminate()
            try:
                server.wait(timeout=5)
            except subprocess.TimeoutExpired:  # it was just becoming the session's
                server.kill()
                server.wait(timeout=10)


def _signal(pid: int, number: int) -> None:
    """Send a signal to a process, which may have ended: one of two only sees to the login."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
