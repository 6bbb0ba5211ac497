"""Reader of the CSV output of redis-benchmark (--csv): a row for each test.

Source: redis-benchmark.c of 6.0, 7.0 and 8.0. Latencies are ms, of single requests as a client sees
them: with a pipeline, from when all of it was sent. 6.0 tells rates only, without a head. What
fills a list before LRANGE reads it is left out.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import failed, shows_tail
from osmef.formats.reading import amount, positive

_HEAD = (
    *("test", "rps", "avg_latency_ms", "min_latency_ms", "p50_latency_ms", "p95_latency_ms"),
    *("p99_latency_ms", "max_latency_ms"),
)
_OLD = ("test", "rps")
_NAME = re.compile(r"([A-Za-z0-9_]+)(?: \((.{1,60})\))?")
_ROW = re.compile(r'"[^"\n]*"(,"[^"\n]*")*')
_FAILED = re.compile(
    r"^((?:Error|ERROR|Could not connect)\b.*|Node .* replied with error:\n?.*)", re.MULTILINE
)
_FILLS = "needed to benchmark"


@dataclass(frozen=True)
class Latency:
    """Latency of requests."""

    mean_us: float
    min_us: float
    p50_us: float
    p95_us: float
    p99_us: float
    max_us: float


@dataclass(frozen=True)
class Test:
    """A test, by its name in lower case, such as ``lrange_100``."""

    name: str
    requests_per_s: float
    latency: Latency | None


@dataclass(frozen=True)
class RedisBenchmark:
    """A run: its tests in order."""

    tests: tuple[Test, ...]


@shows_tail
def read(text: str) -> RedisBenchmark:
    """Read the output of one run. Raises OutputError, also for an error of the server."""
    wrong = _FAILED.search(text)
    if wrong:
        raise failed("redis-benchmark", wrong[1])
    rows = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    columns: tuple[str, ...] = _OLD
    if rows and _cells(rows[0][1]) == list(_HEAD):
        columns, rows = _HEAD, rows[1:]
    found: dict[str, Test] = {}
    for number, line in rows:
        try:
            test = _test(line, columns)
        except OutputError as error:
            raise OutputError(error.message, line=number) from None
        if test is not None and test.name in found:
            raise OutputError(f"there are two results of {test.name}", line=number)
        found |= {test.name: test} if test is not None else {}
    if not found:
        raise OutputError("there is no result of redis-benchmark", cure="run it with --csv")
    return RedisBenchmark(tuple(found.values()))


def _cells(line: str) -> list[str]:
    """Return the fields of a row; none for another line."""
    return next(csv.reader([line])) if _ROW.fullmatch(line) else []


def _test(line: str, columns: tuple[str, ...]) -> Test | None:
    """Return the test of a row; None for one that only prepares data for another."""
    cells = _cells(line)
    name = _NAME.fullmatch(cells[0]) if len(cells) == len(columns) else None
    if name is None:
        raise OutputError(f"this is no row of redis-benchmark: {line[:60]!r}")
    rate, *times = cells[1:]
    test = Test(
        name=name[1].lower(),
        requests_per_s=positive(rate, f"the rate of {name[1]}"),
        latency=_latency(times, name[1]) if times else None,
    )
    return None if _FILLS in (name[2] or "") else test


def _latency(times: list[str], test: str) -> Latency:
    mean, least, p50, p95, p99, most = (1e3 * amount(time, f"a time of {test}") for time in times)
    if not least <= p50 <= p95 <= p99 <= most or not least <= mean <= most or not most:
        raise OutputError(f"the latencies of {test} are not in their order")
    return Latency(mean, least, p50, p95, p99, most)
