"""External programs defined by a scenario: ends, command lines, and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.base import conflict
from osmef.supply.program import Program as Supplied
from osmef.workloads.programs import (
    USED,
    EndedProgram,
    ProgramName,
    ProgramRun,
    Programs,
    ProgramsSettings,
    Where,
    aggregate,
)
from osmef.workloads.reading import Reading
from osmef.workloads.tasks import used

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario

_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,60}$")]


class ProgramMetric(Reading):
    """A metric of a program: where it is printed, its unit, and its better direction."""

    better: Better = Field(default=Better.NEITHER, strict=False, description="which way is better")
    help: str = Field(default="", max_length=500, description="what it is, in one line")
    over_pairs: Literal["sum", "mean", "worst"] | None = Field(
        default=None,
        description="how several pairs, or both ends, make one number; by default the sum of"
        " amounts per second, else the mean",
    )
    on: Literal["sender", "receiver"] | None = Field(
        default=None,
        description="the end whose program prints it; without, that of the last one without ready",
    )

    @property
    def combined(self) -> OverPairs:
        """Aggregation over several pairs, or both ends."""
        usual = OverPairs.SUM if self.unit.endswith("/s") else OverPairs.MEAN
        return OverPairs(self.over_pairs) if self.over_pairs else usual

    def of(self, ended: EndedProgram, name: str) -> float | None:
        """Return the value in a program's output. Raises OutputError."""
        try:
            return self.value(ended.printed)
        except OutputError as error:
            raise OutputError(
                f"{ended.run.argv[0]} printed no {name}: {error.message}",
                tail=error.tail,
                where=ended.endpoint,
                cure=error.cure,
            ) from error


class ProgramSettings(ProgramsSettings):
    """A program of yours, such as iperf3 or stress-ng, and the numbers that it prints."""

    kind: Literal["program"] = Field(default="program", description="the kind of workload")
    run: Annotated[list[ProgramRun], Field(min_length=1, max_length=16)] = Field(
        description="the programs; servers are started first, and the others at one moment"
    )
    needs: list[ProgramName] = Field(
        default_factory=list,
        max_length=16,
        description="programs that have to be on the endpoints where they run; one that is not is"
        " brought, as a bundle of Debian's package of that name",
    )
    metrics: dict[_Name, ProgramMetric] = Field(
        default_factory=dict, description="the numbers that they print, by the metrics' names"
    )

    @model_validator(mode="after")
    def _ends_agree(self) -> ProgramSettings:
        alone = [run for run in self.run if run.on is Where.LOOPBACK]
        if alone and len(alone) < len(self.run):
            raise conflict(
                "a program on the loopback endpoint has no other end beside it",
                "write on: loopback for all of them, or for none",
                "run",
            )
        return self

    @model_validator(mode="after")
    def _something_is_started(self) -> ProgramSettings:
        if all(run.ready for run in self.run):
            raise conflict(
                "all of these are servers, and nothing measures",
                "leave ready out of the program that measures",
                "run",
            )
        return self

    @model_validator(mode="after")
    def _ports_have_servers(self) -> ProgramSettings:
        has_server = any(run.ready for run in self.run)
        if not has_server and any(used(text, "port") for run in self.run for text in run.argv):
            raise conflict(
                "{port} is that of a server, and there is none",
                "write ready: port for the program that listens there",
                "run",
            )
        return self

    @model_validator(mode="after")
    def _data_ports_are_taken(self) -> ProgramSettings:
        needed = any(used(text, "data_port") for run in self.run for text in run.argv)
        if needed and not any(run.ready and run.ports > 1 for run in self.run):
            raise conflict(
                "{data_port} is the second port of a server, and none takes two",
                "write ports: 2 for the program that listens there",
                "run",
            )
        return self

    @model_validator(mode="after")
    def _metrics_have_programs(self) -> ProgramSettings:
        for name, metric in self.metrics.items():
            if metric.on is not None and not any(metric.on in run.ends for run in self.run):
                raise conflict(
                    f"no program runs on the {metric.on}",
                    f"write the other end, or a program on the {metric.on}",
                    f"metrics.{name}.on",
                )
        for name in {*self.metrics} & {one.name for one in USED}:
            raise conflict(
                f"every program has a metric {name}", "call it another way", f"metrics.{name}"
            )
        return self

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield the conflict of a single-endpoint program without loopback."""
        if any(run.on is Where.LOOPBACK for run in self.run) and not scenario.endpoints.loopback:
            yield conflict(
                "on: loopback is for a loopback endpoint, and there is none",
                "write endpoints: {loopback: {}}, or on: sender",
                *("workload.run", "endpoints"),
            )


class ScenarioPrograms(Programs[ProgramSettings]):
    """The programs of a scenario: servers, and those with the common start."""

    Settings = ProgramSettings
    measures = USED
    example = """\
workload:
  kind: program
  duration: 10s
  run:
    - {on: receiver, argv: [iperf3, -s, -1, -p, "{port}"], ready: port}
    - {on: sender, argv: [iperf3, -c, "{peer}", -p, "{port}", -t, "10", -J]}
  needs: [iperf3]
  metrics:
    goodput_bps: {json: end.sum_received.bits_per_second, unit: bit/s, better: higher}"""

    def __init__(self, settings: ProgramSettings, *, background: bool = False) -> None:
        super().__init__(settings, background=background)
        own = (
            Measure(
                name=name,
                unit=metric.unit,
                better=metric.better,
                help=metric.help or f"{name} as the program prints it",
                head=name.replace("_", "\n"),
                over_pairs=metric.combined,
                leading=number == 0,
            )
            for number, (name, metric) in enumerate(settings.metrics.items())
        )
        self.measures = (*own, *USED)

    @property
    def programs(self) -> tuple[Supplied, ...]:
        """The programs that the scenario names."""
        return tuple(map(Supplied, self._settings.needs))

    def runs(self) -> Sequence[ProgramRun]:
        """Return the programs' runs."""
        return self._settings.run

    def numbers(self, pairs: Sequence[Sequence[EndedProgram]]) -> Mapping[str, float | None]:
        """Read every metric from its program's output."""
        ended = [one for pair in pairs for one in pair]
        return {
            name: aggregate(
                metric.combined,
                metric.better,
                [metric.of(one, name) for one in ended if self._is_metric_of(metric, one)],
            )
            for name, metric in self._settings.metrics.items()
        }

    def _is_metric_of(self, metric: ProgramMetric, one: EndedProgram) -> bool:
        """Return whether a metric is of a program."""
        wanted = [run for run in self._settings.run if not run.ready]
        if metric.on is not None:
            at_end = [run for run in self._settings.run if metric.on in run.ends]
            wanted = [run for run in at_end if not run.ready] or at_end
        return one.run is wanted[-1] and metric.on in {None, one.end}
