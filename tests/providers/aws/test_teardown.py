"""What is made but instances, and how it is taken away. Needs no root."""

from __future__ import annotations

from dataclasses import replace

import pytest

from osmef.errors import CredentialsError, PolicyError, ProviderError
from osmef.providers.aws.access import Account
from osmef.providers.aws.network import make_keypair, make_net, make_subnets
from osmef.providers.aws.provider import AwsProvider
from osmef.providers.aws.resource_types import TYPES, Maker
from osmef.providers.base import Resource
from osmef.providers.cloud.account import CloudWaits, Tenant
from osmef.providers.marks import Mark
from osmef.remote.login import KeyPair
from tests.aws.api import REGION, Api, Fault
from tests.aws.notes import Notes

ZONE = "eu-central-1a"
OCCUPIED = (
    "<ReleaseHostsResponse><unsuccessful><item><error><code>Client.InvalidHost.Occupied</code>"
    "<message>an instance is on it</message></error><resourceId>h-1</resourceId></item>"
    "</unsuccessful></ReleaseHostsResponse>"
)
NO_HOSTS = "<DescribeHostsResponse><hostSet/></DescribeHostsResponse>"
NO_GROUPS = "<DescribeSecurityGroupsResponse><securityGroupInfo/></DescribeSecurityGroupsResponse>"

NO_SUBNETS = "<DescribeSubnetsResponse><subnetSet/></DescribeSubnetsResponse>"


@pytest.fixture
def maker(api: Api) -> Maker:
    return Maker(Mark("a-run", made=1, deadline=2), Notes(), TYPES)


@pytest.fixture
def account(api: Api) -> Account:
    account = Account(
        {"region": REGION, "uri": api.url}, CloudWaits(look_s=0.1, listing_delay_s=0.1)
    )
    account.retry_s = 0.0
    return account


def make_site(maker: Maker, account: Account) -> None:
    """Make a network with all that belongs to it."""
    make_keypair(maker, account, KeyPair.generate("test").public)
    net = make_net(maker, Tenant("tenant-1", 1, "one", account), "192.0.2.1/32")
    make_subnets(maker, net, "euc1-az1")


def make_host(maker: Maker, account: Account) -> None:
    """Make a dedicated host."""
    maker.make(
        account,
        "dedicated-host",
        maker.mark.name("host-1"),
        AvailabilityZone=ZONE,
        InstanceType="c5.large",
        Quantity=1,
    )


def kinds(account: Account) -> set[str]:
    """Return the kinds of things of ours that exist."""
    return {one.kind for one in AwsProvider.find(account, None)}


def test_a_network_is_deleted_with_its_contents_and_a_foreign_one_is_kept(
    api: Api, maker: Maker, account: Account
) -> None:
    make_site(maker, account)
    ours = {"vpc", "subnet", "internet-gateway", "security-group", "key-pair"}
    assert kinds(account) == ours
    foreign = api.backends()[0].create_vpc("10.99.0.0/16").id
    (vpc,) = [one for one, _account in maker.made if one.kind == "vpc"]
    wrong = replace(vpc, id=foreign, name="somebody's")  # as of a journal that was tampered with
    AwsProvider.tear_down([*maker.made, (wrong, account)], maker.note_destroyed)
    assert kinds(account) == set()
    assert foreign in api.backends()[0].vpcs
    assert maker.made == []
    AwsProvider.tear_down([(vpc, account)], maker.note_destroyed)  # gone already is success


@pytest.mark.parametrize(
    "action",
    [
        *("DeleteKeyPair", "DeleteSecurityGroup", "DeleteSubnet", "DetachInternetGateway"),
        *("DeleteInternetGateway", "DeleteVpc"),
    ],
)
def test_a_deletion_whose_answer_is_lost_is_repeated(
    api: Api, maker: Maker, account: Account, action: str
) -> None:
    make_site(maker, account)
    account.retry_s = 60.0
    api.faults.append(Fault(action, "InternalError", 500, after=True))
    AwsProvider.tear_down(list(maker.made), maker.note_destroyed)
    assert len(api.requests(action)) == 2
    assert maker.made == []
    assert kinds(account) == set()


@pytest.mark.parametrize("odd", ["²", "9" * 200, "soon", ""])
def test_unreadable_foreign_tags_are_reported_and_hide_no_resource(
    api: Api, maker: Maker, account: Account, odd: str
) -> None:
    make_site(maker, account)
    ours = kinds(account)
    theirs = api.backends()[0].create_vpc("10.99.0.0/16")
    theirs.add_tags({"osmef_run": "a-run", "osmef_made": "1", "osmef_deadline": odd})
    lines: list[str] = []
    found = AwsProvider.owned(account.access, unread=lines.append)
    assert {one.kind for one in found} == ours
    assert theirs.id not in {one.id for one in found}
    (line,) = lines
    assert f"vpc {theirs.id}: its mark can't be read" in line


