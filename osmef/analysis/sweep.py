"""Rates and times of a size sweep by message size, and the half-performance length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from osmef.results.observations import SizePoint


def total_rates(points: Iterable[SizePoint]) -> dict[int, float]:
    """Return the throughput of all connections together by size, bits per second.

    The connections of a pair begin together and move the same, and all is moved when the slowest is
    done: theirs is ``pair_throughput_bps``. The rates of those that were done before and left it
    the path would add up to more than the path has. Where it is not known it is their number times
    the rate of the slowest, which is too high where another one is slowest in each trial. Pairs add
    up. Only of sizes that every connection has measured.

    Assumed is that the connections of a pair begin a size together.

    Source: OSMeF; the rate of one connection as in NetPIPE (Snell, Mikler and Gustafson, 1996).
    """
    found: dict[int, dict[tuple[str, str], list[SizePoint]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for point in points:
        found[point.size][point.sender, point.receiver].append(point)
    counts = {size: sum(map(len, pairs.values())) for size, pairs in found.items()}
    everybody = max(counts.values(), default=0)
    return {
        size: sum(map(_of_pair, pairs.values()))
        for size, pairs in sorted(found.items())
        if counts[size] == everybody
    }


def _of_pair(points: Sequence[SizePoint]) -> float:
    known = points[0].pair_throughput_bps
    return len(points) * min(one.throughput_bps for one in points) if known is None else known


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
