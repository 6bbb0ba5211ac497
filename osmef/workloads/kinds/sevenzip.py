"""7-Zip: LZMA compression and decompression.

Source: Bench.cpp of 7-Zip, 16.02 to 26.02, and its manual, "b (Benchmark) command". A rating is
the speed of LZMA in MIPS, so that one of 1000 is what an Intel Core 2 has at 1 GHz. KiB are 2^10
bytes of what is not compressed. Usage is the CPU's, of one CPU, and a rating per usage is what the
rating would be if a whole CPU had been there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats import KIBI, amount, failed, first, of_one_run, positive, shows_tail, whole
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.base import conflict
from osmef.scenario.fields import Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, Where, WorkSettings
from osmef.workloads.tool import Tool

_BANNER = re.compile(r"^7-Zip .*?([0-9]+\.[0-9]+)(?: \(.*?\))? : ", re.MULTILINE | re.ASCII)
_THREADS = re.compile(r"# Benchmark threads: +(\S+)$", re.MULTILINE)
_FAILED = re.compile(r"^(?:System ERROR:|Command Line Error:|ERROR:)\s*(.*)", re.MULTILINE)
_HEAD = re.compile(r"^ +Compressing +\| +Decompressing$", re.MULTILINE)
_ROW = re.compile(r"^([0-9]+): +(\S.*?) +\| +(\S.*)$", re.MULTILINE | re.ASCII)
_MEAN = re.compile(r"^Avr: +(\S.*?) +\| +(\S.*)$", re.MULTILINE)
_TOTAL = re.compile(r"^Tot: +(\S+) +(\S+) +(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Rating:
    """Rating of one direction, or the mean of both; newer versions have ``bytes_per_s``."""

    mips: float
    mips_per_cpu: float
    usage_percent: float
    bytes_per_s: float | None = None


@dataclass(frozen=True)
class SevenzipOutput:
    """Output of one program run: ratings over all dictionary sizes, and their mean."""

    version: str
    threads: int
    dictionary_bytes: tuple[int, ...]
    compressing: Rating
    decompressing: Rating
    total: Rating


@shows_tail
def read(text: str) -> SevenzipOutput:
    """Read the output of one LZMA benchmark. Raises OutputError, also for a failure."""
    refused = _FAILED.search(text)
    if refused:
        raise failed("7-Zip", refused[1])
    total = of_one_run(_TOTAL, text, "7-Zip's benchmark of LZMA")
    head, mean = (
        first(_HEAD, text, "head of the ratings"),
        first(_MEAN, text, "mean of the ratings"),
    )
    rows = list(_ROW.finditer(text, head.end(), mean.start()))
    if not rows:
        raise OutputError("there are no ratings before their mean")
    for row in rows:
        _side(row[2]), _side(row[3])
    return SevenzipOutput(
        version=first(_BANNER, text, "version of 7-Zip")[1],
        threads=whole(first(_THREADS, text, "number of threads")[1], "the threads"),
        dictionary_bytes=tuple(_dictionary(row[1]) for row in rows),
        compressing=_side(mean[1]),
        decompressing=_side(mean[2]),
        total=_rating(total[1], total[2], total[3]),
    )


def _dictionary(power: str) -> int:
    bits = whole(power, "a dictionary")
    if not 1 <= bits <= 40:  # 7-Zip has up to 2^32
        raise OutputError(f"the dictionary has 2^{bits} bytes")
    return 1 << bits


def _side(text: str) -> Rating:
    """Read the numbers of one direction; the mean of older versions has no speed."""
    match text.split():
        case [speed, usage, each, rating]:
            return _rating(usage, each, rating, KIBI * positive(speed, "the KiB/s"))
        case [usage, each, rating]:
            return _rating(usage, each, rating)
    raise OutputError(f"this is no rating: {text[:80]}")


def _rating(usage: str, each: str, rating: str, speed: float | None = None) -> Rating:
    return Rating(
        mips=positive(rating, "the rating"),
        mips_per_cpu=positive(each, "the rating per usage"),
        usage_percent=amount(usage, "the usage"),
        bytes_per_s=speed,
    )


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
    output_measures = tuple(_measures())

    def runs(self) -> Sequence[ProgramRun]:
        """Return 7-Zip at the sender."""
        s = self._settings
        options = [f"-mmt={s.threads or '{cpus}'}"]
        options += [] if s.dictionary is None else [f"-md={s.dictionary:.0f}b"]
        return (ProgramRun(on=Where.SENDER, argv=["7zr", "b", str(s.passes), *options]),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the means over all dictionary sizes."""
        output = read(ended[-1].printed.text_of_stdout)
        wanted = self._settings.dictionary
        if wanted is not None and max(output.dictionary_bytes) != wanted:
            most = max(output.dictionary_bytes)
            raise OutputError(
                f"its largest dictionary was one of {most} bytes",
                cure="the machine may have too little memory for this one and all threads",
            )
        return {
            "rating_mips": output.total.mips,
            "compressing_mips": output.compressing.mips,
            "compressing_bytes_per_s": output.compressing.bytes_per_s,
            "decompressing_mips": output.decompressing.mips,
            "decompressing_bytes_per_s": output.decompressing.bytes_per_s,
            "rating_per_cpu_mips": output.total.mips_per_cpu,
        }
