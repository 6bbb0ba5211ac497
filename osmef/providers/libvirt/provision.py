"""Provisioning of a run's resources on its hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from osmef.errors import CapacityError
from osmef.providers.base import Endpoint, EndpointRequest, Order
from osmef.providers.libvirt import networks, xml
from osmef.providers.libvirt.connection import Hypervisor, Maker, libvirt
from osmef.providers.libvirt.guest import (
    TCG,
    Base,
    Guest,
    accelerator_warning,
    capable_architecture,
    choose_accelerator,
    start,
    wait,
)
from osmef.providers.libvirt.placement import flavor_of, pin
from osmef.providers.libvirt.storage import Image, Store, directory_of
from osmef.providers.libvirt.xml import Kernel, Machine
from osmef.providers.parallel import side_by_side
from osmef.remote.login import KeyPair, Login
from osmef.remote.ssh_config import find_login
from osmef.scenario.clouds.libvirt import LibvirtFlavor, LibvirtSettings
from osmef.units import format_size

_UNFILTERED = "libvirt can't filter packets on {host}: all of its network reaches the guest"
_WRITTEN_BYTES = 1 << 28
"""What a guest surely writes: logs, the agent, what cloud-init does at the first boot."""
_TIGHT = (
    "the guests of this run on {host} have {need} of memory, and {free} of it was free or only"
    " cached files: if the kernel can't free more, it swaps or ends processes"
)
_SHARED = "the guests of this run on {host} share its CPUs, which are fewer than theirs together"


@dataclass
class Build:
    """The guests of a run during provisioning; ``placed`` has the host of each."""

    settings: LibvirtSettings
    order: Order
    maker: Maker
    hosts: Mapping[str, Hypervisor]
    image: Image
    placed: Mapping[str, str]
    machines: Sequence[str]
    """Addresses of the physical hosts that are endpoints, too."""
    warnings: dict[str, list[str]] = field(default_factory=dict)
    """Of each host."""

    def make(self, requests: Sequence[EndpointRequest]) -> list[Endpoint]:
        """Create networks and guests concurrently, and wait for SSH.

        Raises ProviderError.
        """
        order, hosts = self.order, list(self.hosts.values())
        tenants = self._networks(requests)
        for host in hosts:
            self._warn_of_memory(host, requests)
        order.progress(f"sending the image to {', '.join(self.hosts)}")
        count = Counter(self.placed[request.name] for request in requests)
        made = side_by_side(lambda host: self._base(host, count[host.name]), hosts)
        bases = dict(zip(self.hosts, made, strict=True))
        filters = self._filters(tenants, requests)
        guests = self._guests(requests, bases, tenants, filters)
        order.progress(f"starting {len(guests)} guest{'s' * (len(guests) > 1)}")
        return side_by_side(self._start, guests)

    def _warn_of_memory(self, host: Hypervisor, requests: Sequence[EndpointRequest]) -> None:
        here = [request for request in requests if self.placed[request.name] == host.name]
        note = memory_note(host, need_of(self.settings, here))
        if note is not None:
            self.warnings.setdefault(host.name, []).append(note)

    def _networks(self, requests: Sequence[EndpointRequest]) -> Mapping[str, networks.Network]:
        slots = list(dict.fromkeys(str(request.tenant) for request in requests))
        hosts = list(self.hosts.values())
        if self.settings.networks:
            return networks.find_networks(hosts, self.settings.networks, slots)
        self.order.progress(f"making networks for {', '.join(slots)}")
        return networks.make_networks(hosts[0], self.maker, slots)

    def _base(self, host: Hypervisor, guests: int) -> Base:
        """Upload the image to a host, and choose its accelerator."""
        image, bundle = self.image, self.image.bundle
        store = Store.make(host, self.maker, directory_of(host.uri, self.settings.storage))
        store.check_room(image.sent_bytes + guests * min(image.disk_bytes, _WRITTEN_BYTES))
        root = store.put_file("root", image.root)
        kernel = None
        if bundle is not None:
            kernel = Kernel(
                store.put_file("kernel", bundle.kernel),
                store.put_file("initrd", bundle.initrd),
                bundle.manifest.boot.cmdline,
            )
        architecture = architecture_of(host, image)
        disks = []
        if kernel is None:
            probe = store.overlay("probe.qcow2", image.disk_bytes, root, image.format)
            disks.append((probe, "qcow2", None))
        like = Machine("", architecture, "", 1, 0, kernel, disks)
        wanted = self.settings.accelerator
        chosen = choose_accelerator(wanted, host, store, self.maker, like)
        if chosen == TCG:
            self.warnings.setdefault(host.name, []).append(accelerator_warning(host))
        return Base(host, store, image, root, kernel, architecture, chosen)

    def _filters(
        self, tenants: Mapping[str, networks.Network], requests: Sequence[EndpointRequest]
    ) -> Mapping[str, str | None]:
        """Create packet filters for guests on shared networks."""
        if not self.settings.networks:
            return {}
        peers = []
        for slot, network in tenants.items():
            count = sum(request.tenant == slot for request in requests)
            own = network.free
            peers += [str(network.subnet)] if own is None else [str(o.ip) for o in own[:count]]
        controllers = [networks.seen_from(str(one.subnet[1])) for one in tenants.values()]
        peers += [one for one in self.machines if ip_address(one).version == 4]
        made = networks.make_filters(list(self.hosts.values()), self.maker, controllers, peers)
        for host, name in made.items():
            if name is None:
                self.warnings.setdefault(host, []).append(_UNFILTERED.format(host=host))
        return made

    def _guests(
        self,
        requests: Sequence[EndpointRequest],
        bases: Mapping[str, Base],
        tenants: Mapping[str, networks.Network],
        filters: Mapping[str, str | None],
    ) -> list[Guest]:
        pins = {host: self._pin(hypervisor, requests) for host, hypervisor in self.hosts.items()}
        guests = []
        switches = self._switches(requests)
        for request in requests:
            host, network = self.placed[request.name], tenants[str(request.tenant)]
            guest = Guest(
                request=request,
                base=bases[host],
                flavor=size_of(self.settings, request),
                network=network,
                interface=network.take(),
                mac=networks.new_mac(),
                host_key=KeyPair.generate(request.name),
                cpus=tuple(pins[host].get(request.name, ())),
                filter=filters.get(host),
                jump=_jump(self.hosts[host], network),
                nics=tuple(
                    xml.Nic(kind, name, networks.new_mac())
                    for kind, name in switches[: request.nics]
                ),
            )
            guests.append(guest)
        return guests

    def _switches(self, requests: Sequence[EndpointRequest]) -> list[tuple[str, str]]:
        """Return the networks of further network cards, in order."""
        most = max(request.nics for request in requests)
        there = self.settings.nic_bridges
        if there or not most:
            return [("bridge", there[number % len(there)]) for number in range(most)]
        (host,) = self.hosts.values()
        count = most if self.settings.nics_apart else 1
        made = [networks.make_switch(host, self.maker, f"nic-{n + 1}") for n in range(count)]
        return [("network", made[number % count]) for number in range(most)]

    def _pin(
        self, host: Hypervisor, requests: Sequence[EndpointRequest]
    ) -> Mapping[str, Sequence[int]]:
        here = [request for request in requests if self.placed[request.name] == host.name]
        wanted = {request.name: size_of(self.settings, request).vcpus for request in here}
        pinned = pin(capabilities_of(host), wanted)
        if pinned is None:
            self.warnings.setdefault(host.name, []).append(_SHARED.format(host=host.name))
        return pinned or {}

    def _start(self, guest: Guest) -> Endpoint:
        uuid = start(guest, self.maker, self.order)
        login = wait(guest, self.maker, self.order, self.settings.boot_timeout)
        return Endpoint(
            request=guest.request,
            resource_id=uuid,
            login=login,
            nics=tuple(nic.mac for nic in guest.nics),
            data_address=login.address,
            flavor=flavor_of(self.settings, guest.request.flavor),
            vcpus=guest.flavor.vcpus,
            warnings=tuple(self.warnings.get(guest.host.name, ())),
        )


def size_of(settings: LibvirtSettings, request: EndpointRequest) -> LibvirtFlavor:
    """Return the size of a guest. Raises CapacityError without a flavor that fits."""
    name = flavor_of(settings, request.flavor)
    if name is None:
        raise CapacityError(
            f"there is no flavor {str(request.flavor)!r}",
            where=request.name,
            cure=f"use one of: {', '.join(settings.flavors)}",
        )
    return settings.flavors[name]


def capabilities_of(host: Hypervisor) -> str:
    """Return the capabilities of a host, in XML."""

    def ask(connection: Any) -> str:
        return str(connection.getCapabilities())

    return host.do("asking for capabilities", ask)


def memory_of(host: Hypervisor) -> int:
    """Return the host's memory in bytes."""
    # In MiB (virNodeInfo.memory as Python has it).
    return host.do("asking for its memory", lambda c: int(c.getInfo()[1])) << 20


