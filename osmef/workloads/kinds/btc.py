"""Bulk transfer capacity: parallel TCP connections between two endpoints (RFC 3148)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from osmef.agent.messages import BulkResult
from osmef.analysis.bulk_transfer import prevailing, transfer_limits
from osmef.errors import AgentError
from osmef.results.measure import Measure, part
from osmef.results.observations import Direction, Ending, Purpose
from osmef.results.trial import EndMeasured, Transfer, TransferEnd
from osmef.scenario.base import conflict
from osmef.scenario.fields import (
    ONE,
    ONE_OR_SEVERAL,
    SEVERAL,
    Duration,
    Rate,
    Size,
    Sum,
    parse_money,
)
from osmef.scenario.workload import Directions, Role, TransferDirection, WorkloadSettings
from osmef.workloads.base import (
    End,
    Outcome,
    Part,
    PartResult,
    Span,
    Step,
    Value,
    Workload,
    one_way_each,
)
from osmef.workloads.metrics import JAIN, MEASURES, RATES, RETRANSMITS, transfer_metrics
from osmef.workloads.searches import (
    bucket_found,
    bucket_measures,
    bucket_metrics,
    enough_of,
    has_bucket,
    median_rate,
)

if TYPE_CHECKING:
    from osmef.scenario.model import Scenario

BACK = {
    one.name: part(one, "reverse", "of the way back: ",
                   head="aggregate\nreverse" if one.leading else None)
    for one in (*RATES, JAIN, RETRANSMITS)
}  # fmt: skip
"""The measures of the reverse direction, by the names of those of the forward one."""

COMMON = Measure(
    name="common_percent", unit="%", better="neither", label="common interval", over_pairs="worst",
    help="of `duration`, how much all connections of a pair ran together; of the pair and direction"
    " with the least, 100 at most; `null` where `bytes` are given",
    source="OSMeF",
)  # fmt: skip
ONE_WAY = (*MEASURES, COMMON)
BOTH_WAYS = (*RATES, *BACK.values(), *MEASURES[len(RATES) :], COMMON)
"""Of transfers in both directions."""

Cpus = Annotated[list[Annotated[int, Field(ge=0, le=4095)]], Field(min_length=1)]
"""Numbers of CPUs, as the kernel counts them."""


Algorithm = Annotated[str, Field(min_length=1, max_length=15)]
"""The kernel's name of a congestion control."""

CodePoint = Annotated[int, Field(ge=0, le=63)]

_CLASSES = Field(min_length=1, max_length=16)
CodePoints = Annotated[
    Annotated[CodePoint, Tag(ONE)] | Annotated[list[CodePoint], _CLASSES, Tag(SEVERAL)],
    ONE_OR_SEVERAL,
]
Algorithms = Annotated[
    Annotated[Algorithm, Tag(ONE)] | Annotated[list[Algorithm], _CLASSES, Tag(SEVERAL)],
    ONE_OR_SEVERAL,
]


class BtcMode(StrEnum):
    """Data path of both ends: each optimisation is a mode, named in the results."""

    COPY = "copy"
    ZEROCOPY = "zerocopy"
    DISCARD = "discard"
    ZEROCOPY_DISCARD = "zerocopy-discard"


class Until(StrEnum):
    """Stopping condition of a transfer, instead of a time."""

    KNEE = "knee"


_LONGEST_SEARCH_S = 1800.0
_MOST_BYTES = 9_000 * 10**12  # the agent reads JSON, whose numbers are exact up to 2**53
_WITH_HEADERS = 1.05
"""What a cloud counts of a byte of payload: headers are 3.6 % of it at an MTU of 1500."""

_MODES = {
    BtcMode.ZEROCOPY: "the sending end hands over its pages and copies nothing",
    BtcMode.DISCARD: "the receiving end throws the data away in the kernel",
    BtcMode.ZEROCOPY_DISCARD: (
        "the sending end copies nothing, and the receiving end throws it away"
    ),
}


