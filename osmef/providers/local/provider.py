"""Provider of the local cloud: a plan's requests as hosts, networks and guests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from ipaddress import IPv4Network
from itertools import cycle
from pathlib import Path

from osmef.errors import ProviderError
from osmef.programs import find_program
from osmef.providers.base import (
    Access,
    CancellationCheck,
    Endpoint,
    EndpointRequest,
    Provider,
    Resource,
    RunContext,
    Unread,
    ignore_unreadable,
    never_cancelled,
)
from osmef.providers.local import sandbox, wire
from osmef.providers.local.addresses import (
    AddressPlan,
    choose_block,
    has_ipv6,
    ipv6_of,
    used_networks,
)
from osmef.providers.local.sandbox import WHERE, Sandbox, check_machine, has_module, is_rootless
from osmef.providers.local.wire import CloudSpec, HostSpec, TenantSpec
from osmef.remote.login import HostKeys, KeyPair, Login
from osmef.remote.workdir import scratch_prefix
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.fields import (
    EndpointKind,
    Family,
    FlavorNeed,
    Placement,
    ProviderNetwork,
    Tenancy,
)
from osmef.scenario.layers import EVERYTHING
from osmef.scenario.location import Gone, Location
from osmef.scenario.model import EndpointSettings
from osmef.scenario.names import did_you_mean
from osmef.scenario.study import Cell
from osmef.scenario.workload import Directions
from osmef.units import counted, format_rate, format_size

_KIND = "local"
_RESOURCE = "sandbox"
_HIGHEST_RATE_BPS = 8 * (2**32 - 1)
"""tc-tbf's rate is 32 bits of bytes per second as netlink carries it here."""
_MOST_ENDPOINTS = 250
"""A tenant's network is a /24."""


KIND = "scratch"


