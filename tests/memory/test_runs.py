"""Whole runs in memory, from a scenario to its summary: the numbers are those of the paths."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmef.engine.plan import PlannedTrial
from tests.memory import exchanges, http
from tests.memory.cloud import APART, NEAR, ROUTED, World, memory_world
from tests.memory.lab import Lab
from tests.memory.model import Path
from tests.set_clock import set_clock

REPEAT = 3
EVERYWHERE = f"""
name: everywhere
sweep:
  placement: [same-host, different-host]
  tenancy: [same-tenant, different-tenant]
  exclude: [{{placement: same-host, tenancy: different-tenant}}]
repeat: {REPEAT}
seed: 7
"""
NOISE = 0.05


def noisy(path: Path) -> Path:
    return Path(**{**vars(path), "noise": NOISE})


Expected = Callable[[Path, list[int]], dict[str, float]]
"""Metrics of a cell by its path and the numbers of its trials."""


def median(path: Path, trials: list[int]) -> float:
    return statistics.median(path.rate_in(trial) for trial in trials)


def of_btc(path: Path, trials: list[int]) -> dict[str, float]:
    rate = median(path, trials)
    return {
        "aggregate_btc_bps": rate,
        "connection_btc_bps": rate / 4,
        "jain_fairness": 1.0,
        "rtt_mean_us": path.rtt_us,
        "rtt_min_us": path.rtt_us,
        "retransmits": 0,
        "tcp_efficiency_percent": 100.0,
        "overlap_percent": 100.0,
    }


def of_both_ways(path: Path, trials: list[int]) -> dict[str, float]:
    rate = median(path, trials)
    return {"aggregate_btc_bps": rate, "reverse_aggregate_btc_bps": rate}


def of_latency(path: Path, trials: list[int]) -> dict[str, float]:
    shortest = path.rtt_us
    mean = sum(share * times for share, times in path.tail) * shortest
    return {
        "rtt_min_us": shortest,
        "rtt_p50_us": shortest,
        "rtt_p99_us": 2 * shortest,
        "rtt_p999_us": 4 * shortest,
        "rtt_max_us": 4 * shortest,
        "rtt_mean_us": mean,
        "exchanges_per_s": 1e6 / mean,
    }


def of_loaded_latency(path: Path, trials: list[int]) -> dict[str, float]:
    return {
        "idle_rtt_p50_us": path.rtt_us,
        "loaded_rtt_p50_us": path.loaded_rtt_us,
        "latency_increase_ratio": path.loaded_rtt_us / path.rtt_us,
        "background_aggregate_btc_bps": median(path, trials),
    }


def of_sizes(path: Path, trials: list[int]) -> dict[str, float]:
    largest = 1 << 20
    rates = [
        8 * largest / (1.25e-6 * exchanges.message_us(path, largest, "pingpong", rate))
        for rate in map(path.rate_in, trials)
    ]
    return {
        "latency_min_us": path.rtt_us / 2 + 8e6 / median(path, trials),
        "throughput_max_bps": statistics.median(rates),
        "sizes_measured": len(exchanges.sweep_sizes(1, largest, 3)),
    }


def of_udp(path: Path, trials: list[int]) -> dict[str, float]:
    bits, seconds = 8 * 1200, 10
    sent = int(10e6 * seconds / bits)
    lost = round(path.loss * sent)
    return {
        "offered_bps": 20e6,
        "sent_bps": 2 * sent * bits / seconds,
        "goodput_bps": 2 * (sent - lost) * bits / seconds,
        "loss_percent": 100 * lost / sent,
        "network_loss_percent": 100 * lost / sent,
        "receiver_drops": 0,
        "loss_longest": lost,
        "jain_fairness": 1.0,
    }


def of_http(path: Path, trials: list[int]) -> dict[str, float]:
    times = [http.relay_us(path, size) for size in (1000, 50_000) for _ in range(5)]
    total_us = sum(times) + len(times) * http.RELAYING_US
    return {
        "requests": 10,
        "failed_requests": 0,
        "retries": 0,
        "time_p50_us": statistics.median(times),
        "time_max_us": max(times),
        "request_max_us": max(times) + http.RELAYING_US,
        "requests_per_s": 1e6 * 10 / total_us,
        "goodput_bps": 8e6 * 5 * 51_000 / total_us,
    }


WORKLOADS: dict[str, tuple[str, Expected, float]] = {
    "btc": ("workload: {connections: 4, warmup: 1s}", of_btc, 1e-6),
    "both ways": ("workload: {direction: both}", of_both_ways, 1e-6),
    # A quantile is read from a histogram.
    "latency": ("workload: latency", of_latency, 0.02),
    "loaded": ("workload: latency\nbackground: btc", of_loaded_latency, 0.02),
    "sizes": ("workload: {kind: size-sweep, max: 1MiB}", of_sizes, 1e-3),
    "udp": ("workload: {kind: udp, connections: 2, rate: 10Mbit/s}", of_udp, 1e-6),
    "http": (
        "workload: {kind: pingpong, sizes: [1000B, 50000B], repetitions: 5}",
        of_http,
        1e-6,
    ),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_numbers_of_each_workload_are_those_of_each_path(
    lab: Lab, world: World, name: str
) -> None:
    text, expected, within = WORKLOADS[name]
    constant = name == "http"  # its times are those of its rate
    paths = [path if constant else noisy(path) for path in (NEAR, APART, ROUTED)]
    lossy = Path(**{**vars(paths[1]), "loss": 0.01})
    world.usual = (paths[0], lossy, paths[2])
    summary = lab.run(EVERYWHERE + text)
    assert summary["run"]["complete"]
    assert [cell["distance"] for cell in summary["cells"]] == [0, 2, 4]
    assert [trial.failure for trial in lab.trials] == [None] * 3 * REPEAT
    for cell, path in zip(summary["cells"], world.usual, strict=True):
        assert (cell["n_ok"], cell["n_failed"], cell["mismatch"]) == (REPEAT, 0, [])
        numbers = [one.index for one in lab.trials if one.cell == cell["key"]]
        assert len(numbers) == REPEAT
        for metric, value in expected(path, numbers).items():
            assert cell["metrics"][metric]["median"] == pytest.approx(value, rel=within), metric
    nothing_is_left(lab)


SEARCH = """
name: search
workload:
  {kind: udp, rate: 4Gbit/s, duration: 20s, interval: 2s, connections: 2,
   search: {loss: 0.1 %, lowest: 10Mbit/s, rest: 0}}
