"""Observations of a trial: requests, datagrams, token buckets, and usage of endpoints."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from osmef.scenario.base import Model


class ProcessUse(Model):
    """Resource usage of the agent's process during the transfer."""

    cpu_user_s: float = Field(description="CPU time in user mode, seconds")
    cpu_system_s: float = Field(description="CPU time in the kernel, seconds")
    max_rss_kb: int | None = Field(default=None, description="largest resident memory, KiB")


class InterfaceUse(Model):
    """Traffic of a network interface during a trial."""

    endpoint: str = Field(description="name of the endpoint")
    name: str = Field(description="name of the interface, `lo` among them")
    measured: bool | None = Field(
        description="whether it has the address that was measured; null where it was not looked up"
    )
    rx_bytes: int | None = Field(
        description="bytes that came, with all headers but those that the network card removes;"
        " null if the counter was reset"
    )
    rx_packets: int | None = Field(description="packets that came")
    tx_bytes: int | None = Field(description="bytes that went")
    tx_packets: int | None = Field(description="packets that went")


class Carried(Model):
    """Traffic of an endpoint before a trial, since its interfaces exist.

    That is since it was made or booted: of all interfaces but the loopback, as far as their
    counters go.
    """

    endpoint: str = Field(description="name of the endpoint")
    received_bytes: int = Field(description="bytes that came, with headers")
    sent_bytes: int = Field(description="bytes that went, with headers")


class EachCpu(Model):
    """Difference of /proc/stat over the transfer for each CPU; lists hold one value a CPU."""

    cpu: list[int] = Field(description="number of the CPU; at most 512 of them are listed")
    idle_s: list[float] = Field(description="idle, also while waiting for a disk")
    interrupts_s: list[float] = Field(description="interrupts and soft interrupts")
    steal_s: list[float] = Field(description="taken by the hypervisor for others")


class QuotaUse(Model):
    """CPU quota of the agent's control group, or of an ancestor: the most exhausted one."""

    cpus: float = Field(description="CPU time that it allows, seconds per second")
    periods: int = Field(description="periods in which the group had something to run")
    throttled: int = Field(description="those of them in which the quota was used up")
    throttled_s: float = Field(
        description="time in which the group could have run and was not let, summed over CPUs"
    )


class EndpointUse(Model):
    """Difference of /proc/stat over the transfer, summed over the CPUs the agent may run on."""

    cpus: int = Field(description="CPUs that the agent may run on; the rest is summed over them")
    elapsed_s: float = Field(description="seconds between both readings of /proc/stat")
    user_s: float = Field(description="user mode, guests included")
    nice_s: float = Field(description="user mode at low priority")
    system_s: float = Field(description="kernel")
    idle_s: float = Field(description="idle")
    iowait_s: float = Field(description="idle while waiting for a disk")
    irq_s: float = Field(description="interrupts")
    softirq_s: float = Field(
        description="soft interrupts, where the kernel does most of its network work"
    )
    steal_s: float | None = Field(description="taken by the hypervisor for others")
    guest_s: float | None = Field(description="running guests; within `user_s` already")
    each: EachCpu | None = Field(default=None, description="the same for each CPU")
    quota: QuotaUse | None = Field(
        default=None, description="the CPU quota of control groups; null: none was found"
    )


class Purpose(StrEnum):
    """Purpose of traffic: measured, or background."""

    MEASURED = "measured"
    BACKGROUND = "background"


class Direction(StrEnum):
    """Direction of a transfer's data."""

    FORWARD = "forward"
    REVERSE = "reverse"


class SweepMode(StrEnum):
    """Direction of the messages of a size sweep."""

    PINGPONG = "pingpong"
    STREAM = "stream"
    BOTH = "both"


class LoadPhase(StrEnum):
    """Load of the path by other traffic of the trial."""

    IDLE = "idle"
    LOADED = "loaded"


class Protocol(StrEnum):
    """Protocol of requests and their responses."""

    TCP = "tcp"
    TCP_CONNECT = "tcp-connect"
    UDP = "udp"
    ICMP = "icmp"

    @property
    def loses(self) -> bool:
        """Whether requests or responses may be lost: TCP retransmits them."""
        return self in {Protocol.UDP, Protocol.ICMP}


