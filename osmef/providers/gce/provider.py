"""Google Compute Engine as the engine sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from google.cloud import compute_v1

from osmef.errors import NotFoundError, ProviderError
from osmef.providers.base import (
    Access,
    Check,
    Endpoint,
    EndpointRequest,
    Order,
    Provider,
    Resource,
    Unread,
    go_on,
    pass_over,
)
from osmef.providers.cards import networks_for
from osmef.providers.gce import feasible, removal
from osmef.providers.gce.access import Project, last, open_project
from osmef.providers.gce.building import Build, plan_zones
from osmef.providers.gce.fitting import check_fits, check_nics
from osmef.providers.gce.instances import ENDED, Vm
from osmef.providers.gce.kinds import KINDS, PROVIDER
from osmef.providers.gce.making import Maker
from osmef.providers.gce.marks import Mark
from osmef.providers.gce.names import find_image, region_of, wanted_of
from osmef.providers.gce.needs import check_project, check_region
from osmef.providers.gce.networks import Tenant
from osmef.providers.gce.places import location_of
from osmef.providers.gce.placing import assign_nodes, nodes_of
from osmef.providers.gce.tenants import slots_of, tenants_of
from osmef.remote.login import Login
from osmef.scenario.access import GceAccess
from osmef.scenario.clouds.gce import GceSettings
from osmef.scenario.fields import Family, Layer
from osmef.scenario.location import Gone, Location
from osmef.scenario.study import Cell


class GceProvider(Provider):
    """VMs in one or several projects of Google Cloud."""

    kind = PROVIDER
    Settings = GceSettings
    access_model = GceAccess
    outside = frozenset({Family.IPV4})
    has_zones = True
    gives_nics = True
    shares_nics = False

    def __init__(self, settings: GceSettings) -> None:
        self._settings = settings
        self._order: Order | None = None
        self._maker: Maker | None = None
        self._build: Build | None = None
        self._tenants: list[Tenant] = []

    def check(self, requests: Sequence[EndpointRequest], still: Check = go_on) -> None:
        """Check credentials, names and quotas. Raises ProviderError."""
        settings = self._settings
        tenants = tenants_of(settings, slots_of(requests))
        for tenant in tenants:
            tenant.project.check = still
        plan = plan_zones(tenants[0].project, settings, requests)
        # The quota is the region's: which of its zones is chosen does not matter.
        usual = settings.zone or next(iter(plan.free), "")
        zones = {one.name: one.zone or usual for one in requests}
        every = [one for types in plan.zones.values() for one in types.values()]
        project = tenants[0].project
        images = [
            find_image(project, settings.image, architecture)
            for architecture in {one.architecture for one in every}
        ]
        check_fits(settings, every, images)
        for one in requests:
            for zone in [zones[one.name]] if one.zone or settings.zone else plan.free:
                check_nics(one, plan.zones[zone][wanted_of(settings, one)])
        for project in _projects(tenants):
            here = {tenant.slot for tenant in tenants if tenant.project.id == project.id}
            ours = [request for request in requests if request.tenant in here]
            types = {
                region: [
                    plan.zones[zones[one.name]][wanted_of(settings, one)]
                    for one in ours
                    if region_of(zones[one.name]) == region
                ]
                for region in plan.regions
            }
            nics = [networks_for(settings, [one for one in ours if one.tenant == s]) for s in here]
            check_project(project, nics, settings, types)
            for region, some in types.items():
                check_region(project, region, settings, some)
        if settings.node_group is not None:
            for zone in set(zones.values()):
                nodes = nodes_of(tenants[0].project, settings, zone)
                assign_nodes([one for one in requests if zones[one.name] == zone], list(nodes))

    def problems(self, cell: Cell) -> list[tuple[str, str, str]]:
        """List what this cloud can't do, as far as the settings tell."""
        return list(feasible.problems_of(self._settings, cell))

    def warnings(self, cell: Cell) -> list[str]:
        """List what this cloud can't promise."""
        return list(feasible.warnings_of(self._settings, cell))

    def create(self, order: Order) -> list[Endpoint]:
        """Make networks and VMs, and wait until SSH gets in. Raises ProviderError."""
        self._order, self._maker = order, Maker(Mark.of(order), order.ledger)
        self._tenants = tenants_of(self._settings, slots_of(order.requests))
        for tenant in self._tenants:
            tenant.project.check = order.check
        plan = plan_zones(self._tenants[0].project, self._settings, order.requests)
        self._build = Build(
            self._settings, order, self._maker, self._tenants, plan, self._give_back
        )
        return [_endpoint(vm, login) for vm, login in self._build.make()]

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back where the VMs stand. Raises ProviderError."""
        build, projects = self._built(), _projects(self._tenants)
        nodes: dict[str, dict[str, str]] = {}

        def place(endpoint: Endpoint) -> Location:
            vm = build.vms[endpoint.name]
            found = vm.project.ask(
                f"looking at the instance {vm.order.name}",
                compute_v1.InstancesClient,
                "get",
                instance=vm.order.name,
                zone=vm.order.zone,
            )
            if found.status in ENDED:
                return Gone()
            label, known = vm.order.site.tenant.label, nodes.get(vm.order.zone, {})
            return location_of(found, label, vm.project.id, known)

        if self._settings.node_group is not None:
            for zone in {build.vms[endpoint.name].order.zone for endpoint in endpoints}:
                there = nodes_of(projects[0], self._settings, zone)
                nodes[zone] = {vm: node for node, vms in there.items() for vm in vms}
        found = []
        for endpoint in endpoints:
            try:
                found.append(place(endpoint))
            except NotFoundError:  # taken back, as spot VMs may be
                found.append(Gone())
        return found

    def replace(self, endpoint: Endpoint, order: Order) -> Endpoint:
        """Make a VM anew; the old one goes when the new one stands. Raises ProviderError."""
        build = self._built()
        old = build.vms[endpoint.name].order.name
        new, login = build.again(endpoint.request)
        self._remove(lambda resource: resource.name == old, order)
        build.enter([new])
        self._shut_out_others(build, order)
        return _endpoint(new, login)

    def admit(self, endpoints: Sequence[Endpoint], peers: Sequence[str]) -> None:
        """Open the data ports of the endpoints' networks to peers elsewhere, and nobody else."""
        build = self._built()
        build.admit([endpoint.name for endpoint in endpoints], peers)
        if self._order is not None:
            self._shut_out_others(build, self._order)

    def _shut_out_others(self, build: Build, order: Order) -> None:
        """Take away the rules that others took the place of."""
        self._remove(lambda resource: resource.name in build.outdated, order)
        build.outdated.clear()

    def close(self) -> None:
        """Destroy all that was made; may be called again. Raises ProviderError."""
        if self._order is not None:
            for tenant in self._tenants:
                tenant.project.check = lambda: None
            self._remove(lambda _: True, self._order)

    def data_address(
        self, receiver: Endpoint, sender: Endpoint, layer: Layer, family: Family
    ) -> str:
        """Return the address in the tenant's network, or for all others that on the Internet."""
        outside = receiver.public_address
        if receiver.request.tenant == sender.request.tenant or outside is None:
            return super().data_address(receiver, sender, layer, family)
        return outside

    def listen_address(
        self, receiver: Endpoint, sender: Endpoint, layer: Layer, family: Family
    ) -> str:
        """Return the address in the tenant's network: the one outside is translated to it."""
        return super().data_address(receiver, sender, layer, family)

    @classmethod
    def owned(
        cls, access: Access, run: str | None = None, unread: Unread = pass_over
    ) -> list[Resource]:
        """List what is ours in a project. Raises ProviderError."""
        return [thing.resource for thing in removal.owned(open_project(access), run, unread)]

    @classmethod
    def makes(cls, resource: Resource) -> bool:
        """Tell whether a resource is of a kind that it makes, with an id that says where it is."""
        kind = KINDS.get(resource.kind)
        return kind is not None and (resource.id is None or kind.has_id(resource.id))

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        """Destroy resources in the order that they need. Raises the first ProviderError."""
        keys = {tuple(sorted(resource.access.items())) for resource in resources}
        projects = {key: open_project(dict(key)) for key in keys}
        removal.remove(
            [(one, projects[tuple(sorted(one.access.items()))]) for one in resources], gone
        )

    def _built(self) -> Build:
        if self._build is None:
            raise ProviderError("nothing was made yet", where=PROVIDER)
        return self._build

    def _give_back(self, before: int) -> None:
        """Take away what was made since so many things were there."""
        if self._order is not None and self._maker is not None:
            late = {id(resource) for resource, _ in self._maker.made[before:]}
            self._remove(lambda resource: id(resource) in late, self._order)

    def _remove(self, which: Callable[[Resource], bool], order: Order) -> None:
        maker = self._maker
        if maker is None:
            return

        def gone(resource: Resource) -> None:
            order.ledger.destroyed(resource)
            maker.made = [one for one in maker.made if one[0] is not resource]

        removal.remove([one for one in maker.made if which(one[0])], gone)


def _projects(tenants: Sequence[Tenant]) -> list[Project]:
    return list({tenant.project.id: tenant.project for tenant in tenants}.values())


def _endpoint(vm: Vm, login: Login) -> Endpoint:
    order = vm.order
    return Endpoint(
        request=order.request,
        resource_id=f"{order.zone}/{order.name}",
        login=login,
        data_address=vm.private,
        flavor=order.type.name,
        vcpus=order.type.vcpus,
        public_address=vm.public,
        image=last(order.image.path),
        nics=vm.nics,
    )
