"""What is measured of exchanges: round trips, sizes and requests, and for what it was measured."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from osmef.scenario.base import Model


class Purpose(StrEnum):
    """Whether traffic is what the trial measures, or runs beside that."""

    MEASURED = "measured"
    BACKGROUND = "background"


class Direction(StrEnum):
    """Which way the data of a transfer goes."""

    FORWARD = "forward"
    REVERSE = "reverse"


class SweepMode(StrEnum):
    """How the messages of a size sweep go."""

    PINGPONG = "pingpong"
    STREAM = "stream"
    BOTH = "both"


class Phase(StrEnum):
    """Whether other traffic of the trial ran on the path at the same time."""

    IDLE = "idle"
    LOADED = "loaded"


class Protocol(StrEnum):
    """What carries requests and their responses."""

    TCP = "tcp"
    TCP_CONNECT = "tcp-connect"
    UDP = "udp"
    ICMP = "icmp"

    @property
    def loses(self) -> bool:
        """Whether a request, or its answer, may get lost: TCP sends it again."""
        return self in {Protocol.UDP, Protocol.ICMP}


class Histogram(Model):
    """Counts of round-trip times in buckets of logarithmic width; only those that are not empty."""

    error_percent: float = Field(
        description="largest relative error of a time read back from a bucket's middle, percent"
    )
    lower_ns: list[int] = Field(description="lower end of each bucket, nanoseconds, within it")
    upper_ns: list[int] = Field(description="upper end of each bucket, nanoseconds, not within it")
    count: list[int] = Field(description="exchanges in each bucket")


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
    phase: Phase = Field(description="`loaded` while other traffic of the trial ran, else `idle`")
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
    rtt: RoundTrips = Field(description="round-trip times")


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
        " point does not tell"
    )
    trials: int | None = Field(description="into how many trials these were divided; null likewise")
    time_min_us: float = Field(description="time of a message in the shortest trial, microseconds")
    time_median_us: float | None = Field(description="the same in the median trial; null likewise")
    time_max_us: float | None = Field(description="the same in the longest trial; null likewise")
    throughput_bps: float = Field(
        description="payload bits over `time_median_us`, over `time_min_us` where that is null, of"
        " both directions together in mode `both`"
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
        " request does not tell"
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