class Histogram(Model):
    """Round-trip times in non-empty buckets of logarithmic width."""

    error_percent: float = Field(
        description="largest relative error of a time read back from a bucket's middle, percent"
    )
    lower_ns: list[int] = Field(description="lower end of each bucket, nanoseconds, within it")
    upper_ns: list[int] = Field(description="upper end of each bucket, nanoseconds, not within it")
    count: list[int] = Field(description="exchanges in each bucket")

    @model_validator(mode="after")
    def _is_whole(self) -> Histogram:
        if len({len(self.lower_ns), len(self.upper_ns), len(self.count)}) > 1:
            raise ValueError("the buckets differ in number")
        return self


class RoundTrips(Model):
    """The distribution of round-trip times; null without an exchange.

    Quantiles are read from the histogram, and so are right within its ``error_percent``; minimum,
    maximum and mean are exact.
    """

    min_us: float | None = Field(description="shortest, microseconds")
    mean_us: float | None = Field(description="arithmetic mean, microseconds")
    p50_us: float | None = Field(description="median, microseconds")
    p90_us: float | None = Field(description="90 % took no longer, microseconds")
    p99_us: float | None = Field(description="99 % took no longer, microseconds")
    p999_us: float | None = Field(description="99.9 % took no longer, microseconds")
    max_us: float | None = Field(description="longest, microseconds")
    histogram: Histogram = Field(description="all of them")


class Exchange(Model):
    """Requests and responses between one pair by one protocol, for one phase."""

    purpose: Purpose = Field(description="`measured`, or `background` beside what was measured")
    phase: LoadPhase = Field(
        description="`loaded` while other traffic of the trial ran, else `idle`"
    )
    sender: str = Field(description="endpoint that sent the requests and measured")
    receiver: str = Field(description="endpoint that answered")
    protocol: Protocol = Field(
        default=Protocol.TCP,
        description="`tcp`: all on one connection, `tcp-connect`: on one each; `udp` or `icmp`",
    )
    size: int = Field(description="payload bytes of a request, and of its response")
    count: int = Field(description="exchanges that were timed")
    elapsed_s: float = Field(description="seconds from the start to the end of the last exchange")
    late: int | None = Field(
        default=None,
        description="exchanges whose request had to wait for the response before it; only at a"
        " `rate` not 0",
    )
    unsent: int | None = Field(
        default=None,
        description="requests that were due and never sent; only at a `rate` not 0",
    )
    lost: int | None = Field(
        default=None, description="requests without an answer in time; null with TCP"
    )
    rtt: RoundTrips = Field(
        description="round-trip times: from when each request was sent to its response"
    )
    response: RoundTrips | None = Field(
        default=None,
        description="times from when each request was due, so with its waiting for the response"
        " before it; only at a `rate` not 0",
    )


MANY_LOST_PERCENT = 1.0
"""From there on the 99th percentile of all requests would be one of those that were lost."""


class SizePoint(Model):
    """Messages of one size on one connection of a pair, one after the other as NetPIPE does.

    In a ping-pong a message takes half of a round trip.
    """

    purpose: Purpose = Field(description="`measured`, or `background` beside what was measured")
    sender: str = Field(description="endpoint that began, and measured")
    receiver: str = Field(description="endpoint that answered")
    flow: int = Field(description="number of the connection, from 0")
    mode: SweepMode = Field(
        description="`pingpong`: one message at a time, there and back; `stream`: from the sender;"
        " `both`: both ends send at once"
    )
    checked: bool = Field(description="whether the content was compared with what was sent")
    size: int = Field(description="payload bytes of a message")
    repetitions: int | None = Field(
        description="how often it was repeated in all trials of the size; null if an imported"
        " point does not say"
    )
    trials: int | None = Field(description="into how many trials these were divided; null as well")
    time_min_us: float = Field(description="time of a message in the shortest trial, microseconds")
    time_median_us: float | None = Field(description="the same in the median trial; null as well")
    time_max_us: float | None = Field(description="the same in the longest trial; null as well")
    throughput_bps: float = Field(
        description="payload bits over `time_median_us`, over `time_min_us` where that is null, of"
        " both directions together in mode `both`"
    )
    pair_throughput_bps: float | None = Field(
        default=None,
        description="payload bits of all connections of the pair over the time of the slowest, in"
        " the median trial; null if an imported point does not say",
    )


