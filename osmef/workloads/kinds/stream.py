"""STREAM: sustainable memory bandwidth (McCalpin).

Source: McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers",
1995, and stream.c 5.10. MB are 10^6 bytes, times seconds; the best rate is that of the shortest
time, without the first repetition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats import first, of_one_run, positive, shows_tail, whole
from osmef.results.measure import Better, Component, Measure, OverPairs
from osmef.scenario.base import conflict
from osmef.supply.program import Program, SourceCode
from osmef.workloads.programs import EndedProgram, ProgramRun, Where, WorkSettings
from osmef.workloads.tool import Tool

_HEAD = re.compile(r"^Function +Best Rate MB/s +Avg time +Min time +Max time", re.MULTILINE)
_KERNEL = r"^{}: +(\S+) +(\S+) +(\S+) +(\S+)$"
_ELEMENT = re.compile(r"^This system uses (\S+) bytes per array element", re.MULTILINE)
_ARRAY = re.compile(r"^Array size = (\S+) \(elements\)", re.MULTILINE)
_TIMES = re.compile(r"^Each kernel will be executed (\S+) times", re.MULTILINE)
_THREADS = re.compile(r"^Number of Threads counted = (\S+)", re.MULTILINE)
_REQUESTED = re.compile(r"^Number of Threads requested = ", re.MULTILINE)
_VALID = re.compile(r"^Solution Validates: ", re.MULTILINE)
_INVALID = re.compile(r"^Failed Validation on array ", re.MULTILINE)


@dataclass(frozen=True)
class StreamKernel:
    """One of the four loops: its best rate, and its times."""

    best_bytes_per_s: float
    mean_s: float
    min_s: float
    max_s: float


@dataclass(frozen=True)
class StreamOutput:
    """Output of one program run. ``threads`` is None without OpenMP.

    ``validated`` is whether the arrays had the expected values in the end.
    """

    copy: StreamKernel
    scale: StreamKernel
    add: StreamKernel
    triad: StreamKernel
    array_elements: int
    element_bytes: int
    repetitions: int
    threads: int | None
    validated: bool


@shows_tail
def read(text: str) -> StreamOutput:
    """Read the output of one run of STREAM 5.10. Raises OutputError.

    Arrays with wrong values are no error here: see ``validated``.
    """
    of_one_run(_HEAD, text, "STREAM")
    copy, scale, add, triad = (_kernel(name, text) for name in ("Copy", "Scale", "Add", "Triad"))
    invalid = _INVALID.search(text) is not None
    if not invalid:
        first(_VALID, text, "validation")
    return StreamOutput(
        copy=copy,
        scale=scale,
        add=add,
        triad=triad,
        array_elements=_count(_ARRAY, text, "array size"),
        element_bytes=_count(_ELEMENT, text, "size of an element"),
        repetitions=_count(_TIMES, text, "number of repetitions"),
        threads=_count(_THREADS, text, "number of threads") if _REQUESTED.search(text) else None,
        validated=not invalid,
    )


def _kernel(name: str, text: str) -> StreamKernel:
    row = first(re.compile(_KERNEL.format(name), re.MULTILINE), text, name)
    rate, mean, least, most = (positive(value, f"a number of {name}") for value in row.groups())
    return StreamKernel(1e6 * rate, mean, least, most)


def _count(pattern: re.Pattern[str], text: str, what: str) -> int:
    found = whole(first(pattern, text, what)[1], f"the {what}")
    if found == 0:
        raise OutputError(f"the {what} is 0")
    return found


_KERNELS = ("copy", "scale", "add", "triad")
_SOURCE = "McCalpin, STREAM 5.10"
_ORIGIN = "https://github.com/jeffhammond/STREAM"
# The size of its arrays is fixed when it is compiled. More than these does not fit into the 2 GiB
# of a program whose code finds its data by 32 bits.
_PROGRAMS = {
    10_000_000: "stream",
    20_000_000: "stream-20M",
    40_000_000: "stream-40M",
    80_000_000: "stream-80M",
}
_STEPS = tuple(
    ("cc", "-O2", f"-DSTREAM_ARRAY_SIZE={size}", "stream.c", "-o", name)
    for size, name in _PROGRAMS.items()
)
# It is given pairs of an array's size and a program, the smallest first, sums the caches of the
# last level by sysfs, and starts the first program whose arrays have four times that; less, where
# the memory that is left would not hold more. Three arrays of 8 bytes an element, and a quarter.
_CHOOSE = """\
last=0 caches=0 seen=' '
for cache in /sys/devices/system/cpu/cpu[0-9]*/cache/index*; do
  { read -r level <"$cache/level" && read -r size <"$cache/size" &&
    read -r cpus <"$cache/shared_cpu_list"; } 2>/dev/null || continue
  [ "$level" -lt "$last" ] && continue
  [ "$level" -gt "$last" ] && last=$level caches=0 seen=' '
  case $seen in *" $cpus "*) continue ;; esac
  seen="$seen$cpus " caches=$((caches + 1024 * ${size%K}))
done
left= chosen=
while read -r key value _; do
  [ "$key" = MemAvailable: ] && left=$((value * 1024))
