"""Whole runs against EC2 of moto's server, and what they leave: nothing."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import pytest

from osmef.providers.aws.provider import AwsProvider
from tests.aws.api import ACCOUNTS, AMAZON, REGION
from tests.providers.aws.conftest import Lab
from tests.providers.priced import check_price, priced
from tests.providers.spare import SCENARIO, last_receiver, lose_receiver


def test_a_run_measures_between_partitions_and_leaves_nothing(lab: Lab) -> None:
    cost = priced("aws", REGION, "c5.large")
    ended = lab("run", lab.write(placement="different-host", **cost))
    assert ended.code == 0, ended.err
    (cell,) = lab.osmef.summary["cells"]
    assert (cell["n_ok"], cell["achieved_placement"], cell["distance"]) == (1, "different-host", 2)
    check_price(lab.osmef.summary)
    assert all(end["image"].startswith("ami-") for end in lab.osmef.summary["endpoints"])
    assert lab.owned() == []
    made = lab.osmef.kinds_of("created")
    gone = lab.osmef.kinds_of("destroyed")
    assert sorted(made) == sorted(gone)
    assert made.count("instance") == 2
    pages = [one for one in lab.cloud.requests("DescribeInstances") if "NextToken" in one]
    assert pages  # of one instance each


@pytest.mark.real("clouds")
def test_two_vpcs_communicate_over_public_addresses_with_keys_from_the_console(lab: Lab) -> None:
    scenario = lab.write(
        placement="different-host", tenancy="different-tenant", host_keys="console"
    )
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    assert [cell["distance"] for cell in lab.osmef.summary["cells"]] == [4]
    assert lab.owned() == []


def test_accounts_are_tenants(lab: Lab) -> None:
    scenario = lab.write(
        tenants={"red": "red", "blue": "blue"},
        placement="different-host",
        placement_by="dedicated-host",
        tenancy="different-tenant",
    )
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    (cell,) = lab.osmef.summary["cells"]
    assert (cell["n_ok"], cell["distance"]) == (1, 4)
    tenants = {end["achieved"]["tenant"].split("/")[0] for end in lab.osmef.summary["endpoints"]}
    assert tenants == set(ACCOUNTS.values())
    assert lab.owned() == lab.owned("blue") == []


@pytest.mark.real("clouds")
def test_dedicated_hosts_guarantee_both_placements(lab: Lab) -> None:
    scenario = lab.write(
        placement_by="dedicated-host", sweep={"placement": ["same-host", "different-host"]}
    )
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    cells = {cell["placement"]: cell["distance"] for cell in lab.osmef.summary["cells"]}
    assert cells == {"same-host": 0, "different-host": 2}
    assert lab.owned() == []


def test_a_placement_that_ec2_cannot_guarantee_is_rejected_with_an_alternative(lab: Lab) -> None:
    ended = lab("validate", lab.write(placement="same-host"))
    assert ended.code != 0
    assert "dedicated" in ended.err + ended.out
    assert lab.cloud.calls == []


@pytest.mark.real("clouds")
def test_racks_keep_instances_apart(lab: Lab) -> None:
    ended = lab("run", lab.write(placement_by="spread", placement="different-host"))
    assert ended.code == 0, ended.err
    (cell,) = lab.osmef.summary["cells"]
    assert (cell["achieved_placement"], cell["distance"]) == ("different-host", 2)
    (group,) = lab.cloud.requests("CreatePlacementGroup")
    assert group["Strategy"] == "spread"
    assert lab.owned() == []


@pytest.mark.real("clouds")
def test_a_cluster_group_guarantees_no_host_and_its_rack_is_recorded(lab: Lab) -> None:
    ended = lab("run", lab.write(placement_by="cluster", placement="any"))
    assert ended.code == 0, ended.err
    (cell,) = lab.osmef.summary["cells"]
    assert (cell["n_ok"], cell["achieved_placement"]) == (1, None)
    racks = {end["achieved"]["rack"] for end in lab.osmef.summary["endpoints"]}
    assert len(racks) == 1
    assert lab.owned() == []


def test_all_supported_instance_settings_are_applied(lab: Lab) -> None:
    ends = {"sender": {"flavor": {"vcpus": 2, "ram": "3GiB"}}, "receiver": {"flavor": "m5.large"}}
    image = f"{AMAZON}x86_64"
    scenario = lab.write(
        spot=True, dedicated=True, disk="20GiB", image=image, endpoints=ends, zone="eu-central-1c"
    )
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    requests = lab.cloud.requests("RunInstances")
    assert {one["InstanceMarketOptions.MarketType"] for one in requests} == {"spot"}
    assert {one["Placement.Tenancy"] for one in requests} == {"dedicated"}
    assert {one["BlockDeviceMapping.1.Ebs.VolumeSize"] for one in requests} == {"20"}
    assert {one["BlockDeviceMapping.1.Ebs.DeleteOnTermination"] for one in requests} == {"true"}
    assert {one["MetadataOptions.HttpTokens"] for one in requests} == {"required"}
    assert {one["InstanceInitiatedShutdownBehavior"] for one in requests} == {"terminate"}
    assert len({one["ClientToken"] for one in requests}) == 2
    data = [base64.b64decode(one["UserData"]).decode() for one in requests]
    assert all(re.search(r'"shutdown",\s+"-P",\s+"\+\d+"', one) for one in data)
    assert len({end["image"] for end in lab.osmef.summary["endpoints"]}) == 1
    flavors = {end["flavor"] for end in lab.osmef.summary["endpoints"]}
    assert "m5.large" in flavors
    assert len(flavors) == 2
    assert lab.owned() == []


@pytest.mark.real("clouds")
def test_a_spot_instance_that_is_taken_back_leaves_its_trials_to_be_measured(
    lab: Lab,
) -> None:
    def prepare() -> Callable[[], object]:
        found = last_receiver(AwsProvider, lab.access, "instance")
        return lambda: lab.cloud.take_back(str(found.id))

    scenario = lab.write(spot=True, **SCENARIO)
    process = lab.osmef.start("run", scenario, prefix=tuple(lab.cloud.inside))
    lose_receiver(lab.osmef, process, prepare)
    assert lab.owned() == []
