"""Bulk transfers: warm-up, Jain's fairness index, metrics of RFC 6349, and each flow's bottleneck.

The order of the bottleneck's tests and the thresholds: docs/decisions/limited-by.md.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from osmef.analysis.token_bucket import Knee, find_knee
from osmef.results.observations import Purpose
from osmef.results.trial import (
    Bottleneck,
    FlowEnd,
    FlowLimit,
    Interval,
    ThreadUse,
    Transfer,
    TransferEnd,
)


def without_warmup(end: TransferEnd) -> TransferEnd:
    """Return an end as if the transfer had begun at the end of the warm-up.

    Counters are differences, or None where there is none; values that the kernel reports as a
    state, such as the smallest round-trip time, are those of the whole connection. ``bytes`` of a
    sender is what the program wrote to the socket, which differs from the sent bytes by the content
    of the send buffer at the warm-up's end.

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


def jain_fairness(xs: Sequence[float]) -> float | None:
    """Return Jain's fairness index J = (sum x)^2 / (n * sum x^2), with 1/n <= J <= 1.

    ``xs`` holds one rate a connection, all in one unit; J has none and does not change with the
    unit. J = 1 for equal shares and for n = 1, J = k/n when k of n share evenly and the others get
    nothing. None where it is not defined: without connections, or when all of them got nothing.
    Raises ValueError for a rate that is negative, infinite or not a number.

    Nothing is assumed: it describes what was measured.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource
    Allocation in Shared Computer Systems", DEC-TR-301, 1984.
    """
    for x in xs:
        if not (math.isfinite(x) and x >= 0):
            raise ValueError(f"a rate must be finite and not negative, and {x!r} is not")
    largest = max(xs, default=0.0)
    if largest == 0:
        return None
    # Relative to the largest, squares can neither overflow nor all vanish.
    shares = [x / largest for x in xs]
    j = math.fsum(shares) ** 2 / (len(shares) * math.fsum(share**2 for share in shares))
    return min(j, 1.0)


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


_INTERRUPT_BOUND = 0.9
_ALWAYS = 0.8
_NEVER_BLOCKED = 0.98
_MAJORITY = 0.5
_NOTICEABLE = 0.1
# A pacing sender spreads a window over the round trip, and so is held up for part of it only.
_PACED_WINDOW = 0.2
_FULL = 0.75
_AT_PACING_RATE = 0.85
_CPU_NEARLY_FULL_IDLE = 0.25
_CPU_AT_WORK = 0.25


@dataclass(frozen=True)
class _End:
    """Counters of one end of a flow, as shares of its time (1 is all of it); None: unknown.

    ``demand`` is the time in which the thread ran or waited for a CPU; ``idle`` is that of the CPU
    on which it ended; ``interrupts`` that of the endpoint's CPU that had most of them, with steal.
    ``throttled`` is the share of the periods in which its CPU quota was used up, and ``of_quota``
    what the agent used of that quota, as a share of it.
    """

    cpu: float
    wait: float | None
    idle: float | None
    interrupts: float | None
    throttled: float | None
    of_quota: float | None

    @property
    def demand(self) -> float:
        return self.cpu + (self.wait or 0)

    @property
    def is_short(self) -> bool:
        is_saturated = self.idle is not None and self.idle <= _CPU_NEARLY_FULL_IDLE
        return is_saturated and self.demand >= _MAJORITY

    @property
    def used_up(self) -> float:
        """How often the flow's own processes exhausted the CPU quota; 0 for other processes."""
        own = self.of_quota is not None and self.of_quota >= _MAJORITY
        often = self.throttled is not None and self.throttled >= _MAJORITY
        return self.throttled or 0.0 if own and often else 0.0

    @property
    def is_interrupt_bound(self) -> bool:
        return self.interrupts is not None and self.interrupts >= _INTERRUPT_BOUND


@dataclass(frozen=True)
class _Time:
    """Sender states by the kernel, as shares of the flow's time that add up to 1."""

    nothing_to_send: float
    receive_window: float
    send_buffer: float
    rest: float


@dataclass(frozen=True)
class _Case:
    """The evidence for a verdict."""

    sender: _End
    receiver: _End
    time: _Time | None
    window_fill: float | None
    buffer_fill: float | None
    pacing: float | None
    knee: Knee | None


