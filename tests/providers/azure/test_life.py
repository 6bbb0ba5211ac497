"""Whole runs: from the first call of the API to a number, and nothing is left."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import pytest

from osmef.providers.azure.provider import AzureProvider
from tests.azure.arm import OTHER, REGION, SUBSCRIPTION, Fault
from tests.providers.azure.conftest import Lab, config_of
from tests.providers.spare import SCENARIO, last_receiver, lose_receiver

TENANCIES = ["same-tenant", "different-tenant"]


def test_a_run_measures_apart_and_between_networks(lab: Lab) -> None:
    scenario = lab.write(
        placement="different-host",
        on_mismatch="record",
        sweep={"tenancy": TENANCIES},
        budget="100 USD",
    )
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    cells = {cell["tenancy"]: cell for cell in lab.osmef.summary["cells"]}
    assert all(cell["metrics"]["aggregate_btc_bps"]["median"] > 0 for cell in cells.values())
    # Fault domains of one set differ; of two networks' VMs nobody can tell.
    found = {name: (cell["achieved_placement"], cell["distance"]) for name, cell in cells.items()}
    assert found == {"same-tenant": ("different-host", 2), "different-tenant": (None, 4)}
    ends = lab.osmef.summary["endpoints"]
    assert {end["image"] for end in ends} == {"Debian:debian-12:12-gen2:0.20250101.10"}
    assert {end["achieved"]["region"] for end in ends} == {REGION}
    assert {end["price"]["amount"] for end in ends} == {0.115}  # of the list that comes with OSMeF
    assert 0 < lab.osmef.summary["run"]["cost"]["amount"] < 100
    assert lab.owned() == []
    assert lab.arm.things == {}
    made, gone = lab.osmef.kinds_of("created"), lab.osmef.kinds_of("destroyed")
    assert sorted(made) == sorted(gone)
    assert made.count("vm") == len(ends)


@pytest.mark.real("clouds")
def test_subscriptions_are_tenants_and_host_keys_come_from_the_console(lab: Lab) -> None:
    scenario = lab.write(
        tenancy="different-tenant",
        provider={
            "tenants": {"red": SUBSCRIPTION, "blue": OTHER},
            "host_keys": "console",
            "zone": f"{REGION}-az1",
        },
    )
    process = lab.start("run", scenario)
    lab.osmef.until(process, "waiting for SSH")
    vms = [one for one in lab.arm.things.values() if one["type"].endswith("/virtualMachines")]
    told = [config_of(one) for one in vms]
    ended = lab.osmef.finish(process)
    assert ended.code == 0, ended.err
    assert not any("ssh_keys" in config for config in told)
    places = [end["achieved"] for end in lab.osmef.summary["endpoints"]]
    # Each subscription numbers the zones of the region in its own way.
    assert sorted(one["zones"] for one in vms) == [["1"], ["3"]]
    assert {place["zone"] for place in places} == {f"{REGION}-az1"}
    assert {place["tenant"] for place in places} == {"red", "blue"}
    assert lab.arm.things == {}


@pytest.mark.real("clouds")
def test_dedicated_hosts_guarantee_both_placements_and_a_misplaced_vm_is_recreated(
    lab: Lab,
) -> None:
    lab.arm.misplaced = ["receiver-h1"]
    scenario = lab.write(
        provider={"dedicated_host": "DSv5-Type1"},
        on_mismatch="retry 1",
        sweep={"placement": ["same-host", "different-host"]},
    )
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    assert {one["placement"]: one["distance"] for one in lab.osmef.summary["cells"]} == {
        "same-host": 0,
        "different-host": 2,
    }
    assert "recreating" in ended.err
    assert [len(end["earlier"]) for end in lab.osmef.summary["endpoints"]].count(1) == 1
    assert lab.arm.things == {}


@pytest.mark.real("clouds")
def test_killed_before_the_answer_leaves_what_reap_finds(lab: Lab) -> None:
    def kill() -> None:
        lab.osmef.started[0].send_signal(signal.SIGKILL)

    lab.arm.faults.append(Fault("PUT .*virtualMachines/", 500, "Dead", lost=True, then=kill))
    assert lab("run", lab.write()).code == -signal.SIGKILL
    left = lab.owned()
    assert any(one.startswith("vm ") for one in left)
    # A VM that powered itself off at its deadline is found as well: Azure keeps its things.
    vm, *_ = (one for one in lab.arm.things.values() if one["type"].endswith("/virtualMachines"))
    (command,) = config_of(vm)["runcmd"]
    assert re.fullmatch(r"shutdown -P \+\d+", " ".join(command))
    lab.arm.tell({"do": "end", "id": lab.arm.inner(vm)["key"]})
    # Without the journal nobody knows that the run is dead, until its deadline has passed.
    elsewhere = ("--provider", "azure", "--uri", lab.arm.url, "--out", "elsewhere")
    assert lab("reap", "--yes", *elsewhere).code == 0
    assert lab.owned() == left
    ended = lab("reap", "--yes")
    assert ended.code == 0, ended.err
    assert lab.arm.things == {}


def killer(lab: Lab) -> Callable[[], None]:
    """Return what kills the first command that was started."""
    return lambda: lab.osmef.started[0].send_signal(signal.SIGKILL)


def test_reap_without_journals_takes_what_is_due_and_nothing_foreign(lab: Lab) -> None:
    dead = Fault("PUT .*virtualMachines/", 500, "Dead", lost=True, then=killer(lab))
    lab.arm.faults.append(dead)
    assert lab("run", lab.write()).code == -signal.SIGKILL
    ours = set(lab.arm.things)
    start = f"/subscriptions/{SUBSCRIPTION}/resourceGroups"
    group = "Microsoft.Resources/resourceGroups"
    for name, tags in (("theirs", None), ("osmef-theirs-1", {"osmef_run": "not-ours"})):
        there = {"id": f"{start}/{name}", "name": name, "type": group, "tags": tags}
        lab.arm.things[str(there["id"]).lower()] = {**there, "properties": {}}
    where = ("--provider", "azure", "--uri", lab.arm.url, "--out", "elsewhere")
    ended = lab("reap", "--yes", "--older-than", "0s", *where)
    assert ended.code == 0, ended.err
    assert not ours & set(lab.arm.things)
    assert [one["name"] for one in lab.arm.things.values()] == ["theirs", "osmef-theirs-1"]


@pytest.mark.real("clouds")
def test_a_killed_run_is_resumed(lab: Lab) -> None:
    lab.arm.faults.append(Fault("PUT .*schedules/", 500, "Dead", lost=True, then=killer(lab)))
    assert lab("run", lab.write()).code == -signal.SIGKILL
    ended = lab("resume", str(lab.osmef.run))
    assert ended.code == 0, ended.err
    (cell,) = lab.osmef.summary["cells"]
    assert cell["n_ok"] == 1
    assert lab.arm.things == {}


def test_ctrl_c_while_things_are_made_leaves_nothing(lab: Lab) -> None:
    def ctrl_c() -> None:
        lab.osmef.interrupt(lab.osmef.started[0], signal.SIGINT)

    lab.arm.faults.append(Fault("PUT .*virtualMachines/", 429, "TooManyRequests", then=ctrl_c))
    ended = lab("run", lab.write())
    assert ended.code == 4, ended.err
    assert lab.arm.things == {}


@pytest.mark.real("clouds")
def test_a_spot_vm_that_is_evicted_leaves_its_trials_to_be_measured(lab: Lab) -> None:
    def prepare() -> Callable[[], object]:
        found = last_receiver(AzureProvider, {"uri": lab.arm.url}, "vm")
        return lambda: lab.arm.evict(str(found.id))

    process = lab.start("run", lab.write(provider={"spot": True}, **SCENARIO))
    lose_receiver(lab.osmef, process, prepare)
    assert lab.arm.things == {}
