"""Latency: requests and responses one after the other on one connection, idle and under load."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from osmef.agent.messages import ExchangeResult
from osmef.errors import AgentError
from osmef.results.exchange import Exchange, Histogram, Phase, Purpose, RoundTrips
from osmef.scenario.workload import LatencySettings
from osmef.workloads.base import Outcome, Part, Ran, Step, Value, Workload

_TIMES = (
    "rtt_min_us",
    "rtt_mean_us",
    "rtt_p50_us",
    "rtt_p90_us",
    "rtt_p99_us",
    "rtt_p999_us",
    "rtt_max_us",
)
_METRICS = (*_TIMES, "exchanges_per_s")


class Latency(Workload):
    """A request-response flow. With a background it runs twice: alone, and then beside it."""

    def __init__(self, settings: LatencySettings, *, background: bool) -> None:
        self._settings = settings
        self._phases = (Phase.IDLE, Phase.LOADED) if background else (Phase.IDLE,)
        self.metrics = _METRICS
        if background:
            named = (f"{phase.value}_{name}" for phase in self._phases for name in _METRICS)
            self.metrics = (*named, "latency_increase_ratio")

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
            metrics |= {f"{prefix}{name}": v for name, v in exchange_metrics(there).items()}
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
    found = {f"rtt_{name}": value for name, value in times if name.endswith("_us")}
    rate = sum(one.count / one.elapsed_s for one in exchanges if one.elapsed_s > 0)
    return {**{name: found[name] for name in _TIMES}, "exchanges_per_s": rate}


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
