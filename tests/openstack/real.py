"""A cloud with real hypervisors, networks and guests, in namespaces of this machine.

Two compute hosts, each with libvirt, QEMU and a linuxbridge agent, and a network host with the L3,
DHCP and metadata agents. The tenants' networks are VXLAN between them. The hosts and the services
hang in the network namespace of one process, the controller, and nothing of it is in the machine's
own network; floating addresses are reached from there.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from osmef.images.guest_image import GuestImage
from osmef.providers.local import kernel
from tests.openstack import packages, real_config
from tests.openstack.cloud import READY_S, SERVICES, Cloud
from tests.openstack.config import Sections
from tests.openstack.real_config import NETWORK_HOST

_SPACES = ("--mount", "--net", "--uts", "--ipc", "--pid")
HOSTS = {"cmp1": "az1", "cmp2": "az1"}
ADDRESSES = {NETWORK_HOST: "10.250.0.2", "cmp1": "10.250.0.11", "cmp2": "10.250.0.12"}
_OUTSIDE = "198.51.100.1/24"  # the gateway of the external network
_AGENTS = ("linuxbridge", "l3", "dhcp", "metadata")


class RealCloud(Cloud):
    """A cloud whose servers are virtual machines, all made from one image."""

    ip = "10.250.0.1"
    hosts: Mapping[str, str] = HOSTS

    def __init__(
        self,
        state: Path,
        image: Callable[[], GuestImage],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(state, tell)
        self._image = image

    @property
    def inside(self) -> list[str]:
        """What to put before a command that is to run where APIs and guests can be reached."""
        return ["nsenter", f"--net={self._network()}", "--"]

    @property
    def environment(self) -> dict[str, str]:
        """What the services inherit: libvirt's module, and a sudo for those that are root."""
        usual = super().environment
        return usual | {
            "PATH": f"{SERVICES}/bin:{usual['PATH']}",
            "PYTHONPATH": f"{usual['PYTHONPATH']}:{packages.libvirt(self.venv)}",
        }

    @contextmanager
    def at_controller(self) -> Iterator[None]:
        """Let this thread, and what it starts, be in the network of the controller."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(self._network(), os.O_RDONLY)
        try:
            kernel.setns(there, kernel.CLONE_NEWNET)
            yield
        finally:
            kernel.setns(home, kernel.CLONE_NEWNET)
            os.close(home)
            os.close(there)

    def up(self) -> None:
        """Start what doesn't run. Raises CloudError, and keeps logs."""
        packages.install_real()
        self.image = self._image()
        super().up()

    def restart(self, name: str) -> None:
        """Start a service again, and wait until it answers."""
        with self.at_controller():
            super().restart(name)

    def run(self, host: str, *argv: str) -> str:
        """Run a program on a host, and return what it prints. Raises CalledProcessError."""
        there = [*self._on(host), *argv]
        return subprocess.run(there, capture_output=True, text=True, check=True).stdout

    def _up(self) -> None:
        if not self.processes.alive("controller"):
            self._start("controller", "unshare", "--net", "sleep", "infinity")
            own = Path("/proc/self/ns/net").readlink()
            self.processes.wait("controller", READY_S, lambda: self._network().readlink() != own)
            self._ip(
                *("link set lo up", "link add hosts type bridge forward_delay 0"),
                *(f"address add {self.ip}/24 dev hosts", "link set hosts up"),
            )
        with self.at_controller():
            super()._up()

    def _configuration(self) -> dict[str, Sections]:
        return real_config.services(self.settings, self.venv, self.hosts, ADDRESSES)

    def _furniture(self) -> dict[str, object]:
        return {
            "agents": [
                *(f"neutron-linuxbridge-agent@{host}" for host in ADDRESSES),
                *(f"neutron-{agent}-agent@{NETWORK_HOST}" for agent in _AGENTS),
            ],
            "image": {
                "kernel": str(self.image.kernel),
                "ramdisk": str(self.image.initrd),
                "root": str(self.image.root),
                "cmdline": self.image.manifest.boot.cmdline,
            },
        }

    def _start_hosts(self) -> None:
        etc = self.state / "etc"
        self._start("nova-metadata", "nova-api-metadata", "--config-file", f"{etc}/nova.conf")
        for host in ADDRESSES:
            if not self.processes.alive(f"host-{host}"):
                self._start_host(host)
        self._await_queues("neutron-server", "q-plugin", "q-l3-plugin", "q-reports-plugin")
        for host in ADDRESSES:
            for agent in _AGENTS if host == NETWORK_HOST else _AGENTS[:1]:
                files = (
                    f"--config-file={etc}/{name}.conf" for name in ("neutron", f"agents-{host}")
                )
                self._start(f"{agent}-{host}", *self._on(host), f"neutron-{agent}-agent", *files)
        for host in self.hosts:
            self._start(f"libvirtd-{host}", *self._on(host), "libvirtd")
            program = ("nova-compute", "--config-file", f"{etc}/nova-{host}.conf")
            self._start(f"nova-compute-{host}", *self._on(host), *program)

    def _start_host(self, host: str) -> None:
        """Start a machine, as it were: namespaces with a cable to the controller."""
        directory = self.state / "hosts" / host
        libvirt = directory / "etc/libvirt"
        libvirt.mkdir(parents=True, exist_ok=True)
        (libvirt / "qemu.conf").write_text(real_config.QEMU)
        (libvirt / "libvirtd.conf").write_text(real_config.LIBVIRTD.format(uuid=uuid.uuid4()))
        (directory / "dnsmasq.conf").write_text(real_config.DNSMASQ)
        (directory / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESSES[host]} {host}\n")
        ready = directory / "ready"
        ready.unlink(missing_ok=True)
        alone = ("unshare", *_SPACES, "--fork", "--kill-child=KILL", "--mount-proc")
        script = str(SERVICES / "node.sh")
        self._start(f"host-{host}", *alone, "sh", script, str(directory), host)
        self.processes.wait(f"host-{host}", READY_S, ready.exists)
        pid = self._first(host)
        cable = f"link add to-{host} type veth peer name"
        self._ip(f"{cable} eth0 netns {pid}", f"link set to-{host} master hosts up")
        self._ip(f"address add {ADDRESSES[host]}/24 dev eth0", "link set eth0 up", at=pid)
        if host == NETWORK_HOST:
            cable = "link add outside type veth peer name"
            outside = (f"address add {_OUTSIDE} dev outside", "link set outside up")
            self._ip(f"{cable} ext0 netns {pid}", *outside)
            self._ip("link set ext0 up", at=pid)

    def _network(self) -> Path:
        return Path(f"/proc/{self.processes.pid('controller')}/ns/net")

    def _first(self, host: str) -> int:
        """Return the first process of a host's namespaces."""
        pid = self.processes.pid(f"host-{host}")
        (first,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(first)

    def _on(self, host: str) -> tuple[str, ...]:
        return ("nsenter", f"--target={self._first(host)}", *_SPACES, "--")

    def _ip(self, *lines: str, at: int | None = None) -> None:
        """Run commands of ip in the network of a process, by default the controller's."""
        pid = at or self.processes.pid("controller")
        self._command(
            *("nsenter", f"--target={pid}", "--net", "ip", "-batch", "-"), given="\n".join(lines)
        )
