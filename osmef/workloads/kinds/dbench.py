"""dbench: the file operations of a file server's clients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from osmef.formats.dbench import read
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Duration
from osmef.supply.program import Program
from osmef.workloads.programs import DiskSettings, EndedProgram, ProgramRun
from osmef.workloads.tool import Tool

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
    told = (
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
        told = read(ended[-1].printed.text_of_stdout)
        return {
            "throughput_bytes_per_s": told.throughput_bytes_per_s,
            "latency_max_us": told.max_latency_us,
        }
