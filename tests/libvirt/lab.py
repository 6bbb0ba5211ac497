"""Real hypervisors for tests: libvirt daemons of their own, each in namespaces of its own.

A machine's own libvirt is not touched, and nothing of the lab is in the machine's network. Each
hypervisor has its own sockets, settings, state, host name, UUID and network; a bridge ``br-lan``
joins them all, so that guests of two hypervisors reach each other there. All of it ends with the
lab, also when the tests are killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from osmef.errors import ProviderError
from osmef.programs import find_program, search_path
from osmef.providers.local import kernel
from osmef.remote.login import KeyPair

TIMEOUT_S = 60.0
LAN = "10.97.0"
_SCRIPT = Path(__file__).with_name("hypervisor.sh")
_PROGRAMS = {
    "libvirtd": "libvirt-daemon-system",
    "virtlogd": "libvirt-daemon-system",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "dnsmasq": "dnsmasq-base",
    "iptables": "iptables",
    "ip": "iproute2",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "unshare": "util-linux",
}
_QEMU = """\
user = "root"
group = "root"
dynamic_ownership = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
"""
_LIBVIRTD = """\
auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
host_uuid = "{uuid}"
"""
_SSHD = """\
ListenAddress {address}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorized_keys
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
UseDNS no
PidFile none
AcceptEnv SHLVL
Subsystem sftp internal-sftp
"""
_SSH = """\
Host {address}
    User root
    IdentityFile {directory}/user_key
    IdentitiesOnly yes
    UserKnownHostsFile {directory}/known_hosts
    GlobalKnownHostsFile none
    StrictHostKeyChecking yes
    BatchMode yes
"""


def libvirt_module() -> Any:  # it brings no types
    """Return libvirt-python; skips the test where it is not installed."""
    libvirt = pytest.importorskip("libvirt", reason="no libvirt-python: pip install osmef[libvirt]")
    libvirt.registerErrorHandler(lambda _context, _error: None, None)  # they are raised as well
    return libvirt


@dataclass
class Hypervisor:
    """A libvirt daemon, with its network; ``pid`` is the first process of its namespaces."""

    name: str
    directory: Path
    address: str
    process: subprocess.Popen[bytes]
    pid: int

    @property
    def uri(self) -> str:
        """Where libvirt-python finds it, from any network namespace."""
        return f"qemu+unix:///system?socket={self.directory}/run/libvirt/libvirt-sock"

    @property
    def ssh_uri(self) -> str:
        """Where libvirt-python finds it by SSH, from within the network of a hypervisor.

        With ``path``, where ssh knows its keys.
        """
        return f"qemu+ssh://root@{self.address}/system"

    @property
    def path(self) -> str:
        """A PATH whose ssh logs in to it."""
        return f"{self.directory}/bin:{search_path()}"

    @property
    def network(self) -> tuple[str, ...]:
        """The start of a command line that runs in its network, as on the hypervisor itself."""
        return ("nsenter", f"--target={self.pid}", "--net")

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Let this thread, and what it starts, be in the network of the hypervisor."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
        try:
            kernel.setns(there, kernel.CLONE_NEWNET)
            yield
        finally:
            kernel.setns(home, kernel.CLONE_NEWNET)
            os.close(home)
            os.close(there)

    def run(self, *argv: str) -> str:
        """Run a program on the hypervisor, with all of its namespaces; return what it prints."""
        spaces = ("--mount", "--net", "--pid", "--uts")
        done = subprocess.run(
            ["nsenter", f"--target={self.pid}", *spaces, *argv],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def kill_libvirtd(self) -> None:
        """Kill the daemon alone, as a fault; its guests live on."""
        self.run("sh", "-c", "kill -9 $(cat /run/libvirtd.pid)")

    def start_libvirtd(self) -> None:
        """Start the daemon again after it was killed."""
        self.run("libvirtd", "-d")
        _wait_until_it_answers(self)


@dataclass
class Lab:
    """Hypervisors that share a local network. To be used as a context."""

    directory: Path
    names: Sequence[str] = ("alpha", "beta")
    hypervisors: list[Hypervisor] = field(default_factory=list)

    def __enter__(self) -> Lab:
        try:
            addresses = {name: f"{LAN}.{number}" for number, name in enumerate(self.names, 1)}
            for name in self.names:
                self.hypervisors.append(_start(self.directory / name, name, addresses))
            for number, other in enumerate(self.hypervisors[1:], 1):
                _join(self.hypervisors[0], other, f"to-{number}")
            for hypervisor in self.hypervisors:
                _wait_until_it_answers(hypervisor)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._end()

    def __getitem__(self, name: str) -> Hypervisor:
        return next(hypervisor for hypervisor in self.hypervisors if hypervisor.name == name)

    def _end(self) -> None:
        for hypervisor in self.hypervisors:
            # The last process of its namespaces, which the kernel waits for.
            first = os.pidfd_open(hypervisor.pid)
            hypervisor.process.kill()
            hypervisor.process.wait(TIMEOUT_S)
            assert select.select([first], [], [], TIMEOUT_S)[0], "its first process does not end"
            os.close(first)
            shutil.rmtree(hypervisor.directory)


def skip_unless_possible() -> None:
    """Skip the test, with the reason, where there can't be a lab."""
    libvirt_module()
    if os.geteuid() != 0:
        pytest.skip("only root can run libvirt daemons in namespaces of their own")
    for program, package in _PROGRAMS.items():
        try:
            find_program(program, package, "the lab")
        except ProviderError as error:
            pytest.skip(str(error))


