"""What is compared with EC2 before anything is made. Needs no root."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from osmef.errors import (
    ApiError,
    CapacityError,
    CredentialsError,
    NotFoundError,
    PolicyError,
    ProviderError,
    QuotaError,
)
from osmef.providers.aws.access import Account
from osmef.providers.aws.lookup import check_quotas, find_flavors, look_up
from osmef.providers.aws.placement import Placer
from osmef.providers.aws.provider import AwsProvider
from osmef.providers.aws.resource_types import TYPES, Maker
from osmef.providers.base import EndpointRequest, never_cancelled
from osmef.providers.marks import Mark
from osmef.providers.sites import Sites
from osmef.scenario.clouds.aws import AwsSettings
from osmef.scenario.fields import EndpointKind, FlavorNeed
from tests.aws import gaps
from tests.aws.api import AMAZON, PLAIN, Api, Fault
from tests.aws.notes import Notes
from tests.providers.aws.conftest import settings_for

STANDARD, SPOT, VPCS = "L-1216C47A", "L-34B43A08", "L-F678F1CE"


def requests(*tenants: str, **more: Any) -> list[EndpointRequest]:
    """Return a request for an instance of each tenant, each on a host of its own."""
    return [
        EndpointRequest(
            **{
                "name": f"end-{number}",
                "role": "sender",
                "kind": EndpointKind.VM,
                "flavor": None,
                "host": f"host-{number}",
                "tenant": tenant,
                **more,
            }
        )
        for number, tenant in enumerate(tenants, 1)
    ]


def settings(api: Api, **more: Any) -> AwsSettings:
    return AwsSettings.model_validate(settings_for(api, **more))


def check(api: Api, *tenants: str, **more: Any) -> None:
    """Check a plan of two instances of one tenant, or of these."""
    AwsProvider(settings(api, **more)).check(requests(*(tenants or ("tenant-1",) * 2)))


def test_a_plan_that_fits_makes_nothing(api: Api) -> None:
    check(api)
    assert {call.action.startswith(("Describe", "Get")) for call in api.calls} == {True}


@pytest.mark.parametrize(("here", "there"), [(28, 1), (0, 29), (28, 0)])
def test_more_peers_than_a_group_has_rules_for_are_refused(api: Api, here: int, there: int) -> None:
    """They are instances of another tenant, and endpoints at another site: two rules each."""
    sites = Sites({site: AwsProvider(settings(api)) for site in ("ec2", "other")})
    wanted = [
        *requests("tenant-1", *["tenant-2"] * here, site="ec2", host=None),
        *requests(*["tenant-3"] * there, site="other", host=None),
    ]
    if here + there > 28:
        with pytest.raises(QuotaError, match=r"tenant-[13] meets 29 endpoints of other"):
            sites.check(wanted)
    else:
        sites.check(wanted)
    assert {call.action.startswith(("Describe", "Get")) for call in api.calls} <= {True}


def test_a_zone_of_several_accounts_is_given_by_its_id(api: Api) -> None:
    provider = AwsProvider(settings(api, tenants={"red": "red", "blue": "blue"}))
    wanted = [
        *requests("tenant-1", zone="eu-central-1b", host=None),
        *requests("tenant-2", host=None),
    ]
    with pytest.raises(ProviderError, match="is another physical zone in each account") as raised:
        provider.check(wanted)
    assert "euc1-az" in str(raised.value.cure)


@pytest.mark.parametrize(
    ("more", "most", "said"),
    [
        ({}, 7, "7 partitions of a placement group"),
        ({"dedicated": True}, 2, "2 partitions of a placement group of dedicated instances"),
        ({"placement_by": "spread"}, 7, "7 instances of a spread group in one zone"),
    ],
)
def test_more_hosts_than_a_placement_group_keeps_apart_are_refused(
    api: Api, more: dict[str, Any], most: int, said: str
) -> None:
    check(api, *["tenant-1"] * most, **more)
    with pytest.raises(CapacityError) as raised:
        check(api, *["tenant-1"] * (most + 1), **more)
    assert f"needs {most + 1} different hosts at once, and there are {said}" in str(raised.value)
    assert ("in place of dedicated" in str(raised.value.cure)) is ("dedicated" in more)
    assert api.requests("CreateVpc") == []


def test_a_spread_group_keeps_seven_instances_apart_in_each_zone(api: Api) -> None:
    provider = AwsProvider(settings(api, placement_by="spread"))
    here, there = (
        [replace(one, zone=zone) for one in requests(*["tenant-1"] * 7)]
        for zone in ("eu-central-1a", "eu-central-1b")
    )
    provider.check([*here, *(replace(one, name=f"{one.name}-b") for one in there)])


@pytest.mark.parametrize(
    ("code", "limit", "more", "said"),
    [
        (STANDARD, 3, {}, "4 vCPUs of standard on-demand instances (quota 3, in use 0)"),
        (SPOT, 0, {"spot": True}, "4 vCPUs of standard spot instances (quota 0, in use 0)"),
        (VPCS, 1, {}, "1 VPCs (quota 1, in use 1)"),  # every account has a default one
    ],
)
def test_a_quota_that_is_too_small_is_reported(
    api: Api, code: str, limit: float, more: dict[str, Any], said: str
) -> None:
    gaps.quotas[code] = limit
    with pytest.raises(QuotaError) as raised:
        check(api, **more)
    assert said in raised.value.message
    assert "Service Quotas" in str(raised.value.cure)


def test_running_instances_count_against_the_quota_except_on_dedicated_hosts(api: Api) -> None:
    image = api.backends()[0].describe_images(owners=["136693071363"])[0].id
    api.backends()[0].run_instances(image, 1, None, [], instance_type="c5.xlarge", **PLAIN)
    gaps.quotas[STANDARD] = 7
    with pytest.raises(QuotaError, match=r"4 vCPUs .* \(quota 7, in use 4\)"):
        check(api)
    check(api, placement_by="dedicated-host")
    check(api, spot=True)


def test_two_tenants_of_one_account_need_two_vpcs_there(api: Api) -> None:
    gaps.quotas[VPCS] = 2
    check(api, tenants={"red": "red", "blue": "blue"}, placement_by="dedicated-host")
    with pytest.raises(QuotaError, match=r"2 VPCs \(quota 2, in use 1\)"):
        check(api, "tenant-1", "tenant-2")


def test_unreadable_quotas_are_reported_and_do_not_stop_the_run(api: Api) -> None:
    api.faults.append(Fault("GetServiceQuota", "AccessDeniedException", times=-1))
    ours, wanted = settings(api), requests("tenant-1")
    tenants = AwsProvider(ours).tenants_of(["tenant-1"], never_cancelled)
    names = {"tenant-1": look_up(tenants[0].account, ours, wanted)}
    told = check_quotas(ours, tenants, names, wanted)
    assert ["GetServiceQuota" in line for line in told] == [True, True]


def find(api: Api, wanted: str | FlavorNeed, **more: Any) -> tuple[str, str]:
    """Return the names of the instance type and the image that are found."""
    ours = settings(api, **more)
    request = requests("tenant-1", flavor=wanted)
    names = look_up(Account(AwsProvider(ours).access_to(None)), ours, request)
    flavor = names.flavors[wanted]
    return flavor.name, names.images[flavor.architecture].name


def test_the_newest_image_of_a_family_is_taken(api: Api) -> None:
    assert find(api, "c5.large")[1] == "debian-12-amd64-20260301-2"


@pytest.mark.parametrize(
    ("flavor", "architecture"), [("c5.large", "x86_64"), ("c6g.large", "arm64")]
)
def test_an_image_is_found_by_a_parameter(api: Api, flavor: str, architecture: str) -> None:
    _, image = find(api, flavor, image=AMAZON + architecture)
    assert image.startswith("al2023-ami-2023.")
    assert image.endswith(architecture)


def test_an_image_is_found_by_id_and_by_owner(api: Api) -> None:
    old = next(one for one in api.backends()[0].amis.values() if one.name.endswith("20260101-1"))
    assert find(api, "c5.large", image=old.id)[1] == old.name
    assert find(api, "c5.large", image="136693071363/debian-12-amd64-2026*")[1].endswith("-2")


def test_an_image_that_its_owner_deprecated_is_found_by_its_id_only(api: Api) -> None:
    images = {one.name[-10:]: one for one in api.backends()[0].amis.values()}
    new = images["20260301-2"]
    new.deprecated = True
    assert find(api, "c5.large", image=new.id)[1] == new.name
    assert find(api, "c5.large")[1].endswith("20260101-1")


def test_a_need_becomes_the_smallest_type_that_fits(api: Api) -> None:
    flavor, _ = find(api, FlavorNeed(vcpus=3, ram="15GiB"))
    assert re.fullmatch(r"m[6-9][a-z]*\.xlarge", flavor)  # 4 vCPUs and 16 GiB


@pytest.mark.parametrize(
    ("more", "kind", "said"),
    [
        ({"default_flavor": "c5.lage"}, NotFoundError, "c5.large"),
        ({"zone": "eu-central-1x"}, NotFoundError, "eu-central-1a (euc1-az1)"),
        (
            {"default_flavor": "g7.2xlarge", "zone": "eu-central-1c"},
            CapacityError,
            "use one of: eu-central-1a (euc1-az1), eu-central-1b (euc1-az2)",
        ),
        ({"image": "ami-00000000000000000"}, NotFoundError, "differ between regions"),
        ({"image": "/aws/service/none"}, NotFoundError, "no parameter"),
        ({"image": "debain-12"}, NotFoundError, "debian-12"),
        ({"image": "self/none-*"}, NotFoundError, "self has no image"),
        ({"image": AMAZON + "arm64"}, NotFoundError, "is for arm64"),
        ({"profile": "green"}, CredentialsError, "green"),
        ({"tenants": {"red": "red"}}, ProviderError, "needs 2 tenants"),
        ({"tenants": {"red": "red", "too": "default"}}, ProviderError, "one and the same account"),
        ({"controller_cidr": None}, ProviderError, "198.51.100.7/32"),
        ({"default_flavor": "t2.micro", "placement_by": "cluster"}, ProviderError, "cluster"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_missing_name_is_reported_with_a_cure(
    api: Api, more: dict[str, Any], kind: type[ProviderError], said: str
) -> None:
    with pytest.raises(kind) as raised:
        check(api, "tenant-1", "tenant-2", **more)
    assert said in str(raised.value)
    assert raised.value.cure


def test_missing_or_expired_credentials_are_reported(api: Api, credentials: Path) -> None:
    api.faults.append(Fault("GetCallerIdentity", "ExpiredToken", 403))
    with pytest.raises(CredentialsError, match="as the test wants it"):
        check(api)
    credentials.write_text("")
    with pytest.raises(CredentialsError) as raised:
        check(api)
    assert "aws sts get-caller-identity" in str(raised.value)


def test_a_missing_permission_to_read_is_named(api: Api) -> None:
    denied = "User: me is not authorized to perform: ec2:DescribeImages because of a policy"
    api.faults.append(Fault("DescribeImages", "UnauthorizedOperation", 403, denied, times=-1))
    with pytest.raises(PolicyError, match="does not allow ec2:DescribeImages"):
        check(api)


@pytest.mark.parametrize(("asked", "calls"), [("0", 2), ("", 2), ("3600", 1)])
def test_the_retry_after_header_of_ec2_is_respected(api: Api, asked: str, calls: int) -> None:
    account = Account(AwsProvider(settings(api)).access_to(None))
    account.retry_s = 60.0
    api.faults.append(Fault("DescribeVpcs", "RequestLimitExceeded", 503, retry_after=asked))
    try:
        account.read("describe_vpcs", "listing VPCs")
    except ApiError:
        assert asked == "3600"  # it is not worth the wait
    assert len(api.requests("DescribeVpcs")) == calls


def test_an_image_without_the_driver_of_the_network_is_refused(api: Api) -> None:
    for image in api.backends()[0].amis.values():
        image.ena_support = False
    with pytest.raises(ProviderError, match="no driver for the enhanced networking"):
        check(api)
    check(api, default_flavor="c4.large")


def test_types_of_two_families_share_no_dedicated_host(api: Api) -> None:
    ours, wanted = settings(api, placement_by="dedicated-host"), requests("tenant-1")
    account = Account(AwsProvider(ours).access_to(None))
    placer = Placer(Maker(Mark("a-run", 1, 2), Notes(), TYPES), ours, wanted)
    flavors = find_flavors(account, ["c5.large", "c5.xlarge", "m5.large"])
    apart = [flavors["c5.large"], flavors["m5.large"]]
    with pytest.raises(ProviderError, match=r"is of one family, .* c5.large and m5.large"):
        placer.place(account, wanted[0], "eu-central-1a", apart)
    alike = [flavors["c5.large"], flavors["c5.xlarge"]]
    placer.place(account, wanted[0], "eu-central-1a", alike)
    (made,) = api.requests("AllocateHosts")
    assert made["InstanceFamily"] == "c5"


def test_a_host_that_was_given_back_is_not_used_again(api: Api) -> None:
    ours, wanted = settings(api, placement_by="dedicated-host"), requests("tenant-1")
    account = Account(AwsProvider(ours).access_to(None))
    maker = Maker(Mark("a-run", 1, 2), Notes(), TYPES)
    placer = Placer(maker, ours, wanted)
    flavors = list(find_flavors(account, ["c5.large"]).values())
    where = (account, wanted[0], "eu-central-1a", flavors)
    first = placer.place(*where)["HostId"]
    assert placer.place(*where)["HostId"] == first
    AwsProvider.tear_down(list(maker.made), maker.note_destroyed)
    assert placer.place(*where)["HostId"] != first
    tokens = [made["ClientToken"] for made in api.requests("AllocateHosts")]
    assert len(set(tokens)) == len(tokens) == 2  # EC2 would return the old one to the same token


def test_an_api_that_is_not_there_is_an_error_of_the_api(api: Api) -> None:
    account = Account(AwsProvider(settings(api)).access_to(None))
    account.retry_s = 0.0
    api.faults.append(Fault("DescribeVpcs", "InternalError", 500, times=-1))
    with pytest.raises(ProviderError, match="as the test wants it"):
        account.read("describe_vpcs", "listing VPCs")
