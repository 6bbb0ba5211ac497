"""The events of the agent protocol, version 2 (docs/agent-protocol.md)."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import re
import signal
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from osmef.results.observations import (
    EndpointUse,
    Histogram,
    ProcessUse,
    ReceivingFlow,
    SendingFlow,
)
from osmef.results.trial import FlowEnd, ThreadUse

PROTOCOL = 2

REQUEST_COLUMNS = (
    *("size", "start_us", "duration_us", "relay_us"),
    *("code", "length", "retries", "error"),
)
"""Columns reported for each request of a siege."""

REQUEST_ERRORS = (None, "connect", "timeout", "closed", "protocol", "status")
"""Why a request had no good answer, by the number that the agent gives."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


_Word = Annotated[str, Field(max_length=200)]
_Text = Annotated[str, Field(max_length=4000)]
_Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]


def _same_length(message: _Message, names: Iterable[str]) -> None:
    """Raise ValueError unless the lists of a message that are present have the same length."""
    lists = [found for name in names if (found := getattr(message, name)) is not None]
    if len({len(one) for one in lists}) > 1:
        raise ValueError("the columns differ in length")


class Hello(_Message):
    """The first message of an agent: its version."""

    event: Literal["hello"]
    protocol: int
    version: _Word
    machine: _Word
    pid: int


class ClockReport(_Message):
    """The endpoint's clocks, read at one moment."""

    event: Literal["clock"]
    realtime_ns: int
    monotonic_ns: int


class Interface(_Message):
    """The network interface that has an address; None where none has it."""

    event: Literal["interface"]
    name: _Word | None


class ProcessExit(_Message):
    """An agent's process has ended: its exit status, or the signal that ended it.

    ``message`` is why it could not start.
    """

    event: Literal["ended"]
    status: Annotated[int, Field(ge=0, le=255)] | None
    signal: Annotated[int, Field(ge=1, le=127)] | None
    message: _Text

    @property
    def how(self) -> str:
        """The exit status, the signal, or why the process was not started."""
        if self.message:
            return f"it can't be started: {self.message}"
        if self.signal is None:
            return f"exit status {self.status}"
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(self.signal).name}"
        return f"killed by signal {self.signal}"


class Listening(_Message):
    """A listening job waits for its peer at this port."""

    event: Literal["listening"]
    id: str
    port: int


class Connected(_Message):
    """All flows of the job are connected."""

    event: Literal["connected"]
    id: str


_SERIES = (
    *("retransmits", "rtt_us", "cwnd"),
    *("datagrams", "send_refused", "behind_us"),
    *("lost", "reordered", "duplicates", "dropped", "jitter_us"),
)


class IntervalEvent(_Message):
    """One interval of all flows of one side; lists hold one value a flow."""

    event: Literal["interval"]
    id: str
    role: Literal["sender", "receiver"]
    start_s: float
    length_s: float
    warmup: bool = False
    bytes: list[int]
    retransmits: list[int | None] | None = None
    rtt_us: list[float | None] | None = None
    cwnd: list[int | None] | None = None
    datagrams: list[int] | None = None
    send_refused: list[int] | None = None
    behind_us: list[float] | None = None
    lost: list[int] | None = None
    reordered: list[int] | None = None
    duplicates: list[int] | None = None
    dropped: list[int | None] | None = None
    jitter_us: list[float] | None = None

    @model_validator(mode="after")
    def _columns_are_equally_long(self) -> Self:
        _same_length(self, ("bytes", *_SERIES))
        return self


class ExchangesEvent(_Message):
    """One interval of the exchanges of all flows; the answering end reports no times."""

    event: Literal["exchanges"]
    id: str
    start_s: float
    length_s: float
    count: _Count
    lost: _Count | None = None
    p50_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None


class PointEvent(_Message):
    """One size of a sweep: how long a message took; lists hold one value a flow.

    ``time_slowest_us`` is that of the slowest flow of each trial, in the median trial.
    """

    event: Literal["point"]
    id: str
    size: int
    repetitions: int
    trials: int
    time_min_us: list[float]
    time_median_us: list[float]
    time_max_us: list[float]
    time_slowest_us: float

    @model_validator(mode="after")
    def _columns_are_equally_long(self) -> Self:
        _same_length(self, ("time_min_us", "time_median_us", "time_max_us"))
        return self


class ResultEvent(_Message):
    """The result of a job that succeeded; each kind of job has its own."""

    event: Literal["result"]
    id: str


class BulkWay(_Message):
    """Totals of one end of a bulk transfer in one direction."""

    mode: Literal["copy", "zerocopy", "discard"]
    common_start_s: float | None = None
    common_length_s: float | None = None
    threads: list[ThreadUse] | None = None
    flows: list[FlowEnd]


class Measured(_Message):
    """CPU time of an end, without the warm-up."""

    start_s: float
    length_s: float
    process: ProcessUse
    endpoint: EndpointUse


