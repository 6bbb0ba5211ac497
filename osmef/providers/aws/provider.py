"""Provider of EC2, and the instances of a run in a zone with capacity for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from osmef.providers.aws import instances, lookup, network, placement
from osmef.providers.aws.access import Account
from osmef.providers.aws.instances import Instance, InstanceSpec
from osmef.providers.aws.lookup import FlavorInfo, Image
from osmef.providers.aws.network import TenantNet
from osmef.providers.aws.placement import Placer
from osmef.providers.aws.resource_types import TYPES
from osmef.providers.base import Access, Check, Endpoint, EndpointRequest, go_on
from osmef.providers.cloud import build
from osmef.providers.cloud.lookup import Offers
from osmef.providers.cloud.placement import first_with_room
from osmef.providers.cloud.public_cloud import VmCloud
from osmef.providers.cloud.tenants import Tenant, access_with, networks_for, offers_of, slots_of
from osmef.providers.marks import Mark
from osmef.providers.parallel import side_by_side
from osmef.remote.login import Login
from osmef.scenario.clouds.aws import AwsAccess, AwsPlacedBy, AwsSettings
from osmef.scenario.location import Gone, Location

_OF_A_ZONE = {"instance", "network-interface", "dedicated-host"}


@dataclass
class Build(build.Build[Account, TenantNet, Instance]):
    """Provisioning of one run. Every method raises ProviderError."""

    _offers: dict[str, Offers[FlavorInfo, Image]] = field(default_factory=dict)
    """By the tenant's slot."""
    _zone: str | None = None
    """The id of the zone of instances that name none."""

    def __post_init__(self) -> None:
        self._placer = Placer(self.maker, self.settings, self.context.requests)

    def look_up(self) -> None:
        """Look up all names, and import the run's key."""
        self._controller = network.controller_of(self.settings)
        requests = self.context.requests
        self._offers = offers_of(lookup.look_up, self.settings, self.tenants, requests)
        for line in lookup.check_quotas(self.settings, self.tenants, self._offers, requests):
            self.context.progress(line)
        accounts = {tenant.account.id: tenant.account for tenant in self.tenants}.values()
        maker, public = self.maker, self.context.key.public
        side_by_side(lambda one: network.make_keypair(maker, one, public), accounts)

    def make_net(self, tenant: Tenant[Account]) -> TenantNet:
        """Create a tenant's VPC and its security group."""
        return network.make_net(self.maker, tenant, self._controller)

    def names_of(self, vm: Instance) -> list[str]:
        """Return the names of an instance and its further interfaces."""
        return [vm.spec.name, *vm.spec.nic_names]

    def create_vms(self, requests: Sequence[EndpointRequest]) -> list[Instance]:
        """Create running instances, in a zone with capacity if it was free to choose."""
        before = len(self.maker.made)
        return first_with_room(
            self._zones(requests),
            lambda zone: self._make_in(zone, requests),
            lambda: self.remove([m for m in self.made_since(before) if m[0].kind in _OF_A_ZONE]),
            self.context.progress,
        )

    def _zones(self, requests: Sequence[EndpointRequest]) -> list[str]:
        """Return the ids of zones to try for requests without one."""
        if self._zone is not None:
            return [self._zone]
        zones = next(iter(self._offers.values())).zones
        if self.settings.zone is not None:
            return [zones.id_of(self.settings.zone)]
        if all(request.zone for request in requests):
            return [zones.id_of(str(requests[0].zone))]
        return lookup.free_zones(self._offers, requests)

    def _make_in(self, zone: str, requests: Sequence[EndpointRequest]) -> list[Instance]:
        self.context.progress(f"making {len(requests)} instances in {zone}")
        zones = [self._zone_of(request, zone) for request in requests]
        for request, one in zip(requests, zones, strict=True):
            nics = networks_for(self.settings, [request])
            network.make_subnets(self.maker, self.nets[str(request.tenant)], one, nics)
        specs = side_by_side(self._spec, list(zip(requests, zones, strict=True)))
        ends = self.context.deadline
        maker, settings = self.maker, self.settings
        ids = side_by_side(lambda spec: instances.make_instance(maker, spec, settings, ends), specs)
        asked = dict(zip(ids, specs, strict=True))
        running = instances.await_instances(asked, settings.boot_timeout)
        made = side_by_side(lambda one: instances.add_nics(maker, one, settings), running)
        self._zone = zone
        return made

    def _zone_of(self, request: EndpointRequest, free: str) -> str:
        zones = self._offers[str(request.tenant)].zones
        return free if request.zone is None else zones.id_of(request.zone)

    def _spec(self, one: tuple[EndpointRequest, str]) -> InstanceSpec:
        request, zone = one
        offers, account = self._offers[str(request.tenant)], self.nets[str(request.tenant)].account
        flavor = offers.flavor_of(request)
        beside = [
            self._offers[str(other.tenant)].flavor_of(other)
            for other in self.context.requests
            if other.host == request.host and self.nets[str(other.tenant)].account is account
        ]
        return InstanceSpec(
            **self.basis(request, self.maker.mark.name(f"{next(self.numbers)}-{request.name}")),
            zone=zone,
            flavor=flavor,
            image=offers.image_of(flavor),
            place=self._placer.place(account, request, offers.zones.name_of(zone), beside),
        )

    def let_in(self, net: TenantNet, sources: set[str], before: set[str]) -> None:
        """Allow data from these addresses alone, by a rule each."""
        for address in sorted(before - sources):
            network.close_group(net, network.data_from(address))
        for address in sorted(sources - before):
            network.open_group(net, network.data_from(address))


class AwsProvider(VmCloud[Account, Mark, Instance]):
    """Instances of one or several accounts in one region of EC2."""

    kind = "aws"
    accounts_by = "profile"
    Settings = AwsSettings
    rules = placement
    access_model = AwsAccess
    types = TYPES
    build_type = Build
    opener = Account

    def check(self, requests: Sequence[EndpointRequest], still: Check = go_on) -> None:
        """Check credentials, names, and quotas. Raises ProviderError."""
        settings = self._settings
        network.controller_of(settings)
        if settings.placement_by is AwsPlacedBy.PARTITION:
            placement.partitions_of(requests)
        tenants = self.tenants_of(slots_of(requests), still)
        offers = offers_of(lookup.look_up, settings, tenants, requests)
        if settings.zone is None and any(request.zone is None for request in requests):
            lookup.free_zones(offers, requests)
        lookup.check_quotas(settings, tenants, offers, requests)

    def check_peers(
        self, requests: Sequence[EndpointRequest], elsewhere: Sequence[EndpointRequest]
    ) -> None:
        """Check whether security groups have enough rules. Raises QuotaError."""
        network.check_rules(requests, elsewhere)

    def access_to(self, named: str | None) -> Access:
        """Return the access of a profile, or the settings' own, in their region."""
        settings, profile = self._settings, named or self._settings.profile
        return access_with(cloud=profile, region=settings.region, uri=settings.endpoint_url)

    def endpoint(self, vm: Instance, login: Login) -> Endpoint:
        """Return the endpoint that an instance is."""
        flavor, usual = vm.spec.flavor, super().endpoint(vm, login)
        slow = f"{flavor.name} has no enhanced networking (ENA)"
        return replace(usual, network=flavor.network, warnings=() if flavor.ena else (slow,))

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back the instances' locations, all of an account in one call."""
        vms = self.built().vms
        ours = [vms[endpoint.name] for endpoint in endpoints]
        there = placement.locations_of(ours, self._settings.placement_by)
        return [there.get(instance.id, Gone()) for instance in ours]
