"""Provider of OpenStack: the servers of a run, beside physical hosts."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from ipaddress import IPv4Network
from typing import ClassVar

from keystoneauth1.access import AccessInfoV3
from openstack.connection import Connection

from osmef.errors import CredentialsError, NotFoundError, PolicyError, ProviderError
from osmef.providers.base import (
    Access,
    CancellationCheck,
    Endpoint,
    EndpointRequest,
    Problem,
    Provider,
    Resource,
    RunContext,
    Unread,
    ignore_unreadable,
    never_cancelled,
)
from osmef.providers.cloud import provisioning, resource_types
from osmef.providers.cloud.account import (
    CloudWaits,
    Tenant,
    access_with,
    offers_of,
    open_tenants,
    slots_of,
)
from osmef.providers.cloud.provisioning import BootingGuest
from osmef.providers.cloud.public_cloud import VmCloud
from osmef.providers.openstack import lookup, network, placement, servers
from osmef.providers.openstack.access import USUAL, Cloud, identity, login_of, open_cloud
from osmef.providers.openstack.lookup import KEY_PAIRS, needs_floating
from osmef.providers.openstack.network import NetMaker, TenantNet
from osmef.providers.openstack.placement import VmPlacement
from osmef.providers.openstack.resource_types import TYPES, Maker, Mark, Rule, rules_for
from osmef.providers.openstack.servers import FloatingAddresses, Server, ServerSpec
from osmef.providers.parallel import map_concurrently, run_in_thread
from osmef.providers.static.provider import HostEndpoints
from osmef.remote.login import KeyPair, Login
from osmef.remote.ssh_config import find_login
from osmef.scenario.clouds.openstack import OpenStackAccess, OpenStackSettings, PlacedBy, Reach
from osmef.scenario.fields import Family, ProviderNetwork
from osmef.scenario.layers import EVERYTHING
from osmef.scenario.location import Location
from osmef.scenario.study import Cell

_MADE = "made"


class OpenStackProvider(VmCloud[Cloud, Mark, Server]):
    """Servers of one or several projects in one region of an OpenStack cloud."""

    kind = "openstack"
    Settings = OpenStackSettings
    rules = placement
    access_model = OpenStackAccess
    found_by = frozenset({"cloud", "region"})
    types = TYPES
    mark_type = Mark
    opener = staticmethod(open_cloud)
    usual_waits = USUAL
    has_zones = False
    nics_carry = EVERYTHING
    account_is = "project"

    _maker: Maker | None = None
    _base: Cloud | None = None
    """The administrator's project, where those of the tenants are made."""

    def __init__(self, settings: OpenStackSettings, waits: CloudWaits | None = None) -> None:
        super().__init__(settings, waits)
        if settings.way_in is Reach.JUMP:  # its servers' addresses are its own
            self.outside = frozenset()
        self._hosts = HostEndpoints(settings.hosts, "OpenStack")

    def check(
        self,
        requests: Sequence[EndpointRequest],
        check_cancelled: CancellationCheck = never_cancelled,
    ) -> None:
        """Check credentials, names and quotas. Raises ProviderError."""
        self._hosts.check(requests)
        if slots_of(requests):  # else physical hosts alone
            run_in_thread(lambda both: self._check(requests, both), check_cancelled)

    def _check(
        self, requests: Sequence[EndpointRequest], check_cancelled: CancellationCheck
    ) -> None:
        settings, slots = self._settings, slots_of(requests)
        tenants, made = self.tenants_of(slots, check_cancelled), settings.projects == _MADE
        if settings.placement_by is PlacedBy.HOST:
            placement.usable_hosts(tenants[0].account, settings)
        floating = needs_floating(settings, requests)
        users = Counter(tenant.account.user_id for tenant in tenants)

        def check(tenant: Tenant[Cloud]) -> None:
            ours = [request for request in requests if request.tenant == tenant.slot]
            names = lookup.look_up(tenant.account, settings, ours, floating=floating)
            need = lookup.needs_of(settings, names, tenant.slot, requests)
            if KEY_PAIRS in need:  # they belong to the user, in whichever project
                need[KEY_PAIRS] = users[tenant.account.user_id]
            lookup.check_quotas(tenant.account, need, made=made)

        map_concurrently(check, tenants)

    def problems_of(self, cell: Cell) -> Iterator[Problem]:
        """Yield what this cloud can't do for any cell, by its settings."""
        yield from placement.problems_of_ends(self._settings, cell)
        if self._settings.userdata is not None:
            key = KeyPair.generate("osmef")
            try:
                servers.user_data_of(self._settings, key, key)
            except ProviderError as error:
                yield ("provider.userdata", error.message, str(error.cure))

    def single_tenant_cure(self) -> str | None:
        """Return the cure where the settings name a single project, None otherwise."""
        projects = self._settings.projects
        if projects == _MADE or (isinstance(projects, dict) and len(projects) > 1):
            return None
        return "name two projects in provider.projects, or write made, as an administrator"

    def machines(self, requests: Sequence[EndpointRequest]) -> Mapping[str, str]:
        """Return the machine of each physical host. Raises CapacityError."""
        return self._hosts.machines(requests)

    def access_to(self, named: str | None) -> Access:
        """Return the access of a cloud of clouds.yaml, or of the settings' own."""
        settings = self._settings
        return access_with(cloud=named or settings.cloud, region=settings.region)

    def tenants_of(self, slots: Sequence[str], check: CancellationCheck) -> list[Tenant[Cloud]]:
        """Log into the projects of the tenants, or make them in a run. Raises ProviderError.

        Where none are created yet, it is the administrator's.
        """
        projects = self._settings.projects
        if projects == _MADE:
            base = self._base = self.log_in(None, check)
            if self._maker is None:
                return [Tenant(slot, n, slot, base) for n, slot in enumerate(slots, 1)]
            return make_tenants(self._maker, base, slots)
        return open_tenants(
            slots,
            projects if isinstance(projects, dict) else {"": ""},
            lambda named: self.log_in(named, check),
            *("provider.projects", "project"),
        )

    def create(self, context: RunContext) -> list[Endpoint]:
        """Create networks and servers, and wait for SSH. Raises ProviderError."""
        if not slots_of(context.requests):
            return self._hosts.create(context)
        vms = super().create(context)
        made = {endpoint.name: endpoint for endpoint in (*self._hosts.made, *vms)}
        return [made[request.name] for request in context.requests]

    def provisioner(
        self, context: RunContext, maker: Maker, tenants: Sequence[Tenant[Cloud]]
    ) -> Provisioner:
        """Return the provisioner of a run's servers, with physical hosts locked."""
        hosts, fixed = self._hosts.create(context), self._hosts.names(context.requests)
        ours = replace(
            context, requests=[one for one in context.requests if one.tenant is not None]
        )
        return Provisioner(
            self._settings, ours, maker, tenants, self.remove, hosts=hosts, fixed=fixed
        )

    def endpoint(self, vm: Server, login: Login) -> Endpoint:
        """Return the endpoint that a server is."""
        direct = vm.private if self._settings.way_in is Reach.DIRECT else None
        return replace(super().endpoint(vm, login), public_address=vm.floating or direct)

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back the hosts of the servers, all of a project in one call."""
        physical = self._hosts.describe(endpoints)
        there = {}
        for tenant in self.provisioned().tenants if len(physical) < len(endpoints) else ():
            for server in servers.list_servers(tenant.account, self.provisioned().context.run):
                hosts, region = self._settings.compute_hosts, tenant.account.region
                there[str(server.id)] = placement.location_of(server, tenant.label, hosts, region)
        return [
            physical.get(endpoint.name)
            or there.get(endpoint.resource_id)
            or servers.unlisted(self.provisioned().vms[endpoint.name])
            for endpoint in endpoints
        ]

    def admit(self, endpoints: Sequence[Endpoint], peers: Sequence[str]) -> None:
        """Open the data ports of servers to peers elsewhere. Raises ProviderError."""
        if self._provisioner is not None:  # else there are physical hosts alone
            super().admit(endpoints, peers)

    def accounts(self) -> Iterable[Cloud]:
        """Return the tenants' projects, and the one that created them."""
        return [*super().accounts(), *([] if self._base is None else [self._base])]

    def close(self) -> None:
        """Destroy all resources; may be called again. Raises ProviderError."""
        try:
            super().close()
        finally:
            self._hosts.close()

    def access_after_run(self, endpoint: Endpoint) -> tuple[str, Access] | None:
        """Return how to reach a physical host after the run; None for a server."""
        return self._hosts.access_after_run(endpoint)

    def data_address(
        self, receiver: Endpoint, sender: Endpoint, layer: ProviderNetwork, family: Family
    ) -> str:
        """Return the address in a common network, else the floating one."""
        if receiver.request.tenant in {None, sender.request.tenant}:
            return Provider.data_address(self, receiver, sender, layer, family)
        return self.provisioned().vms[receiver.name].address_from(sender)

    @classmethod
    def open_again(cls, access: Access) -> Cloud | None:
        """Log into a project; None if it was deleted with its run. Raises ProviderError."""
        project = access.get("project")
        base = open_cloud(_home(access))
        if project is None:
            return base
        try:
            base.ask("looking for a project", lambda c: identity(c).get_project(project))
        except NotFoundError:
            return None
        return base.of_project(project)

    @classmethod
    def owned(
        cls, access: Access, run: str | None = None, unread: Unread = ignore_unreadable
    ) -> list[Resource]:
        """List our resources in the credentials' project, and in projects of runs."""
        found = resource_types.owned(TYPES, all_clouds(access), run, unread)
        return [one.resource for one in found]


