"""Provider of EC2, and the instances of a run in a zone with capacity for them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from osmef.errors import (
    BootError,
    CapacityError,
    CredentialsError,
    PolicyError,
    ProviderError,
)
from osmef.providers.aws import lookup, network, placement
from osmef.providers.aws.access import ENDED, ERRORS, Account
from osmef.providers.aws.lookup import FlavorInfo, Image
from osmef.providers.aws.network import TenantNet, attach, keypair_of
from osmef.providers.aws.placement import Placer
from osmef.providers.aws.resource_types import TYPES, Facts, Maker, tags_for, token_of
from osmef.providers.base import (
    Access,
    CancellationCheck,
    Endpoint,
    EndpointRequest,
    never_cancelled,
)
from osmef.providers.cloud import provisioning
from osmef.providers.cloud.account import (
    Tenant,
    access_with,
    nic_network_count,
    offers_of,
    slots_of,
)
from osmef.providers.cloud.lookup import Offers, first_with_capacity
from osmef.providers.cloud.provisioning import Vm, VmSpec
from osmef.providers.cloud.public_cloud import VmCloud
from osmef.providers.cloud_init import cloud_config
from osmef.providers.marks import Mark
from osmef.providers.parallel import map_concurrently
from osmef.remote.login import Login
from osmef.scenario.clouds.aws import AwsAccess, AwsSettings
from osmef.scenario.location import Gone, Location
from osmef.units import whole_gib

_NO_ROOM = ("Server.InsufficientInstanceCapacity", "Server.SpotInstanceTermination")
_NO_KEY = ("Client.InternalError", "Client.InvalidKMSKey.InvalidState")
"""Why an instance ends whose disks can't be decrypted."""


@dataclass(frozen=True)
class InstanceSpec(VmSpec[TenantNet]):
    """An instance to create, in a zone given by its id."""

    flavor: FlavorInfo
    zone: str
    image: Image
    placement: Mapping[str, Any]

    @property
    def image_name(self) -> str:
        """The id of its image."""
        return self.image.id


@dataclass(frozen=True)
class Instance(Vm[InstanceSpec]):
    """A running instance."""

    def user(self, settings: AwsSettings) -> str:  # noqa: ARG002
        """Return the account that SSH logs into: that of the image."""
        return self.spec.image.user

    def console(self) -> str:
        """Return what is on the console so far. Raises CredentialsError, PolicyError."""
        for latest in (True, False):  # types before Nitro know only what was kept some minutes ago
            try:
                answer = self.spec.account.read(
                    "get_console_output", "reading a console", InstanceId=self.id, Latest=latest
                )
            except (CredentialsError, PolicyError):
                raise
            except ProviderError:
                continue
            return str(answer.get("Output") or "")
        return ""


def make_instance(maker: Maker, spec: InstanceSpec, settings: AwsSettings, ends: float) -> str:
    """Request an instance, and return its id; it does not run yet. Raises ProviderError.

    It ends itself at about ``ends``, a UNIX time.
    """
    request: dict[str, Any] = {
        "ImageId": spec.image.id,
        "InstanceType": spec.flavor.name,
        "MinCount": 1,
        "MaxCount": 1,
        "KeyName": keypair_of(maker.mark),
        "ClientToken": token_of(maker.mark, f"{spec.name} {spec.zone}"),
        "UserData": cloud_config(
            spec.image.user, spec.login_key, spec.host_key, ends - time.time()
        ),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required"},
        "NetworkInterfaces": [
            {
                "DeviceIndex": 0,
                "SubnetId": spec.net.subnets[spec.zone],
                "Groups": [spec.net.group],
                "AssociatePublicIpAddress": True,
                "DeleteOnTermination": True,
            }
        ],
        "BlockDeviceMappings": [{"DeviceName": spec.image.root, "Ebs": _disk(spec, settings)}],
        "TagSpecifications": tags_for("volume", maker.mark, spec.name),
    }
    if spec.placement:
        request["Placement"] = dict(spec.placement)
    if settings.spot:
        request["InstanceMarketOptions"] = {"MarketType": "spot"}
    return str(maker.make(spec.account, "instance", spec.name, **request))


def add_nics(maker: Maker, instance: Instance, settings: AwsSettings) -> Instance:
    """Create the further interfaces of a running instance, and attach them. Raises ProviderError.

    They come afterwards: EC2 gives one that is made with several no public address.
    """
    spec, nics = instance.spec, []
    for card, name in enumerate(spec.nic_names):
        nic = maker.make(
            *(spec.account, "network-interface", name),
            SubnetId=spec.net.nic_subnets[spec.zone, settings.nic_network(card)],
            Groups=[spec.net.group],
            ClientToken=token_of(maker.mark, name),
        )
        nics.append(attach(spec.account, nic, instance.id, card + 1))
    return replace(instance, nics=tuple(nics))


def _disk(spec: InstanceSpec, settings: AwsSettings) -> dict[str, Any]:
    size_gib = max(spec.image.disk_gib, whole_gib(settings.disk))
    return {"VolumeSize": size_gib, "VolumeType": "gp3", "DeleteOnTermination": True}


