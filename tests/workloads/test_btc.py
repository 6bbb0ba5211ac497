from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from osmef.agent.messages import BulkResult
from osmef.errors import AgentError, InputError
from osmef.results.observations import Direction, Purpose
from osmef.scenario.load import load_text
from osmef.workloads.base import PartResult, Step
from osmef.workloads.kinds.btc import BtcSettings, BulkTransfer


def workload(**settings: Any) -> BulkTransfer:
    return BulkTransfer(BtcSettings.model_validate(settings))


def test_settings_not_requested_are_left_to_the_kernel() -> None:
    (part,) = workload(duration="3s", connections=7).parts()
    listen, connect = part.steps
    assert (listen.end, listen.listens, connect.end, connect.listens) == (
        *("receiver", True),
        *("sender", False),
    )
    assert dict(listen.parameters) == dict(connect.parameters)
    assert listen.connections == connect.connections == 7
    assert dict(connect.parameters) == {
        "duration_s": 3.0, "interval_s": 1.0, "direction": "forward",
        "mode": "copy",
    }  # fmt: skip


def test_connections_as_a_parameter_of_a_step_are_rejected() -> None:
    with pytest.raises(ValueError, match="a field of a step"):
        Step("sender", "bulk", {"connections": 2})


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({"bytes": "1MB"}, {"bytes": 1_000_000}),
        ({"warmup": "2s"}, {"warmup_s": 2.0}),
        ({"window": "64KiB", "mss": 1000}, {"window": 65536, "mss": 1000}),
        ({"congestion_control": "reno", "pacing": "1Mbit/s"},
         {"congestion_control": "reno", "pacing_bps": 1e6}),
        ({"dscp": 46, "mptcp": True}, {"dscp": 46, "mptcp": True}),
        ({"connections": 4, "threads": 2}, {"threads": 2}),
        ({"mode": "zerocopy-discard"}, {"mode": "zerocopy-discard"}),
        ({"active": "1s", "idle": "500ms"}, {"active_s": 1.0, "idle_s": 0.5}),
        ({"direction": "reverse"}, {"direction": "reverse"}),
        ({"duration": "500ms"}, {"duration_s": 0.5, "interval_s": 0.5}),
        ({"duration": "500ms", "interval": "100ms"}, {"interval_s": 0.1}),
    ],
)  # fmt: skip
def test_every_setting_reaches_both_ends(
    settings: dict[str, Any], parameters: dict[str, Any]
) -> None:
    (part,) = workload(**settings).parts()
    for step in part.steps:
        assert parameters.items() <= step.parameters.items()


def test_each_end_runs_on_its_own_cpus() -> None:
    (part,) = workload(cpus_sender=[0, 2], cpus_receiver=[1]).parts()
    assert {step.end: step.parameters["cpus"] for step in part.steps} == {
        "sender": "0,2",
        "receiver": "1",
    }


def test_the_warm_up_takes_its_time_too() -> None:
    (part,) = workload(duration="3s", warmup="2s").parts()
    assert part.duration_s == 5.0


USE = {"cpu_user_s": 0.1, "cpu_system_s": 0.1}
STAT = dict.fromkeys(
    ("user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s", "softirq_s", "steal_s",
     "guest_s"), 0.1,
)  # fmt: skip


def result(role: str, count: int) -> BulkResult:
    """Return the end of one connection that moved so many bytes in one second."""
    received = role == "receiver"
    flow: dict[str, Any] = {
        "flow": 0, "bytes": count, "common_bytes": count if received else None,
        "start_s": 0, "end_s": 1, "tcp": {}, **USE,
    }  # fmt: skip
    use = {"process": USE, "endpoint": {"cpus": 1, "elapsed_s": 1, **STAT}}
    return BulkResult.model_validate(
        {
            "event": "result", "id": "1", "job": "bulk", "direction": "forward",
            "start_realtime_ns": 1, "elapsed_s": 1,
            "receiving" if received else "sending": {
                "mode": "copy", "common_start_s": 0, "common_length_s": 1 if received else None,
                "flows": [flow],
            },
            "measured": {"start_s": 0, "length_s": 1, **use}, **use,
        }
    )  # fmt: skip


def forth(count: int) -> PartResult:
    return PartResult("a", "b", (result("receiver", count), result("sender", count)), [])


def back(count: int) -> PartResult:
    return PartResult("a", "b", (result("sender", count), result("receiver", count)), [])


def test_both_directions_are_two_transfers_with_numbers_of_their_own() -> None:
    both = workload(direction="both")
    assert [part.steps[0].parameters["direction"] for part in both.parts()] == [
        "forward",
        "reverse",
    ]
    outcome = both.outcome(1, Purpose.MEASURED, [(forth(100), back(30))])
    assert outcome.metrics["aggregate_btc_bps"] == 800
    assert outcome.metrics["reverse_aggregate_btc_bps"] == 240
    assert outcome.metrics.keys() == {one.name for one in both.measures}
    assert [(t.direction, t.sender.endpoint, t.receiver.endpoint) for t in outcome.transfers] == [
        (Direction.FORWARD, "a", "b"),
        (Direction.REVERSE, "b", "a"),
    ]


