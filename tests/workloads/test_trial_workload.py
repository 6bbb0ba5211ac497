"""What runs when: the measured workload, and the background beside it."""

from __future__ import annotations

from pathlib import Path

from osmef.results.observations import Purpose
from osmef.scenario.load import load_text
from osmef.scenario.model import Scenario
from osmef.workloads import TrialJob, TrialWorkload
from tests.workloads.conftest import MakeHosts, pairs


def scenario(text: str) -> Scenario:
    return load_text(f"name: a\n{text}", Path("a.yaml")).scenario


def names(workload: TrialWorkload) -> list[str]:
    return [measure.name for measure in workload.measures]


def test_a_workload_without_background_has_its_own_duration() -> None:
    workload = TrialWorkload(scenario("workload: {duration: 3s, warmup: 1s}"))
    assert workload.duration_s == 4
    assert not any(name.startswith("background_") for name in names(workload))


def test_a_background_runs_before_and_after_what_is_measured() -> None:
    workload = TrialWorkload(scenario("workload: {duration: 3s}\nbackground: btc\nlead: 2s"))
    assert workload.duration_s == 7
    assert "background_aggregate_btc_bps" in names(workload)


def test_latency_under_load_is_measured_idle_first() -> None:
    text = "workload: {kind: latency, duration: 3s, idle: 4s}\nbackground: btc\nlead: 2s"
    workload = TrialWorkload(scenario(text))
    assert workload.duration_s == 4 + 2 + 3 + 2
    assert {"idle_rtt_p99_us", "loaded_rtt_p99_us", "latency_increase_ratio"} < {*names(workload)}


def test_both_are_recorded_and_the_background_is_there_all_the_time(hosts: MakeHosts) -> None:
    senders, receivers = hosts("s1"), hosts("r1", "r2")
    text = "workload: {duration: 300ms, interval: 100ms}\nbackground: {connections: 3}\nlead: 200ms"
    workload = TrialWorkload(scenario(text))
    outcome = workload.run(TrialJob(1, pairs(senders, receivers)))
    assert list(outcome.metrics) == names(workload)
    assert all((outcome.metrics[f"{p}aggregate_btc_bps"] or 0) > 0 for p in ("", "background_"))
    assert outcome.metrics["background_jain_fairness"] is not None
    assert {i.purpose for i in outcome.intervals} == {"measured", "background"}
    by_purpose = {
        purpose: [t for t in outcome.transfers if t.purpose is purpose] for purpose in Purpose
    }
    assert {len(found) for found in by_purpose.values()} == {2}
    for measured in by_purpose[Purpose.MEASURED]:
        (beside,) = (
            t
            for t in by_purpose[Purpose.BACKGROUND]
            if t.receiver.endpoint == measured.receiver.endpoint
        )
        assert len(beside.sender.flows) == 3
        lead = (measured.sender.start_realtime_ns - beside.sender.start_realtime_ns) / 1e9
        assert lead > 0
        assert beside.sender.elapsed_s > lead + measured.sender.elapsed_s
