"""7-Zip: LZMA compression and decompression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats.sevenzip import read
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.base import conflict
from osmef.scenario.fields import Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, Where, WorkSettings
from osmef.workloads.tool import Tool

_SOURCE = "7-Zip's manual: b (Benchmark) command"
_WAYS = ("compressing", "decompressing")


class SevenzipSettings(WorkSettings):
    """7-Zip: compressing and decompressing with LZMA, on all CPUs of the sender."""

    kind: Literal["sevenzip"] = Field(default="sevenzip", description="the kind of workload")
    threads: int | None = Field(
        default=None, ge=1, le=4096, description="threads (-mmt); by default one a CPU"
    )
    dictionary: Size | None = Field(
        default=None,
        ge=2**18,
        le=2**31,
        description="the largest one (-md), a power of two; by default 32 MiB, less on machines"
        " with little memory",
    )
    passes: int = Field(default=1, ge=1, le=1000, description="passes over all dictionaries")

    @model_validator(mode="after")
    def _dictionary_is_a_power_of_two(self) -> SevenzipSettings:
        size = int(self.dictionary or 1)
        if size & (size - 1):
            near = 1 << (size.bit_length() - 1)
            raise conflict(
                "a dictionary has 2, 4, 8 ... bytes",
                f"write {near >> 10}KiB or {near >> 9}KiB",
                "dictionary",
            )
        return self


def _measures() -> Iterator[Measure]:
    yield Measure(
        name="rating_mips", unit="MIPS", better=Better.HIGHER, label="rating", head="rating\nMIPS",
        digits=".0f", over_pairs=OverPairs.SUM, leading=True, source=_SOURCE,
        help="mean of the ratings of compressing and decompressing, by all threads",
    )  # fmt: skip
    for way in _WAYS:
        yield Measure(
            name=f"{way}_mips", unit="MIPS", better=Better.HIGHER, label=way,
            head=f"{way}\nMIPS", digits=".0f", over_pairs=OverPairs.SUM, source=_SOURCE,
            help=f"rating of {way} by LZMA, mean over all dictionaries",
        )  # fmt: skip
        yield Measure(
            name=f"{way}_bytes_per_s", unit="B/s", better=Better.HIGHER,
            over_pairs=OverPairs.SUM, source=_SOURCE,
            help=f"{way} by LZMA: bytes of what is not compressed; missing before version 17",
        )  # fmt: skip
    yield Measure(
        name="rating_per_cpu_mips", unit="MIPS", better=Better.HIGHER, digits=".0f",
        over_pairs=OverPairs.MEAN, source=_SOURCE,
        help="the rating per CPU that the program really got",
    )  # fmt: skip


class Sevenzip(Tool[SevenzipSettings]):
    """One process on the sender."""

    Settings = SevenzipSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: sevenzip, threads: 1}"
    programs = (Program("7zr", package="p7zip", version=("--help",)),)
    told = tuple(_measures())

    def runs(self) -> Sequence[ProgramRun]:
        """Return 7-Zip at the sender."""
        s = self._settings
        options = [f"-mmt={s.threads or '{cpus}'}"]
        options += [] if s.dictionary is None else [f"-md={s.dictionary:.0f}b"]
        return (ProgramRun(on=Where.SENDER, argv=["7zr", "b", str(s.passes), *options]),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the means over all dictionary sizes."""
        told = read(ended[-1].printed.text_of_stdout)
        wanted = self._settings.dictionary
        if wanted is not None and max(told.dictionary_bytes) != wanted:
            most = max(told.dictionary_bytes)
            raise OutputError(
                f"its largest dictionary was one of {most} bytes",
                cure="the machine may have too little memory for this one and all threads",
            )
        return {
            "rating_mips": told.total.mips,
            "compressing_mips": told.compressing.mips,
            "compressing_bytes_per_s": told.compressing.bytes_per_s,
            "decompressing_mips": told.decompressing.mips,
            "decompressing_bytes_per_s": told.decompressing.bytes_per_s,
            "rating_per_cpu_mips": told.total.mips_per_cpu,
        }