class Request(Model):
    """One request of a trial: a row of ``requests.parquet``."""

    trial: int = Field(description="index of the trial")
    purpose: str = Field(description="`measured` or `background`")
    sender: str = Field(description="name of the endpoint that asked")
    receiver: str = Field(
        description="name of the endpoint that answered; the address of a server that is none"
    )
    size: int = Field(description="bytes that were asked for")
    intended_start_s: float | None = Field(
        description="when it should have begun, in seconds from the start; null if an imported"
        " request does not say"
    )
    duration_s: float | None = Field(
        description="from the intended start until the answer was there; null without an answer"
    )
    relay_s: float | None = Field(
        description="what ping measured, from the request's arrival there until pong's answer was"
        " there; null without ping or an answer"
    )
    code: int | None = Field(description="status code of the answer; null without an answer")
    length: int | None = Field(description="bytes of the message; null without an answer")
    retries: int | None = Field(description="attempts of ping after the first one; null without it")
    error: str | None = Field(
        description="why there was no good answer: `connect`, `timeout`, `closed` early, `protocol`"
        " (it makes no sense) or `status` (the code is not 200); null if there was"
    )


class SentCounts(Model):
    """Datagrams that a sender handed to its system."""

    sent: int = Field(description="datagrams")
    bytes: int = Field(description="their payload bytes")


class ReceivedCounts(Model):
    """Counts of the datagrams of one phase at the receiver."""

    sent: int = Field(description="datagrams, as the sender reported at its end")
    datagrams: int = Field(description="datagrams that came, duplicates aside")
    bytes: int = Field(description="their payload bytes")
    lost: int = Field(description="datagrams that did not come within the loss threshold")
    reordered: int = Field(
        description="came behind one that was sent later (RFC 4737, section 3); not lost"
    )
    duplicates: int = Field(description="came once more (RFC 5560)")
    late: int = Field(description="came more than 65536 numbers late: either lost or duplicates")


class DelayVariation(Model):
    """Delay variation of consecutive datagrams (RFC 3393).

    Absolute values, for which the clocks of the ends need not agree; null without such a pair.
    """

    count: int = Field(description="pairs of datagrams")
    p50_us: float | None = Field(description="median, microseconds")
    p90_us: float | None = Field(description="90 % are no larger, microseconds")
    p99_us: float | None = Field(description="99 % are no larger, microseconds")
    p999_us: float | None = Field(description="99.9 % are no larger, microseconds")
    max_us: float | None = Field(description="largest, microseconds")


class _FlowEnd(Model):
    flow: int = Field(description="number of the flow, from 0")
    length_s: float = Field(description="seconds that its rate is over, warm-up aside")
    end_s: float = Field(description="its end, in seconds from the start at this end")
    cpu_user_s: float = Field(description="CPU time of its thread in user mode, seconds")
    cpu_system_s: float = Field(description="CPU time of its thread in the kernel, seconds")


class SendingFlow(_FlowEnd, SentCounts):
    """The sending end of a flow, warm-up aside where it is not named."""

    sent_bps: float | None = Field(description="payload bits sent over `length_s`")
    send_refused: int = Field(
        description="datagrams that the system had no buffer for (ENOBUFS), with the warm-up"
    )
    behind_max_us: float = Field(
        description="the most by which a datagram was behind its time, microseconds"
    )
    slipped_s: float = Field(
        description="by which the schedule was put off, since the sender was more than 10 ms late"
    )
    segmented: bool = Field(description="whether the kernel cut bursts itself (UDP_SEGMENT)")
    path_mtu: int | None = Field(
        default=None,
        description="largest packet that the path is known to take, bytes with the IP header",
    )
    warmup: SentCounts = Field(description="what was sent in the warm-up")


class ReceivingFlow(_FlowEnd, ReceivedCounts):
    """The receiving end of a flow, warm-up aside where it is not named."""

    goodput_bps: float | None = Field(
        description="payload bits over the time of sending, or that of arrival if it was longer"
    )
    reordering_extent_max: int = Field(
        description="the largest reordering extent, in arrivals (RFC 4737, section 4.2)"
    )
    loss_episodes: int = Field(description="runs of lost datagrams")
    loss_longest: int = Field(description="the longest of them, datagrams")
    foreign: int = Field(description="datagrams that were not the sender's")
    dropped: int | None = Field(
        description="lost since the receiver's socket buffer was full, not in the network;"
        " null where the kernel coalesces datagrams, as without a rate"
    )
    receive_buffer: int = Field(description="the socket's buffer as the kernel counts, bytes")
    jitter_us: float | None = Field(
        description="mean over the datagrams of the interarrival jitter (RFC 3550), microseconds"
    )
    jitter_max_us: float | None = Field(description="largest of the same, microseconds")
    delay_variation: DelayVariation = Field(description="differences of the delay")
    warmup: ReceivedCounts = Field(description="what came in the warm-up")