repeat: 2
"""


def test_the_highest_rate_of_datagrams_is_that_of_the_path(lab: Lab, world: World) -> None:
    world.usual = (NEAR, noisy(APART), ROUTED)
    summary = lab.run(SEARCH + "placement: different-host\n")
    for trial in lab.trials:
        truth, found = world.usual[1].rate_in(trial.index) / (1 - 0.001), trial.search
        assert found is not None
        assert found.ended == "found"
        assert (found.passed_bps or 0) <= truth <= (found.refused_bps or 0) * 1.0001
        assert found.refused_bps == pytest.approx(found.passed_bps, rel=0.0101)
        assert trial.metrics["throughput_bps"] == found.passed_bps
        per_s = trial.metrics["throughput_datagrams_per_s"]
        assert per_s == pytest.approx((found.passed_bps or 0) / 8 / 1200)
        assert trial.metrics["datagrams_per_s"] == pytest.approx(per_s, rel=0.002)
        assert trial.metrics["search_steps"] == len(found.tried) == len(trial.datagrams)
    told = [one for one in summary["run"]["warnings"] if one.startswith("trial")]
    assert len(told) == 2
    assert all("pass with at most 0.1 % lost" in one for one in told)
    nothing_is_left(lab)


def test_a_throughput_search_without_a_passing_rate_reports_it(lab: Lab, world: World) -> None:
    world.usual = (NEAR, Path(1e9, 200.0, loss=0.01), ROUTED)
    text = SEARCH.replace("repeat: 2", "repeat: 1") + "placement: different-host\n"
    metrics = lab.run(text)["cells"][0]["metrics"]
    assert metrics["throughput_bps"]["median"] is None
    assert metrics["refused_bps"]["median"] == pytest.approx(20e6)
    (search,) = [one.search for one in lab.trials]
    assert search is not None
    assert (search.ended, search.passed_bps) == ("lowest", None)


def nothing_is_left(lab: Lab) -> None:
    assert lab.world.marks == {}
    assert lab.world.machines == {}
    assert all(not machine.files and not machine.directories for machine in lab.world.made)
    assert lab.journal.existing() == []


def test_connections_that_share_unevenly_are_unfair(lab: Lab, world: World) -> None:
    world.usual = (NEAR, Path(1e9, 200.0, shares=(3.0, 1.0)), ROUTED)
    (cell,) = lab.run("name: unfair\nworkload: {connections: 2}\nrepeat: 1\n")["cells"]
    metrics = {name: metric["median"] for name, metric in cell["metrics"].items()}
    assert metrics["jain_fairness"] == pytest.approx(16 / 20)
    assert metrics["aggregate_btc_bps"] == pytest.approx(1e9)


def medians(cell: dict[str, Any]) -> dict[str, float]:
    return {name: metric["median"] for name, metric in cell["metrics"].items()}


def test_in_groups_every_sender_is_counted_with_each_receiver(lab: Lab, world: World) -> None:
    ends = [f"{role}-h{host}-t1{more}" for role, host in (("sender", 1), ("receiver", 2))
            for more in ("", "-m2")]  # fmt: skip
    senders, receivers = ends[:2], ends[2:]
    rates = {(one, other): 1e8 for one in senders for other in receivers}
    rates |= {(senders[1], receiver): 4e8 for receiver in receivers}
    world.paths = {pair: Path(rate, 500.0) for pair, rate in rates.items()}
    text = "name: groups\nrepeat: 1\nendpoints: {sender: {count: 2}, receiver: {count: 2}}\n"
    metrics = medians(lab.run(text)["cells"][0])
    assert metrics["aggregate_btc_bps"] == pytest.approx(10e8)
    assert metrics["jain_fairness"] == pytest.approx(10**2 / (4 * (1 + 1 + 16 + 16)))
    assert metrics["jain_fairness_senders"] == pytest.approx(10**2 / (2 * (2**2 + 8**2)))
    assert lab.trials[0].start_spread_s is not None


def test_clocks_that_differ_start_all_at_one_moment(lab: Lab, world: World) -> None:
    """Senders are told the moment by their own clocks, which are a minute apart."""
    ahead_s = {"sender-h1-t1": 60.0, "sender-h1-t1-m2": 0.0}

    def set_clocks(what: str, _name: str) -> None:
        if what == "look":
            for name, seconds in ahead_s.items():
                world.machine(name).clock_ahead_ns = round(1e9 * seconds)

    world.watch = set_clocks
    summary = lab.run("name: clocks\nrepeat: 1\nendpoints: {sender: {count: 2}, receiver: {}}\n")
    starts = {one.sender.endpoint: one.sender.start_realtime_ns for one in lab.trials[0].transfers}
    apart_s = (starts["sender-h1-t1"] - starts["sender-h1-t1-m2"]) / 1e9
    trial = lab.trials[0]
    assert trial.start_spread_s is not None
    assert trial.start_uncertainty_s is not None
    known_s = max(trial.start_uncertainty_s, 0.001)
    assert apart_s == pytest.approx(60.0, abs=trial.start_spread_s + known_s)
    assert trial.start_spread_s < 30, "it is seen by one clock"
    assert min(one.start_s for one in trial.transfers) == pytest.approx(0, abs=1e-6)
    offsets = {one["name"]: one["facts"]["after"]["clock_offset_s"] for one in summary["endpoints"]}
    assert offsets["sender-h1-t1"] == pytest.approx(60.0, abs=0.1)
    assert offsets["receiver-h2-t1"] == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("hours", [-1, 25])
def test_a_clock_that_is_set_in_a_run_changes_no_length_and_no_order(
    hours: int, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_at_second(planned: PlannedTrial) -> None:
        if planned.index == 1:
            set_clock(monkeypatch, timedelta(hours=hours))

    lab.watcher.beginning = set_at_second
    run = lab.run("name: set\nrepeat: 3\nparallel: 1\n")["run"]
    starts = [trial.started_at for trial in lab.trials if trial.started_at]
    assert len(starts) == 3
    assert starts == sorted(starts)
    times = [datetime.fromisoformat(run[key]) for key in ("started_at", "ended_at")]
    length_s = (times[1] - times[0]).total_seconds()
    assert 0 < length_s < 60
    assert run["worked_s"] == pytest.approx(length_s)
    assert 0 < run["vm_hours"] <= 2 * length_s / 3600


def test_pairs_start_one_after_the_other_where_they_are_to(lab: Lab) -> None:
    late = lab.run("name: late\nrepeat: 1\npairs: {count: 3, at: once}\nstagger: 200ms\n")
    (trial,) = lab.trials
    assert late["cells"][0]["start_spread_s"] == trial.start_spread_s
    assert trial.start_spread_s is not None
    starts = {one.sender.endpoint: one.start_s for one in trial.transfers}
    for number, name in enumerate(trial.senders):
        assert starts[name] == pytest.approx(0.2 * number, abs=trial.start_spread_s + 1e-3)
    told = medians(lab.run("name: more\nrepeat: 1\npairs: {count: 2, at: once}\n")["cells"][0])
    assert told["overlap_percent"] is not None
    apart = lab.run(
        "name: apart\nrepeat: 1\npairs: {count: 2, at: once}\nstagger: 20s\n"
        "workload: {kind: btc, duration: 10s}\n"
    )
    assert medians(apart["cells"][0])["overlap_percent"] == 0
    assert any("rates of different times" in note for note in apart["run"]["warnings"])


def test_pairs_in_turn_have_trials_of_their_own(lab: Lab, world: World) -> None:
    rates = {
        ("sender-h1-t1", "receiver-h2-t1"): 1e8,
        ("sender-h1-t1-m2", "receiver-h2-t1-m2"): 4e8,
    }
    world.paths = {pair: Path(rate, 500.0) for pair, rate in rates.items()}
    summary = lab.run("name: turns\nrepeat: 2\npairs: 2\n")
    found = {(t.pair, t.repetition): t.metrics["aggregate_btc_bps"] for t in lab.trials}
    assert found == {(n, r): rate for n, rate in enumerate(rates.values(), 1) for r in (1, 2)}
    (cell,) = summary["cells"]
    assert cell["n_ok"] == 4
    assert len(cell["senders"]) == len(cell["receivers"]) == 2


def test_trials_of_two_pairs_run_at_once(lab: Lab) -> None:
    both = threading.Barrier(2, timeout=10)
    met: list[int] = []

    def meet(planned: PlannedTrial) -> None:
        met.append(both.wait())  # breaks, and raises, where the other one comes later

    lab.watcher.beginning = meet
    text = """
