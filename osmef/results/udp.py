"""What is measured of datagrams: a flow at a rate as both ends saw it."""

from __future__ import annotations

from pydantic import Field

from osmef.results.exchange import Direction, Histogram, Purpose
from osmef.results.use import EndpointUse, ProcessUse
from osmef.scenario.base import Model


class SentCounts(Model):
    """Datagrams that a sender handed to its system."""

    sent: int = Field(description="datagrams")
    bytes: int = Field(description="their payload bytes")


class ReceivedCounts(Model):
    """What became of the datagrams of one phase."""

    sent: int = Field(description="datagrams, as the sender told at its end")
    datagrams: int = Field(description="datagrams that came, duplicates aside")
    bytes: int = Field(description="their payload bytes")
    lost: int = Field(description="datagrams that did not come within the loss threshold")
    reordered: int = Field(
        description="came behind one that was sent later (RFC 4737, section 3); not lost"
    )
    duplicates: int = Field(description="came once more (RFC 5560)")
    late: int = Field(
        description="came more than 65536 numbers late: lost or duplicates, nobody can tell"
    )


class DelayVariation(Model):
    """How much the one-way delays of datagrams sent one after the other differ (RFC 3393).

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
    warmup: SentCounts = Field(description="what was sent in the warm-up")


class ReceivingFlow(_FlowEnd, ReceivedCounts):
    """The receiving end of a flow, warm-up aside where it is not named."""

    goodput_bps: float | None = Field(
        description="payload bits over the time of sending, or that of arrival if it was longer"
    )
    reordering_extent_max: int = Field(
        description="the most arrivals by which a datagram was overtaken (RFC 4737, section 4.2)"
    )
    loss_episodes: int = Field(description="runs of lost datagrams")
    loss_longest: int = Field(description="the longest of them, datagrams")
    foreign: int = Field(description="datagrams that were not the sender's")
    dropped: int | None = Field(
        description="lost since the receiver's socket buffer was full, not in the network;"
        " null where the kernel glues datagrams together, as without a rate"
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
