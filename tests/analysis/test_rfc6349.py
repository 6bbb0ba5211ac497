from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.bulk_transfer import (
    buffer_delay_percent,
    rfc6349_metrics,
    tcp_efficiency_percent,
    transfer_time_ratio,
)
from osmef.results.observations import EndpointUse, ProcessUse
from osmef.results.trial import FlowEnd, Interval, TcpState, Transfer, TransferEnd


def end(name: str, sizes: Sequence[int], elapsed_s: float, tcp: TcpState) -> TransferEnd:
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
    ends = end("a", sizes, 4.0, tcp), end(receiver, sizes, 4.0, tcp)
    return Transfer(sender=ends[0], receiver=ends[1]), rows


# Each of the two has sent 40 MB, and 1 MB of it again.
KNOWN = TcpState(sent_bytes=50_000_000, retransmitted_bytes=1_000_000, rtt_min_us=2000.0)


def test_of_a_transfer() -> None:
    one, rows = transfer(KNOWN)
    assert rfc6349_metrics([one], rows) == {
        "transfer_time_ratio": pytest.approx(4 * 30 / 80),
        "tcp_efficiency_percent": pytest.approx(100 * 80 / 82),
        "buffer_delay_percent": pytest.approx(50.0),
    }


def test_of_a_group_each_pair_has_its_own_intervals() -> None:
    (one, rows), (two, more) = transfer(KNOWN), transfer(KNOWN, receiver="c")
    assert rfc6349_metrics([one, two], rows + more) == rfc6349_metrics([one], rows)


def test_what_the_kernel_does_not_tell_is_unknown() -> None:
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
