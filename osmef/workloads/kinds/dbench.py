"""dbench: the file operations of a file server's clients.

Source: dbench.c of dbench 4.0. MB are 10^6 bytes, and times ms. The throughput is that of the last
second before the clients stop: a run that is too short for one prints 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats import amount, of_one_run, shows_tail, whole
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Duration
from osmef.supply.program import Program
from osmef.workloads.programs import DiskSettings, EndedProgram, ProgramRun
from osmef.workloads.tool import Tool

_FAILED = re.compile(
    r"^(?:dbench: )?(error opening .*|Child failed .*|FAILED TO START .*|Failed to .*"
    r"|failed to connect .*)",
    re.MULTILINE,
)
_THROUGHPUT = re.compile(
    r"^Throughput (\S+) MB/sec( \(sync open\))?( \(sync dirs\))?  (\S+) clients  (\S+) procs"
    r"  max_latency=(\S+) ms$",
    re.MULTILINE,
)
_OF_CLIENTS = "Per client results:"
_HEAD = re.compile(r" Operation +Count +AvgLat +MaxLat", re.ASCII)
_OPERATION = re.compile(r" (\S+) +(\S+) +(\S+) +(\S+)", re.ASCII)
_RULE = re.compile(r" -+", re.ASCII)


@dataclass(frozen=True)
class Operation:
    """Count and latency of one operation over all clients.

    The mean of an operation without any call in the measured time is None.
    """

    name: str
    count: int
    mean_us: float | None
    max_us: float


@dataclass(frozen=True)
class DbenchOutput:
    """Output of one program run: bytes read and written by all clients, slowest operation."""

    throughput_bytes_per_s: float
    clients: int
    processes: int
    max_latency_us: float
    sync_open: bool
    sync_directories: bool
    operations: tuple[Operation, ...]


@shows_tail
def read(text: str) -> DbenchOutput:
    """Read the output of one run. Raises OutputError, also where a client failed.

    The operations are those of all clients; --per-client-results are left out.
    """
    refused = _FAILED.search(text)
    if refused:
        raise OutputError(f"dbench failed: {refused[1]}")
    reported = of_one_run(_THROUGHPUT, text, "dbench")
    rate = amount(reported[1], "the throughput")
    if rate == 0:
        raise OutputError(
            "dbench was too short for a throughput", cure="let it run for some seconds: -t 5"
        )
    return DbenchOutput(
        throughput_bytes_per_s=1e6 * rate,
        clients=whole(reported[4], "the clients"),
        processes=whole(reported[5], "the processes"),
        max_latency_us=1e3 * amount(reported[6], "the greatest latency"),
        sync_open=reported[2] is not None,
        sync_directories=reported[3] is not None,
        operations=_operations(text[: reported.start()].partition(_OF_CLIENTS)[0].splitlines()),
    )


def _operations(lines: list[str]) -> tuple[Operation, ...]:
    heads = [at for at, line in enumerate(lines) if _HEAD.fullmatch(line)]
    if not heads:
        raise OutputError("there is no table of operations: did it come to its end?")
    found = []
    for at, line in enumerate(lines[heads[0] + 1 :], start=heads[0] + 2):
        if _RULE.fullmatch(line):
            continue
        if not line.strip():
            break
        row = _OPERATION.fullmatch(line)
        if row is None:
            raise OutputError(f"this is no operation: {line.strip()[:60]}", line=at)
        found.append(_operation(row))
    return tuple(found)


def _operation(row: re.Match[str]) -> Operation:
    name, count = row[1], whole(row[2], f"the count of {row[1]}")
    mean = 1e3 * amount(row[3], f"the mean of {name}") if count else None
    return Operation(name, count, mean, 1e3 * amount(row[4], f"the greatest time of {name}"))


_LOADFILE = "/usr/share/dbench/client.txt"
_OF_A_CLIENT = 30_000_000
"""What client.txt has written at one time, and some more: 24 MB was the most of 8 clients."""


class DbenchSettings(DiskSettings):
    """dbench: file operations of clients, on the sender's disk."""

    kind: Literal["dbench"] = Field(default="dbench", description="the kind of workload")
    duration: Duration = Field(
        default=10.0,
        ge=2,
        le=86400.0,
        description="how long it runs, whole seconds (-t); a fifth of it is warm-up",
    )
    clients: int = Field(default=1, ge=1, le=1000, description="clients, a process each")
    loadfile: str = Field(
        default=_LOADFILE, min_length=1, max_length=4000, description="what the clients do (-c)"
    )
    sync: bool = Field(
        default=False,
        description="true: files and directories are written to the disk at once (-s -S -F);"
        " without it is the page cache that is measured",
    )

    @property
    def file_bytes(self) -> int:
        """The files' total size; unknown for a custom loadfile."""
        return self.clients * _OF_A_CLIENT if self.loadfile == _LOADFILE else 0

    @property
    def is_cached(self) -> bool:
        """Whether the page cache alone may serve writes."""
        return not self.sync


class Dbench(Tool[DbenchSettings]):
    """Clients on the sender."""

    Settings = DbenchSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: dbench, clients: 4, sync: true}"
    programs = (Program("dbench", files=(_LOADFILE,)),)
    output_measures = (
        Measure(
            name="throughput_bytes_per_s", unit="B/s", better=Better.HIGHER, label="throughput",
            head="throughput", over_pairs=OverPairs.SUM, leading=True,
            source="dbench(1)", help="bytes of all operations, per second",
        ),
        Measure(
            name="latency_max_us", unit="us", better=Better.LOWER, label="highest latency",
            head="highest\nlatency\nµs", digits=".0f", over_pairs=OverPairs.WORST,
            source="dbench(1)", help="the longest that an operation took",
        ),
    )  # fmt: skip

    def runs(self) -> Sequence[ProgramRun]:
        """Return dbench at the sender."""
        s = self._settings
        times = ["-t", str(math.ceil(s.duration))]
        where = ["-D", "{dir}", "-c", s.loadfile, *(["-s", "-S", "-F"] if s.sync else [])]
        return (s.run_of(["dbench", *times, *where, str(s.clients)]),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the line of the throughput."""
        output = read(ended[-1].printed.text_of_stdout)
        return {
            "throughput_bytes_per_s": output.throughput_bytes_per_s,
            "latency_max_us": output.max_latency_us,
        }