done </proc/meminfo
while [ $# -gt 0 ]; do
  [ -z "$chosen" ] || [ -z "$left" ] || [ $(($1 * 30)) -le "$left" ] || break
  chosen=$2
  [ $(($1 * 8)) -ge $((caches * 4)) ] && break
  shift 2
done
[ "$caches" -eq 0 ] || echo "last-level caches: $caches bytes"
exec "$chosen"
"""
_VARIANT_BELOW = 4
"""So many times the last-level caches an array has to be, by STREAM's rules."""
_CACHES = re.compile(r"^last-level caches: ([0-9]{1,15}) bytes$", re.MULTILINE | re.ASCII)


class StreamSettings(WorkSettings):
    """STREAM: sustainable memory bandwidth of the sender, by four kernels."""

    kind: Literal["stream"] = Field(default="stream", description="the kind of workload")
    array_size: Literal[10_000_000, 20_000_000, 40_000_000, 80_000_000] | None = Field(
        default=None,
        description="elements of an array, of 8 bytes each; by default the first of these that has"
        " four times all last-level caches, as far as the memory that is left allows",
    )
    program: str | None = Field(
        default=None,
        min_length=1,
        max_length=4000,
        description="a STREAM of yours on the endpoint, name or path, in place of the one that"
        " is brought there; its arrays have the size with which it was compiled",
    )
    threads: int | None = Field(
        default=None, ge=1, le=4096, description="threads of OpenMP; by default one a CPU"
    )

    def warnings_from_metrics(self, metrics: Mapping[str, float | None]) -> Iterator[str]:
        """Warn if the results have to be labelled as those of a variant."""
        times = metrics.get("array_caches")
        if times is not None and times < _VARIANT_BELOW:
            yield (
                f"the arrays of STREAM had {times:.2f} times the size of all last-level caches, and"
                f" not {_VARIANT_BELOW}: call these the numbers of a variant of STREAM"
            )
        if times is None and metrics.get("triad_bytes_per_s") is not None:
            yield (
                "no endpoint said how large its caches are: where an array of STREAM has less than"
                f" {_VARIANT_BELOW} times the last-level ones, its numbers are of a variant"
            )

    @model_validator(mode="after")
    def _own_program_has_its_size(self) -> StreamSettings:
        if self.program is not None and self.array_size is not None:
            raise conflict(
                "the size of the arrays is fixed when STREAM is compiled",
                "remove array_size, or the program of yours",
                "array_size",
            )
        return self


def _measures() -> Iterator[Measure]:
    for kernel in _KERNELS:
        yield Measure(
            name=f"{kernel}_bytes_per_s", unit="B/s", better=Better.HIGHER, label=kernel,
            head=kernel, over_pairs=OverPairs.SUM,
            leading=kernel == "triad", source=_SOURCE, help=f"best rate of the kernel {kernel}",
            component=Component.MEMORY_RATE if kernel == "triad" else None,
        )  # fmt: skip
    yield Measure(
        name="array_caches", unit="1", better=Better.NEITHER, label="array", digits=".1f",
        head="array\ncaches", over_pairs=OverPairs.WORST, source=_SOURCE,
        help="size of an array, in that of all last-level caches; with less than 4 the numbers are"
        " of a variant of STREAM",
    )  # fmt: skip
    yield Measure(
        name="stream_threads", unit="1", better=Better.NEITHER, digits=".0f",
        over_pairs=OverPairs.SUM, source=_SOURCE, help="threads; 1 of a STREAM without OpenMP",
    )  # fmt: skip


class Stream(Tool[StreamSettings]):
    """One process on the sender."""

    Settings = StreamSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: stream, threads: 1}"
    # Not the endpoint's own: ImageMagick has a program of this name.
    programs: tuple[Program, ...] = (
        Program("stream", source=SourceCode(_STEPS, (*_PROGRAMS.values(),), origin=_ORIGIN,
                                             openmp=True),
                how=("build",)),
    )  # fmt: skip
    output_measures = tuple(_measures())

    def __init__(self, settings: StreamSettings, *, background: bool = False) -> None:
        super().__init__(settings, background=background)
        if settings.program is not None:
            self.programs = ()

    def runs(self) -> Sequence[ProgramRun]:
        """Return STREAM at the sender, started by a script that sets the array size."""
        s = self._settings
        choice = {
            size: name for size, name in _PROGRAMS.items() if s.array_size in {None, size}
        } if s.program is None else {0: s.program}  # fmt: skip
        pairs = [word for size, name in choice.items() for word in (str(size), name)]
        env = {} if s.threads is None else {"OMP_NUM_THREADS": str(s.threads)}
        return (ProgramRun(on=Where.SENDER, argv=["sh", "-c", _CHOOSE, "sh", *pairs], env=env),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the best rate of each kernel; a failed validation is an error."""
        text, tail = ended[-1].printed.text_of_stdout, ended[-1].printed.tail
        reported, caches = read(text), _CACHES.search(text)
        if not reported.validated:
            raise OutputError("the arrays did not validate", tail=tail)
        threads = reported.threads or 1
        if self._settings.threads not in {None, threads}:
            raise OutputError(
                f"it ran with {threads} threads, not {self._settings.threads}",
                tail=tail,
                cure="bring one that is compiled with OpenMP: gcc can, for its own architecture",
            )
        array_bytes = reported.array_elements * reported.element_bytes
        return {
            **{
                f"{name}_bytes_per_s": getattr(reported, name).best_bytes_per_s for name in _KERNELS
            },
            "array_caches": array_bytes / int(caches[1]) if caches else None,
            "stream_threads": threads,
        }
