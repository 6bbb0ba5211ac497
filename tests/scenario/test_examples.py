from __future__ import annotations

from pathlib import Path

import pytest

from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.fields import EndpointKind, Placement, ProviderNetwork, Tenancy
from osmef.scenario.load import load
from osmef.scenario.location import Location, distance
from osmef.scenario.model import Scenario
from osmef.workloads import TrialWorkload
from osmef.workloads.kinds.pingpong import PingPongSettings
from osmef.workloads.kinds.udp import UdpSettings
from osmef.workloads.trial_workload import workload_for
from tests.btc import btc_of

ROOT = Path(__file__).parents[2] / "scenarios"
EXAMPLES = sorted(p for p in ROOT.rglob("*.*") if p.parent.name != "campaigns")
PARALLEL = [
    path
    for path in EXAMPLES
    for study in [load(path)]
    if study.cells[0].connections is not None and "workload" not in dict(study.cells[0].values)
]
PAPER = sorted((ROOT / "osmef-paper").iterdir())


def requested_distance(scenario: Scenario) -> int | None:
    same_host = scenario.placement is Placement.SAME_HOST
    same_tenant = scenario.tenancy is Tenancy.SAME_TENANT
    return distance(
        Location(host="1", tenant="1"),
        Location(host="1" if same_host else "2", tenant="1" if same_tenant else "2"),
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_load_and_are_named_like_their_file(path: Path) -> None:
    study = load(path)
    assert study.scenario.name == path.stem
    assert study.scenario.description
    clouds = {"aws", "azure", "gce", "libvirt", "openstack", "static"}
    kinds = {"two-clouds": "aws+gce", **{one.stem: "aws" for one in ROOT.glob("deval/*")}}
    kinds |= {name: name for name in clouds} | {"nic-aggregation": "libvirt"}
    assert study.scenario.kinds_of_clouds == kinds.get(path.stem, "local")


@pytest.mark.parametrize("path", PARALLEL, ids=lambda path: path.name)
def test_examples_can_be_shortened(path: Path) -> None:
    timed = not isinstance(load(path).scenario.workload, PingPongSettings)
    shorter = {"workload.duration": "1s"} if timed else {"coverage": "0.0001"}
    short = load(path, {**shorter, "repeat": "1", "connections": "2"})
    assert short.scenario.repeat == 1
    assert all(_once_s(c.scenario) < 3 for c in short.cells)
    assert {cell.connections for cell in short.cells} == {2}


def _once_s(scenario: Scenario) -> float:
    """Return how long a trial runs, without the rests and what runs once more after them."""
    further = workload_for(scenario.workload, background=False).further_s
    return TrialWorkload(scenario).duration_s - further.most_s


def test_quickstart_measures_three_distances_in_about_twenty_seconds() -> None:
    cells = load(ROOT / "quickstart.yaml").cells
    assert {(requested_distance(c.scenario), btc_of(c.scenario).connections) for c in cells} == {
        (d, n) for d in (0, 2, 4) for n in (1, 10)
    }
    assert sum(btc_of(c.scenario).duration * c.scenario.repetitions for c in cells) == 18


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.name)
def test_the_paper_measures_six_minutes_five_times_with_up_to_fifty_connections(path: Path) -> None:
    study = load(path)
    workloads = [btc_of(cell.scenario) for cell in study.cells]
    assert {w.duration for w in workloads} == {360}
    assert {w.connections for w in workloads} == {1, 5, 10, 20, 30, 50}
    assert study.scenario.repeat == 5


def test_all_experiments_of_the_paper_are_there() -> None:
    studies = {path.stem: load(path) for path in PAPER}
    seen = {
        name: {
            (
                *(end.kind.value for end in c.scenario.ends),
                c.scenario.endpoints.loopback is not None,
            )
            for c in study.cells
        }
        for name, study in studies.items()
    }
    vm, host = EndpointKind.VM.value, EndpointKind.HOST.value
    assert seen == {
        "loopback-host": {(host, host, True)},
        "loopback-vm": {(vm, vm, True)},
        "host-to-host": {(host, host, False)},
        "host-to-host-overlay": {(host, host, False)},
        "vm-to-vm": {(vm, vm, False)},
        "vm-to-host": {(vm, host, False)},
        "host-to-vm": {(host, vm, False)},
    }
    assert studies["host-to-host-overlay"].scenario.layer is ProviderNetwork.OVERLAY
    assert len(studies["vm-to-vm"].cells) == 4 * 6
    assert len(studies["loopback-vm"].cells) == 5 * 6


def test_the_udp_example_sends_below_and_above_what_its_link_takes() -> None:
    study = load(ROOT / "udp-loss.yaml")
    workloads = [cell.scenario.workload for cell in study.cells]
    rates = [w.rate for w in workloads if isinstance(w, UdpSettings)]
    assert len(rates) == len(workloads)
    assert isinstance(study.scenario.provider, LocalSettings)
    assert min(rates) < study.scenario.provider.link_rate < max(rates)


def test_the_pingpong_example_asks_for_a_thousand_messages_a_trial() -> None:
    workloads = [cell.scenario.workload for cell in load(ROOT / "pingpong.yaml").cells]
    assert [w.requests for w in workloads if isinstance(w, PingPongSettings)] == [1000, 1000]
