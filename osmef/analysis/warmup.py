"""Results of one end of a bulk transfer without its warm-up."""

from __future__ import annotations

from collections.abc import Sequence

from osmef.results.trial import FlowEnd, Interval, ThreadUse, TransferEnd


def without_warmup(end: TransferEnd) -> TransferEnd:
    """Return an end as if the transfer had begun at the end of the warm-up.

    Counters are differences, or None where there is none; what the kernel tells as a state, such as
    the smallest round-trip time, is that of the whole connection. ``bytes`` of a sender is what the
    program handed over, which differs from what left by what its buffer held at the warm-up's end.

    Assumed is that the transfer was steady when the warm-up ended.

    Source: OSMeF; Jain, "The Art of Computer Systems Performance Analysis", 1991, section 25.3, on
    removing transients.
    """
    part = end.measured
    if part is None or part.start_s <= 0:
        return end
    flows = [_flow(flow, part.start_s) for flow in end.flows]
    threads = None if end.threads is None else [_thread(one) for one in end.threads]
    changes = {"elapsed_s": part.length_s, "process": part.process, "host": part.host}
    return end.model_copy(update={**changes, "flows": flows, "threads": threads})


def measured_intervals(intervals: Sequence[Interval]) -> list[Interval]:
    """Return the intervals after the warm-up.

    Assumed is what ``without_warmup`` assumes.

    Source: that of ``without_warmup``.
    """
    return [interval for interval in intervals if not interval.warmup]


def _flow(flow: FlowEnd, start_s: float) -> FlowEnd:
    part = flow.measured
    if part is None:
        return flow
    tcp = {
        "retransmits": part.retransmits,
        "retransmitted_bytes": part.retransmitted_bytes,
        "busy_us": part.busy_us,
        "receive_window_limited_us": part.receive_window_limited_us,
        "send_buffer_limited_us": part.send_buffer_limited_us,
        "sent_bytes": None,
    }
    return flow.model_copy(
        update={
            "bytes": part.bytes,
            "start_s": max(flow.start_s, start_s),
            "goodput_bps": None,
            "cpu_user_s": part.cpu_user_s,
            "cpu_system_s": part.cpu_system_s,
            "cpu_wait_s": part.cpu_wait_s,
            "tcp": flow.tcp.model_copy(update=tcp),
        }
    )


def _thread(thread: ThreadUse) -> ThreadUse:
    part = thread.measured
    return thread if part is None else thread.model_copy(update=dict(part))