class BtcSettings(WorkloadSettings):
    """Bulk transfer capacity (RFC 3148): parallel TCP connections, timed, with one start."""

    kind: Literal["btc"] = Field(default="btc", description="the kind of workload")
    duration: Duration = Field(
        default=10.0,
        ge=0.1,
        le=86400.0,
        description="how long is measured; with `bytes` or `until`, how long at most, by default"
        " 30min with `until`",
    )
    bytes: Size | None = Field(
        default=None,
        ge=1,
        le=_MOST_BYTES,
        description="how much each connection sends, instead of a time; with `until`, at most",
    )
    until: Until | None = Field(
        default=None,
        strict=False,
        description="knee: until a token bucket was emptied, and the rate that is left is known",
    )
    refill: list[Annotated[Duration, Field(ge=1, le=86400.0)]] | None = Field(
        default=None,
        min_length=1,
        max_length=20,
        description="with `until: knee`: rests, after each of which the bucket is emptied again, to"
        " see how fast it fills",
    )
    cost: Sum | None = Field(
        default=None,
        description="with `until: knee`: what the traffic of a pair may cost in a trial, refills"
        " included; needs `per_gb`",
    )
    per_gb: Sum | None = Field(
        default=None, description="price of 10^9 bytes that leave the sender, such as `0.09 USD`"
    )
    interval: Duration = Field(
        default=1.0,
        ge=0.01,
        le=3600.0,
        description="length of the intervals of the time series; of what is shorter it is one",
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
        default=None,
        ge=1024,
        le=2**30,
        description="socket buffers; by default the kernel sizes them",
    )
    mss: int | None = Field(
        default=None, ge=88, le=65495, description="largest segment, bytes; by default the path's"
    )
    congestion_control: Algorithms | None = Field(
        default=None,
        description="algorithm; by default the endpoint's. A list is for the connections of each"
        " direction in turn",
    )
    pacing: Rate | None = Field(
        default=None, ge=1000, le=1e13, description="highest rate of each connection"
    )
    dscp: CodePoints | None = Field(
        default=None,
        description="code point that marks the packets (RFC 2474). A list is for the connections of"
        " each direction in turn",
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
    mode: BtcMode = Field(
        default=BtcMode.COPY,
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

    in_background: ClassVar = True
    between_agents: ClassVar = True
    lasting: ClassVar = ("duration", "bytes", "warmup", "until", "refill", "cost", "per_gb")

    @property
    def bytes_by_cost(self) -> int | None:
        """The bound of a connection's payload by the cost limit; None without one."""
        if self.cost is None or self.per_gb is None:
            return None
        paid = parse_money(self.cost).amount / parse_money(self.per_gb).amount
        transfers = 1 + len(self.refill or ())
        found = int(1e9 * paid / _WITH_HEADERS / self.connections / transfers)
        return min(max(1, found), _MOST_BYTES)

    @property
    def most_bytes(self) -> int | None:
        """The bound of a connection's payload in one transfer; None with only a time limit."""
        return min(filter(None, (self.bytes, self.bytes_by_cost)), default=None)

    @property
    def longest_s(self) -> float:
        """The upper bound of one transfer's measured time, in seconds."""
        given = self.until is None or "duration" in self.model_fields_set
        return self.duration if given else _LONGEST_SEARCH_S

    @property
    def changes_next_trial(self) -> bool:
        """Whether a trial changes the result of the next one: an emptied bucket."""
        return self.until is not None

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield conflicts of the search for a bucket."""
        if self.until is None:
            return
        if scenario.background is not None:
            yield conflict(
                "a background takes from the bucket what is to be measured",
                "remove background, or until",
                *("background", "workload.until"),
            )
        if scenario.repetitions > 1 and not scenario.pause:
            yield conflict(
                "the first trial empties the bucket, and the next ones begin with an empty one",
                "remove repeat, and write pairs: 6 to measure as many buckets; or write a pause in"
                " which it fills",
                *("repeat", "workload.until"),
            )

    @property
    def directions(self) -> Directions:
        """Which ways its data goes."""
        return self.direction.directions

    def warnings(self) -> Iterator[str]:
        """Warn where the data path is not that of usual programs."""
        if self.mode in _MODES:
            yield f"mode {self.mode}: {_MODES[self.mode]}"

    def warnings_from_facts(self, end: Role, facts: Mapping[str, Any]) -> Iterator[str]:
        """Warn where segmentation or receive offload is missing."""
        what = "receive" if end == "receiver" else "segmentation"
        if _lacks_offload(facts, what):
            message = "the kernel handles every packet singly, which may limit the rate"
            yield f"no {what} offload: {message}"

    @model_validator(mode="after")
    def _cost_has_a_price(self) -> BtcSettings:
        if self.cost is None and self.per_gb is None:
            return self
        if self.until is None:
            raise conflict(
                "cost and per_gb bound how long a bucket is looked for",
                "write until: knee, or remove them; bytes bounds other transfers",
                *("cost", "per_gb", "until"),
            )
        if self.cost is None or self.per_gb is None:
            raise conflict(
                "cost and per_gb go together: what the traffic may cost, and what 10^9 bytes do",
                "write both, for example cost: 5 USD and per_gb: 0.09 USD",
                *("cost", "per_gb"),
            )
        if parse_money(self.cost).currency != parse_money(self.per_gb).currency:
            raise conflict(
                "cost and per_gb are in two currencies, and currencies are never converted",
                "write both in one currency",
                *("cost", "per_gb"),
            )
        return self

    @model_validator(mode="after")
    def _bucket_is_emptied_in_one_go(self) -> BtcSettings:
        if self.until is None:
            if self.refill is not None:
                raise conflict(
                    "refill is about a bucket that was emptied",
                    "write until: knee, or remove refill",
                    *("refill", "until"),
                )
            return self
        if self.direction is TransferDirection.BOTH:
            raise conflict(
                "a bucket is looked for in one direction",
                "write direction: forward or reverse, or sweep it",
                *("until", "direction"),
            )
        for key, given in (("warmup", self.warmup), ("active", self.active)):
            if given:
                raise conflict(
                    f"until: knee sees the bucket from its first byte on, and {key} would hide it",
                    f"remove {key}",
                    *("until", key),
                )
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
    def _each_class_has_a_connection(self) -> BtcSettings:
        for key, value in (("dscp", self.dscp), ("congestion_control", self.congestion_control)):
            if isinstance(value, list) and len(value) > self.connections:
                raise conflict(
                    f"{key} lists {len(value)}, for {self.connections} connections",
                    f"give at least {len(value)} connections, or a shorter list",
                    *(key, "connections"),
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


def _in_turn(key: str, value: Value | Sequence[int] | None) -> dict[str, Value | None]:
    """Return an option's values for an agent: for all connections, or for each in turn."""
    if value is None or isinstance(value, str | int | float):
        return {key: value}
    return {f"each_{key}": [str(one) for one in value]}


def _lacks_offload(facts: Mapping[str, Any], what: str) -> bool:
    """Return whether all interfaces lack an offload, in hardware and in software."""
    names = {
        "segmentation": ("tcp_segmentation_offload", "generic_segmentation_offload"),
        "receive": ("generic_receive_offload", "large_receive_offload"),
    }[what]
    interfaces = [one for name, one in (facts.get("interfaces") or {}).items() if name != "lo"]
    offloads = [one["offloads"] for one in interfaces if one.get("offloads")]
    known = [[on for name in names if (on := some.get(name)) is not None] for some in offloads]
    return bool(known) and all(some and not any(some) for some in known)


class BulkTransfer(Workload[BtcSettings]):
    """n connections, timed or counted, each way in a job of its own."""

    Settings = BtcSettings

    def __init__(self, settings: BtcSettings, *, background: bool = False) -> None:
        super().__init__(settings, background=background)
        both = settings.direction is TransferDirection.BOTH
        self.measures = BOTH_WAYS if both else ONE_WAY
        if settings.until is not None:
            refilled = settings.refill is not None
            self.measures = (*bucket_measures(refilled=refilled), *MEASURES[len(RATES) :])

    @property
    def _directions(self) -> tuple[Direction, ...]:
        return one_way_each(self._settings.direction)

    def parts(self) -> tuple[Part, ...]:
        """Return one part for each direction: the receiver listens, and the sender connects."""
        return self._parts([])

    def _parts(self, firsts: Sequence[PartResult]) -> tuple[Part, ...]:
        """Return the parts, by the first transfers of all pairs if there were any."""
        length = self._settings.warmup + self._settings.longest_s
        connections = self._settings.connections
        enough = enough_of(firsts) if self._settings.until is not None else None
        return tuple(
            Part(
                (
                    Step(
                        *("receiver", "bulk", self._parameters("receiver", direction)),
                        connections=connections,
                        listens=True,
                    ),
                    Step(
                        *("sender", "bulk", self._parameters("sender", direction)),
                        connections=connections,
                    ),
                ),
                duration_s=length,
                enough=enough,
            )
            for direction in self._directions
        )

    @property
    def pauses(self) -> tuple[float, ...]:
        """The pauses in which a bucket refills, in seconds."""
        return tuple(self._settings.refill or ())

    @property
    def further_s(self) -> Span:
        """The duration of pauses and refills: only an upper bound is known with a bucket."""
        found = super().further_s
        return found if self._settings.until is None else Span(None, found.most_s)

    @property
    def most_bytes(self) -> int | None:
        """The upper bound of a pair's payload in a trial, in both directions; None without one."""
        s = self._settings
        transfers = len(self._directions) + len(s.refill or ())
        if s.most_bytes is not None:
            return transfers * s.connections * s.most_bytes
        seconds = s.warmup + s.longest_s
        paced = s.pacing and round(transfers * s.connections * s.pacing * seconds / 8)
        return paced or None

    def again(self, pairs: Sequence[Sequence[PartResult]]) -> tuple[Part, ...]:
        """Return the next transfer after a pause; none if a pair has no bucket."""
        firsts = [pair[0] for pair in pairs]
        return self._parts(firsts) if all(map(has_bucket, firsts)) else ()

    def _parameters(self, end: End, direction: Direction) -> dict[str, Value]:
        """Return the parameters of an end; unset ones are left to the kernel."""
        s = self._settings
        cpus = s.cpus_sender if end == "sender" else s.cpus_receiver
        wanted: dict[str, Value | None] = {
            "duration_s": s.longest_s,
            "interval_s": min(s.interval, s.longest_s),
            "warmup_s": s.warmup or None,
            "direction": direction.value,
            "bytes": s.most_bytes,
            "until_stopped": s.until is not None or None,
            "window": s.window,
            "mss": s.mss,
            **_in_turn("congestion_control", s.congestion_control),
            "pacing_bps": s.pacing,
            **_in_turn("dscp", s.dscp),
            "mptcp": s.mptcp or None,
            "cpus": ",".join(map(str, cpus)) if cpus else None,
            "threads": s.threads,
            "mode": s.mode.value,
            "active_s": s.active,
            "idle_s": s.idle,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def outcome(
        self,
        trial: int,  # noqa: ARG002 - no row of it is of a trial
        purpose: Purpose,
        pairs: Sequence[Sequence[PartResult]],
    ) -> Outcome:
        """Return transfers of every part, and the metrics of each direction over all pairs."""
        if self._settings.until is not None:
            return self._bucket(purpose, pairs)
        metrics: dict[str, float | None] = {}
        transfers: list[Transfer] = []
        for number, direction in enumerate(self._directions):
            ran = [parts[number] for parts in pairs]
            there = [_transfer(one, purpose, direction) for one in ran]
            found = transfer_metrics(there, [i for one in ran for i in one.intervals])
            if number == 0:
                metrics = found
            else:
                metrics |= {back.name: found[name] for name, back in BACK.items()}
            transfers += there
        metrics[COMMON.name] = self._common_percent(transfers)
        return Outcome(metrics, transfers)

    def _common_percent(self, transfers: Sequence[Transfer]) -> float | None:
        """Return the smallest overlap of a transfer's connections, in percent."""
        if self._settings.bytes is not None:
            return None
        lengths = [transfer.receiver.common_length_s or 0.0 for transfer in transfers]
        return min(100.0, 100 * min(lengths) / self._settings.duration)

    def _bucket(self, purpose: Purpose, pairs: Sequence[Sequence[PartResult]]) -> Outcome:
        """Return the outcome of a search for buckets."""
        (direction,), settings = self._directions, self._settings
        most = settings.most_bytes and settings.most_bytes * settings.connections
        by_cost = settings.most_bytes is not None and settings.most_bytes == settings.bytes_by_cost
        limit = Ending.COST if by_cost else Ending.BYTES
        found = [bucket_found(ran, direction, most, limit) for ran in pairs]
        firsts = [ran[0] for ran in pairs]
        there = [_transfer(one, purpose, direction) for one in firsts]
        usual = transfer_metrics(there, [i for one in firsts for i in one.intervals])
        metrics = bucket_metrics(found, list(map(median_rate, firsts)), bool(settings.refill))
        later = [_transfer(one, purpose, direction) for ran in pairs for one in ran[1:]]
        kept = {one.name for one in RATES}
        metrics |= {name: value for name, value in usual.items() if name not in kept}
        return Outcome(metrics, [*there, *later], buckets=found)


def _transfer(ran: PartResult, purpose: Purpose, direction: Direction) -> Transfer:
    names = (ran.receiver, ran.sender)  # as the steps are
    ends = {
        result.role: transfer_end(name, result)
        for name, result in zip(names, ran.results, strict=True)
        if isinstance(result, BulkResult)
    }
    wanted = "sender" if direction is Direction.FORWARD else "receiver"
    if ends.keys() != {"sender", "receiver"} or getattr(ran.results[1], "role", None) != wanted:
        raise AgentError(
            f"the agents did not transfer {direction.value}, but as {', '.join(ends)}",
            where=f"{ran.sender} and {ran.receiver}",
            cure="use the agent that belongs to this version of osmef",
        )
    sender, receiver = ends["sender"], ends["receiver"]
    limits = transfer_limits(sender, receiver, ran.intervals)
    return Transfer(
        purpose=purpose,
        direction=direction,
        start_s=ran.start_s,
        sender=sender,
        receiver=receiver,
        limits=limits,
        limited_by=prevailing(limits, [flow.bytes for flow in receiver.flows]),
    )


def transfer_end(name: str, result: BulkResult) -> TransferEnd:
    """Return the record of one end of a transfer, in one direction."""
    return TransferEnd(
        endpoint=name,
        start_realtime_ns=result.start_realtime_ns,
        elapsed_s=result.elapsed_s,
        common_start_s=result.way.common_start_s,
        common_length_s=result.way.common_length_s,
        refused=result.refused,
        flows=result.way.flows,
        mode=result.way.mode,
        threads=result.way.threads,
        process=result.process,
        host=result.endpoint,
        measured=EndMeasured(
            start_s=result.measured.start_s,
            length_s=result.measured.length_s,
            process=result.measured.process,
            host=result.measured.endpoint,
        ),
    )
