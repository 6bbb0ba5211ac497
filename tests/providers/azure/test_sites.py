"""Pairs of a VM and what stands at another site: a machine, another region, another cloud."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from osmef.providers.aws.provider import AwsProvider
from tests.aws.api import REGION as EC2
from tests.aws.cloud import Cloud
from tests.aws.wiring import OUTSIDE as OF_EC2
from tests.azure.arm import FAR, REGION
from tests.providers.azure.conftest import Lab
from tests.sites.internet import Shore, joined, relayed
from tests.sites.outside import OUTSIDE, both_ways, check, machine_outside


def provider_of(lab: Lab, **more: Any) -> dict[str, Any]:
    """Return the settings of Azure that the lab writes, with these keys."""
    written = json.loads((lab.osmef.directory / lab.write()).read_text())
    return {**written["provider"], **more}


def test_a_vm_and_a_machine_outside_measure_both_ways(lab: Lab, tmp_path: Path) -> None:
    with machine_outside(tmp_path, lab.inside) as machine:
        scenario = both_ways(provider_of(lab), machine)
        ended = lab("run", lab.osmef.write(json.dumps(scenario), "sites.json"))
    assert ended.code == 0, ended.err
    check(lab.osmef.summary)
    assert lab.owned() == []


def two_sites(**sites: Any) -> dict[str, Any]:
    """Return a scenario of one short trial from the first site to the second, and back."""
    sender, receiver = sites
    return {
        "name": "two-sites",
        "sites": sites,
        "endpoints": {"sender": {"site": sender}, "receiver": {"site": receiver}},
        "workload": {
            "kind": "btc",
            "duration": "300ms",
            "interval": "100ms",
            "direction": "both",
        },
        "repeat": 1,
    }


@pytest.mark.real("clouds")
def test_two_regions_of_one_subscription_are_two_sites(lab: Lab) -> None:
    scenario = two_sites(near=provider_of(lab), far=provider_of(lab, region=FAR))
    ended = lab("run", lab.osmef.write(json.dumps(scenario), "sites.json"))
    assert ended.code == 0, ended.err
    check(lab.osmef.summary)
    places = [end["achieved"] for end in lab.osmef.summary["endpoints"]]
    assert [(one["site"], one["region"]) for one in places] == [("near", REGION), ("far", FAR)]
    assert lab.arm.things == {}


@contextmanager
def ec2_beside(lab: Lab, folder: Path) -> Iterator[Cloud]:
    """Have EC2 where the lab's guests and commands can reach it."""
    folder.mkdir()
    cloud = Cloud(state=folder)
    cloud.up()
    try:
        cloud.reset()
        here = Shore(lab.inside[1].removeprefix("--net="), "198.51.100.0/24", OUTSIDE)
        there = Shore(cloud.inside[1].removeprefix("--net="), "54.214.0.0/16", OF_EC2)
        with joined(here, there), relayed(here, cloud.port):
            yield cloud
    finally:
        cloud.down()


@pytest.mark.real("clouds")
def test_from_azure_to_ec2_and_back(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIARED")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with ec2_beside(lab, tmp_path / "ec2") as cloud:
        ec2 = {
            "kind": "aws",
            "region": EC2,
            "default_flavor": "c5.large",
            "user": "debian",
            "controller_cidr": f"{OUTSIDE}/32",
            "endpoint_url": cloud.url,
        }
        scenario = two_sites(azure=provider_of(lab), ec2=ec2)
        ended = lab("run", lab.osmef.write(json.dumps(scenario), "sites.json"))
        left = AwsProvider.owned({"region": EC2, "uri": cloud.url})
    assert ended.code == 0, ended.err
    check(lab.osmef.summary)
    assert lab.osmef.summary["run"]["provider"] == "azure+aws"
    places = [end["achieved"] for end in lab.osmef.summary["endpoints"]]
    assert [(one["site"], one["region"]) for one in places] == [("azure", REGION), ("ec2", EC2)]
    assert (left, lab.arm.things) == ([], {})
