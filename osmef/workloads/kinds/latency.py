"""Latency: requests and responses one after the other on one connection, idle and under load."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from osmef.agent.messages import ExchangeResult
from osmef.errors import AgentError
from osmef.results.exchange import Exchange, Histogram, Phase, Purpose, RoundTrips
from osmef.results.measure import Measure, part
from osmef.scenario.fields import Duration, Size
from osmef.scenario.workload import WorkloadSettings, without_background
from osmef.workloads.base import Outcome, Part, Ran, Step, Value, Workload

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario

_SOURCE = "RFC 2681 for the round trip, here of a payload over TCP"
_QUANTILE_SOURCE = "Hyndman and Fan, *Sample Quantiles in Statistical Packages*, 1996, definition 1"


def _time(what: str, told: str, source: str, **more: object) -> Measure:
    """Return the measure of a time from request to response, of all pairs together."""
    return Measure(
        name=f"rtt_{what}_us", unit="us", better="lower", label=f"RTT {what}", help=told,
        source=source, over_pairs="pooled", **more,
    )  # fmt: skip


def _quantile(what: str, percent: str, **more: object) -> Measure:
    told = f"{percent} % of the times from a request to its response are not longer, within the"
    told += " `error_percent` of the histogram"
    return _time(what, told, _QUANTILE_SOURCE, **more)


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
    name="exchanges_per_s", unit="1/s", better="higher", label="exchanges", head="done\n/s",
    digits=".0f", over_pairs="sum",
    help="exchanges divided by the time that they took, summed over the pairs", source="OSMeF",
)  # fmt: skip
INCREASE = Measure(
    name="latency_increase_ratio", unit="1", better="lower", head="ratio of\nmedians",
    digits=".1f", over_pairs="pooled", help="the loaded median divided by the idle one",
    source="OSMeF",
)  # fmt: skip
LATE = Measure(
    name="late_percent", unit="%", better="lower", head="late\n%", digits=".1f",
    over_pairs="pooled",
    help="of the requests that were due at the `rate`, those that had to wait for the response"
    " before them, or were never sent. Their waiting is in the times: a rate that can't be kept"
    " shows as long round trips",
    source="G. Tene, *How NOT to Measure Latency*, 2013: coordinated omission",
)  # fmt: skip
MEASURES = (*TIMES, EXCHANGES)
"""Of exchanges without a background, as fast as they go."""

_TOLD = {Phase.IDLE: "before the background began: ", Phase.LOADED: "while it ran: "}
_BELOW = {"rtt_p50_us": "p50\nµs", "rtt_p99_us": "p99\nµs"}


def _in_phase(measure: Measure, phase: Phase, below: str | None = None) -> Measure:
    """Return a measure of one of two phases, of which the one under load counts.

    What stands ``below`` the phase is the head of its column.
    """
    return part(
        measure, phase.value, _TOLD[phase],
        head=None if below is None else f"{phase.value}\n{below}",
        leading=measure.leading and phase is Phase.LOADED,
    )  # fmt: skip


BESIDE = (
    *(_in_phase(one, phase, _BELOW.get(one.name)) for phase in Phase for one in TIMES),
    INCREASE,
    _in_phase(EXCHANGES, Phase.IDLE),
    _in_phase(EXCHANGES, Phase.LOADED, "done\n/s"),
)
"""Of exchanges beside a background, and before it."""


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
    size: Size = Field(
        default=1, ge=1, le=2**30, description="payload of a request, and of its response"
    )
    rate: float | None = Field(
        default=None,
        ge=0.001,
        le=1e6,
        description="requests per second; by default the next one follows the response at once",
    )

    interval: Duration = Field(
        default=1.0,
        ge=0.01,
        le=3600.0,
        description="length of the intervals of the time series; of what is shorter it is one",
    )

    in_background: ClassVar = True
    lasting: ClassVar = ("duration", "idle")

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Say that what is measured before a background needs one."""
        if "idle" in self.model_fields_set and scenario.background is None:
            yield without_background("workload.idle")


