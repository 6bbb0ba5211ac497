"""Which ways the data of a scenario goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.scenario.load import load_text
from osmef.scenario.workload import Directions

ONE, IN_TURNS, AT_ONCE = Directions.ONE, Directions.IN_TURNS, Directions.AT_ONCE


@pytest.mark.parametrize(
    ("text", "directions"),
    [
        ("workload: {kind: btc}", ONE),
        ("workload: {kind: btc, direction: reverse}", ONE),
        ("workload: {kind: btc, direction: both}", AT_ONCE),
        ("workload: {kind: udp, rate: 1Mbit/s, direction: both}", AT_ONCE),
        ("workload: {kind: udp, rate: 1Mbit/s}", ONE),
        ("workload: {kind: size-sweep}", IN_TURNS),
        ("workload: {kind: size-sweep, mode: stream}", ONE),
        ("workload: {kind: size-sweep, mode: both}", AT_ONCE),
        ("workload: {kind: netpipe}", IN_TURNS),
        ("workload: {kind: netpipe, max: 1kB}", ONE),
        ("workload: {kind: pingpong}", ONE),
        ("workload: {kind: latency}", ONE),
        ("workload: {kind: latency, size: 10kB}", IN_TURNS),
        ("workload: {kind: latency, size: 10kB}\nbackground: {connections: 2}", AT_ONCE),
        ("workload: {kind: netperf, test: tcp-stream}", ONE),
        ("workload: {kind: netperf, test: tcp-rr, request: 9kB, response: 9kB}", IN_TURNS),
        ("workload: {kind: netperf, test: tcp-rr, response: 9kB}", ONE),
        ("workload: {kind: qperf, test: tcp-bw, size: 9kB}", ONE),
        ("workload: {kind: qperf, test: tcp-lat, size: 9kB}", IN_TURNS),
        ("workload: {kind: sockperf, size: 9kB}", IN_TURNS),
        ("workload: {kind: sockperf, test: throughput, size: 9kB}", ONE),
        ("workload: {kind: iperf3}", AT_ONCE),
    ],
)
def test_the_traffic_directions_of_each_workload(text: str, directions: Directions) -> None:
    assert load_text(f"name: a\n{text}", Path("a.yaml")).scenario.directions is directions