def transfer_limits(
    sender: TransferEnd, receiver: TransferEnd, intervals: Sequence[Interval]
) -> list[FlowLimit]:
    """Return the bottleneck of each flow; ``intervals`` are those of both ends.

    A warm-up counts for the knee only: a token bucket that it has emptied shapes what follows.

    Assumed is that one cause had the say for most of the time, and that intervals are short against
    a token bucket.

    Source: OSMeF (docs/decisions/limited-by.md), after T-RAT (Zhang, Breslau, Paxson and Shenker,
    "On the Characteristics and Origins of Internet Flow Rates", SIGCOMM 2002), and the kernel's own
    account of what a sender waited for (tcp_info of Linux).
    """
    knee = _shared_knee([interval for interval in intervals if interval.role == "receiver"])
    sender, receiver = without_warmup(sender), without_warmup(receiver)
    intervals = measured_intervals(intervals)
    received = [interval for interval in intervals if interval.role == "receiver"]
    limits = []
    for sent, got in zip(sender.flows, receiver.flows, strict=True):
        rates = [8 * i.bytes / i.length_s for i in received if i.flow == got.flow and i.length_s]
        rtts = [
            i.rtt_us for i in intervals if i.role == "sender" and i.flow == sent.flow and i.rtt_us
        ]
        rtt_us = statistics.fmean(rtts) if rtts else sent.tcp.rtt_us
        case = _Case(
            sender=_end(sent, sender),
            receiver=_end(got, receiver),
            time=_time(sent),
            window_fill=_fill(sent, got, rtt_us, sent.tcp.send_window),
            buffer_fill=_fill(sent, got, rtt_us, sent.tcp.send_buffer),
            pacing=_pacing(sent, got, rates),
            knee=knee,
        )
        limits.append(
            FlowLimit(
                flow=sent.flow, limited_by=_verdict(case), evidence=_evidence(case, sent, rtt_us)
            )
        )
    return limits


def trial_limit(transfers: Sequence[Transfer]) -> Bottleneck | None:
    """Return the bottleneck of a trial's measured transfers; None without any verdict.

    Assumed is what ``transfer_limits`` assumes, of flows that ran together.

    Source: that of ``prevailing``.
    """
    measured = [one for one in transfers if one.purpose is Purpose.MEASURED and one.limits]
    if not measured:
        return None
    limits = [limit for transfer in measured for limit in transfer.limits]
    return prevailing(limits, [f.bytes for transfer in measured for f in transfer.receiver.flows])


def prevailing(limits: Sequence[FlowLimit], weights: Sequence[int]) -> Bottleneck:
    """Return the verdict that has more than half of the weight, else ``inconclusive``.

    ``weights`` holds one number a flow: the bytes that its receiver got.

    Assumed is that a flow matters by what it moved.

    Source: OSMeF (docs/decisions/limited-by.md).
    """
    total = Counter[Bottleneck]()
    for limit, weight in zip(limits, weights, strict=True):
        total[limit.limited_by] += weight
    for verdict, weight in total.most_common(1):
        if 2 * weight > total.total():
            return verdict
    return Bottleneck.INCONCLUSIVE


def _verdict(case: _Case) -> Bottleneck:
    return _by_cpu(case) or _by_pacing(case) or _by_time(case) or Bottleneck.INCONCLUSIVE


def _by_cpu(case: _Case) -> Bottleneck | None:
    held_up = case.time is not None and case.time.receive_window >= _NOTICEABLE
    if case.receiver.is_interrupt_bound:
        return Bottleneck.RECEIVER_CPU
    if case.sender.is_interrupt_bound:
        return Bottleneck.SENDER_CPU
    quota = max(case.receiver.used_up, case.sender.used_up)
    if quota > 0:
        return Bottleneck.RECEIVER_CPU if case.receiver.used_up == quota else Bottleneck.SENDER_CPU
    # Packets wait for a receiver that lost its CPU while it held the socket: no window closes.
    if case.receiver.demand >= (_ALWAYS if held_up else _NEVER_BLOCKED):
        return Bottleneck.RECEIVER_CPU
    return Bottleneck.SENDER_CPU if case.sender.demand >= _ALWAYS else None


def _by_pacing(case: _Case) -> Bottleneck | None:
    return Bottleneck.SHAPER if case.pacing is not None and case.pacing >= _AT_PACING_RATE else None


def _by_time(case: _Case) -> Bottleneck | None:
    """Return the bottleneck for most of the connections' time, or None."""
    time = case.time
    if time is None:
        return Bottleneck.SHAPER if case.knee else None
    if time.nothing_to_send >= _MAJORITY:
        return Bottleneck.SENDER_CPU if case.sender.demand >= _MAJORITY else Bottleneck.SENDER_IDLE
    if _held_by_window(time, case.window_fill):
        return (
            Bottleneck.RECEIVER_CPU
            if case.receiver.demand >= _MAJORITY
            else Bottleneck.RECEIVE_WINDOW
        )
    if time.send_buffer >= _MAJORITY or _is_full(case.buffer_fill):
        return Bottleneck.SEND_BUFFER
    return _by_network(case, time)


def _held_by_window(time: _Time, fill: float | None) -> bool:
    full = _is_full(fill) and time.receive_window >= _PACED_WINDOW
    return full or time.receive_window >= _MAJORITY


def _is_full(fill: float | None) -> bool:
    return fill is not None and fill >= _FULL


def _by_network(case: _Case, time: _Time) -> Bottleneck | None:
    if time.rest < _MAJORITY:
        return None
    if case.knee:
        return Bottleneck.SHAPER
    # A delayed receiver with little work is no bottleneck.
    works = case.receiver.cpu >= _CPU_AT_WORK
    return (
        None if case.sender.is_short or (works and case.receiver.is_short) else Bottleneck.NETWORK
    )


