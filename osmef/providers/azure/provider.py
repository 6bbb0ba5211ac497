"""Provider of Azure: the VMs of a run in a region with capacity, and their scheduled shutdown."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from osmef.errors import Interrupted, NotFoundError, OsmefError, ProviderError
from osmef.providers.azure import lookup, network, placement
from osmef.providers.azure.access import ERRORS, USUAL, Subscription, is_not_in_region
from osmef.providers.azure.lookup import Size
from osmef.providers.azure.network import SUBNET, TenantNet, interface, nic_subnet, public_ip
from osmef.providers.azure.placement import Placer, VmPlacement
from osmef.providers.azure.resource_types import (
    FARTHEST_S,
    TYPES,
    Body,
    Maker,
    list_owned,
    schedule_body,
    schedule_of,
)
from osmef.providers.base import (
    Access,
    CancellationCheck,
    Endpoint,
    EndpointRequest,
    Resource,
    RunContext,
    Unread,
    ignore_unreadable,
    never_cancelled,
)
from osmef.providers.cloud import provisioning
from osmef.providers.cloud.account import Tenant, access_with, slots_of
from osmef.providers.cloud.lookup import common_zones, first_with_capacity
from osmef.providers.cloud.public_cloud import Share, VmCloud, account_shares
from osmef.providers.cloud_init import cloud_config, user_data
from osmef.providers.marks import Mark
from osmef.providers.parallel import map_concurrently, run_concurrently
from osmef.scenario.clouds.azure import AzureAccess, AzureSettings
from osmef.scenario.location import Gone, Location
from osmef.units import whole_gib

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9-]+")


@dataclass(frozen=True)
class VmSpec(provisioning.VmSpec[TenantNet]):
    """A VM to create, by its name in its group. ``ends`` is the UNIX time of its shutdown."""

    flavor: Size
    placement: VmPlacement
    ends: float

    @property
    def image_name(self) -> str:
        """The name of its image."""
        return self.net.offers.image_of(self.flavor).name

    @property
    def path(self) -> str:
        """The name of the VM, its interface and its address, with the group's."""
        return self.net.path(self.name)

    @property
    def nic_paths(self) -> list[str]:
        """The names of its further interfaces, with the group's."""
        return [self.net.path(name) for name in self.nic_names]


@dataclass(frozen=True)
class Vm(provisioning.Vm[VmSpec]):
    """A running VM."""

    shown_by = "serial log"

    def console(self) -> str:
        """Return what it wrote on its serial port, as far as boot diagnostics keep it.

        Raises ProviderError, also as long as it wrote nothing.
        """
        subscription, names = self.spec.net.account, self.spec.path.split("/")
        machines = subscription.compute.virtual_machines
        reported = subscription.do(
            "reading boot diagnostics", lambda: machines.retrieve_boot_diagnostics_data(*names)
        )
        link = reported.serial_console_log_blob_uri
        return subscription.fetch(str(link)) if link else ""


def vm_name(number: int, request: EndpointRequest) -> str:
    """Return the name of a VM in its group, which is a valid host name."""
    return f"{number}-{_NOT_IN_NAMES.sub('-', request.name)[:40]}".rstrip("-")


def make_nics(maker: Maker, spec: VmSpec, settings: AzureSettings) -> tuple[Any, list[Any]]:
    """Create the public address and the interfaces of a VM, of which the first one has it.

    Raises ProviderError.
    """
    fast = spec.flavor.accelerated if settings.accelerated is None else settings.accelerated
    account, subnets = spec.net.account, spec.net.subnets

    def make(path: str, subnet: str, address: str | None) -> Any:
        body = interface(settings.region, subnets[subnet], address, accelerated=fast)
        return maker.make(account, "network-interface", path, **body)

    public = maker.make(account, "public-ip", spec.path, **public_ip(settings.region))
    further = [
        make(path, nic_subnet(settings.nic_network(card)), None)
        for card, path in enumerate(spec.nic_paths)
    ]
    return public, [make(spec.path, SUBNET, str(public.id)), *further]


def make_vm(
    maker: Maker, spec: VmSpec, settings: AzureSettings, public: Any, nics: Sequence[Any]
) -> Vm:
    """Create a VM with its interfaces and address, and wait until it runs. Raises ProviderError."""
    body = body_of(spec, settings, [str(nic.id) for nic in nics])
    made = maker.make(spec.net.account, "vm", spec.path, **body)
    private = str(nics[0].properties.ip_configurations[0].properties.private_ip_address)
    macs = tuple(_mac_of(spec, path) for path in spec.nic_paths)
    return Vm(spec, str(made.id), private, str(public.properties.ip_address), macs)