name: two
provider: {kind: local, hosts: 4}
sweep: {flavor: [small, medium]}
parallel: 2
repeat: 1
"""
    summary = lab.run(text)
    assert [cell["n_ok"] for cell in summary["cells"]] == [1, 1]
    assert sorted(met) == [0, 1]


PATHS = st.builds(
    Path,
    rate_bps=st.floats(1e6, 1e11),
    rtt_us=st.floats(10.0, 3e5),
    shares=st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5).map(tuple),
)


@settings(max_examples=10)
@given(path=PATHS, seconds=st.integers(1, 3600), warmup_s=st.integers(0, 10))
def test_the_summary_has_the_rate_fairness_and_rtt_of_the_path(
    tmp_path_factory: pytest.TempPathFactory, path: Path, seconds: int, warmup_s: int
) -> None:
    count = len(path.shares)
    times = f"duration: {seconds}s, interval: {seconds}s, warmup: {warmup_s}s"
    folder = tmp_path_factory.mktemp("any")
    with memory_world(folder) as world, Lab(world, folder) as lab:
        world.usual = (NEAR, path, ROUTED)
        text = f"name: any\nrepeat: 1\nworkload: {{connections: {count}, {times}}}\n"
        metrics = medians(lab.run(text)["cells"][0])
        nothing_is_left(lab)
    assert metrics["aggregate_btc_bps"] == pytest.approx(path.rate_bps, rel=1e-3)
    fair = sum(path.shares) ** 2 / (count * sum(share**2 for share in path.shares))
    assert metrics["jain_fairness"] == pytest.approx(fair, rel=1e-3)
    assert metrics["rtt_mean_us"] == pytest.approx(path.rtt_us, abs=1)


@pytest.mark.parametrize("workload", ["{kind: btc, duration: 1s}", "{kind: udp, duration: 1s}"])
def test_the_path_mtu_of_each_pair_is_a_fact_of_its_sender(lab: Lab, workload: str) -> None:
    text = "name: mtu\nendpoints: {sender: {count: 2}, receiver: {}}\nrepeat: 2\n"
    ends = {
        one["name"]: one["facts"] for one in lab.run(f"{text}workload: {workload}\n")["endpoints"]
    }
    (receiver,) = (name for name in ends if name.startswith("receiver"))
    senders = [name for name in ends if name.startswith("sender")]
    assert [ends[name]["path_mtu_bytes"] for name in senders] == [{receiver: 1500}] * 2
    assert "path_mtu_bytes" not in ends[receiver]
