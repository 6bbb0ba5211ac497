"""Provider of Compute Engine: the VMs of a run in a zone with capacity for them."""

from __future__ import annotations

import base64
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from itertools import count
from typing import Any

from google.cloud import compute_v1

from osmef.errors import BootError, CapacityError, NotFoundError
from osmef.providers.base import (
    Access,
    CancellationCheck,
    Endpoint,
    EndpointRequest,
    Resource,
    Unread,
    ignore_unreadable,
    never_cancelled,
)
from osmef.providers.cloud import provisioning
from osmef.providers.cloud.account import Again, Tenant, access_with, nic_network_count, slots_of
from osmef.providers.cloud.lookup import Flavor, WantedFlavor, check_cards, first_with_capacity
from osmef.providers.cloud.provisioning import BootingGuest
from osmef.providers.cloud.public_cloud import VmCloud, account_shares
from osmef.providers.cloud_init import cloud_config, keys_in, user_data
from osmef.providers.gce import lookup, placement
from osmef.providers.gce.access import AT_ONCE, ERRORS, Project, last
from osmef.providers.gce.lookup import Image, disk_type_of, region_of
from osmef.providers.gce.network import TenantNet, make_net, open_to
from osmef.providers.gce.placement import VmPlacement
from osmef.providers.gce.resource_types import TYPES, Maker, Mark
from osmef.providers.parallel import map_concurrently
from osmef.remote.login import HostKeys
from osmef.scenario.clouds.gce import GceAccess, GceSettings, NicType
from osmef.scenario.location import Gone, Location
from osmef.units import whole_gib

USER = "osmef"
"""The account that the guest agent makes where the settings name none."""
ENDED = {"DEPROVISIONING", "STOPPED", "STOPPING", "SUSPENDED", "SUSPENDING", "TERMINATED"}
"""States of a VM that ran and does so no more, or not for long."""
_HOST_KEYS = "hostkeys/"
"""The namespace of guest attributes that the guest agent writes at a VM's first boot."""
_LEAST_RUN_S, _LONGEST_RUN_S = 30, 120 * 24 * 3600
_TIER_1 = {"total_egress_bandwidth_tier": "TIER_1"}
_NICS = {NicType.GVNIC: "GVNIC", NicType.VIRTIO: "VIRTIO_NET"}


@dataclass(frozen=True)
class VmSpec(provisioning.VmSpec[TenantNet]):
    """A VM to create."""

    zone: str
    image: Image
    placement: VmPlacement

    @property
    def image_name(self) -> str:
        """The name of its image."""
        return last(self.image.path)


@dataclass(frozen=True)
class Vm(provisioning.Vm[VmSpec]):
    """A running VM."""

    shown_by = "serial port"

    def user(self, settings: GceSettings) -> str:
        """Return the account that SSH logs into."""
        return settings.user or USER

    def guest(self, settings: GceSettings) -> BootingGuest:
        """Return the same as a guest that boots, whose agent may write its host keys."""
        return replace(super().guest(settings), look_s=1.0, other_keys=self._guest_attributes)

    def _guest_attributes(self) -> HostKeys | None:
        """Return the host keys in its guest attributes, where its agent writes them."""
        doing, method = "reading guest attributes", "get_guest_attributes"
        try:
            reported = ask(self.spec, doing, method, query_path=_HOST_KEYS)
        except NotFoundError:  # until the guest agent has written some
            return None
        keys = keys_in("\n".join(f"{one.key} {one.value}" for one in reported.query_value.items))
        return HostKeys(accepted=tuple(keys), source="its guest attributes") if keys else None

    def console(self) -> str:
        """Return what it wrote on its first serial port, as far as the cloud keeps it."""
        answer = ask(self.spec, "reading a serial port", "get_serial_port_output")
        return str(answer.contents)


def ask(spec: VmSpec, doing: str, method: str, again: Again | None = None, **fields: Any) -> Any:
    """Make a call about a VM that changes nothing. Raises ProviderError."""
    named = {"instance": spec.name, "zone": spec.zone, **fields}
    return spec.account.ask(doing, compute_v1.InstancesClient, method, again, **named)


def look(spec: VmSpec, again: Again | None = None) -> Any:
    """Return a VM as the cloud shows it. Raises ProviderError, NotFoundError."""
    return ask(spec, f"looking at the instance {spec.name}", "get", again)


def make_vm(maker: Maker, spec: VmSpec, settings: GceSettings) -> Vm:
    """Create a VM, and wait until it runs. Raises ProviderError."""
    project = spec.net.account
    body = body_of(maker, spec, settings)
    maker.make(project, "instance", spec.name, where=spec.zone, body=body)

    def running(*, late: bool) -> Vm | None:
        found = look(spec, ERRORS.is_not_yet)
        private, public = addresses_of(found)
        if found.status == "RUNNING" and private and public:
            return Vm(spec, f"{spec.zone}/{spec.name}", private, public, macs_of(found))
        if not late and found.status not in ENDED:
            return None
        raise BootError(
            f"the VM is {found.status}",
            where=spec.request.name,
            cure="was it reclaimed, as spot VMs may be? look at it: gcloud compute instances",
        )

    return project.poll(running, settings.boot_timeout)