def _mac_of(spec: VmSpec, path: str) -> str:
    """Return the MAC address of an interface, which it has once its VM runs."""
    subscription = spec.net.account
    nic = subscription.do(
        f"looking at the interface {path}",
        lambda: TYPES["network-interface"].get(subscription, path),
    )
    return str(nic.properties.mac_address).replace("-", ":").lower()


def body_of(spec: VmSpec, settings: AzureSettings, nics: Sequence[str]) -> Body:
    """Return a VM as the API takes it, with its interfaces, given by id."""
    image = spec.net.offers.image_of(spec.flavor)
    properties: Body = {
        "hardwareProfile": {"vmSize": spec.flavor.name},
        "storageProfile": {
            "imageReference": dict(image.reference),
            "osDisk": {
                "name": spec.name,
                "createOption": "FromImage",
                "deleteOption": "Delete",
                "diskSizeGB": whole_gib(settings.disk),
            },
        },
        "osProfile": _os_profile(spec, settings),
        "networkProfile": {
            "networkInterfaces": [
                {"id": nic, "properties": {"primary": number == 0}}
                for number, nic in enumerate(nics)
            ]
        },
        # Without an account of storage, Azure keeps the serial port's output.
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        **spec.placement.properties,
    }
    if settings.spot:
        properties |= {
            "priority": "Spot",
            "evictionPolicy": "Delete",
            "billingProfile": {"maxPrice": -1.0},  # never evicted for its price
        }
    body: Body = {"location": settings.region, "properties": properties}
    if spec.placement.zone is not None:
        body["zones"] = [spec.placement.zone]
    if image.plan is not None:
        body["plan"] = dict(image.plan)
    return body


def _os_profile(spec: VmSpec, settings: AzureSettings) -> Body:
    user = settings.user
    config = cloud_config(user, spec.login_key, spec.host_key, spec.ends - time.time())
    key = {"path": f"/home/{user}/.ssh/authorized_keys", "keyData": spec.login_key.public.strip()}
    return {
        "computerName": spec.name,
        "adminUsername": user,
        "customData": user_data(config, None),
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "ssh": {"publicKeys": [key]},
        },
    }


def read_place(vm: Vm, region: str) -> Location:
    """Read back the location of a VM that is not being deleted.

    Raises ProviderError, NotFoundError where it is not seen for a while.
    """
    net, (group, name) = vm.spec.net, vm.spec.path.split("/")
    subscription = net.account
    found = subscription.do(
        f"looking at the vm {name}",
        lambda: subscription.compute.virtual_machines.get(group, name, expand="instanceView"),
        ERRORS.is_gone,
        subscription.waits.gone_s,
    )
    if found.properties and found.properties.provisioning_state == "Deleting":
        return Gone()
    zones = [net.offers.zones.get(zone, zone) for zone in found.zones or ()]
    return location_of(found.properties, region, next(iter(zones), None), net.tenant.label)


def location_of(properties: Any, region: str, zone: str | None, tenant: str) -> Location:
    """Return the location in a VM's properties.

    Azure names a physical host only where it is a dedicated one. A fault domain, a rack or what
    shares no power and switch with others, has a number within its availability set.
    """
    view, spread, host = properties.instance_view, properties.availability_set, properties.host
    domain = view.platform_fault_domain if view else None
    scope = str(spread.id).lower() if spread and host is None else None
    return Location(
        host=str(host.id).lower() if host else None,
        host_scope=scope,
        rack=None if scope is None or domain is None else f"{scope}/{domain}",
        zone=zone,
        region=region,
        tenant=tenant,
    )


_KIND = "schedule"


