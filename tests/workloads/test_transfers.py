from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.bulk_transfer import transfer_limits
from osmef.errors import AgentError
from osmef.results.observations import EndpointUse
from osmef.results.trial import Interval, Transfer, TransferEnd
from osmef.workloads.metrics import (
    MEASURES,
    endpoint_cpu_percent,
    overlap_percent,
    transfer_metrics,
)


def flow(number: int, common: int | None, **values: Any) -> dict[str, Any]:
    tcp = {"retransmits": 3, "rtt_min_us": 40.0 + number, **values.pop("tcp", {})}
    end = {"bytes": 1000, "start_s": 0.0, "end_s": 2.0, "cpu_user_s": 0.1, "cpu_system_s": 0.3}
    return {"flow": number, "common_bytes": common, "tcp": tcp, **end, **values}


def end(flows: list[dict[str, Any]], length: float | None, name: str = "vm") -> dict[str, Any]:
    host = {
        "cpus": 2, "elapsed_s": 2.0, "user_s": 0.2, "nice_s": 0.1, "system_s": 0.5, "idle_s": 2.9,
        "iowait_s": 0.1, "irq_s": 0.05, "softirq_s": 0.1, "steal_s": 0.05, "guest_s": 0.0,
    }  # fmt: skip
    return {
        "endpoint": name, "start_realtime_ns": 0, "elapsed_s": 2.0, "common_start_s": 0.0,
        "common_length_s": length, "flows": flows, "host": host,
        "process": {"cpu_user_s": 0.1, "cpu_system_s": 0.3},
    }  # fmt: skip


def transfer(common: list[int | None], length: float | None = 1.5, **values: Any) -> Transfer:
    sent = [flow(number, None, **values) for number in range(len(common))]
    received = [flow(number, share) for number, share in enumerate(common)]
    return Transfer.model_validate({"sender": end(sent, None), "receiver": end(received, length)})


def between(sender: str, receiver: str, common: list[int | None]) -> Transfer:
    sent = [flow(number, None) for number in range(len(common))]
    received = [flow(number, share) for number, share in enumerate(common)]
    return Transfer.model_validate(
        {"sender": end(sent, None, sender), "receiver": end(received, 1.0, receiver)}
    )


@given(
    common=st.lists(st.integers(1, 10**12), min_size=1, max_size=128),
    length=st.floats(0.01, 1e5),
)
def test_btc_is_what_was_received_in_the_common_interval(common: list[int], length: float) -> None:
    metrics = transfer_metrics([transfer([*common], length)], [])
    aggregate, each, jain = (
        metrics[name] for name in ("aggregate_btc_bps", "connection_btc_bps", "jain_fairness")
    )
    assert aggregate == pytest.approx(8 * sum(common) / length)
    assert each is not None
    assert each * len(common) == pytest.approx(aggregate)
    assert jain is not None
    assert 1 / len(common) - 1e-9 <= jain <= 1 + 1e-9


def test_cpu_is_of_one_cpu_and_summed_over_the_connections() -> None:
    metrics = transfer_metrics([transfer([10, 10])], [])
    assert metrics["cpu_sender_percent"] == pytest.approx(100 * 2 * 0.4 / 2.0)
    assert metrics["endpoint_cpu_receiver_percent"] == pytest.approx(100 * 1.0 / 2.0)
    assert metrics["cpu_sender_us_per_kb"] == pytest.approx(0.8e6 / 2.0)


def test_retransmits_are_counted_over_all_connections_or_unknown() -> None:
    assert transfer_metrics([transfer([1, 1])], [])["retransmits"] == 6
    unknown = transfer([1, 1], tcp={"retransmits": None, "rtt_min_us": None})
    metrics = transfer_metrics([unknown], [])
    assert metrics["retransmits"] is None
    assert metrics["rtt_min_us"] is None


def test_rtt_is_the_mean_of_the_sender_s_samples() -> None:
    def sample(role: str, rtt_us: float | None) -> Interval:
        return Interval(
            trial=1, endpoint="vm", role=role, flow=0, start_s=0, length_s=1, bytes=1,
            retransmits=0, rtt_us=rtt_us, cwnd=1,
        )  # fmt: skip

    samples = [sample("sender", 100), sample("sender", 300), sample("sender", None)]
    metrics = transfer_metrics([transfer([1])], [*samples, sample("receiver", 9999)])
    assert metrics["rtt_mean_us"] == 200
    assert transfer_metrics([transfer([1])], [])["rtt_mean_us"] is None