def test_data_in_the_wrong_direction_is_an_error() -> None:
    with pytest.raises(AgentError, match="did not transfer reverse"):
        workload(direction="reverse").outcome(1, Purpose.MEASURED, [(forth(100),)])


def test_the_metrics_are_those_that_the_workload_names() -> None:
    one_way = workload()
    outcome = one_way.outcome(1, Purpose.BACKGROUND, [(forth(100),), (forth(50),)])
    assert outcome.metrics.keys() == {one.name for one in one_way.measures}
    assert outcome.metrics["aggregate_btc_bps"] == 1200
    assert {transfer.purpose for transfer in outcome.transfers} == {Purpose.BACKGROUND}


def _interfaces(**offloads: bool) -> dict[str, object]:
    card = {"mtu": 1500, "offloads": offloads}
    loopback = {"offloads": {"generic_segmentation_offload": True}}
    return {"interfaces": {"lo": loopback, "eth0": card, "eth1": {"mtu": 1500}}}


def test_missing_segmentation_and_receive_offloads_are_warned_of() -> None:
    settings = BtcSettings()
    none = _interfaces(tcp_segmentation_offload=False, generic_segmentation_offload=False)
    (text,) = settings.warnings_from_facts("sender", none)
    assert "no segmentation offload" in text
    assert not list(settings.warnings_from_facts("receiver", none))
    (text,) = settings.warnings_from_facts("receiver", _interfaces(generic_receive_offload=False))
    assert "no receive offload" in text


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"interfaces": None},
        {"interfaces": {"eth0": {"mtu": 1500}}},
        _interfaces(tcp_segmentation_offload=False, generic_segmentation_offload=True),
        _interfaces(),
    ],
)
def test_offloads_that_are_there_or_not_known_are_no_reason_to_warn(
    facts: dict[str, object],
) -> None:
    assert not list(BtcSettings().warnings_from_facts("sender", facts))


def test_connections_have_classes_in_turn() -> None:
    settings = BtcSettings.model_validate(
        {"connections": 4, "dscp": [0, 8, 40, 46], "congestion_control": ["cubic", "reno"]}
    )
    for step in BulkTransfer(settings).parts()[0].steps:
        assert step.parameters["each_dscp"] == ["0", "8", "40", "46"]
        assert step.parameters["each_congestion_control"] == ["cubic", "reno"]
        assert not step.parameters.keys() & {"dscp", "congestion_control"}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"dscp": [0, 46]}, "dscp lists 2, for 1 connections"),
        ({"connections": 2, "congestion_control": ["a", "b", "c"]}, "congestion_control lists 3"),
    ],
)
def test_a_class_without_a_connection_is_an_error(written: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        BtcSettings.model_validate(written)


@pytest.mark.parametrize(
    "written", [{"window": "2GiB"}, {"window": "1000B"}, {"pacing": "11Tbit/s"}]
)
def test_what_the_agent_would_refuse_is_an_error_of_the_file(written: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="than or equal to"):
        BtcSettings.model_validate(written)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"cost": "1 EUR"}, "bound how long a bucket"),
        ({"until": "knee", "cost": "1 EUR"}, "go together"),
        ({"until": "knee", "per_gb": "1 EUR"}, "go together"),
        ({"until": "knee", "cost": "1 EUR", "per_gb": "0.1 USD"}, "two currencies"),
    ],
)
def test_a_cost_without_its_price_is_an_error(written: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        BtcSettings.model_validate(written)


def test_no_more_bytes_are_asked_for_than_the_agent_can_read() -> None:
    assert workload(bytes="9000TB").most_bytes == 9_000 * 10**12 < 2**53
    with pytest.raises(InputError, match="write at most 9000 TB"):
        load_text("name: a\nworkload: {kind: btc, bytes: 9001TB}\n", Path("a.yaml"))
    paid = workload(until="knee", cost="1000000 USD", per_gb="0.0001 USD")
    assert paid.most_bytes == 9_000 * 10**12


def test_a_cost_bounds_what_each_connection_sends() -> None:
    paid = {"until": "knee", "cost": "2.1 USD", "per_gb": "0.1 USD"}
    one = workload(**paid, connections=4, refill=["1min"])
    (sender,) = [step for step in one.parts()[0].steps if step.end == "sender"]
    assert sender.parameters["bytes"] == 2_500_000_000  # of 20 GB, a quarter in each of two
    assert one.most_bytes == 20_000_000_000
    fewer = workload(**paid, bytes="1GB")
    assert fewer.parts()[0].steps[0].parameters["bytes"] == 1_000_000_000
