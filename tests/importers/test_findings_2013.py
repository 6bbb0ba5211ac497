"""What Venzano and Michiardi (2013) found, in their published files, and where both disagree."""

from __future__ import annotations

import json
import statistics
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

import osmef
from osmef.analysis.describe import describe_cells
from osmef.importers import import_files
from tests.published import published

METRICS = ("aggregate_btc_bps", "connection_btc_bps", "jain_fairness", "cpu_sender_percent",
           "cpu_receiver_percent")  # fmt: skip
Medians = dict[str, dict[str, dict[int, float]]]
LOOPBACK = ("vm_localhost_4cpu", "vm_localhost_16cpu", "localhost")


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    runs = tmp_path_factory.mktemp("runs")
    import_files("osmef2013", [published("osmef-2013/runs.tar.gz")], runs)
    return osmef.load(runs)


@pytest.fixture(scope="module")
def medians(trials: pd.DataFrame) -> Medians:
    """The median of each metric, by scenario and by number of connections."""
    cells = describe_cells(trials, METRICS, ["scenario", "connections"])
    found: Medians = defaultdict(lambda: defaultdict(dict))
    for row in cells.to_dict("records"):
        found[row["metric"]][row["scenario"]][int(row["connections"])] = row["median"]
    return found


def files() -> Iterator[tuple[str, dict[str, Any]]]:
    with tarfile.open(published("osmef-2013/runs.tar.gz")) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".json") else None
            if file is not None:
                yield member.name.split("/")[-2], json.load(file)["btc"]


def told(flows: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of a file by their definitions alone."""
    rates = [8 * 1024 * float(flow["rx"]["rate_KBps"]) for flow in flows.values()]
    cpu = {
        end: sum(
            100 * (float(flow[end]["user"]) + float(flow[end]["system"]))
            / float(flow[end]["real_seconds"])
            for flow in flows.values()
        )
        for end in ("tx", "rx")
    }  # fmt: skip
    return {
        "aggregate_btc_bps": sum(rates),
        "connection_btc_bps": sum(rates) / len(rates),
        "jain_fairness": sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates)),
        "cpu_sender_percent": cpu["tx"],
        "cpu_receiver_percent": cpu["rx"],
    }


def test_every_number_of_every_scenario_and_connection_count(medians: Medians) -> None:
    wanted: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for scenario, flows in files():
        for name, value in told(flows).items():
            wanted[name, scenario, len(flows)].append(value)
    found = {
        (name, scenario, connections): value
        for name, scenarios in medians.items()
        for scenario, of in scenarios.items()
        for connections, value in of.items()
    }
    assert len(found) == len(wanted) == 5 * 86
    assert found == {key: pytest.approx(statistics.median(of)) for key, of in wanted.items()}


def test_loopback_rises_to_a_plateau_that_more_vcpus_lift(medians: Medians) -> None:
    rates = medians["aggregate_btc_bps"]
    plateau = {
        name: statistics.median(rate for n, rate in rates[name].items() if n >= 20)
        for name in ("vm_localhost", *LOOPBACK)
    }
    assert list(plateau) == sorted(plateau, key=plateau.__getitem__)
    for name in LOOPBACK:
        assert plateau[name] > 2 * rates[name][1]
        late = [rate for n, rate in rates[name].items() if n >= 10]
        assert 0.8 * plateau[name] < min(late) < max(late) < 1.2 * plateau[name]
    # The text says that the rate doubles with the vCPUs: here it is 3.5 times as high for 4 times.
    more = plateau["vm_localhost_16cpu"] / plateau["vm_localhost_4cpu"]
    assert more == pytest.approx(3.5, abs=0.1)


def test_distance_2_has_a_tenth_of_the_rate(medians: Medians) -> None:
    near, far = (medians["connection_btc_bps"][f"vm_to_vm_{n}"] for n in (1, 2))
    assert all(12 < near[n] / far[n] < 17 for n in far)
    assert all(0.99 < n * far[n] / far[1] < 1.03 for n in far), "they share what there is"
    rates = medians["aggregate_btc_bps"]
    loss = [1 - rates["vm_to_vm_2"][n] / rates["host_to_host"][n] for n in far]
    assert 0.01 < min(loss) < max(loss) < 0.04, "the text says 4 %"


def test_vms_are_fair_and_hosts_are_not(medians: Medians) -> None:
    fairness = medians["jain_fairness"]
    for name in ("vm_to_vm_1", "vm_to_vm_2", "localhost", "vm_localhost_16cpu"):
        assert min(fairness[name].values()) > 0.98
    hosts = [j for n, j in fairness["host_to_host"].items() if n > 1]
    assert 0.7 < min(hosts) < max(hosts) < 0.92


def test_contradictions_between_data_and_text_of_2013_are_reproduced(
    trials: pd.DataFrame, medians: Medians
) -> None:
    rates, fairness = medians["aggregate_btc_bps"], medians["jain_fairness"]
    # "Very close to 1, independently of the number of connections and across VM flavors".
    assert all(0.8 < fairness["vm_localhost_4cpu"][n] < 0.86 for n in (40, 50))
    # "A 40 % penalty due to virtualization" of 16 vCPUs.
    best = {name: max(rates[name].values()) for name in ("localhost", "vm_localhost_16cpu")}
    assert best["vm_localhost_16cpu"] / best["localhost"] == pytest.approx(0.69, abs=0.01)
    # A third of the files of the VM with 1 vCPU use four, and have four times the rate.
    one = trials[(trials["scenario"] == "vm_localhost") & (trials["connections"] > 1)]
    late = one["started_at"] >= pd.Timestamp("2013-07-31", tz="UTC")
    early, other = one[~late], one[late]
    assert float(other["cpu_sender_percent"].min()) > 400
    assert float(early["cpu_sender_percent"].max()) < 52
    assert float(other["aggregate_btc_bps"].min()) > 3 * float(early["aggregate_btc_bps"].max())
    # A tunnel between hosts that costs 2 % can't have 17 to 120 times the rate of the network.
    more = [rate / rates["host_to_host"][n] for n, rate in rates["ovs"].items()]
    assert 17 < min(more) < max(more) < 121
    # One file alone is the cell of 20 connections from the host to its VM.
    assert rates["host_vm"][20] < 0.2 * rates["host_vm"][10]
    assert set(trials["distance"].dropna()) == {0, 2}, "the text shows distance 4 as well"
