"""Tachyon: ray tracing of an image by all CPUs.

Source: trace.c and ui.c of Tachyon 0.99. Times are seconds of the clock. It exits with 0 also where
it could not read its scene.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from osmef.formats import amount, failed, first, of_one_run, positive, shows_tail, whole
from osmef.results.measure import Better, Component, Measure, OverPairs
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, Where, WorkSettings
from osmef.workloads.tool import Tool

_FAILED = re.compile(r"^(Parser failed .*|Unrecognized parameter.*|Missing model.*)", re.MULTILINE)
_VERSION = re.compile(r"^Tachyon Parallel/Multiprocessor Ray Tracer +Version (\S+)", re.MULTILINE)
_OBJECTS = re.compile(r"^Scene contains (\S+) objects?\.", re.MULTILINE)
_TIME = r"^ *{}: +(\S+) seconds"
_TRACED = re.compile(_TIME.format("Ray Tracing Time"), re.MULTILINE)
_PARSED = re.compile(_TIME.format("Scene Parsing Time"), re.MULTILINE)
_PREPARED = re.compile(_TIME.format("Preprocessing Time"), re.MULTILINE)
_WRITTEN = re.compile(_TIME.format("Image I/O Time"), re.MULTILINE)


@dataclass(frozen=True)
class TachyonOutput:
    """Output of one program run: the time of tracing, and that of preparation and output."""

    version: str
    objects: int
    parsing_s: float
    preparing_s: float
    tracing_s: float
    writing_s: float


@shows_tail
def read(text: str) -> TachyonOutput:
    """Read the output of one run. Raises OutputError, also for a failure."""
    refused = _FAILED.search(text)
    if refused:
        raise failed("Tachyon", refused[1].strip())
    traced = of_one_run(_TRACED, text, "Tachyon")
    return TachyonOutput(
        version=first(_VERSION, text, "version of Tachyon")[1],
        objects=whole(first(_OBJECTS, text, "number of objects")[1], "the objects"),
        parsing_s=amount(first(_PARSED, text, "time of parsing")[1], "the time of parsing"),
        preparing_s=amount(first(_PREPARED, text, "time before")[1], "the time before"),
        tracing_s=positive(traced[1], "the time of tracing"),
        writing_s=amount(first(_WRITTEN, text, "time of writing")[1], "the time of writing"),
    )


_TEAPOT = "/usr/share/doc/tachyon/examples/scenes/teapot.dat"


class TachyonSettings(WorkSettings):
    """Tachyon: the time of an image, traced by all CPUs of the sender."""

    kind: Literal["tachyon"] = Field(default="tachyon", description="the kind of workload")
    threads: int | None = Field(
        default=None, ge=1, le=4096, description="threads (-numthreads); by default one a CPU"
    )
    scene: str = Field(
        default=_TEAPOT,
        min_length=1,
        max_length=4000,
        description="path of a scene on the endpoint; by default Tachyon's own teapot",
    )
    resolution: int = Field(default=2048, ge=16, le=16384, description="pixels of each side (-res)")
    antialiasing: int = Field(
        default=0, ge=0, le=1000, description="further samples a pixel (-aasamples)"
    )


class Tachyon(Tool[TachyonSettings]):
    """One process on the sender."""

    Settings = TachyonSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: tachyon, threads: 1}"
    programs = (
        Program(
            "tachyon",
            package="tachyon-bin-nox",
            packages=("tachyon-doc",),
            files=(_TEAPOT,),
            alternatives=(
                ("tachyon", "tachyon-nox"),
                ("libtachyon.so.0", "libtachyon-mt-thr.so.0"),
            ),
            version=("-version",),
        ),
    )
    output_measures = (
        Measure(
            name="tracing_s", unit="s", better=Better.LOWER, label="tracing", head="tracing\ns",
            digits=".3f", over_pairs=OverPairs.WORST, leading=True, source="Tachyon 0.99",
            component=Component.CPU,
            help="how long the image took, without reading the scene and writing the image",
        ),
    )  # fmt: skip

    def runs(self) -> Sequence[ProgramRun]:
        """Return Tachyon at the sender, without output image."""
        s, side = self._settings, str(self._settings.resolution)
        argv = [
            *("tachyon", s.scene, "-numthreads", str(s.threads or "{cpus}")),
            *("-res", side, side, "-aasamples", str(s.antialiasing)),
            *("-format", "PPM", "-o", "/dev/null"),  # a Targa has to be written to a file
        ]
        return (ProgramRun(on=Where.SENDER, argv=argv),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the time of tracing."""
        return {"tracing_s": read(ended[-1].printed.text_of_stdout).tracing_s}