def addresses_of(instance: Any) -> tuple[str, str]:
    """Return the private and the public address of a VM, empty where it has none."""
    for interface in instance.network_interfaces:
        outside = [config.nat_i_p for config in interface.access_configs if config.nat_i_p]
        return str(interface.network_i_p), str(outside[0]) if outside else ""
    return "", ""


def macs_of(instance: Any) -> tuple[str, ...]:
    """Return the MAC addresses of a VM's further interfaces.

    The API does not report them: each is 42:01 and the IPv4 address in its network.
    """
    inside = [IPv4Address(one.network_i_p) for one in instance.network_interfaces[1:]]
    return tuple(bytes([0x42, 0x01, *address.packed]).hex(":") for address in inside)


def body_of(maker: Maker, spec: VmSpec, settings: GceSettings) -> Any:
    """Return a VM as the API's request body."""
    policy = spec.placement.policy
    return compute_v1.Instance(
        machine_type=f"zones/{spec.zone}/machineTypes/{spec.flavor.name}",
        labels=maker.mark.labels,
        disks=[_disk(maker, spec, settings)],
        network_interfaces=_interfaces(spec, settings),
        metadata={"items": [{"key": k, "value": v} for k, v in _metadata(spec, settings).items()]},
        scheduling=_scheduling(maker, spec, settings),
        resource_policies=[policy] if policy else [],
        network_performance_config=_TIER_1 if settings.tier_1 else None,
    )


def _disk(maker: Maker, spec: VmSpec, settings: GceSettings) -> Any:
    size = max(whole_gib(settings.disk), spec.image.disk_gib)
    kind = disk_type_of(settings, spec.flavor.name)
    return compute_v1.AttachedDisk(
        boot=True,
        auto_delete=True,
        initialize_params={
            "disk_name": spec.name,
            "description": maker.mark.text,
            "labels": maker.mark.labels,
            "source_image": spec.image.path,
            "disk_size_gb": size,
            "disk_type": f"zones/{spec.zone}/diskTypes/{kind}",
        },
    )


def _interfaces(spec: VmSpec, settings: GceSettings) -> list[Any]:
    """Return the first interface with a public address, and further ones without."""
    networks = [spec.net.network, *spec.net.nics[: spec.request.nics]]
    outside = compute_v1.AccessConfig(type_="ONE_TO_ONE_NAT", name="External NAT")
    return [
        compute_v1.NetworkInterface(
            network=network.path,
            subnetwork=network.subnets[region_of(spec.zone)],
            nic_type=_NICS[settings.nic],
            access_configs=[] if number else [outside],
        )
        for number, network in enumerate(networks)
    ]


def _metadata(spec: VmSpec, settings: GceSettings) -> Mapping[str, str]:
    user = settings.user or USER
    found = {
        # Else the project's own settings could keep our key out, or let others in.
        "block-project-ssh-keys": "TRUE",
        "enable-oslogin": "FALSE",
        "enable-guest-attributes": "TRUE",
        "ssh-keys": f"{user}:{spec.login_key.public.strip()}",
    }
    if spec.host_key is not None:
        config = cloud_config(user, spec.login_key, spec.host_key)
        found["user-data"] = base64.b64decode(user_data(config, None)).decode()
    return found


def _scheduling(maker: Maker, spec: VmSpec, settings: GceSettings) -> Any:
    left = int(maker.mark.deadline - time.time())
    fields: dict[str, Any] = {
        "automatic_restart": False,
        "instance_termination_action": "DELETE",
        "max_run_duration": {"seconds": min(max(left, _LEAST_RUN_S), _LONGEST_RUN_S)},
        **spec.placement.scheduling(),
    }
    if settings.spot:
        fields |= {"provisioning_model": "SPOT", "on_host_maintenance": "TERMINATE"}
    if settings.show_hosts:
        fields["expose_host_topology"] = True
    return compute_v1.Scheduling(**fields)


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
            lookup.check_zone(project, str(zone))
            raise lookup.lacking_types(project, f"the zone {zone}", [str(zone)], types)
        offers[str(zone)] = found
    zones = lookup.zones_of(project, settings.region) if free else []
    looked = map_concurrently(lambda z: lookup.types_in(project, z, free), zones, at_once=AT_ONCE)
    there = {zone: types for zone, types in zip(zones, looked, strict=True) if types is not None}
    if free and not there:
        raise lookup.lacking_types(project, f"each zone of {settings.region}", zones, free)
    offers |= {zone: {**offers.get(zone, {}), **types} for zone, types in there.items()}
    return ZoneOffers(offers, list(there))


