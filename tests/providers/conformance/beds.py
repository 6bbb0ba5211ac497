"""The fakes of all clouds, as the conformance suite uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import openstack
from google.cloud import compute_v1

from osmef.providers.aws.access import Account
from osmef.providers.aws.provider import AwsProvider
from osmef.providers.azure.access import USUAL, Subscription
from osmef.providers.azure.provider import AzureProvider
from osmef.providers.base import Resource
from osmef.providers.cloud.account import CloudWaits
from osmef.providers.gce.provider import GceProvider
from osmef.providers.openstack.provider import OpenStackProvider
from osmef.scenario.clouds.aws import AwsSettings
from osmef.scenario.fields import DATA_PORTS
from tests.aws.api import REGION, Api
from tests.aws.api import Fault as Ec2Fault
from tests.azure.kinds import Fault as ArmFault
from tests.openstack.faults import calls_fail, hosts_fail
from tests.providers.aws.conftest import settings_for
from tests.providers.azure.conftest import Api as AzureApi
from tests.providers.conformance.bed import Bed, T, Wrong
from tests.providers.gce.lab import Lab as GceLab
from tests.providers.gce.lab import refusal
from tests.providers.openstack.lab import Lab as OpenStackLab

NAME = "osmef-somebody-elses"
RUN = "somebody-elses"
OFTEN = 1000


class Aws(Bed):
    """EC2 of moto's server."""

    vm = "instance"

    def __init__(self, api: Api) -> None:
        self._api = api
        self.access = {"region": REGION, "uri": api.url}

    def provider(self) -> AwsProvider:
        """Return a provider of the usual account."""
        settings = AwsSettings.model_validate(settings_for(self._api))
        return AwsProvider(settings, CloudWaits(look_s=0.1, listing_delay_s=0.1, gone_s=0.3))

    def allow_ingress(self) -> dict[str, set[str]]:
        """Return the addresses in the rules of security groups."""
        answer = Account(self.access).read("describe_security_groups", "looking at groups")
        return {
            str(group["GroupName"]): {
                str(block["CidrIp"]).removesuffix("/32")
                for rule in group["IpPermissions"]
                if rule.get("FromPort") == DATA_PORTS.start
                for block in rule["IpRanges"]
            }
            for group in answer["SecurityGroups"]
        }

    @contextmanager
    def wrong(self, what: Wrong) -> Iterator[None]:
        """Have something go wrong."""
        faults = {
            Wrong.THROTTLED: Ec2Fault("CreateVpc", "RequestLimitExceeded", 503, times=2),
            Wrong.LOST: Ec2Fault("RunInstances", "InternalError", 500, after=True),
            Wrong.DENIED: Ec2Fault("RunInstances", "UnauthorizedOperation", 403, times=-1),
            Wrong.FULL: Ec2Fault("RunInstances", "InsufficientInstanceCapacity", 500, times=-1),
            Wrong.IN_USE: Ec2Fault("DeleteVpc", "DependencyViolation", times=2),
            Wrong.BUSY: Ec2Fault("DeleteVpc", "RequestLimitExceeded", 503, times=2),
            Wrong.UNTOLD: Ec2Fault("TerminateInstances", "InternalError", 500, after=True),
            Wrong.KEPT: Ec2Fault("DeleteVpc", "UnauthorizedOperation", 403, times=-1),
        }
        self._api.faults.append(faults[what])
        yield
        self._api.faults.clear()

    def foreign(self) -> tuple[Resource, Callable[[], bool]]:
        """Make a VPC."""
        backend = self._api.backends()[0]
        made = backend.create_vpc("10.99.0.0/16").id
        there = Resource("aws", "vpc", NAME, RUN, made, access=self.access)
        return there, lambda: made in backend.vpcs


