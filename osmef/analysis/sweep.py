"""Rates and times of a size sweep by message size, and the half-performance length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from osmef.results.observations import SizePoint


def total_rates(points: Iterable[SizePoint]) -> dict[int, float]:
    """Return the throughput of all connections together by size, bits per second.

    The connections of a pair begin together and move the same, so theirs is their number times the
    rate of the slowest: all is moved when that is done. The rates of those that were done before
    and left it the path would add up to more than the path has. Pairs add up. Only of sizes that
    every connection has measured.

    Assumed is that the connections of a pair begin a size together.

    Source: OSMeF; the rate of one connection as in NetPIPE (Snell, Mikler and Gustafson, 1996).
    """
    rates: dict[int, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        rates[point.size][point.sender, point.receiver].append(point.throughput_bps)
    counts = {size: sum(map(len, pairs.values())) for size, pairs in rates.items()}
    everybody = max(counts.values(), default=0)
    return {
        size: sum(len(of) * min(of) for of in pairs.values())
        for size, pairs in sorted(rates.items())
        if counts[size] == everybody
    }


def shortest_times(points: Iterable[SizePoint]) -> dict[int, float]:
    """Return the shortest time of a message on any connection by size, microseconds.

    Assumed is that what lengthens a time is no part of the network, as NetPIPE has it.

    Source: Snell, Mikler and Gustafson, "NetPIPE: A Network Protocol Independent Performance
    Evaluator", 1996.
    """
    times: dict[int, float] = {}
    for point in points:
        times[point.size] = min(times.get(point.size, point.time_min_us), point.time_min_us)
    return dict(sorted(times.items()))


def half_performance_length(rates: Mapping[int, float]) -> float | None:
    """Return the message size at which half of the highest rate is reached, in bytes.

    Hockney's n_1/2 (R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko
    CS-2", Parallel Computing 20, 1994), read from the measured rates by size: between the first
    size that reaches half of the highest rate and the one before, linear in size and rate. None
    where already the smallest size is that fast, or nothing was measured.

    Assumed is that the rate grows with the size up to there.

    Source: Hockney, as named.
    """
    half = max(rates.values(), default=0.0) / 2
    below: int | None = None
    for size in sorted(rates):
        if rates[size] >= half:
            if below is None:
                return None
            share = (half - rates[below]) / (rates[size] - rates[below])
            return below + share * (size - below)
        below = size
    return None
