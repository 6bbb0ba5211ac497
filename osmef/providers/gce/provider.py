"""Provider of Compute Engine, and the VMs of a run in a zone with capacity for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from osmef.errors import CapacityError, NotFoundError
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
from osmef.providers.cloud.lookup import Flavor, WantedFlavor, check_cards
from osmef.providers.cloud.placement import first_with_room
from osmef.providers.cloud.public_cloud import VmCloud, shares
from osmef.providers.cloud.tenants import Tenant, access_with, networks_for, slots_of
from osmef.providers.gce import lookup, placement
from osmef.providers.gce.access import AT_ONCE, Project
from osmef.providers.gce.instances import ENDED, Vm, VmSpec, look, make_vm
from osmef.providers.gce.lookup import Image, region_of
from osmef.providers.gce.network import TenantNet, make_net, open_to
from osmef.providers.gce.placement import VmPlacement
from osmef.providers.gce.resource_types import TYPES, Mark
from osmef.providers.parallel import side_by_side
from osmef.scenario.clouds.gce import GceAccess, GceSettings
from osmef.scenario.location import Gone, Location


def _place_of(vm: Vm, nodes: Mapping[str, str]) -> Location:
    """Read back a VM's location; ``nodes`` are sole-tenant ones by the names of their VMs."""
    spec = vm.spec
    try:
        found = look(spec)
    except NotFoundError:  # taken back, as spot VMs may be
        return Gone()
    if found.status in ENDED:
        return Gone()
    return placement.location_of(found, spec.net.tenant.label, spec.account.id, nodes)


Types = Mapping[WantedFlavor, Flavor]


@dataclass(frozen=True)
class ZoneOffers:
    """The machine types in each zone, for all requests of a run.

    ``free`` are the zones of the region in which to try the requests that name none.
    """

    zones: Mapping[str, Types] = field(default_factory=dict)
    free: Sequence[str] = ()

    @property
    def types(self) -> list[Flavor]:
        """All machine types, in all zones."""
        return [one for types in self.zones.values() for one in types.values()]

    @property
    def regions(self) -> list[str]:
        """The regions of all zones, in their order."""
        return list(dict.fromkeys(region_of(zone) for zone in sorted(self.zones)))

    def type_of(self, settings: GceSettings, request: EndpointRequest, zone: str) -> Flavor:
        """Return the machine type of a request in a zone."""
        return self.zones[zone][request.flavor or settings.default_flavor]


def plan_zones(
    project: Project, settings: GceSettings, requests: Sequence[EndpointRequest]
) -> ZoneOffers:
    """Find zones in which the requests can be met. Raises NotFoundError, ProviderError."""
    wanted: dict[str | None, list[WantedFlavor]] = defaultdict(list)
    for request in requests:
        wanted[request.zone or settings.zone].append(request.flavor or settings.default_flavor)
    free = wanted.pop(None, [])
    offers: dict[str, Types] = {}
    for zone, types in wanted.items():
        found = lookup.types_in(project, str(zone), types)
        if found is None:
            raise _lacks(f"the zone {zone}", types)
        offers[str(zone)] = found
    zones = lookup.zones_of(project, settings.region) if free else []
    looked = side_by_side(lambda z: lookup.types_in(project, z, free), zones, at_once=AT_ONCE)
    there = {zone: types for zone, types in zip(zones, looked, strict=True) if types is not None}
    if free and not there:
        raise _lacks(f"each zone of {settings.region}", free)
    offers |= {zone: {**offers.get(zone, {}), **types} for zone, types in there.items()}
    return ZoneOffers(offers, list(there))


def _lacks(where: str, types: Sequence[WantedFlavor]) -> NotFoundError:
    names = ", ".join(dict.fromkeys(str(one) for one in types))
    return NotFoundError(
        f"{where} lacks one of: {names}",
        where="provider",
        cure="use another machine type or zone; see: gcloud compute machine-types list",
    )