class Gce(Bed):
    """The Compute Engine of the tests."""

    vm = "instance"

    def __init__(self, lab: GceLab) -> None:
        self._lab = lab
        self.access = lab.access

    def provider(self) -> GceProvider:
        """Return a provider of the usual project."""
        return self._lab.provider()

    def here(self, work: Callable[[], T]) -> T:
        """Return what work returns where the VMs can be reached."""
        return self._lab.cloud.here(work)

    def allow_ingress(self) -> dict[str, set[str]]:
        """Return the addresses in the rules for peers."""
        found: dict[str, set[str]] = {"net-1": set(), "net-2": set()}
        for rule in self._lab.project().every("looking", compute_v1.FirewallsClient):
            blocks = {block.removesuffix("/32") for block in rule.source_ranges}
            if "-peers-" in rule.name:
                found["net" + rule.name[-2:]] |= blocks
        return found

    def wrong(self, what: Wrong) -> AbstractContextManager[None]:
        """Have something go wrong."""
        used = refusal(400, "resourceInUseByAnotherResource", "it is used by another")
        full = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "no room", "status": 503}
        denied = refusal(403, "forbidden")
        faults: dict[Wrong, tuple[str, str, int, dict[str, Any]]] = {
            Wrong.THROTTLED: ("call", "POST .*/networks", 2, refusal(429, "rateLimitExceeded")),
            Wrong.LOST: ("call", "POST .*/instances", 1, {"lose": True}),
            Wrong.DENIED: ("call", "POST .*/instances", OFTEN, denied),
            Wrong.FULL: ("operation", "insert .*/instances/", OFTEN, full),
            Wrong.IN_USE: ("call", "DELETE .*/networks/", 2, used),
            Wrong.BUSY: ("call", "DELETE .*/networks/", 2, refusal(429, "rateLimitExceeded")),
            Wrong.UNTOLD: ("call", "DELETE .*/instances/", 1, {"lose": True}),
            Wrong.KEPT: ("call", "DELETE .*/networks/", OFTEN, denied),
        }
        kind, pattern, times, more = faults[what]
        return self._lab.cloud.fault(kind, pattern, times, **more)

    def foreign(self) -> tuple[Resource, Callable[[], bool]]:
        """Make a network."""
        project, client = self._lab.project(), compute_v1.NetworksClient
        body = compute_v1.Network(name=NAME, auto_create_subnetworks=False)
        project.change("making", client, "insert_unary", network_resource=body)

        def is_there() -> bool:
            found = NAME in {one.name for one in project.every("looking", client)}
            if found:
                project.change("deleting", client, "delete_unary", network=NAME)
            return found

        return Resource("gce", "network", NAME, RUN, NAME, access=self.access), is_there


class Azure(Bed):
    """The Azure of the tests."""

    vm = "vm"

    def __init__(self, api: AzureApi) -> None:
        self._api = api
        self.access = {"uri": api.arm.url}

    def provider(self) -> AzureProvider:
        """Return a provider of the usual subscription."""
        return AzureProvider(self._api.settings(), replace(USUAL, listing_delay_s=0.1, gone_s=0.3))

    def allow_ingress(self) -> dict[str, set[str]]:
        """Return the addresses in the rules of security groups, by the names of their groups."""
        found = {}
        things = self._api.arm.things.values()
        for guard in (one for one in things if one["type"].endswith("/networkSecurityGroups")):
            rules = guard["properties"]["securityRules"]
            blocks = {
                block
                for rule in rules
                if rule["name"].startswith("data-")
                for block in rule["properties"]["sourceAddressPrefixes"]
            }
            ours = {block.removesuffix("/32") for block in blocks if block.endswith("/32")}
            found[f"net-{guard['id'].split('/')[4][-1]}"] = ours
        return found

    @contextmanager
    def wrong(self, what: Wrong) -> Iterator[None]:
        """Have something go wrong."""
        make, delete = "PUT .*/virtualMachines/", "DELETE .*/resourceGroups/"
        networks = "PUT .*/virtualNetworks/"
        faults = {
            Wrong.THROTTLED: ArmFault(networks, 429, "TooManyRequests", times=2, after_s=0),
            Wrong.LOST: ArmFault(make, 500, "InternalServerError", lost=True),
            Wrong.DENIED: ArmFault(make, 403, "AuthorizationFailed", times=OFTEN),
            Wrong.FULL: ArmFault(make, 409, "AllocationFailed", times=OFTEN),
            Wrong.IN_USE: ArmFault(delete, 409, "InUseSubnetCannotBeDeleted", times=2),
            Wrong.BUSY: ArmFault(delete, 429, "TooManyRequests", times=2, after_s=0),
            Wrong.UNTOLD: ArmFault(delete, 500, "InternalServerError", lost=True),
            Wrong.KEPT: ArmFault(delete, 403, "AuthorizationFailed", times=OFTEN),
        }
        self._api.arm.faults.append(faults[what])
        yield
        self._api.arm.faults.clear()

    def foreign(self) -> tuple[Resource, Callable[[], bool]]:
        """Make a resource group."""
        subscription = Subscription(self.access)
        groups = subscription.resources.resource_groups
        id_ = str(groups.create_or_update(NAME, {"location": "westeurope"}).id)
        there = Resource("azure", "resource-group", NAME, RUN, id_, access=subscription.access)
        return there, lambda: NAME in {str(one.name) for one in groups.list()}


