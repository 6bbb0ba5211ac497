"""IOzone: writing and reading files, in order and at random places.

Source: iozone.c 3.465. kB are 1024 bytes. A column of the table is 9 characters wide, the first
ones 16 and 8; it is blank where a test was not chosen, and 0 where its second pass was not (-+n).
Of several streams the rate is the sum of theirs until the first has ended, as it says that its
children see it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, field_validator

from osmef.errors import OutputError
from osmef.formats import KIBI, amount, failed, first, of_one_run, shows_tail, whole
from osmef.results.measure import Better, Component, Measure, OverPairs
from osmef.scenario.fields import Size
from osmef.supply.program import Program, SourceCode
from osmef.workloads.programs import DirectSettings, EndedProgram, ProgramRun
from osmef.workloads.tool import Tool

TESTS = ("write", "rewrite", "read", "reread", "random_read", "random_write")

_BANNER = re.compile(r"^\tIozone: Performance Test of File I/O$", re.MULTILINE)
_VERSION = re.compile(r"Version \$Revision: ([0-9.]+) \$")
_SIZE = re.compile(r"^\tFile size set to (\S+) kB$", re.MULTILINE)
_RECORD = re.compile(r"^\tRecord Size (\S+) kB$", re.MULTILINE)
_FAILED = re.compile(
    r"^(?:iozone: )?((?:Error|Can ?not|Can't) .*|interrupted|.* not supported in .* mode\..*)$",
    re.MULTILINE,
)
_OTHER_UNIT = re.compile(r"^\t(OPS|Microseconds/op) Mode\.", re.MULTILINE)
_END = re.compile(r"^iozone test complete\.$", re.MULTILINE)
_DIRECT = "\tO_DIRECT feature enabled\n"
_HEAD = re.compile(
    r"^ {14}kB  reclen    write  rewrite +read +reread +read +write.*\n", re.MULTILINE
)
_ROW = re.compile(r"[ 0-9]{24}(?P<cells>[ 0-9]{54})[ 0-9]*")
_CELL = re.compile(r" +([0-9]*)")
_STREAMS = re.compile(r"^\tThroughput test with (\S+) (?:process|thread)(?:es|s)?$", re.MULTILINE)
_CHILDREN = re.compile(
    r"^\tChildren see throughput for +(\S+) ([a-z -]+?) *\t+= *(\S+) kB/sec", re.MULTILINE
)
_NAMES = {
    "initial writers": "write",
    "rewriters": "rewrite",
    "readers": "read",
    "re-readers": "reread",
    "random readers": "random_read",
    "random writers": "random_write",
}
_WIDTH = 9


@dataclass(frozen=True)
class IozoneOutput:
    """Output of one program run: bytes per second of each test, all streams; None if not run.

    ``file_bytes`` is of each stream.
    """

    version: str
    file_bytes: int
    record_bytes: int
    direct: bool
    streams: int
    write_bytes_per_s: float | None
    rewrite_bytes_per_s: float | None
    read_bytes_per_s: float | None
    reread_bytes_per_s: float | None
    random_read_bytes_per_s: float | None
    random_write_bytes_per_s: float | None


@shows_tail
def read(text: str) -> IozoneOutput:
    """Read the output of one file size and one record size. Raises OutputError.

    It is invalid if iozone failed, printed other units (-O, -N), or the end is missing.
    """
    of_one_run(_BANNER, text, "IOzone")
    wrong = _FAILED.search(text)
    if wrong:
        raise failed("IOzone", wrong[1])
    if _OTHER_UNIT.search(text):
        raise OutputError("IOzone reports no bytes per second", cure="run it without -O and -N")
    first(_END, text, "end of the test")
    streams = _STREAMS.search(text)
    rates = _of_children(text, streams[1]) if streams else _of_table(text)
    if all(rate is None for rate in rates.values()):
        raise OutputError("IOzone reports no rate of the tests that are known")
    return IozoneOutput(
        version=first(_VERSION, text, "version")[1],
        file_bytes=_size(_SIZE, text, "size of the file"),
        record_bytes=_size(_RECORD, text, "size of a record"),
        direct=_DIRECT in text,
        streams=whole(streams[1], "the number of streams") if streams else 1,
        **{f"{name}_bytes_per_s": rate for name, rate in rates.items()},
    )


def _size(pattern: re.Pattern[str], text: str, what: str) -> int:
    found = KIBI * whole(first(pattern, text, what)[1], f"the {what}")
    if found == 0:
        raise OutputError(f"the {what} is 0")
    return found


def _of_table(text: str) -> dict[str, float | None]:
    head = first(_HEAD, text, "table")
    rows = text[head.end() :].partition("\n\n")[0].splitlines()
    if len(rows) != 1:
        raise OutputError(f"there are {len(rows)} rows of sizes, where one is expected")
    row = _ROW.fullmatch(rows[0])
    cells = row["cells"] if row else ""
    found = [_CELL.fullmatch(cells, at, at + _WIDTH) for at in range(0, len(cells), _WIDTH)]
    if len(found) != len(TESTS) or None in found:
        raise OutputError("this is no row of IOzone's table", line=_line_of(text, head.end()))
    return {name: _rate(cell[1]) for name, cell in zip(TESTS, found, strict=True) if cell}


def _line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _rate(cell: str) -> float | None:
    """Return bytes per second; None for no measurement, which IOzone also prints as 0."""
    found = KIBI * amount(cell, "a rate") if cell else 0.0
    return found or None


def _of_children(text: str, streams: str) -> dict[str, float | None]:
    found: dict[str, float | None] = dict.fromkeys(TESTS)
    for reported in _CHILDREN.finditer(text):
        name = _NAMES.get(reported[2])
        if name is None:
            continue
        if reported[1] != streams or found[name] is not None:
            raise OutputError(f"the rates of {reported[2]} are not of one run of {streams} streams")
        found[name] = _rate(reported[3])
    return found


_KIBI = 1024
_TESTS = {
    "write": (0, ("write", "rewrite")),
    "read": (1, ("read", "reread")),
    "random": (2, ("random_read", "random_write")),
}
_FOLDER = "src/current"
_BUILT = SourceCode(
    # As its makefile does for linux-AMD64, but for any machine.
    steps=(
        (
            *("cc", "-O3", "-s", "-w", "-fcommon", "-Dunix", "-Dlinux", "-DHAVE_ANSIC_C"),
            *("-DASYNC_IO", "-DSHARED_MEM", "-D_LARGEFILE64_SOURCE", "-DHAVE_PREAD"),
            '-DNAME="linux"',
            *(f"{_FOLDER}/{name}.c" for name in ("iozone", "libbif", "libasync")),
            *("-o", "iozone", "-lrt", "-lpthread"),
        ),
    ),
    products=("iozone",),
    origin="https://www.iozone.org",
)


_COMPONENTS = {"read": Component.DISK_READ, "write": Component.DISK_WRITE}


class IozoneSettings(DirectSettings):
    """IOzone: files that are written and read, in order and at random places."""

    kind: Literal["iozone"] = Field(default="iozone", description="the kind of workload")
    tests: list[Literal["write", "read", "random"]] = Field(
        default=["write", "read", "random"],
        min_length=1,
        max_length=3,
        description="what is done, each twice or both ways; write, which makes files, always is",
    )
    record: Size = Field(
        default=2**20, ge=_KIBI, le=2**30, description="of each request, in whole KiB (-r)"
    )
    size: Size = Field(
        default=2**30, ge=2**20, le=2**50, description="of each file, in whole KiB (-s)"
    )
    streams: int = Field(
        default=1, ge=1, le=256, description="processes at once, each with a file (-t)"
    )
    flush: bool = Field(
        default=True, description="whether the time of a write has that of its flush (-e)"
    )
    sync: bool = Field(
        default=False, description="true: a write has ended when it is on the disk (-o, O_SYNC)"
    )

    @field_validator("record", "size")
    @classmethod
    def _in_kibibytes(cls, value: int) -> int:
        if value % _KIBI:
            raise ValueError("this is not in whole KiB; write it as 64KiB")
        return value

    @property
    def file_bytes(self) -> int:
        """The total size of all streams' files."""
        return self.streams * self.size

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tests' metrics."""
        chosen = {"write", *self.tests}
        return tuple(
            name for test, (_, names) in _TESTS.items() if test in chosen for name in names
        )

    @property
    def moved_bytes(self) -> int:
        """The payload: each test moves all files."""
        return len(self.names) * self.file_bytes


