"""sysbench: prime numbers by the CPUs, or memory throughput.

Source: sysbench.c, sb_cpu.c and sb_memory.c of sysbench 1.0. An event of cpu is a search for all
primes up to a limit, one of memory the reading or writing of a block; MiB are 2^20 bytes.
Times of an event are printed in ms, with two digits behind the point.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats import MEBI, amount, failed, first, of_one_run, positive, shows_tail, whole
from osmef.results.measure import Better, Component, Measure, OverPairs
from osmef.scenario.base import conflict
from osmef.scenario.fields import Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import Tool

_FAILED = re.compile(r"^FATAL: (.*)", re.MULTILINE)
_THREADS = re.compile(r"^Number of threads: (\S+)$", re.MULTILINE)
_CPU = re.compile(r"^    events per second: +(\S+)$", re.MULTILINE)
_MEMORY = re.compile(r"^Total operations: \S+ \( *(\S+) per second\)$", re.MULTILINE)
_MOVED = re.compile(r"^ *\S+ MiB transferred \( *(\S+) MiB/sec\)$", re.MULTILINE)
_TIME = re.compile(r"^    total time: +(\S+)s$", re.MULTILINE)
_EVENTS = re.compile(r"^    total number of events: +(\S+)$", re.MULTILINE)
_LATENCY = r"^ +{}: +(\S+)$"
_END = re.compile(r"^    execution time \(avg/stddev\): +\S+/\S+$", re.MULTILINE)


@dataclass(frozen=True)
class SysbenchOutput:
    """Output of one program run. ``events_per_s`` is the sum over the threads.

    ``bytes_per_s`` is what was read or written by the test memory. The times of an event are None
    where they are printed as 0.
    """

    test: Literal["cpu", "memory"]
    threads: int
    elapsed_s: float
    events: int
    events_per_s: float
    bytes_per_s: float | None
    mean_us: float | None
    max_us: float | None


@shows_tail
def read(text: str) -> SysbenchOutput:
    """Read the output of the test cpu or memory. Raises OutputError, also for a failure."""
    refused = _FAILED.search(text)
    if refused:
        raise failed("sysbench", refused[1])
    events = of_one_run(_EVENTS, text, "sysbench")
    first(_END, text, "end of the statistics")
    speed, operations = _CPU.search(text), _MEMORY.search(text)
    rate = speed or operations
    if rate is None:
        raise OutputError("this is neither the test cpu nor memory of sysbench")
    return SysbenchOutput(
        test="cpu" if speed else "memory",
        threads=whole(first(_THREADS, text, "number of threads")[1], "the threads"),
        elapsed_s=positive(first(_TIME, text, "total time")[1], "the total time"),
        events=whole(events[1], "the events"),
        events_per_s=positive(rate[1], "the events/s"),
        bytes_per_s=None if speed else _moved(text),
        mean_us=_latency(text, "avg"),
        max_us=_latency(text, "max"),
    )


def _moved(text: str) -> float:
    return MEBI * positive(first(_MOVED, text, "rate of the memory")[1], "the MiB/s")


def _latency(text: str, name: str) -> float | None:
    found = first(re.compile(_LATENCY.format(name), re.MULTILINE), text, f"latency {name}")
    return 1e3 * amount(found[1], f"the latency {name}") or None


_SOURCE = "sysbench 1.0"
_OF_TEST = {"cpu": ("primes",), "memory": ("block", "operation", "access", "scope")}


class SysbenchTest(StrEnum):
    """The test of sysbench."""

    __test__: ClassVar = False  # of no interest to pytest
    CPU = "cpu"
    MEMORY = "memory"


class SysbenchSettings(ProgramsSettings):
    """sysbench: primes that the sender's CPUs find, or the rate of its memory."""

    kind: Literal["sysbench"] = Field(default="sysbench", description="the kind of workload")
    test: SysbenchTest = Field(
        default=SysbenchTest.CPU, strict=False, description="what is measured"
    )
    threads: int | None = Field(
        default=None, ge=1, le=4096, description="threads; by default one a CPU"
    )
    primes: int = Field(
        default=10_000, ge=3, le=10**7, description="cpu: the limit of the primes of an event"
    )
    block: Size = Field(
        default=1024, ge=8, le=2**40, description="memory: what an event reads or writes"
    )
    operation: Literal["read", "write"] = Field(default="write", description="memory: what it does")
    access: Literal["sequential", "random"] = Field(
        default="sequential", description="memory: the order within a block"
    )
    scope: Literal["global", "local"] = Field(
        default="global", description="memory: one block of all threads, or one of each"
    )

    @model_validator(mode="after")
    def _keys_are_those_of_the_test(self) -> SysbenchSettings:
        for test, keys in _OF_TEST.items():
            odd = [key for key in keys if key in self.model_fields_set]
            if odd and test != self.test:
                raise conflict(
                    f"{odd[0]} goes with test: {test}",
                    f"write test: {test}, or remove {odd[0]}",
                    odd[0],
                )
        return self


