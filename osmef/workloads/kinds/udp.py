"""UDP at a rate: loss, reordering, duplicates and jitter of datagrams between two endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from osmef.agent.messages import UdpReceiverResult, UdpSenderResult
from osmef.analysis.bulk_transfer import jain_fairness
from osmef.analysis.throughput import Bounds, expected_trials, next_trial
from osmef.errors import AgentError
from osmef.results.measure import Measure, part
from osmef.results.observations import (
    DatagramReceiver,
    Datagrams,
    DatagramSender,
    Direction,
    Purpose,
    SendingFlow,
)
from osmef.scenario.base import Model, conflict
from osmef.scenario.fields import Duration, LossShare, Rate, Share, Size
from osmef.scenario.workload import Directions, TransferDirection, WorkloadSettings
from osmef.units import format_rate
from osmef.workloads.base import (
    Outcome,
    Part,
    PartResult,
    Span,
    Step,
    Value,
    Workload,
    one_way_each,
)
from osmef.workloads.metrics import CPU, JAIN, endpoint_cpu_percent, merged, quantile_us
from osmef.workloads.searches import FOUND, best_trial, search_metrics, search_result, trials_so_far

if TYPE_CHECKING:
    from osmef.scenario.model import Scenario


def _datagrams(name: str, text: str, source: str, **more: object) -> Measure:
    """Return the measure of a count of datagrams, lower is better."""
    return Measure(name=name, unit="1", better="lower", help=text, source=source, least=1, **more)


def _share(name: str, label: str, text: str, source: str, **more: object) -> Measure:
    return Measure(
        name=name, unit="%", better="lower", label=label, help=text, source=source,
        over_pairs="pooled", **more,
    )  # fmt: skip


def _variation(what: str, percent: str) -> Measure:
    return Measure(
        name=f"delay_variation_{what}_us", unit="us", better="lower",
        label=f"delay variation {what}", over_pairs="pooled",
        help=f"{percent} % of the absolute differences of the one-way delays of datagrams sent one"
        " after the other are not larger",
        source="RFC 3393",
    )  # fmt: skip


RATES = (
    Measure(
        name="goodput_bps", unit="bit/s", better="higher", label="goodput", head="goodput",
        over_pairs="sum", leading=True,
        help="payload that came, duplicates aside, divided by the time of sending, or of arrival if"
        " that was longer",
        source="RFC 2647 for the term",
    ),
    Measure(
        name="sent_bps", unit="bit/s", better="neither", label="sent", head="sent",
        over_pairs="sum", spare=True, help="payload that was sent, divided by the time of sending",
        source="OSMeF",
    ),
    Measure(
        name="offered_bps", unit="bit/s", better="neither", label="offered", over_pairs="sum",
        help="`rate` times the number of flows: the payload that was asked for; `null` without a"
        " rate",
        source="OSMeF",
    ),
    Measure(
        name="datagrams_per_s", unit="1/s", better="higher", label="datagrams", digits=".0f",
        over_pairs="sum",
        help="datagrams that came, duplicates aside, over the time of `goodput_bps`; one is a"
        " packet up to the path's MTU",
        source="OSMeF",
    ),
    _share(
        "loss_percent", "loss", "datagrams that were lost, of those sent", "RFC 7680",
        head="loss\n%", digits=".2f",
    ),
    _share(
        "network_loss_percent", "network loss", "as `loss_percent`, without `receiver_drops`",
        "OSMeF",
    ),
)  # fmt: skip
_MORE = (
    _datagrams(
        "receiver_drops", "dropped since the receiver's socket buffer was full; `null` where the"
        " kernel can't report, as without a rate", "socket(7), `SO_RXQ_OVFL`",
        head="recv.\ndrops", digits=".0f", over_pairs="sum",
    ),
    _datagrams(
        "loss_longest", "the longest run of lost datagrams", "RFC 3357", over_pairs="worst"
    ),
    _share(
        "reordered_percent", "reordered", "came behind one that was sent later, of those that came",
        "RFC 4737, section 3", head="reord.\n%", digits=".2f",
    ),
    _datagrams(
        "reordering_extent_max", "the largest reordering extent, in arrivals",
        "RFC 4737, section 4.2", over_pairs="worst",
    ),
    _share(
        "duplicate_percent", "duplicate", "copies, of the datagrams that came", "RFC 5560",
        head="dup.\n%", digits=".2f",
    ),
    Measure(
        name="jitter_us", unit="us", better="lower", label="jitter", head="jitter\nµs",
        digits=".1f", over_pairs="mean",
        help="mean over the datagrams of the interarrival jitter", source="RFC 3550, section 6.4.1",
    ),
    _variation("p50", "50"),
    _variation("p99", "99"),
    _variation("p999", "99.9"),
    JAIN.model_copy(update={
        "help": "J = (sum x)² / (n · sum x²) over the goodputs x of the flows", "head": None}),
    Measure(
        name="send_refused", unit="1", better="neither", over_pairs="sum", least=1,
        help="datagrams that the sender's system had no buffer for (`ENOBUFS`); what its own"
        " queueing discipline drops it calls sent, so that is `lost`",
        source="send(2)",
    ),
    Measure(
        name="behind_max_us", unit="us", better="neither", label="behind max", over_pairs="worst",
        help="the most by which a datagram was behind its time", source="OSMeF",
    ),
    Measure(
        name="slipped_s", unit="s", better="neither", label="slipped", over_pairs="worst",
        help="by how much a sender's schedule was put off, since it was more than 10 ms late; the"
        " most of all flows",
        source="OSMeF",
    ),
    *CPU,
)  # fmt: skip
MEASURES = (*RATES, *_MORE)
"""Of flows in one direction."""

_HEADS = {"goodput_bps": "reverse\ngoodput", "loss_percent": "reverse\nloss\n%"}
BACK = {
    one.name: part(one, "reverse", "of the way back: ", head=_HEADS.get(one.name))
    for one in MEASURES
}
"""Of the way back, by the names of the way there."""

BOTH_WAYS = (*RATES, *BACK.values(), *_MORE)
"""Of flows in both directions."""


IN_SEARCH = (
    *FOUND,
    *(one.model_copy(update={"leading": False}) for one in RATES if one.name != "offered_bps"),
    *_MORE,
)
"""Measures of a rate search: its result, and those of the trial that confirmed it."""

_LOWEST_OF_HIGHEST = 1e-3
_LEAST_DATAGRAMS = 100


class SearchSettings(Model):
    """A search for the highest rate at which no more is lost than allowed."""

    loss: LossShare = Field(description="how much may be lost, as a share of what was sent")
    lowest: Rate | None = Field(
        default=None,
        ge=1,
        description="lowest rate of each connection that is tried; by default a thousandth of"
        " `rate`",
    )
    resolution: Share = Field(
        default=0.01,
        description="how far the rate that passed and the one that did not may be apart",
    )
    step: Duration = Field(
        default=2.0,
        ge=0.1,
        le=3600.0,
        description="how long a step is measured; both ends of the result are confirmed for"
        " `duration`",
    )
    rest: Duration = Field(
        default=1.0, ge=0, le=3600.0, description="pause between steps, in which queues empty"
    )
    most: int = Field(default=40, ge=3, le=1000, description="steps, found or not")


class UdpSettings(WorkloadSettings):
    """UDP at a rate: parallel flows of datagrams, timed, with one start."""

    kind: Literal["udp"] = Field(default="udp", description="the kind of workload")
    rate: Rate = Field(
        default=10e6,
        ge=0,
        le=1e13,
        description="payload rate of each connection; 0: as fast as it goes. With `search`, the"
        " highest that is tried",
    )
    search: SearchSettings | None = Field(
        default=None,
        description="look for the highest rate at which no more is lost than allowed (RFC 2544)",
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
        default=1.0,
        ge=0.01,
        le=3600.0,
        description="length of the intervals of the time series; of what is shorter it is one",
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
        default=None, ge=1024, le=2**30, description="socket buffers; by default the kernel's"
    )
    dscp: int | None = Field(
        default=None, ge=0, le=63, description="code point that marks the packets (RFC 2474)"
    )

    in_background: ClassVar = True
    between_agents: ClassVar = True
    lasting: ClassVar = ("duration", "warmup", "search")

    @property
    def bounds(self) -> Bounds | None:
        """The bounds of the search, as rates of one connection; None without a search."""
        if self.search is None:
            return None
        return Bounds(
            lowest_bps=self.search.lowest or _LOWEST_OF_HIGHEST * self.rate,
            highest_bps=self.rate,
            loss=self.search.loss,
            resolution=self.search.resolution,
            most=self.search.most,
        )

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield conflicts of the search."""
        if self.search is not None and scenario.background is not None:
            yield conflict(
                "a background ends after one step, and a search has many",
                "remove background, or search",
                *("background", "workload.search"),
            )

    @property
    def directions(self) -> Directions:
        """Which ways its data goes."""
        return self.direction.directions

    @model_validator(mode="after")
    def _search_has_an_end(self) -> UdpSettings:
        bounds, search = self.bounds, self.search
        if bounds is None or search is None:
            return self
        if "rate" not in self.model_fields_set or not self.rate:
            raise conflict(
                "a search begins at the highest rate, and there is none",
                "write rate, for example rate: 1Gbit/s; nothing faster is sent",
                *("search", "rate"),
            )
        if self.direction is TransferDirection.BOTH:
            raise conflict(
                "a rate is looked for in one direction",
                "write direction: forward or reverse, or sweep it",
                *("search", "direction"),
            )
        if bounds.lowest_bps >= bounds.highest_bps:
            raise conflict(
                "the lowest rate is not below the highest one",
                "write a lower search.lowest, or a higher rate",
                *("search.lowest", "rate"),
            )
        if search.step > self.duration:
            raise conflict(
                f"search.step is {search.step:g}s, longer than the duration of {self.duration:g}s,"
                " which confirms what steps found",
                "change search.step or duration",
                *("search.step", "duration"),
            )
        self._check_grain(bounds, search.step)
        return self

    def _check_grain(self, bounds: Bounds, step_s: float) -> None:
        """Raise where a single datagram decides at the lowest rate."""
        sent = bounds.lowest_bps * step_s / (8 * self.size)
        if sent < _LEAST_DATAGRAMS:
            enough = format_rate(_LEAST_DATAGRAMS * 8 * self.size / step_s)
            raise conflict(
                f"at the lowest rate a step sends {sent:.0f} datagrams, too few to measure a loss",
                f"write search.lowest: {enough} or more, a longer step, or smaller datagrams",
                *("search.lowest", "search.step", "size"),
            )