def warmed(*, threads: bool) -> tuple[Transfer, list[Interval]]:
    """1 s of warm-up with ten times as much of everything as in the measured 2 s."""
    cpu = {"cpu_user_s": 0.5, "cpu_system_s": 0.6, "cpu_wait_s": 0.2}
    counted = {"cpu_user_s": 0.1, "cpu_system_s": 0.1, "cpu_wait_s": 0.0}
    tcp = {
        "retransmits": 44, "retransmitted_bytes": 5_500, "sent_bytes": 22_000, "rtt_min_us": 40,
        "busy_us": 1.1e6, "receive_window_limited_us": 1e6, "send_buffer_limited_us": 0,
    }  # fmt: skip
    tcp_counted = {
        "retransmits": 4, "retransmitted_bytes": 500, "busy_us": 1e5,
        "receive_window_limited_us": 0, "send_buffer_limited_us": 0,
    }  # fmt: skip
    part = {"bytes": 2_000, **({} if threads else counted), **tcp_counted}
    own = dict.fromkeys(cpu) if threads else cpu
    one = flow(0, 2_000, bytes=22_000, end_s=3.0, tcp=tcp, **own, measured=part)
    whole = end([one], 2.0)
    host, used = whole["host"], {"cpu_user_s": 0.1, "cpu_system_s": 0.1}
    whole |= {"elapsed_s": 3.0, "host": {**host, "elapsed_s": 3.0, "user_s": 9.0}}
    whole["measured"] = {"start_s": 1.0, "length_s": 2.0, "process": used, "host": host}
    if threads:
        whole["threads"] = [{**cpu, "last_cpu": 0, "measured": counted}]
    rows = [
        Interval(
            trial=1, endpoint="vm", role=role, flow=0, start_s=start, length_s=1, warmup=start == 0,
            bytes=20_000 if start == 0 else 1_000, retransmits=0,
            rtt_us=9000 if start == 0 else 60, cwnd=1,
        )
        for role in ("sender", "receiver") for start in range(3)
    ]  # fmt: skip
    return Transfer.model_validate({"sender": whole, "receiver": whole}), rows


@pytest.mark.parametrize("threads", [False, True])
def test_the_warmup_counts_in_no_metric(*, threads: bool) -> None:
    transfer, rows = warmed(threads=threads)
    metrics = transfer_metrics([transfer], rows)
    expected = {
        "aggregate_btc_bps": 8_000,
        "cpu_sender_percent": 100 * 0.2 / 2,
        "cpu_receiver_percent": 100 * 0.2 / 2,
        "endpoint_cpu_sender_percent": 100 * 1.0 / 2,
        "endpoint_cpu_receiver_percent": 100 * 1.0 / 2,
        "cpu_sender_us_per_kb": 0.2e6 / 2,
        "retransmits": 4,
        "rtt_mean_us": 60,
        "transfer_time_ratio": 1,
        "tcp_efficiency_percent": 100 * 2_000 / 2_500,
        "buffer_delay_percent": 50,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)


def test_the_warmup_is_excluded_from_the_limiting_factor() -> None:
    transfer, rows = warmed(threads=False)
    (limit,) = transfer_limits(transfer.sender, transfer.receiver, rows)
    assert limit.limited_by == "sender-idle"
    assert limit.evidence["nothing_to_send_percent"] == 95
    assert limit.evidence["sender_cpu_percent"] == 10
    assert limit.evidence["retransmits"] == 4
    assert limit.evidence["rtt_mean_us"] == 60


@pytest.mark.parametrize(("common", "length"), [([None], 1.0), ([5], None), ([5], 0.0)])
def test_a_transfer_without_a_common_interval_is_an_error(
    common: list[int | None], length: float | None
) -> None:
    with pytest.raises(AgentError, match="did not all run at one time"):
        transfer_metrics([transfer(common, length)], [])


