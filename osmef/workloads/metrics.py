"""Metrics of concurrent bulk transfers, and of requests and responses."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from osmef.analysis.bulk_transfer import (
    jain_fairness,
    measured_intervals,
    rfc6349_metrics,
    without_warmup,
)
from osmef.analysis.throughput import TEN_TICKS_S
from osmef.errors import AgentError
from osmef.results.measure import Measure
from osmef.results.observations import EndpointUse, Exchange, Histogram, RoundTrips
from osmef.results.trial import FlowEnd, Interval, ThreadUse, Transfer, TransferEnd

CPU = (
    Measure(
        name="cpu_sender_percent", unit="%", better="neither", label="CPU sender",
        head="CPU\nsend\n%", digits=".0f", over_pairs="sum",
        help="CPU time, user and system, of the threads that moved the data, divided by the time of"
        " the transfer, in percent of one CPU; more than 100 is possible with several connections",
        source="CPU load as in Venzano and Michiardi",
    ),
    Measure(
        name="cpu_receiver_percent", unit="%", better="neither", label="CPU receiver",
        head="CPU\nrecv\n%", digits=".0f", over_pairs="sum",
        help="as `cpu_sender_percent`, at the receiver",
        source="CPU load as in Venzano and Michiardi",
    ),
    Measure(
        name="endpoint_cpu_sender_percent", unit="%", better="neither",
        label="endpoint CPU sender", over_pairs="pooled",
        help="everything that was not idle on the CPUs of the endpoint, with interrupts, soft"
        " interrupts and steal, divided by the time of the transfer, in percent of one CPU",
        source="proc(5), `/proc/stat`",
    ),
    Measure(
        name="endpoint_cpu_receiver_percent", unit="%", better="neither",
        label="endpoint CPU receiver", over_pairs="pooled",
        help="as `endpoint_cpu_sender_percent`, at the receiver", source="proc(5), `/proc/stat`",
    ),
)  # fmt: skip
"""The CPU load of both ends, of the program's part and of all."""

WAIT = (
    Measure(
        name="cpu_wait_sender_percent", unit="%", better="neither", label="CPU wait sender",
        head="wait\nsend\n%", digits=".0f", over_pairs="sum", spare=True,
        help="time in which these threads were ready and waited for a CPU, divided by the time of"
        " the transfer, in percent of one CPU; `null` where the kernel does not count it",
        source="sched-stats, `/proc/PID/schedstat`",
    ),
    Measure(
        name="cpu_wait_receiver_percent", unit="%", better="neither", label="CPU wait receiver",
        head="wait\nrecv\n%", digits=".0f", over_pairs="sum", spare=True,
        help="as `cpu_wait_sender_percent`, at the receiver",
        source="sched-stats, `/proc/PID/schedstat`",
    ),
)  # fmt: skip
"""What the program's part of both ends could have used, and did not get."""

