"""Latency: requests and responses one after the other on one connection, idle and under load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from osmef.agent.messages import ExchangeResult
from osmef.errors import AgentError
from osmef.results.measure import Measure, part
from osmef.results.observations import (
    MANY_LOST_PERCENT,
    Exchange,
    LoadPhase,
    Protocol,
    Purpose,
)
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration, Size
from osmef.scenario.workload import Directions, WorkloadSettings, without_background
from osmef.workloads.base import Outcome, Part, PartResult, Step, Value, Workload
from osmef.workloads.metrics import (
    exchange_metrics,
    late_percent,
    lost_percent,
    response_metrics,
    round_trips,
    us,
)

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario

_SOURCE = "RFC 2681 for the round trip, here of a payload over TCP"
_DATAGRAM_SOURCE = "RFC 2681 for the round trip, here of a datagram"
_QUANTILE_SOURCE = "Hyndman and Fan, *Sample Quantiles in Statistical Packages*, 1996, definition 1"


def _time(what: str, text: str, source: str, **more: object) -> Measure:
    """Return the measure of a round-trip time over all pairs."""
    return Measure(
        name=f"rtt_{what}_us", unit="us", better="lower", label=f"RTT {what}", help=text,
        source=source, over_pairs="pooled", **more,
    )  # fmt: skip


def _quantile(what: str, percent: str, **more: object) -> Measure:
    message = f"{percent} % of the times from a request to its response are not longer, within the"
    message += " `error_percent` of the histogram"
    return _time(what, message, _QUANTILE_SOURCE, **more)


TIMES = (
    _time("min", "shortest time from a request to its response", _SOURCE),
    _time("mean", "mean time from a request to its response", _SOURCE),
    _quantile("p50", "50", head="RTT\np50\nµs", digits=".0f", leading=True),
    _quantile("p90", "90"),
    _quantile("p99", "99", head="RTT\np99\nµs", digits=".0f"),
    _quantile("p999", "99.9"),
    _time("max", "longest time from a request to its response", _SOURCE),
)
"""Of exchanges in one phase."""

EXCHANGES = Measure(
    name="exchanges_per_s", unit="1/s", better="higher", label="exchanges", head="exch.\n/s",
    digits=".0f", over_pairs="sum",
    help="exchanges divided by the time that they took, summed over the pairs", source="OSMeF",
)  # fmt: skip
INCREASE = Measure(
    name="latency_increase_ratio", unit="1", better="lower", head="increase\nratio",
    digits=".1f", over_pairs="pooled", help="the loaded median divided by the idle one",
    source="OSMeF",
)  # fmt: skip
LATE = Measure(
    name="late_percent", unit="%", better="lower", label="late", head="late\n%", digits=".1f",
    over_pairs="pooled",
    help="of the requests that were due at the `rate`, those that had to wait for the response"
    " before them, or were never sent. Their waiting is in `response_...`, and not in the round"
    " trips",
    source="G. Tene, *How NOT to Measure Latency*, 2013: coordinated omission",
)  # fmt: skip
_RESPONSE = (
    "from when a request was due at the `rate` to its response, whenever it could be sent: its"
    " waiting for the response before it is in it"
)


def _response(what: str, text: str) -> Measure:
    return Measure(
        name=f"response_{what}_us", unit="us", better="lower", label=f"response {what}",
        help=f"{text} {_RESPONSE}", over_pairs="pooled",
        source="G. Tene, *How NOT to Measure Latency*, 2013: coordinated omission",
    )  # fmt: skip


RESPONSES = (
    _response("mean", "mean time"),
    _response("p50", "50 % of the times are not longer"),
    _response("p99", "99 % of the times are not longer"),
    _response("max", "longest time"),
)
LOST = Measure(
    name="lost_percent", unit="%", better="lower", label="lost", head="lost\n%", digits=".2f",
    over_pairs="pooled",
    help="requests in datagrams that had no answer within `loss_threshold`, of those sent",
    source="RFC 2681, section 2.4: a round trip that is not over in reasonable time",
)  # fmt: skip

MEASURES = (*TIMES, EXCHANGES)
"""Of exchanges without a background, as fast as they go."""

_PHASE_TEXT = {LoadPhase.IDLE: "before the background began: ", LoadPhase.LOADED: "while it ran: "}
_BELOW = {"rtt_p50_us": "p50\nµs", "rtt_p99_us": "p99\nµs"}
_BESIDE_BELOW = {"rtt_p50_us": "p50\nµs", "lost_percent": "lost\n%"}


def _in_phase(measure: Measure, phase: LoadPhase, below: str | None = None) -> Measure:
    """Return a measure in one phase, of which the loaded one leads.

    ``below`` is the second line of the column's heading, after the phase.
    """
    return part(
        measure, phase.value, _PHASE_TEXT[phase],
        head=None if below is None else f"{phase.value}\n{below}",
        leading=measure.leading and phase is LoadPhase.LOADED,
    )  # fmt: skip


BESIDE = (
    *(_in_phase(one, phase, _BELOW.get(one.name)) for phase in LoadPhase for one in TIMES),
    INCREASE,
    _in_phase(EXCHANGES, LoadPhase.IDLE),
    _in_phase(EXCHANGES, LoadPhase.LOADED, "exch.\n/s"),
)
"""Of exchanges beside a background, and before it."""


def _of_protocol(measure: Measure, protocol: Protocol, below: str | None) -> Measure:
    """Return a measure of an additional protocol."""
    return part(
        _carried(measure, protocol), _word(protocol), f"of requests by `{protocol}`: ",
        head=None if below is None else f"{protocol}\n{below}",
    )  # fmt: skip


def _carried(measure: Measure, protocol: Protocol) -> Measure:
    """Return a measure whose source names the protocol."""
    if not protocol.loses or measure.source != _SOURCE:
        return measure
    return measure.model_copy(update={"source": _DATAGRAM_SOURCE})


def _word(protocol: Protocol) -> str:
    return protocol.replace("-", "_")


HEADER_BYTES = 16
"""The header of a request without a common connection; see the agent's protocol"""


