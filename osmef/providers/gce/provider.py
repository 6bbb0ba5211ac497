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
    Order,
    Resource,
    Unread,
    go_on,
    pass_over,
)
from osmef.providers.cloud import build
from osmef.providers.cloud.build import host_key_for
from osmef.providers.cloud.lookup import WantedFlavor
from osmef.providers.cloud.network import networks_for
from osmef.providers.cloud.placement import first_with_room
from osmef.providers.cloud.public_cloud import VmCloud, by_account
from osmef.providers.cloud.tenants import Tenant, access_with, slots_of
from osmef.providers.gce import placement
from osmef.providers.gce.access import AT_ONCE, Project, open_project
from osmef.providers.gce.instances import ENDED, Vm, VmOrder, look, make_vm
from osmef.providers.gce.lookup import (
    Image,
    MachineType,
    check_fits,
    check_nics,
    check_project,
    check_region,
    find_image,
    region_of,
    types_in,
    wanted_of,
    zones_of,
)
from osmef.providers.gce.network import Site, make_site, open_to
from osmef.providers.gce.placement import (
    Place,
    assign_nodes,
    location_of,
    make_policies,
    nodes_of,
    plan_policies,
)
from osmef.providers.gce.resource_types import TYPES, Maker, Mark
from osmef.providers.parallel import side_by_side
from osmef.scenario.clouds.gce import GceAccess, GceSettings
from osmef.scenario.location import Gone, Location


class GceProvider(VmCloud[Project, Mark, Vm]):
    """VMs in one or several projects of Google Cloud."""

    kind = "gce"
    Settings = GceSettings
    rules = placement
    access_model = GceAccess
    types = TYPES
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
        every = [one for types in plan.zones.values() for one in types.values()]
        images = [
            find_image(project, settings.image, architecture)
            for architecture in {one.architecture for one in every}
        ]
        check_fits(settings, every, images)
        for one in requests:
            for zone in [zones[one.name]] if one.zone or settings.zone else plan.free:
                check_nics(one, plan.zones[zone][wanted_of(settings, one)])
        for some in by_account(tenants).values():
            here = {tenant.slot for tenant in some}
            ours = [request for request in requests if request.tenant in here]
            types: dict[str, list[MachineType]] = {region: [] for region in plan.regions}
            for one in ours:
                zone = zones[one.name]
                types[region_of(zone)].append(plan.zones[zone][wanted_of(settings, one)])
            nics = [networks_for(settings, [one for one in ours if one.tenant == s]) for s in here]
            check_project(some[0].account, nics, settings, types)
            for region, them in types.items():
                check_region(some[0].account, region, settings, them)
        if settings.node_group is not None:
            for zone in set(zones.values()):
                nodes = nodes_of(project, settings, zone)
                assign_nodes([one for one in requests if zones[one.name] == zone], list(nodes))

    def log_in(self, named: str | None, check: Check) -> Project:
        """Open a project. Raises ProviderError."""
        cloud, uri = named or self._settings.project, self._settings.endpoint_url
        return open_project(access_with(cloud=cloud, uri=uri), check)

    def build(self, order: Order, tenants: Sequence[Tenant[Project]]) -> Build:
        """Return the builder of a run's VMs."""
        maker = Maker(Mark.of(order), order.ledger)
        return Build(self._settings, order, maker, tenants, self.remove, at_once=AT_ONCE)

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back the VMs' locations. Raises ProviderError."""
        vms = self.built().vms
        nodes: dict[str, dict[str, str]] = {}
        if self._settings.node_group is not None:
            for zone in {vms[endpoint.name].order.zone for endpoint in endpoints}:
                there = nodes_of(self._tenants[0].account, self._settings, zone)
                nodes[zone] = {vm: node for node, vms in there.items() for vm in vms}
        return [_place_of(vms[endpoint.name], nodes) for endpoint in endpoints]

    @classmethod
    def open(cls, access: Access) -> Project:
        """Open a project, by default that of the credentials. Raises CredentialsError."""
        return open_project(access)

    @classmethod
    def find(cls, account: Project, run: str | None, unread: Unread = pass_over) -> list[Resource]:
        """List our resources in a project, without boot disks: they are deleted with VMs."""
        there = super().find(account, run, unread)
        vms = {one.id for one in there if one.kind == "instance"}
        return [one for one in there if one.kind != "disk" or one.id not in vms]


def _place_of(vm: Vm, nodes: Mapping[str, Mapping[str, str]]) -> Location:
    """Read back a VM's location; ``nodes`` are sole-tenant ones by VM, by zone."""
    order = vm.order
    try:
        found = look(order)
    except NotFoundError:  # taken back, as spot VMs may be
        return Gone()
    if found.status in ENDED:
        return Gone()
    return location_of(found, order.site.tenant.label, order.account.id, nodes.get(order.zone, {}))