class LocalProvider(Provider):
    """Hosts, tenants and VMs as namespaces of this Linux machine, as root or rootless."""

    kind = _KIND
    carries = EVERYTHING
    gives_nics = True
    found_by = frozenset[str]()
    nics_carry = EVERYTHING
    Settings = LocalSettings
    families = frozenset(Family)

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._cpus = sorted(os.sched_getaffinity(0))
        self._sandbox: Sandbox | None = None
        self._resources: list[Resource] = []
        self._close_ledger: Callable[[Resource], None] = lambda _resource: None
        self._placed: dict[str, PlacedEndpoint] = {}

    def check(
        self,
        requests: Sequence[EndpointRequest],  # noqa: ARG002
        check_cancelled: CancellationCheck = never_cancelled,  # noqa: ARG002
    ) -> None:
        """Check for sshd, unshare and the right to make namespaces. Raises ProviderError."""
        check_machine()

    def problems(self, cell: Cell) -> list[tuple[str, str, str]]:
        """List flavors, placements and rates that this cloud does not support."""
        settings, scenario = self._settings, cell.scenario
        found = [
            problem
            for key, end in _vm_ends(cell).items()
            for problem in self._flavor_problems(key, end)
        ]
        pair = scenario.endpoints.loopback is None
        node = scenario.endpoints.node
        hosts = 2 if node is None else node.count
        if pair and scenario.placement is Placement.DIFFERENT_HOST and settings.hosts < hosts:
            needs = "two hosts" if node is None else f"a host for each of the {hosts} nodes"
            cure = f"set provider.hosts to {hosts} or more"
            found.append(("placement", f"different-host needs {needs}", cure))
        if pair and scenario.tenancy is Tenancy.DIFFERENT_TENANT and settings.tenants < 2:
            cure = "set provider.tenants to 2 or more"
            found.append(("tenancy", "different-tenant needs two tenants", cure))
        ends = sum(end.count for end in _vm_ends(cell).values())
        if ends > _MOST_ENDPOINTS:
            message = f"the local cloud has no capacity for {ends} endpoints at once"
            found.append(("endpoints", message, f"make groups of {_MOST_ENDPOINTS} at most"))
        if scenario.family is Family.IPV6 and not has_ipv6():
            cure = "boot it without ipv6.disable=1, or use family: ipv4"
            found.append(("family", "this machine's kernel has no IPv6", cure))
        if scenario.stack and is_rootless():
            cure = "run osmef as root, or use layer: bare"
            message = "only root can raise a layer on this machine's emulated hosts and VMs"
            found.append(("layer", message, cure))
        lacking = [one for one in scenario.stack if not has_module(one.shown_module)]
        for layer in lacking:
            cure = "boot a kernel that has it, use layer: bare, or measure guests of libvirt"
            message = f"this machine's kernel has no module {layer.shown_module}, which the layer"
            found.append(("layer", f"{message} {layer.kind} needs", cure))
        if settings.burst and scenario.workload.changes_next_trial and scenario.pairs:
            cure = "remove pairs; a pair of VMs has a bucket of its own in real clouds"
            message = "all pairs share the links of the emulated hosts, and so one bucket"
            found.append(("pairs", message, cure))
        if settings.link_rate > _HIGHEST_RATE_BPS:
            message = "the local cloud can't hold a link to more than 34 Gbit/s"
            found.append(("provider.link_rate", message, "set a lower link_rate"))
        return found

    @property
    def _network(self) -> str | None:
        """Return the problems of its network for a cell."""
        settings = self._settings
        return f"up to {format_rate(settings.link_rate)}" if settings.burst is not None else None

    def _flavor_problems(self, key: str, end: EndpointSettings) -> list[tuple[str, str, str]]:
        settings = self._settings
        name = flavor_of(settings, end.flavor)
        where = f"{key}.flavor" if end.flavor is not None else "provider.default_flavor"
        if name not in settings.flavors and isinstance(end.flavor, FlavorNeed):
            most = max(flavor.vcpus for flavor in settings.flavors.values())
            message = f"the local cloud has no flavor of {end.flavor.vcpus} CPUs"
            return [(where, message, f"ask for {most} at most, or add one to provider.flavors")]
        if name not in settings.flavors:
            cure = did_you_mean(name, settings.flavors, settings.flavors)
            return [(where, f"the local cloud has no flavor {name!r}", cure)]
        if isinstance(end.flavor, FlavorNeed) and (end.flavor.ram or 0) > _memory():
            has = format_size(_memory())
            return [(f"{where}.ram", f"this machine has {has} of memory", "ask for less")]
        vcpus, cpus = settings.flavors[name].vcpus, len(self._cpus)
        if vcpus <= cpus or settings.cpu_overcommit:
            return []
        return [
            (
                where,
                f"flavor {name!r} has {vcpus} CPUs and this machine lets us use {cpus}",
                "use a smaller flavor, or set provider.cpu_overcommit: true",
            )
        ]

    def warnings(self, cell: Cell) -> list[str]:
        """Warn of what the cell's ends share here, and not in a real cloud."""
        cpus = len(self._cpus)
        found = [f"all emulated hosts and VMs share this machine's CPUs ({cpus})"]
        wanted = [
            self._settings.flavors[name].vcpus
            for end in _vm_ends(cell).values()
            for _ in range(end.count)
            if (name := flavor_of(self._settings, end.flavor)) in self._settings.flavors
        ]
        found += [
            f"a flavor of {vcpus} CPUs gets only the {cpus} of this machine"
            for vcpus in sorted(set(wanted))
            if vcpus > cpus
        ]
        if len(wanted) > 1 and sum(wanted) > cpus:
            who = "nodes" if cell.scenario.endpoints.node else "senders and receivers"
            shared = f"and share the {cpus} of this machine"
            found.append(f"{who} together have {sum(wanted)} CPUs, {shared}")
        return found

    def create(self, context: RunContext) -> list[Endpoint]:
        """Start the sandbox, create the networks and boot all endpoints."""
        sshd = find_program("sshd", "openssh-server", WHERE)
        layout = lay_out(
            self._settings, context.requests, choose_block(used_networks()), self._cpus
        )
        cloud = layout.cloud
        context.progress(
            f"making a local cloud: {counted(len(cloud.hosts), 'host')},"
            f" {counted(len(cloud.tenants), 'tenant')}"
        )
        sandbox = self._start(context)
        sandbox.ask("build", cloud=asdict(cloud))
        context.progress(f"starting {counted(len(layout.placed_endpoints), 'endpoint')}")
        host_keys = [KeyPair.generate(placed.request.name) for placed in layout.placed_endpoints]
        for placed, host_key in zip(layout.placed_endpoints, host_keys, strict=True):
            switches = tuple(map(self._settings.switch, range(placed.request.nics)))
            guest = _guest(placed, sshd, host_key, context.key, switches)
            sandbox.ask("boot", guest=asdict(guest))
        sandbox.ask("wait")
        self._placed = {placed.request.name: placed for placed in layout.placed_endpoints}
        return [
            self._endpoint(sandbox, placed, host_key, context.key)
            for placed, host_key in zip(layout.placed_endpoints, host_keys, strict=True)
        ]

    def _start(self, context: RunContext) -> Sandbox:
        unshare = find_program("unshare", "util-linux", WHERE)
        resource = Resource(
            *(_KIND, _RESOURCE, f"osmef-{context.run}", context.run),
            deadline=context.deadline,
            made=context.made,
        )
        elsewhere = {
            path for one in context.requests for path in context.program_directories(one.name)
        }
        names = [name_of(context.run, path) for path in sorted(elsewhere)]
        scratches = [replace(resource, kind=KIND, name=name) for name in names]
        self._close_ledger = context.ledger.destroyed
        for one in (*scratches, resource):
            context.ledger.intend(one)
            self._resources.append(one)
        self._sandbox = Sandbox(context.run, context.deadline, unshare)
        self._resources[-1] = replace(resource, id=self._sandbox.identity)
        context.ledger.created(self._resources[-1])
        return self._sandbox

    def _endpoint(
        self, sandbox: Sandbox, placed: PlacedEndpoint, host_key: KeyPair, key: KeyPair
    ) -> Endpoint:
        name, flavor = placed.request.name, placed.flavor
        wanted = len(placed.cpus) if flavor is None else self._settings.flavors[flavor].vcpus
        warnings: tuple[str, ...] = ()
        if wanted > len(placed.cpus):
            warnings = (f"has {len(placed.cpus)} CPUs of the {wanted} of its flavor",)
        return Endpoint(
            request=placed.request,
            resource_id=f"{sandbox.identity}/{name}",
            login=Login(
                name=name,
                user=_user(),
                address=placed.management,
                host_keys=HostKeys((host_key.public,)),
                key=key,
                connect=partial(sandbox.connect, name),
            ),
            data_address=placed.physical or placed.address,
            flavor=flavor,
            vcpus=len(placed.cpus),
            warnings=warnings,
            data_address6=ipv6_of(placed.physical or placed.address) if has_ipv6() else None,
            nics=tuple(map(wire.nic_name, range(placed.request.nics))),
            network=self._network,
        )

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back host and tenant of the endpoints from the kernel.

        One whose first process has ended is gone, as nothing restarts it, and so are all with
        the sandbox.
        """
        if self._sandbox is None:
            raise ProviderError("the local cloud is closed")
        try:
            found = [self._sandbox.ask("locate", name=one.name)["place"] for one in endpoints]
        except ProviderError:
            if not self._sandbox.has_ended():
                raise
            return [Gone() for _ in endpoints]
        return [Location(host=one[0], tenant=one[1]) if one else Gone() for one in found]

    def prepare(self, endpoints: Sequence[Endpoint], directions: Directions) -> None:
        """Let the hosts of a trial whose ends send in turns share one medium.

        A link's token bucket refills while the link waits for the other direction, and so would
        pass up to twice the rate.
        """
        hosts = sorted({self._placed[one.name].host for one in endpoints})
        if self._sandbox is None:
            raise ProviderError("the local cloud is closed")
        self._sandbox.ask("prepare", hosts=hosts, in_turns=directions is Directions.IN_TURNS)

    def data_address(
        self, receiver: Endpoint, sender: Endpoint, layer: ProviderNetwork, family: Family
    ) -> str:
        """Return a host's overlay address for a VM and for ``layer: overlay``."""
        overlay = layer is ProviderNetwork.OVERLAY or sender.request.kind is EndpointKind.VM
        address = self._placed[receiver.name].address if overlay else receiver.data_address
        return address if family is Family.IPV4 else ipv6_of(address)

    def close(self) -> None:
        """End the sandbox with everything in it, and remove its programs' directories."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None
        while self._resources:
            resource = self._resources[-1]
            if resource.kind == KIND:
                clear(resource)
            self._close_ledger(resource)
            self._resources.pop()

    @classmethod
    def owned(
        cls,
        access: Access,  # noqa: ARG003
        run: str | None = None,
        unread: Unread = ignore_unreadable,
    ) -> list[Resource]:
        """List the sandboxes on this machine: this user's, or for root all users'."""
        return [
            Resource(
                *(_KIND, _RESOURCE, f"osmef-{found.run}", found.run, found.identity),
                deadline=found.deadline,
                made=found.made,
            )
            for found in sandbox.sandboxes(unread)
            if run in {None, found.run}
        ]

    @classmethod
    def recognises(cls, resource: Resource) -> bool:
        """Return whether a resource is a sandbox, by the id of its first process if that is known.

        Or what its programs may have left in a directory.
        """
        if resource.kind == KIND:
            return directory_of(resource) is not None
        return resource.kind == _RESOURCE and sandbox.is_identity(resource.id)

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        """Kill sandboxes and wait until they are gone; without an id all that carry the mark.

        Then what their programs have left can be removed.
        """
        for resource in sorted(resources, key=lambda one: one.kind == KIND):
            if resource.kind == KIND:
                clear(resource)
            else:
                sandbox.end(resource.run, resource.id)
            gone(resource)


def _vm_ends(cell: Cell) -> dict[str, EndpointSettings]:
    return {
        f"endpoints.{name}": end
        for name, end in cell.scenario.given_ends.items()
        if end.kind is EndpointKind.VM
    }


def _memory() -> int:
    """Return the bytes of this machine's memory, which all VMs share."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _user() -> str:
    return "osmef" if is_rootless() else "root"