class Latency(Workload[LatencySettings]):
    """A request-response flow. With a background it runs twice: alone, and then beside it."""

    Settings = LatencySettings

    def __init__(self, settings: LatencySettings, *, background: bool = False) -> None:
        super().__init__(settings, background=background)
        self._phases = (Phase.IDLE, Phase.LOADED) if background else (Phase.IDLE,)
        rated = settings.rate is not None
        phases = [_in_phase(LATE, phase, "late\n%") for phase in Phase] if background else [LATE]
        self.measures = (*(BESIDE if background else MEASURES), *(phases if rated else ()))

    def parts(self) -> tuple[Part, ...]:
        """Return one part for each phase; the receiver answers."""
        return tuple(self._part(phase) for phase in self._phases)

    def _part(self, phase: Phase) -> Part:
        alone = phase is Phase.IDLE and len(self._phases) > 1
        duration = self._settings.idle if alone else self._settings.duration
        parameters: dict[str, Value] = {
            "flows": 1,
            "duration_s": duration,
            "request_size": self._settings.size,
            "response_size": self._settings.size,
            "interval_s": min(self._settings.interval, duration),
        }
        if self._settings.rate is not None:
            parameters["rate_per_s"] = self._settings.rate
        answer = Step("receiver", "exchange", parameters, listens=True)
        ask = Step("sender", "exchange", parameters)
        return Part((answer, ask), duration_s=duration, loaded=not alone)

    def outcome(self, trial: int, purpose: Purpose, pairs: Sequence[Sequence[Ran]]) -> Outcome:  # noqa: ARG002 - no row of it is of a trial
        """Make an exchange of every part; the metrics of a phase are over all pairs."""
        metrics: dict[str, float | None] = {}
        exchanges: list[Exchange] = []
        for number, phase in enumerate(self._phases):
            # What runs as a background itself always has other traffic beside it.
            seen = Phase.LOADED if purpose is Purpose.BACKGROUND else phase
            there = [self._exchange(parts[number], purpose, seen) for parts in pairs]
            prefix = f"{phase.value}_" if len(self._phases) > 1 else ""
            found = exchange_metrics(there)
            if self._settings.rate is not None:
                found["late_percent"] = late_percent(there)
            metrics |= {f"{prefix}{name}": value for name, value in found.items()}
            exchanges += there
        if len(self._phases) > 1:
            idle, loaded = metrics["idle_rtt_p50_us"], metrics["loaded_rtt_p50_us"]
            metrics["latency_increase_ratio"] = loaded / idle if idle and loaded else None
        return Outcome(metrics, exchanges=exchanges)

    def _exchange(self, ran: Ran, purpose: Purpose, phase: Phase) -> Exchange:
        result = ran.results[-1]
        if not isinstance(result, ExchangeResult) or result.histogram is None:
            raise AgentError("the agent gave no times", where=ran.sender)
        return Exchange(
            purpose=purpose,
            phase=phase,
            sender=ran.sender,
            receiver=ran.receiver,
            size=self._settings.size,
            count=result.count,
            elapsed_s=result.elapsed_s,
            late=result.late,
            unsent=result.unsent,
            rtt=round_trips(
                result.histogram, _us(result.min_ns), _us(result.mean_ns), _us(result.max_ns)
            ),
        )


def round_trips(
    histogram: Histogram, low_us: float | None, mean_us: float | None, high_us: float | None
) -> RoundTrips:
    """Return the distribution of times: the histogram's quantiles, within what was really seen."""
    p50, p90, p99, p999 = (_within(quantile_us(histogram, q), low_us, high_us) for q in _QUANTILES)
    return RoundTrips(
        min_us=low_us,
        mean_us=mean_us,
        p50_us=p50,
        p90_us=p90,
        p99_us=p99,
        p999_us=p999,
        max_us=high_us,
        histogram=histogram,
    )


_QUANTILES = (0.5, 0.9, 0.99, 0.999)


def quantile_us(histogram: Histogram, q: float) -> float | None:
    """Return the q-quantile in microseconds: the middle of the bucket that holds it.

    It is the smallest value that at least a share q of all do not exceed (the inverse of the
    empirical distribution function; Hyndman and Fan, "Sample Quantiles in Statistical Packages",
    The American Statistician 50, 1996, definition 1), right within the histogram's error. None
    without any value.
    """
    rank = max(1, math.ceil(q * sum(histogram.count)))
    seen = 0
    for lower, upper, count in zip(
        histogram.lower_ns, histogram.upper_ns, histogram.count, strict=True
    ):
        seen += count
        if seen >= rank:
            return (lower + upper) / 2 / 1000
    return None


def _within(value: float | None, low: float | None, high: float | None) -> float | None:
    if value is None or low is None or high is None:
        return value
    return min(max(value, low), high)


def exchange_metrics(exchanges: Sequence[Exchange]) -> dict[str, float | None]:
    """Return the metrics of exchanges that ran together, one for each pair of endpoints.

    Times are of all pairs together: quantiles of the sum of their histograms, whose buckets are
    alike. ``exchanges_per_s`` is the sum over the pairs of count over time.
    """
    total = sum(one.count for one in exchanges)
    means = [(one.rtt.mean_us, one.count) for one in exchanges]
    weighted = [mean * count for mean, count in means if mean is not None]
    times = round_trips(
        merged([one.rtt.histogram for one in exchanges]),
        min((one.rtt.min_us for one in exchanges if one.rtt.min_us is not None), default=None),
        sum(weighted) / total if total else None,
        max((one.rtt.max_us for one in exchanges if one.rtt.max_us is not None), default=None),
    )
    found = times.model_dump(exclude={"histogram"})
    rate = sum(one.count / one.elapsed_s for one in exchanges if one.elapsed_s > 0)
    return {**{f"rtt_{name}": value for name, value in found.items()}, "exchanges_per_s": rate}


def late_percent(exchanges: Sequence[Exchange]) -> float | None:
    """Return which share of the requests that were due at a rate were late or never sent.

    In percent, over all pairs; None where none was due, or an agent did not tell.
    """
    told = [(one.count, one.late, one.unsent) for one in exchanges]
    due = sum(count + (unsent or 0) for count, _, unsent in told)
    if not due or any(late is None or unsent is None for _, late, unsent in told):
        return None
    return 100 * sum((late or 0) + (unsent or 0) for _, late, unsent in told) / due


def merged(histograms: Sequence[Histogram]) -> Histogram:
    """Return the sum of histograms whose buckets are alike."""
    buckets: Counter[tuple[int, int]] = Counter()
    for one in histograms:
        for lower, upper, count in zip(one.lower_ns, one.upper_ns, one.count, strict=True):
            buckets[lower, upper] += count
    ordered = sorted(buckets)
    return Histogram(
        error_percent=max((one.error_percent for one in histograms), default=0.0),
        lower_ns=[lower for lower, _ in ordered],
        upper_ns=[upper for _, upper in ordered],
        count=[buckets[bucket] for bucket in ordered],
    )


def _us(ns: float | None) -> float | None:
    return None if ns is None else ns / 1000