Types = Mapping[WantedFlavor, MachineType]


@dataclass(frozen=True)
class ZoneOffers:
    """The zones of each machine type, for all requests of a run.

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
) -> ZoneOffers:
    """Find zones in which the requests can be met. Raises NotFoundError, ProviderError."""
    wanted: dict[str | None, list[WantedFlavor]] = defaultdict(list)
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
        return ZoneOffers(fixed, {})
    zones = zones_of(project, settings.region)
    looked = side_by_side(lambda z: types_in(project, z, free), zones, at_once=AT_ONCE)
    there = {zone: types for zone, types in zip(zones, looked, strict=True) if types is not None}
    if not there:
        raise _lacks(f"each zone of {settings.region}", free)
    return ZoneOffers(fixed, there)


def _lacks(where: str, types: Sequence[WantedFlavor]) -> NotFoundError:
    names = ", ".join(dict.fromkeys(str(one) for one in types))
    return NotFoundError(
        f"{where} lacks one of: {names}",
        where="provider",
        cure="use another machine type or zone; see: gcloud compute machine-types list",
    )


@dataclass
class Build(build.Build[Project, Site, Vm]):
    """Provisioning of one run. Every step raises ProviderError."""

    plan: ZoneOffers = field(default_factory=lambda: ZoneOffers({}, {}))
    _places: dict[str, Place] = field(default_factory=dict)
    _images: dict[str, Image] = field(default_factory=dict)
    _rounds: Iterator[int] = field(default_factory=lambda: count(1))
    _rules: dict[str, str] = field(default_factory=dict)
    """The names of the rules that let addresses in, by the tenant's slot."""

    def look_up(self) -> None:
        """Find the zones of what is requested."""
        self.plan = plan_zones(self.tenants[0].account, self.settings, self.order.requests)

    def make_site(self, tenant: Tenant[Project]) -> Site:
        """Create a tenant's networks."""
        regions, nics = self.plan.regions, self.nic_networks(tenant)
        return make_site(self.maker, tenant, self.settings, regions, nics)

    def let_in(self, site: Site, sources: set[str], before: set[str]) -> None:  # noqa: ARG002
        """Allow data from these addresses, by a rule that replaces the earlier one."""
        slot = site.tenant.slot
        former = self._rules.pop(slot, None)
        if sources:
            blocks = [f"{address}/32" for address in sources]
            what = f"peers-{next(self._rounds)}"
            self._rules[slot] = open_to(self.maker, site.tenant, what, blocks)
        self.remove([one for one in self.maker.made if one[0].name == former])

    def stand_up(self, requests: Sequence[EndpointRequest]) -> list[Vm]:
        """Create VMs, and return them in the order of the requests.

        One that is made anew is in the zone of the old one. Those that name no zone are made
        together, in the first one with room for them. They may join the others there, so places
        are planned for all of them at once, and each try begins anew.
        """
        if self.vms:
            return self._boot(requests, {r.name: self.vms[r.name].order.zone for r in requests})
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

        def give_back() -> None:
            if stuck:  # another zone for the others is no help to those that name theirs
                raise stuck[0]
            self.remove(self.made_since(before))

        zones = list(self.plan.free) if free else [""]
        made = first_with_room(zones, make_in, give_back, self.order.progress)
        by_name = {vm.order.request.name: vm for vm in made}
        return [by_name[request.name] for request in requests]

    def _place(self, zones: Mapping[str, str], requests: Sequence[EndpointRequest]) -> None:
        if self.settings.node_group is not None:
            project = self.tenants[0].account
            for zone in dict.fromkeys(zones.values()):
                here = [one for one in requests if zones[one.name] == zone]
                nodes = list(nodes_of(project, self.settings, zone))
                self._places |= assign_nodes(here, nodes)
            return
        for tenants in by_account(self.tenants).values():
            slots = {tenant.slot for tenant in tenants}
            ours = [one for one in requests if one.tenant in slots]
            planned = plan_policies(self.maker, ours, zones, compact=self.settings.compact)
            self._places |= make_policies(self.maker, tenants[0].account, planned, zones)

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
        return VmOrder(
            request=request,
            name=self.maker.mark.name(f"vm-{next(self.numbers)}"),
            site=self.sites[str(request.tenant)],
            login_key=self.order.key,
            host_key=host_key_for(self.settings.host_keys, request),
            zone=zone,
            flavor=type_,
            image=self._image(type_.architecture),
            place=self._places.get(request.name, Place()),
        )

    def _image(self, architecture: str) -> Image:
        if architecture not in self._images:
            project = self.tenants[0].account
            self._images[architecture] = find_image(project, self.settings.image, architecture)
        return self._images[architecture]
