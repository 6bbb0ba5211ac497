"""The life of a run on Compute Engine: from the API's calls to a number, and all gone after it."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from google.cloud import compute_v1

from osmef.providers.gce.provider import GceProvider
from tests.providers.gce.lab import Lab
from tests.providers.priced import check_price, priced
from tests.providers.spare import SCENARIO, last_receiver, lose_receiver


def test_run_measures_on_different_hosts_and_leaves_nothing(lab: Lab) -> None:
    cost = priced("gce", "here-1", "n2-standard-4")
    ended = lab("run", lab.write(placement="different-host", **cost))

    assert ended.code == 0, ended.err
    check_price(lab.osmef.summary)
    (cell,) = lab.osmef.summary["cells"]
    assert (cell["n_ok"], cell["achieved_placement"], cell["distance"]) == (1, "different-host", 2)
    assert lab.owned() == []


def test_killed_run_is_resumed_with_vms_of_the_same_names(lab: Lab) -> None:
    process = lab.start("run", lab.write())
    lab.osmef.until(process, "waiting for SSH")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    left = lab.owned()

    ended = lab("resume", str(lab.osmef.run))

    assert {"instance", "network", "subnet", "firewall"} <= {one.split()[0] for one in left}
    assert ended.code == 0, ended.err
    assert [cell["n_ok"] for cell in lab.osmef.summary["cells"]] == [1]
    assert lab.owned() == []


def test_interrupted_run_takes_all_away(lab: Lab) -> None:
    process = lab.start("run", lab.write())
    lab.osmef.until(process, "making 2 VM(s)")
    lab.osmef.interrupt(process, signal.SIGINT)
    ended = lab.osmef.finish(process)

    assert ended.code == 4, ended.err
    assert lab.owned() == []


@pytest.mark.real("clouds")
def test_networks_of_one_project_are_tenants_that_meet_on_the_internet(lab: Lab) -> None:
    sweep = {"tenancy": ["same-tenant", "different-tenant"]}
    ended = lab("run", lab.write(placement="different-host", sweep=sweep))

    assert ended.code == 0, ended.err
    distances = {cell["tenancy"]: cell["distance"] for cell in lab.osmef.summary["cells"]}
    assert distances == {"same-tenant": 2, "different-tenant": 4}
    assert all(cell["n_ok"] == 1 for cell in lab.osmef.summary["cells"])
    assert lab.owned() == []


def test_projects_are_tenants(lab: Lab) -> None:
    projects = {"red": "alpha-1", "blue": "beta-2"}
    scenario = lab.write(tenants=projects, tenancy="different-tenant", placement="any")
    ended = lab("run", scenario)

    assert ended.code == 0, ended.err
    (cell,) = lab.osmef.summary["cells"]
    assert (cell["n_ok"], cell["distance"]) == (1, 4)
    places = [end["achieved"] for end in lab.osmef.summary["endpoints"]]
    assert {(place["tenant"], place["host_scope"]) for place in places} == set(projects.items())
    assert lab.owned() == lab.owned("beta-2") == []


@pytest.mark.real("clouds")
def test_sole_tenant_nodes_keep_vms_on_one_host_and_on_two(lab: Lab) -> None:
    scenario = lab.write(
        node_group="nodes",
        zone="here-1-a",
        sweep={"placement": ["same-host", "different-host"]},
    )
    ended = lab("run", scenario)

    assert ended.code == 0, ended.err
    achieved = {
        cell["placement"]: (cell["achieved_placement"], cell["distance"], cell["n_ok"])
        for cell in lab.osmef.summary["cells"]
    }
    assert achieved == {
        "same-host": ("same-host", 0, 1),
        "different-host": ("different-host", 2, 1),
    }
    assert lab.owned() == []


def test_a_misplaced_vm_is_recreated_elsewhere(lab: Lab) -> None:
    """A compact policy promises no different hosts, and the first two VMs are put on one."""
    scenario = lab.write(
        placement="different-host", compact=True, show_hosts=True, on_mismatch="retry 2"
    )
    with lab.cloud.fault("host", times=2, host="host-7"):
        ended = lab("run", scenario)

    assert ended.code == 0, ended.err
    (cell,) = lab.osmef.summary["cells"]
    assert (cell["achieved_placement"], cell["distance"]) == ("different-host", 2)
    assert lab.owned() == []


def test_plan_needs_no_cloud(lab: Lab) -> None:
    planned = lab("plan", lab.write(endpoint_url="http://127.0.0.1:9"))

    assert planned.code == 0, planned.err


@pytest.mark.real("clouds")
def test_spot_vm_that_is_taken_back_leaves_its_trials_to_be_measured(lab: Lab) -> None:
    def prepare() -> Callable[[], object]:
        found, project = last_receiver(GceProvider, lab.access, "instance"), lab.project()
        what = (compute_v1.InstancesClient, "delete")
        where = {"instance": found.name, "zone": "here-1-a"}
        return lambda: project.ask("taking it back", *what, **where)

    process = lab.start("run", lab.write(spot=True, zone="here-1-a", **SCENARIO))
    lose_receiver(lab.osmef, process, prepare)
    assert lab.owned() == []
