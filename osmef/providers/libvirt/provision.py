"""Provisioning of a run's resources on its hosts, and the choice of a host for each guest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from osmef.errors import CapacityError
from osmef.providers.base import Endpoint, EndpointRequest, RunContext
from osmef.providers.libvirt import networks, xml
from osmef.providers.libvirt.connection import Hypervisor, Maker, is_session, libvirt
from osmef.providers.libvirt.guest import (
    TCG,
    Base,
    GuestSpec,
    accelerator_warning,
    capable_architecture,
    choose_accelerator,
    start,
    wait,
)
from osmef.providers.libvirt.storage import StoragePool, VolumeImage, directory_of
from osmef.providers.libvirt.xml import Domain, KernelBoot
from osmef.providers.parallel import map_concurrently
from osmef.providers.static.assign import assign, requests_of
from osmef.remote.login import KeyPair, Login
from osmef.remote.ssh_config import find_login
from osmef.scenario.clouds.libvirt import LibvirtFlavor, LibvirtSettings
from osmef.scenario.clouds.static import DeclaredLocation, InventoryHost
from osmef.scenario.fields import EndpointKind, FlavorNeed, Placement, ProviderNetwork, Tenancy
from osmef.scenario.study import Cell
from osmef.units import counted, format_size


def flavor_of(settings: LibvirtSettings, wanted: str | FlavorNeed | None) -> str | None:
    """Return the flavor of a guest by name or need, or the default.

    For a need it is the smallest that fits, of CPUs first. None where there is no such flavor.
    """
    flavors = settings.flavors
    if isinstance(wanted, FlavorNeed):
        fitting = [
            (size.vcpus, size.ram, name)
            for name, size in flavors.items()
            if size.vcpus >= wanted.vcpus and size.ram >= (wanted.ram or 0)
        ]
        return min(fitting)[2] if fitting else None
    name = wanted or settings.default_flavor or next(iter(flavors))
    return name if name in flavors else None


def place(settings: LibvirtSettings, requests: Sequence[EndpointRequest]) -> dict[str, str]:
    """Return the host of each guest, and the inventory entry of each physical host.

    Guests of one host slot share a host, those of different slots do not. A guest without a host
    slot is placed on the host with the fewest. Raises CapacityError.
    """
    wanted = [_without_size(request) for request in requests if request.host is not None]
    assigned = assign(wanted, _capacity(settings, len(wanted)))
    placed = {name: entry.partition("/")[0] for name, entry in assigned.items()}
    busy = Counter(dict.fromkeys(settings.hypervisors, 0))
    busy.update(host for host in placed.values() if host in settings.hypervisors)
    for request in requests:
        if request.host is None:
            placed[request.name] = min(settings.hypervisors, key=busy.__getitem__)
            busy[placed[request.name]] += 1
    return placed


def _without_size(request: EndpointRequest) -> EndpointRequest:
    """Return a request without flavor: a physical host has its own size."""
    nics = request.nics if request.kind is EndpointKind.HOST else 0
    return replace(request, flavor=None, tenant=None, nics=nics)


def _capacity(settings: LibvirtSettings, count: int) -> Mapping[str, InventoryHost]:
    """Return the inventory with capacity for guests on each libvirt host."""
    capacity = {
        f"{name}/{number}": InventoryHost(
            ssh=name, kind=EndpointKind.VM, location=DeclaredLocation(host=name)
        )
        for name in settings.hypervisors
        for number in range(count)
    }
    return {**capacity, **settings.hosts}


def pin(capabilities: str, wanted: Mapping[str, int]) -> dict[str, list[int]] | None:
    """Pin each guest to exclusive CPUs of its host; None where there are too few.

    Two threads of a core go to one guest, if there are cores enough.
    """
    root = xml.parse(capabilities)
    cores: dict[tuple[str | None, ...], list[int]] = {}
    for cpu in root.findall("host/topology/cells/cell/cpus/cpu"):
        place_of = tuple(cpu.get(key) for key in ("socket_id", "die_id", "core_id"))
        cores.setdefault(place_of, []).append(int(cpu.attrib["id"]))
    return _deal(list(cores.values()), wanted) or _deal(
        [[cpu] for core in cores.values() for cpu in core], wanted
    )


def _deal(cores: list[list[int]], wanted: Mapping[str, int]) -> dict[str, list[int]] | None:
    left, found = list(cores), {}
    for name, count in wanted.items():
        own: list[int] = []
        while len(own) < count:
            if not left:
                return None
            own += left.pop(0)
        found[name] = own[:count]
    return found


Problem = tuple[str, str, str]
_NETWORKS = "provider.networks"
_BRIDGE = "name a bridge that qemu-bridge-helper lets you use, with addresses on it; or /system"
_NIC_BRIDGES = "name bridges that are there on each host: provider.nic_bridges: [br1, br2]"
_FORWARDING = (
    "libvirt routes between two tenants' networks: it turns on net.ipv4.ip_forward on the host, and"
    " leaves it on"
)


def problems_of(settings: LibvirtSettings, cell: Cell) -> Iterator[Problem]:
    """Yield (scenario key, message, cure) of each problem."""
    scenario = cell.scenario
    if scenario.layer is ProviderNetwork.OVERLAY:
        cure = "use layer: bare"
        yield "layer", "these hosts have no overlay that OSMeF knows of", cure
    yield from _flavors(settings, cell)
    if EndpointKind.VM in {end.kind for end in scenario.ends}:
        yield from _networks(settings, cell)
    try:
        place(settings, requests_of(scenario))
    except CapacityError as error:
        if {end.kind for end in scenario.ends} == {EndpointKind.VM}:
            cure = "name the hosts under provider.uris, or use placement: same-host"
            yield "placement", "different-host needs two hosts, and there is one connection", cure
        else:
            yield "provider.hosts", error.message, str(error.cure)


def _flavors(settings: LibvirtSettings, cell: Cell) -> Iterator[Problem]:
    for name, end in cell.scenario.endpoints.given_ends.items():
        if end.kind is EndpointKind.HOST or flavor_of(settings, end.flavor):
            continue
        sizes = ", ".join(settings.flavors)
        cure = f"use one of: {sizes}; or add it to provider.flavors"
        yield f"endpoints.{name}.flavor", f"there is no flavor {str(end.flavor)!r}", cure


def _networks(settings: LibvirtSettings, cell: Cell) -> Iterator[Problem]:
    scenario, networks = cell.scenario, settings.networks
    if not networks and len(settings.uris) > 1:
        message = "guests of several hosts need a network that joins these"
        yield _NETWORKS, message, "name it: networks: [{bridge: br0, addresses: FIRST-LAST/PREFIX}]"
    session = any(map(is_session, settings.hypervisors.values()))
    if not networks and session:
        message = "a user's own libvirt (/session) can't make networks"
        yield _NETWORKS, message, _BRIDGE
    afar = [name for name, uri in settings.hypervisors.items() if _is_remote_without_ssh(uri)]
    if not networks and afar:
        message = f"networks that are made on {', '.join(afar)} are reached through SSH alone"
        yield _NETWORKS, message, "write qemu+ssh://HOST/system, or name a network that is there"
    if any(one.network for one in networks) and session:
        message = "a user's own libvirt (/session) does not reach networks of the system's libvirt"
        yield _NETWORKS, message, _BRIDGE
    for name, end in scenario.endpoints.given_ends.items():
        if end.nics and not settings.nic_bridges and (len(settings.uris) > 1 or session):
            message = "networks of further cards are made on one host of the system's libvirt"
            yield f"endpoints.{name}.nics", message, _NIC_BRIDGES
    if scenario.tenancy is Tenancy.DIFFERENT_TENANT and len(networks) == 1:
        message = "two tenants need a network each, and one is named"
        yield _NETWORKS, message, "name two networks with a router between them, or none"


def _is_remote_without_ssh(uri: str) -> bool:
    """Return whether a URI is remote, and not by SSH."""
    parts = urlsplit(uri)
    return bool(parts.hostname) and not parts.scheme.endswith("+ssh")


def warnings_of(settings: LibvirtSettings, cell: Cell) -> Iterator[str]:
    """Yield the warnings for a cell."""
    vms = [end for end in cell.scenario.ends if end.kind is EndpointKind.VM]
    if vms and cell.scenario.placement is Placement.ANY and len(settings.hypervisors) == 1:
        yield "placement: any, and there is one host only"
    if vms and not settings.networks and cell.scenario.tenancy is Tenancy.DIFFERENT_TENANT:
        yield _FORWARDING


_UNFILTERED = "libvirt can't filter packets on {host}: all of its network reaches the guest"
_WRITTEN_BYTES = 1 << 28
"""What a guest surely writes: logs, the agent, what cloud-init does at the first boot."""
_TIGHT = (
    "the guests of this run on {host} have {need} of memory, and {free} of it was free or only"
    " cached files: if the kernel can't free more, it swaps or ends processes"
)
_SHARED = "the guests of this run on {host} share its CPUs, which are fewer than theirs together"


@dataclass
class Provisioner:
    """The guests of a run during provisioning; ``placed`` has the host of each."""

    settings: LibvirtSettings
    context: RunContext
    maker: Maker
    hosts: Mapping[str, Hypervisor]
    image: VolumeImage
    placed: Mapping[str, str]
    machines: Sequence[str]
    """Addresses of the physical hosts that are endpoints, too."""
    warnings: dict[str, list[str]] = field(default_factory=dict)
    """Of each host."""

    def make(self, requests: Sequence[EndpointRequest]) -> list[Endpoint]:
        """Create networks and guests concurrently, and wait for SSH.

        Raises ProviderError.
        """
        context, hosts = self.context, list(self.hosts.values())
        tenants = self._networks(requests)
        for host in hosts:
            self._warn_of_memory(host, requests)
        context.progress(f"sending the image to {', '.join(self.hosts)}")
        count = Counter(self.placed[request.name] for request in requests)
        made = map_concurrently(lambda host: self._base(host, count[host.name]), hosts)
        bases = dict(zip(self.hosts, made, strict=True))
        filters = self._filters(tenants, requests)
        guests = self._guests(requests, bases, tenants, filters)
        context.progress(f"starting {counted(len(guests), 'guest')}")
        return map_concurrently(self._start, guests)

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
        self.context.progress(f"making networks for {', '.join(slots)}")
        return networks.make_networks(hosts[0], self.maker, slots)

    def _base(self, host: Hypervisor, guests: int) -> Base:
        """Upload the image to a host, and choose its accelerator."""
        image, guest_image = self.image, self.image.guest_image
        store = StoragePool.make(host, self.maker, directory_of(host.uri, self.settings.storage))
        store.check_room(image.sent_bytes + guests * min(image.disk_bytes, _WRITTEN_BYTES))
        root = store.put_file("root", image.root)
        kernel = None
        if guest_image is not None:
            kernel = KernelBoot(
                store.put_file("kernel", guest_image.kernel),
                store.put_file("initrd", guest_image.initrd),
                guest_image.manifest.boot.cmdline,
            )
        architecture = architecture_of(host, image)
        disks = []
        if kernel is None:
            probe = store.overlay("probe.qcow2", image.disk_bytes, root, image.format)
            disks.append((probe, "qcow2", None))
        like = Domain("", architecture, "", 1, 0, kernel, disks)
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
        controllers = [networks.source_address(str(one.subnet[1])) for one in tenants.values()]
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
    ) -> list[GuestSpec]:
        pins = {host: self._pin(hypervisor, requests) for host, hypervisor in self.hosts.items()}
        guests = []
        switches = self._switches(requests)
        for request in requests:
            host, network = self.placed[request.name], tenants[str(request.tenant)]
            guest = GuestSpec(
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
                    xml.GuestNic(kind, name, networks.new_mac())
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

    def _start(self, guest: GuestSpec) -> Endpoint:
        uuid = start(guest, self.maker, self.context)
        login = wait(guest, self.maker, self.context, self.settings.boot_timeout)
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


def ram_bytes_of(host: Hypervisor) -> int:
    """Return the host's memory in bytes."""
    # In MiB (virNodeInfo.memory as Python has it).
    return host.do("asking for its memory", lambda c: int(c.getInfo()[1])) << 20


def memory_note(host: Hypervisor, need: int) -> str | None:
    """Warn if guests need more memory than is available.

    No error: the kernel gives up more than that, such as its own caches and those of ZFS, which
    libvirt does not report. None without a warning.
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


def architecture_of(host: Hypervisor, image: VolumeImage) -> str:
    """Return the architecture of the image, or for a disk image that of the host."""
    if image.guest_image is not None:
        return image.guest_image.manifest.architecture
    return capable_architecture(capabilities_of(host))


def _jump(host: Hypervisor, network: networks.Network) -> Login | None:
    """Return the login of a remote host, which is the jump host to its networks."""
    parts = urlsplit(host.uri)
    if not network.made or not parts.scheme.endswith("+ssh"):
        return None
    return find_login(host.name, parts.netloc)
