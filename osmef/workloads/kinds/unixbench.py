"""UnixBench: twelve tests of CPU, files, pipes, processes and scripts, and their index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from osmef.errors import OutputError
from osmef.formats.reading import KIBI
from osmef.formats.unixbench import BASELINE, MESSAGES, Score, read
from osmef.results.measure import PREFIXED, Better, Measure, OverPairs
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration
from osmef.supply.program import Program, SourceCode
from osmef.workloads.programs import EndedProgram, ProgramRun, Where, WorkSettings
from osmef.workloads.tool import Tool

_SOURCE = "UnixBench 6.0.0, Run"
_PROGRAMS = (
    *("looper", "dhry2reg", "whetstone-double", "execl", "fstime", "pipe", "context1", "spawn"),
    *("syscall", "arithoh", "short", "int", "long", "float", "double", "hanoi"),
)
_FILES = ("pgms/multi.sh", "pgms/tst.sh", "testdir/sort.src", "testdir/large.txt")
_MORE_FILES = ("testdir/dc.dat", "testdir/cctest.c")
# As its Makefile has it, but for -march=native, which would be this machine and not the endpoint.
_MAKE = ("make", "-C", "UnixBench", "UB_GCC_OPTIONS=-O3 -ffast-math")
_LONG = {"dhry2reg", "whetstone-double", "syscall", "context1", "pipe", "sysexec"}
"""Tests of which Run makes ten passes, and not three."""

_COPIES = {"fstime": (1024, 2000), "fsbuffer": (256, 500), "fsdisk": (4096, 8000)}
_COMMANDS: Mapping[str, tuple[int, str]] = {
    **{name: (10, f"{name} 10") for name in ("dhry2reg", "syscall", "context1", "pipe")},
    "whetstone-double": (10, "whetstone-double"),
    "spawn": (30, "spawn 30"),
    "execl": (30, "execl 30"),
    **{
        f"{name}{suffix}": (seconds, f"fstime {way} -t 30 -d . -b {size} -m {blocks}")
        for name, (size, blocks) in _COPIES.items()
        for suffix, way, seconds in (("", "-c", 46), ("-w", "-w", 34), ("-r", "-r", 40))
    },
    **{f"shell{n}": (60, f"looper 60 /bin/sh multi.sh {n}") for n in (1, 8, 16)},
    **{name: (10, f"{name} 10") for name in ("arithoh", "short", "int", "long", "float", "double")},
    "hanoi": (20, "hanoi 20"),
    "sysexec": (10, "syscall 10 exec"),
    "grep": (30, "looper 30 grep -c gimp large.txt"),
    "dc": (30, "looper 30 dc"),
    "C": (60, "looper 60 gcc cctest.c"),
}
"""How long a pass takes, in seconds, and what runs in it: a program and its arguments."""
_SETTLE_S = 3
"""Run syncs and sleeps before each pass."""

# What Run does, and the log that it writes. It is given looper's path, the number of copies, and
# of each test the passes, the command and what Run calls it. A copy's time is that of its process,
# in hundredths of a second.
_RUN = """\
set -f
looper=$0 copies=$1 bin=${0%/*} work=unixbench-$$
shift
mkdir "$work" && cd "$work" || exit
trap 'cd .. && rm -rf "$work"' EXIT
for place in "$bin" "$bin/../testdir"; do
  for file in multi.sh sort.src large.txt dc.dat cctest.c; do
    [ -e "$file" ] || [ ! -e "$place/$file" ] || ln -s "$place/$file" "$file"
  done
done
UB_BINDIR=$bin
export UB_BINDIR
[ "$copies" = 1 ] && number='1 copy' || number="$copies copies"

copy() {
  out=$1 program=$bin/$2 input=/dev/null
  [ "$2" != looper ] || program=$looper
  [ "$*" != "$1 looper 30 dc" ] || input=dc.dat
  shift 2
  read -r begun _ </proc/uptime
  : >"$out"
  "$program" "$@" 2>>"$out" >/dev/null <"$input" # its children may still print when it has ended
  status=$?
  read -r ended _ </proc/uptime
  took=$((${ended%.*}${ended#*.} - ${begun%.*}${begun#*.}))
  printf 'elapsed|%d.%02d\\nstatus|%d\\n' $((took / 100)) $((took % 100)) "$status" >>"$out"
}

tell() {
  while IFS='|' read -r field one two three; do
    if [ -n "$two$three" ]; then
      printf '# %s0: %s\\n# %s1: %s\\n# %s2: %s\\n' \\
        "$field" "$one" "$field" "$two" "$field" "$three"
    elif [ -n "$one" ]; then
      printf '# %s: %s\\n' "$field" "$one"
      [ "$field" != status ] || [ "$one" = 0 ] || failed=1
    else
      printf '# ERROR: %s\\n' "$field"
      failed=1
    fi
  done <"$1"
  echo
}

failed=
while [ $# -ge 3 ]; do
  passes=$1 command=$2 pass=0
  printf '########################################################\\n'
  printf '%s -- %s\\n==> %s\\n\\n' "$3" "$number" "$command"
  shift 3
  while [ $((pass += 1)) -le "$passes" ]; do
    printf '#### Pass %d\\n\\n' "$pass"
    sync; sleep 1; sync; sleep 2
    n=0
    while [ $((n += 1)) -le "$copies" ]; do copy "$n" $command & done
    wait
    n=0
    while [ $((n += 1)) -le "$copies" ]; do tell "$n"; done
    [ -z "$failed" ] || exit 1
  done
done
"""


def _known(name: str) -> str:
    if name not in _COMMANDS:
        raise ValueError(f"{name!r} is no test; there are {', '.join(_COMMANDS)}")
    return name


_Test = Annotated[
    str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": sorted(_COMMANDS)})
]


class UnixbenchSettings(WorkSettings):
    """UnixBench: its tests and their index, with so many copies of each at once."""

    kind: Literal["unixbench"] = Field(default="unixbench", description="the kind of workload")
    copies: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="copies of a test at once (-c); by default one a CPU",
    )
    tests: list[_Test] = Field(
        default=[*BASELINE],
        min_length=1,
        max_length=len(_COMMANDS),
        description="tests by their names, each once; by default those of the index",
    )
    iterations: int = Field(
        default=10,
        ge=1,
        le=100,
        description="passes of a long test (-i); a short one has a third of them",
    )
    duration: Duration = Field(
        default=1800.0,
        ge=0.01,
        le=7 * 86400.0,
        description="how long a trial is expected to run; by default what its tests take",
    )
    deadline: Duration = Field(
        default=3 * 3600.0,
        ge=0.1,
        le=7 * 86400.0,
        description="how long it may run at most; the trial fails then",
    )
    directory: str | None = Field(
        default=None,
        pattern=r"^/",
        max_length=4000,
        description="the folder UnixBench of one that was built on the endpoint, with its pgms and"
        " testdir, in place of the programs that are brought there",
    )

    @model_validator(mode="after")
    def _each_once(self) -> UnixbenchSettings:
        for number, test in enumerate(self.tests):
            if test in self.tests[:number]:
                told = f"{test} is there twice, and its number would be, too"
                raise conflict(told, f"remove one {test}", "tests")
        return self

    @property
    def expected_s(self) -> float:
        """The expected duration of a trial, in seconds."""
        if "duration" in self.model_fields_set:
            return self.duration
        passes = {name: self.passes_of(name) for name in self.tests}
        return float(sum(n * (_SETTLE_S + _COMMANDS[name][0]) for name, n in passes.items()))

    def warnings(self) -> Iterator[str]:
        """Warn that supplied programs differ from UnixBench's usual ones."""
        if self.directory is None:
            yield (
                "UnixBench is brought as static programs for any machine, which make another index"
                " than a usual build: compare it with others of these, or give a directory"
            )

    def passes_of(self, test: str) -> int:
        """Return the number of a test's passes."""
        return self.iterations if test in _LONG else max(1, (self.iterations + 1) // 3)


_UNITS = {
    "lps": ("per_s", "1/s", "a second"),
    "lpm": ("per_min", "1/min", "a minute"),
    "KBps": ("bytes_per_s", "B/s", "a second"),
    "MWIPS": ("mwips", "MWIPS", "million Whetstone instructions a second"),
}


def _label(test: str) -> str:
    if test.startswith("fs"):
        return "KBps"
    loops = "lpm" if _COMMANDS[test][1].startswith("looper") else "lps"
    return "MWIPS" if test == "whetstone-double" else loops


def _name(test: str) -> str:
    return f"{test.lower().replace('-', '_')}_{_UNITS[_label(test)][0]}"


def _measures(tests: Sequence[str]) -> Iterator[Measure]:
    whole = set(tests) >= BASELINE.keys()
    if set(tests) & BASELINE.keys():
        yield Measure(
            name="unixbench_index" if whole else "unixbench_partial_index", unit="1",
            better=Better.HIGHER, label="index" if whole else "partial index",
            head="index" if whole else "partial\nindex", digits=".1f", over_pairs=OverPairs.MEAN,
            leading=True, source=_SOURCE,
            help="geometric mean of the tests' scores in those of a SPARCstation 20-61, times 10"
            + ("" if whole else ", of these tests alone"),
        )  # fmt: skip
    for number, test in enumerate(tests):
        _, unit, told = _UNITS[_label(test)]
        has_prefix = unit in PREFIXED
        yield Measure(
            name=_name(test), unit=unit, better=Better.HIGHER, label=test,
            head=test if has_prefix else f"{test}\n{unit}",
            digits=None if has_prefix else ".5g", over_pairs=OverPairs.SUM, source=_SOURCE,
            leading=number == 0 and not set(tests) & BASELINE.keys(),
            help=f"{MESSAGES[test]}: {told}, all copies together",
        )  # fmt: skip


class Unixbench(Tool[UnixbenchSettings]):
    """The tests on the sender, one after the other."""

    Settings = UnixbenchSettings
    example = """\
endpoints: {loopback: {}}
workload: {kind: unixbench, copies: 1, tests: [dhry2reg, pipe], iterations: 1}"""
    programs: tuple[Program, ...] = (
        Program(
            "unixbench",
            source=SourceCode(
                origin="https://github.com/kdlucas/byte-unixbench",
                steps=((*_MAKE, *(f"pgms/{name}" for name in _PROGRAMS)),),
                products=tuple(
                    f"UnixBench/{path}"
                    for path in (*(f"pgms/{name}" for name in _PROGRAMS), *_FILES, *_MORE_FILES)
                ),
            ),
            how=("build",),
        ),
    )
    told: tuple[Measure, ...] = tuple(_measures([*BASELINE]))

    def __init__(self, settings: UnixbenchSettings, *, background: bool = False) -> None:
        self.told = tuple(_measures(settings.tests))
        super().__init__(settings, background=background)
        if settings.directory is not None:
            self.programs = ()

    def runs(self) -> Sequence[ProgramRun]:
        """Return the tests at the sender, in a temporary directory."""
        s = self._settings
        looper = "unixbench" if s.directory is None else f"{s.directory.rstrip('/')}/pgms/looper"
        argv = ["sh", "-c", _RUN, looper, str(s.copies or "{cpus}")]
        for test in s.tests:
            argv += [str(s.passes_of(test)), _COMMANDS[test][1], MESSAGES[test]]
        # Sorting in UTF-8, where the endpoint has it, is what Run measures.
        return (ProgramRun(on=Where.SENDER, argv=argv, env={"LANG": "en_US.utf8"}),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the log and compute the index; a missing test or pass is an error."""
        s, printed = self._settings, ended[-1].printed
        told = read(printed.text_of_stdout)
        wanted = {test: s.passes_of(test) for test in s.tests}
        found = {test: score.passes for test, score in told.scores.items()}
        if found != wanted or s.copies not in {None, told.copies}:
            raise OutputError("these are not the tests that were wanted", tail=printed.tail)
        index = told.index if told.index is not None else told.partial_index
        indices = {one.name: index for one in self.told if one.name.endswith("_index")}
        return {**indices, **{_name(test): _value(one) for test, one in told.scores.items()}}


def _value(score: Score) -> float:
    return KIBI * score.score if score.label == "KBps" else score.score