JAIN = Measure(
    name="jain_fairness", unit="1", better="higher", label="Jain fairness", head="J", digits=".3f",
    over_pairs="pooled", spare=True,
    help="J = (sum x)² / (n · sum x²) over the rates x of all connections; 1/n to 1, and 1 for one",
    source="Jain, Chiu, Hawe, *A Quantitative Measure of Fairness and Discrimination*, DEC-TR-301,"
    " 1984",
)  # fmt: skip
RETRANSMITS = Measure(
    name="retransmits", unit="1", better="lower", head="retr.", digits=".0f", over_pairs="sum",
    least=1,
    help="segments that the sender retransmitted, all connections together; `null` where the kernel"
    " does not report",
    source="tcp(7), `TCP_INFO`",
)  # fmt: skip
RATES = (
    Measure(
        name="aggregate_btc_bps", unit="bit/s", better="higher", label="aggregate BTC",
        head="aggregate\nBTC", over_pairs="sum", leading=True, component="network_mb_per_s",
        help="payload bits that the receiver got on all connections in the common interval, divided"
        " by its length",
        source="RFC 3148 for one connection; the sum over connections as in Venzano and Michiardi",
    ),
    Measure(
        name="connection_btc_bps", unit="bit/s", better="higher", label="connection BTC",
        head="BTC per\nconnection", over_pairs="pooled", spare=True,
        help="mean over the connections of what the receiver got on each in that time, divided by"
        " its length",
        source="RFC 3148",
    ),
)  # fmt: skip
RTT_MEAN = Measure(
    name="rtt_mean_us", unit="us", better="lower", label="RTT mean", head="RTT\nµs",
    digits=".0f", over_pairs="pooled",
    help="mean of the sender's smoothed round-trip time at the end of each interval of each"
    " connection",
    source="RFC 6298; `TCP_INFO`",
)  # fmt: skip
MEASURES = (
    *RATES,
    JAIN,
    Measure(
        name="jain_fairness_senders", unit="1", better="higher", label="Jain fairness senders",
        over_pairs="pooled",
        help="as `jain_fairness`, over the senders: x is the sum of a sender's connections; 1 for"
        " one sender",
        source="as for `jain_fairness`",
    ),
    Measure(
        name="overlap_percent", unit="%", better="neither", label="overlap", over_pairs="pooled",
        help="of the time in which any pair was measured, how much all pairs were; 100 for one",
        source="OSMeF",
    ),
    *CPU[:2],
    *WAIT,
    *CPU[2:],
    Measure(
        name="cpu_sender_us_per_kb", unit="us/kB", better="lower", label="CPU time sender",
        over_pairs="pooled",
        help="CPU time of the threads that moved the data, divided by the payload of that end, in"
        " 1000 bytes",
        source="OSMeF",
    ),
    Measure(
        name="cpu_receiver_us_per_kb", unit="us/kB", better="lower", label="CPU time receiver",
        over_pairs="pooled", help="as `cpu_sender_us_per_kb`, at the receiver", source="OSMeF",
    ),
    RETRANSMITS,
    RTT_MEAN,
    Measure(
        name="rtt_min_us", unit="us", better="lower", label="RTT min", over_pairs="pooled",
        help="the smallest round-trip time that any of the sender's connections saw",
        source="`TCP_INFO`",
    ),
    Measure(
        name="transfer_time_ratio", unit="1", better="lower", over_pairs="mean",
        help="the time of the transfer, divided by what it would have taken at the rate of its best"
        " interval; 1 is ideal. Mean over the pairs",
        source="RFC 6349, section 4.1, where the ideal is that of the path's bottleneck, measured"
        " before",
    ),
    Measure(
        name="tcp_efficiency_percent", unit="%", better="higher", label="TCP efficiency",
        over_pairs="pooled",
        help="of payload and what was sent again of it, the payload; `null` before Linux 4.19",
        source="RFC 6349, section 4.2",
    ),
    Measure(
        name="buffer_delay_percent", unit="%", better="lower", label="buffer delay",
        over_pairs="mean",
        help="by how much the mean round-trip time is above the smallest. Mean over the pairs",
        source="RFC 6349, section 4.3",
    ),
)  # fmt: skip
"""Of transfers in one direction, in the order of ``transfer_metrics``."""


