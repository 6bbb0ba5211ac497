"""Detection of KVM on a host, by a probe guest: capabilities alone are not reliable."""

from __future__ import annotations

import time
from dataclasses import replace

from osmef.errors import NotFoundError, OsmefError
from osmef.providers.cloud_init import MOST_CONSOLE
from osmef.providers.libvirt import xml
from osmef.providers.libvirt.connection import Hypervisor
from osmef.providers.libvirt.guest import destroy_domain, is_running, start_domain
from osmef.providers.libvirt.maker import Maker
from osmef.providers.libvirt.storage import Store
from osmef.providers.libvirt.xml import Machine
from osmef.scenario.clouds.libvirt import Accelerator

KVM, TCG = "kvm", "tcg"
_PATIENCE_S = 20.0
_LOOK_S = 0.2
_PROBE = "probe"
_RAM = 1 << 28


def architecture_of(capabilities: str) -> str:
    """Return the architecture of a host, as `uname -m` tells it there."""
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


def choose(wanted: Accelerator, host: Hypervisor, store: Store, maker: Maker, like: Machine) -> str:
    """Return "kvm" or "tcg", by default KVM where a probe guest runs with it.

    ``like`` is the guest to try, but for its name and size. Raises ProviderError.
    """
    if wanted is not Accelerator.AUTO:
        return wanted.value
    capabilities = host.do("asking for capabilities", lambda c: str(c.getCapabilities()))
    if KVM not in _domain_types(capabilities, like.architecture):
        return TCG
    return KVM if _runs(host, store, maker, like) else TCG


def _runs(host: Hypervisor, store: Store, maker: Maker, like: Machine) -> bool:
    console = f"{_PROBE}.console"
    probe = replace(
        like,
        name=maker.mark.name(_PROBE),
        accelerator=KVM,
        vcpus=1,
        ram_bytes=_RAM,
        kernel=like.kernel and replace(like.kernel, cmdline=_talkative(like.kernel.cmdline)),
        console=store.path(console),
    )
    try:
        start_domain(host, maker, probe, None)
    except OsmefError:
        host.check()
        return False
    try:
        said = _says_something(host, store, probe.name, console)
        # A disk image may be silent on this console; what KVM can't run does not go on.
        return said or (like.kernel is None and is_running(host, probe.name))
    finally:
        destroy_domain(host, maker, probe.name)


def _talkative(cmdline: str) -> str:
    return " ".join(word for word in cmdline.split() if word != "quiet")


def _says_something(host: Hypervisor, store: Store, name: str, console: str) -> bool:
    """Wait for the first console output of the kernel: a guest that KVM can't run has none."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if store.read(console, MOST_CONSOLE).strip():
            return True
        if not is_running(host, name):
            return False
        host.wait(_LOOK_S)
    return False


def warning(host: Hypervisor) -> str:
    """Return the warning for emulated guests."""
    return (
        f"QEMU emulates the CPUs (TCG), as KVM does not work on {host.name} or was not wanted:"
        " the numbers are those of the emulator, not of the machine"
    )
