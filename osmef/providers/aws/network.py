"""Tenants' networks: VPC, subnets, security group and key pair of each.

And the public address of this machine, from which SSH is allowed.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Any
from urllib.error import HTTPError

from osmef.errors import ProviderError, QuotaError
from osmef.providers.aws.access import ERRORS, Account, code_of, not_listed_yet, where
from osmef.providers.aws.resource_types import Maker
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud import account
from osmef.providers.cloud.account import Tenant, block_of, slots_of, split
from osmef.providers.marks import Mark
from osmef.remote.login import SSH_PORT
from osmef.scenario.clouds.aws import AwsSettings
from osmef.scenario.clouds.base import is_amazons
from osmef.scenario.fields import DATA_PORTS

_VPC, _ZONE_BITS = 16, 4
"""A VPC is a /16, and each zone has a sixteenth of it."""
_EVERYWHERE = "0.0.0.0/0"
_MOST_RULES, _OWN_RULES, _RULES_A_PEER = 60, 3, 2
"""Of a security group by default: for SSH and its own instances' data, and TCP and UDP each."""


@dataclass(frozen=True)
class TenantNet(account.TenantNet[Account]):
    """The VPC of a tenant's instances.

    Subnets are by the id of their zone, those of further interfaces by it and their number.
    """

    vpc: str
    group: str
    subnets: dict[str, str] = field(default_factory=dict)
    nic_subnets: dict[tuple[str, int], str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name that distinguishes it from other tenants."""
        return f"{self.account.id}/{self.vpc}"

    def blocks(self, zone: int) -> tuple[IPv4Network, Sequence[IPv4Network]]:
        """Return the addresses of instances in a zone, counted from 0, and of further subnets."""
        return split([*block_of(self.tenant.number, _VPC).subnets(_ZONE_BITS)][zone])


def check_rules(requests: Sequence[EndpointRequest], elsewhere: Sequence[EndpointRequest]) -> None:
    """Raise QuotaError if a tenant's peers exceed the rules of its security group."""
    most = (_MOST_RULES - _OWN_RULES) // _RULES_A_PEER
    for slot in slots_of(requests):
        others = [request for request in requests if request.tenant not in {None, slot}]
        count = len(others) + len(elsewhere)
        if count > most:
            raise QuotaError(
                f"{slot} meets {count} endpoints of other tenants and sites, and the {_MOST_RULES}"
                f" rules of a security group do for {most}",
                where="tenancy" if others else "endpoints",
                cure="plan fewer endpoints, or one tenant",
            )


def keypair_of(mark: Mark) -> str:
    """Return the name of a run's key pair, in each of its accounts."""
    return mark.name("key")


def make_keypair(maker: Maker, account: Account, public: str) -> None:
    """Import the public half of the run's key. Raises ProviderError."""
    name = keypair_of(maker.mark)
    maker.make(account, "key-pair", name, KeyName=name, PublicKeyMaterial=public.encode())


def make_net(maker: Maker, tenant: Tenant[Account], controller: str) -> TenantNet:
    """Create a VPC with gateway and security group; subnets follow with their zones.

    Raises ProviderError.
    """
    name, account = maker.mark.name(f"net-{tenant.number}"), tenant.account
    vpc = maker.make(account, "vpc", name, CidrBlock=str(block_of(tenant.number, _VPC)))
    _route(account, vpc, maker.make(account, "internet-gateway", name))
    reported = {"GroupName": name, "Description": "endpoints of an OSMeF run", "VpcId": vpc}
    group = maker.make(account, "security-group", name, **reported)
    net = TenantNet(tenant, vpc, group)
    open_group(net, [ssh_from(controller), *data_from_itself(group)])
    return net


def _route(account: Account, vpc: str, gateway: str) -> None:
    """Join the VPC to the Internet, in the route table that all its subnets have."""
    ends = {"VpcId": vpc, "InternetGatewayId": gateway}
    _set(account, "attach_internet_gateway", ends, "Resource.AlreadyAssociated")
    table = account.do(
        "looking for the route table", lambda: _main_table(account, vpc), ERRORS.is_not_yet
    )
    route = {"DestinationCidrBlock": _EVERYWHERE, "GatewayId": gateway}
    _set(account, "create_route", {"RouteTableId": table, **route}, "RouteAlreadyExists")


def make_subnets(maker: Maker, net: TenantNet, zone: str, nics: int = 0) -> None:
    """Create those subnets of a zone, given by its id, that do not exist yet.

    They are the usual one, and so many for further interfaces. Raises ProviderError.
    """

    def make(what: str, cidr: IPv4Network) -> str:
        name = maker.mark.name(f"net-{net.tenant.number}-{what}")
        reported = {"VpcId": net.vpc, "CidrBlock": str(cidr), "AvailabilityZoneId": zone}
        return str(maker.make(net.account, "subnet", name, **reported))

    zones = list(dict.fromkeys([*net.subnets, zone]))
    usual, further = net.blocks(zones.index(zone))
    if zone not in net.subnets:
        net.subnets[zone] = make(zone, usual)
    for number in range(nics):
        if (zone, number) not in net.nic_subnets:
            net.nic_subnets[zone, number] = make(f"{zone}-nic-{number + 1}", further[number])


def _main_table(account: Account, vpc: str) -> str:
    filters = where(vpc_id=vpc, **{"association.main": "true"})
    answer = account.ask("describe_route_tables", Filters=filters)
    if not answer["RouteTables"]:
        raise not_listed_yet("RouteTable", "DescribeRouteTables")
    return str(answer["RouteTables"][0]["RouteTableId"])


def _set(account: Account, action: str, request: dict[str, Any], already: str) -> None:
    """Make a joining call, with retry while a part is unknown; joined already is success."""

    def attempt() -> None:
        try:
            account.ask(action, **request)
        except ERRORS.library as error:
            if code_of(error) != already:
                raise

    account.do(action.replace("_", " "), attempt, ERRORS.is_not_yet)


def attach(account: Account, nic: str, instance: str, number: int) -> str:
    """Attach an interface to an instance with a device index, and return its MAC address.

    Attached already is success. Raises ProviderError.
    """

    def look() -> Any:
        answer = account.ask("describe_network_interfaces", NetworkInterfaceIds=[nic])
        return answer["NetworkInterfaces"][0]

    def attempt() -> None:
        try:
            ends = {"NetworkInterfaceId": nic, "InstanceId": instance}
            account.ask("attach_network_interface", DeviceIndex=number, **ends)
        except ERRORS.library as error:
            holds = (ERRORS.is_in_use(error) and look().get("Attachment")) or {}
            if holds.get("InstanceId") != instance:
                raise

    account.do(f"attaching the interface {nic}", attempt, ERRORS.is_not_yet)
    found = account.do(f"looking at the interface {nic}", look, ERRORS.is_not_yet)
    return str(found["MacAddress"])


def ssh_from(block: str) -> dict[str, Any]:
    """Return the rule that allows SSH."""
    ports = {"FromPort": SSH_PORT, "ToPort": SSH_PORT}
    return {"IpProtocol": "tcp", **ports, "IpRanges": [{"CidrIp": block}]}


def data_from(address: str) -> list[dict[str, Any]]:
    """Return the rules that allow data from an address."""
    return [{**rule, "IpRanges": [{"CidrIp": f"{address}/32"}]} for rule in _DATA]


def data_from_itself(group: str) -> list[dict[str, Any]]:
    """Return the rules that allow data from the group's own instances."""
    return [{**rule, "UserIdGroupPairs": [{"GroupId": group}]} for rule in _DATA]


_DATA = [
    {"IpProtocol": protocol, "FromPort": DATA_PORTS.start, "ToPort": DATA_PORTS.stop - 1}
    for protocol in ("tcp", "udp")
]


def open_group(net: TenantNet, rules: Sequence[dict[str, Any]]) -> None:
    """Authorise rules in the run's group. Raises ProviderError."""
    reported = {"GroupId": net.group, "IpPermissions": list(rules)}
    # EC2 adds all of them or none.
    _set(net.account, "authorize_security_group_ingress", reported, "InvalidPermission.Duplicate")


def close_group(net: TenantNet, rules: Sequence[dict[str, Any]]) -> None:
    """Revoke rules of the run's group. Raises ProviderError."""
    reported = {"GroupId": net.group, "IpPermissions": list(rules)}
    _set(net.account, "revoke_security_group_ingress", reported, "InvalidPermission.NotFound")


_ASK = "https://checkip.amazonaws.com"
_ANSWER_S = 10.0
_MOST_BYTES = 64


def controller_of(settings: AwsSettings) -> str:
    """Return the block from which SSH is allowed. Raises ProviderError.

    Without ``controller_cidr`` it is the address that Amazon's own service reports, as in its
    guides; it is not asked when the API is elsewhere. The request bypasses proxies, as SSH does: it
    is SSH's address that counts.
    """
    if settings.controller_cidr is not None:
        return settings.controller_cidr
    key, cure = "provider.controller_cidr", "write it, like 198.51.100.7/32"
    if settings.endpoint_url is not None and not is_amazons(settings.endpoint_url):
        message = "the address at which the instances see this machine is not known"
        raise ProviderError(message, where=key, cure=cure)
    try:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(_ASK, timeout=_ANSWER_S) as answer:
            return f"{IPv4Address(answer.read(_MOST_BYTES).decode().strip())}/32"
    except (OSError, ValueError) as error:
        if isinstance(error, HTTPError):
            error.close()  # it is the answer, too
        message = f"{_ASK} does not report the address at which Amazon sees this machine: {error}"
        raise ProviderError(message, where=key, cure=cure) from error
