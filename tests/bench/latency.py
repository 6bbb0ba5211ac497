"""The round trip of one byte, beside NetPIPE and sockperf."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from osmef.errors import OutputError
from osmef.workloads.kinds import netpipe, sockperf
from tests.bench import ends, tools
from tests.bench.contest import AGENT, LESS, Contest, Sample, compare, hold
from tests.bench.report import Bench, Section, Table
from tests.bench.room import PLACES, Place

NETPIPE_PORT = 5002
NETPIPE_REPEATS = 10000
SOCKPERF_PORT = 11111
WARMUP_S = 0.4
"""What sockperf leaves out."""

Measure = Callable[[Bench, Place], Sample]


def _agent(bench: Bench, place: Place) -> Sample:
    keys = {"connections": 1, "duration_s": bench.duration_s, "interval_s": 1, "warmup_s": WARMUP_S}
    with ends.pair(bench.room, place, bench.agent) as agents:
        sizes = {"request_size": 1, "response_size": 1}
        result = ends.run_pair(agents, place, "exchange", **keys, **sizes).connector
    return {"median_us": result["p50_ns"] / 1e3, "p99_us": result["p99_ns"] / 1e3}


def _netpipe(bench: Bench, place: Place) -> Sample:
    port = ["-P", str(NETPIPE_PORT)]
    one_byte = ["-l", "1", "-u", "1", "-p", "0", "-n", str(NETPIPE_REPEATS)]
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        with bench.room.running(place.server, ["NPtcp", *port], NETPIPE_PORT):
            # The receiver complains when the sender goes; it is not asked how it ends.
            send = ["NPtcp", "-h", place.address, *port, *one_byte, "-o", str(rows)]
            bench.room.run(place.client, send)
        return netpipe_round_trip(rows.read_text(encoding="ascii"))


def _sockperf(bench: Bench, place: Place) -> Sample:
    to = ["--tcp", "-i", place.address, "-p", str(SOCKPERF_PORT)]
    with bench.room.running(place.server, ["sockperf", "server", *to], SOCKPERF_PORT) as server:
        ping_pong = ["sockperf", "ping-pong", *to, "--full-rtt", "-t", f"{bench.duration_s:.0f}"]
        client = bench.room.run(place.client, ping_pong)
        server.stop(signal.SIGINT)
    return sockperf_round_trip(client.output)


def netpipe_round_trip(rows: str) -> Sample:
    """Return the round trip of one byte; NetPIPE tells half of it. Raises OutputError."""
    points = netpipe.read(rows).points
    if [point.size_bytes for point in points] != [1]:
        raise OutputError(f"NetPIPE measured {len(points)} sizes, and not just one byte")
    return {"median_us": 2 * points[0].time_us, "p99_us": None}


def sockperf_round_trip(output: str) -> Sample:
    """Return the quantiles of ``sockperf ping-pong --full-rtt``. Raises OutputError."""
    told = sockperf.read(output)
    if isinstance(told, sockperf.Throughput):
        raise OutputError("sockperf tells a throughput, and no round trip")
    median, p99 = (told.quantiles_us.get(percent) for percent in (50.0, 99.0))
    if not told.round_trip or median is None or p99 is None:
        raise OutputError("sockperf tells no quantiles of the whole round trip")
    return {"median_us": median, "p99_us": p99}


def bench(bench: Bench) -> Section:
    known: dict[str, Measure] = {AGENT: _agent, "NPtcp": _netpipe, "sockperf": _sockperf}
    entrants = {name: m for name, m in known.items() if name == AGENT or tools.path_of(name)}
    contests = [
        Contest(place.name, {name: partial(m, bench, place) for name, m in entrants.items()})
        for place in PLACES
    ]
    samples = hold(bench.console, "latency", contests, bench.repeat)
    return Section(
        "Latency",
        "There and back again over one TCP connection, one byte each way (sockperf: 14 bytes, "
        "its least). NetPIPE keeps no distribution: its figure is twice what it prints, "
        f"the best mean of seven trials of {NETPIPE_REPEATS} round trips, so it has no p99.",
        [
            Table("Median round trip, µs", *compare(samples, contests, "median_us", LESS)),
            Table("99th percentile, µs", *compare(samples, contests, "p99_us", LESS)),
        ],
        tools=("NPtcp", "sockperf"),
        problems=samples.problems,
    )