def await_instances(specs: Mapping[str, InstanceSpec], timeout_s: float) -> list[Instance]:
    """Wait until all instances, given by id, run and have a public address; in their order.

    Raises BootError, CapacityError.
    """
    found: dict[str, Instance] = {}

    def running(*, late: bool) -> list[Instance] | None:
        states = _look({key: spec for key, spec in specs.items() if key not in found}, found)
        if not states:
            return [found[key] for key in specs]
        if not late:
            return None
        key, state = next(iter(states.items()))
        raise BootError(
            f"the instance is still {state} after {timeout_s:.0f} s",
            where=specs[key].request.name,
            cure="look at it in the EC2 console, or raise provider.boot_timeout",
        )

    account: Account = next(iter(specs.values())).account
    return account.poll(running, timeout_s)


def _look(specs: Mapping[str, InstanceSpec], found: dict[str, Instance]) -> dict[str, str]:
    """Add the running instances, and return the states of the others."""
    states = {}
    for account in {id(o.account): o.account for o in specs.values()}.values():
        ours = [key for key, spec in specs.items() if spec.account is account]
        there = account.list_instances(again=ERRORS.is_not_yet, InstanceIds=ours)
        by_id = {str(facts["InstanceId"]): facts for facts in there}
        for key in ours:
            facts, state = by_id.get(key, {}), "not known yet"
            if facts:
                state = str(facts["State"]["Name"])
            if state in ENDED:
                raise _failed(specs[key], facts)
            if state == "running" and facts.get("PublicIpAddress"):
                addresses = str(facts["PrivateIpAddress"]), str(facts["PublicIpAddress"])
                found[key] = Instance(specs[key], key, *addresses)
            else:
                states[key] = state
    return states


def _failed(spec: InstanceSpec, facts: Facts) -> ProviderError:
    reason = facts.get("StateReason", {})
    code = reason.get("Code")
    cure = "use another zone or instance type, or look at the reason in the EC2 console"
    if code in _NO_KEY:
        cure = (
            "may this user use the key by which the account encrypts disks? see the manual's page"
        )
        cure += " of aws for the permissions"
    return (CapacityError if code in _NO_ROOM else BootError)(
        f"the instance ended at once: {reason.get('Message') or facts['State']['Name']}",
        where=spec.request.name,
        cure=cure,
    )


_OF_A_ZONE = {"instance", "network-interface", "dedicated-host"}


@dataclass
class Provisioner(provisioning.Provisioner[Account, TenantNet, Instance]):
    """Creates the resources of one run, in order. Every method raises ProviderError."""

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
        map_concurrently(lambda one: network.make_keypair(maker, one, public), accounts)

    def make_net(self, tenant: Tenant[Account]) -> TenantNet:
        """Create a tenant's VPC and its security group."""
        return network.make_net(self.maker, tenant, self._controller)

    def names_of(self, vm: Instance) -> list[str]:
        """Return the names of an instance and its further interfaces."""
        return [vm.spec.name, *vm.spec.nic_names]

    def create_vms(self, requests: Sequence[EndpointRequest]) -> list[Instance]:
        """Create running instances, in a zone with capacity if it was free to choose."""
        before = len(self.maker.made)
        return first_with_capacity(
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
            nics = nic_network_count(self.settings, [request])
            network.make_subnets(self.maker, self.nets[str(request.tenant)], one, nics)
        specs = map_concurrently(self._spec, list(zip(requests, zones, strict=True)))
        ends = self.context.deadline
        maker, settings = self.maker, self.settings
        ids = map_concurrently(lambda spec: make_instance(maker, spec, settings, ends), specs)
        asked = dict(zip(ids, specs, strict=True))
        running = await_instances(asked, settings.boot_timeout)
        made = map_concurrently(lambda one: add_nics(maker, one, settings), running)
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
            **self.common_spec(
                request, self.maker.mark.name(f"{next(self.numbers)}-{request.name}")
            ),
            zone=zone,
            flavor=flavor,
            image=offers.image_of(flavor),
            placement=self._placer.place(account, request, offers.zones.name_of(zone), beside),
        )

    def allow_ingress(self, net: TenantNet, sources: set[str], before: set[str]) -> None:
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
    provisioner_type = Provisioner
    opener = Account

    def check(
        self,
        requests: Sequence[EndpointRequest],
        check_cancelled: CancellationCheck = never_cancelled,
    ) -> None:
        """Check credentials, names, and quotas. Raises ProviderError."""
        settings = self._settings
        network.controller_of(settings)
        placement.check_groups(settings, requests)
        tenants = self.tenants_of(slots_of(requests), check_cancelled)
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
        vms = self.provisioned().vms
        ours = [vms[endpoint.name] for endpoint in endpoints]
        there = placement.locations_of(ours, self._settings.placement_by)
        return [there.get(instance.id, Gone()) for instance in ours]
