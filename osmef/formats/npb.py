"""Reader of the output of the NAS Parallel Benchmarks 3, over MPI.

Source: common/print_results.f and common/c_print_results.c of NPB 3.4. An operation is what each
benchmark counts: of IS a key that was ranked, of EP a random number, else one of floating point.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import shows_tail
from osmef.formats.reading import amount, first, of_one_run, positive, whole

_HEAD = re.compile(r"^ NAS Parallel Benchmarks \S+ -- (\S+) Benchmark *$", re.MULTILINE)
_ERROR = re.compile(r"^ ?ERROR: *(\S.*)$", re.MULTILINE)
_ABORT = re.compile(r"^Abort\(\d+\) on node \d+ .*$", re.MULTILINE)
_COMPLETED = re.compile(r"^ (\S+) +Benchmark Completed\.?$", re.MULTILINE)
_LINE = r"^ {} *= *(\S.*?) *$"
_SIZE = re.compile(r"[0-9]+(?: *x *[0-9]+){0,2}", re.ASCII)
_NAME = re.compile(r"[A-Z]{2}", re.ASCII)
_CLASS = re.compile(r"[A-Z]", re.ASCII)
_VERIFIED = {"SUCCESSFUL": True, "UNSUCCESSFUL": False}


@dataclass(frozen=True)
class Npb:
    """A run of one benchmark on all its processes.

    ``size`` has one number, or one a dimension. ``time_s`` is without initialisation, and None
    where it was too short for the two decimals that are printed. Of ``processes`` some may have had
    nothing to do: ``active`` tells how many had. ``verified`` tells whether the results are those
    that are known of this class.
    """

    benchmark: str
    problem_class: str
    size: tuple[int, ...]
    iterations: int
    time_s: float | None
    processes: int
    active: int
    operations_per_s: float
    operation: str
    verified: bool
    version: str

    @property
    def operations_per_s_each(self) -> float:
        """The rate per process, as NPB prints it with more digits."""
        return self.operations_per_s / self.processes


@shows_tail
def read(text: str) -> Npb:
    """Read the output of one run. Raises OutputError, also for a failed benchmark.

    A run that was not verified is no error here: ``verified`` tells it.
    """
    refused = _ERROR.search(text) or _ABORT.search(text)
    if refused:
        raise OutputError(f"NPB failed: {refused[refused.re.groups].strip()[:200]}")
    begins = of_one_run(_HEAD, text, "NPB")
    completed = of_one_run(_COMPLETED, text, "NPB")
    name = completed[1]
    if not _NAME.fullmatch(name) or begins[1] != name:
        raise OutputError(f"{begins[1][:20]} has begun, and {name[:20]} has ended")
    told = text[completed.end() :]
    time_s = amount(_value("Time in seconds", told), "the time")
    processes = _count("Total processes", told)
    return Npb(
        benchmark=name,
        problem_class=_one_of(_CLASS, "Class", told),
        size=tuple(whole(one, "the size") for one in _one_of(_SIZE, "Size", told).split("x")),
        iterations=whole(_value("Iterations", told), "the number of iterations"),
        time_s=time_s or None,
        processes=processes,
        active=_active(told, processes),
        operations_per_s=1e6 * positive(_value("Mop/s total", told), "the rate"),
        operation=_value("Operation type", told),
        verified=_verified(_value("Verification", told)),
        version=_value("Version", told),
    )


def _value(key: str, text: str) -> str:
    return first(re.compile(_LINE.format(re.escape(key)), re.MULTILINE), text, key)[1]


def _one_of(pattern: re.Pattern[str], key: str, text: str) -> str:
    value = _value(key, text)
    if not pattern.fullmatch(value):
        raise OutputError(f"the {key} is {value[:40]!r}, and nothing that it can be")
    return value


def _count(key: str, text: str) -> int:
    found = whole(_value(key, text), f"the {key}")
    if found == 0:
        raise OutputError(f"the {key} is 0")
    return found


def _active(text: str, processes: int) -> int:
    """Return the number of active processes; all for a benchmark that prints none."""
    if not re.search(_LINE.format("Active procs"), text, re.MULTILINE):
        return processes
    active = _count("Active procs", text)
    if active > processes:
        raise OutputError(f"{active} processes had something to do, and there are {processes}")
    return active


def _verified(word: str) -> bool:
    if word not in _VERIFIED:
        raise OutputError(f"the verification is {word[:40]!r}, and neither success nor failure")
    return _VERIFIED[word]