@dataclass
class Provisioner(provisioning.Provisioner[Cloud, TenantNet, Server]):
    """Creates the servers of one run. Every method raises ProviderError."""

    vm_is: ClassVar[str] = "server"

    hosts: Sequence[Endpoint] = ()
    """The physical hosts that take part."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """The names of those of them by their slots."""
    _net_makers: dict[str, NetMaker] = field(default_factory=dict)
    _placements: dict[str, VmPlacement] = field(default_factory=dict)
    _joining: Sequence[Server] = ()
    """Running servers whose addresses other tenants allow before SSH answers."""

    def __post_init__(self) -> None:
        all_requests = [*self.context.requests, *(host.request for host in self.hosts)]
        self._floating = needs_floating(self.settings, all_requests)

    def look_up(self) -> None:
        """Look up all names, and choose the addresses of networks."""
        look_up = partial(lookup.look_up, floating=self._floating)
        known = offers_of(look_up, self.settings, self.tenants, self.context.requests)
        used = [subnet for names in known.values() for subnet in names.used] + network.used_here()
        for tenant in self.tenants:
            names = known[tenant.slot]
            own = self.settings.network is None
            sizes = [len(self.requests_of(tenant))] * (own + self.nic_network_count(tenant))
            cidrs: list[IPv4Network] = network.choose_subnets(sizes, used)
            used += cidrs
            cidr = cidrs[0] if own else None
            maker = NetMaker(self.maker, tenant, names, cidr, cidrs[own:])
            self._net_makers[tenant.slot] = maker

    def choose_places(self) -> None:
        """Create server groups, or choose among hosts or zones."""
        clouds = {tenant.slot: tenant.account for tenant in self.tenants}
        self._placements = placement.places_of(
            self.maker, self.settings, clouds, self.context.requests, self.fixed
        )

    def make_net(self, tenant: Tenant[Cloud]) -> TenantNet:
        """Create a tenant's network, its security group and its key pair."""
        return self._net_makers[tenant.slot].make(self.settings.keypair, self.context.key)

    def create_vms(self, requests: Sequence[EndpointRequest]) -> list[Server]:
        """Create running, reachable servers, in the order of the requests."""
        self.context.progress(f"making {len(requests)} servers")
        specs = [self._spec(request) for request in requests]
        with FloatingAddresses(self.maker) as floating:
            give = floating.give if self._floating else lambda _servers: None
            made = floating.given(servers.make_servers(self.maker, specs, self.settings, give))
        map_concurrently(servers.disable_port_security, made)
        self._joining = made
        self.open_data()
        return made

    def _spec(self, request: EndpointRequest) -> ServerSpec:
        net = self.nets[str(request.tenant)]
        return ServerSpec(
            **self.common_spec(
                request, servers.server_name(self.maker, next(self.numbers), request)
            ),
            flavor=net.names.flavors[request.flavor or self.settings.default_flavor],
            placement=self._placements[request.name],
        )

    def register(self, vms: Sequence[Server]) -> None:
        """Register servers for their requests; replaced ones are no longer admitted."""
        self._joining = ()
        super().register(vms)

    def guest_of(self, vm: Server) -> BootingGuest:
        """Return the same as a guest that boots."""
        return replace(
            super().guest_of(vm),
            address=vm.private if self.settings.way_in is Reach.JUMP else vm.public,
            look_s=vm.spec.account.waits.look_s,
            jump=self._jump,
        )

    @cached_property
    def _jump(self) -> Login | None:
        jump = self.settings.jump
        if self.settings.way_in is not Reach.JUMP or jump is None:
            return None
        return find_login(f"the jump host {jump}", jump)

    def names_of(self, vm: Server) -> list[str]:
        """Return the names of a server with its volume, and of its floating address."""
        return [vm.spec.name, vm.spec.ip_name]

    def sources(self, net: TenantNet) -> set[Rule]:
        """Return the rules of a tenant's group, if it was created for the run.

        SSH from here, and data from the peers.
        """
        if net.group is None:
            return set()
        known = {server.id: server for server in (*self.vms.values(), *self._joining)}.values()
        ours = [server.public for server in known if server.spec.net is net]
        share_network = bool(net.names.own)  # all are in the one network that the settings name
        others = [server for server in known if server.spec.net is not net]
        addresses = [server.private if share_network else server.public for server in others]
        addresses += [host.data_address for host in self.hosts]
        addresses += self._peers.get(net.tenant.slot, set())
        blocks = [f"{address}/32" for address in addresses]
        return {*rules_for(network.controllers_for(self.settings, ours), blocks)}

    def allow_ingress(self, net: TenantNet, sources: set[Rule], before: set[Rule]) -> None:
        """Update the run's group to these rules only."""
        network.open_group(net, sources - before)
        self._allowed[net.tenant.slot] = sources | before  # also if the rest fails
        network.close_group(net, before - sources)


