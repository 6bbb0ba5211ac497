"""Two regions of one cloud: the services of each are asked, and what is in both is told apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from osmef.providers.openstack.provider import OpenStackProvider
from tests.openstack.calls import Call, recorded
from tests.openstack.settings import FAR_REGION, REGION
from tests.providers.openstack.lab import Lab, server

pytestmark = pytest.mark.timeout(1200)  # the first test waits for the cloud

SITES = {
    name: {
        "kind": "openstack",
        "cloud": "alice",
        "region": region,
        "boot": {"image": "guest"},
        "default_flavor": "m1.tiny",
    }
    for name, region in (("near", REGION), ("far", FAR_REGION))
}


MAKING = ("POST", "/v2.1/servers")


def services(calls: Sequence[Call]) -> set[str]:
    return {call.service for call in calls}


def test_only_the_services_of_the_region_are_asked(
    lab: Lab, provider: Callable[..., OpenStackProvider]
) -> None:
    with recorded(lab.cloud) as near:
        provider(region=REGION).check([server()])
    assert services(near) == {"keystone", "glance-api", "nova-api", "neutron-server"}
    with recorded(lab.cloud) as far:
        provider(region=FAR_REGION).check([server()])
        assert OpenStackProvider.owned({"cloud": "alice", "region": FAR_REGION}) == []
    assert services(far) == {"keystone", "far-glance-api", "far-nova-api", "far-neutron-server"}


def write(lab: Lab, **top: object) -> str:
    lab.dirty.add("alice")
    workload = {"kind": "btc", "duration": "300ms", "interval": "100ms"}
    scenario = {"name": "regions", "sites": SITES, "workload": workload, "repeat": 1, **top}
    return lab.osmef.write(json.dumps(scenario), "regions.json")


def test_two_regions_are_two_sites_of_a_run(lab: Lab) -> None:
    ends = {"sender": {"site": "near"}, "receiver": {}}
    sweep = {"endpoints.receiver.site": ["near", "far"]}
    with recorded(lab.cloud) as calls:
        ended = lab("run", write(lab, endpoints=ends, sweep=sweep))
    assert ended.code == 0, ended.err
    cells = {cell["key"]: cell for cell in lab.osmef.summary["cells"]}
    assert {key: (cell["n_ok"], cell["distance"]) for key, cell in cells.items()} == {
        "endpoints.receiver.site=near": (1, 2),
        "endpoints.receiver.site=far": (1, 4),
    }
    places = [one["achieved"] for one in lab.osmef.summary["endpoints"]]
    keystone = lab.cloud.settings.public_url("keystone").split("/")[2]
    assert {(one["site"], one["region"]) for one in places} == {
        ("near", f"{REGION} at {keystone}"),
        ("far", f"{FAR_REGION} at {keystone}"),
    }
    made = [call.service for call in calls if (call.method, call.path) == MAKING]
    assert sorted(made) == ["far-nova-api", *["nova-api"] * (len(places) - 1)]
    assert lab.owned() == []


def test_reap_asks_each_region_for_what_was_made_there(lab: Lab) -> None:
    ends = {"sender": {"site": "near"}, "receiver": {"site": "far"}}
    process = lab.start("run", write(lab, endpoints=ends))
    lab.osmef.until(process, "putting the agent on")
    process.kill()
    process.communicate()
    with recorded(lab.cloud) as calls:
        ended = lab("reap", "--yes")
    assert ended.code == 0, ended.err
    deleted = {call.service for call in calls if call.path.endswith("/action")}
    assert deleted == {"nova-api", "far-nova-api"}
    assert lab.owned() == []


def test_two_projects_in_one_region_are_not_taken_for_apart(lab: Lab) -> None:
    """A member is told ids of hosts that mean something in its project alone."""
    near = {**SITES["near"], "zones": ["az1"]}  # of two zones everybody knows that they are apart
    both = {"near": near, "far": {**near, "cloud": "bob"}}
    lab.dirty.add("bob")
    ends = {"sender": {"site": "near"}, "receiver": {"site": "far"}}
    ended = lab("run", write(lab, sites=both, endpoints=ends, placement="different-host"))
    assert ended.code == 1, ended.err
    (cell,) = lab.osmef.summary["cells"]
    assert (cell["n_ok"], cell["achieved_placement"]) == (0, None)
    assert lab.owned() == lab.owned("bob") == []