class LatencySettings(WorkloadSettings):
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
    protocol: Protocol = Field(
        default=Protocol.TCP,
        strict=False,
        description="tcp: all requests on one connection; tcp-connect: each on one of its own;"
        " udp: in datagrams; icmp: echoes, which the receiver's kernel answers",
    )
    beside: list[Annotated[Protocol, Field(strict=False)]] = Field(
        default_factory=list,
        max_length=3,
        description="other protocols that are asked at the same time, each with numbers of its own",
    )
    size: Size = Field(
        default=1,
        ge=1,
        le=2**30,
        description="payload of a request, and of its response; 16 B at least but with `tcp`, which"
        " is the default there",
    )
    rate: float | None = Field(
        default=None,
        ge=0.001,
        le=1e6,
        description="requests per second; by default the next one follows the response at once",
    )
    loss_threshold: Duration = Field(
        default=1.0,
        ge=0.01,
        le=60.0,
        description="a request by `udp` or `icmp` that has no answer by then is lost",
    )
    dscp: int | None = Field(
        default=None, ge=0, le=63, description="code point that marks the packets (RFC 2474)"
    )

    interval: Duration = Field(
        default=1.0,
        ge=0.01,
        le=3600.0,
        description="length of the intervals of the time series; of what is shorter it is one",
    )

    in_background: ClassVar = True
    between_agents: ClassVar = True
    lasting: ClassVar = ("duration", "idle")

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """All protocols, the main one first."""
        return (self.protocol, *self.beside)

    def size_of(self, protocol: Protocol) -> int:
        """Return the size of a request by a protocol, in bytes."""
        return self.size if protocol is Protocol.TCP else max(self.size, HEADER_BYTES)

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield the conflict of an idle phase without a background."""
        if "idle" in self.model_fields_set and scenario.background is None:
            yield without_background("workload.idle")

    def warnings(self) -> Iterator[str]:
        """Warn that the kernel answers echoes."""
        if Protocol.ICMP in self.protocols:
            yield "icmp: the receiver's kernel answers, so no program has to wake up there"

    def warnings_from_metrics(self, metrics: Mapping[str, float | None]) -> Iterator[str]:
        """Warn where so many requests were lost that the 99th percentile is another one."""
        lost = (value for name, value in metrics.items() if name.endswith(LOST.name))
        if any(value is not None and value >= MANY_LOST_PERCENT for value in lost):
            yield (
                f"in some trials {MANY_LOST_PERCENT:g} % of the requests were lost, or more: round"
                " trips are of the others, and quantiles of all requests are higher"
            )

    @property
    def directions(self) -> Directions:
        """Which ways its data goes: a response is as long as its request."""
        return Directions.of_messages(self.size)

    @model_validator(mode="after")
    def _each_protocol_once(self) -> LatencySettings:
        if len(set(self.protocols)) < len(self.protocols):
            raise conflict(
                "a protocol is named twice",
                "name each once: one as protocol, the others beside it",
                *("beside", "protocol"),
            )
        return self

    @model_validator(mode="after")
    def _requests_fit(self) -> LatencySettings:
        names = [one for one in self.protocols if one is not Protocol.TCP]
        datagrams = [one for one in names if one.loses]
        if names and "size" in self.model_fields_set and self.size < HEADER_BYTES:
            raise conflict(
                f"a request by {names[0]} has {HEADER_BYTES} B at least, which identify it",
                f"give a size from {HEADER_BYTES}B on, or none",
                *("size", "protocol"),
            )
        if datagrams and self.size > _LARGEST_DATAGRAM:
            raise conflict(
                f"a datagram of {datagrams[0]} has no room for {self.size} B",
                f"give a size of at most {_LARGEST_DATAGRAM}B",
                *("size", "protocol"),
            )
        return self


_LARGEST_DATAGRAM = 65507


class Latency(Workload[LatencySettings]):
    """Requests and responses, with a background in two phases: idle, then loaded."""

    Settings = LatencySettings

    def __init__(self, settings: LatencySettings, *, background: bool = False) -> None:
        super().__init__(settings, background=background)
        self._phases = (LoadPhase.IDLE, LoadPhase.LOADED) if background else (LoadPhase.IDLE,)
        always = BESIDE if background else MEASURES
        self.measures = (
            *(_carried(one, settings.protocol) for one in always),
            *self._in_phases(self._more(settings.protocol)),
            *(
                measure
                for other in settings.beside
                for measure in self._in_phases(
                    _of_protocol(one, other, _BESIDE_BELOW.get(one.name))
                    for one in (*TIMES, EXCHANGES, *self._more(other))
                )
            ),
        )

    def _more(self, protocol: Protocol) -> tuple[Measure, ...]:
        """Return the measures of exchanges by a lossy protocol, or at a rate."""
        rated = self._settings.rate is not None
        return (*((LOST,) if protocol.loses else ()), *((LATE, *RESPONSES) if rated else ()))

    def _in_phases(self, measures: Iterable[Measure]) -> Iterator[Measure]:
        """Yield measures as they are, or one for each phase, with the loaded one's headers."""
        for one in measures:
            if len(self._phases) == 1:
                yield one
            for phase in self._phases if len(self._phases) > 1 else ():
                yield _in_phase(one, phase, one.head)

    def parts(self) -> tuple[Part, ...]:
        """Return one part for each protocol in each phase; the receiver answers."""
        return tuple(self._part(*one) for one in self._runs)

    @property
    def _runs(self) -> list[tuple[LoadPhase, Protocol]]:
        return [(phase, one) for phase in self._phases for one in self._settings.protocols]

    def _part(self, phase: LoadPhase, protocol: Protocol) -> Part:
        settings = self._settings
        alone = phase is LoadPhase.IDLE and len(self._phases) > 1
        duration = settings.idle if alone else settings.duration
        size = settings.size_of(protocol)
        wanted: dict[str, Value | None] = {
            "duration_s": duration,
            "request_size": size,
            "response_size": size,
            "interval_s": min(settings.interval, duration),
            "rate_per_s": settings.rate,
            "protocol": None if protocol is Protocol.TCP else protocol.value,
            "loss_threshold_s": settings.loss_threshold if protocol.loses else None,
            "dscp": settings.dscp,
        }
        parameters = {name: value for name, value in wanted.items() if value is not None}
        answers = 1 if protocol in {Protocol.TCP_CONNECT, Protocol.UDP} else 0
        asks = 1 if protocol is Protocol.UDP else 0
        answer = Step(
            *("receiver", "exchange", parameters),
            connections=1,
            listens=True,
            probe_ports=answers,
        )
        ask = Step("sender", "exchange", parameters, connections=1, probe_ports=asks)
        return Part((answer, ask), duration_s=duration, loaded=not alone)

    def outcome(
        self,
        trial: int,  # noqa: ARG002 - no row of it is of a trial
        purpose: Purpose,
        pairs: Sequence[Sequence[PartResult]],
    ) -> Outcome:
        """Return an exchange of every part, and metrics of each phase over all pairs."""
        metrics: dict[str, float | None] = {}
        exchanges: list[Exchange] = []
        for number, (phase, protocol) in enumerate(self._runs):
            # What runs as a background itself always has other traffic beside it.
            seen = LoadPhase.LOADED if purpose is Purpose.BACKGROUND else phase
            there = [self._exchange(parts[number], purpose, seen, protocol) for parts in pairs]
            prefix = f"{phase.value}_" if len(self._phases) > 1 else ""
            prefix += "" if protocol is self._settings.protocol else f"{_word(protocol)}_"
            found = exchange_metrics(there)
            if protocol.loses:
                found["lost_percent"] = lost_percent(there)
            if self._settings.rate is not None:
                found["late_percent"] = late_percent(there)
                found |= response_metrics(there)
            metrics |= {f"{prefix}{name}": value for name, value in found.items()}
            exchanges += there
        if len(self._phases) > 1:
            idle, loaded = metrics["idle_rtt_p50_us"], metrics["loaded_rtt_p50_us"]
            metrics["latency_increase_ratio"] = loaded / idle if idle and loaded else None
        return Outcome(metrics, exchanges=exchanges)

    def _exchange(
        self, ran: PartResult, purpose: Purpose, phase: LoadPhase, protocol: Protocol
    ) -> Exchange:
        result = ran.results[-1]
        if not isinstance(result, ExchangeResult) or result.histogram is None:
            raise AgentError("the agent gave no times", where=ran.sender)
        due = result.response
        return Exchange(
            purpose=purpose,
            phase=phase,
            sender=ran.sender,
            receiver=ran.receiver,
            protocol=protocol,
            size=self._settings.size_of(protocol),
            count=result.count,
            elapsed_s=result.elapsed_s,
            late=result.late,
            unsent=result.unsent,
            lost=result.lost,
            rtt=round_trips(
                result.histogram, us(result.min_ns), us(result.mean_ns), us(result.max_ns)
            ),
            response=due
            and round_trips(due.histogram, us(due.min_ns), us(due.mean_ns), us(due.max_ns)),
        )