class OpenStack(Bed):
    """The small OpenStack of the tests."""

    vm = "server"
    flavor = "m1.tiny"

    def __init__(self, lab: OpenStackLab) -> None:
        self._lab = lab
        self.access = {"cloud": "alice"}
        lab.dirty.add("alice")

    def provider(self) -> OpenStackProvider:
        """Return a provider of the usual project."""
        return self._lab.provider()

    def tenants(self) -> OpenStackProvider:
        """Return a provider of two projects."""
        self._lab.dirty.add("bob")
        return self._lab.provider(projects={"red": "alice", "blue": "bob"})

    def allow_ingress(self) -> dict[str, set[str]]:
        """Return the addresses in the rules of both projects' security groups."""
        found = {}
        for number, cloud in enumerate(("alice", "bob"), 1):
            with openstack.connect(cloud=cloud) as api:
                project = api.current_project_id
                rules = list(api.network.security_group_rules(project_id=project))
            ours = [one for one in rules if one.port_range_min == DATA_PORTS.start]
            blocks = {str(one.remote_ip_prefix) for one in ours if one.remote_ip_prefix}
            found[f"net-{number}"] = {block.removesuffix("/32") for block in blocks}
        return found

    def here(self, work: Callable[[], T]) -> T:
        """Return what work returns where the VMs can be reached."""
        return self._lab.cloud.here(work)

    def wrong(self, what: Wrong) -> AbstractContextManager[None]:
        """Have something go wrong."""
        cloud = self._lab.cloud
        make, networks = ("nova-api", "POST .*/servers$"), ("neutron-server", "POST .*/networks$")
        delete = ("neutron-server", "DELETE .*/networks/")
        end = ("nova-api", "POST .*/servers/.*/action")
        faults: dict[Wrong, Callable[[], AbstractContextManager[None]]] = {
            Wrong.THROTTLED: lambda: calls_fail(cloud, *networks, 429, 2),
            Wrong.LOST: lambda: calls_fail(cloud, *make, "lose"),
            Wrong.DENIED: lambda: calls_fail(cloud, *make, 403, OFTEN),
            Wrong.FULL: lambda: hosts_fail(cloud),
            Wrong.IN_USE: lambda: calls_fail(cloud, *delete, 409, 2),
            Wrong.BUSY: lambda: calls_fail(cloud, *delete, 429, 2),
            Wrong.UNTOLD: lambda: calls_fail(cloud, *end, "lose"),
            Wrong.KEPT: lambda: calls_fail(cloud, *delete, 403, OFTEN),
        }
        return faults[what]()

    def foreign(self) -> tuple[Resource, Callable[[], bool]]:
        """Make a network."""
        with openstack.connect(cloud="alice") as api:
            made = str(api.network.create_network(name=NAME).id)

        def is_there() -> bool:
            with openstack.connect(cloud="alice") as api:
                found = made in {str(one.id) for one in api.network.networks()}
                api.network.delete_network(made)
            return found

        return Resource("openstack", "network", NAME, RUN, made, access=self.access), is_there