def make_tenants(maker: Maker, base: Cloud, slots: Sequence[str]) -> list[Tenant[Cloud]]:
    """Create a project for each slot, as an admin. Raises PolicyError, ProviderError."""
    access: AccessInfoV3 = base.ask("logging in", login_of)

    def make(number: int) -> Tenant[Cloud]:
        name = maker.mark.name(f"tenant-{number}")
        project = maker.make(base, "project", name, domain_id=access.project_domain_id)
        base.ask("taking roles in the new project", partial(_take_roles, access, str(project.id)))
        return Tenant(slots[number - 1], number, name, base.of_project(str(project.id)))

    try:
        return map_concurrently(make, range(1, len(slots) + 1))
    except PolicyError as error:
        raise PolicyError(
            error.message,
            where="provider.projects: made",
            cure="only an administrator may make projects: name projects that are there",
        ) from error


def _take_roles(access: AccessInfoV3, project: str, connection: Connection) -> None:
    for role in access.role_ids or ():
        identity(connection).assign_project_role_to_user(project, str(access.user_id), role)


def all_clouds(access: Access) -> list[Cloud]:
    """Open a cloud, and all projects of runs in it. Raises ProviderError."""
    base = open_cloud(_home(access))
    clouds = [base]
    for project in TYPES["project"].owned(base, None):
        # A run that was killed before it had a role in the project has nothing in it.
        with contextlib.suppress(CredentialsError):
            clouds.append(base.of_project(project.id))
    return clouds


def _home(access: Access) -> Access:
    """Return the access of the credentials' own project."""
    return {key: value for key, value in access.items() if key != "project"}
