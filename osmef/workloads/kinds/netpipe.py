"""NetPIPE: ping-pong of messages of growing sizes over TCP, by its program NPtcp."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from osmef.analysis.throughput import half_performance_length
from osmef.formats.netpipe import Point, read
from osmef.results.measure import Better, Measure, OverPairs
from osmef.results.observations import Purpose, SizePoint, SweepMode
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration, Family, Size
from osmef.scenario.workload import Directions
from osmef.supply.compiler import PROTOCOLS_SHIM
from osmef.supply.program import Program
from osmef.units import format_size
from osmef.workloads.base import Outcome, Ran
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import Tool, options

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario

_SOURCE = "Snell and others, *NetPIPE*, 1996"


class NetpipeSettings(ProgramsSettings):
    """NetPIPE: messages of growing sizes, there and back, until one takes a second."""

    kind: Literal["netpipe"] = Field(default="netpipe", description="the kind of workload")
    duration: Duration = Field(
        default=60.0, ge=1, le=86400.0,
        description="how long a trial is expected to run: about 0.5 s for each size",
    )  # fmt: skip
    min: Size = Field(default=1, ge=1, le=2**30, description="smallest message (-l)")
    max: Size = Field(default=2**20, ge=1, le=2**30, description="largest message (-u)")
    perturbation: Size = Field(
        default=3, ge=0, le=2**20,
        description="each size is measured this much smaller and larger (-p)",
    )  # fmt: skip
    repetitions: int | None = Field(
        default=None, ge=1, le=10**6,
        description="of each size in each of its trials (-n); by default as many as fit into 0.1 s",
    )  # fmt: skip
    window: Size | None = Field(default=None, ge=1, description="socket buffers (-b)")

    in_background: ClassVar = False

    @property
    def directions(self) -> Directions:
        """Which ways its data goes: in ping-pong."""
        return Directions.of_messages(self.max)

    @model_validator(mode="after")
    def _sizes_ascend(self) -> NetpipeSettings:
        if self.min > self.max:
            raise conflict(
                "the smallest message is larger than the largest",
                f"give a max of at least {format_size(self.min)}",
                *("min", "max"),
            )
        return self

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield the conflict with IPv6."""
        if scenario.family is Family.IPV6:
            cure = "write family: ipv4, or kind: size-sweep, which measures the same"
            yield conflict("NPtcp has no IPv6", cure, *("workload.kind", "family"))


class Netpipe(Tool[NetpipeSettings]):
    """NPtcp at both ends, with the same options."""

    Settings = NetpipeSettings
    example = "workload: {kind: netpipe, max: 64kB, duration: 60s}"
    programs = (Program("NPtcp", package="netpipe-tcp", shim=PROTOCOLS_SHIM),)
    told = (
        Measure(
            name="throughput_max_bps", unit="bit/s", better=Better.HIGHER,
            label="throughput max", head="highest\nthroughput", over_pairs=OverPairs.SUM,
            leading=True, help="highest throughput at one size; summed over the pairs",
            source=_SOURCE,
        ),
        Measure(
            name="latency_min_us", unit="us", better=Better.LOWER, label="latency min",
            head="smallest\nmessage\nµs", digits=".1f", over_pairs=OverPairs.WORST, leading=True,
            help="time of the smallest message, half of a round trip, the shortest of its trials",
            source=_SOURCE,
        ),
        Measure(
            name="n_half_bytes", unit="B", better=Better.LOWER, label="n half",
            head="half of it\nfrom B", digits=".0f", over_pairs=OverPairs.WORST,
            help="size from which on half of the highest throughput is reached; null where the"
            " smallest is that fast",
            source="Hockney, *The communication challenge for MPP*, 1994",
        ),
        Measure(
            name="sizes_measured", unit="1", better=Better.NEITHER, head="sizes", digits=".0f",
            over_pairs=OverPairs.WORST, help="how many sizes were measured", source=_SOURCE,
        ),
    )  # fmt: skip

    def runs(self) -> Sequence[ProgramRun]:
        """Return both ends; the starting one also prints its result file."""
        s = self._settings
        both = options(
            {
                "-P": "{port}",
                "-l": s.min,
                "-u": s.max,
                "-p": s.perturbation,
                "-n": s.repetitions,
                "-b": s.window,
            }
        )
        return (
            ProgramRun(on=Where.RECEIVER, argv=["NPtcp", *both, "-o", "/dev/null"], ready="port"),
            ProgramRun(on=Where.SENDER, argv=["NPtcp", "-h", "{peer}", *both, "-o", "/dev/stdout"]),
        )

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the sizes, and the best values."""
        points = _points(ended)
        rates = {point.size_bytes: point.bps for point in points}
        return {
            "throughput_max_bps": max(rates.values()),
            "latency_min_us": min(points, key=lambda point: point.size_bytes).time_us,
            "n_half_bytes": half_performance_length(rates),
            "sizes_measured": float(len(rates)),
        }

    def outcome(self, trial: int, purpose: Purpose, pairs: Sequence[Sequence[Ran]]) -> Outcome:
        """Return the outcome with every size."""
        sizes = [
            SizePoint(
                purpose=purpose,
                sender=part.sender,
                receiver=part.receiver,
                flow=0,
                mode=SweepMode.PINGPONG,
                checked=False,
                size=point.size_bytes,
                repetitions=point.times,
                trials=None,
                time_min_us=point.time_us,
                time_median_us=None,
                time_max_us=None,
                throughput_bps=point.bps,
            )
            for (part,) in pairs
            for point in _points(list(self._ended([part])))
        ]
        return replace(super().outcome(trial, purpose, pairs), sizes=sizes)


def _points(ended: Sequence[EndedProgram]) -> Sequence[Point]:
    return read(ended[-1].printed.text_of_stdout).points