class Sysbench(Tool[SysbenchSettings]):
    """One process on the sender."""

    Settings = SysbenchSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: sysbench, test: cpu, threads: 2}"
    programs = (Program("sysbench"),)
    cpu_measures = (
        Measure(
            name="events_per_s", unit="1/s", better=Better.HIGHER, label="events",
            head="events\n/s", digits=".1f", over_pairs=OverPairs.SUM, leading=True,
            component=Component.CPU,
            source=_SOURCE, help="searches for all primes up to a limit, by all threads",
        ),
        Measure(
            name="event_mean_us", unit="us", better=Better.LOWER, digits=".0f",
            over_pairs=OverPairs.MEAN, source=_SOURCE, help="mean time of an event in its thread",
        ),
        Measure(
            name="event_max_us", unit="us", better=Better.LOWER, head="longest\nµs", digits=".0f",
            over_pairs=OverPairs.WORST, source=_SOURCE, help="longest time of an event",
        ),
    )  # fmt: skip
    memory_measures = (
        Measure(
            name="memory_bytes_per_s", unit="B/s", better=Better.HIGHER, label="memory",
            head="memory", over_pairs=OverPairs.SUM, leading=True,
            component=Component.MEMORY_RATE,
            source=_SOURCE, help="what all threads read or wrote, per second",
        ),
        Measure(
            name="blocks_per_s", unit="1/s", better=Better.HIGHER, digits=".4g",
            over_pairs=OverPairs.SUM, source=_SOURCE, help="blocks that were read or written",
        ),
    )  # fmt: skip

    output_measures = (*cpu_measures, *memory_measures)

    def selected_measures(self) -> Sequence[Measure]:
        """Return the measures of the test."""
        is_of_memory = self._settings.test is SysbenchTest.MEMORY
        return self.memory_measures if is_of_memory else self.cpu_measures

    def runs(self) -> Sequence[ProgramRun]:
        """Return sysbench at the sender."""
        s = self._settings
        argv = [
            "sysbench",
            str(s.test),
            f"--threads={s.threads or '{cpus}'}",
            f"--time={math.ceil(s.duration)}",
            *(self._memory() if s.test is SysbenchTest.MEMORY else [f"--cpu-max-prime={s.primes}"]),
            "run",
        ]
        return (ProgramRun(on=Where.SENDER, argv=argv),)

    def _memory(self) -> list[str]:
        s = self._settings
        mode = "seq" if s.access == "sequential" else "rnd"
        return [
            f"--memory-block-size={s.block:.0f}",
            f"--memory-oper={s.operation}",
            f"--memory-access-mode={mode}",
            f"--memory-scope={s.scope}",
            "--memory-total-size=1000000T",  # it is the time that ends it
        ]

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the report; another test is an error."""
        output = read(ended[-1].printed.text_of_stdout)
        if output.test != self._settings.test:
            raise OutputError(f"it ran the test {output.test}", tail=ended[-1].printed.tail)
        if output.test == "memory":
            return {"memory_bytes_per_s": output.bytes_per_s, "blocks_per_s": output.events_per_s}
        return {
            "events_per_s": output.events_per_s,
            "event_mean_us": output.mean_us,
            "event_max_us": output.max_us,
        }
