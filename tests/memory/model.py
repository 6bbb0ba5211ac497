"""What a path between two endpoints does: the numbers that measurements in memory must give."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Event = dict[str, Any]

ERROR_PERCENT = 1.5625
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}


@dataclass(frozen=True)
class Path:
    """One direction between two endpoints. Times in microseconds, rates in bits per second.

    All connections of a job share ``rate_bps`` as ``shares`` say, which are taken in turn.
    ``noise`` is the standard deviation of the rate from trial to trial, as a share of it. ``tail``
    is the distribution of round trips: shares of them, and how many times the shortest they take.
    """

    rate_bps: float = 1e9
    rtt_us: float = 200.0
    loaded_rtt_us: float = 5000.0
    shares: tuple[float, ...] = (1.0,)
    noise: float = 0.0
    loss: float = 0.0
    jitter_us: float = 5.0
    tail: tuple[tuple[float, float], ...] = ((0.9, 1.0), (0.09, 2.0), (0.01, 4.0))
    bad_every: int = 0
    """Of HTTP requests each so many-th gets an answer that is none; 0: no one does."""

    def rate_in(self, trial: int) -> float:
        """Return the rate of all connections together in a trial."""
        draw = random.Random(f"{self.rate_bps} {trial}")  # noqa: S311 - numbers
        return self.rate_bps * max(0.1, draw.gauss(1.0, self.noise))

    def rates_in(self, trial: int, flows: int) -> list[float]:
        """Return the rate of each connection in a trial."""
        shares = [self.shares[flow % len(self.shares)] for flow in range(flows)]
        return [self.rate_in(trial) * share / sum(shares) for share in shares]

    def round_trips_ns(self, count: int, *, loaded: bool = False) -> Counter[int]:
        """Return how often each round-trip time occurs among so many, in nanoseconds."""
        shortest = 1000 * (self.loaded_rtt_us if loaded else self.rtt_us)
        found: Counter[int] = Counter()
        for share, times in self.tail[1:]:
            found[round(times * shortest)] += int(share * count)
        found[round(self.tail[0][1] * shortest)] += count - found.total()
        return found


def bucket_of(ns: int) -> tuple[int, int]:
    """Return the bucket of a value, 32 to an octave: its lower end, and the next one's."""
    width = 1 << max(0, ns.bit_length() - 6)
    lower = ns // width * width
    return lower, lower + width


def histogram(values: Mapping[int, int]) -> Event:
    """Return the histogram of values and their counts, as the agent tells it."""
    buckets: Counter[tuple[int, int]] = Counter()
    for ns, count in values.items():
        if count:
            buckets[bucket_of(ns)] += count
    ordered = sorted(buckets)
    return {
        "error_percent": ERROR_PERCENT,
        "lower_ns": [lower for lower, _ in ordered],
        "upper_ns": [upper for _, upper in ordered],
        "count": [buckets[bucket] for bucket in ordered],
    }


def quantile_ns(values: Mapping[int, int], q: float) -> int | None:
    """Return the value of a rank, of values and their counts; None where there is none."""
    rank, seen = max(1, math.ceil(q * sum(values.values()))), 0
    for ns in sorted(values):
        seen += values[ns]
        if seen >= rank:
            return ns
    return None


def distribution(values: Mapping[int, int]) -> Event:
    """Return what the agent tells of a distribution beside its histogram."""
    count = sum(values.values())
    known = [ns for ns, number in values.items() if number]
    return {
        "count": count,
        "min_ns": min(known, default=None),
        "mean_ns": sum(ns * n for ns, n in values.items()) // count if count else None,
        **{f"{name}_ns": quantile_ns(values, q) for name, q in _QUANTILES.items()},
        "max_ns": max(known, default=None),
    }


def process_use(elapsed_s: float) -> Event:
    """Return what an agent's process used: a fifth of a CPU."""
    return {"cpu_user_s": 0.05 * elapsed_s, "cpu_system_s": 0.15 * elapsed_s, "max_rss_kb": 1024}


def endpoint_use(elapsed_s: float) -> Event:
    """Return what an endpoint of two CPUs used: a quarter of one."""
    none = dict.fromkeys(("nice_s", "iowait_s", "irq_s", "steal_s", "guest_s"), 0.0)
    busy = {"user_s": 0.05 * elapsed_s, "system_s": 0.15 * elapsed_s, "softirq_s": 0.05 * elapsed_s}
    each = {
        "cpu": [0, 1],
        "idle_s": [0.75 * elapsed_s, elapsed_s],
        "interrupts_s": [0.05 * elapsed_s, 0.0],
        "steal_s": [0.0, 0.0],
    }
    idle = {"idle_s": 1.75 * elapsed_s}
    return {"cpus": 2, "elapsed_s": elapsed_s, **busy, **idle, **none, "each": each, "quota": None}


def thread_use(elapsed_s: float) -> Event:
    """Return the CPU time of a thread."""
    return {
        "cpu_user_s": 0.05 * elapsed_s,
        "cpu_system_s": 0.15 * elapsed_s,
        "cpu_wait_s": 0.001 * elapsed_s,
    }


def tcp_state(path: Path, elapsed_s: float, sent_bytes: int) -> Event:
    """Return TCP_INFO of a connection at its end; a receiver has sent nothing."""
    return {
        "congestion_control": "cubic",
        "mss": 1448,
        "path_mtu": 1500,
        "rtt_us": round(path.rtt_us),
        "rtt_min_us": round(path.rtt_us),
        "rttvar_us": 10,
        "cwnd": 100,
        "retransmits": 0,
        "retransmitted_bytes": 0,
        "lost": 0,
        "reordering": 3,
        "pacing_rate_bps": round(2 * path.rate_bps),
        "delivery_rate_bps": round(path.rate_bps),
        "busy_us": round(1e6 * elapsed_s) if sent_bytes else 0,
        "receive_window_limited_us": 0,
        "send_buffer_limited_us": 0,
        "receive_rtt_us": None if sent_bytes else round(path.rtt_us),
        "receive_space": 131072,
        "sent_bytes": sent_bytes,
        "send_window": 4_000_000,
        "max_pacing_rate_bps": None,
        "send_buffer": 4_000_000,
        "receive_buffer": 4_000_000,
    }