class _End(Model):
    endpoint: str = Field(description="name of the endpoint")
    start_realtime_ns: int = Field(
        description="the endpoint's own clock at the start, UNIX time, nanoseconds"
    )
    elapsed_s: float = Field(description="seconds from the start to the end at this end")
    refused: int = Field(default=0, description="connections that did not show the run's cookie")
    process: ProcessUse = Field(description="what the agent's process used")
    host: EndpointUse = Field(description="what the whole endpoint used")


class DatagramSender(_End):
    """The sending end of UDP flows."""

    flows: list[SendingFlow] = Field(description="one entry for each flow")


class DatagramReceiver(_End):
    """The receiving end of UDP flows."""

    flows: list[ReceivingFlow] = Field(description="one entry for each flow")
    delay_variation: Histogram = Field(description="differences of the delay, of all flows")


class Datagrams(Model):
    """UDP flows between one pair as both ends saw them."""

    purpose: Purpose = Field(description="`measured`, or `background` beside what was measured")
    direction: Direction = Field(
        description="`forward`: from a sender of the scenario to a receiver; `reverse`: back"
    )
    size: int = Field(description="payload bytes of a datagram")
    sender: DatagramSender = Field(description="the end that sent")
    receiver: DatagramReceiver = Field(description="the end that received")


class Ranged(Model):
    """A number with its 95 % interval, which is null where the data are too few."""

    value: float = Field(description="the estimate")
    low: float | None = Field(description="lower end of the interval")
    high: float | None = Field(description="upper end")


class Ending(StrEnum):
    """Why a transfer that searches for a bucket has ended."""

    PROVED = "proved"
    TIME = "time"
    BYTES = "bytes"
    COST = "cost"


class Filling(Model):
    """Refill of a bucket during a rest."""

    rest_s: float = Field(description="how long nothing was sent, seconds")
    bytes: Ranged | None = Field(
        description="payload beyond the sustained rate; null where that rate was not reached again"
    )


class Emptied(Model):
    """A bucket that was emptied. Rates in bits per second, sizes in bytes, of payload."""

    burst_bps: Ranged = Field(description="rate until the bucket was empty")
    sustained_bps: Ranged = Field(description="rate from then on")
    size_bytes: Ranged = Field(
        description="what passed beyond the sustained rate until the bucket was empty"
    )
    fell_s: Ranged = Field(description="when it was empty, seconds from the start")


class BucketFound(Model):
    """Result of the search for a bucket on one pair."""

    sender: str = Field(description="the endpoint that sent the data")
    receiver: str = Field(description="the endpoint that got them")
    direction: Direction = Field(description="as of the transfer")
    ended: Ending = Field(
        description="why the first transfer ended: burst and sustained rate were `proved`, or the"
        " limit of `time`, `bytes` or `cost` came first"
    )
    elapsed_s: float = Field(description="how long it took")
    bytes: int = Field(description="payload that the receiver got in it")
    emptied: Emptied | None = Field(
        description="the bucket; null where the rate has not fallen to another one"
    )
    fillings: list[Filling] = Field(
        default_factory=list, description="what it gave after each rest of `refill`"
    )
    filling_bps: Ranged | None = Field(
        default=None, description="rate at which it fills; null without such rests"
    )


class SearchEnding(StrEnum):
    """Why a search has ended."""

    FOUND = "found"
    HIGHEST = "highest"
    LOWEST = "lowest"
    SENDER = "sender"
    STEPS = "steps"


class RateTried(Model):
    """One step of a search. Rates are of payload, of all flows together."""

    offered_bps: float = Field(description="rate that was to be sent, bits per second")
    sent_bps: float = Field(description="rate that the senders reached, bits per second")
    length_s: float = Field(description="how long was measured, seconds")
    datagrams: int = Field(description="datagrams that were sent")
    lost: int = Field(description="those that were lost")
    receiver_drops: int | None = Field(
        description="those that the receivers' sockets had no room for; null where the kernel"
        " does not count them"
    )
    passed: bool = Field(description="whether it was sent, and no more was lost than allowed")


class RateSearch(Model):
    """The highest rate at a given loss: the steps of a search, and its bounds."""

    loss_percent: float = Field(description="how much may be lost")
    ended: SearchEnding = Field(
        description="`found`: both ends were confirmed for the full length, and are close enough;"
        " `highest`, `lowest`: the highest rate passed, or the lowest did not; `sender`: as"
        " `found`, but the senders reached no more; `steps`: too many steps"
    )
    passed_bps: float | None = Field(
        description="the highest rate that passed for the full length, bits per second; null: none"
    )
    refused_bps: float | None = Field(
        description="the lowest rate above that did not pass, bits per second; null: none"
    )
    tried: list[RateTried] = Field(description="each step, in order")
