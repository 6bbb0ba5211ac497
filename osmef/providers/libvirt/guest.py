"""One guest: its disks, its start, and the wait for its sshd; and a probe guest that detects KVM.

Capabilities of a host alone are not reliable about KVM.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Interface
from typing import Any

from osmef.errors import BootError, HostKeyError, NotFoundError, OsmefError, ReachError
from osmef.providers.base import EndpointRequest, RunContext
from osmef.providers.cloud_init import MOST_CONSOLE, SERIAL, Card, Seed
from osmef.providers.libvirt import xml
from osmef.providers.libvirt.connection import Hypervisor, Maker, libvirt
from osmef.providers.libvirt.networks import Network, lease_of
from osmef.providers.libvirt.storage import StoragePool, VolumeImage, nocloud_disk
from osmef.providers.libvirt.xml import Domain
from osmef.remote.login import HostKeys, KeyPair, Login
from osmef.remote.session import wait_for_ssh
from osmef.scenario.clouds.libvirt import Accelerator, LibvirtFlavor

_TAIL_LINES = 15
_LOOK_S = 0.5


@dataclass(frozen=True)
class Base:
    """Shared by all guests of a host: the image there, and the accelerator."""

    host: Hypervisor
    store: StoragePool
    image: VolumeImage
    root: str
    kernel: xml.KernelBoot | None
    architecture: str
    accelerator: str


@dataclass(frozen=True)
class GuestSpec:
    """A guest to create."""

    request: EndpointRequest
    base: Base
    flavor: LibvirtFlavor
    network: Network
    interface: IPv4Interface | None
    mac: str
    host_key: KeyPair
    cpus: tuple[int, ...]
    filter: str | None
    jump: Login | None
    nics: tuple[xml.GuestNic, ...] = ()
    """Network cards beside the first one."""

    @property
    def host(self) -> Hypervisor:
        """Its host."""
        return self.base.host

    def seed(self, key: KeyPair) -> bytes:
        """Return its seed disk, with keys, name and address."""
        card = Card(self.mac, self.interface, self.network.gateway if self.interface else None)
        seed = Seed(self.request.name[:63], key.public, self.host_key, (card,))
        return nocloud_disk(seed) if self.base.image.guest_image is None else seed.disk()

    def machine(self, name: str, root: str, seed: str) -> xml.Domain:
        """Return its domain."""
        base = self.base
        nic = xml.GuestNic(self.network.kind, self.network.name, self.mac, self.filter)
        return xml.Domain(
            name=name,
            architecture=base.architecture,
            accelerator=base.accelerator,
            vcpus=self.flavor.vcpus,
            ram_bytes=self.flavor.ram,
            kernel=base.kernel,
            disks=((root, "qcow2", None), (seed, "raw", SERIAL)),
            nics=(nic, *self.nics),
            console=base.store.path(self.console),
            cpus=self.cpus,
        )

    @property
    def console(self) -> str:
        """Its console's file in the pool."""
        return f"{self.request.name}.console"


def start(guest: GuestSpec, maker: Maker, context: RunContext) -> str:
    """Create its disks and start it; return its UUID. Raises ProviderError."""
    store, image, name = guest.base.store, guest.base.image, guest.request.name
    root = store.overlay(f"{name}.qcow2", image.disk_bytes, guest.base.root, image.format)
    seed = store.put(f"{name}.seed", guest.seed(context.key))
    machine = guest.machine(maker.mark.name(name), root, seed)
    address = None if guest.interface is None else str(guest.interface.ip)
    return start_domain(guest.host, maker, machine, address)


def start_domain(host: Hypervisor, maker: Maker, machine: xml.Domain, address: str | None) -> str:
    """Start a transient guest; return its UUID. Raises ProviderError."""
    description = machine.xml([maker.mark.element(machine.name, address)])
    domain = maker.make(
        host,
        "domain",
        machine.name,
        lambda connection: connection.createXML(description),
        lambda connection: connection.lookupByName(machine.name),
    )
    return str(domain.UUIDString())


