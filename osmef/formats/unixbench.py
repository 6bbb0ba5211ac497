"""Reader of UnixBench's log, and computation of its index as its script Run does it.

Source: Run and pgms/index.base of UnixBench 6.0.0, whose index has been the same since 5.1. Of each
test, Run drops the third of the passes with the lowest counts. The score is the geometric mean of
the others' counts a second, or a minute, or as the test tells it; those of all copies are summed. A
test's index is ten times its score in that of a SPARCstation 20-61 named George, and the index of
the system the geometric mean of these. KB are 2^10 bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import failed, shows_tail
from osmef.formats.reading import amount, positive, whole

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
class Unixbench:
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
def read(text: str) -> Unixbench:
    """Read the log of one run with one number of copies. Raises OutputError."""
    tests = list(_TEST.finditer(text))
    if not tests:
        raise OutputError("there is no test of UnixBench in it")
    copies = {whole(test[2], "the copies") for test in tests}
    if len(copies) > 1 or 0 in copies:
        raise OutputError("these are runs with several numbers of copies, and not one")
    names = {message: name for name, message in MESSAGES.items()}
    scores: dict[str, Score] = {}
    for test, after in _parts(tests, text):
        name = names.get(test[1])
        if name is None or name in scores:
            told = "is unknown" if name is None else "is there twice"
            raise OutputError(f"the test {test[1][:60]} {told}")
        scores[name] = _score(name, after, min(copies))
    ratios = [one.index for one in scores.values() if one.index is not None]
    partial = _geometric_mean(ratios) if ratios else None
    whole_index = partial if scores.keys() >= BASELINE.keys() else None
    return Unixbench(min(copies), scores, whole_index, partial)


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
    told = [dict(_FIELD.findall(block)) for block in _COPY.findall(f"{text}\n")]
    for copy in told:
        if "ERROR" in copy or copy.get("status", "0") != "0":
            raise failed(name, copy.get("ERROR") or f"exit status {copy['status'][:10]}")
    if len(told) != copies:
        raise OutputError(f"{name} has {len(told)} copies of {copies}: did it come to its end?")
    timebase = amount(told[0].get("COUNT1"), f"the time of a count of {name}")
    label = told[0].get("COUNT2", "")
    if label not in _LABELS:
        raise OutputError(f"{name} counts in {label[:20]!r}")
    counts = [positive(copy.get("COUNT0"), f"the count of {name}") for copy in told]
    times = [_time(copy, name) for copy in told]
    return _Pass(math.fsum(counts), timebase, label, math.fsum(times) / copies)


def _time(copy: Mapping[str, str], name: str) -> float:
    elapsed = positive(copy.get("elapsed"), f"the time of {name}")
    told = amount(copy["TIME"], f"the time of {name}") if "TIME" in copy else 0.0
    return told or elapsed


def _geometric_mean(numbers: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, numbers)) / len(numbers))
