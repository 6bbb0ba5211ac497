"""Extraction of numbers from programs' output: by regular expression, or by JSON path.

Users' patterns are searched in a process of its own, with a limit of CPU time: one such as
``((?:a+)+)$`` takes years on forty characters (catastrophic backtracking), and Python's ``re``
neither ends by itself nor lets other threads run meanwhile, those that handle Ctrl-C among them.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Any

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats import TAIL
from osmef.programs import start_in_new_session
from osmef.scenario.base import Model, conflict
from osmef.units import convert

LIMIT_S = 10
"""CPU time of one search, in seconds."""
_TRIES = 2

# The kernel ends it by SIGXCPU, so also where OSMeF itself was killed meanwhile.
_SERVER = """
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for line in sys.stdin.buffer:
    pattern, text, limit_s = json.loads(line)
    used = resource.getrusage(resource.RUSAGE_SELF)
    bound = int(used.ru_utime + used.ru_stime) + 1 + limit_s
    resource.setrlimit(resource.RLIMIT_CPU, (bound, resource.RLIM_INFINITY))
    print(json.dumps(re.findall(pattern, text)), flush=True)
"""


class _Matcher:
    """The process, which is started for the first search and ends with this one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None

    def search(self, pattern: str, text: str, limit_s: int) -> list[str]:
        line = json.dumps([pattern, text, limit_s]).encode() + b"\n"
        with self._lock:
            # It may have been killed, for example by the kernel for lack of memory.
            for _ in range(_TRIES):
                process = self._started()
                if answer := _ask(process, line):
                    found: list[str] = json.loads(answer)
                    return found
                self._end()
                if process.returncode == -signal.SIGXCPU:
                    raise TimeoutError
        raise ChildProcessError(f"the process that searches ended with {process.returncode}")

    def _started(self) -> subprocess.Popen[bytes]:
        # One that was forked from this process must not share its pipes.
        if self._process is None or self._owner != os.getpid():
            argv, pipe = [sys.executable, "-I", "-S", "-c", _SERVER], subprocess.PIPE
            self._process = start_in_new_session(
                argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
            )
            self._owner = os.getpid()
        return self._process

    def close(self) -> None:
        """End the process, if it is this one's."""
        process = self._process
        if process is not None and self._owner == os.getpid():
            process.kill()
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(BrokenPipeError):
                process.communicate()


def _ask(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """Return the answer of the process, nothing where it has ended."""
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    with suppress(BrokenPipeError):
        process.stdin.write(line)
        process.stdin.flush()
    return process.stdout.readline()


_MATCHER = _Matcher()
atexit.register(_MATCHER.close)


def find_all(pattern: str, text: str, limit_s: int = LIMIT_S) -> list[str]:
    """Return all matches of a pattern with one group, as ``re.findall`` does.

    Raises TimeoutError where that takes more than ``limit_s`` seconds of CPU time, and
    ChildProcessError where the process ends otherwise.
    """
    return _MATCHER.search(pattern, text, limit_s)


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_MOST_DIGITS = 40
_DOCUMENT = re.compile(r"(?:\A\s*|^\x1e?)([{\[])", re.MULTILINE)
_NEXT_DOCUMENT = re.compile(r"[ \t\r,]*([{\[])")
# Control characters except newlines and tabs, and bytes that were no UTF-8.
_NO_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd]+")
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"


class OutputStream(StrEnum):
    """Output stream of a program."""

    STDOUT = "stdout"
    STDERR = "stderr"


