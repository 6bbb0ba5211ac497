from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from osmef.agent.messages import ExchangeResult
from osmef.errors import AgentError
from osmef.results.observations import Histogram, LoadPhase, Purpose
from osmef.workloads.base import PartResult
from osmef.workloads.kinds.latency import Latency, LatencySettings
from osmef.workloads.metrics import quantile_us

USE = {"cpu_user_s": 0.1, "cpu_system_s": 0.1}
STAT = dict.fromkeys(
    ("elapsed_s", "user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s", "softirq_s",
     "steal_s", "guest_s"), 0.1,
)  # fmt: skip


def histogram(times_us: list[int]) -> Histogram:
    """Return the times in buckets that are 2 us wide, around whole microseconds."""
    found = sorted(set(times_us))
    return Histogram(
        error_percent=0,
        lower_ns=[1000 * us - 1000 for us in found],
        upper_ns=[1000 * us + 1000 for us in found],
        count=[times_us.count(us) for us in found],
    )


@pytest.mark.parametrize("short", ["lower_ns", "upper_ns", "count"])
def test_a_histogram_has_all_of_each_bucket(short: str) -> None:
    """Of an agent as of a results file."""
    columns: dict[str, list[int]] = {"lower_ns": [1], "upper_ns": [2], "count": [1]}
    assert Histogram.model_validate({"error_percent": 0, **columns}).count == [1]
    with pytest.raises(ValidationError, match="buckets differ in number"):
        Histogram.model_validate({"error_percent": 0, **columns, short: []})


def ran(
    times_us: list[int],
    *,
    timed: bool = True,
    late: int = 0,
    unsent: int = 0,
    lost: int | None = None,
    waited_us: int | None = None,
) -> PartResult:
    ends = {"event": "result", "id": "1", "job": "exchange", "elapsed_s": 2.0,
            "count": len(times_us), "process": USE, "endpoint": {"cpus": 1, **STAT}}  # fmt: skip
    times = {
        "min_ns": 1000 * min(times_us),
        "max_ns": 1000 * max(times_us),
        "mean_ns": 1000 * sum(times_us) / len(times_us),
        "histogram": histogram(times_us),
        "late": late,
        "unsent": unsent,
        "lost": lost,
    }
    if waited_us is not None:
        due_us = [waited_us + one for one in times_us]
        times["response"] = {
            "count": len(due_us),
            "min_ns": 1000 * min(due_us),
            "mean_ns": 1000 * sum(due_us) / len(due_us),
            "max_ns": 1000 * max(due_us),
            "histogram": histogram(due_us),
        }
    answered = ExchangeResult.model_validate({**ends, "role": "receiver"})
    asked = ExchangeResult.model_validate({**ends, "role": "sender", **(times if timed else {})})
    return PartResult("a", "b", (answered, asked), [])


@given(st.lists(st.integers(2, 1000), min_size=1), st.sampled_from([0.5, 0.9, 0.99, 0.999]))
def test_a_quantile_is_the_smallest_time_that_so_many_do_not_exceed(
    times: list[int], q: float
) -> None:
    wanted = sorted(times)[max(1, math.ceil(q * len(times))) - 1]
    assert quantile_us(histogram(times), q) == wanted


def test_without_any_time_there_is_no_quantile() -> None:
    assert quantile_us(histogram([]), 0.5) is None


def test_a_flow_alone_is_measured_once() -> None:
    workload = Latency(LatencySettings.model_validate({"duration": "3s"}), background=False)
    (part,) = workload.parts()
    assert (part.duration_s, part.loaded) == (3.0, True)
    assert [step.connections for step in part.steps] == [1, 1]
    wanted = {"duration_s": 3.0, "request_size": 1, "response_size": 1,
              "interval_s": 1.0}  # fmt: skip
    assert dict(part.steps[1].parameters) == wanted
    outcome = workload.outcome(1, Purpose.MEASURED, [(ran([10, 20, 30, 40]),)])
    assert outcome.metrics.keys() == {one.name for one in workload.measures}
    assert outcome.metrics["rtt_p50_us"] == 20
    assert outcome.metrics["rtt_mean_us"] == 25
    assert outcome.metrics["exchanges_per_s"] == 2
    (exchange,) = outcome.exchanges
    assert (exchange.phase, exchange.count, exchange.rtt.max_us) == (LoadPhase.IDLE, 4, 40)


def test_pairs_are_one_distribution() -> None:
    workload = Latency(LatencySettings(), background=False)
    outcome = workload.outcome(1, Purpose.MEASURED, [(ran([10, 10, 10]),), (ran([90]),)])
    assert outcome.metrics["rtt_p50_us"] == 10
    assert outcome.metrics["rtt_p99_us"] == 90
    assert outcome.metrics["rtt_mean_us"] == 30
    assert len(outcome.exchanges) == 2