def memory_note(host: Hypervisor, need: int) -> str | None:
    """Warn if guests need more memory than is available.

    No error: the kernel gives up more than that, such as its own caches and those of ZFS, of which
    libvirt does not tell. None where there is nothing to tell.
    """

    def free(connection: Any) -> int:
        kibibytes = connection.getMemoryStats(libvirt().VIR_NODE_MEMORY_STATS_ALL_CELLS)
        return sum(int(kibibytes.get(key, 0)) for key in ("free", "buffers", "cached")) << 10

    found = host.find("asking for its free memory", free)
    if found is None or need <= found:
        return None
    return _TIGHT.format(host=host.name, need=format_size(need), free=format_size(found))


def need_of(settings: LibvirtSettings, requests: Sequence[EndpointRequest]) -> int:
    """Return the memory of these guests in bytes. Raises CapacityError without a fitting flavor."""
    return sum(size_of(settings, request).ram for request in requests)


def architecture_of(host: Hypervisor, image: Image) -> str:
    """Return the architecture of the image, or for a disk image that of the host."""
    if image.bundle is not None:
        return image.bundle.manifest.architecture
    return capable_architecture(capabilities_of(host))


def _jump(host: Hypervisor, network: networks.Network) -> Login | None:
    """Return the login of a remote host, which is the jump host to its networks."""
    parts = urlsplit(host.uri)
    if not network.made or not parts.scheme.endswith("+ssh"):
        return None
    return find_login(host.name, parts.netloc)
