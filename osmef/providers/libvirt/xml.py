"""XML of libvirt's objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from itertools import product
from xml.etree import ElementTree as ET

from osmef.providers.cloud_init import SERIAL
from osmef.scenario.fields import DATA_PORTS

_TB_CACHE_MIB = 128
"""Of translated code; by default it grows to a quarter of the guest's memory and more."""
_MACHINES = {"aarch64": "virt", "x86_64": "q35"}


def node(tag: str, *content: ET.Element | str, **values: object) -> ET.Element:
    """Return an element with attributes and children."""
    made = ET.Element(tag, {key.rstrip("_"): str(value) for key, value in values.items()})
    for part in content:
        if isinstance(part, str):
            made.text = part
        else:
            made.append(part)
    return made


def text_of(element: ET.Element) -> str:
    """Serialise an element."""
    return ET.tostring(element, encoding="unicode")


def parse(description: str) -> ET.Element:
    """Parse libvirt's XML."""
    return ET.fromstring(description)  # noqa: S314 - it comes from libvirt, not from a file


def pool(name: str, path: str) -> str:
    """Return a pool that is a directory of its own."""
    return text_of(node("pool", node("name", name), node("target", node("path", path)), type="dir"))


def volume(
    name: str, size: int, backing: tuple[str, str] | None = None, *, secret: bool = True
) -> str:
    """Return a volume: raw, or an overlay on the file ``backing`` names, with its format."""
    parts = [node("name", name), node("capacity", str(size), unit="bytes")]
    kind = "raw" if backing is None else "qcow2"
    mode = node("permissions", node("mode", "0600" if secret else "0644"))
    parts.append(node("target", node("format", type=kind), mode))
    if backing is not None:
        path, form = backing
        parts.append(node("backingStore", node("path", path), node("format", type=form)))
    return text_of(node("volume", *parts))


def network(name: str, subnet: IPv4Network, mark: ET.Element, *, routed: bool) -> str:
    """Return a network with the host at its first address, without DHCP."""
    parts = [node("name", name), node("metadata", mark)]
    if routed:
        parts.append(node("forward", mode="route"))
    parts += [node("bridge", stp="off", delay=0), node("dns", enable="no")]
    parts.append(node("ip", address=subnet[1], prefix=subnet.prefixlen))
    return text_of(node("network", *parts))


def switch(name: str, mark: ET.Element) -> str:
    """Return an isolated network of guests, without an address of the host."""
    bridge = node("bridge", stp="off", delay=0)
    return text_of(node("network", node("name", name), node("metadata", mark), bridge))


def packet_filter(
    name: str, controller: Sequence[IPv4Network], peers: Sequence[IPv4Network]
) -> str:
    """Return a filter that allows SSH from the controller and data from the peers.

    It looks at single packets, so that no table of connections gets into what is measured: answers
    from a peer's data ports are accepted, too. Only the first fragment of a datagram has ports. So
    of UDP whatever has other ports is dropped, and after that what has none is accepted: the rest
    of a datagram whose beginning was dropped never becomes one.
    """
    data = {"start": DATA_PORTS[0], "end": DATA_PORTS[-1]}
    lets = [node("mac", protocolid="arp")]
    lets.append(node("ip", protocol="udp", srcportstart=67, srcportend=67))
    lets.append(node("ip", protocol="icmp"))  # routers report the MTU of a path by it
    lets += [_ip(block, protocol="tcp", dstportstart=22, dstportend=22) for block in controller]
    for block, protocol, end in product(peers, ("tcp", "udp"), ("dst", "src")):
        ports = {f"{end}port{key}": port for key, port in data.items()}
        lets.append(_ip(block, protocol=protocol, **ports))
    rules = [
        *(_rule("accept", 100, what) for what in lets),
        _rule("drop", 200, node("ip", protocol="udp", dstportstart=0, dstportend=65535)),
        *(_rule("accept", 300, _ip(block, protocol="udp")) for block in peers),
        _rule("drop", 400),
    ]
    return text_of(node("filter", *rules, name=name, chain="root"))


def _rule(action: str, priority: int, *what: ET.Element) -> ET.Element:
    return node("rule", *what, action=action, direction="in", priority=priority)


