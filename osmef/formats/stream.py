"""Reader of the output of STREAM: memory bandwidth.

Source: McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers",
1995, and stream.c 5.10. MB are 10^6 bytes, times seconds; the best rate is that of the shortest
time, without the first repetition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import shows_tail
from osmef.formats.reading import first, of_one_run, positive, whole

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
class Kernel:
    """One of the four loops: its best rate, and its times."""

    best_bytes_per_s: float
    mean_s: float
    min_s: float
    max_s: float


@dataclass(frozen=True)
class Stream:
    """A run. ``threads`` is None without OpenMP.

    ``validated`` tells whether the arrays held what they should in the end.
    """

    copy: Kernel
    scale: Kernel
    add: Kernel
    triad: Kernel
    array_elements: int
    element_bytes: int
    repetitions: int
    threads: int | None
    validated: bool


@shows_tail
def read(text: str) -> Stream:
    """Read the output of one run of STREAM 5.10. Raises OutputError.

    Arrays that did not hold what they should are no error here: ``validated`` tells it.
    """
    of_one_run(_HEAD, text, "STREAM")
    copy, scale, add, triad = (_kernel(name, text) for name in ("Copy", "Scale", "Add", "Triad"))
    invalid = _INVALID.search(text) is not None
    if not invalid:
        first(_VALID, text, "validation")
    return Stream(
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


def _kernel(name: str, text: str) -> Kernel:
    row = first(re.compile(_KERNEL.format(name), re.MULTILINE), text, name)
    rate, mean, least, most = (positive(value, f"a number of {name}") for value in row.groups())
    return Kernel(1e6 * rate, mean, least, most)


def _count(pattern: re.Pattern[str], text: str, what: str) -> int:
    found = whole(first(pattern, text, what)[1], f"the {what}")
    if found == 0:
        raise OutputError(f"the {what} is 0")
    return found
