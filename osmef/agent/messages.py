"""The events of the agent protocol, version 2 (docs/agent-protocol.md)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from osmef.results.trial import EndpointUse, FlowEnd, ProcessUse

PROTOCOL = 2


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Hello(_Message):
    """The agent's first words."""

    event: Literal["hello"]
    protocol: int
    version: str
    machine: str
    pid: int


class Clock(_Message):
    """The endpoint's clocks."""

    event: Literal["clock"]
    realtime_ns: int
    monotonic_ns: int


class Listening(_Message):
    """A receiving job waits for its flows at this port."""

    event: Literal["listening"]
    id: str
    port: int


class Connected(_Message):
    """All flows of the job are there."""

    event: Literal["connected"]
    id: str


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


class ThreadUse(_Message):
    """CPU time of a thread that served several connections."""

    cpu_user_s: float
    cpu_system_s: float
    last_cpu: int | None = None


class BulkWay(_Message):
    """What one end of a bulk transfer sent, or what it received."""

    mode: Literal["copy", "zerocopy", "discard"]
    common_start_s: float | None = None
    common_length_s: float | None = None
    threads: list[ThreadUse] | None = None
    flows: list[FlowEnd]


class Measured(_Message):
    """What an end used after the warm-up."""

    start_s: float
    length_s: float
    process: ProcessUse
    endpoint: EndpointUse


class ResultEvent(_Message):
    """The end of a job that went well: what went either way at this end, or None."""

    event: Literal["result"]
    id: str
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


class ErrorEvent(_Message):
    """The end of a job that did not go well, or a command that made no sense."""

    event: Literal["error"]
    id: str | None
    kind: str
    message: str
    flow: int | None = None


class Gone(BaseModel):
    """Not from the agent: its output has ended, and ``reason`` says how."""

    event: Literal["gone"] = "gone"
    reason: str


JobEvent = Listening | Connected | IntervalEvent | ResultEvent | ErrorEvent
Event = Hello | Clock | JobEvent | Gone

_ADAPTER: TypeAdapter[Hello | Clock | JobEvent] = TypeAdapter(
    Annotated[Hello | Clock | JobEvent, Field(discriminator="event")]
)


def parse_event(line: str) -> Event:
    """Read one line of the agent; a line that is not of the protocol ends the conversation."""
    try:
        return _ADAPTER.validate_json(line)
    except ValidationError:
        return Gone(reason=f"it said something outside the protocol: {line[:200]!r}")
