"""NetPIPE: ping-pong of messages of growing sizes over TCP, by its program NPtcp.

Source: Snell, Mikler, Gustafson, "NetPIPE: A Network Protocol Independent Performance Evaluator",
1996, and version 3.7.2. Mbps there are 2^20 bits/s; the time is that of one message, half of a
round trip, in seconds (np.out) or microseconds (printed), the shortest of its trials.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from osmef.analysis.throughput import half_performance_length
from osmef.errors import OutputError
from osmef.formats import MEBI, Odd, Outputs, failed, number, only, positive, shows_tail, whole
from osmef.results.measure import Better, Measure, OverPairs
from osmef.results.observations import Purpose, SizePoint, SweepMode
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration, Family, Size
from osmef.scenario.workload import Directions, check_ascending
from osmef.supply.compiler import PROTOCOLS_SHIM
from osmef.supply.program import Program
from osmef.workloads.base import Outcome, PartResult
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import Tool, options

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario

_SAVED = re.compile(r"\s*([0-9]+)\s+([0-9.]+)\s+([0-9.]+)\s*", re.ASCII)
_PRINTED = re.compile(
    r"\s*[0-9]+:\s+([0-9]+) bytes\s+([0-9]+) times -->\s+([0-9.]+) Mbps in\s+([0-9.]+) usec\s*",
    re.ASCII,
)
_CUT = re.compile(
    r"(?:\s*[0-9]+:\s+[0-9]+ bytes\s+[0-9]+ times -->\s*)?(?:NetPIPE: (error .*))?", re.ASCII
)
_TOLERANCE = 0.02
_ROUNDED = 0.005 * MEBI  # of printed rates, which have two decimals


@dataclass(frozen=True)
class Point:
    """One message size: time of a message, and the rate of both directions together.

    ``times`` is how often it was sent, where that was printed.
    """

    line: int
    size_bytes: int
    time_us: float
    bps: float
    times: int | None


@dataclass(frozen=True)
class NetpipeOutput:
    """A sweep over message sizes. ``both_ways`` is bidirectional mode (-2).

    That is None for np.out, which does not record it. ``error`` is why the sweep did not finish.
    """

    points: tuple[Point, ...]
    both_ways: bool | None
    error: str | None


@shows_tail
def read(text: str) -> NetpipeOutput:
    """Read one whole sweep. Raises OutputError."""
    sweep = only(read_all(text), "NetPIPE")
    if sweep.error is not None:
        raise failed("NetPIPE", sweep.error)
    return sweep


def read_all(text: str) -> Outputs[NetpipeOutput]:
    """Read one sweep; invalid lines are odd. Raises OutputError without any valid line.

    Whether both ways were used at once shows in the highest rate that was printed; a rate below 1
    Mbps, which has two decimals, is taken from the size and the time. np.out does not record
    streaming (-s), and has twice the size with -2.
    """
    points, odd = _points(text)
    if not points:
        raise OutputError("there is no line of NetPIPE in it: bytes, Mbps and seconds", line=1)
    printed = [point for point in points if point.times is not None]
    both = _both_ways(max(printed, key=lambda point: point.bps)) if printed else None
    exact = []
    for point in points:
        ways = 2 if point.times is not None and both else 1
        wanted = ways * 8e6 * point.size_bytes / point.time_us
        rounded = 0.0 if point.times is None else _ROUNDED
        if abs(point.bps - wanted) > _TOLERANCE * wanted + rounded:
            odd.append(Odd(point.line, "the rate is not the size over the time", kept=True))
        rough = point.times is not None and point.bps < MEBI
        exact.append(replace(point, bps=wanted) if rough else point)
    return Outputs((NetpipeOutput(tuple(exact), both, _error(text)),), tuple(odd))


def _error(text: str) -> str | None:
    """Return the error of a sweep that ended within a message size."""
    cut = _CUT.fullmatch(text.rstrip().rpartition("\n")[2])
    return None if cut is None else cut[1] or "the sweep did not come to its end"


def _points(text: str) -> tuple[list[Point], list[Odd]]:
    found: list[Point] = []
    odd: list[Odd] = []
    for line, content in enumerate(text.splitlines(), start=1):
        try:
            point = _point(content, line)
        except OutputError as error:
            odd.append(Odd(line, error.message))
            continue
        if point is not None:
            found.append(point)
        elif not (not found or content.startswith("Completed") or _CUT.fullmatch(content.rstrip())):
            odd.append(Odd(line, "this line is no message size"))
    return found, odd


def _point(content: str, line: int) -> Point | None:
    saved, printed = _SAVED.fullmatch(content), _PRINTED.fullmatch(content)
    if saved:
        size, rate, time_us = saved[1], saved[2], 1e6 * positive(saved[3], "the time")
        times = None
    elif printed:
        size, rate, time_us = printed[1], printed[3], positive(printed[4], "the time")
        times = whole(printed[2], "the number of times")
    else:
        return None
    known = number if printed else positive  # a printed one may be rounded to 0.00
    bps = MEBI * known(rate, "the rate")
    return Point(line, int(positive(size, "the size")), time_us, bps, times)


def _both_ways(point: Point) -> bool:
    """Return whether it is bidirectional, by a line with a rate of several digits."""
    return point.bps * point.time_us > 1.5 * 8e6 * point.size_bytes


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
        check_ascending(self.min, self.max)
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
    output_measures = (
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
        points = _read_points(ended)
        rates = {point.size_bytes: point.bps for point in points}
        return {
            "throughput_max_bps": max(rates.values()),
            "latency_min_us": min(points, key=lambda point: point.size_bytes).time_us,
            "n_half_bytes": half_performance_length(rates),
            "sizes_measured": float(len(rates)),
        }

    def outcome(
        self, trial: int, purpose: Purpose, pairs: Sequence[Sequence[PartResult]]
    ) -> Outcome:
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
            for point in _read_points(list(self._ended([part])))
        ]
        return replace(super().outcome(trial, purpose, pairs), sizes=sizes)


def _read_points(ended: Sequence[EndedProgram]) -> Sequence[Point]:
    return read(ended[-1].printed.text_of_stdout).points