def transfer_metrics(
    transfers: Sequence[Transfer], intervals: Sequence[Interval]
) -> dict[str, float | None]:
    """Return the metrics of concurrent transfers, one for each pair of endpoints.

    BTC is the receiver's goodput over the common interval, in which all connections ran (RFC 3148;
    domain: unique payload bits received / elapsed time). Each pair has a common interval of its
    own, and the aggregate is the sum of the pairs' BTC; ``overlap_percent`` is how far these
    intervals coincide. ``jain_fairness`` is over all connections of all pairs,
    ``jain_fairness_senders`` over the sums of each sender.

    CPU percentages are of one CPU: the process's are the CPU time of the threads that move the
    data, and the time that they waited for a CPU, summed over the connections of all pairs; the
    endpoint's are all that is not idle in /proc/stat, soft interrupts included, summed over the
    endpoints, each counted once however many agents ran there. ``rtt_mean_us`` is the mean of the
    senders' smoothed RTT at the end of each interval of each connection. A warm-up counts in none
    of them, except that ``rtt_min_us``, which the kernel keeps, is of the whole connection. Raises
    AgentError when a receiver had no common interval.
    """
    transfers, intervals = list(map(_measured, transfers)), measured_intervals(intervals)
    rates = [flow_rates(transfer) for transfer in transfers]
    flows = [rate for pair in rates for rate in pair]
    by_sender: dict[str, float] = defaultdict(float)
    for transfer, pair in zip(transfers, rates, strict=True):
        by_sender[transfer.sender.endpoint] += sum(pair)
    senders = [transfer.sender for transfer in transfers]
    receivers = [transfer.receiver for transfer in transfers]
    tcps = [flow.tcp for end in senders for flow in end.flows]
    rtts = [i.rtt_us for i in intervals if i.role == "sender" and i.rtt_us is not None]
    lowest = [tcp.rtt_min_us for tcp in tcps if tcp.rtt_min_us]
    return {
        "aggregate_btc_bps": sum(flows),
        "connection_btc_bps": sum(flows) / len(flows),
        "jain_fairness": jain_fairness(flows),
        "jain_fairness_senders": jain_fairness(list(by_sender.values())),
        "overlap_percent": overlap_percent(transfers),
        "cpu_sender_percent": _process_cpu(senders),
        "cpu_receiver_percent": _process_cpu(receivers),
        "cpu_wait_sender_percent": _wait(senders),
        "cpu_wait_receiver_percent": _wait(receivers),
        "endpoint_cpu_sender_percent": endpoint_cpu_percent(
            (end.endpoint, end.host) for end in senders
        ),
        "endpoint_cpu_receiver_percent": endpoint_cpu_percent(
            (end.endpoint, end.host) for end in receivers
        ),
        "cpu_sender_us_per_kb": _cpu_us_per_kb(senders),
        "cpu_receiver_us_per_kb": _cpu_us_per_kb(receivers),
        "retransmits": _sum([tcp.retransmits for tcp in tcps]),
        "rtt_mean_us": sum(rtts) / len(rtts) if rtts else None,
        "rtt_min_us": min(lowest) if lowest else None,
        **rfc6349_metrics(transfers, intervals),
    }


def _measured(transfer: Transfer) -> Transfer:
    ends = {"sender": transfer.sender, "receiver": transfer.receiver}
    return transfer.model_copy(update={name: without_warmup(end) for name, end in ends.items()})


def flow_rates(transfer: Transfer) -> list[float]:
    """Return the goodput of each connection over the common interval, in bits per second.

    Raises AgentError when the receiver had no common interval, or got nothing in it.
    """
    length = transfer.receiver.common_length_s
    shares = [flow.common_bytes for flow in transfer.receiver.flows]
    if not length or None in shares or not any(shares):
        reason, cure = _no_overlap(transfer.receiver)
        raise AgentError(f"no-overlap: {reason}", where=transfer.receiver.endpoint, cure=cure)
    return [8 * share / length for share in shares if share is not None]


def _no_overlap(receiver: TransferEnd) -> tuple[str, str]:
    """Return the error of an empty common interval, with its cure."""
    if any(flow.measured is not None and not flow.measured.bytes for flow in receiver.flows):
        return "a connection ended in the warm-up", "send more bytes, or shorten warmup"
    cure = "make the transfer longer, or use fewer connections"
    if receiver.common_length_s and all(f.common_bytes == 0 for f in receiver.flows):
        return "nothing came while all connections ran", cure
    return "the connections did not all run at one time", cure


