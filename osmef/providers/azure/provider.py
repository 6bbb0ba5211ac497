"""Provider of Azure, and the VMs of a run in a region with capacity for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from osmef.errors import NotFoundError
from osmef.providers.azure import lookup, network, placement, vms
from osmef.providers.azure.access import USUAL, Subscription
from osmef.providers.azure.network import TenantNet
from osmef.providers.azure.placement import Placer, VmPlacement
from osmef.providers.azure.resource_types import TYPES, list_owned, schedule_of
from osmef.providers.azure.vms import ShutdownSchedules, Vm, VmSpec
from osmef.providers.base import (
    Access,
    Check,
    Endpoint,
    EndpointRequest,
    Resource,
    Unread,
    go_on,
    pass_over,
)
from osmef.providers.cloud import build
from osmef.providers.cloud.lookup import common_zones
from osmef.providers.cloud.placement import first_with_room
from osmef.providers.cloud.public_cloud import Share, VmCloud, shares
from osmef.providers.cloud.tenants import Tenant, access_with, slots_of
from osmef.providers.marks import Mark
from osmef.providers.parallel import side_by_side, together
from osmef.scenario.clouds.azure import AzureAccess, AzureSettings
from osmef.scenario.location import Gone, Location

Numbered = tuple[int, EndpointRequest]
"""A request, and the number of the VM for it."""


@dataclass
class Build(build.Build[Subscription, TenantNet, Vm]):
    """Provisioning of one run. Every method raises ProviderError."""

    _places: dict[str, VmPlacement] = field(default_factory=dict)
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
        if not self._places:
            together(self._choose_places, self._make_networks)
        self.context.progress(f"making {len(requests)} VMs")
        lanes: dict[int, list[Numbered]] = defaultdict(list)
        for request in requests:
            lanes[request.lane].append((next(self.numbers), request))
        made = side_by_side(self._create_lane, lanes.values())
        return [vm for some in made for vm in some]

    def _choose_places(self) -> None:
        placer = Placer(self.maker, self.settings, self.nets)
        self._places = placer.place(self.context.requests)

    def _make_networks(self) -> None:
        def make(net: TenantNet) -> None:
            network.make_network(self.maker, net, self.settings, self.nic_networks(net.tenant))

        side_by_side(make, self.nets.values())

    def _create_lane(self, numbered: Sequence[Numbered]) -> list[Vm]:
        """Create the VMs of a lane; without capacity, in another zone where allowed."""
        first = self._where(numbered)

        def make_in(zone: str) -> list[Vm]:
            if zone != first:
                for _, request in numbered:
                    zones = self.nets[str(request.tenant)].offers.zones
                    place = self._places[request.name]
                    self._places[request.name] = replace(place, zone=zones.name_of(zone))
            return side_by_side(self._make_vm, numbered)

        def roll_back() -> None:
            paths = {self._path(one) for one in numbered}
            gone = {("vm", p) for p in paths} | {("schedule", schedule_of(p)) for p in paths}
            self.remove([m for m in list(self.maker.made) if (m[0].kind, m[0].name) in gone])

        zones = [first, *self._other_zones(numbered)]
        return first_with_room(zones, make_in, roll_back, self.context.progress)

    def _where(self, numbered: Sequence[Numbered]) -> str:
        zones = {self._places[request.name].zone for _, request in numbered} - {None}
        return f"zone {', '.join(sorted(map(str, zones)))}" if zones else self.settings.region

    def _other_zones(self, numbered: Sequence[Numbered]) -> list[str]:
        """Return the physical zones with all sizes wanted, where the zone is free to choose."""
        places = [self._places[request.name] for _, request in numbered]
        if any(place.zone or place.availability_set or place.host for place in places):
            return []
        offers = {slot: net.offers for slot, net in self.nets.items()}
        return common_zones(offers, [request for _, request in numbered])

    def _make_vm(self, one: Numbered) -> Vm:
        spec = self._spec(*one)
        if spec.path not in self._nics:
            self._nics[spec.path] = vms.make_nics(self.maker, spec, self.settings)
        vm = vms.make_vm(self.maker, spec, self.settings, *self._nics[spec.path])
        self.schedules.add(vm)
        return vm

    def let_in(self, net: TenantNet, sources: set[str], before: set[str]) -> None:  # noqa: ARG002
        """Allow data from these addresses."""
        network.let_in(net, sources)

    def _path(self, one: Numbered) -> str:
        return self.nets[str(one[1].tenant)].path(vms.vm_name(*one))

    def _spec(self, number: int, request: EndpointRequest) -> VmSpec:
        return VmSpec(
            **self.basis(request, vms.vm_name(number, request)),
            flavor=self.nets[str(request.tenant)].offers.flavor_of(request),
            place=self._places[request.name],
            ends=self.context.deadline,
        )


class AzureProvider(VmCloud[Subscription, Mark, Vm]):
    """VMs of one or several subscriptions in one region of Azure."""

    kind = "azure"
    Settings = AzureSettings
    rules = placement
    access_model = AzureAccess
    types = TYPES
    build_type = Build
    opener = Subscription
    usual_waits = USUAL
    account_is = accounts_by = "subscription"

    def check(self, requests: Sequence[EndpointRequest], still: Check = go_on) -> None:
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

        side_by_side(check, shares(self.tenants_of(slots_of(requests), still), requests))

    def access_to(self, named: str | None) -> Access:
        """Return the access of a subscription, or of the environment's."""
        return access_with(cloud=named, uri=self._settings.endpoint_url)

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back the VMs' locations. Raises ProviderError."""
        region, made = self._settings.region, self.built().vms

        def read(endpoint: Endpoint) -> Location:
            try:
                return vms.read_place(made[endpoint.name], region)
            except NotFoundError:  # taken back, as spot VMs may be
                return Gone()

        return side_by_side(read, endpoints)

    @classmethod
    def find(
        cls, account: Subscription, run: str | None, unread: Unread = pass_over
    ) -> list[Resource]:
        """List what is ours in a subscription: resource groups, and what is in them."""
        return [one.resource for one in list_owned(account, run, unread)]
