import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from osmef.remote.keys import KeyPair
from osmef.remote.session import Login, Session

CONFIG = """
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorized_keys
StrictModes no
UsePAM no
PidFile none
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Log in to a real sshd, at the other end of a socket pair: no port is open."""
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    if sshd is None:
        pytest.skip("no sshd here (Debian: apt install openssh-server)")
    host, user = KeyPair.generate("host"), KeyPair.generate("user")
    (tmp_path / "host_key").write_text(host.private)
    (tmp_path / "host_key").chmod(0o600)
    (tmp_path / "authorized_keys").write_text(user.public)
    (tmp_path / "config").write_text(CONFIG.format(directory=tmp_path))
    here, there = socket.socketpair()
    argv = [sshd, "-i", "-e", "-f", str(tmp_path / "config")]
    if os.geteuid() == 0:
        # As root it wants a directory that only a running system has.
        private = 'mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec "$@"'
        argv = ["unshare", "--mount", "sh", "-c", private, "sh", *argv]
    with (
        there,
        here,
        subprocess.Popen(
            argv, stdin=there.fileno(), stdout=there.fileno(), stderr=subprocess.DEVNULL
        ) as server,
    ):
        there.close()
        login = Login("vm-1", getpass.getuser(), "none", host.public, connect=lambda: here)
        session = Session.open(login, user)
        yield session
        session.close()
        server.wait(timeout=10)