class MatchSelection(StrEnum):
    """Which of several matches counts."""

    FIRST = "first"
    LAST = "last"
    SUM = "sum"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class Printed:
    """The output of a program."""

    stdout: bytes
    stderr: bytes

    def text(self, stream: OutputStream) -> str:
        """Return one stream as text, its lines ended by LF; invalid UTF-8 is replaced."""
        data = self.stdout if stream is OutputStream.STDOUT else self.stderr
        return data.decode(errors="replace").replace("\r\n", "\n")

    @property
    def text_of_stdout(self) -> str:
        """Standard output as text."""
        return self.text(OutputStream.STDOUT)

    @property
    def tail(self) -> str:
        """The end of the output, of stderr if it is not empty."""
        return self.tail_of(OutputStream.STDERR)

    def tail_of(self, stream: OutputStream) -> str:
        """Return the end of one stream, of the other if it is empty, for messages."""
        other = OutputStream.STDOUT if stream is OutputStream.STDERR else OutputStream.STDERR
        said = self.text(stream).strip() or self.text(other).strip()
        end = "\n".join(said[-TAIL:].splitlines())
        if sum(map(len, _NO_TEXT.findall(end))) > len(end) / 3:
            return "bytes that are no text"
        return _NO_TEXT.sub(_UNREADABLE, end) or "nothing"


