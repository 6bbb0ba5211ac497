"""The NAS Parallel Benchmarks: what computations of many endpoints get of their network."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats.npb import Npb as Told
from osmef.formats.npb import read
from osmef.results.measure import Better, Measure
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration
from osmef.supply.program import Program, SourceCode, Way
from osmef.workloads.base import End
from osmef.workloads.mpi import FINALIZE, MOVED, MpiSettings, MpiTool, moved_mb
from osmef.workloads.programs import EndedProgram

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario


class Benchmark(StrEnum):
    """The compute benchmarks of NPB, without DT and BT-IO."""

    BT = "bt"
    CG = "cg"
    EP = "ep"
    FT = "ft"
    IS = "is"
    LU = "lu"
    MG = "mg"
    SP = "sp"


class ProblemClass(StrEnum):
    """The problem classes, from the smallest on."""

    S = "S"
    W = "W"
    A = "A"
    B = "B"
    C = "C"


_OF_SQUARES = {Benchmark.BT, Benchmark.SP}
_OF_POWERS = {Benchmark.CG, Benchmark.FT, Benchmark.IS, Benchmark.MG}
_PACKAGES = ("mpich", "libmpich-dev", "gfortran", "make")
_WAYS: tuple[Way, ...] = ("present", "build")


def name_of(benchmark: Benchmark, problem_class: ProblemClass) -> str:
    """Return NPB's program name for a benchmark and a class."""
    return f"{benchmark}.{problem_class}.x"


_ORIGIN = "https://www.nas.nasa.gov/software/npb.html"


def _program(benchmark: Benchmark, problem_class: ProblemClass) -> Program:
    name = name_of(benchmark, problem_class)
    made = f"bin/{name}"
    steps = (
        ("cp", "config/make.def.template", "config/make.def"),
        ("mkdir", "-p", "bin"),
        ("mpicc.mpich", "-O2", "-c", FINALIZE[0], "-o", "finalize.o"),
        # Fortran of that age gives one subroutine arguments of several types.
        ("make", benchmark.value, f"CLASS={problem_class}", "MPICC=mpicc.mpich",
         "CMPI_LIB=../finalize.o", "MPIFC=mpif90.mpich", "FMPI_LIB=../finalize.o",
         "FFLAGS=-O3 -fallow-argument-mismatch"),
    )  # fmt: skip
    source = SourceCode(steps, (made,), origin=_ORIGIN, shared=_PACKAGES, adds=(FINALIZE,))
    return Program(name, package="mpich", source=source, how=_WAYS)


class NpbSettings(MpiSettings):
    """NAS Parallel Benchmarks: one of them, run by all endpoints together over MPI."""

    kind: Literal["npb"] = Field(default="npb", description="the kind of workload")
    duration: Duration = Field(
        default=60.0, ge=0.01, le=86400.0, description="how long a trial is expected to run"
    )
    benchmark: Benchmark = Field(
        default=Benchmark.IS, strict=False, description="which one, by its abbreviation"
    )
    problem_class: ProblemClass = Field(
        default=ProblemClass.S,
        alias="class",
        strict=False,
        description="size of the problem: S for a try, W, and A to C, each four times the one"
        " before",
    )
    deadline: Duration | None = Field(
        default=None,
        ge=0.1,
        le=7 * 86400.0,
        description="how long it may run at most; the trial fails then; by default ten times the"
        " duration and a minute",
    )

    @property
    def longest_s(self) -> float:
        """The upper bound of its duration, in seconds."""
        return self.deadline or 10 * self.duration + 60.0

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield conflicts with the rest of the scenario."""
        yield from super().problems(scenario)
        count = scenario.size * self.processes
        needs = None
        if self.benchmark in _OF_SQUARES and math.isqrt(count) ** 2 != count:
            needs = "a square, such as 1, 4, 9 or 16"
        if self.benchmark in _OF_POWERS and count.bit_count() != 1:
            needs = "a power of two"
        if needs is not None:
            name = self.benchmark.upper()
            yield conflict(
                f"{name} can't use {count} processes, on {scenario.size} endpoints",
                f"let the number of all processes be {needs}",
                *("workload.processes", "workload.benchmark", "endpoints"),
            )


class Npb(MpiTool[NpbSettings]):
    """The processes of one benchmark."""

    Settings = NpbSettings
    example = (
        "endpoints: {node: {count: 4}}\nworkload: {kind: npb, benchmark: ft, class: A,"
        " processes: 2}\nsweep: {endpoints.node.count: [1, 2, 4]}"
    )
    programs = tuple(_program(one, size) for one in Benchmark for size in ProblemClass)
    told = (
        Measure(
            name="mops", unit="Mop/s", better=Better.HIGHER, label="rate of all processes",
            head="Mop/s", digits=".4g", leading=True, source="NPB 3.4",
            help="million operations a second, of all processes; what an operation is differs"
            " between benchmarks: of IS a key ranked, of EP a random number, else floating point",
        ),
        Measure(
            name="mops_per_process", unit="Mop/s", better=Better.HIGHER, label="rate of a process",
            head="Mop/s per\nprocess", digits=".4g", source="NPB 3.4",
            help="the same, divided by the number of processes",
        ),
        Measure(
            name="time_s", unit="s", better=Better.LOWER, label="time", head="time\ns",
            digits=".2f", source="NPB 3.4",
            help="how long it computed, without initialisation; null below 5 ms",
        ),
        Measure(
            name="processes", unit="1", better=Better.NEITHER, digits=".0f", source="NPB 3.4",
            head="proc.", help="processes of all endpoints",
        ),
        MOVED,
    )  # fmt: skip

    def needs(self, end: End) -> tuple[Program, ...]:
        """Return the one program that is run."""
        return tuple(one for one in super().needs(end) if one.name == self.argv[0])

    @property
    def argv(self) -> list[str]:
        """The command line of each process."""
        return [name_of(self._settings.benchmark, self._settings.problem_class)]

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the first process's output; only a verified result counts."""
        told = read(ended[0].printed.text_of_stdout)
        self._check(told, len(ended), ended[0])
        return {
            "mops": 1e-6 * told.operations_per_s,
            "mops_per_process": 1e-6 * told.operations_per_s_each,
            "time_s": told.time_s,
            "processes": float(told.processes),
            "moved_mb": moved_mb(ended),
        }

    def _check(self, told: Told, started: int, first: EndedProgram) -> None:
        """Raise OutputError for another run than requested."""
        s = self._settings
        wrong = None
        if not told.verified:
            wrong = "its results are wrong: the verification was not successful"
        elif (told.benchmark.lower(), told.problem_class) != (s.benchmark, s.problem_class):
            wrong = f"this is {told.benchmark} of class {told.problem_class}"
        elif told.processes != started:
            wrong = f"{started} processes were started, and it ran with {told.processes}"
        elif told.active != told.processes:
            wrong = f"only {told.active} of {told.processes} processes had something to do"
        if wrong is not None:
            raise OutputError(wrong, tail=first.printed.tail)
