"""What a run makes: a network for each tenant, and VMs in the zone that has room for them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from osmef.errors import CapacityError, NotFoundError
from osmef.providers.base import EndpointRequest, Order
from osmef.providers.cards import networks_for
from osmef.providers.gce.access import AT_ONCE, Project
from osmef.providers.gce.instances import Vm, VmOrder, make_vm
from osmef.providers.gce.making import Maker
from osmef.providers.gce.names import (
    Image,
    MachineType,
    Wanted,
    find_image,
    region_of,
    types_in,
    wanted_of,
    zones_of,
)
from osmef.providers.gce.networks import Site, Tenant, make_site, open_to
from osmef.providers.gce.placing import (
    Place,
    assign_nodes,
    make_policies,
    nodes_of,
    plan_policies,
)
from osmef.providers.gce.reach import reach_all
from osmef.providers.parallel import side_by_side
from osmef.remote.keys import KeyPair
from osmef.remote.login import Login
from osmef.scenario.clouds.base import HostKeys
from osmef.scenario.clouds.gce import GceSettings

Types = Mapping[Wanted, MachineType]


@dataclass(frozen=True)
class Plan:
    """Which zone has which machine types, for all requests of a run.

    ``free`` are the zones of the region for the requests that name none, in which to try them.
    """

    fixed: Mapping[str, Types]
    free: Mapping[str, Types]

    @property
    def zones(self) -> dict[str, Types]:
        """All of them."""
        both = dict.fromkeys([*self.fixed, *self.free])
        return {zone: {**self.fixed.get(zone, {}), **self.free.get(zone, {})} for zone in both}

    @property
    def regions(self) -> list[str]:
        """The regions of all zones, in their order."""
        return list(dict.fromkeys(region_of(zone) for zone in sorted(self.zones)))


def plan_zones(
    project: Project, settings: GceSettings, requests: Sequence[EndpointRequest]
) -> Plan:
    """Look up in which zones the requests can be met. Raises NotFoundError, ProviderError."""
    wanted: dict[str | None, list[Wanted]] = defaultdict(list)
    for request in requests:
        wanted[request.zone or settings.zone].append(wanted_of(settings, request))
    free = wanted.pop(None, [])
    fixed = {}
    for zone, types in wanted.items():
        found = types_in(project, str(zone), types)
        if found is None:
            raise _lacks(f"the zone {zone}", types)
        fixed[str(zone)] = found
    if not free:
        return Plan(fixed, {})
    zones = zones_of(project, settings.region)
    looked = side_by_side(lambda z: types_in(project, z, free), zones, at_once=AT_ONCE)
    there = {zone: types for zone, types in zip(zones, looked, strict=True) if types is not None}
    if not there:
        raise _lacks(f"each zone of {settings.region}", free)
    return Plan(fixed, there)


def _lacks(where: str, types: Sequence[Wanted]) -> NotFoundError:
    names = ", ".join(dict.fromkeys(str(one) for one in types))
    return NotFoundError(
        f"{where} lacks one of: {names}",
        where="provider",
        cure="use another machine type or zone; see: gcloud compute machine-types list",
    )


@dataclass
class Build:
    """Makes the sites and VMs of a run. Every step raises ProviderError."""

    settings: GceSettings
    order: Order
    maker: Maker
    tenants: Sequence[Tenant]
    plan: Plan
    undo: Callable[[int], None]
    """Takes away what was made since so many things were there."""
    vms: dict[str, Vm] = field(default_factory=dict)
    """By the name of the request."""
    _sites: dict[str, Site] = field(default_factory=dict)
    _places: dict[str, Place] = field(default_factory=dict)
    _images: dict[str, Image] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _rounds: count[int] = field(default_factory=lambda: count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _rules: dict[tuple[str, str], str] = field(default_factory=dict)
    """The names of the rules that let addresses in, by what for and to which tenant's slot."""
    outdated: set[str] = field(default_factory=set)
    """The names of such rules before them, which may let in addresses that are others' now."""

    def make(self) -> list[tuple[Vm, Login]]:
        """Make all, and return the VMs of the requests, in their order."""
        self.order.progress(f"making {len(self.tenants)} network(s)")
        regions = self.plan.regions
        sites = side_by_side(
            lambda tenant: make_site(
                self.maker, tenant, self.settings, regions, self._nic_networks(tenant)
            ),
            self.tenants,
        )
        self._sites = {site.tenant.slot: site for site in sites}
        made = self._reach(self._stand_up())
        self.enter([vm for vm, _login in made])
        return made

    def _nic_networks(self, tenant: Tenant) -> int:
        ours = [one for one in self.order.requests if one.tenant == tenant.slot]
        return networks_for(self.settings, ours)

    def again(self, request: EndpointRequest) -> tuple[Vm, Login]:
        """Make one more VM for a request, beside that which counts until this one is entered."""
        made = self._boot([request], {request.name: self.vms[request.name].order.zone})
        return self._reach(made)[0]

    def enter(self, vms: Sequence[Vm]) -> None:
        """Have VMs be those of their requests, and let tenants at each other's addresses."""
        self.vms |= {vm.order.request.name: vm for vm in vms}
        for site in self._sites.values():
            others = [vm for vm in self.vms.values() if vm.order.site.tenant != site.tenant]
            self._let_in("peers", site.tenant, [vm.public for vm in others])

    def admit(self, names: Sequence[str], peers: Sequence[str]) -> None:
        """Open the data ports of these requests' networks to these addresses elsewhere alone."""
        for slot in {self.vms[name].order.site.tenant.slot for name in names}:
            self._let_in("sites", self._sites[slot].tenant, peers)

    def _let_in(self, what: str, tenant: Tenant, addresses: Sequence[str]) -> None:
        """Let addresses at a tenant, by a rule that takes the place of that for the same so far."""
        former = self._rules.pop((what, tenant.slot), None)
        if former is not None:
            self.outdated.add(former)
        if addresses:
            blocks = [f"{address}/32" for address in addresses]
            rule = open_to(self.maker, tenant, f"{what}-{next(self._rounds)}", blocks)
            self._rules[what, tenant.slot] = rule

    def _stand_up(self) -> list[Vm]:
        """Make the VMs, and return them in the order of the requests.

        Those that name no zone are made together, in the first one with room for them. They may
        join the others there, so places are planned for all of them at once, and each try begins
        anew.
        """
        requests = self.order.requests
        fixed = {one.name: zone for one in requests if (zone := one.zone or self.settings.zone)}
        named = [one for one in requests if one.name in fixed]
        free = [one for one in requests if one.name not in fixed]
        zones = list(self.plan.free) if free else [""]
        for zone, others in zip(zones, reversed(range(len(zones))), strict=True):
            before = len(self.maker.made)
            there = {**{one.name: zone for one in free}, **fixed}
            self._places = {}
            self._place(there, requests)
            made = self._boot(named, there)
            try:
                made += self._boot(free, there)
            except CapacityError as error:
                if not others:
                    raise
                self.order.progress(f"{zone} has no room, trying another: {error.message}")
                self.undo(before)
            else:
                break
        by_name = {vm.order.request.name: vm for vm in made}
        return [by_name[request.name] for request in requests]

    def _place(self, zones: Mapping[str, str], requests: Sequence[EndpointRequest]) -> None:
        if self.settings.node_group is not None:
            project = self.tenants[0].project
            for zone in dict.fromkeys(zones.values()):
                here = [one for one in requests if zones[one.name] == zone]
                nodes = list(nodes_of(project, self.settings, zone))
                self._places |= assign_nodes(here, nodes)
            return
        for project in {tenant.project.id: tenant.project for tenant in self.tenants}.values():
            ours = [one for one in requests if self._site(one).tenant.project.id == project.id]
            planned = plan_policies(self.maker, ours, zones, compact=self.settings.compact)
            self._places |= make_policies(self.maker, project, planned, zones)

    def _boot(self, requests: Sequence[EndpointRequest], zones: Mapping[str, str]) -> list[Vm]:
        if not requests:
            return []
        where = dict.fromkeys(zones[one.name] for one in requests)
        self.order.progress(f"making {len(requests)} VM(s) in {', '.join(where)}")
        orders = [self._order(one, zones[one.name]) for one in requests]
        return side_by_side(
            lambda order: make_vm(self.maker, order, self.settings), orders, at_once=AT_ONCE
        )

    def _order(self, request: EndpointRequest, zone: str) -> VmOrder:
        type_ = self.plan.zones[zone][wanted_of(self.settings, request)]
        given = self.settings.host_keys is HostKeys.GIVEN
        return VmOrder(
            request=request,
            name=self.maker.mark.name(f"vm-{next(self._numbers)}"),
            site=self._site(request),
            zone=zone,
            type=type_,
            image=self._image(type_.architecture),
            place=self._places.get(request.name, Place()),
            login_key=self.order.key,
            host_key=KeyPair.generate(request.name) if given else None,
        )

    def _image(self, architecture: str) -> Image:
        if architecture not in self._images:
            project = self.tenants[0].project
            self._images[architecture] = find_image(project, self.settings.image, architecture)
        return self._images[architecture]

    def _site(self, request: EndpointRequest) -> Site:
        return self._sites[str(request.tenant)]

    def _reach(self, vms: Sequence[Vm]) -> list[tuple[Vm, Login]]:
        """Wait for SSH."""
        self.order.progress("waiting for SSH")
        return list(zip(vms, reach_all(self.settings, vms, self.order), strict=True))