class BulkResult(ResultEvent):
    """Result of one end of a bulk transfer: totals of each direction, None for one without data."""

    job: Literal["bulk"]
    direction: Literal["forward", "reverse", "both"]
    start_realtime_ns: int
    elapsed_s: float
    refused: int = 0
    cpus: list[int] | None = None
    sending: BulkWay | None = None
    receiving: BulkWay | None = None
    process: ProcessUse
    endpoint: EndpointUse
    measured: Measured

    @property
    def role(self) -> Literal["sender", "receiver"]:
        """Role of this end in a transfer of one direction: sender or receiver."""
        return "receiver" if self.sending is None else "sender"

    @property
    def way(self) -> BulkWay:
        """Totals of this end in a transfer of one direction. Raises ValueError."""
        way = self.sending or self.receiving
        if way is None:
            raise ValueError("a transfer of nothing")
        return way


class ResponseTimes(_Message):
    """Response times from the scheduled time of each request: without coordinated omission."""

    count: _Count
    min_ns: int | None = None
    mean_ns: float | None = None
    max_ns: int | None = None
    histogram: Histogram


class ExchangeResult(ResultEvent):
    """One end of a request-response flow.

    The requesting end is the sender; only it has times, the other end counts its responses.
    """

    job: Literal["exchange"]
    role: Literal["sender", "receiver"]
    start_realtime_ns: int | None = None
    elapsed_s: float
    count: int
    min_ns: int | None = None
    mean_ns: float | None = None
    max_ns: int | None = None
    lost: _Count | None = None
    late: int | None = None
    unsent: int | None = None
    histogram: Histogram | None = None
    response: ResponseTimes | None = None
    process: ProcessUse
    endpoint: EndpointUse


class SizesResult(ResultEvent):
    """One end of a size sweep; the sender, which leads, knows whether all sizes were measured."""

    job: Literal["sizes"]
    role: Literal["sender", "receiver"]
    start_realtime_ns: int | None = None
    elapsed_s: float
    mode: Literal["pingpong", "stream", "both"]
    check: bool
    complete: bool | None = None
    process: ProcessUse
    endpoint: EndpointUse


class UdpSenderResult(ResultEvent):
    """The sending end of UDP flows."""

    job: Literal["udp"]
    role: Literal["sender"]
    start_realtime_ns: int
    elapsed_s: float
    refused: int = 0
    flows: list[SendingFlow]
    process: ProcessUse
    endpoint: EndpointUse


class UdpReceiverResult(ResultEvent):
    """The receiving end of UDP flows; the histogram is of all flows' delay variation."""

    job: Literal["udp"]
    role: Literal["receiver"]
    start_realtime_ns: int
    elapsed_s: float
    refused: int = 0
    flows: list[ReceivingFlow]
    histogram: Histogram
    process: ProcessUse
    endpoint: EndpointUse


UdpResult = Annotated[UdpSenderResult | UdpReceiverResult, Field(discriminator="role")]
"""One end of a UDP job."""


class ProgressEvent(_Message):
    """How many requests of a siege have begun, and in what time."""

    event: Literal["progress"]
    id: str
    elapsed_s: float = Field(gt=0)
    requests: int = Field(ge=0)


class RequestsEvent(_Message):
    """A batch of a siege's requests, one list a column, as docs/agent-protocol.md defines them."""

    event: Literal["requests"]
    id: str
    size: list[int]
    start_us: list[float]
    duration_us: list[float | None]
    relay_us: list[float | None]
    code: list[_Int32 | None]
    length: list[int | None]
    retries: list[_Int32 | None]
    error: list[Annotated[int, Field(ge=0, lt=len(REQUEST_ERRORS))]]

    @model_validator(mode="after")
    def _columns_are_equally_long(self) -> Self:
        _same_length(self, REQUEST_COLUMNS)
        return self


class _HttpResult(ResultEvent):
    start_realtime_ns: int
    elapsed_s: float
    requests: int
    process: ProcessUse
    endpoint: EndpointUse


class PongResult(_HttpResult):
    """Result of a server; ``bad`` counts answers with a status 4xx."""

    job: Literal["pong"]
    bad: int


class PingResult(_HttpResult):
    """Result of a relay."""

    job: Literal["ping"]
    bad: int


class SiegeResult(_HttpResult):
    """Result of a siege, after all of its requests were reported."""

    job: Literal["siege"]
    failed: int
    connections: int | None = None


MOST_INTERFACES = 32
"""Of an endpoint; more are not reported."""
MOST_OUTPUT_BYTES = 48 * 1024
"""What one event has of the output of a program."""


def _from_base64(text: object) -> object:
    return base64.b64decode(text, validate=True) if isinstance(text, str) else text


class OutputEvent(_Message):
    """A piece of an external program's output or of its channel, with the time since its start."""

    event: Literal["output"]
    id: str
    stream: Literal["stdout", "stderr", "channel"]
    at_s: Annotated[float, Field(ge=0)]
    data: Annotated[
        bytes, BeforeValidator(_from_base64), Field(min_length=1, max_length=MOST_OUTPUT_BYTES)
    ]


