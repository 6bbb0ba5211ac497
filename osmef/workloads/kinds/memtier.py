"""memtier_benchmark: requests to a key-value store, sets and gets in a proportion.

Source: memtier_benchmark's run_stats.cpp, 1.2 to 2.1. Latencies are ms. 1.2 has their mean alone; a
cluster has columns of its own. ``---`` is what a kind of request has none of.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats import amount, failed, positive, shows_tail
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import Tool

_HEAD = re.compile(r"^Type(?: {2,}\S.*)$", re.MULTILINE)
_COLUMN = re.compile(r"\S+(?: \S+)*")
_NONE = "---"
_RATE = "Ops/sec"
_MEAN = ("Avg. Latency", "Latency")
_COLUMNS = {"p50_us": "p50 Latency", "p99_us": "p99 Latency", "p99_9_us": "p99.9 Latency"}
_FAILED = re.compile(
    r"^((?:connection )?error: .*|.*handle error response: .*|.*connection dropped.*)$",
    re.MULTILINE | re.IGNORECASE,
)


@dataclass(frozen=True)
class Latency:
    """Latency of requests; percentiles are None where the version prints none."""

    mean_us: float
    p50_us: float | None
    p99_us: float | None
    p99_9_us: float | None


@dataclass(frozen=True)
class Requests:
    """Requests of one kind, or all; ``latency`` is None without any."""

    requests_per_s: float
    latency: Latency | None


@dataclass(frozen=True)
class MemtierOutput:
    """Output of one program run: sets, gets, hits among these, and totals."""

    sets: Requests | None
    gets: Requests | None
    hits_per_s: float | None
    misses_per_s: float | None
    total: Requests


@shows_tail
def read(text: str) -> MemtierOutput:
    """Read the output of one run. Raises OutputError, also for an error of the server."""
    wrong = _FAILED.search(text)
    if wrong:
        raise failed("memtier_benchmark", wrong[1].strip())
    heads = list(_HEAD.finditer(text))
    if len(heads) != 1:
        many = "more than one result" if heads else "no result"
        raise OutputError(f"there is {many} of memtier_benchmark", cure="let it run once (-x 1)")
    names = _COLUMN.findall(heads[0][0])
    rows: dict[str, Mapping[str, str]] = {}
    for line in text[heads[0].end() :].splitlines():
        cells = line.split()
        if cells and cells[0] in {"Sets", "Gets", "Waits", "Totals"}:
            if len(cells) != len(names):
                raise OutputError(f"the row {cells[0]} has {len(cells)} columns, not {len(names)}")
            rows[cells[0]] = dict(zip(names, cells, strict=True))
    if "Totals" not in rows:
        raise OutputError("memtier_benchmark reports no totals: did it end early?")
    total = _requests(rows["Totals"])
    if total is None:
        raise OutputError("memtier_benchmark has asked for nothing")
    gets = rows.get("Gets", {})
    return MemtierOutput(
        sets=_requests(rows.get("Sets", {})),
        gets=_requests(gets),
        hits_per_s=_rate(gets, "Hits/sec"),
        misses_per_s=_rate(gets, "Misses/sec"),
        total=total,
    )


def _requests(row: Mapping[str, str]) -> Requests | None:
    """Return the requests of a row; None for an absent row, or one without requests."""
    rate = _rate(row, _RATE)
    if not rate:
        return None
    what = f"the latency of {row['Type']}"
    mean = next((row[name] for name in _MEAN if name in row), _NONE)
    times = {key: 1e3 * amount(row[name], what) for key, name in _COLUMNS.items() if name in row}
    order = list(times.values())
    if order != sorted(order):
        raise OutputError(f"{what} is not in its order")
    latency = Latency(1e3 * positive(mean, what), *(times.get(key) for key in _COLUMNS))
    return Requests(positive(rate, f"the rate of {row['Type']}"), latency)


def _rate(row: Mapping[str, str], name: str) -> float | None:
    reported = row.get(name, _NONE)
    return None if reported == _NONE else amount(reported, name)


_SOURCE = "run_stats.cpp of memtier_benchmark"
_TIMES = {"mean": "mean", "p50": "median", "p99": "99th percentile", "p99_9": "99.9th percentile"}


class MemtierSettings(ProgramsSettings):
    """memtier_benchmark: requests of clients to a Redis server at the receiver."""

    kind: Literal["memtier"] = Field(default="memtier", description="the kind of workload")
    threads: int = Field(default=4, ge=1, le=500, description="of the clients (-t)")
    clients: int = Field(default=50, ge=1, le=10_000, description="connections of each thread (-c)")
    ratio: str = Field(
        default="1:10",
        pattern=r"^(0:[1-9][0-9]{0,5}|[1-9][0-9]{0,5}:[0-9]{1,6})$",
        description="sets to gets (--ratio)",
    )
    size: Size = Field(default=32, ge=1, le=2**29, description="of each value (-d)")
    pipeline: int = Field(
        default=1, ge=1, le=10_000, description="requests that a client sends at once (--pipeline)"
    )
    keys: int = Field(
        default=10_000_000,
        ge=1,
        le=10**9,
        description="from how many each is drawn (--key-maximum)",
    )
    io_threads: int = Field(
        default=1, ge=1, le=128, description="of the server that read and write (io-threads)"
    )

    @property
    def connections_per_pair(self) -> int | None:
        """How many connections each pair has."""
        return self.threads * self.clients


class Memtier(Tool[MemtierSettings]):
    """A server at the receiver without persistence, and its clients."""

    Settings = MemtierSettings
    example = 'workload: {kind: memtier, ratio: "1:1", size: 1KiB, keys: 100000}'
    programs = (
        Program("redis-server"),
        # No distribution's own: it comes from Redis' package repository, or from its source.
        Program("memtier_benchmark", package="memtier-benchmark", how=("present",)),
    )
    output_measures = (
        Measure(
            name="requests_per_s", unit="1/s", better=Better.HIGHER, label="requests",
            head="requests\n/s", digits=".0f", over_pairs=OverPairs.SUM, leading=True,
            help="sets and gets per second, of all clients", source=_SOURCE,
        ),
        Measure(
            name="sets_per_s", unit="1/s", better=Better.HIGHER, label="sets", head="sets\n/s",
            digits=".0f", over_pairs=OverPairs.SUM, help="sets per second", source=_SOURCE,
        ),
        Measure(
            name="gets_per_s", unit="1/s", better=Better.HIGHER, label="gets", head="gets\n/s",
            digits=".0f", over_pairs=OverPairs.SUM, help="gets per second", source=_SOURCE,
        ),
        Measure(
            name="hits_percent", unit="%", better=Better.NEITHER, label="hits", head="hits\n%",
            digits=".1f", over_pairs=OverPairs.MEAN, help="gets that found a value", source=_SOURCE,
        ),
        *(
            Measure(
                name=f"{key}_us", unit="us", better=Better.LOWER, label=f"request, {quantile}",
                head=f"{key.replace('_', '.')}\nµs" if key in {"p50", "p99"} else None,
                digits=".0f", over_pairs=OverPairs.WORST, source=_SOURCE,
                help=f"{quantile} of the time from sending a request until its answer was there",
            )
            for key, quantile in _TIMES.items()
        ),
    )  # fmt: skip

    def __init__(self, settings: MemtierSettings, *, background: bool = False) -> None:
        self._password = secrets.token_hex(16)
        super().__init__(settings, background=background)

    def runs(self) -> Sequence[ProgramRun]:
        """Return the server and the clients, with a random password."""
        s = self._settings
        server = ["redis-server", "--bind", "{bind}", "--port", "{port}", "--save", "",
                  "--appendonly", "no", "--requirepass", self._password]  # fmt: skip
        server += ["--io-threads", str(s.io_threads)] if s.io_threads > 1 else []
        client = ["memtier_benchmark", "-s", "{peer}", "-p", "{port}", "-a", self._password]
        client += ["-t", str(s.threads), "-c", str(s.clients), "--ratio", s.ratio]
        client += ["-d", str(s.size), "--pipeline", str(s.pipeline), "--key-maximum", str(s.keys)]
        client += ["--test-time", str(max(1, math.ceil(s.duration))), "--hide-histogram"]
        return (
            ProgramRun(on=Where.RECEIVER, argv=server, ready="port", serves=True),
            ProgramRun(on=Where.SENDER, argv=client),
        )

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the table."""
        printed = ended[-1].printed
        found = read(printed.text_of_stdout)
        hits, misses = found.hits_per_s, found.misses_per_s
        asked = None if hits is None or misses is None else hits + misses
        latency = found.total.latency
        return {
            "requests_per_s": found.total.requests_per_s,
            "sets_per_s": found.sets.requests_per_s if found.sets else None,
            "gets_per_s": found.gets.requests_per_s if found.gets else None,
            "hits_percent": 100 * hits / asked if hits is not None and asked else None,
            **{f"{key}_us": getattr(latency, f"{key}_us", None) for key in _TIMES},
        }