def destroy_domain(host: Hypervisor, maker: Maker, name: str) -> None:
    """Destroy a guest of this run. Raises ProviderError."""
    host.find("ending a guest", lambda connection: connection.lookupByName(name).destroy())
    maker.note_destroyed(maker.made[host.uri, "domain", name])


def find_guest(hosts: Sequence[Hypervisor], uuid: str) -> tuple[Hypervisor, str] | None:
    """Return the first of these hosts with a guest, and its XML. Raises ProviderError.

    A migrated guest is no longer at its first host.
    """

    def look(connection: Any) -> str:
        return str(connection.lookupByUUIDString(uuid).XMLDesc())

    for host in hosts:
        found = host.find("looking at a guest", look)
        if found is not None:
            return host, found
    return None


def is_running(host: Hypervisor, name: str) -> bool:
    """Return whether a guest exists and runs. Raises ProviderError."""

    def look(connection: Any) -> int:
        state: int = connection.lookupByName(name).state()[0]
        return state

    running = {libvirt().VIR_DOMAIN_RUNNING, libvirt().VIR_DOMAIN_BLOCKED}
    return host.find("looking at a guest", look) in running


class _Ended(Exception):  # noqa: N818 - it never leaves this module
    """The guest no longer runs."""


def wait(guest: GuestSpec, maker: Maker, context: RunContext, timeout_s: float) -> Login:
    """Return the login once sshd accepts it. Raises BootError, which keeps the console."""
    name = maker.mark.name(guest.request.name)
    end = time.monotonic() + timeout_s
    last = 0.0

    def check() -> None:
        nonlocal last
        context.check()
        if time.monotonic() - last > _LOOK_S:
            last = time.monotonic()
            if not is_running(guest.host, name):
                raise _Ended

    try:
        login = _login(guest, context, _address(guest, check, end))
        wait_for_ssh(login, deadline=end, check=check).close()
    except _Ended:
        raise _boot_error(guest, context, _why_not(guest, name)) from None
    except HostKeyError:
        raise
    except ReachError as error:
        if error.where == guest.host.name:  # the way to libvirt is gone, which is not its fault
            raise
        raise _boot_error(guest, context, error.message) from error
    return login


def _why_not(guest: GuestSpec, name: str) -> str:
    """Return why a guest no longer runs."""
    module = libvirt()

    def look(connection: Any) -> tuple[int, ...]:
        return tuple(connection.lookupByName(name).state())

    # What QEMU does where a write fails for want of room.
    if guest.host.find("looking at a guest", look) == (
        module.VIR_DOMAIN_PAUSED,
        module.VIR_DOMAIN_PAUSED_IOERROR,
    ):
        return f"the guest was stopped as its disk in {guest.base.store.directory} can't be written"
    return "the guest does not run any more"


def _address(guest: GuestSpec, check: Any, end: float) -> str:
    if guest.interface is not None:
        return str(guest.interface.ip)
    look = lease_of(guest.network.name, guest.mac)
    while time.monotonic() < end:
        check()
        found = guest.host.do("asking for leases", look)
        if found is not None:
            return found
        guest.host.wait(_LOOK_S)
    raise ReachError(f"the DHCP server of {guest.network.name} gave it no address")


def _login(guest: GuestSpec, context: RunContext, address: str) -> Login:
    return Login(
        name=guest.request.name,
        user="root",
        address=address,
        host_keys=HostKeys((guest.host_key.public,)),
        key=context.key,
        jump=guest.jump,
    )