def test_a_common_interval_without_any_byte_is_an_error() -> None:
    with pytest.raises(AgentError, match="nothing came while all connections ran"):
        transfer_metrics([transfer([0, 0], 0.001)], [])
    assert transfer_metrics([transfer([0, 8], 0.001)], [])["aggregate_btc_bps"] == 64_000


def test_a_transfer_that_ended_in_its_warmup_is_reported() -> None:
    one, _ = warmed(threads=False)
    ended = flow(0, None, bytes=500, measured={"bytes": 0})
    receiver = TransferEnd.model_validate(
        {**one.receiver.model_dump(), "common_length_s": None, "flows": [ended]}
    )
    with pytest.raises(AgentError, match="in the warm-up") as caught:
        transfer_metrics([one.model_copy(update={"receiver": receiver})], [])
    assert "warmup" in str(caught.value.cure)


def test_every_trial_gives_the_metrics_that_are_named() -> None:
    names = [one.name for one in MEASURES]
    assert list(transfer_metrics([transfer([1])], [])) == names


IDLE = dict.fromkeys(("nice_s", "system_s", "irq_s", "softirq_s", "steal_s"), 0.0) | {
    "user_s": 0.01
}
SHUFFLE = [
    between("s1", "r1", [100]),
    between("s1", "r2", [100]),
    between("s2", "r1", [300]),
    between("s2", "r2", [300]),
]


def test_a_group_is_the_sum_of_its_pairs_and_fair_as_its_flows_and_its_senders_are() -> None:
    metrics = transfer_metrics(SHUFFLE, [])
    assert metrics["aggregate_btc_bps"] == 8 * 800
    assert metrics["connection_btc_bps"] == 8 * 200
    assert metrics["jain_fairness"] == pytest.approx(800**2 / (4 * 2 * (100**2 + 300**2)))
    assert metrics["jain_fairness_senders"] == pytest.approx(800**2 / (2 * (200**2 + 600**2)))
    even = [between("s1", "r1", [100, 300]), between("s2", "r1", [300, 100])]
    assert transfer_metrics(even, [])["jain_fairness_senders"] == 1.0


def test_an_endpoint_s_cpu_is_counted_once_and_its_agents_add_up() -> None:
    one, group = transfer_metrics(SHUFFLE[:1], []), transfer_metrics(SHUFFLE, [])
    for ends in ("sender", "receiver"):
        for name, factor in ((f"endpoint_cpu_{ends}_percent", 2), (f"cpu_{ends}_percent", 4)):
            single, whole = one[name], group[name]
            assert single is not None
            assert whole == pytest.approx(factor * single)


@pytest.mark.parametrize(("ran_s", "percent"), [(0.0, None), (0.099, None), (0.1, 10.0)])
def test_the_cpu_of_an_endpoint_needs_ten_ticks_of_the_kernel(
    ran_s: float, percent: float | None
) -> None:
    use = EndpointUse.model_validate({**end([], None)["host"], **IDLE, "elapsed_s": ran_s})
    found = endpoint_cpu_percent([("vm", use)])
    assert found == (None if percent is None else pytest.approx(percent))


@pytest.mark.parametrize(
    ("spans", "percent"),
    [
        ([(0, 0.0, 1.0)], 100),
        ([(0, 0.0, 1.0), (0, 0.0, 1.0)], 100),
        ([(0, 0.0, 1.0), (0, 0.5, 1.0)], 100 * 0.5 / 1.5),
        ([(0, 0.0, 1.0), (0.5, 0.0, 1.0)], 100 * 0.5 / 1.5),
        ([(0, 0.5, 1.0), (0.5, 0.0, 1.0)], 100),
        ([(0, 0.0, 1.0), (0, 2.0, 1.0)], 0),
        ([(0, 0.0, 1.0), (0, None, None)], None),
    ],
)
def test_the_overlap_is_the_share_in_which_all_pairs_were_measured(
    spans: list[tuple[float, float | None, float | None]], percent: float | None
) -> None:
    one = transfer([1])
    transfers = []
    for began, start, length in spans:
        told = {"common_start_s": start, "common_length_s": length}
        receiver = one.receiver.model_copy(update=told)
        transfers.append(one.model_copy(update={"start_s": began, "receiver": receiver}))
    assert overlap_percent(transfers) == (None if percent is None else pytest.approx(percent))
