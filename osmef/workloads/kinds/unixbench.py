"""UnixBench: twelve tests of CPU, files, pipes, processes and scripts, and their index.

Source: Run and pgms/index.base of UnixBench 6.0.0, whose index has been the same since 5.1. Of each
test, Run drops the third of the passes with the lowest counts. The score is the geometric mean of
the others' counts a second, or a minute, or in the test's own unit; those of all copies are summed.
A test's index is ten times its score in that of a SPARCstation 20-61 named George, and the index of
the system the geometric mean of these. KB are 2^10 bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from osmef.errors import OutputError
from osmef.formats import KIBI, amount, failed, positive, shows_tail, whole
from osmef.results.measure import PREFIXED, Better, Measure, OverPairs
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration
from osmef.supply.program import Program, SourceCode
from osmef.workloads.programs import EndedProgram, ProgramRun, Where, WorkSettings
from osmef.workloads.tool import Tool

MESSAGES: Mapping[str, str] = {
    "dhry2reg": "Dhrystone 2 using register variables",
    "whetstone-double": "Double-Precision Whetstone",
    "execl": "Execl Throughput",
    "fstime": "File Copy 1024 bufsize 2000 maxblocks",
    "fsbuffer": "File Copy 256 bufsize 500 maxblocks",
    "fsdisk": "File Copy 4096 bufsize 8000 maxblocks",
    "pipe": "Pipe Throughput",
    "context1": "Pipe-based Context Switching",
    "spawn": "Process Creation",
    "shell1": "Shell Scripts (1 concurrent)",
    "shell8": "Shell Scripts (8 concurrent)",
    "syscall": "System Call Overhead",
    "shell16": "Shell Scripts (16 concurrent)",
    "fstime-w": "File Write 1024 bufsize 2000 maxblocks",
    "fstime-r": "File Read 1024 bufsize 2000 maxblocks",
    "fsbuffer-w": "File Write 256 bufsize 500 maxblocks",
    "fsbuffer-r": "File Read 256 bufsize 500 maxblocks",
    "fsdisk-w": "File Write 4096 bufsize 8000 maxblocks",
    "fsdisk-r": "File Read 4096 bufsize 8000 maxblocks",
    "arithoh": "Arithoh",
    "short": "Arithmetic Test (short)",
    "int": "Arithmetic Test (int)",
    "long": "Arithmetic Test (long)",
    "float": "Arithmetic Test (float)",
    "double": "Arithmetic Test (double)",
    "hanoi": "Recursion Test -- Tower of Hanoi",
    "sysexec": "Exec System Call Overhead",
    "grep": "Grep a large file (system's grep)",
    "dc": "Dc: sqrt(2) to 99 decimal places",
    "C": "C Compiler Throughput (gcc)",
}
"""What Run calls each test, by its name; all but those of graphics."""

BASELINE: Mapping[str, float] = {
    "dhry2reg": 116700.0,
    "whetstone-double": 55.0,
    "execl": 43.0,
    "fstime": 3960.0,
    "fsbuffer": 1655.0,
    "fsdisk": 5800.0,
    "pipe": 12440.0,
    "context1": 4000.0,
    "spawn": 126.0,
    "shell1": 42.4,
    "shell8": 6.0,
    "syscall": 15000.0,
}
"""George's scores in the tests of the index of the system."""

_ARITHMETIC = ("short", "int", "long", "float", "double")
_MOST_ARITHMETIC_PER_S = 1.5e8
"""No CPU makes a loop of 100 divisions more often; one without them it does."""

_TEST = re.compile(r"^#{40,}\n(.+) -- ([0-9]+) cop(?:y|ies)$", re.MULTILINE | re.ASCII)
_PASS = re.compile(r"^#### Pass ([0-9]+)$", re.MULTILINE | re.ASCII)
_COPY = re.compile(r"(?:^# [A-Za-z]+[0-9]?: .*\n)+", re.MULTILINE)
_FIELD = re.compile(r"^# ([A-Za-z]+[0-9]?): (.*)$", re.MULTILINE)
_LABELS = {"lps", "lpm", "KBps", "MWIPS"}


