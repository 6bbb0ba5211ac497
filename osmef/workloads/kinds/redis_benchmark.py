"""redis-benchmark: requests to a key-value store.

Source: redis-benchmark.c of 6.0, 7.0 and 8.0. Latencies are ms, of single requests as a client sees
them: with a pipeline, from when all of it was sent. 6.0 prints only rates, without a header. The
writes that fill a list for LRANGE are left out.
"""

from __future__ import annotations

import csv
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats import amount, failed, positive, shows_tail
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import Tool

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
class RedisBenchmarkOutput:
    """Output of one program run: its tests in order."""

    tests: tuple[Test, ...]


@shows_tail
def read(text: str) -> RedisBenchmarkOutput:
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
    return RedisBenchmarkOutput(tuple(found.values()))


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


_Test = Literal[
    "ping_inline", "ping_mbulk", "set", "get", "incr", "lpush", "rpush", "lpop", "rpop", "sadd",
    "hset", "spop", "zadd", "zpopmin", "lrange_100", "lrange_300", "lrange_500", "lrange_600",
    "mset",
]  # fmt: skip
_TIMES = {"mean": "mean", "p50": "median", "p95": "95th percentile", "p99": "99th percentile",
          "max": "maximum"}  # fmt: skip


class RedisBenchmarkSettings(ProgramsSettings):
    """redis-benchmark: requests of clients to a Redis server at the receiver."""

    kind: Literal["redis-benchmark"] = Field(
        default="redis-benchmark", description="the kind of workload"
    )
    tests: Annotated[list[_Test], Field(min_length=1, max_length=19)] = Field(
        default=["set", "get"], description="the commands, one test after the other (-t)"
    )
    clients: int = Field(default=50, ge=1, le=10_000, description="connections at once (-c)")
    requests: int = Field(
        default=100_000, ge=100, le=10**9, description="of each test, by all clients (-n)"
    )
    size: Size = Field(default=3, ge=1, le=2**29, description="of each value (-d)")
    pipeline: int = Field(
        default=1, ge=1, le=10_000, description="requests that a client sends at once (-P)"
    )
    keys: int | None = Field(
        default=None, ge=1, le=10**9, description="from how many keys each is drawn; else one (-r)"
    )
    keep_alive: bool = Field(
        default=True, description="false: a new connection for each request (-k)"
    )
    threads: int = Field(default=1, ge=1, le=500, description="of the clients (--threads)")
    io_threads: int = Field(
        default=1, ge=1, le=128, description="of the server that read and write (io-threads)"
    )

    @property
    def connections_per_pair(self) -> int | None:
        """How many connections each pair has."""
        return self.clients


class RedisBenchmark(Tool[RedisBenchmarkSettings]):
    """A server at the receiver without persistence, and its clients."""

    Settings = RedisBenchmarkSettings
    example = "workload: {kind: redis-benchmark, clients: 100, size: 1KiB, keys: 100000}"
    programs = (
        Program("redis-server"),
        Program("redis-benchmark", package="redis-tools"),
    )

    def __init__(self, settings: RedisBenchmarkSettings, *, background: bool = False) -> None:
        names = dict.fromkeys(settings.tests)
        self.output_measures = tuple(
            one for number, name in enumerate(names) for one in _measures(name, leads=number == 0)
        )
        self._password = secrets.token_hex(16)
        super().__init__(settings, background=background)

    def runs(self) -> Sequence[ProgramRun]:
        """Return the server and the clients, with a random password."""
        s = self._settings
        server = ["redis-server", "--bind", "{bind}", "--port", "{port}", "--save", "",
                  "--appendonly", "no", "--requirepass", self._password]  # fmt: skip
        server += ["--io-threads", str(s.io_threads)] if s.io_threads > 1 else []
        client = ["redis-benchmark", "--csv", "-h", "{peer}", "-p", "{port}", "-a", self._password]
        client += ["-t", ",".join(s.tests), "-c", str(s.clients), "-n", str(s.requests)]
        client += ["-d", str(s.size), "-P", str(s.pipeline), "-k", str(int(s.keep_alive))]
        client += ["-r", str(s.keys)] if s.keys is not None else []
        client += ["--threads", str(s.threads)] if s.threads > 1 else []
        return (
            ProgramRun(on=Where.RECEIVER, argv=server, ready="port", serves=True),
            ProgramRun(on=Where.SENDER, argv=client),
        )

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the CSV, with a row for each requested test."""
        printed = ended[-1].printed
        reported = {test.name: test for test in read(printed.text_of_stdout).tests}
        numbers: dict[str, float | None] = {}
        for name in dict.fromkeys(self._settings.tests):
            if name not in reported:
                raise OutputError(f"redis-benchmark reports nothing of {name}", tail=printed.tail)
            numbers |= _numbers(reported[name])
        return numbers


def _numbers(test: Test) -> Mapping[str, float | None]:
    return {
        f"{test.name}_per_s": test.requests_per_s,
        **{f"{test.name}_{key}_us": getattr(test.latency, f"{key}_us", None) for key in _TIMES},
    }


def _measures(test: str, *, leads: bool) -> tuple[Measure, ...]:
    command = test.upper()
    rate = Measure(
        name=f"{test}_per_s", unit="1/s", better=Better.HIGHER, label=command, leading=leads,
        head=f"{command}\n/s", digits=".0f", over_pairs=OverPairs.SUM,
        source="redis-benchmark.c, rps", help=f"requests {command} per second, of all clients",
    )  # fmt: skip
    times = (
        Measure(
            name=f"{test}_{key}_us", unit="us", better=Better.LOWER, label=f"{command}, {quantile}",
            head=f"{command}\n{key} µs" if key in {"p50", "p99"} else None, digits=".0f",
            over_pairs=OverPairs.WORST, source="redis-benchmark.c, latency",
            help=f"{quantile} of the time from sending {command} until its answer was there",
        )
        for key, quantile in _TIMES.items()
    )  # fmt: skip
    return (rate, *times)