def test_under_load_it_is_measured_before_and_beside_the_background() -> None:
    settings = LatencySettings.model_validate({"duration": "3s", "idle": "1s", "rate": 100})
    workload = Latency(settings, background=True)
    idle, loaded = workload.parts()
    assert (idle.duration_s, idle.loaded) == (1.0, False)
    assert (loaded.duration_s, loaded.loaded) == (3.0, True)
    assert loaded.steps[0].parameters["rate_per_s"] == 100
    outcome = workload.outcome(1, Purpose.MEASURED, [(ran([10]), ran([40]))])
    assert outcome.metrics.keys() == {one.name for one in workload.measures}
    assert outcome.metrics["idle_rtt_p50_us"] == 10
    assert outcome.metrics["loaded_rtt_p99_us"] == 40
    assert outcome.metrics["latency_increase_ratio"] == 4
    assert [exchange.phase for exchange in outcome.exchanges] == [LoadPhase.IDLE, LoadPhase.LOADED]


def test_round_trips_beside_many_lost_requests_are_doubted() -> None:
    def reported(**metrics: float | None) -> list[str]:
        return list(LatencySettings().warnings_from_metrics(metrics))

    assert reported(lost_percent=None, loaded_udp_lost_percent=0.9) == []
    for many in ({"lost_percent": 75.0}, {"loaded_udp_lost_percent": 1.0}):
        (text,) = reported(**many)
        assert "1 % of the requests were lost, or more" in text


def test_a_rate_that_can_not_be_kept_is_a_number_of_its_own() -> None:
    settings = LatencySettings.model_validate({"rate": 50})
    workload = Latency(settings, background=False)
    there = [
        (ran([10, 20, 30], late=2, unsent=1, waited_us=500),),
        (ran([10] * 4, waited_us=100),),
    ]
    outcome = workload.outcome(1, Purpose.MEASURED, there)
    assert outcome.metrics.keys() == {one.name for one in workload.measures}
    assert outcome.metrics["late_percent"] == pytest.approx(100 * 3 / 8)
    found = outcome.metrics
    assert (found["rtt_p50_us"], found["rtt_max_us"]) == (10, 30), "waiting is no round trip"
    assert (found["response_p50_us"], found["response_max_us"]) == (110, 530)
    assert found["response_mean_us"] == pytest.approx((510 + 520 + 530 + 4 * 110) / 7)
    (first, _) = outcome.exchanges
    assert first.response is not None
    assert first.response.min_us == 510


def test_response_times_that_an_agent_does_not_report_are_unknown() -> None:
    workload = Latency(LatencySettings.model_validate({"rate": 50}), background=False)
    there = [(ran([10], waited_us=5),), (ran([10]),)]
    found = workload.outcome(1, Purpose.MEASURED, there).metrics
    assert found["rtt_p50_us"] == 10
    assert {found[f"response_{one}_us"] for one in ("mean", "p50", "p99", "max")} == {None}


def test_a_rate_beside_a_background_has_numbers_of_both_phases() -> None:
    settings = LatencySettings.model_validate({"rate": 50})
    both = Latency(settings, background=True)
    found = both.outcome(1, Purpose.MEASURED, [(ran([10]), ran([40], late=1))]).metrics
    assert found.keys() == {one.name for one in both.measures}
    assert (found["idle_late_percent"], found["loaded_late_percent"]) == (0, 100)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("rate", [None, 20])
@pytest.mark.parametrize("protocol", ["tcp", "tcp-connect", "udp", "icmp"])
@pytest.mark.parametrize("beside", [[], ["icmp", "tcp-connect"]])
def test_each_protocol_has_numbers_of_its_own(
    protocol: str, beside: list[str], rate: float | None, background: bool
) -> None:
    others = [one for one in beside if one != protocol]
    settings = LatencySettings.model_validate(
        {"protocol": protocol, "beside": others, "rate": rate}
    )
    workload = Latency(settings, background=background)
    parts = workload.parts()
    phases = 2 if background else 1
    asked = [part.steps[1].parameters.get("protocol", "tcp") for part in parts]
    assert asked == phases * [protocol, *others]
    each = [ran([10 * (place + 1)], lost=1) for place in range(len(parts))]
    outcome = workload.outcome(1, Purpose.MEASURED, [each])
    assert outcome.metrics.keys() == {one.name for one in workload.measures}
    prefix = "loaded_" if background else ""
    for place, other in enumerate([protocol, *others]):
        its = prefix + ("" if place == 0 else f"{other.replace('-', '_')}_")
        number = len(parts) - len(others) - 1 + place
        assert outcome.metrics[f"{its}rtt_p50_us"] == 10 * (number + 1)
        if other in {"udp", "icmp"}:
            assert outcome.metrics[f"{its}lost_percent"] == 50
    assert not [one.words for one in workload.measures if one.words.endswith("percent")]
    assert [one.protocol for one in outcome.exchanges] == asked
    assert {one.size for one in outcome.exchanges if one.protocol != "tcp"} <= {16}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"protocol": "udp", "size": "15B"}, "a request by udp has 16 B at least"),
        ({"beside": ["tcp-connect"], "size": "1B"}, "a request by tcp-connect has 16 B at least"),
        ({"protocol": "icmp", "size": "64KiB"}, "a datagram of icmp has no room for 65536 B"),
        ({"beside": ["tcp"]}, "a protocol is named twice"),
    ],
)
def test_incompatible_latency_settings_are_rejected(written: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        LatencySettings.model_validate(written)


def test_an_agent_that_gives_no_times_has_failed() -> None:
    with pytest.raises(AgentError, match="no times"):
        Latency(LatencySettings(), background=False).outcome(
            1, Purpose.MEASURED, [(ran([1], timed=False),)]
        )