@dataclass(frozen=True)
class Score:
    """Score of a test over its passes, with dropped ones; ``index`` if it has one.

    ``label`` is the unit: ``lps`` and ``lpm``, loops a second and a minute, ``KBps``, ``MWIPS``.
    """

    score: float
    label: str
    passes: int
    index: float | None


@dataclass(frozen=True)
class UnixbenchOutput:
    """The scores of a run with a number of copies.

    ``index`` is that of the system if all of its tests ran, ``partial_index`` of those that did.
    """

    copies: int
    scores: Mapping[str, Score]
    index: float | None
    partial_index: float | None


@dataclass(frozen=True)
class _Pass:
    """One pass: the sum of the copies' counts, and the mean of their times."""

    count: float
    timebase_s: float
    label: str
    time_s: float

    @property
    def rate(self) -> float:
        """The rate of the pass, or its count if that is a rate already."""
        return self.count / (self.time_s / self.timebase_s) if self.timebase_s else self.count


@shows_tail
def read(text: str) -> UnixbenchOutput:
    """Read the log of one run with one number of copies. Raises OutputError."""
    tests = list(_TEST.finditer(text))
    if not tests:
        raise OutputError("there is no test of UnixBench in it")
    copies = {whole(test[2], "the copies") for test in tests}
    if len(copies) > 1 or 0 in copies:
        raise OutputError("these are runs with several numbers of copies, where one is expected")
    names = {message: name for name, message in MESSAGES.items()}
    scores: dict[str, Score] = {}
    for test, after in _parts(tests, text):
        name = names.get(test[1])
        if name is None or name in scores:
            problem = "is unknown" if name is None else "is there twice"
            raise OutputError(f"the test {test[1][:60]} {problem}")
        scores[name] = _score(name, after, min(copies))
    ratios = [one.index for one in scores.values() if one.index is not None]
    partial = _geometric_mean(ratios) if ratios else None
    whole_index = partial if scores.keys() >= BASELINE.keys() else None
    return UnixbenchOutput(min(copies), scores, whole_index, partial)


