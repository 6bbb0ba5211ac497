"""From EC2 to Compute Engine and back, in one run: both clouds' real APIs, firewalls and sshds."""

from __future__ import annotations

import json
import signal

import pytest

from tests.aws.api import FAR, Fault
from tests.providers.sites.conftest import Lab


def test_a_run_measures_from_one_cloud_to_the_other_and_leaves_nothing(lab: Lab) -> None:
    sweep = {"workload.direction": ["forward", "both"]}
    ended = lab("run", lab.write(sweep=sweep))
    assert ended.code == 0, ended.err
    summary = lab.osmef.summary
    assert summary["run"]["provider"] == "aws+gce"
    assert summary["run"]["sites"] == {"ec2": "aws", "google": "gce"}
    places = [one["achieved"] for one in summary["endpoints"]]
    assert [(one["site"], one["region"]) for one in places] == [
        ("ec2", "eu-central-1"),
        ("google", "here-1"),
    ]
    for cell in summary["cells"]:
        assert (cell["n_ok"], cell["distance"], cell["mismatch"]) == (1, 4, [])
        assert cell["achieved_placement"] == "different-host"
        assert cell["metrics"]["aggregate_btc_bps"]["median"] > 0
    assert lab.left() == []


@pytest.mark.real("clouds")
def test_after_kill_9_reap_cleans_both_clouds(lab: Lab) -> None:
    process = lab.osmef.start("run", lab.write(), prefix=lab.prefix)
    lab.osmef.until(process, "putting the agent on")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kinds = {" ".join(one.split()[:2]) for one in lab.left()}
    assert {"aws instance", "aws security-group", "gce instance", "gce firewall"} <= kinds
    ended = lab("reap", "--yes")
    assert ended.code == 0, ended.err
    assert lab.left() == []


@pytest.mark.real("clouds")
def test_ctrl_c_while_both_clouds_are_at_work_leaves_nothing(lab: Lab) -> None:
    process = lab.osmef.start("run", lab.write(), prefix=lab.prefix)
    lab.osmef.until(process, "making")
    lab.osmef.interrupt(process, signal.SIGINT)
    ended = lab.osmef.finish(process)
    assert ended.code == 4, ended.err
    assert "Traceback" not in ended.err
    assert lab.left() == []


@pytest.mark.real("clouds")
def test_when_one_cloud_has_no_capacity_the_other_is_released(lab: Lab) -> None:
    full = "InsufficientInstanceCapacity"
    lab.aws.faults.append(Fault("RunInstances", full, status=500, times=99))
    ended = lab("run", lab.write())
    assert ended.code == 3
    assert "as the test wants it" in ended.err
    assert "ec2: no capacity in" in ended.err
    assert lab.left() == []


@pytest.mark.real("clouds")
@pytest.mark.parametrize(("cloud", "region"), [("google", "there-1"), ("ec2", FAR)])
def test_two_regions_of_one_cloud_are_two_sites(lab: Lab, cloud: str, region: str) -> None:
    settings = getattr(lab, cloud)
    sites = {"near": settings(), "far": settings(region=region)}
    scenario = lab.write(
        sites=sites,
        endpoints={"sender": {"site": "near"}, "receiver": {}},
        sweep={"endpoints.receiver.site": ["near", "far"]},
    )
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    cells = {cell["key"]: cell for cell in lab.osmef.summary["cells"]}
    assert {key: cell["distance"] for key, cell in cells.items()} == {
        "endpoints.receiver.site=near": 2,
        "endpoints.receiver.site=far": 4,
    }
    assert lab.left() == []


@pytest.mark.real("clouds")
def test_reap_distinguishes_two_sites_of_one_cloud(lab: Lab) -> None:
    sites = {
        "near": lab.google(),
        "far": lab.google(region="there-1", project="beta-2"),
    }
    ends = {"sender": {"site": "near"}, "receiver": {"site": "far"}}
    process = lab.osmef.start("run", lab.write(sites=sites, endpoints=ends), prefix=lab.prefix)
    lab.osmef.until(process, "putting the agent on")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [one.split()[1] for one in lab.left()].count("network") == 2
    ended = lab("reap", "--yes")
    assert ended.code == 0, ended.err
    assert lab.left() == []


@pytest.mark.real("clouds")
def test_pairs_across_the_zones_and_regions_of_one_cloud(lab: Lab) -> None:
    for provider, zones in (
        (lab.google(), ["here-1-a", "here-1-b", "there-1-a"]),
        (lab.ec2(), ["eu-central-1a", "eu-central-1b"]),
    ):
        ends = {"sender": {"zone": zones[0]}, "receiver": {}}
        lab.write(provider=provider, endpoints=ends, sweep={"endpoints.receiver.zone": zones})
        ended = lab("run", "two-clouds.json", "--out", provider["kind"])
        assert ended.code == 0, ended.err
        (run,) = (lab.osmef.directory / provider["kind"]).iterdir()
        summary = json.loads((run / "summary.json").read_text())
        assert [cell["distance"] for cell in summary["cells"]] == [2] * len(zones)
        assert [cell["n_ok"] for cell in summary["cells"]] == [1] * len(zones)
        assert lab.left() == []
