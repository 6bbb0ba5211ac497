"""STREAM: sustainable memory bandwidth (McCalpin)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats.stream import read
from osmef.results.measure import Better, Component, Measure, OverPairs
from osmef.workloads.programs import Ended, ProgramsSettings, Run, Where
from osmef.workloads.tool import Tool

_KERNELS = ("copy", "scale", "add", "triad")


class StreamSettings(ProgramsSettings):
    """STREAM: sustainable memory bandwidth of the sender, by four kernels."""

    kind: Literal["stream"] = Field(default="stream", description="the kind of workload")
    program: str = Field(
        default="stream",
        min_length=1,
        max_length=4000,
        description="path of STREAM; its arrays have the size with which it was compiled",
    )
    threads: int | None = Field(
        default=None, ge=1, le=4096, description="threads of OpenMP; by default one a CPU"
    )


class Stream(Tool[StreamSettings]):
    """One process on the sender."""

    Settings = StreamSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: stream, program: /opt/stream}"
    told = tuple(
        Measure(
            name=f"{kernel}_bytes_per_s", unit="B/s", better=Better.HIGHER, label=kernel,
            head=f"{kernel}\nB/s", digits=".4g", over_pairs=OverPairs.SUM,
            leading=kernel == "triad",
            component=Component.MEMORY_RATE if kernel == "triad" else None,
            source="McCalpin, STREAM 5.10",
            help=f"best rate of the kernel {kernel}",
        )
        for kernel in _KERNELS
    )  # fmt: skip

    def runs(self) -> Sequence[Run]:
        """Return STREAM at the sender."""
        s = self._settings
        env = {} if s.threads is None else {"OMP_NUM_THREADS": str(s.threads)}
        return (Run(on=Where.SENDER, argv=[s.program], env=env),)

    def parse(self, ended: Sequence[Ended]) -> Mapping[str, float | None]:
        """Read the best rate of each kernel; results that did not validate are an error."""
        told = read(ended[-1].printed.text_of_stdout)
        if not told.validated:
            raise OutputError("the arrays did not validate", tail=ended[-1].printed.tail)
        return {
            f"{kernel}_bytes_per_s": getattr(told, kernel).best_bytes_per_s for kernel in _KERNELS
        }