@dataclass
class ShutdownSchedules:
    """Shutdown schedules of a run's VMs, renewed periodically. Thread-safe.

    A schedule can't be more than a day away. Where the deadline is, they are moved on as long as
    the controller lives, each time after ``renewed_s`` seconds.
    """

    maker: Maker
    context: RunContext
    region: str
    renewed_s: float
    _vms: list[Vm] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def add(self, vm: Vm) -> None:
        """Schedule a VM's shutdown, where its region supports it. Raises ProviderError."""
        body = schedule_body(vm.id, self.region, self._ends(time.time()))
        try:
            self.maker.make(vm.spec.account, _KIND, schedule_of(vm.spec.path), **body)
        except ProviderError as error:
            if not is_not_in_region(error.__cause__):
                raise
            lacks = f"Azure has no schedule in {self.region} to end {vm.spec.name} by"
            self.context.progress(lacks)
        else:
            self._vms.append(vm)

    def start(self) -> None:
        """Renew them periodically, if the deadline is too far away for one schedule."""
        if self._ends(time.time()) < self.context.deadline:
            self._thread.start()

    def stop(self) -> None:
        """Stop renewing them."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def renew(self, now: float) -> None:
        """Renew the existing schedules, as at a UNIX time. Raises ProviderError."""
        there = {one.name for one, _ in list(self.maker.made) if one.kind == _KIND}
        existing = [vm for vm in list(self._vms) if schedule_of(vm.spec.path) in there]
        map_concurrently(lambda vm: self._renew(vm, now), existing)

    def _renew(self, vm: Vm, now: float) -> None:
        subscription, name = vm.spec.net.account, schedule_of(vm.spec.path)
        body = schedule_body(vm.id, self.region, self._ends(now))
        request = TYPES[_KIND].request(self.maker.mark, name, **body)
        subscription.do(
            f"moving the {_KIND} {name} on",
            lambda: TYPES[_KIND].create(subscription, name, request),
        )

    def _ends(self, now: float) -> float:
        return min(self.context.deadline, now + FARTHEST_S)

    def _keep(self) -> None:
        while not self._stopped.wait(self.renewed_s):
            try:
                self.renew(time.time())
            except Interrupted:
                return
            except OsmefError as error:
                self.context.progress(f"Azure may end VMs within a day: {error.message}")


Numbered = tuple[int, EndpointRequest]
"""A request, and the number of the VM for it."""


@dataclass
class Provisioner(provisioning.Provisioner[Subscription, TenantNet, Vm]):
    """Creates the resources of one run, in order. Every method raises ProviderError."""

    _placements: dict[str, VmPlacement] = field(default_factory=dict)
    """By the name of the request."""
    _nics: dict[str, tuple[Any, list[Any]]] = field(default_factory=dict)
    """The public address and the interfaces of each VM, by its name with the group's."""

    def __post_init__(self) -> None:
        renewed_s = self.tenants[0].account.waits.renewed_s
        region = self.settings.region
        self.schedules = ShutdownSchedules(self.maker, self.context, region, renewed_s)

    def create_all(self) -> list[Vm]:
        """Create all resources, and schedule the VMs' shutdown."""
        made = super().create_all()
        self.schedules.start()
        return made

    def end(self) -> None:
        """Leave the VMs to their schedules."""
        self.schedules.stop()

    def make_net(self, tenant: Tenant[Subscription]) -> TenantNet:
        """Create a tenant's resource group."""
        offers = lookup.look_up(tenant.account, self.settings, self.requests_of(tenant))
        return network.make_net(self.maker, tenant, offers, self.settings.region)

    def names_of(self, vm: Vm) -> list[str]:
        """Return the names of a VM, its interfaces, its address and its schedule."""
        path = vm.spec.path
        return [path, *vm.spec.nic_paths, schedule_of(path)]

    def create_vms(self, requests: Sequence[EndpointRequest]) -> list[Vm]:
        """Create VMs with their addresses, lane by lane."""
        if not self._placements:
            run_concurrently(self._choose_places, self._make_networks)
        self.context.progress(f"making {len(requests)} VMs")
        lanes: dict[int, list[Numbered]] = defaultdict(list)
        for request in requests:
            lanes[request.lane].append((next(self.numbers), request))
        made = map_concurrently(self._create_lane, lanes.values())
        return [vm for some in made for vm in some]

    def _choose_places(self) -> None:
        placer = Placer(self.maker, self.settings, self.nets)
        self._placements = placer.place(self.context.requests)

    def _make_networks(self) -> None:
        def make(net: TenantNet) -> None:
            network.make_network(self.maker, net, self.settings, self.nic_network_count(net.tenant))

        map_concurrently(make, self.nets.values())

    def _create_lane(self, numbered: Sequence[Numbered]) -> list[Vm]:
        """Create the VMs of a lane; without capacity, in another zone where allowed."""
        first = self._where(numbered)

        def make_in(zone: str) -> list[Vm]:
            if zone != first:
                for _, request in numbered:
                    zones = self.nets[str(request.tenant)].offers.zones
                    placement = self._placements[request.name]
                    self._placements[request.name] = replace(placement, zone=zones.name_of(zone))
            return map_concurrently(self._make_vm, numbered)

        def roll_back() -> None:
            paths = {self._path(one) for one in numbered}
            gone = {("vm", p) for p in paths} | {("schedule", schedule_of(p)) for p in paths}
            self.remove([m for m in list(self.maker.made) if (m[0].kind, m[0].name) in gone])

        zones = [first, *self._other_zones(numbered)]
        return first_with_capacity(zones, make_in, roll_back, self.context.progress)

    def _where(self, numbered: Sequence[Numbered]) -> str:
        zones = {self._placements[request.name].zone for _, request in numbered} - {None}
        return f"zone {', '.join(sorted(map(str, zones)))}" if zones else self.settings.region

    def _other_zones(self, numbered: Sequence[Numbered]) -> list[str]:
        """Return the physical zones with all sizes wanted, where the zone is free to choose."""
        placements = [self._placements[request.name] for _, request in numbered]
        if any(
            placement.zone or placement.availability_set or placement.host
            for placement in placements
        ):
            return []
        offers = {slot: net.offers for slot, net in self.nets.items()}
        return common_zones(offers, [request for _, request in numbered])

    def _make_vm(self, one: Numbered) -> Vm:
        spec = self._spec(*one)
        if spec.path not in self._nics:
            self._nics[spec.path] = make_nics(self.maker, spec, self.settings)
        vm = make_vm(self.maker, spec, self.settings, *self._nics[spec.path])
        self.schedules.add(vm)
        return vm

    def allow_ingress(self, net: TenantNet, sources: set[str], before: set[str]) -> None:  # noqa: ARG002
        """Allow data from these addresses."""
        network.allow_ingress(net, sources)

    def _path(self, one: Numbered) -> str:
        return self.nets[str(one[1].tenant)].path(vm_name(*one))

    def _spec(self, number: int, request: EndpointRequest) -> VmSpec:
        return VmSpec(
            **self.common_spec(request, vm_name(number, request)),
            flavor=self.nets[str(request.tenant)].offers.flavor_of(request),
            placement=self._placements[request.name],
            ends=self.context.deadline,
        )


