"""IOzone: writing and reading files, in order and at random places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, field_validator

from osmef.errors import OutputError
from osmef.formats.iozone import read
from osmef.results.measure import Better, Component, Measure, OverPairs
from osmef.scenario.fields import Size
from osmef.supply.program import Program, SourceCode
from osmef.workloads.programs import DirectSettings, EndedProgram, ProgramRun
from osmef.workloads.tool import Tool

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
        self.told = tuple(_measure(name) for name in settings.names)
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
        told = read(printed.text_of_stdout)
        found = {name: getattr(told, f"{name}_bytes_per_s") for name in self._settings.names}
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