class Iozone(Tool[IozoneSettings]):
    """One IOzone on the sender."""

    Settings = IozoneSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: iozone, record: 64KiB}"
    programs = (
        Program("iozone", package="iozone3", component="non-free", source=_BUILT, version=("-v",)),
    )

    def __init__(self, settings: IozoneSettings, *, background: bool = False) -> None:
        self.output_measures = tuple(_measure(name) for name in settings.names)
        super().__init__(settings, background=background)

    def runs(self) -> Sequence[ProgramRun]:
        """Return IOzone at the sender."""
        s = self._settings
        tests = [number for test, (number, _) in _TESTS.items() if test in {"write", *s.tests}]
        argv = ["iozone", *(word for number in tests for word in ("-i", str(number)))]
        argv += ["-s", f"{s.size // _KIBI}k", "-r", f"{s.record // _KIBI}k"]
        flags = {"-e": s.flush, "-o": s.sync, "-I": s.direct}
        argv += [flag for flag, given in flags.items() if given]
        files = [f"{{dir}}/iozone.{number}" for number in range(s.streams)]
        argv += ["-f", *files] if s.streams == 1 else ["-t", str(s.streams), "-F", *files]
        return (s.run_of(argv),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the rates, one for each requested test."""
        printed = ended[-1].printed
        output = read(printed.text_of_stdout)
        found = {name: getattr(output, f"{name}_bytes_per_s") for name in self._settings.names}
        for name, rate in found.items():
            if rate is None:
                raise OutputError(f"IOzone reports no rate of {name}", tail=printed.tail)
        return {f"{name}_bytes_per_s": rate for name, rate in found.items()}


def _measure(name: str) -> Measure:
    words = name.replace("_", " ")
    return Measure(
        name=f"{name}_bytes_per_s", unit="B/s", better=Better.HIGHER, label=words,
        head=name.replace("_", "\n"), over_pairs=OverPairs.SUM, leading=name == "write",
        source="iozone.c 3.465", help=f"rate of the test {words}, of all streams together",
        component=_COMPONENTS.get(name),
    )  # fmt: skip