def overlap_percent(transfers: Sequence[Transfer]) -> float | None:
    """Return the intersection of the pairs' measured times, in percent of their union.

    100 * (earliest end - latest start) / (latest end - earliest start) of the pairs' common
    intervals, in percent; 0 where there is no such time. Each interval counts from its own
    pair's start, which is known within the trial's ``start_uncertainty_s`` and the way from sender
    to receiver. None where a pair has no common interval.
    """
    spans = [
        (one.start_s + end.common_start_s, one.start_s + end.common_start_s + end.common_length_s)
        for one in transfers
        for end in [one.receiver]
        if end.common_start_s is not None and end.common_length_s
    ]
    if len(spans) < len(transfers):
        return None
    shared = min(end for _, end in spans) - max(start for start, _ in spans)
    whole = max(end for _, end in spans) - min(start for start, _ in spans)
    return 100 * max(0.0, shared) / whole


def _sum(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _threads(end: TransferEnd) -> Sequence[FlowEnd | ThreadUse]:
    """Return the usage of the threads that moved an end's data."""
    return end.threads if end.threads is not None else end.flows


def _cpu_s(end: TransferEnd) -> float:
    return sum((one.cpu_user_s or 0) + (one.cpu_system_s or 0) for one in _threads(end))


def _process_cpu(ends: Sequence[TransferEnd]) -> float | None:
    if any(end.elapsed_s <= 0 for end in ends):
        return None
    return sum(100 * _cpu_s(end) / end.elapsed_s for end in ends)


def _wait(ends: Sequence[TransferEnd]) -> float | None:
    waits = [(_threads(end), end.elapsed_s) for end in ends]
    if any(length <= 0 or one.cpu_wait_s is None for each, length in waits for one in each):
        return None
    return sum(100 * (one.cpu_wait_s or 0) / length for each, length in waits for one in each)


def endpoint_cpu_percent(uses: Iterable[tuple[str, EndpointUse]]) -> float | None:
    """Sum the non-idle time over endpoints by name, in percent of one CPU.

    Each counts once, as the agent saw it that watched it longest. None where that was not for ten
    ticks at least: /proc/stat counts by them, so that one more or less is a tenth of a CPU then.
    """
    seen: dict[str, EndpointUse] = {}
    for name, use in uses:
        before = seen.setdefault(name, use)
        if use.elapsed_s > before.elapsed_s:
            seen[name] = use
    if any(use.elapsed_s < TEN_TICKS_S for use in seen.values()):
        return None
    return sum(100 * _busy_s(use) / use.elapsed_s for use in seen.values())


def _busy_s(use: EndpointUse) -> float:
    # /proc/stat counts guest time within user time already (proc(5)).
    return use.user_s + use.nice_s + use.system_s + use.irq_s + use.softirq_s + (use.steal_s or 0)


def _cpu_us_per_kb(ends: Sequence[TransferEnd]) -> float | None:
    kilobytes = sum(flow.bytes for end in ends for flow in end.flows) / 1000
    return 1e6 * sum(map(_cpu_s, ends)) / kilobytes if kilobytes else None


def round_trips(
    histogram: Histogram, low_us: float | None, mean_us: float | None, high_us: float | None
) -> RoundTrips:
    """Return the distribution of round-trip times: quantiles within the observed range."""
    p50, p90, p99, p999 = (_within(quantile_us(histogram, q), low_us, high_us) for q in _QUANTILES)
    return RoundTrips(
        min_us=low_us,
        mean_us=mean_us,
        p50_us=p50,
        p90_us=p90,
        p99_us=p99,
        p999_us=p999,
        max_us=high_us,
        histogram=histogram,
    )


_QUANTILES = (0.5, 0.9, 0.99, 0.999)


def quantile_us(histogram: Histogram, q: float) -> float | None:
    """Return the q-quantile in microseconds: the middle of its bucket.

    It is the smallest value that at least a share q of all do not exceed (the inverse of the
    empirical distribution function; Hyndman and Fan, "Sample Quantiles in Statistical Packages",
    The American Statistician 50, 1996, definition 1), right within the histogram's error. None
    without any value.
    """
    rank = max(1, math.ceil(q * sum(histogram.count)))
    seen = 0
    for lower, upper, count in zip(
        histogram.lower_ns, histogram.upper_ns, histogram.count, strict=True
    ):
        seen += count
        if seen >= rank:
            return (lower + upper) / 2 / 1000
    return None


def _within(value: float | None, low: float | None, high: float | None) -> float | None:
    if value is None or low is None or high is None:
        return value
    return min(max(value, low), high)


def exchange_metrics(exchanges: Sequence[Exchange]) -> dict[str, float | None]:
    """Return the metrics of concurrent exchanges, one for each pair of endpoints.

    Times are of all pairs together: quantiles of the sum of their histograms, which have the same
    buckets. ``exchanges_per_s`` is the sum over the pairs of count over time.
    """
    found = _together([one.rtt for one in exchanges], [one.count for one in exchanges])
    rate = sum(one.count / one.elapsed_s for one in exchanges if one.elapsed_s > 0)
    return {**{f"rtt_{name}": value for name, value in found.items()}, "exchanges_per_s": rate}


def response_metrics(exchanges: Sequence[Exchange]) -> dict[str, float | None]:
    """Return the response times of exchanges, from when each request was due.

    They are None unless all agents reported them.
    """
    reported = [one.response for one in exchanges if one.response is not None]
    if len(reported) < len(exchanges):
        reported = []
    found = _together(reported, [one.count for one in exchanges][: len(reported)])
    return {f"response_{name}": found[name] for name in ("mean_us", "p50_us", "p99_us", "max_us")}


def _together(each: Sequence[RoundTrips], counts: Sequence[int]) -> dict[str, float | None]:
    total = sum(counts)
    means = zip((one.mean_us for one in each), counts, strict=True)
    weighted = [mean * count for mean, count in means if mean is not None]
    times = round_trips(
        merged([one.histogram for one in each]),
        min((one.min_us for one in each if one.min_us is not None), default=None),
        sum(weighted) / total if total else None,
        max((one.max_us for one in each if one.max_us is not None), default=None),
    )
    return times.model_dump(exclude={"histogram"})


def late_percent(exchanges: Sequence[Exchange]) -> float | None:
    """Return the share of due requests that were sent late or never.

    In percent, over all pairs; None where none was due, or an agent did not report it.
    """
    reported = [(one.count, one.late, one.unsent) for one in exchanges]
    due = sum(count + (unsent or 0) for count, _, unsent in reported)
    if not due or any(late is None or unsent is None for _, late, unsent in reported):
        return None
    return 100 * sum((late or 0) + (unsent or 0) for _, late, unsent in reported) / due


def lost_percent(exchanges: Sequence[Exchange]) -> float | None:
    """Return the share of requests without a response in time.

    In percent, over all pairs; None where none was sent, or they could not get lost.
    """
    reported = [(one.count, one.lost) for one in exchanges]
    lost = [lost for _, lost in reported if lost is not None]
    sent = sum(count for count, _ in reported) + sum(lost)
    return 100 * sum(lost) / sent if sent and len(lost) == len(reported) else None


def merged(histograms: Sequence[Histogram]) -> Histogram:
    """Return the sum of histograms with equal buckets."""
    buckets: Counter[tuple[int, int]] = Counter()
    for one in histograms:
        for lower, upper, count in zip(one.lower_ns, one.upper_ns, one.count, strict=True):
            buckets[lower, upper] += count
    ordered = sorted(buckets)
    return Histogram(
        error_percent=max((one.error_percent for one in histograms), default=0.0),
        lower_ns=[lower for lower, _ in ordered],
        upper_ns=[upper for _, upper in ordered],
        count=[buckets[bucket] for bucket in ordered],
    )


def us(ns: float | None) -> float | None:
    """Convert nanoseconds to microseconds."""
    return None if ns is None else ns / 1000
