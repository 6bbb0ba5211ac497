"""The benchmarks take from what their peers print what is to be compared."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from osmef.errors import OutputError
from tests.bench.http import ab_rate, wrk_rate
from tests.bench.latency import netpipe_round_trip, sockperf_round_trip
from tests.bench.transfer import (
    Transfer,
    agent_transfer,
    iperf2_transfer,
    iperf3_transfer,
    nuttcp_transfer,
)

HERE = Path(__file__).parent / "data"
FORMATS = Path(__file__).parent.parent / "formats" / "data"


def sample(name: str) -> str:
    return (FORMATS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("read", "name", "received_bytes", "gbps"),
    [
        # Two flows, 844104704 and 848823296 bytes, in 0.300105358 s.
        (agent_transfer, "agent.jsonl", 1692928000, 45.129),
        (iperf3_transfer, "iperf3/tcp-8.txt", 3671064576, 29.359),
        # The sum's time is longer than that of any flow.
        (partial(iperf2_transfer, flows=8), "iperf2/server-8.txt", 2318080 * 2**10, 18.685),
        (partial(iperf2_transfer, flows=1), "iperf2/server-1.txt", 2724864 * 2**10, 22.271),
        # The sum's time is shorter than that of any flow.
        (partial(iperf2_transfer, flows=2), "iperf2/server-2.txt", 4901760 * 2**10, 40.062),
        (nuttcp_transfer, "nuttcp/parse-8.txt", 3639.0722 * 2**20, 30.285),
    ],
)
def test_bytes_and_rate_of_a_transfer(
    read: Callable[[str], Transfer], name: str, received_bytes: float, gbps: float
) -> None:
    of_agent = name == "agent.jsonl"
    transfer = read((HERE / name).read_text() if of_agent else sample(name))
    assert transfer.received_bytes == pytest.approx(received_bytes)
    assert transfer.bps == pytest.approx(1e9 * gbps, rel=1e-3)


def test_netpipe_prints_half_of_the_round_trip_and_no_distribution() -> None:
    assert netpipe_round_trip(sample("netpipe/one-size.txt")) == {
        "median_us": pytest.approx(14.08),
        "p99_us": None,
    }


def test_median_and_99th_percentile_of_sockperf() -> None:
    found = sockperf_round_trip(sample("sockperf/full-rtt.txt"))
    assert found == {"median_us": 13.550, "p99_us": 35.001}


def test_requests_per_second() -> None:
    assert wrk_rate(sample("wrk/plain.txt")) == 30172.27
    assert ab_rate(sample("apachebench/keep-alive.txt")) == 28247.60


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (wrk_rate, "wrk/404.txt"),
        (wrk_rate, "wrk/closed.txt"),
        (ab_rate, "apachebench/404.txt"),
        (iperf3_transfer, "iperf3/refused.txt"),
        (netpipe_round_trip, "netpipe/saved.txt"),
        (sockperf_round_trip, "sockperf/half.txt"),
        (partial(iperf2_transfer, flows=7), "iperf2/server-8.txt"),
        (partial(iperf2_transfer, flows=9), "iperf2/server-8.txt"),
        (partial(iperf2_transfer, flows=2), "iperf2/client-2.txt"),
        (agent_transfer, "nuttcp/parse-8.txt"),
    ],
)
def test_output_of_a_failed_or_different_test_gives_no_figure(
    read: Callable[[str], object], name: str
) -> None:
    with pytest.raises(OutputError):
        read(sample(name))
