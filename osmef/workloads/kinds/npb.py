"""The NAS Parallel Benchmarks: what computations of many endpoints get of their network.

Source: common/print_results.f and common/c_print_results.c of NPB 3.4. An operation is what each
benchmark counts: of IS a key that was ranked, of EP a random number, else one of floating point.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats import amount, first, of_one_run, positive, shows_tail, whole
from osmef.results.measure import Better, Measure, OverPairs
from osmef.results.observations import InterfaceUse
from osmef.scenario.base import conflict
from osmef.scenario.fields import DATA_PORTS, Duration
from osmef.supply.program import Program, SourceCode, Way
from osmef.workloads.base import End
from osmef.workloads.programs import (
    EndedProgram,
    ProgramRun,
    ProgramsSettings,
    Where,
    interfaces_of,
)
from osmef.workloads.tool import Tool

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario

_ENVIRONMENT = {
    # Between endpoints the path that is measured and no other one: UCX would take all interfaces at
    # once, and InfiniBand. Processes of one endpoint share memory.
    "UCX_TLS": "tcp,sm,self",
    "UCX_NET_DEVICES": "{interface}",
    "UCX_TCP_AF_PRIO": "{family}",
    "UCX_TCP_PORT_RANGE": f"{DATA_PORTS.start}-{DATA_PORTS.stop - 1}",
}

FINALIZE = (
    "osmef_finalize.c",
    """\
/* Ends a process of MPI with its exit, once all have come so far. MPICH 4.0 may wait for ever when
 * it finalises over TCP: one process blocks in a barrier of PMI while another one waits for its
 * acknowledgement (pmodels/mpich, pull request 6596). */
#include <mpi.h>
#include <stdio.h>

int MPI_Finalize(void)
{
    int flag;
    const int status = PMPI_Barrier(MPI_COMM_WORLD);
    const double until_s = PMPI_Wtime() + 0.1; /* what was sent has to get out */
    while (PMPI_Wtime() < until_s)
        PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    fflush(NULL);
    return status;
}
""",
)
"""Linked with programs that are built, it takes the place of MPICH's own: its name and text."""

MOVED = Measure(
    name="moved_mb", unit="MB", better=Better.NEITHER, label="traffic",
    head="moved\nMB", digits=".4g", over_pairs=OverPairs.ONLY, source="/proc/net/dev",
    help="what the endpoints sent to each other through the interfaces that were measured, headers"
    " included, while the job ran",
)  # fmt: skip


