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

    kind: str
    message: str
    where: str | None = None
    cure: str | None = None


class TcpState(Model):
    """TCP_INFO of a connection at its end; None for what the kernel does not tell."""

    congestion_control: str | None = None
    mss: int | None = None
    rtt_us: float | None = None
    rtt_min_us: float | None = None
    rttvar_us: float | None = None
    cwnd: int | None = None
    retransmits: int | None = None
    retransmitted_bytes: int | None = None
    lost: int | None = None
    reordering: int | None = None
    pacing_rate_bps: float | None = None
    delivery_rate_bps: float | None = None
    busy_us: float | None = None
    receive_window_limited_us: float | None = None
    send_buffer_limited_us: float | None = None
    receive_rtt_us: float | None = None
    receive_space: int | None = None


class FlowEnd(Model):
    """One end of one connection. Times count from the start of the transfer at that end."""

    flow: int
    bytes: int
    common_bytes: int | None
    start_s: float
    end_s: float
    cpu_user_s: float
    cpu_system_s: float
    tcp: TcpState


class ProcessUse(Model):
    """What the agent's process used during the transfer."""

    cpu_user_s: float
    cpu_system_s: float
    max_rss_kb: int | None = None


class EndpointUse(Model):
    """Difference of /proc/stat over the transfer, summed over the CPUs the agent may run on."""

    cpus: int
    elapsed_s: float
    user_s: float
    nice_s: float
    system_s: float
    idle_s: float
    iowait_s: float
    irq_s: float
    softirq_s: float
    steal_s: float | None
    guest_s: float | None


class TransferEnd(Model):
    """One end of a bulk transfer."""

    endpoint: str
    start_realtime_ns: int
    elapsed_s: float
    common_start_s: float | None = None
    common_length_s: float | None = None
    refused: int = 0
    flows: list[FlowEnd]
    process: ProcessUse
    host: EndpointUse


class Transfer(Model):
    """A bulk transfer as both ends saw it."""

    sender: TransferEnd
    receiver: TransferEnd


class Trial(Model):
    """One execution of one cell; the unit of replication.

    ``metrics`` holds the workload's numbers of this trial by name, unit in the name; a number that
    could not be had is None. A failed trial has a ``failure`` and no metrics.
    """

    schema_version: int = SCHEMA_VERSION
    index: int
    cell: str
    repetition: int
    group: int
    values: dict[str, Scalar]
    sender: str
    receiver: str
    placement: Placement
    tenancy: Tenancy
    distance: int | None
    workload: str
    started_at: datetime
    wall_s: float
    status: Status
    failure: Failure | None = None
    metrics: dict[str, float | None] = Field(default_factory=dict)
    transfer: Transfer | None = None


class Interval(Model):
    """One interval of one connection at one end of a trial: a row of ``intervals.parquet``."""

    trial: int
    endpoint: str
    role: str
    flow: int
    start_s: float
    length_s: float
    bytes: int
    retransmits: int | None
    rtt_us: float | None
    cwnd: int | None
