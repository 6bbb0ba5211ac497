"""The workload of datagrams: what the ends are told, its metrics, and both with real agents."""

from __future__ import annotations

import math
import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from osmef.agent.messages import UdpSenderResult
from osmef.errors import AgentError
from osmef.results.observations import Datagrams, Direction, Purpose
from osmef.workloads.base import Outcome, PartResult
from osmef.workloads.kinds.udp import UdpFlows, UdpSettings, datagram_metrics
from osmef.workloads.trial_runner import TrialJob, run_parts
from tests.workloads.conftest import MakeHosts, pairs


def workload(**settings: Any) -> UdpFlows:
    return UdpFlows(
        UdpSettings.model_validate({"duration": "300ms", "interval": "100ms", **settings})
    )


def measured(hosts: MakeHosts, **settings: Any) -> tuple[Outcome, list[list[PartResult]]]:
    """Run once between two pairs of real agents."""
    one = workload(**settings)
    done = run_parts(TrialJob(7, pairs(hosts("s1"), hosts("r1", "r2"))), one.parts())
    outcome = one.outcome(7, Purpose.MEASURED, done.ran)
    assert outcome.metrics.keys() == {one.name for one in one.measures}
    return outcome, done.ran


def test_both_ends_get_the_same_parameters() -> None:
    settings = {"rate": "1Mbit/s", "size": "500B", "burst": 4, "connections": 3, "dscp": 46}
    settings |= {"window": "64KiB", "warmup": "1s", "loss_threshold": "500ms"}
    (part,) = workload(**settings).parts()
    listen, connect = part.steps
    assert dict(listen.parameters) == dict(connect.parameters)
    assert listen.connections == connect.connections == 3
    assert dict(connect.parameters) == {
        "rate_bps": 1e6, "size": 500, "burst": 4, "duration_s": 0.3,
        "interval_s": 0.1,
        "warmup_s": 1.0, "loss_threshold_s": 0.5, "direction": "forward", "window": 65536,
        "dscp": 46,
    }  # fmt: skip
    assert (listen.end, listen.listens, connect.listens) == ("receiver", True, False)
    assert math.isclose(part.duration_s, 1.3)


@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
def test_two_pairs_with_two_flows_each(hosts: MakeHosts, direction: str) -> None:
    outcome, ran = measured(hosts, direction=direction, rate="2Mbit/s", connections=2)
    names = ["forward", "reverse"] if direction == "both" else [direction]
    ways = [Direction(name) for name in names]
    seen = [(d.direction, d.sender.endpoint, d.receiver.endpoint) for d in outcome.datagrams]
    ends = [("s1", "r1"), ("s1", "r2")]
    assert seen == [
        (way, *(pair if way is Direction.FORWARD else pair[::-1])) for way in ways for pair in ends
    ]
    metrics = outcome.metrics
    assert metrics["offered_bps"] == 8e6
    assert metrics["sent_bps"]
    assert metrics["goodput_bps"]
    assert metrics["receiver_drops"] is not None
    rows = [i for parts in ran for one in parts for i in one.intervals]
    came = sum(i.datagrams or 0 for i in rows if i.role == "receiver")
    flows = [flow for d in outcome.datagrams for flow in d.receiver.flows]
    assert came == sum(flow.datagrams for flow in flows)
    assert {i.retransmits for i in rows} == {None}


def test_without_a_rate_the_offered_rate_is_unknown(hosts: MakeHosts) -> None:
    outcome, _ = measured(hosts, rate=0)
    assert outcome.metrics["offered_bps"] is None
    assert outcome.metrics["receiver_drops"] is None
    assert outcome.metrics["network_loss_percent"] is None
    assert outcome.metrics["loss_percent"] is not None


@pytest.mark.parametrize("end", ["s1", "r1"])
def test_a_killed_agent_is_named(hosts: MakeHosts, end: str) -> None:
    senders, receivers = hosts("s1"), hosts("r1")
    (victim,) = (host for host in (*senders, *receivers) if host.name == end)
    rates: list[float] = []

    def progress(bps: float) -> None:
        if not rates:
            victim.signal(signal.SIGKILL)
        rates.append(bps)

    job = TrialJob(1, pairs(senders, receivers), progress=progress)
    with pytest.raises(AgentError) as caught:
        run_parts(job, workload(duration="60s").parts())
    assert caught.value.where == end