class MpiSettings(ProgramsSettings):
    """Settings of an MPI program."""

    processes: int = Field(default=1, ge=1, le=1024, description="processes on each endpoint")

    in_background: ClassVar = False
    together: ClassVar = True

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield conflicts with the rest of the scenario."""
        yield from super().problems(scenario)
        if scenario.background is not None:
            yield conflict(
                f"{self.kind} is run by all endpoints together, and a background by pairs of them",
                "remove the background",
                *("background", "workload.kind"),
            )


M = TypeVar("M", bound=MpiSettings)


class MpiTool(Tool[M]):
    """An MPI program, with as many processes on each endpoint.

    A subclass has ``argv`` and ``parse``, which is given all processes in the order of their ranks.
    """

    are_ranks = True
    reporting_program = 0

    @property
    @abstractmethod
    def argv(self) -> list[str]:
        """The command line of each process."""

    def runs(self) -> Sequence[ProgramRun]:
        """Return the processes of one endpoint."""
        one = ProgramRun(on=Where.SENDER, argv=self.argv, env=_ENVIRONMENT)
        return (one,) * self._settings.processes

    def numbers(self, pairs: Sequence[Sequence[EndedProgram]]) -> Mapping[str, float | None]:
        """Read the output of the processes of all endpoints. Raises OutputError."""
        return super().numbers([[one for endpoint in pairs for one in endpoint]])


def moved_mb(ended: Sequence[EndedProgram]) -> float | None:
    """Return the traffic that all endpoints sent at measured interfaces, in 10^6 bytes.

    For two hosts it is the traffic received and sent by either of them, as Maliszewski et al.
    tabulate it ("Minimizing Communication Overheads in Container-based Clouds for HPC
    Applications", table II). A single endpoint has no such traffic. None where an endpoint does not
    report it.
    """
    if len({one.endpoint for one in ended}) == 1:
        return 0.0
    measured: list[InterfaceUse] = [one for one in interfaces_of(ended) if one.measured]
    sent = [one.tx_bytes for one in measured if one.tx_bytes is not None]
    processes = {one.endpoint for one in ended}
    return 1e-6 * math.fsum(sent) if len(sent) == len(processes) else None


_HEAD = re.compile(r"^ NAS Parallel Benchmarks \S+ -- (\S+) Benchmark *$", re.MULTILINE)
_ERROR = re.compile(r"^ ?ERROR: *(\S.*)$", re.MULTILINE)
_ABORT = re.compile(r"^Abort\(\d+\) on node \d+ .*$", re.MULTILINE)
_COMPLETED = re.compile(r"^ (\S+) +Benchmark Completed\.?$", re.MULTILINE)
_LINE = r"^ {} *= *(\S.*?) *$"
_SIZE = re.compile(r"[0-9]+(?: *x *[0-9]+){0,2}", re.ASCII)
_NAME = re.compile(r"[A-Z]{2}", re.ASCII)
_CLASS = re.compile(r"[A-Z]", re.ASCII)
_VERIFIED = {"SUCCESSFUL": True, "UNSUCCESSFUL": False}


@dataclass(frozen=True)
class NpbOutput:
    """Output of one program run: one benchmark on all its processes.

    ``size`` has one number, or one a dimension. ``time_s`` is without initialisation, and None
    where it was too short for the two printed decimals. ``active`` is how many of the ``processes``
    had work. ``verified`` is whether the results are the known ones of this class.
    """

    benchmark: str
    problem_class: str
    size: tuple[int, ...]
    iterations: int
    time_s: float | None
    processes: int
    active: int
    operations_per_s: float
    operation: str
    verified: bool
    version: str

    @property
    def operations_per_s_each(self) -> float:
        """The rate per process, as NPB prints it with more digits."""
        return self.operations_per_s / self.processes


@shows_tail
def read(text: str) -> NpbOutput:
    """Read the output of one run. Raises OutputError, also for a failed benchmark.

    Failed verification is no error here: see ``verified``.
    """
    refused = _ERROR.search(text) or _ABORT.search(text)
    if refused:
        raise OutputError(f"NPB failed: {refused[refused.re.groups].strip()[:200]}")
    begins = of_one_run(_HEAD, text, "NPB")
    completed = of_one_run(_COMPLETED, text, "NPB")
    name = completed[1]
    if not _NAME.fullmatch(name) or begins[1] != name:
        raise OutputError(f"{begins[1][:20]} has begun, and {name[:20]} has ended")
    reported = text[completed.end() :]
    time_s = amount(_value("Time in seconds", reported), "the time")
    processes = _count("Total processes", reported)
    return NpbOutput(
        benchmark=name,
        problem_class=_one_of(_CLASS, "Class", reported),
        size=tuple(whole(one, "the size") for one in _one_of(_SIZE, "Size", reported).split("x")),
        iterations=whole(_value("Iterations", reported), "the number of iterations"),
        time_s=time_s or None,
        processes=processes,
        active=_active(reported, processes),
        operations_per_s=1e6 * positive(_value("Mop/s total", reported), "the rate"),
        operation=_value("Operation type", reported),
        verified=_verified(_value("Verification", reported)),
        version=_value("Version", reported),
    )


def _value(key: str, text: str) -> str:
    return first(re.compile(_LINE.format(re.escape(key)), re.MULTILINE), text, key)[1]


def _one_of(pattern: re.Pattern[str], key: str, text: str) -> str:
    value = _value(key, text)
    if not pattern.fullmatch(value):
        raise OutputError(f"the {key} is {value[:40]!r}, which is not a valid value")
    return value


def _count(key: str, text: str) -> int:
    found = whole(_value(key, text), f"the {key}")
    if found == 0:
        raise OutputError(f"the {key} is 0")
    return found


def _active(text: str, processes: int) -> int:
    """Return the number of active processes; all for a benchmark that prints none."""
    if not re.search(_LINE.format("Active procs"), text, re.MULTILINE):
        return processes
    active = _count("Active procs", text)
    if active > processes:
        raise OutputError(f"{active} processes had something to do, and there are {processes}")
    return active


def _verified(word: str) -> bool:
    if word not in _VERIFIED:
        raise OutputError(f"the verification is {word[:40]!r}, and neither success nor failure")
    return _VERIFIED[word]


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
        "provider: {kind: local, hosts: 4}\nendpoints: {node: {count: 4}}\n"
        "workload: {kind: npb, benchmark: ft, class: A, processes: 2}\n"
        "sweep: {endpoints.node.count: [1, 2, 4]}"
    )
    programs = tuple(_program(one, size) for one in Benchmark for size in ProblemClass)
    output_measures = (
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
        output = read(ended[0].printed.text_of_stdout)
        self._check(output, len(ended), ended[0])
        return {
            "mops": 1e-6 * output.operations_per_s,
            "mops_per_process": 1e-6 * output.operations_per_s_each,
            "time_s": output.time_s,
            "processes": float(output.processes),
            "moved_mb": moved_mb(ended),
        }

    def _check(self, output: NpbOutput, started: int, first: EndedProgram) -> None:
        """Raise OutputError for another run than requested."""
        s = self._settings
        wrong = None
        if not output.verified:
            wrong = "its results are wrong: the verification was not successful"
        elif (output.benchmark.lower(), output.problem_class) != (s.benchmark, s.problem_class):
            wrong = f"this is {output.benchmark} of class {output.problem_class}"
        elif output.processes != started:
            wrong = f"{started} processes were started, and it ran with {output.processes}"
        elif output.active != output.processes:
            wrong = f"only {output.active} of {output.processes} processes had something to do"
        if wrong is not None:
            raise OutputError(wrong, tail=first.printed.tail)