class Reading(Model):
    """Location of a number in a program's output, and its meaning."""

    pattern: str | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="regular expression with one group, which is the number",
    )
    json_path: str | None = Field(
        default=None,
        alias="json",
        min_length=1,
        max_length=1000,
        description="path to the number in JSON that it prints: keys and indices with dots between",
    )
    unit: str = Field(
        default="1", min_length=1, max_length=40, description="of the metric, such as `bit/s`, `s`"
    )
    written_in: str | None = Field(
        default=None,
        min_length=1,
        max_length=40,
        description="the unit in which the program writes it, if that is another one: `MB/s`",
    )
    which: MatchSelection = Field(
        default=MatchSelection.LAST,
        strict=False,
        description="which one counts, where there are several",
    )
    stream: OutputStream = Field(
        default=OutputStream.STDOUT, strict=False, description="where the program prints it"
    )
    optional: bool = Field(
        default=False, description="true: the number may be missing, and is null then"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Reading:
        if (self.pattern is None) == (self.json_path is None):
            raise conflict(
                "a number is found by a pattern or by a path into JSON",
                "write pattern, or json",
                *("pattern", "json"),
            )
        return self

    @model_validator(mode="after")
    def _pattern_has_a_group(self) -> Reading:
        if self.pattern is None:
            return self
        try:
            groups = re.compile(self.pattern).groups
        except (re.error, RecursionError) as error:
            cure = "see Python's re; put it into single quotes in YAML"
            raise conflict(f"this is no regular expression: {error}", cure, "pattern") from error
        if groups != 1:
            raise conflict(
                f"the pattern has {groups} groups",
                "put the number alone into parentheses; (?:...) is no group",
                "pattern",
            )
        return self

    @model_validator(mode="after")
    def _units_convert(self) -> Reading:
        try:
            convert(1.0, self.written_in or self.unit, self.unit)
        except ValueError as error:
            message, _, cure = str(error).partition("; ")
            raise conflict(message, cure, *("written_in", "unit")) from error
        return self

    def value(self, printed: Printed) -> float | None:
        """Return the number in the metric's unit. Raises OutputError."""
        tail = printed.tail_of(self.stream)
        if self.pattern is not None:
            found = self._matches(printed, self.stream)
        else:
            found = self._at_path(printed.text(self.stream), tail)
        if not found:
            if self.optional:
                return None
            raise self._missing(printed)
        numbers, number = [_number(one, tail) for one in found], math.inf
        with contextlib.suppress(OverflowError):
            number = convert(_chosen(numbers, self.which), self.written_in or self.unit, self.unit)
        if not math.isfinite(number):
            cure = "look at what it printed, and at which, written_in and unit"
            raise OutputError("the number is too large", tail=tail, cure=cure)
        return number

    def _missing(self, printed: Printed) -> OutputError:
        """Return the error of a missing number."""
        tail = printed.tail_of(self.stream)
        if self.pattern is None:
            what, cure = f"the JSON on its {self.stream} has no {self.json_path}", "fix the path"
        else:
            what, cure = f"nothing on its {self.stream} matches {self.pattern}", "fix the pattern"
            other = (
                OutputStream.STDOUT if self.stream is OutputStream.STDERR else OutputStream.STDERR
            )
            if self._matches(printed, other):
                cure = f"it is on the other stream: write stream: {other}"
        return OutputError(what, tail=tail, cure=f"{cure}; with optional: true it may be missing")

    def _matches(self, printed: Printed, stream: OutputStream) -> Sequence[object]:
        try:
            found = find_all(str(self.pattern), printed.text(stream))
        except TimeoutError as error:
            raise OutputError(
                f"the search for {self.pattern} on its {stream} was ended after {LIMIT_S} s of CPU",
                tail=printed.tail_of(stream),
                cure="repeat no group that itself ends in a repetition: write a+ for (?:a+)+",
            ) from error
        except ChildProcessError as error:
            raise OutputError(
                f"{error} at {self.pattern}",
                tail=printed.tail_of(stream),
                cure="is there enough memory on this machine?",
            ) from error
        return [one for one in found if one]

    def _at_path(self, text: str, tail: str) -> Sequence[object]:
        found: list[object] = []
        for document in _documents(text, tail):
            value = document
            for step in str(self.json_path).split("."):
                value = _inside(value, step)
            found += value if isinstance(value, list) else [value]
        return [one for one in found if one is not None]


def _documents(text: str, tail: str) -> list[Any]:
    """Return the JSON documents in a text, without other lines.

    Each is at the beginning of a line, maybe after a record separator (RFC 7464), or follows
    another one. Raises OutputError if there is none, or one is cut off: a complete one inside of it
    would be a wrong match.
    """
    found: list[Any] = []
    begin = _DOCUMENT.search(text)
    while begin is not None:
        at, is_list = begin.start(1), begin[1] == "["
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        try:
            value, end = json.JSONDecoder(parse_int=_integer).raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if not is_list or getattr(error, "pos", line_end) >= line_end:
                found.clear()
                break
            begin = _DOCUMENT.search(text, line_end)  # after a message such as [info] ready
            continue
        if is_list and text[end:line_end].strip():
            begin = _DOCUMENT.search(text, line_end)  # [3] workers
        else:
            found.append(value)
            begin = _NEXT_DOCUMENT.match(text, end) or _DOCUMENT.search(text, end)
    if found:
        return found
    raise OutputError(
        "there is no complete JSON in what it printed",
        tail=tail,
        cure="have it print JSON, which often is an option, or read the number by a pattern",
    )


def _integer(digits: str) -> int | float:
    """Return an integer of a JSON document; an infinite one where Python reads no longer ones."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _inside(value: Any, step: str) -> Any:
    """Return the element at a key or an index; None without it."""
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and re.fullmatch(r"-?[0-9]{1,9}", step):
        return value[int(step)] if -len(value) <= int(step) < len(value) else None
    return None


def _number(found: object, tail: str) -> float:
    """Return a number from JSON or text. Raises OutputError."""
    number = math.nan
    if isinstance(found, int | float) and not isinstance(found, bool):
        with contextlib.suppress(OverflowError):
            number = float(found)
    elif isinstance(found, str) and len(found) <= _MOST_DIGITS and _NUMBER.fullmatch(found.strip()):
        number = float(found)
    if not math.isfinite(number):
        raise OutputError(
            f"{str(found)[:60]!r} is no number",
            tail=tail,
            cure="let the path, or the group of the pattern, be of the number alone",
        )
    return number


def _chosen(numbers: Sequence[float], which: MatchSelection) -> float:
    match which:
        case MatchSelection.FIRST:
            return numbers[0]
        case MatchSelection.LAST:
            return numbers[-1]
        case MatchSelection.SUM:
            return math.fsum(numbers)
        case MatchSelection.MEAN:
            return math.fsum(numbers) / len(numbers)
        case MatchSelection.MIN:
            return min(numbers)
        case MatchSelection.MAX:
            return max(numbers)
