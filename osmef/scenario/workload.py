"""The ``workload`` and ``background`` parts of a scenario: a settings model for each kind.

To add a workload, add its model here, or in a module of its own, and to ``WorkloadSettings``, and
its class to ``osmef.workloads.programme``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from osmef.scenario.base import Model, conflict
from osmef.scenario.fields import Duration, Rate, Size
from osmef.scenario.pingpong import PingPongSettings
from osmef.units import format_duration, format_size

Cpus = Annotated[list[Annotated[int, Field(ge=0, le=4095)]], Field(min_length=1)]
"""Numbers of CPUs, as the kernel counts them."""


# What the agent maps at most for the messages of a size sweep, bytes.
_MOST_MEMORY = 2**31
_PAGE = 4096


class TransferDirection(StrEnum):
    """Which way the data of a bulk transfer goes."""

    FORWARD = "forward"
    REVERSE = "reverse"
    BOTH = "both"


class Mode(StrEnum):
    """How the ends move the data: each way to save work is a mode, which the result names."""

    COPY = "copy"
    ZEROCOPY = "zerocopy"
    DISCARD = "discard"
    ZEROCOPY_DISCARD = "zerocopy-discard"


class BtcSettings(Model):
    """Bulk transfer capacity (RFC 3148): parallel TCP connections, timed, with one start."""

    kind: Literal["btc"] = Field(default="btc", description="the kind of workload")
    duration: Duration = Field(
        default=10.0,
        ge=0.1,
        le=86400.0,
        description="how long is measured; with `bytes`, how long at most",
    )
    bytes: Size | None = Field(
        default=None, ge=1, description="how much each connection sends, instead of a time"
    )
    interval: Duration = Field(
        default=1.0, ge=0.01, le=3600.0, description="length of the intervals of the time series"
    )
    warmup: Duration = Field(
        default=0.0,
        ge=0,
        le=3600.0,
        description="how long they run before they are measured; it is in the time series",
    )
    connections: int = Field(
        default=1, ge=1, le=1000, description="parallel TCP connections of each pair"
    )
    direction: TransferDirection = Field(
        default=TransferDirection.FORWARD,
        strict=False,
        description="from sender to receiver, back, or both at once, each on its own connections",
    )
    window: Size | None = Field(
        default=None, ge=1, description="socket buffers; by default the kernel sizes them"
    )
    mss: int | None = Field(
        default=None, ge=88, le=65495, description="largest segment, bytes; by default the path's"
    )
    congestion_control: str | None = Field(
        default=None, min_length=1, description="algorithm; by default the endpoint's"
    )
    pacing: Rate | None = Field(
        default=None, ge=1000, description="highest rate of each connection"
    )
    dscp: int | None = Field(
        default=None, ge=0, le=63, description="code point that marks the packets (RFC 2474)"
    )
    mptcp: bool = Field(default=False, description="Multipath TCP (RFC 8684)")
    cpus_sender: Cpus | None = Field(
        default=None, description="CPUs that the sender's connections run on in turn"
    )
    cpus_receiver: Cpus | None = Field(
        default=None, description="CPUs that the receiver's connections run on in turn"
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="threads that share the connections; by default each has its own",
    )
    mode: Mode = Field(
        default=Mode.COPY,
        strict=False,
        description="copy: as programs do; zerocopy: the sending end hands over its pages;"
        " discard: the receiving end throws the data away in the kernel",
    )
    active: Duration | None = Field(
        default=None,
        ge=0.001,
        le=3600.0,
        description="idle-restart: how long the connections send between pauses",
    )
    idle: Duration | None = Field(
        default=None, ge=0.001, le=3600.0, description="idle-restart: how long each pause is"
    )

    @model_validator(mode="after")
    def _interval_fits(self) -> BtcSettings:
        _check_interval(self.interval, self.duration)
        return self

    @model_validator(mode="after")
    def _pauses_follow_work(self) -> BtcSettings:
        if (self.active is None) != (self.idle is None):
            raise conflict(
                "active and idle go together: connections send, pause, and send again",
                "write both, for example active: 1s and idle: 500ms",
                *("active", "idle"),
            )
        return self

    @model_validator(mode="after")
    def _threads_have_work(self) -> BtcSettings:
        if self.threads is not None and self.threads > self.connections:
            raise conflict(
                "there are more threads than connections",
                f"use at most {self.connections}",
                *("threads", "connections"),
            )
        return self


class LatencySettings(Model):
    """Latency: requests and responses of one size, one after the other on one connection."""

    kind: Literal["latency"] = Field(default="latency", description="the kind of workload")
    duration: Duration = Field(
        default=10.0, ge=0.1, le=86400.0, description="how long is measured, beside a background"
    )
    idle: Duration = Field(
        default=5.0,
        ge=0.1,
        le=3600.0,
        description="with a background: how long is measured before that begins",
    )
    size: Size = Field(
        default=1, ge=1, le=2**30, description="payload of a request, and of its response"
    )
    rate: float | None = Field(
        default=None,
        ge=0.001,
        le=1e6,
        description="requests per second; by default the next one follows the response at once",
    )


class SweepMode(StrEnum):
    """How the messages of a size sweep go."""

    PINGPONG = "pingpong"
    STREAM = "stream"
    BOTH = "both"


class SizeSweepSettings(Model):
    """Size sweep: messages of growing sizes, one after the other, as NetPIPE measures them."""

    kind: Literal["size-sweep"] = Field(default="size-sweep", description="the kind of workload")
    min: Size = Field(default=1, ge=1, le=2**30, description="smallest message")
    max: Size = Field(default=8 * 2**20, ge=1, le=2**30, description="largest message")
    perturbation: Size = Field(
        default=3, ge=0, le=2**20, description="each size is measured this much smaller and larger"
    )
    mode: SweepMode = Field(
        default=SweepMode.PINGPONG,
        strict=False,
        description="pingpong: one message at a time, there and back; stream: from sender to"
        " receiver; both: both ends send at once",
    )
    point: Duration = Field(
        default=0.5, ge=0.001, le=1000.0, description="about how long each size is measured"
    )
    duration: Duration | None = Field(
        default=None,
        ge=0.1,
        le=86400.0,
        description="how long at most: no size is begun that would end later; by default one and"
        " a half times what its sizes need, and 5 s",
    )
    connections: int = Field(
        default=1, ge=1, le=1000, description="parallel TCP connections of each pair"
    )
    check: bool = Field(default=False, description="compare what arrives with what was sent")

    @model_validator(mode="after")
    def _messages_fit_in_memory(self) -> SizeSweepSettings:
        buffers = 2 * self.connections if self.check else self.connections + 1
        memory = buffers * -(-self.max // _PAGE) * _PAGE
        if memory > _MOST_MEMORY:
            raise conflict(
                f"the messages of all connections would take {format_size(memory)} of memory;"
                f" {format_size(_MOST_MEMORY)} is the limit",
                "lower max or connections" + (", or leave check out" if self.check else ""),
                *("max", "connections", "check"),
            )
        return self

    @model_validator(mode="after")
    def _sizes_ascend(self) -> SizeSweepSettings:
        if self.min > self.max:
            raise conflict(
                "the smallest message is larger than the largest",
                f"give a max of at least {format_size(self.min)}",
                *("min", "max"),
            )
        return self


class UdpSettings(Model):
    """UDP at a rate: parallel flows of datagrams, timed, with one start."""

    kind: Literal["udp"] = Field(default="udp", description="the kind of workload")
    rate: Rate = Field(
        default=10e6,
        ge=0,
        le=1e13,
        description="payload rate of each connection; 0: as fast as it goes",
    )
    size: Size = Field(
        default=1200,
        ge=32,
        le=65507,
        description="payload of a datagram; the default stays in one packet on most paths",
    )
    burst: int = Field(
        default=1, ge=1, le=64, description="datagrams that are sent together, at the same rate"
    )
    duration: Duration = Field(default=10.0, ge=0.1, le=86400.0, description="how long is measured")
    interval: Duration = Field(
        default=1.0, ge=0.01, le=3600.0, description="length of the intervals of the time series"
    )
    warmup: Duration = Field(
        default=0.0,
        ge=0,
        le=3600.0,
        description="how long they send before it is measured; it is in the time series",
    )
    connections: int = Field(default=1, ge=1, le=1000, description="parallel flows of each pair")
    direction: TransferDirection = Field(
        default=TransferDirection.FORWARD,
        strict=False,
        description="from sender to receiver, back, or both at once, each with its own flows",
    )
    loss_threshold: Duration = Field(
        default=1.0,
        ge=0.01,
        le=5.0,
        description="a datagram that has not come so long after the end is lost",
    )
    window: Size | None = Field(
        default=None, ge=1, description="socket buffers; by default the kernel's"
    )
    dscp: int | None = Field(
        default=None, ge=0, le=63, description="code point that marks the packets (RFC 2474)"
    )

    @model_validator(mode="after")
    def _interval_fits(self) -> UdpSettings:
        _check_interval(self.interval, self.duration)
        return self


def _check_interval(interval: float, duration: float) -> None:
    if interval > duration:
        raise conflict(
            "the interval is longer than the duration",
            f"give an interval of at most {format_duration(duration)}",
            "interval",
            "duration",
        )


WorkloadSettings = Annotated[
    BtcSettings | LatencySettings | SizeSweepSettings | UdpSettings | PingPongSettings,
    Field(discriminator="kind"),
]
"""Any workload's settings, told apart by ``kind``; ``btc`` where that is not written."""

BackgroundSettings = Annotated[
    BtcSettings | LatencySettings | UdpSettings, Field(discriminator="kind")
]
"""Settings of a workload that runs for as long as it is told, as a background has to."""


def connections_of(settings: WorkloadSettings) -> int | None:
    """Return how many parallel connections each pair has; None for a workload without."""
    return None if isinstance(settings, LatencySettings) else settings.connections