@dataclass
class Provisioner(provisioning.Provisioner[Project, TenantNet, Vm]):
    """Creates the resources of one run, in order. Every step raises ProviderError."""

    at_once: int = AT_ONCE
    plan: ZoneOffers = field(default_factory=ZoneOffers)
    _placements: dict[str, VmPlacement] = field(default_factory=dict)
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
        regions, nics = self.plan.regions, self.nic_network_count(tenant)
        return make_net(self.maker, tenant, self.settings, regions, nics)

    def allow_ingress(self, net: TenantNet, sources: set[str], before: set[str]) -> None:  # noqa: ARG002
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
            self._placements = {}
            self._make_policies(there, requests)
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
        return first_with_capacity(zones, make_in, roll_back, self.context.progress)

    def _make_policies(self, zones: Mapping[str, str], requests: Sequence[EndpointRequest]) -> None:
        if self.settings.node_group is not None:
            project = self.tenants[0].account
            self._placements = placement.places_on_nodes(project, self.settings, requests, zones)
            return
        for project, _, ours in account_shares(self.tenants, requests):
            compact = self.settings.compact
            made = placement.make_policies(self.maker, project, ours, zones, compact=compact)
            self._placements |= made

    def _boot(self, requests: Sequence[EndpointRequest], zones: Mapping[str, str]) -> list[Vm]:
        if not requests:
            return []
        where = dict.fromkeys(zones[one.name] for one in requests)
        self.context.progress(f"making {len(requests)} VM(s) in {', '.join(where)}")
        specs = [self._spec(one, zones[one.name]) for one in requests]
        return map_concurrently(
            lambda spec: make_vm(self.maker, spec, self.settings), specs, at_once=AT_ONCE
        )

    def _spec(self, request: EndpointRequest, zone: str) -> VmSpec:
        type_ = self.plan.type_of(self.settings, request, zone)
        return VmSpec(
            **self.common_spec(request, self.maker.mark.name(f"vm-{next(self.numbers)}")),
            zone=zone,
            flavor=type_,
            image=self._images[type_.architecture],
            placement=self._placements.get(request.name, VmPlacement()),
        )


class GceProvider(VmCloud[Project, Mark, Vm]):
    """VMs in one or several projects of Google Cloud."""

    kind = "gce"
    Settings = GceSettings
    rules = placement
    access_model = GceAccess
    found_by = frozenset({"cloud", "uri"})
    types = TYPES
    provisioner_type = Provisioner
    mark_type = Mark
    opener = Project
    at_once = AT_ONCE
    account_is = accounts_by = "project"

    def check(
        self,
        requests: Sequence[EndpointRequest],
        check_cancelled: CancellationCheck = never_cancelled,
    ) -> None:
        """Check credentials, names and quotas. Raises ProviderError."""
        settings, tenants = self._settings, self.tenants_of(slots_of(requests), check_cancelled)
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
        for account, some, ours in account_shares(tenants, requests):
            types: dict[str, list[Flavor]] = {region: [] for region in plan.regions}
            for one in ours:
                types[region_of(zones[one.name])].append(chosen[one.name])
            nics = [
                nic_network_count(settings, [r for r in ours if r.tenant == t.slot]) for t in some
            ]
            lookup.check_project(account, nics, settings, types)
            for region, them in types.items():
                lookup.check_region(account, region, settings, them)
            if settings.node_group is None and not settings.compact:
                placement.check_domains(ours, zones)
        if settings.node_group is not None:
            placement.places_on_nodes(project, settings, requests, zones)

    def access_to(self, named: str | None) -> Access:
        """Return the access of a project, or of the settings' own."""
        settings = self._settings
        return access_with(cloud=named or settings.project, uri=settings.endpoint_url)

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back the VMs' locations. Raises ProviderError."""
        vms = [self.provisioned().vms[endpoint.name] for endpoint in endpoints]
        nodes: dict[str, str] = {}
        for zone in {vm.spec.zone for vm in vms} if self._settings.node_group else ():
            there = placement.nodes_of(self._tenants[0].account, self._settings, zone)
            nodes |= {name: node for node, names in there.items() for name in names}
        return [_place_of(vm, nodes) for vm in vms]

    @classmethod
    def find(
        cls, account: Project, run: str | None, unread: Unread = ignore_unreadable
    ) -> list[Resource]:
        """List our resources in a project, without boot disks: they are deleted with VMs."""
        there = super().find(account, run, unread)
        vms = {one.id for one in there if one.kind == "instance"}
        return [one for one in there if one.kind != "disk" or one.id not in vms]
