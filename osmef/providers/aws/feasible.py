"""What EC2 can't do for a cell, or can't promise."""

from __future__ import annotations

from collections.abc import Iterator

from osmef.scenario.clouds.aws import AwsPlacedBy, AwsSettings
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.study import Cell

Problem = tuple[str, str, str]


def problems_of(settings: AwsSettings, cell: Cell) -> Iterator[Problem]:
    """Yield what can't be done, as (scenario key, message, cure)."""
    scenario = cell.scenario
    if EndpointKind.HOST in {end.kind for end in scenario.ends}:
        cure = "leave kind out; a dedicated host is named by provider.placement_by"
        yield ("endpoints", "there are no physical hosts here, only instances", cure)
    if scenario.endpoints.loopback is not None:
        return
    apart = scenario.tenancy is Tenancy.DIFFERENT_TENANT
    if apart and settings.tenants is not None and len(settings.tenants) < 2:
        cure = "name another profile in provider.tenants, or leave tenants out: each is a VPC then"
        yield ("tenancy", "different-tenant needs two accounts", cure)
    if settings.placement_by is AwsPlacedBy.CLUSTER and len(set(scenario.zones_of_ends)) > 1:
        cure = "write one zone for both ends, or provider.placement_by: partition"
        yield ("endpoints", "a cluster is in one zone", cure)
    if scenario.placement is Placement.SAME_HOST:
        yield from _same_host(settings, accounts=apart and settings.tenants is not None)
    if scenario.placement is Placement.DIFFERENT_HOST:
        yield from _different_host(settings, cell, accounts=apart and settings.tenants is not None)


def _same_host(settings: AwsSettings, *, accounts: bool) -> Iterator[Problem]:
    if settings.placement_by is not AwsPlacedBy.DEDICATED_HOST:
        cure = (
            "write provider.placement_by: dedicated-host; the nearest without one is placement: any"
            " with placement_by: cluster"
        )
        yield ("placement", "instances share a host for sure only on a dedicated one", cure)
    elif accounts:
        cure = "leave provider.tenants out: each tenant is a VPC of its own then"
        yield ("placement", "a dedicated host belongs to one account", cure)


def _different_host(settings: AwsSettings, cell: Cell, *, accounts: bool) -> Iterator[Problem]:
    by = settings.placement_by
    if by is AwsPlacedBy.CLUSTER:
        cure = "write provider.placement_by: partition or spread, or placement: any"
        yield ("placement", "a cluster keeps instances near each other, on one host or not", cure)
    elif accounts and by is not AwsPlacedBy.DEDICATED_HOST:
        cure = (
            "leave provider.tenants out (each tenant is a VPC then), or write placement_by:"
            " dedicated-host"
        )
        yield ("placement", "a placement group does not reach across accounts", cure)
    if by is AwsPlacedBy.SPREAD and cell.scenario.shares_hosts:
        cure = "write provider.placement_by: partition or dedicated-host"
        yield ("placement", "several instances of one end are spread, too", cure)


def warnings_of(settings: AwsSettings, cell: Cell) -> Iterator[str]:
    """Yield what EC2 can't promise for a cell, and what to do about it."""
    scenario = cell.scenario
    if scenario.endpoints.loopback is not None:
        return
    if not settings.priced_by_flavor:
        yield "hardware for you alone has prices of its own, which no price list here holds"
    apart = scenario.placement is Placement.DIFFERENT_HOST and scenario.shares_hosts
    if apart and settings.placement_by is AwsPlacedBy.PARTITION:
        yield "several instances of one end share a partition, not for sure a host"
    if scenario.tenancy is Tenancy.DIFFERENT_TENANT:
        yield "traffic between tenants goes over public addresses, and Amazon charges for it"