USE = {"cpu_user_s": 0.1, "cpu_system_s": 0.1}
STAT = dict.fromkeys(
    ("user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s", "softirq_s", "steal_s",
     "guest_s"), 0.1,
)  # fmt: skip


def record(sent: int, lost: int, **seen: int | float | None) -> Datagrams:
    """Return one flow of one second, of which this became."""
    size = 1000
    came = sent - lost
    counts = {"sent": sent, "datagrams": came, "bytes": came * size, "lost": lost}
    counts |= {"reordered": 0, "duplicates": 0, "late": 0}
    flow = {"flow": 0, "length_s": 1.0, "end_s": 1.0, **USE}
    end = {"endpoint": "a", "start_realtime_ns": 1, "elapsed_s": 1.0, "process": USE}
    end |= {"host": {"cpus": 1, "elapsed_s": 1, **STAT}}
    sending = {
        "sent": sent,
        "bytes": sent * size,
        "sent_bps": 8.0 * sent * size,
        "segmented": False,
    }
    sending |= {"send_refused": 0, "behind_max_us": 1.0, "slipped_s": 0.0}
    received: dict[str, Any] = {
        **flow, **counts, "goodput_bps": 8.0 * came * size, "reordering_extent_max": 0,
        "loss_episodes": 0, "loss_longest": 0, "foreign": 0, "dropped": 0, "receive_buffer": 1,
        "jitter_us": 5.0, "jitter_max_us": 9.0, "warmup": counts,
        "delay_variation": {"count": 0, **dict.fromkeys(
            ("p50_us", "p90_us", "p99_us", "p999_us", "max_us"))},
    }  # fmt: skip
    histogram = {"error_percent": 1.5625, "lower_ns": [1000], "upper_ns": [3000], "count": [9]}
    return Datagrams.model_validate(
        {
            "purpose": Purpose.MEASURED, "direction": Direction.FORWARD, "size": size,
            "sender": {**end, "flows": [{**flow, **sending, "warmup": {"sent": 0, "bytes": 0}}]},
            "receiver": {**end, "flows": [{**received, **seen}], "delay_variation": histogram},
        }
    )  # fmt: skip


def test_shares_are_of_all_flows_together() -> None:
    found = datagram_metrics(
        [
            record(100, 50, dropped=20, reordered=5, loss_longest=7),
            record(300, 0, duplicates=7, reordering_extent_max=3),
        ],
        1e6,
    )
    assert found["offered_bps"] == 2e6
    assert found["sent_bps"] == 3.2e6
    assert found["goodput_bps"] == 2.8e6
    assert found["datagrams_per_s"] == 350
    assert found["loss_percent"] == 12.5
    assert found["network_loss_percent"] == 7.5
    assert found["receiver_drops"] == 20
    assert found["reordered_percent"] == pytest.approx(100 * 5 / 350)
    assert found["duplicate_percent"] == pytest.approx(100 * 7 / 350)
    assert (found["loss_longest"], found["reordering_extent_max"]) == (7, 3)
    assert found["delay_variation_p50_us"] == 2.0
    assert found["cpu_sender_percent"] == pytest.approx(40)


def test_jitter_is_over_all_datagrams() -> None:
    found = datagram_metrics([record(100, 0, jitter_us=1.0), record(300, 0, jitter_us=5.0)], 1e6)
    assert found["jitter_us"] == pytest.approx(4.0)


def test_nothing_sent_is_no_share_and_nothing_received_no_jitter() -> None:
    found = datagram_metrics([record(0, 0, jitter_us=None)], 1e6)
    for name in ("loss_percent", "reordered_percent", "duplicate_percent", "jitter_us"):
        assert found[name] is None
    all_lost = datagram_metrics([record(10, 10, jitter_us=None)], 1e6)
    assert all_lost["loss_percent"] == 100
    assert all_lost["goodput_bps"] == 0


