"""Output of NetPIPE (NPtcp and others): np.out, and what it prints.

Source: Snell, Mikler, Gustafson, "NetPIPE: A Network Protocol Independent Performance Evaluator",
1996, and version 3.7.2. Mbps there are 2^20 bits/s; the time is that of one message, half of a
round trip, in seconds (np.out) or microseconds (printed), the shortest of its trials.
"""

from __future__ import annotations

import re

from osmef.analysis.sweep import half_performance_length, shortest_times, total_rates
from osmef.importers.record import (
    RECEIVER,
    SENDER,
    Oddity,
    Parsed,
    Record,
    Text,
    positive,
    refuse,
    whole,
)
from osmef.results.exchange import Purpose, SizePoint
from osmef.scenario.workload import SweepMode

MEBI = 1 << 20
_SAVED = re.compile(r"\s*([0-9]+)\s+([0-9.]+)\s+([0-9.]+)\s*", re.ASCII)
_PRINTED = re.compile(
    r"\s*[0-9]+:\s+([0-9]+) bytes\s+([0-9]+) times -->\s+([0-9.]+) Mbps in\s+([0-9.]+) usec\s*",
    re.ASCII,
)
_TOLERANCE = 0.02


def parse(text: Text) -> Parsed:
    """Read one sweep over message sizes on one connection; np.out takes no note of its options.

    What was printed tells by its rates whether both ways were used at once (-2). All else counts
    as a ping-pong: np.out does not tell a stream (-s), and has twice the size with -2. Metrics:
    latency_min_us, the time of the smallest message, throughput_max_bps, n_half_bytes and
    sizes_measured. Raises InputError.
    """
    points: list[SizePoint] = []
    oddities: list[Oddity] = []
    for line, content in enumerate(text.text.splitlines(), start=1):
        point = _point(content, text.line(line))
        if point is None:
            if content.strip() and points and not content.startswith("Completed"):
                oddities.append(Oddity(text.line(line), "this line is no message size", False))
            continue
        points.append(point)
        ways = 2 if point.mode is SweepMode.BOTH else 1
        wanted = ways * 8e6 * point.size / point.time_min_us
        if abs(point.throughput_bps - wanted) > _TOLERANCE * wanted:
            oddities.append(Oddity(text.line(line), "the rate is not the size over the time", True))
    if not points:
        raise refuse(text.line(1), "there is no line of NetPIPE in it: bytes, Mbps and seconds")
    rates, times = total_rates(points), shortest_times(points)
    metrics = {
        "latency_min_us": times[min(times)] if points[0].mode is SweepMode.PINGPONG else None,
        "throughput_max_bps": max(rates.values()),
        "n_half_bytes": half_performance_length(rates),
        "sizes_measured": float(len(rates)),
    }
    return Parsed(
        [Record(workload="size-sweep", metrics=metrics, connections=1, sizes=points)], oddities
    )


def _point(line: str, where: str) -> SizePoint | None:
    saved, printed = _SAVED.fullmatch(line), _PRINTED.fullmatch(line)
    if saved:
        size, rate, time_us = saved[1], saved[2], 1e6 * positive(saved[3], "the time", where)
        times = None
    elif printed:
        size, rate, time_us = printed[1], printed[3], positive(printed[4], "the time", where)
        times = whole(printed[2], "the number of times", where)
    else:
        return None
    bps, bytes_ = MEBI * positive(rate, "the rate", where), int(positive(size, "the size", where))
    both = times is not None and bps * time_us > 1.5 * 8e6 * bytes_
    return SizePoint(
        purpose=Purpose.MEASURED,
        sender=SENDER,
        receiver=RECEIVER,
        flow=0,
        mode=SweepMode.BOTH if both else SweepMode.PINGPONG,
        checked=False,
        size=bytes_,
        repetitions=times,
        trials=None,
        time_min_us=time_us,
        time_median_us=None,
        time_max_us=None,
        throughput_bps=bps,
    )
