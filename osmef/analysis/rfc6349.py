"""The three metrics of RFC 6349, "Framework for TCP Throughput Testing", section 4."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from osmef.results.trial import FlowEnd, Interval, Transfer


def rfc6349_metrics(
    transfers: Sequence[Transfer], intervals: Iterable[Interval]
) -> dict[str, float | None]:
    """Return the three metrics of transfers that ran together; None where something is unknown.

    The efficiency is that of all bytes together, the other two are means over the transfers.
    RFC 6349 wants the path's bottleneck bandwidth from a test before. Here the ideal rate is the
    highest that all connections of a transfer had together in any interval, so the ratio says how
    far from their own best they stayed. The base RTT is the smallest that any of them saw.

    Assumed is that the path was once as fast as it can be, and once idle, while it was measured.

    Source: RFC 6349, sections 4.1 to 4.3, with these estimates of what it wants from tests before.
    """
    rows = list(intervals)
    ratios, delays = [], []
    for transfer in transfers:
        names = (transfer.receiver.endpoint, transfer.sender.endpoint)
        ours = [row for row in rows if {row.endpoint, row.peer or row.endpoint} <= {*names}]
        size = sum(flow.bytes for flow in transfer.receiver.flows)
        ratios.append(transfer_time_ratio(transfer.receiver.elapsed_s, size, _peak_bps(ours)))
        delays.append(_delay(transfer.sender.flows, ours))
    return {
        "transfer_time_ratio": _mean(ratios),
        "tcp_efficiency_percent": _efficiency([f for t in transfers for f in t.sender.flows]),
        "buffer_delay_percent": _mean(delays),
    }


def transfer_time_ratio(actual_s: float, transferred_bytes: int, ideal_bps: float) -> float | None:
    """Return the actual transfer time over the ideal one, 1 or more (RFC 6349, section 4.1.1).

    The ideal time is that of the payload bytes at ``ideal_bps``, the payload rate that the path
    can carry, in bits per second. None where there is no ideal: nothing moved, or no rate.

    Assumed is that ``ideal_bps`` is that of the payload.

    Source: RFC 6349, section 4.1.1.
    """
    if transferred_bytes <= 0 or ideal_bps <= 0:
        return None
    return actual_s * ideal_bps / (8 * transferred_bytes)


def tcp_efficiency_percent(sent_bytes: int, retransmitted_bytes: int) -> float | None:
    """Return the percentage of sent bytes that were not sent again (RFC 6349, section 4.2).

    ``sent_bytes`` includes the retransmitted ones. None when nothing was sent.

    Assumed is that nothing was sent again without need.

    Source: RFC 6349, section 4.2.
    """
    if sent_bytes <= 0:
        return None
    return 100 * (sent_bytes - retransmitted_bytes) / sent_bytes


def buffer_delay_percent(mean_rtt_us: float, base_rtt_us: float) -> float | None:
    """Return by how much the transfer lengthens the round trip (RFC 6349, section 4.3).

    The base is the round-trip time of the idle path, in practice the smallest seen. None without.

    Assumed is that the base is of the idle path.

    Source: RFC 6349, section 4.3.
    """
    if base_rtt_us <= 0:
        return None
    return 100 * (mean_rtt_us - base_rtt_us) / base_rtt_us


def _peak_bps(rows: Sequence[Interval]) -> float:
    """Return the highest rate of all connections together, without fractions of an interval."""
    received = [row for row in rows if row.role == "receiver"]
    if not received:
        return 0.0
    shortest = statistics.median(row.length_s for row in received) / 2
    rates: dict[float, float] = defaultdict(float)
    for row in received:
        if row.length_s >= shortest > 0:
            rates[row.start_s] += 8 * row.bytes / row.length_s
    return max(rates.values(), default=0.0)


def _delay(flows: Sequence[FlowEnd], rows: Sequence[Interval]) -> float | None:
    rtts = [row.rtt_us for row in rows if row.role == "sender" and row.rtt_us is not None]
    lowest = [flow.tcp.rtt_min_us for flow in flows if flow.tcp.rtt_min_us is not None]
    return buffer_delay_percent(statistics.fmean(rtts), min(lowest)) if rtts and lowest else None


def _efficiency(flows: Sequence[FlowEnd]) -> float | None:
    """Return the TCP efficiency of flows, of their payload and their retransmissions.

    The kernel's own count of sent bytes has in it each attempt that the sender's own queueing
    discipline threw away, though nothing left the endpoint, and TCP counts no retransmission.
    """
    again = [flow.tcp.retransmitted_bytes for flow in flows]
    known = [size for size in again if size is not None]
    if len(known) < len(again):
        return None
    return tcp_efficiency_percent(sum(flow.bytes for flow in flows) + sum(known), sum(known))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None