def _boot_error(guest: GuestSpec, context: RunContext, why: str) -> BootError:
    try:
        console = guest.base.store.read(guest.console, MOST_CONSOLE).decode(errors="replace")
    except OsmefError as error:
        console = f"(no console: {error.message})\n"
    path = context.keep(f"{guest.request.name}.console", console)
    # A guest may write what a terminal obeys.
    plain = ("".join(filter(str.isprintable, line)).strip() for line in console.splitlines())
    lines = [line for line in plain if line]
    tail = (
        "\n".join(f"  | {line[:200]}" for line in lines[-_TAIL_LINES:]) or "  | (it said nothing)"
    )
    return BootError(
        f"{why}. The end of its console:\n{tail}",
        where=f"{guest.request.name} on {guest.host.name}",
        cure=f"read {path}; try another image, more memory, or a longer boot_timeout",
    )


KVM, TCG = "kvm", "tcg"
_TIMEOUT_S = 20.0
_PROBE_LOOK_S = 0.2
_PROBE = "probe"
_RAM = 1 << 28


def capable_architecture(capabilities: str) -> str:
    """Return the architecture of a host, as `uname -m` reports it there."""
    return xml.parse(capabilities).findtext("host/cpu/arch") or ""


def _domain_types(capabilities: str, architecture: str) -> set[str]:
    root = xml.parse(capabilities)
    return {
        domain.get("type", "")
        for arch in root.findall("guest/arch")
        if arch.get("name") == architecture
        for domain in arch.findall("domain")
    }


def check_emulator(host: Hypervisor, architecture: str) -> None:
    """Raise NotFoundError unless QEMU for this architecture is installed."""
    capabilities = host.do("asking for capabilities", lambda c: str(c.getCapabilities()))
    if not _domain_types(capabilities, architecture):
        package = "qemu-system-arm" if architecture == "aarch64" else "qemu-system-x86"
        raise NotFoundError(
            f"libvirt knows no QEMU for {architecture} there",
            where=host.name,
            cure=f"apt install {package} on that host, and restart its libvirtd",
        )


def choose_accelerator(
    wanted: Accelerator, host: Hypervisor, store: StoragePool, maker: Maker, like: Domain
) -> str:
    """Return "kvm" or "tcg", by default KVM where a probe guest runs with it.

    ``like`` is the guest to try, but for its name and size. Raises ProviderError.
    """
    if wanted is not Accelerator.AUTO:
        return wanted.value
    capabilities = host.do("asking for capabilities", lambda c: str(c.getCapabilities()))
    if KVM not in _domain_types(capabilities, like.architecture):
        return TCG
    return KVM if _runs(host, store, maker, like) else TCG


def _runs(host: Hypervisor, store: StoragePool, maker: Maker, like: Domain) -> bool:
    console = f"{_PROBE}.console"
    probe = replace(
        like,
        name=maker.mark.name(_PROBE),
        accelerator=KVM,
        vcpus=1,
        ram_bytes=_RAM,
        kernel=like.kernel and replace(like.kernel, cmdline=_without_quiet(like.kernel.cmdline)),
        console=store.path(console),
    )
    try:
        start_domain(host, maker, probe, None)
    except OsmefError:
        host.check()
        return False
    try:
        said = _has_console_output(host, store, probe.name, console)
        # A disk image may be silent on this console; what KVM can't run does not go on.
        return said or (like.kernel is None and is_running(host, probe.name))
    finally:
        destroy_domain(host, maker, probe.name)


def _without_quiet(cmdline: str) -> str:
    return " ".join(word for word in cmdline.split() if word != "quiet")


def _has_console_output(host: Hypervisor, store: StoragePool, name: str, console: str) -> bool:
    """Wait for the first console output of the kernel: a guest that KVM can't run has none."""
    end = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < end:
        if store.read(console, MOST_CONSOLE).strip():
            return True
        if not is_running(host, name):
            return False
        host.wait(_PROBE_LOOK_S)
    return False


def accelerator_warning(host: Hypervisor) -> str:
    """Return the warning for emulated guests."""
    return (
        f"QEMU emulates the CPUs (TCG), as KVM does not work on {host.name} or was not wanted:"
        " the numbers are those of the emulator, not of the machine"
    )
