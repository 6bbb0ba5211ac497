"""What the name of a metric says: which way is better, and which quantity it is."""

from __future__ import annotations

import re
from enum import StrEnum

_ROLE = re.compile(r"^(?:background_|reverse_|idle_|loaded_)+")
_HIGHER = re.compile(
    r"aggregate_btc_bps|connection_btc_bps|goodput_bps|throughput_max_bps|tcp_efficiency_percent"
    r"|[a-z0-9_]+_(per_s|score|[kmgt]?(b|bit|bits|byte|bytes)_s)|jain_fairness(_senders)?"
)
_LOWER = re.compile(
    r"((connect_)?rtt|time|request|delay_variation)_(min|mean|max|p\d+)_us|latency_min_us|jitter_us"
    r"|(network_)?loss_percent|loss_longest|reordered_percent|reordering_extent_max"
    r"|duplicate_percent|retransmits|retries|failed_requests|receiver_drops|buffer_delay_percent"
    r"|transfer_time_ratio|latency_increase_ratio|cpu_(sender|receiver)_us_per_kb|n_half_bytes"
    r"|[a-z0-9_]*(retrans|error|drop|loss|lost|fail|timeout)[a-z0-9_]*_per_s"
)
_UNITS = {
    "rate": re.compile(r"_([kmg]?bps|[kmgt]?(b|bit|bits|byte|bytes)(_per)?_s)$"),
    "time": re.compile(r"(?<!_per)_[mun]?s$"),
    "size": re.compile(r"(?<!_per)_([kmg]?bytes|[kmg]b)$"),
}


class Direction(StrEnum):
    """Which way of a metric is better."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


def direction(metric: str) -> Direction:
    """Return which way of a metric is better.

    Rates, scores, fairness and efficiency are better higher; times, losses, repeats, faults a
    second and CPU time per byte lower. What is neither, such as a CPU load, which grows with the
    rate, has no better way, and what is unknown has none.
    """
    name = _ROLE.sub("", metric)
    if _LOWER.fullmatch(name):
        return Direction.LOWER
    return Direction.HIGHER if _HIGHER.fullmatch(name) else Direction.NEITHER


def quantity(metric: str) -> tuple[str, str] | None:
    """Return what a metric measures, without its unit, and whether it is a rate, time or size.

    ``rtt_p50_us`` and ``rtt_p50_ms`` are one quantity. None where the name tells no such unit.
    """
    for kind, unit in _UNITS.items():
        if found := unit.search(metric):
            return metric[: found.start()], kind
    return None