def _ip(source: IPv4Network, **values: object) -> ET.Element:
    return node("ip", srcipaddr=source.network_address, srcipmask=source.prefixlen, **values)


@dataclass(frozen=True)
class GuestNic:
    """A network card: its source ("bridge" or "network") by name, and its filter."""

    kind: str
    source: str
    mac: str
    filter: str | None = None


@dataclass(frozen=True)
class KernelBoot:
    """Kernel and initrd for direct boot."""

    kernel: str
    initrd: str
    cmdline: str


@dataclass(frozen=True)
class Domain:
    """A domain. Disks are (path, format, serial or None); ``cpus`` is its pinning."""

    name: str
    architecture: str
    accelerator: str
    vcpus: int
    ram_bytes: int
    kernel: KernelBoot | None
    disks: Sequence[tuple[str, str, str | None]] = ()
    nics: Sequence[GuestNic] = ()
    console: str | None = None
    cpus: Sequence[int] = ()

    def xml(self, metadata: Iterable[ET.Element]) -> str:
        """Return its XML."""
        return text_of(
            node(
                "domain",
                node("name", self.name),
                node("metadata", *metadata),
                node("memory", str(self.ram_bytes), unit="bytes"),
                node("vcpu", str(self.vcpus)),
                *self._pinning(),
                self._os(),
                self._features(),
                *self._cpu(),
                node("on_poweroff", "destroy"),
                node("on_reboot", "destroy" if self.kernel else "restart"),
                node("on_crash", "destroy"),
                self._devices(),
                type="kvm" if self.accelerator == "kvm" else "qemu",
            )
        )

    def _pinning(self) -> list[ET.Element]:
        if not self.cpus:
            return []
        own = ",".join(map(str, self.cpus))
        return [node("cputune", *(node("vcpupin", vcpu=n, cpuset=own) for n in range(self.vcpus)))]

    def _os(self) -> ET.Element:
        machine = (
            {"machine": _MACHINES[self.architecture]} if self.architecture in _MACHINES else {}
        )
        kind = node("type", "hvm", arch=self.architecture, **machine)
        if self.kernel is None:
            return node("os", kind, node("boot", dev="hd"))
        how = {k: getattr(self.kernel, k) for k in ("kernel", "initrd", "cmdline")}
        return node("os", kind, *(node(key, value) for key, value in how.items()))

    def _cpu(self) -> list[ET.Element]:
        if self.accelerator == "kvm":
            return [node("cpu", mode="host-passthrough")]
        # Elsewhere QEMU's default may be a CPU of 32 bits.
        return [] if self.architecture == "x86_64" else [node("cpu", mode="maximum")]

    def _features(self) -> ET.Element:
        found = [node("acpi")] if self.architecture == "x86_64" else []  # others need UEFI for it
        if self.accelerator != "kvm":
            cache = node("tb-cache", str(_TB_CACHE_MIB), unit="MiB")
            found.append(node("tcg", cache))
        return node("features", *found)

    def _devices(self) -> ET.Element:
        parts = [
            _disk(f"vd{chr(ord('a') + n)}", *disk, volatile=disk[2] != SERIAL)
            for n, disk in enumerate(self.disks)
        ]
        parts += [_nic(nic) for nic in self.nics]
        if self.console is not None:
            parts.append(node("serial", node("source", path=self.console), type="file"))
        random = node("backend", "/dev/urandom", model="random")
        parts += [node("rng", random, model="virtio"), node("memballoon", model="none")]
        return node("devices", *parts)


def _disk(target: str, path: str, form: str, serial: str | None, *, volatile: bool) -> ET.Element:
    parts = [
        # What is lost with the host's power is lost with the run anyway.
        node("driver", name="qemu", type=form, **({"cache": "unsafe"} if volatile else {})),
        node("source", file=path),
        node("target", dev=target, bus="virtio"),
    ]
    if serial is not None:
        parts += [node("serial", serial), node("readonly")]
    return node("disk", *parts, type="file", device="disk")


def _nic(nic: GuestNic) -> ET.Element:
    parts = [
        node("source", **{nic.kind: nic.source}),
        node("mac", address=nic.mac),
        node("model", type="virtio"),
    ]
    if nic.filter is not None:
        parts.append(node("filterref", filter=nic.filter))
    return node("interface", *parts, type=nic.kind)