def _guest(
    placed: PlacedEndpoint,
    sshd: str,
    host_key: KeyPair,
    login_key: KeyPair,
    switches: tuple[str, ...],
) -> wire.GuestSpec:
    name = placed.request.name
    return wire.GuestSpec(
        name=name,
        # 63 bytes is the longest label that DNS and every tool take (RFC 1035).
        hostname=placed.host if placed.physical is not None else name[:63],
        host=placed.host,
        tenant=placed.tenant,
        on_host=placed.physical is not None,
        address=placed.address,
        management=placed.management,
        cpus=placed.cpus,
        sshd=sshd,
        user=_user(),
        uid=os.getuid(),
        gid=os.getgid(),
        rootless=is_rootless(),
        authorized_key=login_key.public,
        host_key=host_key.private,
        nics=switches,
    )


@dataclass(frozen=True)
class PlacedEndpoint:
    """Placement of a requested endpoint, with its addresses and CPUs.

    ``physical`` is the address on the physical network, None for a VM.
    """

    request: EndpointRequest
    host: str
    tenant: str
    address: str
    physical: str | None
    management: str
    flavor: str | None
    cpus: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A whole cloud; endpoints are in the order of the requests."""

    cloud: CloudSpec
    placed_endpoints: tuple[PlacedEndpoint, ...]


def cpus_for(role: str, wanted: int, available: Sequence[int], taken: int = 0) -> tuple[int, ...]:
    """Return the CPUs of a VM: receivers from the highest down, others from the lowest up.

    So both ends share CPUs only where this machine has too few for both. Nodes follow each other,
    all around: so many CPUs are ``taken`` by those before.
    """
    ordered = sorted(available, reverse=role == "receiver")
    begin = taken % len(ordered)
    return tuple(sorted([*ordered[begin:], *ordered[:begin]][:wanted]))


def _numbered(slots: Sequence[str], limit: int, what: str) -> dict[str, int]:
    distinct = list(dict.fromkeys(slots))
    if len(distinct) > limit:
        raise ProviderError(
            f"the plan needs {len(distinct)} {what}, and the local cloud has {limit}",
            where=f"provider.{what}",
            cure=f"set {what}: {len(distinct)} in the provider's settings",
        )
    return {slot: number for number, slot in enumerate(distinct)}


def lay_out(
    settings: LocalSettings,
    requests: Sequence[EndpointRequest],
    block: IPv4Network,
    cpus: Sequence[int],
) -> Layout:
    """Assign each request a host, a tenant's network, addresses and CPUs.

    Slots become hosts and tenants in the order in which the requests name them; VMs without a host
    slot go to all hosts by turns. A physical host takes part in the first tenant's network, which
    is its overlay. Raises ProviderError when the settings have too few hosts or tenants.
    """
    plan = AddressPlan(block)
    named = [request.host for request in requests if request.host is not None]
    hosts = _numbered(named, settings.hosts, "hosts")
    turns = cycle(range(settings.hosts))
    at = [next(turns) if request.host is None else hosts[request.host] for request in requests]
    slots = [request.tenant for request in requests if request.tenant is not None]
    tenants = _numbered(slots or ["tenant-1"], settings.tenants, "tenants")
    pools = [plan.endpoints(plan.tenant(number)) for number in tenants.values()]
    management = plan.endpoints(plan.management)
    placed_endpoints = []
    of_nodes = 0
    for request, host in zip(requests, at, strict=True):
        tenant = tenants[request.tenant] if request.tenant is not None else 0
        is_host = request.kind is EndpointKind.HOST
        flavor = None if is_host else flavor_of(settings, request.flavor)
        wanted = len(cpus) if flavor is None else settings.flavors[flavor].vcpus
        placed_endpoints.append(
            PlacedEndpoint(
                request=request,
                host=f"host-{host + 1}",
                tenant=f"tenant-{tenant + 1}",
                address=next(pools[tenant]),
                physical=str(plan.host(host)) if is_host else None,
                management=next(management),
                flavor=flavor,
                cpus=cpus_for(request.role, wanted, cpus, of_nodes),
            )
        )
        of_nodes += wanted if request.role == "node" else 0
    return Layout(
        _cloud(settings, plan, 1 + max(at), len(tenants), placed_endpoints), tuple(placed_endpoints)
    )


def flavor_of(settings: LocalSettings, wanted: str | FlavorNeed | None) -> str:
    """Return the flavor of a VM by name or need, or the default.

    For a need it is the smallest that fits; the need itself where none does.
    """
    if isinstance(wanted, FlavorNeed):
        sizes = {name: flavor.vcpus for name, flavor in settings.flavors.items()}
        fitting = [name for name, vcpus in sizes.items() if vcpus >= wanted.vcpus]
        return min(fitting, key=sizes.__getitem__, default=str(wanted))
    return wanted or settings.default_flavor or next(iter(settings.flavors))


def _cloud(
    settings: LocalSettings,
    plan: AddressPlan,
    hosts: int,
    tenants: int,
    placed_endpoints: Sequence[PlacedEndpoint],
) -> CloudSpec:
    names = [f"tenant-{number + 1}" for number in range(tenants)]
    present = {
        name: {placed.host for placed in placed_endpoints if placed.tenant == name}
        for name in names
    }
    return CloudSpec(
        link_rate_bps=settings.link_rate,
        burst_bytes=settings.burst,
        filling_bps=settings.filling_bps,
        physical=str(plan.physical),
        management=str(plan.management),
        hosts=tuple(HostSpec(f"host-{n + 1}", str(plan.host(n))) for n in range(hosts)),
        network_node=HostSpec("network-node", str(plan.network_node)),
        tenants=tuple(
            TenantSpec(name, number + 1, str(plan.tenant(number)), tuple(sorted(present[name])))
            for number, name in enumerate(names)
        ),
    )


def name_of(run: str, directory: str) -> str:
    """Return the resource's name for a directory of a run's programs."""
    return f"{directory}/{scratch_prefix(run)}*"


def directory_of(resource: Resource) -> str | None:
    """Return the directory of such a resource; None for another one."""
    directory = resource.name.rpartition("/")[0]
    is_ours = directory.startswith("/") and resource.name == name_of(resource.run, directory)
    return directory if is_ours else None


def clear(resource: Resource) -> None:
    """Remove the directory, following no link. Raises ProviderError."""
    directory, prefix = Path(f"{directory_of(resource)}/"), scratch_prefix(resource.run)
    try:
        for path in directory.iterdir():
            if path.name.startswith(prefix) and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
    except FileNotFoundError:  # the directory is gone
        return
    except OSError as error:
        raise ProviderError(
            f"what programs have left can't be removed: {error.strerror}",
            where=str(error.filename or directory),
            cure="run this command as the user of the run, or as root",
        ) from error