class UdpFlows(Workload[UdpSettings]):
    """n flows at a rate, each way in a job of its own."""

    Settings = UdpSettings

    def __init__(self, settings: UdpSettings, *, background: bool = False) -> None:
        super().__init__(settings, background=background)
        both = settings.direction is TransferDirection.BOTH
        self.measures = BOTH_WAYS if both else MEASURES
        self._bounds = settings.bounds
        if self._bounds is not None:
            self.measures = IN_SEARCH

    @property
    def _directions(self) -> tuple[Direction, ...]:
        return one_way_each(self._settings.direction)

    def parts(self) -> tuple[Part, ...]:
        """Return one part for each direction: the receiver listens, and the sender connects."""
        if self._bounds is not None:
            return self._next_search_trial([])
        return self._parts(self._settings.rate, self._settings.duration)

    def _parts(self, rate_bps: float, duration_s: float) -> tuple[Part, ...]:
        length = self._settings.warmup + duration_s
        count = self._settings.connections
        return tuple(
            Part(
                (
                    Step("receiver", "udp", keys, connections=count, listens=True, udp_ports=count),
                    Step("sender", "udp", keys, connections=count, udp_ports=count),
                ),
                duration_s=length,
            )
            for way in self._directions
            for keys in [self._parameters(way, rate_bps, duration_s)]
        )

    @property
    def pauses(self) -> tuple[float, ...]:
        """The pauses before further trial rates of a search, in which queues drain, in seconds."""
        search = self._settings.search
        return () if search is None else (search.rest,) * (search.most - 1)

    def again(self, pairs: Sequence[Sequence[PartResult]]) -> tuple[Part, ...]:
        """Return the next search trial; none at the end of the search."""
        return self._next_search_trial(self._steps(pairs))

    @property
    def further_s(self) -> Span:
        """The duration of further search trials: as many as a search needs without noise."""
        s, bounds = self._settings, self._bounds
        if s.search is None or bounds is None:
            return super().further_s
        outside = s.search.rest + s.warmup
        short, full = expected_trials(bounds)
        usual = (short - 1) * (outside + s.search.step) + full * (outside + s.duration)
        most = (bounds.most - 1) * (outside + s.duration)
        return Span(min(usual, most), most)

    @property
    def most_bytes(self) -> int | None:
        """The upper bound of a pair's payload in a trial; None without a rate."""
        s = self._settings
        seconds = s.warmup + s.duration
        if s.search is not None:
            further = s.search.most - 1
            seconds = s.warmup + s.search.step + further * (s.warmup + s.duration)
        ways = len(self._directions)
        return round(ways * s.rate * s.connections * seconds / 8) if s.rate else None

    def _next_search_trial(self, steps: Sequence[Sequence[Datagrams]]) -> tuple[Part, ...]:
        """Return the next search trial."""
        search, bounds = self._settings.search, self._bounds
        if search is None or bounds is None:
            return ()
        wanted = next_trial(bounds, trials_so_far(bounds, steps))
        if wanted is None:
            return ()
        length = self._settings.duration if wanted.is_full else search.step
        return self._parts(wanted.offered_bps, length)

    def _steps(self, pairs: Sequence[Sequence[PartResult]]) -> list[list[Datagrams]]:
        """Return the flows of all pairs by search trial."""
        (direction,) = self._directions
        return [
            [self._record(ran, Purpose.MEASURED, direction) for ran in step]
            for step in zip(*pairs, strict=True)
        ]

    def _parameters(
        self, direction: Direction, rate_bps: float, duration_s: float
    ) -> dict[str, Value]:
        s = self._settings
        wanted: dict[str, Value | None] = {
            "rate_bps": rate_bps,
            "size": s.size,
            "burst": s.burst,
            "duration_s": duration_s,
            "interval_s": min(s.interval, duration_s),
            "warmup_s": s.warmup,
            "loss_threshold_s": s.loss_threshold,
            "direction": direction.value,
            "window": s.window,
            "dscp": s.dscp,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def outcome(
        self,
        trial: int,  # noqa: ARG002 - no row of it is of a trial
        purpose: Purpose,
        pairs: Sequence[Sequence[PartResult]],
    ) -> Outcome:
        """Return a record of every part, and the metrics of each direction over all pairs."""
        if self._bounds is not None:
            return self._search(self._bounds, self._steps(pairs))
        metrics: dict[str, float | None] = {}
        datagrams: list[Datagrams] = []
        for number, direction in enumerate(self._directions):
            there = [self._record(parts[number], purpose, direction) for parts in pairs]
            found = datagram_metrics(there, self._settings.rate)
            metrics |= {BACK[name].name if number else name: v for name, v in found.items()}
            datagrams += there
        return Outcome(metrics, datagrams=datagrams)

    def _search(self, bounds: Bounds, steps: Sequence[Sequence[Datagrams]]) -> Outcome:
        """Return the search's result, and the metrics of its confirming search trial."""
        search = self._settings.search
        step_s = search.step if search is not None else 0.0
        found = search_result(bounds, steps, (step_s, self._settings.duration))
        metrics: dict[str, float | None] = dict.fromkeys(one.name for one in self.measures)
        at = best_trial(bounds, steps)
        if at is not None:
            usual = datagram_metrics(steps[at], self._settings.rate)
            metrics |= {name: value for name, value in usual.items() if name in metrics}
        metrics |= search_metrics(found, self._settings.size)
        return Outcome(metrics, datagrams=[one for step in steps for one in step], search=found)

    def _record(self, ran: PartResult, purpose: Purpose, direction: Direction) -> Datagrams:
        names = (ran.receiver, ran.sender)  # as the steps are
        sender: DatagramSender | None = None
        receiver: DatagramReceiver | None = None
        for name, result in zip(names, ran.results, strict=True):
            match result:
                case UdpSenderResult():
                    sender = _sender(name, result)
                case UdpReceiverResult():
                    receiver = _receiver(name, result)
        wanted = "sender" if direction is Direction.FORWARD else "receiver"
        if sender is None or receiver is None or getattr(ran.results[-1], "role", None) != wanted:
            raise AgentError(
                f"the agents did not send datagrams {direction.value}",
                where=f"{ran.sender} and {ran.receiver}",
                cure="use the agent that belongs to this version of osmef",
            )
        return Datagrams(
            purpose=purpose,
            direction=direction,
            size=self._settings.size,
            sender=sender,
            receiver=receiver,
        )


def datagram_metrics(records: Sequence[Datagrams], rate_bps: float) -> dict[str, float | None]:
    """Return the metrics of concurrent flows, over all flows of all pairs.

    - ``offered_bps`` is what was requested: the payload rate of a flow times their number; None
      without a rate. ``sent_bps`` is what was sent, ``goodput_bps`` what came.
    - ``datagrams_per_s`` is what came in datagrams: all of a flow are of one size.
    - ``loss_percent`` = 100 * lost / sent (RFC 7680). ``network_loss_percent`` is the same without
      ``receiver_drops``, those that the receiver's socket had no room for; both are None where the
      kernel does not distinguish them.
    - ``reordered_percent`` = 100 * reordered / received (RFC 4737, section 3.4), and
      ``duplicate_percent`` = 100 * duplicates / received (RFC 5560, replicated share).
    - ``jitter_us`` is the mean over all datagrams of the interarrival jitter (RFC 3550, section
      6.4.1); ``delay_variation_*`` are quantiles of the absolute differences of the one-way delays
      of datagrams sent one after the other (RFC 3393), right within the histogram's error.

    A share of 0 is None.
    """
    senders, receivers = [r.sender for r in records], [r.receiver for r in records]
    sending = [flow for end in senders for flow in end.flows]
    receiving = [flow for end in receivers for flow in end.flows]
    sent, lost = sum(f.sent for f in receiving), sum(f.lost for f in receiving)
    came = sum(f.datagrams for f in receiving)
    known = [f.dropped for f in receiving if f.dropped is not None]
    drops = sum(known) if len(known) == len(receiving) else None
    goodputs = [f.goodput_bps or 0.0 for f in receiving]
    jitters = [(f.jitter_us, f.datagrams) for f in receiving if f.jitter_us is not None]
    weight = sum(count for _, count in jitters)
    variation = merged([end.delay_variation for end in receivers])
    return {
        "offered_bps": rate_bps * len(receiving) if rate_bps else None,
        "sent_bps": sum(f.sent_bps or 0.0 for f in sending),
        "goodput_bps": sum(goodputs),
        "datagrams_per_s": sum(goodputs) / (8 * records[0].size),
        "loss_percent": _percent(lost, sent),
        "network_loss_percent": None if drops is None else _percent(max(0, lost - drops), sent),
        "receiver_drops": drops,
        "loss_longest": max(f.loss_longest for f in receiving),
        "reordered_percent": _percent(sum(f.reordered for f in receiving), came),
        "reordering_extent_max": max(f.reordering_extent_max for f in receiving),
        "duplicate_percent": _percent(sum(f.duplicates for f in receiving), came),
        "jitter_us": sum(j * n for j, n in jitters) / weight if weight else None,
        "delay_variation_p50_us": quantile_us(variation, 0.5),
        "delay_variation_p99_us": quantile_us(variation, 0.99),
        "delay_variation_p999_us": quantile_us(variation, 0.999),
        "jain_fairness": jain_fairness(goodputs),
        **_sending_metrics(sending),
        "cpu_sender_percent": _process_cpu(senders),
        "cpu_receiver_percent": _process_cpu(receivers),
        "endpoint_cpu_sender_percent": endpoint_cpu_percent((e.endpoint, e.host) for e in senders),
        "endpoint_cpu_receiver_percent": endpoint_cpu_percent(
            (e.endpoint, e.host) for e in receivers
        ),
    }


def _sending_metrics(flows: Sequence[SendingFlow]) -> dict[str, float | None]:
    return {
        "send_refused": sum(f.send_refused for f in flows),
        "behind_max_us": max(f.behind_max_us for f in flows),
        "slipped_s": max(f.slipped_s for f in flows),
    }


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _process_cpu(ends: Sequence[DatagramSender] | Sequence[DatagramReceiver]) -> float | None:
    """Return the CPU time of the threads that move datagrams, in percent of one CPU."""
    if any(end.elapsed_s <= 0 for end in ends):
        return None
    return sum(
        100 * (flow.cpu_user_s + flow.cpu_system_s) / end.elapsed_s
        for end in ends
        for flow in end.flows
    )


def _sender(name: str, result: UdpSenderResult) -> DatagramSender:
    return DatagramSender(
        endpoint=name,
        start_realtime_ns=result.start_realtime_ns,
        elapsed_s=result.elapsed_s,
        refused=result.refused,
        flows=result.flows,
        process=result.process,
        host=result.endpoint,
    )


def _receiver(name: str, result: UdpReceiverResult) -> DatagramReceiver:
    return DatagramReceiver(
        endpoint=name,
        start_realtime_ns=result.start_realtime_ns,
        elapsed_s=result.elapsed_s,
        refused=result.refused,
        flows=result.flows,
        delay_variation=result.histogram,
        process=result.process,
        host=result.endpoint,
    )