@dataclass
class Build(build.Build[Project, TenantNet, Vm]):
    """Provisioning of one run. Every step raises ProviderError."""

    at_once: int = AT_ONCE
    plan: ZoneOffers = field(default_factory=ZoneOffers)
    _places: dict[str, VmPlacement] = field(default_factory=dict)
    _images: dict[str, Image] = field(default_factory=dict)
    _rounds: Iterator[int] = field(default_factory=lambda: count(1))
    _rules: dict[str, str] = field(default_factory=dict)
    """The names of the rules that let addresses in, by the tenant's slot."""

    def look_up(self) -> None:
        """Find the zones of what is requested, and its images."""
        project = self.tenants[0].account
        self.plan = plan_zones(project, self.settings, self.context.requests)
        self._images = lookup.images_for(project, self.settings, self.plan.types)

    def make_net(self, tenant: Tenant[Project]) -> TenantNet:
        """Create a tenant's networks."""
        regions, nics = self.plan.regions, self.nic_networks(tenant)
        return make_net(self.maker, tenant, self.settings, regions, nics)

    def let_in(self, net: TenantNet, sources: set[str], before: set[str]) -> None:  # noqa: ARG002
        """Allow data from these addresses, by a rule that replaces the earlier one."""
        slot = net.tenant.slot
        former = self._rules.pop(slot, None)
        if sources:
            blocks = [f"{address}/32" for address in sources]
            what = f"peers-{next(self._rounds)}"
            self._rules[slot] = open_to(self.maker, net, what, blocks)
        self.remove([one for one in self.maker.made if one[0].name == former])

    def create_vms(self, requests: Sequence[EndpointRequest]) -> list[Vm]:
        """Create VMs.

        A recreated VM is in the zone of the old one. Those that name no zone are created
        together, in the first zone with capacity for them. They may join the others there, so
        placement is planned for all of them at once, and again in each try.
        """
        if self.vms:
            return self._boot(requests, {r.name: self.vms[r.name].spec.zone for r in requests})
        fixed = {one.name: zone for one in requests if (zone := one.zone or self.settings.zone)}
        named = [one for one in requests if one.name in fixed]
        free = [one for one in requests if one.name not in fixed]
        before, stuck = len(self.maker.made), list[CapacityError]()

        def make_in(zone: str) -> list[Vm]:
            there = {**{one.name: zone for one in free}, **fixed}
            self._places = {}
            self._place(there, requests)
            try:
                made = self._boot(named, there)
            except CapacityError as error:
                stuck.append(error)
                raise
            return made + self._boot(free, there)

        def roll_back() -> None:
            if stuck:  # another zone for the others is no help to those that name theirs
                raise stuck[0]
            self.remove(self.made_since(before))

        zones = self.plan.free or [""]
        return first_with_room(zones, make_in, roll_back, self.context.progress)

    def _place(self, zones: Mapping[str, str], requests: Sequence[EndpointRequest]) -> None:
        if self.settings.node_group is not None:
            project = self.tenants[0].account
            self._places = placement.places_on_nodes(project, self.settings, requests, zones)
            return
        for project, _, ours in shares(self.tenants, requests):
            compact = self.settings.compact
            made = placement.make_policies(self.maker, project, ours, zones, compact=compact)
            self._places |= made

    def _boot(self, requests: Sequence[EndpointRequest], zones: Mapping[str, str]) -> list[Vm]:
        if not requests:
            return []
        where = dict.fromkeys(zones[one.name] for one in requests)
        self.context.progress(f"making {len(requests)} VM(s) in {', '.join(where)}")
        specs = [self._spec(one, zones[one.name]) for one in requests]
        return side_by_side(
            lambda spec: make_vm(self.maker, spec, self.settings), specs, at_once=AT_ONCE
        )

    def _spec(self, request: EndpointRequest, zone: str) -> VmSpec:
        type_ = self.plan.type_of(self.settings, request, zone)
        return VmSpec(
            **self.basis(request, self.maker.mark.name(f"vm-{next(self.numbers)}")),
            zone=zone,
            flavor=type_,
            image=self._images[type_.architecture],
            place=self._places.get(request.name, VmPlacement()),
        )


class GceProvider(VmCloud[Project, Mark, Vm]):
    """VMs in one or several projects of Google Cloud."""

    kind = "gce"
    Settings = GceSettings
    rules = placement
    access_model = GceAccess
    types = TYPES
    build_type = Build
    mark_type = Mark
    opener = Project
    at_once = AT_ONCE
    account_is = accounts_by = "project"

    def check(self, requests: Sequence[EndpointRequest], still: Check = go_on) -> None:
        """Check credentials, names and quotas. Raises ProviderError."""
        settings, tenants = self._settings, self.tenants_of(slots_of(requests), still)
        project = tenants[0].account
        plan = plan_zones(project, settings, requests)
        # The quota is the region's: which of its zones is chosen does not matter.
        usual = settings.zone or next(iter(plan.free), "")
        zones = {one.name: one.zone or usual for one in requests}
        images = lookup.images_for(project, settings, plan.types)
        lookup.check_fits(settings, plan.types, images.values())
        chosen = {one.name: plan.type_of(settings, one, zones[one.name]) for one in requests}
        for one in requests:
            for zone in [zones[one.name]] if one.zone or settings.zone else plan.free:
                check_cards(one, plan.type_of(settings, one, zone))
        for account, some, ours in shares(tenants, requests):
            types: dict[str, list[Flavor]] = {region: [] for region in plan.regions}
            for one in ours:
                types[region_of(zones[one.name])].append(chosen[one.name])
            nics = [networks_for(settings, [r for r in ours if r.tenant == t.slot]) for t in some]
            lookup.check_project(account, nics, settings, types)
            for region, them in types.items():
                lookup.check_region(account, region, settings, them)
        if settings.node_group is not None:
            placement.places_on_nodes(project, settings, requests, zones)

    def access_to(self, named: str | None) -> Access:
        """Return the access of a project, or of the settings' own."""
        settings = self._settings
        return access_with(cloud=named or settings.project, uri=settings.endpoint_url)

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back the VMs' locations. Raises ProviderError."""
        vms = [self.built().vms[endpoint.name] for endpoint in endpoints]
        nodes: dict[str, str] = {}
        for zone in {vm.spec.zone for vm in vms} if self._settings.node_group else ():
            there = placement.nodes_of(self._tenants[0].account, self._settings, zone)
            nodes |= {name: node for node, names in there.items() for name in names}
        return [_place_of(vm, nodes) for vm in vms]

    @classmethod
    def find(cls, account: Project, run: str | None, unread: Unread = pass_over) -> list[Resource]:
        """List our resources in a project, without boot disks: they are deleted with VMs."""
        there = super().find(account, run, unread)
        vms = {one.id for one in there if one.kind == "instance"}
        return [one for one in there if one.kind != "disk" or one.id not in vms]