def _parts(heads: Sequence[re.Match[str]], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each header, and the text up to the next one."""
    for at, head in enumerate(heads):
        end = heads[at + 1].start() if at + 1 < len(heads) else len(text)
        yield head, text[head.end() : end]


def _score(name: str, text: str, copies: int) -> Score:
    starts = list(_PASS.finditer(text))
    passes = [_pass(name, after, copies) for _, after in _parts(starts, text)]
    if not passes:
        raise OutputError(f"{name} has no pass: did it come to its end?")
    if len({(one.label, one.timebase_s) for one in passes}) > 1:
        raise OutputError(f"the passes of {name} are in different units")
    kept = sorted(passes, key=lambda one: one.count)[len(passes) // 3 :]
    score = _geometric_mean([one.rate for one in kept])
    index = 10 * score / BASELINE[name] if name in BASELINE else None
    return Score(score, kept[0].label, len(passes), index)


def _pass(name: str, text: str, copies: int) -> _Pass:
    reported = [dict(_FIELD.findall(block)) for block in _COPY.findall(f"{text}\n")]
    for copy in reported:
        if "ERROR" in copy or copy.get("status", "0") != "0":
            raise failed(name, copy.get("ERROR") or f"exit status {copy['status'][:10]}")
    if len(reported) != copies:
        raise OutputError(f"{name} has {len(reported)} copies of {copies}: did it come to its end?")
    timebase = amount(reported[0].get("COUNT1"), f"the time of a count of {name}")
    label = reported[0].get("COUNT2", "")
    if label not in _LABELS:
        raise OutputError(f"{name} counts in {label[:20]!r}")
    counts = [positive(copy.get("COUNT0"), f"the count of {name}") for copy in reported]
    times = [_time(copy, name) for copy in reported]
    return _Pass(math.fsum(counts), timebase, label, math.fsum(times) / copies)


def _time(copy: Mapping[str, str], name: str) -> float:
    elapsed = positive(copy.get("elapsed"), f"the time of {name}")
    reported = amount(copy["TIME"], f"the time of {name}") if "TIME" in copy else 0.0
    return reported or elapsed


def _geometric_mean(numbers: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, numbers)) / len(numbers))


_SOURCE = "UnixBench 6.0.0, Run"
_PROGRAMS = (
    *("looper", "dhry2reg", "whetstone-double", "execl", "fstime", "pipe", "context1", "spawn"),
    *("syscall", "arithoh", "short", "int", "long", "float", "double", "hanoi"),
)
_FILES = ("pgms/multi.sh", "pgms/tst.sh", "testdir/sort.src", "testdir/large.txt")
_MORE_FILES = ("testdir/dc.dat", "testdir/cctest.c")
# The flags of its Makefile, but for -march=native, which is of this machine, not the endpoint.
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
                message = f"{test} is there twice, and its number would be, too"
                raise conflict(message, f"remove one {test}", "tests")
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

    def warnings_from_metrics(self, metrics: Mapping[str, float | None]) -> Iterator[str]:
        """Warn of tests without their arithmetic."""
        names = [one for one in self.tests if one in _ARITHMETIC]
        if empty := [one for one in names if metrics.get(_name(one), 0.0) is None]:
            yield (
                f"{', '.join(empty)} of UnixBench counted loops without any arithmetic, as its"
                " compiler leaves out unused results (clang does, and so zig): build it with gcc"
                " on the endpoint, and give its directory"
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
        _, unit, reported = _UNITS[_label(test)]
        has_prefix = unit in PREFIXED
        yield Measure(
            name=_name(test), unit=unit, better=Better.HIGHER, label=test,
            head=test if has_prefix else f"{test}\n{unit}",
            digits=None if has_prefix else ".5g", over_pairs=OverPairs.SUM, source=_SOURCE,
            leading=number == 0 and not set(tests) & BASELINE.keys(),
            help=f"{MESSAGES[test]}: {reported}, all copies together",
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
                tools=("make",),
                steps=((*_MAKE, *(f"pgms/{name}" for name in _PROGRAMS)),),
                products=tuple(
                    f"UnixBench/{path}"
                    for path in (*(f"pgms/{name}" for name in _PROGRAMS), *_FILES, *_MORE_FILES)
                ),
            ),
            how=("build",),
        ),
    )
    output_measures: tuple[Measure, ...] = tuple(_measures([*BASELINE]))

    def __init__(self, settings: UnixbenchSettings, *, background: bool = False) -> None:
        self.output_measures = tuple(_measures(settings.tests))
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
        # Run measures sorting in UTF-8, where the endpoint has that locale.
        return (ProgramRun(on=Where.SENDER, argv=argv, env={"LANG": "en_US.utf8"}),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the log and compute the index; a missing test or pass is an error."""
        s, printed = self._settings, ended[-1].printed
        output = read(printed.text_of_stdout)
        wanted = {test: s.passes_of(test) for test in s.tests}
        found = {test: score.passes for test, score in output.scores.items()}
        if found != wanted or s.copies not in {None, output.copies}:
            raise OutputError("these are not the tests that were wanted", tail=printed.tail)
        index = output.index if output.index is not None else output.partial_index
        indices = {one.name: index for one in self.output_measures if one.name.endswith("_index")}
        scores = {_name(test): _value(one) for test, one in output.scores.items()}
        return {**indices, **scores, **_without_arithmetic(output)}


def _without_arithmetic(output: UnixbenchOutput) -> Mapping[str, None]:
    """Return null for each arithmetic test from which the compiler has removed the arithmetic."""
    most = _MOST_ARITHMETIC_PER_S * output.copies
    found = {test: output.scores[test].score for test in _ARITHMETIC if test in output.scores}
    return {_name(test): None for test, score in found.items() if score > most}


def _value(score: Score) -> float:
    return KIBI * score.score if score.label == "KBps" else score.score
