"""Fairness, the metrics of RFC 6349, and the order of the bottleneck's tests, on synthetic ends.

tests/agents/test_limits_real.py makes the bottlenecks real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.bulk_transfer import (
    buffer_delay_percent,
    jain_fairness,
    prevailing,
    rfc6349_metrics,
    tcp_efficiency_percent,
    transfer_limits,
    transfer_time_ratio,
    trial_limit,
)
from osmef.results.observations import EachCpu, EndpointUse, ProcessUse, Purpose, QuotaUse
from osmef.results.trial import (
    Bottleneck,
    FlowEnd,
    FlowLimit,
    Interval,
    TcpState,
    Transfer,
    TransferEnd,
)

rates = st.lists(st.floats(min_value=0, max_value=1e300), min_size=1, max_size=128)


@pytest.mark.parametrize(
    ("xs", "expected"),
    [
        ([5.0], 1.0),
        ([3.0, 3.0, 3.0], 1.0),
        ([1.0, 0.0], 0.5),
        ([1.0, 1.0, 0.0, 0.0, 0.0], 0.4),
        ([1.0, 2.0, 3.0], 36 / (3 * 14)),
        ([], None),
        ([0.0, 0.0], None),
    ],
)
def test_known_values(xs: list[float], expected: float | None) -> None:
    assert jain_fairness(xs) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_a_rate_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="must be finite and not negative"):
        jain_fairness([1.0, bad])


@given(rates)
def test_jain_fairness_is_between_1_over_n_and_1(xs: list[float]) -> None:
    j = jain_fairness(xs)
    if any(xs):
        assert j is not None
        assert 1 / len(xs) * (1 - 1e-9) <= j <= 1
    else:
        assert j is None


@given(st.lists(st.floats(min_value=1e-3, max_value=1e12), min_size=1))
def test_unit_and_order_do_not_matter(xs: list[float]) -> None:
    assert jain_fairness([8e6 * x for x in xs]) == pytest.approx(jain_fairness(xs))
    assert jain_fairness(list(reversed(xs))) == pytest.approx(jain_fairness(xs))


@given(st.integers(1, 100), st.integers(0, 100), st.floats(min_value=1e-300, max_value=1e300))
def test_k_equal_flows_of_n_have_the_fairness_k_over_n(k: int, idle: int, x: float) -> None:
    assert jain_fairness([x] * k + [0.0] * idle) == pytest.approx(k / (k + idle))


def transfer_end(name: str, sizes: Sequence[int], elapsed_s: float, tcp: TcpState) -> TransferEnd:
    flows = [
        FlowEnd(
            flow=number,
            bytes=size,
            common_bytes=size,
            start_s=0,
            end_s=elapsed_s,
            cpu_user_s=0,
            cpu_system_s=0,
            tcp=tcp,
        )
        for number, size in enumerate(sizes)
    ]
    times = dict.fromkeys(EndpointUse.model_fields.keys() - {"cpus", "each", "quota"}, 0.0)
    return TransferEnd(
        endpoint=name,
        start_realtime_ns=0,
        elapsed_s=elapsed_s,
        flows=flows,
        process=ProcessUse(cpu_user_s=0, cpu_system_s=0),
        host=EndpointUse.model_validate({"cpus": 1, **times}),
    )


def transfer(tcp: TcpState, *, receiver: str = "b") -> tuple[Transfer, list[Interval]]:
    """Two connections, 4 s: 30 MB in each of the first two seconds, 10 MB in the others."""
    sizes, rows = (60_000_000, 20_000_000), []
    for start, (one, other) in enumerate([(25, 5), (25, 5), (5, 5), (5, 5)]):
        for flow, megabytes in enumerate((one, other)):
            for name, peer, role in (("a", receiver, "sender"), (receiver, "a", "receiver")):
                rows.append(
                    Interval(
                        trial=1,
                        endpoint=name,
                        peer=peer,
                        role=role,
                        flow=flow,
                        start_s=start,
                        length_s=1.0,
                        bytes=megabytes * 1_000_000,
                        retransmits=None,
                        rtt_us=3000.0 if role == "sender" else None,
                        cwnd=None,
                    )
                )
    ends = transfer_end("a", sizes, 4.0, tcp), transfer_end(receiver, sizes, 4.0, tcp)
    return Transfer(sender=ends[0], receiver=ends[1]), rows


# Each of the two has sent 40 MB, and 1 MB of it again.
KNOWN = TcpState(sent_bytes=50_000_000, retransmitted_bytes=1_000_000, rtt_min_us=2000.0)


def test_the_rfc6349_metrics_of_a_transfer() -> None:
    one, rows = transfer(KNOWN)
    assert rfc6349_metrics([one], rows) == {
        "transfer_time_ratio": pytest.approx(4 * 30 / 80),
        "tcp_efficiency_percent": pytest.approx(100 * 80 / 82),
        "buffer_delay_percent": pytest.approx(50.0),
    }


def test_each_pair_of_a_group_has_its_own_intervals() -> None:
    (one, rows), (two, more) = transfer(KNOWN), transfer(KNOWN, receiver="c")
    assert rfc6349_metrics([one, two], rows + more) == rfc6349_metrics([one], rows)


def test_metrics_of_values_that_the_kernel_does_not_report_are_unknown() -> None:
    one, rows = transfer(TcpState(sent_bytes=1000))
    metrics = rfc6349_metrics([one], rows)
    assert metrics["tcp_efficiency_percent"] is None
    assert metrics["buffer_delay_percent"] is None
    assert rfc6349_metrics([one], [])["transfer_time_ratio"] is None


def test_the_examples_of_the_rfc() -> None:
    # Sections 4.2 and 4.3: 102 000 bytes sent, 2000 of them again; 25 ms of base, 32 ms on average.
    assert tcp_efficiency_percent(102_000, 2_000) == pytest.approx(98.04, abs=0.01)
    assert buffer_delay_percent(32_000, 25_000) == pytest.approx(28)


def test_a_transfer_at_the_ideal_rate_has_ratio_1() -> None:
    assert transfer_time_ratio(10.0, 125_000_000, 1e8) == pytest.approx(1.0)
    assert transfer_time_ratio(15.0, 125_000_000, 1e8) == pytest.approx(1.5)


@given(sent=st.integers(1, 10**15), share=st.floats(0, 1))
def test_efficiency_is_a_percentage(sent: int, share: float) -> None:
    efficiency = tcp_efficiency_percent(sent, int(sent * share))
    assert efficiency is not None
    assert 0 <= efficiency <= 100


def test_without_data_there_is_no_metric() -> None:
    assert tcp_efficiency_percent(0, 0) is None
    assert buffer_delay_percent(100, 0) is None
    assert transfer_time_ratio(1, 0, 1e9) is None
    assert transfer_time_ratio(1, 1000, 0) is None


SECONDS = 10.0
RATE_BPS = 8e8
BYTES = int(RATE_BPS * SECONDS / 8)
# What the kernel says of a flow that only the path limits.
NETWORK = {
    "busy_us": 1e7,
    "receive_window_limited_us": 0.0,
    "send_buffer_limited_us": 0.0,
    "rtt_us": 10_000.0,
    "rtt_min_us": 5_000.0,
    "send_window": 8_000_000,
    "send_buffer": 4_000_000,
}


def end(
    *,
    cpu: float = 0.1,
    wait: float | None = 0.0,
    idle: float = 0.8,
    interrupts: float = 0.05,
    throttled: float | None = None,
    process: float = 0.0,
    **tcp: float | None,
) -> TransferEnd:
    """Make an end with one flow; shares are of the transfer's time.

    With ``throttled`` it has a tenth of a CPU, used up in that share of the periods, and
    ``process`` is what the agent used of a CPU.
    """
    size = BYTES
    flow = FlowEnd(
        flow=0,
        bytes=size,
        common_bytes=size,
        start_s=0.0,
        end_s=SECONDS,
        goodput_bps=8 * size / SECONDS,
        cpu_user_s=0.0,
        cpu_system_s=cpu * SECONDS,
        cpu_wait_s=None if wait is None else wait * SECONDS,
        last_cpu=1,
        tcp=TcpState.model_validate(NETWORK | tcp),
    )
    host = EndpointUse(
        cpus=2,
        elapsed_s=SECONDS,
        user_s=0,
        nice_s=0,
        system_s=0,
        idle_s=0,
        iowait_s=0,
        irq_s=0,
        softirq_s=0,
        steal_s=0,
        guest_s=0,
        each=EachCpu(
            cpu=[0, 1],
            idle_s=[SECONDS, idle * SECONDS],
            interrupts_s=[interrupts * SECONDS, 0.0],
            steal_s=[0.0, 0.0],
        ),
        quota=None
        if throttled is None
        else QuotaUse(cpus=0.1, periods=100, throttled=round(100 * throttled), throttled_s=1.0),
    )
    return TransferEnd(
        endpoint="vm",
        start_realtime_ns=0,
        elapsed_s=SECONDS,
        flows=[flow],
        process=ProcessUse(cpu_user_s=0, cpu_system_s=process * SECONDS),
        host=host,
    )


def series(sizes: Sequence[int]) -> list[Interval]:
    length = SECONDS / len(sizes)
    return [
        Interval(
            trial=1,
            endpoint="vm-2",
            role="receiver",
            flow=0,
            start_s=i * length,
            length_s=length,
            bytes=size,
            retransmits=None,
            rtt_us=None,
            cwnd=None,
        )
        for i, size in enumerate(sizes)
    ]


FLAT = series([BYTES // 20] * 20)
BURST = series([BYTES // 8] * 4 + [BYTES // 32] * 16)


def of_time(share: float) -> float:
    return share * SECONDS * 1e6


CASES = {
    "the path": (end(), end(), FLAT, Bottleneck.NETWORK),
    "a token bucket": (end(), end(), BURST, Bottleneck.SHAPER),
    "our own pacing": (end(max_pacing_rate_bps=RATE_BPS * 1.04), end(), FLAT, Bottleneck.SHAPER),
    "pacing that was never reached": (
        end(max_pacing_rate_bps=RATE_BPS * 2),
        end(),
        FLAT,
        Bottleneck.NETWORK,
    ),
    "a sender at full CPU": (end(cpu=0.95), end(), FLAT, Bottleneck.SENDER_CPU),
    "a sender in the run queue": (end(cpu=0.01, wait=0.94), end(), FLAT, Bottleneck.SENDER_CPU),
    "a sender that is often late": (
        end(cpu=0.3, wait=0.3, busy_us=of_time(0.4)),
        end(),
        FLAT,
        Bottleneck.SENDER_CPU,
    ),
    "nothing to send": (end(busy_us=of_time(0.1)), end(), FLAT, Bottleneck.SENDER_IDLE),
    "soft interrupts at the sender": (end(interrupts=0.97), end(), FLAT, Bottleneck.SENDER_CPU),
    "soft interrupts at the receiver": (end(), end(interrupts=0.97), FLAT, Bottleneck.RECEIVER_CPU),
    "a zero window, slow receiver": (
        end(receive_window_limited_us=of_time(0.8)),
        end(cpu=0.1, wait=0.85),
        FLAT,
        Bottleneck.RECEIVER_CPU,
    ),
    "a zero window, idle receiver": (
        end(receive_window_limited_us=of_time(0.8)),
        end(),
        FLAT,
        Bottleneck.RECEIVE_WINDOW,
    ),
    "a full window, paced": (
        end(receive_window_limited_us=of_time(0.3), send_window=1_000_000),
        end(),
        FLAT,
        Bottleneck.RECEIVE_WINDOW,
    ),
    "a receiver that is late, but whose window is open": (
        end(),
        end(cpu=0.05, wait=0.9, idle=0.0),
        FLAT,
        Bottleneck.NETWORK,
    ),
    "a receiver that is always late, whose window stays open": (
        end(),
        end(cpu=0.015, wait=0.98, idle=0.0),
        FLAT,
        Bottleneck.RECEIVER_CPU,
    ),
    "a receiver with half of the CPU that it needs": (
        end(),
        end(cpu=0.38, wait=0.38, idle=0.0),
        FLAT,
        Bottleneck.INCONCLUSIVE,
    ),
    "a receiver under a quota": (
        end(),
        end(cpu=0.1, wait=0.5, throttled=0.95, process=0.1),
        FLAT,
        Bottleneck.RECEIVER_CPU,
    ),
    "a sender under a quota, with eight flows": (
        end(cpu=0.012, wait=0.5, throttled=0.95, process=0.1),
        end(),
        FLAT,
        Bottleneck.SENDER_CPU,
    ),
    "quotas at both ends": (
        end(cpu=0.1, wait=0.5, throttled=0.6, process=0.1),
        end(cpu=0.1, wait=0.5, throttled=0.9, process=0.1),
        FLAT,
        Bottleneck.RECEIVER_CPU,
    ),
    "a quota that is seldom used up": (
        end(),
        end(cpu=0.08, wait=0.2, throttled=0.2, process=0.08),
        FLAT,
        Bottleneck.NETWORK,
    ),
    "a quota that others use up": (
        end(),
        end(cpu=0.01, wait=0.4, throttled=0.95, process=0.01),
        FLAT,
        Bottleneck.NETWORK,
    ),
    "the send buffer": (
        end(send_buffer_limited_us=of_time(0.7)),
        end(),
        FLAT,
        Bottleneck.SEND_BUFFER,
    ),
    "a full send buffer, unpaced": (
        end(send_buffer=1_000_000),
        end(),
        FLAT,
        Bottleneck.SEND_BUFFER,
    ),
    "a path of CPU time alone": (end(cpu=0.6, idle=0.1), end(), FLAT, Bottleneck.INCONCLUSIVE),
    "no state has the majority": (
        end(receive_window_limited_us=of_time(0.3), send_buffer_limited_us=of_time(0.3)),
        end(),
        FLAT,
        Bottleneck.INCONCLUSIVE,
    ),
    "an old kernel": (
        end(busy_us=None, send_window=None, wait=None),
        end(wait=None),
        FLAT,
        Bottleneck.INCONCLUSIVE,
    ),
    "an old kernel, full CPU": (end(busy_us=None, cpu=0.95), end(), FLAT, Bottleneck.SENDER_CPU),
    "an old kernel, a token bucket": (end(busy_us=None), end(), BURST, Bottleneck.SHAPER),
}


@pytest.mark.parametrize(("sender", "receiver", "intervals", "expected"), CASES.values(), ids=CASES)
def test_the_limiting_factor_is_found(
    sender: TransferEnd, receiver: TransferEnd, intervals: list[Interval], expected: Bottleneck
) -> None:
    (limit,) = transfer_limits(sender, receiver, intervals)
    assert limit.limited_by == expected, limit.evidence


def test_the_evidence_has_the_numbers_that_it_rests_on() -> None:
    sender = end(cpu=0.2, wait=0.1, receive_window_limited_us=of_time(0.25))
    (limit,) = transfer_limits(sender, end(wait=None), BURST)
    evidence = limit.evidence
    assert evidence["sender_cpu_percent"] == pytest.approx(20)
    assert evidence["sender_cpu_wait_percent"] == pytest.approx(10)
    assert evidence["receiver_cpu_wait_percent"] is None
    assert evidence["receive_window_percent"] == pytest.approx(25)
    assert evidence["network_percent"] == pytest.approx(75)
    assert evidence["receiver_throttled_percent"] is None
    assert evidence["window_fill_percent"] == pytest.approx(12.5)
    assert evidence["max_pacing_rate_bps"] is None
    assert evidence["knee_s"] == pytest.approx(2.0)
    assert evidence["plateau_bps"] == pytest.approx(RATE_BPS * 20 / 32)


share = st.floats(0, 2)


@given(
    numbers=st.fixed_dictionaries(
        {key: st.none() | st.floats(0, 3e7) for key in (*NETWORK, "max_pacing_rate_bps")}
        | {"send_window": st.none() | st.integers(0, 2**31), "send_buffer": st.none()}
    ),
    cpu=share,
    wait=st.none() | share,
    idle=share,
    interrupts=share,
)
def test_any_kernel_values_give_exactly_one_verdict(
    numbers: dict[str, Any],
    cpu: float,
    wait: float | None,
    idle: float,
    interrupts: float,
) -> None:
    sender = end(cpu=cpu, wait=wait, idle=idle, interrupts=interrupts, **numbers)
    (limit,) = transfer_limits(sender, end(cpu=cpu, wait=wait), [])
    assert limit.limited_by in Bottleneck
    states = ("nothing_to_send", "receive_window", "send_buffer", "network")
    parts = [limit.evidence[f"{state}_percent"] for state in states]
    known = [part for part in parts if part is not None]
    assert not known or sum(known) == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize(
    ("verdicts", "weights", "expected"),
    [
        ([Bottleneck.NETWORK], [10], Bottleneck.NETWORK),
        ([Bottleneck.NETWORK, Bottleneck.SENDER_CPU], [10, 20], Bottleneck.SENDER_CPU),
        ([Bottleneck.NETWORK, Bottleneck.SENDER_CPU], [10, 10], Bottleneck.INCONCLUSIVE),
        (
            [Bottleneck.NETWORK, Bottleneck.SHAPER, Bottleneck.SENDER_CPU],
            [4, 3, 3],
            Bottleneck.INCONCLUSIVE,
        ),
        ([Bottleneck.NETWORK], [0], Bottleneck.INCONCLUSIVE),
        ([], [], Bottleneck.INCONCLUSIVE),
    ],
)
def test_a_trial_has_the_verdict_of_most_of_its_bytes(
    verdicts: list[Bottleneck], weights: list[int], expected: Bottleneck
) -> None:
    limits = [
        FlowLimit(flow=flow, limited_by=verdict, evidence={})
        for flow, verdict in enumerate(verdicts)
    ]
    assert prevailing(limits, weights) == expected


def test_a_trial_is_judged_by_what_was_measured_and_not_by_its_background() -> None:
    def judged(verdict: Bottleneck, purpose: Purpose) -> Transfer:
        limits = [FlowLimit(flow=0, limited_by=verdict, evidence={})]
        return Transfer(purpose=purpose, sender=end(), receiver=end(), limits=limits)

    measured = judged(Bottleneck.NETWORK, Purpose.MEASURED)
    background = [judged(Bottleneck.SENDER_CPU, Purpose.BACKGROUND) for _ in range(3)]
    assert trial_limit([measured, *background]) == Bottleneck.NETWORK
    assert trial_limit(background) is None
    assert trial_limit([]) is None
