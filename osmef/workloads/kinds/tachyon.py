"""Tachyon: ray tracing of an image by all CPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from osmef.formats.tachyon import read
from osmef.results.measure import Better, Component, Measure, OverPairs
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, Where, WorkSettings
from osmef.workloads.tool import Tool

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
    told = (
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
