"""What a plan needs of an account, compared with what its quotas leave.

The codes are those of Service Quotas, which counts instances by their vCPUs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from osmef.errors import ProviderError, QuotaError
from osmef.providers.aws import failures
from osmef.providers.aws.access import Account
from osmef.providers.aws.names import Names
from osmef.providers.aws.tenants import Tenant
from osmef.providers.base import EndpointRequest
from osmef.providers.parallel import side_by_side
from osmef.scenario.clouds.aws import AwsPlacedBy, AwsSettings

_STANDARD = {"a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"}
"""What the names of standard instance types begin with. Others have quotas of their own."""


@dataclass(frozen=True)
class Quota:
    """A quota: what it counts, and the service and code by which it is known."""

    what: str
    service: str
    code: str


_VPCS = Quota("VPCs", "vpc", "L-F678F1CE")
_NICS = Quota("network interfaces", "vpc", "L-DF5E4CA3")
_ON_DEMAND = Quota("vCPUs of standard on-demand instances", "ec2", "L-1216C47A")
_SPOT = Quota("vCPUs of standard spot instances", "ec2", "L-34B43A08")


def check_quotas(
    settings: AwsSettings,
    tenants: Sequence[Tenant],
    names: Mapping[str, Names],
    requests: Sequence[EndpointRequest],
) -> list[str]:
    """Compare what the requests need with the quotas of the tenants' accounts.

    ``names`` are by the slots of tenants. Returns a line for the user for each quota that nobody
    tells. Raises QuotaError with everything that an account has too little of.
    """

    def check(account: Account) -> list[str]:
        slots = {tenant.slot for tenant in tenants if tenant.account is account}
        ours = [request for request in requests if request.tenant in slots]
        nics = sum(1 + request.nics for request in ours if request.nics)
        need = {_VPCS: len(slots)} | ({_NICS: nics} if nics else {})
        return _check(account, _needs(settings, names, ours) | need)

    accounts = {id(tenant.account): tenant.account for tenant in tenants}
    return [line for lines in side_by_side(check, accounts.values()) for line in lines]


def _needs(
    settings: AwsSettings, names: Mapping[str, Names], requests: Sequence[EndpointRequest]
) -> dict[Quota, int]:
    """Return the vCPUs that count; those on dedicated hosts do not."""
    hosts = settings.placement_by is AwsPlacedBy.DEDICATED_HOST
    counted = [request for request in requests if not (hosts and request.host is not None)]
    flavors = [
        names[str(request.tenant)].flavors[request.flavor or settings.default_flavor]
        for request in counted
    ]
    vcpus = sum(flavor.vcpus for flavor in flavors if _is_standard(flavor.name))
    return {_SPOT if settings.spot else _ON_DEMAND: vcpus} if vcpus else {}


def _is_standard(flavor: str) -> bool:
    letters = re.match("[a-z]*", flavor)
    return letters is not None and letters[0] in _STANDARD


def _check(account: Account, need: Mapping[Quota, int]) -> list[str]:
    short, unknown = [], []
    for quota, count in need.items():
        try:
            limit, used = _limit(account, quota), _used(account, quota)
        except ProviderError as error:
            unknown.append(f"not compared with the quota of {quota.what}: {error.message}")
            continue
        if used + count > limit:
            short.append(f"{count} {quota.what} (quota {limit:g}, in use {used})")
    if short:
        raise QuotaError(
            f"the plan needs {', '.join(short)}",
            where=account.name,
            cure="plan fewer or smaller endpoints, remove what you don't need, or ask for more in"
            " Service Quotas",
        )
    return unknown


def _limit(account: Account, quota: Quota) -> float:
    answer = account.read(
        "get_service_quota",
        f"reading the quota of {quota.what}",
        service="service-quotas",
        again=failures.is_throttled,
        ServiceCode=quota.service,
        QuotaCode=quota.code,
    )
    return float(answer["Quota"]["Value"])


def _used(account: Account, quota: Quota) -> int:
    if quota is _VPCS:
        return len(account.read("describe_vpcs", "listing VPCs")["Vpcs"])
    if quota is _NICS:
        there = account.read("describe_network_interfaces", "listing network interfaces")
        return len(there["NetworkInterfaces"])
    answer = account.read(
        "describe_instances",
        "listing instances that run",
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}],
    )
    running = [one for some in answer["Reservations"] for one in some["Instances"]]
    return sum(
        one["CpuOptions"]["CoreCount"] * one["CpuOptions"]["ThreadsPerCore"]
        for one in running
        if (one.get("InstanceLifecycle") == "spot") is (quota is _SPOT)
        and one.get("Placement", {}).get("Tenancy") != "host"
        and _is_standard(str(one["InstanceType"]))
    )
