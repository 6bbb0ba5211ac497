"""Reader of the output of sysbench 1: cpu and memory.

Source: sysbench.c, sb_cpu.c and sb_memory.c of sysbench 1.0. An event of cpu is a search for all
primes up to a limit, one of memory the reading or writing of a block; MiB are 2^20 bytes.
Times of an event are printed in ms, with two digits behind the point.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from osmef.errors import OutputError
from osmef.formats import failed, shows_tail
from osmef.formats.reading import MEBI, amount, first, of_one_run, positive, whole

_FAILED = re.compile(r"^FATAL: (.*)", re.MULTILINE)
_THREADS = re.compile(r"^Number of threads: (\S+)$", re.MULTILINE)
_CPU = re.compile(r"^    events per second: +(\S+)$", re.MULTILINE)
_MEMORY = re.compile(r"^Total operations: \S+ \( *(\S+) per second\)$", re.MULTILINE)
_MOVED = re.compile(r"^ *\S+ MiB transferred \( *(\S+) MiB/sec\)$", re.MULTILINE)
_TIME = re.compile(r"^    total time: +(\S+)s$", re.MULTILINE)
_EVENTS = re.compile(r"^    total number of events: +(\S+)$", re.MULTILINE)
_LATENCY = r"^ +{}: +(\S+)$"
_END = re.compile(r"^    execution time \(avg/stddev\): +\S+/\S+$", re.MULTILINE)


@dataclass(frozen=True)
class Sysbench:
    """A run. ``events_per_s`` is the sum over the threads.

    ``bytes_per_s`` is what was read or written by the test memory. The times of an event are None
    where they are printed as 0.
    """

    test: Literal["cpu", "memory"]
    threads: int
    elapsed_s: float
    events: int
    events_per_s: float
    bytes_per_s: float | None
    mean_us: float | None
    max_us: float | None


@shows_tail
def read(text: str) -> Sysbench:
    """Read the output of one run of cpu or memory. Raises OutputError, also for a failure."""
    refused = _FAILED.search(text)
    if refused:
        raise failed("sysbench", refused[1])
    events = of_one_run(_EVENTS, text, "sysbench")
    first(_END, text, "end of the statistics")
    speed, operations = _CPU.search(text), _MEMORY.search(text)
    rate = speed or operations
    if rate is None:
        raise OutputError("this is neither the test cpu nor memory of sysbench")
    return Sysbench(
        test="cpu" if speed else "memory",
        threads=whole(first(_THREADS, text, "number of threads")[1], "the threads"),
        elapsed_s=positive(first(_TIME, text, "total time")[1], "the total time"),
        events=whole(events[1], "the events"),
        events_per_s=positive(rate[1], "the events/s"),
        bytes_per_s=None if speed else _moved(text),
        mean_us=_latency(text, "avg"),
        max_us=_latency(text, "max"),
    )


def _moved(text: str) -> float:
    return MEBI * positive(first(_MOVED, text, "rate of the memory")[1], "the MiB/s")


def _latency(text: str, name: str) -> float | None:
    found = first(re.compile(_LATENCY.format(name), re.MULTILINE), text, f"latency {name}")
    return 1e3 * amount(found[1], f"the latency {name}") or None
