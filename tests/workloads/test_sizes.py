from __future__ import annotations

from pathlib import Path

import pytest

from osmef.agent.messages import PointEvent, SizesResult
from osmef.errors import AgentError, InputError
from osmef.results.observations import Purpose
from osmef.scenario.load import load_text
from osmef.workloads import TrialJob, TrialWorkload
from osmef.workloads.base import PartResult
from osmef.workloads.kinds.size_sweep import SizeSweep, SizeSweepSettings
from tests.workloads.conftest import MakeHosts, pairs

USE = {"cpu_user_s": 0.1, "cpu_system_s": 0.1}
STAT = dict.fromkeys(
    ("elapsed_s", "user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s", "softirq_s",
     "steal_s", "guest_s"), 0.1,
)  # fmt: skip


def settings(**keys: object) -> SizeSweepSettings:
    return SizeSweepSettings.model_validate(keys)


def ran(times_us: dict[int, list[float]]) -> PartResult:
    ends = {"event": "result", "id": "1", "job": "sizes", "elapsed_s": 2.0, "mode": "pingpong",
            "check": False, "process": USE, "endpoint": {"cpus": 1, **STAT}}  # fmt: skip
    results = [SizesResult.model_validate({**ends, "role": r}) for r in ("receiver", "sender")]
    points = [
        PointEvent(
            event="point",
            id="1",
            size=size,
            repetitions=30,
            trials=3,
            time_min_us=times,
            time_median_us=[2 * us for us in times],
            time_max_us=[3 * us for us in times],
            time_slowest_us=2 * max(times),
        )
        for size, times in times_us.items()
    ]
    return PartResult("a", "b", tuple(results), [], points)


def test_a_sweep_that_was_cut_short_is_reported() -> None:
    settings = SizeSweepSettings.model_validate({"min": "5B", "max": "40B"})
    assert settings.sizes == [5, 6, 8, 12, 13, 16, 19, 21, 24, 27, 29, 32, 35, 40]
    assert not list(settings.warnings_from_metrics({"sizes_measured": 14}))
    assert not list(settings.warnings_from_metrics({"sizes_measured": None}))
    (reported,) = settings.warnings_from_metrics({"sizes_measured": 13})
    assert reported.startswith("size sweeps had no time for all of their 14 sizes")


def test_a_duration_bounds_the_sweep() -> None:
    (part,) = SizeSweep(settings(duration="7s", point="2s")).parts()
    assert part.duration_s == part.steps[0].parameters["duration_s"] == 7
    (part,) = SizeSweep(settings(max="4B", point="2s", perturbation=0)).parts()
    assert part.duration_s > 2 * 4


def test_metrics_are_over_all_connections() -> None:
    workload = SizeSweep(settings(connections=2))
    runs = [(ran({1: [10.0, 5.0], 100: [10.0, 10.0]}),)]
    outcome = workload.outcome(1, Purpose.MEASURED, runs)
    assert outcome.metrics.keys() == {one.name for one in workload.measures}
    assert outcome.metrics["latency_min_us"] == 5
    assert outcome.metrics["throughput_max_bps"] == pytest.approx(2 * 800 / 20e-6)
    assert outcome.metrics["sizes_measured"] == 2
    assert [(p.size, p.flow) for p in outcome.sizes] == [(1, 0), (1, 1), (100, 0), (100, 1)]


@pytest.mark.parametrize(("mode", "ways"), [("stream", 1), ("both", 2)])
def test_only_a_pingpong_has_a_latency(mode: str, ways: int) -> None:
    workload = SizeSweep(settings(mode=mode))
    outcome = workload.outcome(1, Purpose.MEASURED, [(ran({1000: [4.0]}),)])
    assert outcome.metrics["latency_min_us"] is None
    assert outcome.metrics["throughput_max_bps"] == pytest.approx(ways * 8000 / 8e-6)


def test_a_sweep_without_a_size_has_failed() -> None:
    with pytest.raises(AgentError, match="no size"):
        SizeSweep(settings()).outcome(1, Purpose.MEASURED, [(ran({}),)])


def test_the_smallest_message_is_not_the_largest() -> None:
    with pytest.raises(InputError, match="smallest message"):
        load_text("name: a\nworkload: {kind: size-sweep, min: 2kB, max: 1kB}", Path("a.yaml"))


def test_a_sweep_with_real_agents(hosts: MakeHosts) -> None:
    text = "{kind: size-sweep, max: 64B, point: 2ms, connections: 2, check: true, mode: both}"
    workload = TrialWorkload(load_text(f"name: a\nworkload: {text}", Path("a.yaml")).scenario)
    rates: list[float] = []
    outcome = workload.run(
        TrialJob(1, pairs(hosts("s1"), hosts("r1", "r2")), progress=rates.append)
    )
    assert outcome.metrics.keys() == {one.name for one in workload.measures}
    largest = {p.receiver: p.pair_throughput_bps or 0 for p in outcome.sizes if p.size == 64}
    assert rates[-1] == pytest.approx(sum(largest.values())), "what the bar shows"
    assert {(p.receiver, p.flow) for p in outcome.sizes} == {
        (name, flow) for name in ("r1", "r2") for flow in (0, 1)
    }
    assert {p.size for p in outcome.sizes} >= {1, 2, 3, 4, 8, 13, 16, 19, 64}
    assert all(p.checked for p in outcome.sizes)


def test_latency_idle_and_loaded_with_real_agents(hosts: MakeHosts) -> None:
    text = "workload: {kind: latency, duration: 300ms, idle: 200ms, size: 100B, rate: 200}\n"
    text += "background: {connections: 2, interval: 100ms}\nlead: 100ms"
    workload = TrialWorkload(load_text(f"name: a\n{text}", Path("a.yaml")).scenario)
    outcome = workload.run(TrialJob(1, pairs(hosts("s1"), hosts("r1"))))
    assert outcome.metrics.keys() == {one.name for one in workload.measures}
    assert [e.phase.value for e in outcome.exchanges] == ["idle", "loaded"]
    due = [e.count + (e.unsent or 0) for e in outcome.exchanges]
    assert due == [40, 60]
    assert (outcome.metrics["background_aggregate_btc_bps"] or 0) > 0
    assert outcome.metrics["latency_increase_ratio"] is not None
