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
from osmef.workloads.programs import Ended, ProgramsSettings, Run, Where
from osmef.workloads.tool import Tool

_LOADFILE = "/usr/share/dbench/client.txt"


class DbenchSettings(ProgramsSettings):
    """dbench: file operations of clients, on the sender's disk."""

    kind: Literal["dbench"] = Field(default="dbench", description="the kind of workload")
    duration: Duration = Field(
        default=10.0,
        ge=2,
        le=86400.0,
        description="how long it runs, whole seconds (-t); a fifth of it is warm-up",
    )
    clients: int = Field(default=1, ge=1, le=1000, description="clients, a process each")
    directory: str = Field(
        default="{dir}", min_length=1, max_length=4000, description="where the files are (-D)"
    )
    loadfile: str = Field(
        default=_LOADFILE, min_length=1, max_length=4000, description="what the clients do (-c)"
    )


class Dbench(Tool[DbenchSettings]):
    """Clients on the sender."""

    Settings = DbenchSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: dbench, clients: 4}"
    programs = (Program("dbench", files=(_LOADFILE,)),)
    told = (
        Measure(
            name="throughput_bytes_per_s", unit="B/s", better=Better.HIGHER, label="throughput",
            head="throughput\nB/s", digits=".4g", over_pairs=OverPairs.SUM, leading=True,
            source="dbench(1)", help="bytes of all operations, per second",
        ),
        Measure(
            name="latency_max_us", unit="us", better=Better.LOWER, label="highest latency",
            head="highest\nlatency\nµs", digits=".0f", over_pairs=OverPairs.WORST,
            source="dbench(1)", help="the longest that an operation took",
        ),
    )  # fmt: skip

    def runs(self) -> Sequence[Run]:
        """Return dbench at the sender."""
        s = self._settings
        times = ["-t", str(math.ceil(s.duration))]
        where = ["-D", s.directory, "-c", s.loadfile]
        return (Run(on=Where.SENDER, argv=["dbench", *times, *where, str(s.clients)]),)

    def parse(self, ended: Sequence[Ended]) -> Mapping[str, float | None]:
        """Read the line of the throughput."""
        told = read(ended[-1].printed.text_of_stdout)
        return {
            "throughput_bytes_per_s": told.throughput_bytes_per_s,
            "latency_max_us": told.max_latency_us,
        }