@given(flows=st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 1)), min_size=1, max_size=6))
def test_loss_is_a_share_and_the_network_s_part_is_within_it(
    flows: list[tuple[int, float]],
) -> None:
    records = [
        record(sent, round(share * sent), dropped=round(share * sent) // 2) for sent, share in flows
    ]
    found = datagram_metrics(records, 1e6)
    loss, network = found["loss_percent"], found["network_loss_percent"]
    assert loss is not None
    assert network is not None
    assert 0 <= network <= loss <= 100


def sender_result() -> UdpSenderResult:
    sender = record(1, 0).sender.model_dump(mode="json")
    event = {"event": "result", "id": "1", "job": "udp", "role": "sender"}
    return UdpSenderResult.model_validate({**event, **sender, "endpoint": sender["host"]})


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_two_senders_are_no_result(direction: str) -> None:
    ran = PartResult("a", "b", (sender_result(), sender_result()), [])
    with pytest.raises(AgentError, match=f"did not send datagrams {direction}"):
        workload(direction=direction).outcome(1, Purpose.MEASURED, [[ran]])


SEARCH = {"loss": "0.1 %", "lowest": "2Mbit/s", "step": "300ms", "rest": 0}


def told(found: ValidationError) -> str:
    return " ".join(error["msg"] for error in found.errors())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "begins at the highest rate"),
        ({"rate": 0}, "begins at the highest rate"),
        ({"rate": "1Mbit/s"}, "not below the highest"),
        ({"rate": "100Mbit/s", "direction": "both"}, "in one direction"),
        ({"rate": "100Mbit/s", "duration": "200ms"}, "0.3s, longer than the duration of 0.2s"),
        ({"rate": "100Mbit/s", "size": "9000B"}, "sends 8 datagrams"),
    ],
)
def test_a_search_without_an_end_is_refused(settings: dict[str, Any], said: str) -> None:
    usual = {"duration": "300ms", "interval": "100ms", "search": SEARCH}
    with pytest.raises(ValidationError) as caught:
        UdpSettings.model_validate({**usual, **settings})
    assert said in told(caught.value)


def test_a_window_that_the_agent_would_refuse_is_an_error_of_the_file() -> None:
    for window in ("2GiB", "1000B"):
        with pytest.raises(ValidationError, match="than or equal to"):
            UdpSettings.model_validate({"window": window})


def test_a_job_shorter_than_an_interval_has_one_interval() -> None:
    search = {**SEARCH, "step": "200ms", "lowest": "100Mbit/s"}
    for settings, length in (({}, 0.3), ({"search": search, "rate": "1Gbit/s"}, 0.2)):
        (part,) = workload(interval="1s", **settings).parts()
        assert {step.parameters["interval_s"] for step in part.steps} == {length}


def test_a_search_has_an_upper_bound_of_duration_and_bytes() -> None:
    search = {"loss": "0 %", "resolution": "10 %", "step": "1s", "rest": "1s", "most": 10}
    one = workload(rate="100Mbit/s", size="100B", duration="5s", connections=2, search=search)
    # 100 Mbit/s to 100 kbit/s are 73 tenths: 7 halves, a beginning, and two for the full length.
    short = 8
    usual, most = one.further_s
    assert usual == pytest.approx((short - 1) * 2 + 2 * 6)
    assert most == 9 * 6
    assert one.most_bytes == round(2 * 100e6 * (1 + 9 * 5) / 8)
    assert workload(rate="8Mbit/s", duration="3s").most_bytes == 3_000_000
    assert workload(rate=0).most_bytes is None


def test_a_search_between_real_agents(hosts: MakeHosts) -> None:
    search = {**SEARCH, "lowest": "1Mbit/s", "loss": "20 %", "most": 4}
    one = workload(rate="3Mbit/s", size="200B", search=search)
    job = TrialJob(7, pairs(hosts("s1"), hosts("r1")))
    done = run_parts(job, one.parts())
    while again := one.again(done.ran):
        done = done.then(run_parts(job, again))
    outcome = one.outcome(7, Purpose.MEASURED, done.ran)
    assert outcome.metrics.keys() == {measure.name for measure in one.measures}
    assert outcome.search is not None
    first = outcome.search.tried[0]
    assert first.offered_bps == 3e6
    assert first.datagrams == outcome.datagrams[0].sender.flows[0].sent > 0
    assert len(outcome.search.tried) == len(outcome.datagrams) >= 2
    assert outcome.search.passed_bps == outcome.metrics["throughput_bps"]