class AzureProvider(VmCloud[Subscription, Mark, Vm]):
    """VMs of one or several subscriptions in one region of Azure."""

    kind = "azure"
    Settings = AzureSettings
    rules = placement
    access_model = AzureAccess
    found_by = frozenset({"cloud", "uri"})
    types = TYPES
    provisioner_type = Provisioner
    opener = Subscription
    usual_waits = USUAL
    account_is = accounts_by = "subscription"

    def check(
        self,
        requests: Sequence[EndpointRequest],
        check_cancelled: CancellationCheck = never_cancelled,
    ) -> None:
        """Check credentials, registrations, names and quotas. Raises ProviderError."""
        settings = self._settings

        def check(share: Share[Subscription]) -> None:
            subscription, there, ours = share
            lookup.check_namespaces(subscription)
            offers = lookup.look_up(subscription, settings, ours)
            sizes = [offers.flavor_of(request) for request in ours]
            nics = sum(request.nics for request in ours)
            need = lookup.needs_of(settings, sizes, len(there), nics)
            lookup.check_quotas(subscription, settings.region, need)

        map_concurrently(
            check, account_shares(self.tenants_of(slots_of(requests), check_cancelled), requests)
        )

    def access_to(self, named: str | None) -> Access:
        """Return the access of a subscription, or of the environment's."""
        return access_with(cloud=named, uri=self._settings.endpoint_url)

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back the VMs' locations. Raises ProviderError."""
        region, made = self._settings.region, self.provisioned().vms

        def read(endpoint: Endpoint) -> Location:
            try:
                return read_place(made[endpoint.name], region)
            except NotFoundError:  # taken back, as spot VMs may be
                return Gone()

        return map_concurrently(read, endpoints)

    @classmethod
    def find(
        cls, account: Subscription, run: str | None, unread: Unread = ignore_unreadable
    ) -> list[Resource]:
        """List what is ours in a subscription: resource groups, and what is in them."""
        return [one.resource for one in list_owned(account, run, unread)]