_Count = Annotated[int, Field(ge=0)]
_Counts = Annotated[list[_Count | None], Field(max_length=MOST_INTERFACES)]


class Interfaces(_Message):
    """Traffic of each network interface in an interval; None where its counter is new."""

    name: Annotated[list[_Word], Field(max_length=MOST_INTERFACES)]
    rx_bytes: _Counts
    rx_packets: _Counts
    tx_bytes: _Counts
    tx_packets: _Counts

    @model_validator(mode="after")
    def _columns_are_equally_long(self) -> Self:
        _same_length(self, ("name", "rx_bytes", "rx_packets", "tx_bytes", "tx_packets"))
        return self


class CarriedEvent(_Message):
    """Traffic of each network interface since it exists."""

    event: Literal["carried"]
    interfaces: Interfaces


class ExecResult(ResultEvent):
    """Result of an external program: its exit status, or the signal that ended it.

    Neither is an error by itself: a program that was ``stopped`` may have been ended by a signal.
    Its whole output, of so many bytes, has been reported before. ``process`` is the resource usage
    of the program and of its children.
    """

    job: Literal["exec"]
    start_realtime_ns: int
    elapsed_s: Annotated[float, Field(ge=0)]
    status: Annotated[int, Field(ge=0, le=255)] | None
    signal: Annotated[int, Field(ge=1, le=127)] | None
    stopped: bool
    stdout_bytes: _Count
    stderr_bytes: _Count
    process: ProcessUse
    endpoint: EndpointUse
    interfaces: Interfaces | None = None

    @model_validator(mode="after")
    def _has_one_end(self) -> Self:
        if (self.status is None) == (self.signal is None):
            raise ValueError("a program ends by itself or by a signal")
        return self


class ErrorEvent(_Message):
    """A job has failed, or a command was invalid."""

    event: Literal["error"]
    id: _Word | None
    kind: _Word
    message: _Text
    flow: int | None = None


class OutputEnded(BaseModel):
    """Not from the agent: its output has ended, for this ``reason``."""

    event: Literal["gone"] = "gone"
    reason: str


JobResult = (
    BulkResult
    | ExchangeResult
    | SizesResult
    | UdpResult
    | PongResult
    | PingResult
    | SiegeResult
    | ExecResult
)
"""Any job's result; ``job`` is its kind."""

JobEvent = (
    Listening
    | Connected
    | IntervalEvent
    | ExchangesEvent
    | ProgressEvent
    | RequestsEvent
    | PointEvent
    | OutputEvent
    | Annotated[JobResult, Field(discriminator="job")]
    | ErrorEvent
)
Said = Hello | ClockReport | Interface | CarriedEvent | ProcessExit | JobEvent
"""Messages of an agent, and events about it."""
Event = Said | OutputEnded


class _Tag(_Message):
    """The fields that identify the type of a message."""

    event: str
    job: str | None = None
    role: str | None = None


def _tag(model: type[BaseModel]) -> tuple[str | None, ...]:
    """Return the event of a model, and its job and role where these have one value."""
    values = [
        get_args(one.annotation) if (one := model.model_fields.get(name)) else ()
        for name in ("event", "job", "role")
    ]
    return tuple(one[0] if len(one) == 1 else None for one in values)


def _models(union: object) -> Iterator[type[_Message]]:
    for one in get_args(union):
        if isinstance(one, type) and issubclass(one, _Message):
            yield one
        else:
            yield from _models(one)


_MODELS = {_tag(model): model for model in _models(Said)}


def _model(line: str) -> type[_Message]:
    """Return the model of a message, so that of others nothing is built. Raises ValueError."""
    tag = _Tag.model_validate_json(line)
    for one in (
        (tag.event, tag.job, tag.role),
        (tag.event, tag.job, None),
        (tag.event, None, None),
    ):
        if one in _MODELS:
            return _MODELS[one]
    raise ValueError("an unknown event")


_UNUSUAL = re.compile(r"[0-9]{19}|[eE][+]?[0-9]{3}|NaN|Infinity")
"""Matches each number that is too large for 64 bits, and some others and texts."""


def parse_event(line: str) -> Event:
    """Parse one line of the agent; an invalid line ends the conversation.

    A number that does not fit into 64 bits, integer or not, is invalid, too.
    """
    try:
        event: Said = _model(line).model_validate_json(line)  # type: ignore[assignment]
        if _UNUSUAL.search(line):
            json.loads(line, parse_int=_int64, parse_float=_finite, parse_constant=_finite)
    except ValueError:  # ValidationError is one, too
        return OutputEnded(reason=f"it violated the protocol: {line[:200]!r}")
    return event


_AGENT = re.compile(r'\{"agent":([0-9]{1,9}),')


def agent_of(line: str) -> int | None:
    """Return the number of the agent that a line is from, None without one."""
    found = _AGENT.match(line)
    return int(found[1]) if found else None


def _int64(text: str) -> int:
    number = int(text)
    if not -(2**63) <= number < 2**63:
        raise ValueError("too large a number")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("too large a number")
    return number
