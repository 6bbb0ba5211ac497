"""The record of one trial, one line of ``trials.jsonl``: transfers, and their bottlenecks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from osmef.errors import OsmefError, ProgramError
from osmef.results.observations import (
    BucketFound,
    Carried,
    Datagrams,
    Direction,
    EndpointUse,
    Exchange,
    InterfaceUse,
    ProcessUse,
    Purpose,
    RateSearch,
    SizePoint,
)
from osmef.scenario.base import Model
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.study import Scalar


@dataclass(frozen=True)
class SessionTag:
    """A session of a campaign: its time slot, the window that was open, and what was measured.

    All are None without a campaign.
    """

    session: str | None = None
    window: str | None = None
    platform: str | None = None


class Bottleneck(StrEnum):
    """Bottleneck of a flow: what kept it from being faster."""

    SENDER_CPU = "sender-cpu"
    RECEIVER_CPU = "receiver-cpu"
    RECEIVE_WINDOW = "receive-window"
    SEND_BUFFER = "send-buffer"
    NETWORK = "network"
    SENDER_IDLE = "sender-idle"
    SHAPER = "shaper"
    INCONCLUSIVE = "inconclusive"


class FlowLimit(Model):
    """Bottleneck of one connection, and the evidence, whose keys carry their units."""

    flow: int = Field(description="number of the connection, from 0")
    limited_by: Bottleneck = Field(description="the verdict")
    evidence: dict[str, float | None] = Field(
        description="the numbers that it rests on; null for what the kernel does not report"
    )


SCHEMA_VERSION = 3


class Status(StrEnum):
    """Status of a trial."""

    OK = "ok"
    FAILED = "failed"


class Failure(Model):
    """Why a trial failed: the kind of error, where, what, and what to do about it."""

    kind: str = Field(description="kind of error: `reach`, `agent`, `placement` ...")
    message: str = Field(description="what failed, and why")
    where: str | None = Field(default=None, description="the endpoint or endpoints")
    cure: str | None = Field(default=None, description="what to do about it")

    @classmethod
    def of(cls, error: OsmefError) -> Failure:
        """Return the record of an error."""
        tail = error.tail if isinstance(error, ProgramError) else ""
        message = f"{error.message}; it printed: {tail}" if tail else error.message
        return cls(kind=error.kind, message=message, where=error.where, cure=error.cure)

    @property
    def shown(self) -> str:
        """It in one line."""
        where = f"{self.where}: " if self.where else ""
        cure = f" (cure: {self.cure})" if self.cure else ""
        return f"{where}{self.message}{cure}"


class Source(Model):
    """Source of an imported trial: the file is kept in the run directory as it was."""

    kind: str = Field(description="kind of the file, as `osmef import` calls it")
    file: str = Field(description="its path in the run directory")
    place: str = Field(description="which part of it, such as `line 5`; empty for all of it")


class TcpState(Model):
    """TCP_INFO of a connection at its end; None for what the kernel does not report."""

    congestion_control: str | None = Field(
        default=None, description="name of the algorithm (`TCP_CONGESTION`)"
    )
    mss: int | None = Field(default=None, description="maximum segment size, bytes")
    path_mtu: int | None = Field(
        default=None,
        description="largest packet that the path is known to take, bytes with the IP header",
    )
    rtt_us: float | None = Field(default=None, description="smoothed round-trip time, microseconds")
    rtt_min_us: float | None = Field(
        default=None, description="smallest round-trip time seen, microseconds"
    )
    rttvar_us: float | None = Field(
        default=None, description="variation of the round-trip time, microseconds"
    )
    cwnd: int | None = Field(default=None, description="congestion window, segments")
    retransmits: int | None = Field(default=None, description="segments retransmitted in all")
    retransmitted_bytes: int | None = Field(default=None, description="bytes retransmitted in all")
    lost: int | None = Field(
        default=None, description="segments that the kernel holds lost at this moment"
    )
    reordering: int | None = Field(
        default=None, description="reordering that the kernel allows for, segments"
    )
    pacing_rate_bps: float | None = Field(default=None, description="pacing rate, bits per second")
    delivery_rate_bps: float | None = Field(
        default=None, description="latest delivery rate, bits per second"
    )
    busy_us: float | None = Field(
        default=None, description="time with data in flight, microseconds"
    )
    receive_window_limited_us: float | None = Field(
        default=None, description="time held up by the receiver's window, microseconds"
    )
    send_buffer_limited_us: float | None = Field(
        default=None, description="time held up by the send buffer, microseconds"
    )
    receive_rtt_us: float | None = Field(
        default=None,
        description="round-trip time that the receiver estimates, microseconds; null at the sender",
    )
    receive_space: int | None = Field(
        default=None, description="receive buffer that the kernel aims at, bytes"
    )
    sent_bytes: int | None = Field(
        default=None,
        description="payload bytes that TCP handed down: also what was sent again, and what the"
        " endpoint's own queue threw away",
    )
    send_window: int | None = Field(
        default=None, description="window that the other end advertised last, bytes"
    )
    max_pacing_rate_bps: float | None = Field(
        default=None, description="upper limit of the pacing rate, bits per second; null: none"
    )
    send_buffer: int | None = Field(
        default=None, description="`SO_SNDBUF` in force, bytes with the kernel's bookkeeping"
    )
    receive_buffer: int | None = Field(
        default=None, description="`SO_RCVBUF` in force, bytes with the kernel's bookkeeping"
    )


class FlowMeasured(Model):
    """Counters of one end of a connection after the warm-up; TCP counters at the sender only."""

    bytes: int = Field(description="payload bytes sent or received")
    cpu_user_s: float | None = Field(
        default=None, description="CPU time of its thread in user mode, seconds"
    )
    cpu_system_s: float | None = Field(
        default=None, description="CPU time of its thread in the kernel, seconds"
    )
    cpu_wait_s: float | None = Field(
        default=None, description="time in which that thread waited for a CPU, seconds"
    )
    retransmits: int | None = Field(default=None, description="segments retransmitted")
    retransmitted_bytes: int | None = Field(default=None, description="bytes retransmitted")
    busy_us: float | None = Field(
        default=None, description="time with data in flight, microseconds"
    )
    receive_window_limited_us: float | None = Field(
        default=None, description="time held up by the receiver's window, microseconds"
    )
    send_buffer_limited_us: float | None = Field(
        default=None, description="time held up by the send buffer, microseconds"
    )


class ThreadMeasured(Model):
    """CPU time of a thread."""

    cpu_user_s: float = Field(description="in user mode, seconds")
    cpu_system_s: float = Field(description="in the kernel, seconds")
    cpu_wait_s: float | None = Field(default=None, description="ready, but without a CPU, seconds")


class ThreadUse(ThreadMeasured):
    """CPU time of a thread that served several connections: of n threads, every n-th."""

    measured: ThreadMeasured | None = Field(
        default=None, description="the same without the warm-up"
    )
    last_cpu: int | None = Field(default=None, description="CPU on which it ended")


class FlowEnd(Model):
    """End of a connection. Times count from the start of the transfer at that end."""

    flow: int = Field(description="number of the connection, from 0")
    bytes: int = Field(description="payload bytes sent or received")
    common_bytes: int | None = Field(
        description="those within the common interval; null at the sender"
    )
    start_s: float = Field(description="first byte, in seconds from the start at this end")
    end_s: float = Field(description="end of the connection, in seconds from the start at this end")
    goodput_bps: float | None = Field(
        default=None, description="its bytes over its own time, not over the common interval"
    )
    bursts: int | None = Field(
        default=None, description="times of sending between pauses; null at the receiver"
    )
    mptcp: bool | None = Field(
        default=None, description="whether it really was MPTCP; null if the kernel does not report"
    )
    cpu_user_s: float | None = Field(
        description="CPU time of the connection's thread in user mode, seconds; null where"
        " threads served several connections"
    )
    cpu_system_s: float | None = Field(
        description="CPU time of the connection's thread in the kernel, seconds; null as well"
    )
    cpu_wait_s: float | None = Field(
        default=None,
        description="time in which that thread was ready and waited for a CPU, seconds;"
        " null where the kernel does not count it",
    )
    last_cpu: int | None = Field(default=None, description="CPU on which that thread ended")
    tcp: TcpState = Field(description="TCP_INFO at the end of the connection")
    measured: FlowMeasured | None = Field(
        default=None, description="the same without the warm-up, as differences"
    )


class EndMeasured(Model):
    """Usage at one end after the warm-up."""

    start_s: float = Field(description="end of the warm-up, in seconds from the start at this end")
    length_s: float = Field(description="seconds from there to the end at this end")
    process: ProcessUse = Field(description="what the agent's process used")
    host: EndpointUse = Field(description="what the whole endpoint used")


class TransferEnd(Model):
    """End of a bulk transfer."""

    endpoint: str = Field(description="name of the endpoint")
    start_realtime_ns: int = Field(
        description="the endpoint's own clock when the transfer began there, UNIX time, nanoseconds"
    )
    elapsed_s: float = Field(description="seconds from the start to the end at this end")
    common_start_s: float | None = Field(
        default=None,
        description="start of the common interval, in seconds from the start; null at the sender",
    )
    common_length_s: float | None = Field(
        default=None, description="length of the common interval in seconds; null at the sender"
    )
    refused: int = Field(default=0, description="connections that did not show the run's cookie")
    flows: list[FlowEnd] = Field(description="one entry for each connection")
    mode: str = Field(
        default="copy", description="how data was moved: `copy`, `zerocopy` or `discard`"
    )
    threads: list[ThreadUse] | None = Field(
        default=None, description="threads that served several connections each; else null"
    )
    process: ProcessUse = Field(description="what the agent's process used")
    host: EndpointUse = Field(description="what the whole endpoint used")
    measured: EndMeasured | None = Field(
        default=None, description="the same without the warm-up, as differences"
    )


class Transfer(Model):
    """A bulk transfer between one pair as both ends saw it."""

    purpose: Purpose = Field(
        default=Purpose.MEASURED,
        description="`measured`, or `background` beside what was measured",
    )
    direction: Direction = Field(
        default=Direction.FORWARD,
        description="`forward`: from a sender of the scenario to a receiver; `reverse`: back",
    )
    start_s: float = Field(
        default=0.0,
        description="when it started, in seconds after the first start of the trial, by clocks that"
        " are known within `start_uncertainty_s`; 0 where they were not compared",
    )
    sender: TransferEnd = Field(description="the end that sent the data")
    receiver: TransferEnd = Field(description="the end that got the data")
    limits: list[FlowLimit] = Field(
        default_factory=list, description="what held each connection back; empty if not judged"
    )
    limited_by: Bottleneck | None = Field(
        default=None, description="what held the transfer back; null if not judged"
    )


class Trial(Model):
    """One execution of one cell; the unit of replication.

    ``metrics`` holds the workload's numbers of this trial by name, unit in the name; a number that
    could not be determined is None. A failed trial has a ``failure`` and no metrics.
    """

    schema_version: int = Field(default=SCHEMA_VERSION, description="as in the summary")
    index: int = Field(description="number of the trial in the plan, from 1")
    cell: str = Field(description="key of the cell")
    repetition: int = Field(description="which repetition of the cell, from 1")
    group: int = Field(description="trials between two collections of facts share it")
    pair: int | None = Field(
        default=None,
        description="number of the pair that was measured, from 1, where each has trials of its own"
        " (`pairs`); null else",
    )
    values: dict[str, Scalar] = Field(description="the swept values by name")
    senders: list[str] = Field(description="names of the sending endpoints")
    receivers: list[str] = Field(
        description="names of the receiving endpoints; every sender sends to each"
    )
    placement: Placement | None = Field(
        description="as requested; null if an imported trial does not say"
    )
    tenancy: Tenancy | None = Field(
        description="as requested; null between two sites, or if an imported trial does not say"
    )
    achieved_placement: Placement | None = Field(
        default=None,
        description="read back from the cloud; null if it does not report, or pairs differ",
    )
    achieved_tenancy: Tenancy | None = Field(
        default=None,
        description="read back from the cloud; null if it does not report, or an end has no tenant",
    )
    distance: int | None = Field(
        description="from the achieved locations; null if they are not known, or not all pairs"
        " are equally far apart"
    )
    connections: int | None = Field(
        default=None, description="parallel connections of each pair; null without any"
    )
    workload: str = Field(description="kind of the workload")
    background: str | None = Field(
        default=None, description="kind of the workload beside it; null if there was none"
    )
    started_at: datetime | None = Field(
        description="when it began; null if an imported trial does not say"
    )
    wall_s: float | None = Field(
        description="how long it took, with arming and connecting, in seconds; null as well"
    )
    session: str | None = Field(
        default=None, description="time slot of a campaign; null without a campaign"
    )
    window: str | None = Field(
        default=None, description="name of the window that the session was in; null as well"
    )
    platform: str | None = Field(
        default=None, description="what the session measured: scenario, provider, class"
    )
    source: Source | None = Field(
        default=None, description="where it is from if it was imported; null if OSMeF measured it"
    )
    status: Status = Field(description="how it ended")
    failure: Failure | None = Field(default=None, description="why it failed; null if it did not")
    metrics: dict[str, float | None] = Field(
        default_factory=dict, description="numbers of this trial by name; empty if it failed"
    )
    start_spread_s: float | None = Field(
        default=None,
        description="how far apart those that should have started together did, by their clocks,"
        " in seconds; of each is taken what `stagger` and `lead` had it wait. Null where only one"
        " thing started, or one did not report when",
    )
    start_uncertainty_s: float | None = Field(
        default=None,
        description="how far off the comparison of these clocks may be, in seconds; null without",
    )
    transfers: list[Transfer] = Field(
        default_factory=list, description="each bulk transfer as both ends saw it"
    )
    limited_by: Bottleneck | None = Field(
        default=None,
        description="what limited more than half of the measured bytes of all transfers;"
        " `inconclusive` without such a majority, null if nothing was judged",
    )
    exchanges: list[Exchange] = Field(
        default_factory=list, description="each request-response flow"
    )
    sizes: list[SizePoint] = Field(
        default_factory=list, description="each size of a sweep over message sizes"
    )
    datagrams: list[Datagrams] = Field(
        default_factory=list, description="the UDP flows of each pair, as both ends saw them"
    )
    buckets: list[BucketFound] = Field(
        default_factory=list, description="the token bucket of each pair, with `until: knee`"
    )
    search: RateSearch | None = Field(
        default=None,
        description="the search for the highest rate at a given loss, of `udp` with `search`",
    )
    interfaces: list[InterfaceUse] = Field(
        default_factory=list,
        description="what went through the network interfaces of each endpoint, with programs, and"
        " through its network cards, with bonds",
    )
    carried: list[Carried] = Field(
        default_factory=list,
        description="what each endpoint had received and sent before, since it was made",
    )


class Interval(Model):
    """One interval of one connection at one end of a trial: a row of ``intervals.parquet``."""

    trial: int = Field(description="index of the trial")
    purpose: str | None = Field(
        default=Purpose.MEASURED.value,
        description="`measured` or `background`; null in runs of version 1",
    )
    endpoint: str = Field(description="name of the endpoint")
    peer: str | None = Field(
        default=None, description="name of the other end; null in runs of version 1"
    )
    role: str = Field(description="`sender` or `receiver`")
    flow: int = Field(description="number of the connection, from 0")
    start_s: float = Field(
        description="start of the interval, in seconds from the start at this end"
    )
    length_s: float = Field(description="measured length in seconds; rates are computed from it")
    began_s: float | None = Field(
        default=None,
        description="that start, in seconds after the first one of the trial; null in older runs",
    )
    warmup: bool | None = Field(
        default=False, description="whether it is of the warm-up; null in runs of version 1"
    )
    bytes: int = Field(description="payload bytes in the interval")
    retransmits: int | None = Field(
        description="segments retransmitted in the interval; null at the receiver"
    )
    rtt_us: float | None = Field(
        description="smoothed round-trip time at the end of the interval, microseconds; null at the"
        " receiver. Of exchanges, the median of their times"
    )
    cwnd: int | None = Field(
        description="congestion window at the end of the interval, segments; null at the receiver"
    )
    datagrams: int | None = Field(
        default=None, description="datagrams in the interval, duplicates aside; null but for UDP"
    )
    send_refused: int | None = Field(
        default=None, description="datagrams that the sender's system had no buffer for"
    )
    behind_us: float | None = Field(
        default=None, description="how far the sender was behind its schedule at its last datagram"
    )
    lost: int | None = Field(
        default=None,
        description="datagrams found missing, less those found missing before that came after all;"
        " of exchanges, requests given up in the interval",
    )
    reordered: int | None = Field(default=None, description="datagrams that arrived reordered")
    duplicates: int | None = Field(default=None, description="datagrams that came once more")
    dropped: int | None = Field(
        default=None, description="datagrams that the receiver's socket had no room for"
    )
    exchanges: int | None = Field(
        default=None,
        description="requests that were answered in the interval; null but for latency",
    )
    protocol: str | None = Field(
        default=None, description="what carried them; null but for latency, and in older runs"
    )
    rtt_p99_us: float | None = Field(
        default=None, description="99 % of their times are not longer, microseconds"
    )
    rtt_max_us: float | None = Field(default=None, description="the longest, microseconds")
    jitter_us: float | None = Field(
        default=None, description="interarrival jitter at the end of the interval, microseconds"
    )
