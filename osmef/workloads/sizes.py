"""Size sweep: how long messages take, from small ones to large ones (NetPIPE)."""

from __future__ import annotations

from collections.abc import Sequence

from osmef.agent.messages import PointEvent, SizesResult
from osmef.analysis.sweep import half_performance_length, shortest_times, total_rates
from osmef.errors import AgentError
from osmef.results.exchange import Purpose, SizePoint
from osmef.scenario.workload import SizeSweepSettings, SweepMode
from osmef.workloads.base import Outcome, Part, Ran, Step, Value, Workload

# Before its trials a size is measured briefly, to learn how often to repeat it; and each batch of
# messages is announced.
_TIME_FACTOR = 1.5
_TIME_SPARE_S = 5.0


class SizeSweep(Workload):
    """Messages of growing sizes on each connection, all connections in step."""

    metrics = ("latency_min_us", "throughput_max_bps", "n_half_bytes", "sizes_measured")

    def __init__(self, settings: SizeSweepSettings) -> None:
        self._settings = settings

    def parts(self) -> tuple[Part, ...]:
        """Return one part; the receiver answers."""
        settings = self._settings
        duration = settings.duration
        if duration is None:
            sizes = count_sizes(settings.min, settings.max, settings.perturbation)
            duration = _TIME_FACTOR * sizes * settings.point + _TIME_SPARE_S
        parameters: dict[str, Value] = {
            "flows": settings.connections,
            "duration_s": duration,
            "min_size": settings.min,
            "max_size": settings.max,
            "perturbation": settings.perturbation,
            "mode": settings.mode.value,
            "point_s": settings.point,
            "check": settings.check,
        }
        answer = Step("receiver", "sizes", parameters, listens=True)
        ask = Step("sender", "sizes", parameters)
        return (Part((answer, ask), duration_s=duration),)

    def outcome(self, trial: int, purpose: Purpose, pairs: Sequence[Sequence[Ran]]) -> Outcome:  # noqa: ARG002 - no row of it is of a trial
        """Make a point of every size on every connection; the metrics are over all of them."""
        points = [point for (ran,) in pairs for point in self._points(purpose, ran)]
        return Outcome(sweep_metrics(points, self._settings.mode), sizes=points)

    def _points(self, purpose: Purpose, ran: Ran) -> list[SizePoint]:
        result = ran.results[-1]
        if not isinstance(result, SizesResult) or not ran.points:
            raise AgentError(
                "the sweep measured no size",
                where=ran.sender,
                cure="give it a longer duration, or a smaller max",
            )
        return [
            self._point(purpose, ran, event, flow)
            for event in ran.points
            for flow in range(len(event.time_min_us))
        ]

    def _point(self, purpose: Purpose, ran: Ran, event: PointEvent, flow: int) -> SizePoint:
        mode = self._settings.mode
        ways = 2 if mode is SweepMode.BOTH else 1
        return SizePoint(
            purpose=purpose,
            sender=ran.sender,
            receiver=ran.receiver,
            flow=flow,
            mode=mode,
            checked=self._settings.check,
            size=event.size,
            repetitions=event.repetitions,
            trials=event.trials,
            time_min_us=event.time_min_us[flow],
            time_median_us=event.time_median_us[flow],
            time_max_us=event.time_max_us[flow],
            throughput_bps=ways * 8 * event.size / (event.time_median_us[flow] / 1e6),
        )


def count_sizes(low: int, high: int, perturbation: int) -> int:
    """Return how many sizes a sweep has at most: three for each half step of an octave."""
    half_steps = 2 * (high.bit_length() - low.bit_length() + 1)
    return 2 + half_steps * (3 if perturbation else 1)


def sweep_metrics(points: Sequence[SizePoint], mode: SweepMode) -> dict[str, float | None]:
    """Return the metrics of sweeps that ran together.

    ``latency_min_us`` is the shortest time of the smallest message on any connection, in a
    ping-pong only; ``throughput_max_bps`` the highest of all connections at one size,
    ``n_half_bytes`` the size from which on half of that is reached.
    """
    rates = total_rates(points)
    latency, *_ = shortest_times(points).values()
    return {
        "latency_min_us": latency if mode is SweepMode.PINGPONG else None,
        "throughput_max_bps": max(rates.values()),
        "n_half_bytes": half_performance_length(rates),
        "sizes_measured": float(len(rates)),
    }
