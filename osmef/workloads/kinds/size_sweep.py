"""Size sweep: how long messages take, from small ones to large ones (NetPIPE)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field, model_validator

from osmef.agent.messages import PointEvent, SizesResult
from osmef.analysis.throughput import half_performance_length, shortest_times, total_rates
from osmef.errors import AgentError
from osmef.results.measure import Measure
from osmef.results.observations import Purpose, SizePoint, SweepMode
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration, Size
from osmef.scenario.workload import Directions, WorkloadSettings, check_ascending
from osmef.units import format_size
from osmef.workloads.base import Outcome, Part, PartResult, Step, Value, Workload

# Before its trials a size is measured briefly, to learn how often to repeat it; and each batch of
# messages is announced.
_TIME_FACTOR = 2.0
_TIME_SPARE_S = 5.0


# What the agent maps at most for the messages of a size sweep, bytes.
_MOST_MEMORY = 2**31
_PAGE = 4096


MEASURES = (
    Measure(
        name="latency_min_us", unit="us", better="lower", label="latency min",
        head="smallest\nmessage\nµs", digits=".1f", over_pairs="pooled",
        help="shortest time of the smallest message on any connection; only with `mode: pingpong`,"
        " where it is half a round trip",
        source="NetPIPE",
    ),
    Measure(
        name="throughput_max_bps", unit="bit/s", better="higher", label="throughput max",
        head="highest\nthroughput", over_pairs="pooled", leading=True,
        help="highest throughput at one size, of all connections together: of each pair their"
        " number times the rate of the slowest one, since all is moved when that is done; the"
        " median of a size's trials counts",
        source="NetPIPE",
    ),
    Measure(
        name="n_half_bytes", unit="B", better="lower", label="n half", head="half of it\nfrom B",
        digits=".0f", over_pairs="pooled",
        help="size from which on half of that is reached, between two measured ones; null where the"
        " smallest is that fast",
        source="Hockney, *The communication challenge for MPP*, 1994",
    ),
    Measure(
        name="sizes_measured", unit="1", better="neither", head="sizes", digits=".0f",
        over_pairs="pooled", help="sizes that all connections measured", source="OSMeF",
    ),
)  # fmt: skip
"""Of size sweeps."""


_DIRECTIONS = {
    SweepMode.PINGPONG: Directions.IN_TURNS,
    SweepMode.STREAM: Directions.ONE,
    SweepMode.BOTH: Directions.AT_ONCE,
}


class SizeSweepSettings(WorkloadSettings):
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
        description="how long at most: no size is begun that would end later; by default"
        " twice what its sizes need, and 5 s",
    )
    connections: int = Field(
        default=1, ge=1, le=1000, description="parallel TCP connections of each pair"
    )
    check: bool = Field(default=False, description="compare what arrives with what was sent")

    @property
    def directions(self) -> Directions:
        """Which ways its data goes: of ping-pong in turns."""
        return _DIRECTIONS[self.mode]

    @property
    def sizes(self) -> list[int]:
        """The sizes of its messages, in order."""
        return sweep_sizes(self.min, self.max, self.perturbation)

    def warnings_from_metrics(self, metrics: Mapping[str, float | None]) -> Iterator[str]:
        """Warn where there was no time for the largest messages."""
        measured = metrics.get("sizes_measured")
        if measured is not None and measured < len(self.sizes):
            yield (
                f"size sweeps had no time for all of their {len(self.sizes)} sizes: the highest"
                " throughput, and where half of it is reached, are of the smaller ones alone; make"
                " duration longer, or point or max smaller"
            )

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
        check_ascending(self.min, self.max)
        return self


class SizeSweep(Workload[SizeSweepSettings]):
    """Messages of growing sizes on each connection, in step."""

    Settings = SizeSweepSettings

    measures = MEASURES

    def __init__(self, settings: SizeSweepSettings, *, background: bool = False) -> None:
        super().__init__(settings, background=background)

    def parts(self) -> tuple[Part, ...]:
        """Return one part; the receiver answers."""
        settings = self._settings
        duration = settings.duration
        if duration is None:
            duration = _TIME_FACTOR * len(settings.sizes) * settings.point + _TIME_SPARE_S
        parameters: dict[str, Value] = {
            "duration_s": duration,
            "min_size": settings.min,
            "max_size": settings.max,
            "perturbation": settings.perturbation,
            "mode": settings.mode.value,
            "point_s": settings.point,
            "check": settings.check,
        }
        count = settings.connections
        answer = Step("receiver", "sizes", parameters, connections=count, listens=True)
        ask = Step("sender", "sizes", parameters, connections=count)
        return (Part((answer, ask), duration_s=duration),)

    def outcome(
        self,
        trial: int,  # noqa: ARG002 - no row of it is of a trial
        purpose: Purpose,
        pairs: Sequence[Sequence[PartResult]],
    ) -> Outcome:
        """Return a point of every size on every connection, and metrics over all of them."""
        points = [point for (ran,) in pairs for point in self._points(purpose, ran)]
        return Outcome(sweep_metrics(points, self._settings.mode), sizes=points)

    def _points(self, purpose: Purpose, ran: PartResult) -> list[SizePoint]:
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

    def _point(self, purpose: Purpose, ran: PartResult, event: PointEvent, flow: int) -> SizePoint:
        mode = self._settings.mode
        bits = (2 if mode is SweepMode.BOTH else 1) * 8 * event.size
        connections = self._settings.connections
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
            throughput_bps=bits / (event.time_median_us[flow] / 1e6),
            pair_throughput_bps=connections * bits / (event.time_slowest_us / 1e6),
        )


def sweep_sizes(low: int, high: int, perturbation: int) -> list[int]:
    """Return the sizes of a sweep in order, as the agent plans them and NetPIPE does."""
    powers = [2**n for n in range(1, (high + perturbation).bit_length())]
    steps = [(1, 1), *((power + more, power // 2) for power in powers for more in (0, power // 2))]
    sizes = {low, high}
    for size, step in steps:
        by = perturbation if step > 2 * perturbation else 0
        sizes |= {size - by, size, size + by}
    return sorted(size for size in sizes if low <= size <= high)


def sweep_metrics(points: Sequence[SizePoint], mode: SweepMode) -> dict[str, float | None]:
    """Return the metrics of concurrent sweeps.

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