def test_resources_of_unknown_kinds_in_a_journal_are_not_accepted(account: Account) -> None:
    known = Resource("aws", "vpc", "osmef-a", "a", "vpc-1")
    assert AwsProvider.recognises(known)
    assert not AwsProvider.recognises(replace(known, kind="vpd"))


def test_the_error_of_a_list_says_what_is_listed(api: Api, account: Account) -> None:
    api.faults.append(Fault("DescribeInstances", "ExpiredToken"))
    with pytest.raises(CredentialsError, match="listing instances: "):
        kinds(account)


def test_only_a_resource_still_in_use_remains_and_is_reported(
    api: Api, maker: Maker, account: Account
) -> None:
    make_site(maker, account)
    api.faults.append(Fault("DeleteVpc", "DependencyViolation", message="has dependencies"))
    with pytest.raises(ProviderError, match=r"deleting the vpc .*has dependencies") as raised:
        AwsProvider.tear_down(list(maker.made), maker.note_destroyed)
    assert "osmef reap --provider aws" in str(raised.value.cure)
    assert kinds(account) == {"vpc"}
    assert [one.kind for one, _account in maker.made] == ["vpc"]
    AwsProvider.tear_down(list(maker.made), maker.note_destroyed)
    assert kinds(account) == set()


def test_a_missing_delete_permission_is_named_and_the_rest_is_deleted(
    api: Api, maker: Maker, account: Account
) -> None:
    make_site(maker, account)
    api.faults.append(Fault("DeleteKeyPair", "UnauthorizedOperation", 403))
    with pytest.raises(PolicyError, match="does not allow ec2:DeleteKeyPair"):
        AwsProvider.tear_down(list(maker.made), maker.note_destroyed)
    assert kinds(account) == {"key-pair"}


def test_a_host_that_is_not_released_yet_is_released_later(
    api: Api, maker: Maker, account: Account
) -> None:
    account.retry_s = 60.0
    make_host(maker, account)
    api.faults.append(Fault("ReleaseHosts", answer=OCCUPIED))
    AwsProvider.tear_down(list(maker.made), maker.note_destroyed)
    assert len(api.requests("ReleaseHosts")) == 2
    assert kinds(account) == set()


def test_a_host_that_no_list_shows_yet_is_released_all_the_same(
    api: Api, maker: Maker, account: Account
) -> None:
    make_host(maker, account)
    unlisted = Fault("DescribeHosts", answer=NO_HOSTS, holding="tag-key", times=-1)
    api.faults.append(unlisted)
    AwsProvider.tear_down(list(maker.made), maker.note_destroyed)
    api.faults.clear()
    assert kinds(account) == set()
    assert maker.made == []


def test_a_resource_not_yet_visible_is_looked_for_again(
    api: Api, maker: Maker, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_host(maker, account)
    waits: list[float] = []
    monkeypatch.setattr(account, "wait", waits.append)
    api.faults += [
        Fault("DescribeHosts", answer=NO_HOSTS, holding="tag-key"),
        Fault("DescribeHosts", "InvalidHostID.NotFound", holding="HostId.1="),
    ]
    AwsProvider.tear_down(list(maker.made), maker.note_destroyed)
    assert len(waits) == 1
    assert kinds(account) == set()


def test_a_resource_whose_creation_was_refused_is_not_waited_for(
    api: Api, maker: Maker, account: Account
) -> None:
    api.faults.append(Fault("AllocateHosts", "InsufficientHostCapacity", 500))
    with pytest.raises(ProviderError):
        make_host(maker, account)
    assert maker.made == []


@pytest.mark.parametrize(
    ("kind", "none"),
    [("SecurityGroup", NO_GROUPS), ("Subnet", NO_SUBNETS)],
    ids=["group", "subnet"],
)
def test_a_resource_created_by_a_lost_request_is_found_once_listed(
    api: Api, maker: Maker, account: Account, kind: str, none: str
) -> None:
    account.retry_s = 60.0
    lost = Fault(f"Create{kind}", "InternalError", 500, after=True)
    api.faults += [lost, Fault(f"Describe{kind}s", answer=none)]
    make_site(maker, account)
    found = [one.kind.title().replace("-", "") for one in AwsProvider.find(account, None)]
    assert found.count(kind) == 1
    assert len(api.requests(lost.action)) == 2  # the other one was refused


def test_a_journal_without_answers_finds_what_the_requests_made(
    api: Api, maker: Maker, account: Account
) -> None:
    make_site(maker, account)
    intended = [(replace(one, id=None), where) for one, where in maker.made]
    AwsProvider.tear_down(intended, lambda _resource: None)
    assert kinds(account) == set()
