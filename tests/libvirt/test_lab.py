"""The lab itself, and the image in it: guests of two hypervisors measure between each other."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Interface
from pathlib import Path

import pytest

from osmef.agent.client import deploy
from osmef.errors import ReachError
from osmef.images.guest_image import GuestImage
from osmef.providers.cloud_init import SERIAL, Card, Seed
from osmef.remote.login import HostKeys, KeyPair, Login
from osmef.remote.session import SshSession, wait_for_ssh
from tests.libvirt.lab import LAN, TIMEOUT_S, Hypervisor, Lab, libvirt_module

DOMAIN = """
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>256</memory>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{image.kernel}</kernel>
    <initrd>{image.initrd}</initrd>
    <cmdline>{image.manifest.boot.cmdline}</cmdline>
  </os>
  <features><acpi/><tcg><tb-cache unit='MiB'>128</tb-cache></tcg></features>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='unsafe'/>
      <source file='{disk}'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw'/>
      <source file='{seed}'/>
      <target dev='vdb' bus='virtio'/>
      <serial>{serial}</serial>
      <readonly/>
    </disk>
    <interface type='bridge'>
      <source bridge='br-lan'/>
      <mac address='{mac}'/>
      <model type='virtio'/>
    </interface>
    <serial type='file'><source path='{console}'/></serial>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <memballoon model='none'/>
  </devices>
</domain>
"""


@dataclass(frozen=True)
class Guest:
    """A guest of a hypervisor, on the lab's network."""

    hypervisor: Hypervisor
    name: str
    number: int
    image: GuestImage
    user: KeyPair
    host: KeyPair

    @property
    def address(self) -> str:
        return f"{LAN}.{self.number}"

    @contextmanager
    def running(self) -> Iterator[None]:
        place = self.hypervisor.directory / self.name
        mac = f"52:54:00:0a:61:{self.number:02x}"
        card = Card(mac, IPv4Interface(f"{self.address}/24"))
        seed = Seed(self.name, self.user.public, self.host, (card,))
        Path(f"{place}.seed").write_bytes(seed.disk())
        create = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2"]
        subprocess.run([*create, "-b", self.image.root, f"{place}.qcow2"], check=True)
        text = DOMAIN.format(
            name=self.name,
            image=self.image,
            disk=f"{place}.qcow2",
            seed=f"{place}.seed",
            serial=SERIAL,
            mac=mac,
            console=f"{place}.console",
        )
        connection = libvirt_module().open(self.hypervisor.uri)
        domain = connection.createXML(text, 0)
        try:
            yield
        finally:
            domain.destroy()
            connection.close()

    def session(self) -> SshSession:
        """Log in, from the network of the first hypervisor, once the guest is up."""
        keys = HostKeys((self.host.public,))
        login = Login(self.name, "root", self.address, keys, self.user)
        try:
            return wait_for_ssh(login, deadline=time.monotonic() + TIMEOUT_S, check=lambda: None)
        except ReachError as error:
            console = Path(f"{self.hypervisor.directory}/{self.name}.console")
            raise AssertionError(console.read_text(errors="replace")) from error


@pytest.fixture
def guests(lab: Lab, guest_image: GuestImage) -> Iterator[dict[str, Guest]]:
    user = KeyPair.generate("user")
    with ExitStack() as stack:
        found = {}
        for number, hypervisor in enumerate(lab.hypervisors, 11):
            name, host = f"vm-{number}", KeyPair.generate("host")
            guest = Guest(hypervisor, name, number, guest_image, user, host)
            stack.enter_context(guest.running())
            found[hypervisor.name] = guest
        yield found


def test_hypervisors_are_two_machines(lab: Lab) -> None:
    libvirt = libvirt_module()
    seen = set()
    for hypervisor in lab.hypervisors:
        connection = libvirt.open(hypervisor.uri)
        capabilities = connection.getCapabilities()
        seen.add((connection.getHostname(), capabilities.split("<uuid>")[1][:36]))
        connection.close()
    assert {name for name, _uuid in seen} == {"alpha", "beta"}
    assert len({uuid for _name, uuid in seen}) == 2


def test_libvirt_is_reached_by_ssh(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    libvirt = libvirt_module()
    monkeypatch.setenv("PATH", lab["beta"].path)
    with lab["alpha"].inside():
        connection = libvirt.open(lab["beta"].ssh_uri)
    assert connection.getHostname() == "beta"
    connection.close()


def test_the_lab_creates_no_interface_in_the_network_of_the_machine(lab: Lab) -> None:
    assert not Path("/sys/class/net/br-lan").exists()
    with lab["alpha"].inside():
        assert "br-lan" in Path("/proc/thread-self/net/dev").read_text()


def test_a_daemon_that_was_killed_comes_back(lab: Lab) -> None:
    libvirt = libvirt_module()
    hypervisor = lab["beta"]
    before = libvirt.open(hypervisor.uri)
    hypervisor.kill_libvirtd()
    with pytest.raises(libvirt.libvirtError):
        before.getHostname()
    hypervisor.start_libvirtd()
    after = libvirt.open(hypervisor.uri)
    assert after.getHostname() == "beta"
    after.close()


def test_guests_of_two_hypervisors_measure_between_each_other(
    lab: Lab, guests: dict[str, Guest]
) -> None:
    with lab["alpha"].inside(), ExitStack() as stack:
        sessions = {}
        for name, guest in guests.items():
            sessions[name] = guest.session()
            stack.callback(sessions[name].close)
        agents = {name: deploy(session, "lab") for name, session in sessions.items()}
        receiver = sessions["beta"].start([agents["beta"].path, "recv", "--json"])
        assert json.loads(receiver.read_line() or "{}")["event"] == "listening"
        argv = [agents["alpha"].path, "send", guests["beta"].address, "--duration", "1", "--json"]
        sent = sessions["alpha"].run(argv)
        assert sent.status == 0, sent.stderr
        result = json.loads(sent.stdout.splitlines()[-1])
        assert result["event"] == "result"
        assert result["sending"]["flows"][0]["bytes"] > 0
