"""The three metrics of RFC 6349, "Framework for TCP Throughput Testing", section 4."""

from __future__ import annotations


def transfer_time_ratio(actual_s: float, transferred_bytes: int, ideal_bps: float) -> float | None:
    """Return the actual transfer time over the ideal one, 1 or more (RFC 6349, section 4.1.1).

    The ideal time is that of the payload bytes at ``ideal_bps``, the payload rate that the path
    can carry, in bits per second. None where there is no ideal: nothing moved, or no rate.
    """
    if transferred_bytes <= 0 or ideal_bps <= 0:
        return None
    return actual_s * ideal_bps / (8 * transferred_bytes)


def tcp_efficiency_percent(sent_bytes: int, retransmitted_bytes: int) -> float | None:
    """Return the percentage of sent bytes that were not sent again (RFC 6349, section 4.2).

    ``sent_bytes`` includes the retransmitted ones. None when nothing was sent.
    """
    if sent_bytes <= 0:
        return None
    return 100 * (sent_bytes - retransmitted_bytes) / sent_bytes


def buffer_delay_percent(mean_rtt_us: float, base_rtt_us: float) -> float | None:
    """Return by how much the transfer lengthens the round trip (RFC 6349, section 4.3).

    The base is the round-trip time of the idle path, in practice the smallest seen. None without.
    """
    if base_rtt_us <= 0:
        return None
    return 100 * (mean_rtt_us - base_rtt_us) / base_rtt_us