def _start(directory: Path, name: str, addresses: Mapping[str, str]) -> Hypervisor:
    address = addresses[name]
    _write_files(directory, address)
    hosts = {"localhost": "127.0.0.1", **addresses}
    text = "".join(f"{where} {who}\n" for who, where in hosts.items())
    (directory / "hosts").write_text(text)
    sshd = find_program("sshd", "openssh-server", "the lab")
    spaces = ("--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child=KILL")
    process = subprocess.Popen(
        # The lab ends with the process of the tests, however that ends.
        [
            *("setpriv", "--pdeathsig", "KILL", "unshare", *spaces, "--mount-proc"),
            *("sh", str(_SCRIPT), str(directory), name, f"{address}/24", sshd),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PATH": search_path(), "LC_ALL": "C"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        if process.stdout.readline() != b"ready\n":
            raise AssertionError(f"no hypervisor: {process.stderr.read().decode()}")
    (pid,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return Hypervisor(name, directory, address, process, int(pid))


def _write_files(directory: Path, address: str) -> None:
    settings = directory / "etc/libvirt"
    settings.mkdir(parents=True)
    (settings / "qemu.conf").write_text(_QEMU)
    (settings / "libvirtd.conf").write_text(_LIBVIRTD.format(uuid=uuid.uuid4()))
    (directory / "shadow").write_text("root:*:19000:0:99999:7:::\n")
    host, user = KeyPair.generate("host"), KeyPair.generate("user")
    ssh = find_program("ssh", "openssh-client", "the lab")
    for name, text in {
        "host_key": host.private,
        "user_key": user.private,
        "authorized_keys": user.public + "\n",
        "known_hosts": f"{address} {host.public}\n",
        "sshd_config": _SSHD.format(address=address, directory=directory),
        "ssh_config": _SSH.format(address=address, directory=directory),
        "bin/ssh": f'#!/bin/sh\nexec {ssh} -F {directory}/ssh_config "$@"\n',
    }.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o700)
        path.write_text(text)


def _join(one: Hypervisor, other: Hypervisor, name: str) -> None:
    """Lay a cable between the bridges of two hypervisors."""
    add = ("ip", "link", "add", name, "type", "veth", "peer", "name", "uplink")
    subprocess.run([*one.network, *add, "netns", str(other.pid)], check=True)
    for hypervisor, port in ((one, name), (other, "uplink")):
        hypervisor.run("ip", "link", "set", port, "master", "br-lan", "up")


def _wait_until_it_answers(hypervisor: Hypervisor) -> None:
    libvirt = libvirt_module()
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            libvirt.open(hypervisor.uri).close()
        except libvirt.libvirtError as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"{hypervisor.name}: {error}: {hypervisor.log}") from error
            with contextlib.suppress(subprocess.TimeoutExpired):
                hypervisor.process.wait(0.05)
        else:
            return
