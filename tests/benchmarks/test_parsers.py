"""The benchmarks read what its peers really print."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench import parsers
from tests.bench.parsers import OutputError, RoundTrip, Transfer

DATA = Path(__file__).parent / "data"


def read(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


PARSERS: dict[str, Callable[[str], Transfer | RoundTrip | float]] = {
    "agent.jsonl": parsers.agent_transfer,
    "iperf3-8.json": parsers.iperf3_transfer,
    "iperf2-8.txt": partial(parsers.iperf2_transfer, flows=8),
    "iperf2-1.txt": partial(parsers.iperf2_transfer, flows=1),
    "nuttcp-8.txt": parsers.nuttcp_transfer,
    "netpipe.txt": parsers.netpipe_round_trip,
    "sockperf.txt": parsers.sockperf_round_trip,
    "wrk.txt": parsers.wrk_rate,
    "ab.txt": parsers.ab_rate,
}


@pytest.mark.parametrize(
    ("name", "received_bytes", "gbps"),
    [
        # Two flows, 844104704 and 848823296 bytes, in 0.300105358 s.
        ("agent.jsonl", 1692928000, 45.129),
        ("iperf3-8.json", 3671064576, 29.359),
        # The sum's time is longer than that of any flow.
        ("iperf2-8.txt", 2318080 * 2**10, 18.685),
        ("iperf2-1.txt", 2724864 * 2**10, 22.271),
        ("nuttcp-8.txt", 3639.0722 * 2**20, 30.285),
    ],
)
def test_bytes_and_rate_of_a_transfer(name: str, received_bytes: float, gbps: float) -> None:
    transfer = PARSERS[name](read(name))
    assert isinstance(transfer, Transfer)
    assert transfer.received_bytes == pytest.approx(received_bytes)
    assert transfer.bps == pytest.approx(1e9 * gbps, rel=1e-3)


def test_netpipe_prints_half_of_the_round_trip_and_no_distribution() -> None:
    round_trip = parsers.netpipe_round_trip(read("netpipe.txt"))
    assert round_trip.median_us == pytest.approx(14.08)
    assert round_trip.p99_us is None


def test_median_and_99th_percentile_of_sockperf() -> None:
    assert parsers.sockperf_round_trip(read("sockperf.txt")) == RoundTrip(13.550, 35.001)


def test_requests_per_second() -> None:
    assert parsers.wrk_rate(read("wrk.txt")) == 30172.27
    assert parsers.ab_rate(read("ab.txt")) == 28247.60


@pytest.mark.parametrize(
    ("parse", "name"),
    [
        (parsers.wrk_rate, "wrk-404.txt"),
        (parsers.ab_rate, "ab-404.txt"),
        (parsers.iperf3_transfer, "iperf3-refused.json"),
    ],
)
def test_what_failed_gives_no_figure(parse: Callable[[str], float | Transfer], name: str) -> None:
    with pytest.raises(OutputError):
        parse(read(name))


@pytest.mark.parametrize("name", PARSERS)
@given(output=st.text())
def test_other_output_is_an_error(name: str, output: str) -> None:
    with pytest.raises(OutputError):
        PARSERS[name](output)


@pytest.mark.parametrize("flows", [7, 9])
def test_a_flow_that_iperf_does_not_report_is_missed(flows: int) -> None:
    with pytest.raises(OutputError, match=f"not report {flows} flows"):
        parsers.iperf2_transfer(read("iperf2-8.txt"), flows)
