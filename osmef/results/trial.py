"""The record of one trial, one line of ``trials.jsonl``."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from osmef.scenario.base import Model
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.study import Scalar

SCHEMA_VERSION = 1


class Status(StrEnum):
    """How a trial ended."""

    OK = "ok"
    FAILED = "failed"


class Failure(Model):
    """Why a trial failed: the kind of error, where, what, and what to do about it."""

    kind: str = Field(description="kind of error: `reach`, `agent`, `placement` ...")
    message: str = Field(description="what failed, and why")
    where: str | None = Field(default=None, description="the endpoint or endpoints")
    cure: str | None = Field(default=None, description="what to do about it")


class TcpState(Model):
    """TCP_INFO of a connection at its end; None for what the kernel does not tell."""

    congestion_control: str | None = Field(
        default=None, description="name of the algorithm (`TCP_CONGESTION`)"
    )
    mss: int | None = Field(default=None, description="maximum segment size, bytes")
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
    send_buffer: int | None = Field(
        default=None, description="send buffer in force (SO_SNDBUF), bytes, bookkeeping included"
    )
    receive_buffer: int | None = Field(
        default=None, description="receive buffer in force (SO_RCVBUF), likewise"
    )


class FlowMeasured(Model):
    """What one end of a connection counted after the warm-up; TCP counters at the sender only."""

    bytes: int = Field(description="payload bytes sent or received")
    cpu_user_s: float | None = Field(
        default=None, description="CPU time of its thread in user mode, seconds"
    )
    cpu_system_s: float | None = Field(
        default=None, description="CPU time of its thread in the kernel, seconds"
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


class FlowEnd(Model):
    """One end of one connection. Times count from the start of the transfer at that end."""

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
        default=None, description="whether it really was MPTCP; null if the kernel does not tell"
    )
    cpu_user_s: float | None = Field(
        description="CPU time of the connection's thread in user mode, seconds; null where"
        " threads serve several connections"
    )
    cpu_system_s: float | None = Field(
        description="CPU time of the connection's thread in the kernel, seconds; null likewise"
    )
    last_cpu: int | None = Field(default=None, description="CPU that its thread was on at the end")
    tcp: TcpState = Field(description="TCP_INFO at the end of the connection")
    measured: FlowMeasured | None = Field(
        default=None, description="the same without the warm-up, as differences"
    )


class ProcessUse(Model):
    """What the agent's process used during the transfer."""

    cpu_user_s: float = Field(description="CPU time in user mode, seconds")
    cpu_system_s: float = Field(description="CPU time in the kernel, seconds")
    max_rss_kb: int | None = Field(default=None, description="largest resident memory, KiB")


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


class TransferEnd(Model):
    """One end of a bulk transfer."""

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
    process: ProcessUse = Field(description="what the agent's process used")
    host: EndpointUse = Field(description="what the whole endpoint used")


class Transfer(Model):
    """A bulk transfer as both ends saw it."""

    sender: TransferEnd = Field(description="the sending end")
    receiver: TransferEnd = Field(description="the receiving end")


class Trial(Model):
    """One execution of one cell; the unit of replication.

    ``metrics`` holds the workload's numbers of this trial by name, unit in the name; a number that
    could not be had is None. A failed trial has a ``failure`` and no metrics.
    """

    schema_version: int = Field(default=SCHEMA_VERSION, description="as in the summary")
    index: int = Field(description="number of the trial in the plan, from 1")
    cell: str = Field(description="key of the cell")
    repetition: int = Field(description="which repetition of the cell, from 1")
    group: int = Field(description="trials between two collections of facts share it")
    values: dict[str, Scalar] = Field(description="the swept values by name")
    sender: str = Field(description="name of the sending endpoint")
    receiver: str = Field(description="name of the receiving endpoint")
    placement: Placement = Field(description="as requested")
    tenancy: Tenancy = Field(description="as requested")
    distance: int | None = Field(
        description="from the achieved locations; null if they are not known"
    )
    connections: int | None = Field(default=None, description="parallel connections")
    workload: str = Field(description="kind of the workload")
    started_at: datetime = Field(description="when it began")
    wall_s: float = Field(description="how long it took, with arming and connecting, in seconds")
    status: Status = Field(description="how it ended")
    failure: Failure | None = Field(default=None, description="why it failed; null if it did not")
    metrics: dict[str, float | None] = Field(
        default_factory=dict, description="numbers of this trial by name; empty if it failed"
    )
    transfer: Transfer | None = Field(
        default=None, description="what both ends saw; null if it failed"
    )


class Interval(Model):
    """One interval of one connection at one end of a trial: a row of ``intervals.parquet``."""

    trial: int = Field(description="index of the trial")
    endpoint: str = Field(description="name of the endpoint")
    role: str = Field(description="`sender` or `receiver`")
    flow: int = Field(description="number of the connection, from 0")
    start_s: float = Field(
        description="start of the interval, in seconds from the start at this end"
    )
    length_s: float = Field(description="measured length in seconds; rates are computed from it")
    bytes: int = Field(description="payload bytes in the interval")
    retransmits: int | None = Field(
        description="segments retransmitted in the interval; null at the receiver"
    )
    rtt_us: float | None = Field(
        description="smoothed round-trip time at the end of the interval, microseconds;"
        " null at the receiver"
    )
    cwnd: int | None = Field(
        description="congestion window at the end of the interval, segments; null at the receiver"
    )