def _end(flow: FlowEnd, end: TransferEnd) -> _End:
    # Of n shared threads, each serves every n-th connection.
    thread = end.threads[flow.flow % len(end.threads)] if end.threads else flow
    host = end.host
    length = max(flow.end_s - flow.start_s, 1e-9)
    wait = None if thread.cpu_wait_s is None else min(thread.cpu_wait_s / length, 1.0)
    idle = interrupts = None
    each = host.each
    if each and each.cpu and host.elapsed_s > 0:
        busiest = max(a + b for a, b in zip(each.interrupts_s, each.steal_s, strict=True))
        interrupts = busiest / host.elapsed_s
        if thread.last_cpu in each.cpu:
            idle = each.idle_s[each.cpu.index(thread.last_cpu)] / host.elapsed_s
    used = (thread.cpu_user_s or 0) + (thread.cpu_system_s or 0)
    return _End(used / length, wait, idle, interrupts, *_quota(end))


def _quota(end: TransferEnd) -> tuple[float, float] | tuple[None, None]:
    quota, elapsed_s = end.host.quota, end.host.elapsed_s
    if quota is None or not quota.periods or elapsed_s <= 0:
        return None, None
    used = end.process.cpu_user_s + end.process.cpu_system_s
    return quota.throttled / quota.periods, used / (quota.cpus * elapsed_s)


def _time(sent: FlowEnd) -> _Time | None:
    tcp, length_us = sent.tcp, 1e6 * (sent.end_s - sent.start_s)
    window_us, buffer_us = tcp.receive_window_limited_us, tcp.send_buffer_limited_us
    if tcp.busy_us is None or window_us is None or buffer_us is None or length_us <= 0:
        return None
    # The kernel's clock has the resolution of ticks, and starts at the handshake.
    busy = min(tcp.busy_us / length_us, 1.0)
    window = min(window_us / length_us, busy)
    buffer = min(buffer_us / length_us, busy - window)
    return _Time(1 - busy, window, buffer, busy - window - buffer)


def _fill(
    sent: FlowEnd, got: FlowEnd, rtt_us: float | None, room_bytes: int | None
) -> float | None:
    """Return the bytes in flight over the window that allows them.

    In flight is the rate times the round-trip time (Little's law), as in T-RAT and InTraBase.
    """
    length = sent.end_s - sent.start_s
    if not room_bytes or rtt_us is None or length <= 0:
        return None
    return got.bytes / length * rtt_us / 1e6 / room_bytes


def _pacing(sent: FlowEnd, got: FlowEnd, rates: Sequence[float]) -> float | None:
    """Return the median interval's rate over the pacing rate."""
    limit_bps = sent.tcp.max_pacing_rate_bps
    rate = statistics.median(rates) if rates else got.goodput_bps
    return rate / limit_bps if limit_bps and rate is not None else None


def _shared_knee(received: Sequence[Interval]) -> Knee | None:
    """Return the knee in the sum of all flows: a shaper of an endpoint acts on the sum."""
    lengths: dict[float, float] = {}
    sizes: Counter[float] = Counter()
    for interval in received:
        lengths[interval.start_s] = interval.length_s
        sizes[interval.start_s] += interval.bytes
    order = sorted(lengths)
    return find_knee([lengths[start] for start in order], [sizes[start] for start in order])


def _evidence(case: _Case, sent: FlowEnd, rtt_us: float | None) -> dict[str, float | None]:
    tcp, time, knee = sent.tcp, case.time, case.knee
    evidence: dict[str, float | None] = {}
    for name, end in (("sender", case.sender), ("receiver", case.receiver)):
        evidence |= {
            f"{name}_cpu_percent": _percent(end.cpu),
            f"{name}_cpu_wait_percent": _percent(end.wait),
            f"{name}_cpu_idle_percent": _percent(end.idle),
            f"{name}_interrupts_percent": _percent(end.interrupts),
            f"{name}_throttled_percent": _percent(end.throttled),
        }
    return evidence | {
        "nothing_to_send_percent": _percent(time.nothing_to_send if time else None),
        "receive_window_percent": _percent(time.receive_window if time else None),
        "send_buffer_percent": _percent(time.send_buffer if time else None),
        "network_percent": _percent(time.rest if time else None),
        "window_fill_percent": _percent(case.window_fill),
        "buffer_fill_percent": _percent(case.buffer_fill),
        "send_window_bytes": tcp.send_window,
        "send_buffer_bytes": tcp.send_buffer,
        "pacing_percent": _percent(case.pacing),
        "max_pacing_rate_bps": tcp.max_pacing_rate_bps,
        "retransmits": tcp.retransmits,
        "rtt_mean_us": rtt_us,
        "rtt_min_us": tcp.rtt_min_us,
        "knee_s": knee.at_s if knee else None,
        "burst_bytes": knee.burst_bytes if knee else None,
        "burst_bps": knee.burst_bps if knee else None,
        "plateau_bps": knee.plateau_bps if knee else None,
    }


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)
