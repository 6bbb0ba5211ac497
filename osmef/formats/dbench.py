"""Reader of the output of dbench 4, and of tbench.

Source: dbench.c of dbench 4.0. MB are 10^6 bytes, and times ms. The throughput is that of the last
second before the clients stop: a run that is too short for one prints 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import shows_tail
from osmef.formats.reading import amount, of_one_run, whole

_FAILED = re.compile(
    r"^(?:dbench: )?(error opening .*|Child failed .*|FAILED TO START .*|Failed to .*"
    r"|failed to connect .*)",
    re.MULTILINE,
)
_THROUGHPUT = re.compile(
    r"^Throughput (\S+) MB/sec( \(sync open\))?( \(sync dirs\))?  (\S+) clients  (\S+) procs"
    r"  max_latency=(\S+) ms$",
    re.MULTILINE,
)
_OF_CLIENTS = "Per client results:"
_HEAD = re.compile(r" Operation +Count +AvgLat +MaxLat", re.ASCII)
_OPERATION = re.compile(r" (\S+) +(\S+) +(\S+) +(\S+)", re.ASCII)
_RULE = re.compile(r" -+", re.ASCII)


@dataclass(frozen=True)
class Operation:
    """Count and latency of one operation over all clients.

    The mean is None of what was not done once while it was measured.
    """

    name: str
    count: int
    mean_us: float | None
    max_us: float


@dataclass(frozen=True)
class Dbench:
    """A run: bytes read and written by all clients, and the slowest operation."""

    throughput_bytes_per_s: float
    clients: int
    processes: int
    max_latency_us: float
    sync_open: bool
    sync_directories: bool
    operations: tuple[Operation, ...]


@shows_tail
def read(text: str) -> Dbench:
    """Read the output of one run. Raises OutputError, also where a client failed.

    The operations are those of all clients; --per-client-results are left out.
    """
    refused = _FAILED.search(text)
    if refused:
        raise OutputError(f"dbench failed: {refused[1]}")
    told = of_one_run(_THROUGHPUT, text, "dbench")
    rate = amount(told[1], "the throughput")
    if rate == 0:
        raise OutputError(
            "dbench was too short for a throughput", cure="let it run for some seconds: -t 5"
        )
    return Dbench(
        throughput_bytes_per_s=1e6 * rate,
        clients=whole(told[4], "the clients"),
        processes=whole(told[5], "the processes"),
        max_latency_us=1e3 * amount(told[6], "the greatest latency"),
        sync_open=told[2] is not None,
        sync_directories=told[3] is not None,
        operations=_operations(text[: told.start()].partition(_OF_CLIENTS)[0].splitlines()),
    )


def _operations(lines: list[str]) -> tuple[Operation, ...]:
    heads = [at for at, line in enumerate(lines) if _HEAD.fullmatch(line)]
    if not heads:
        raise OutputError("there is no table of operations: did it come to its end?")
    found = []
    for at, line in enumerate(lines[heads[0] + 1 :], start=heads[0] + 2):
        if _RULE.fullmatch(line):
            continue
        if not line.strip():
            break
        row = _OPERATION.fullmatch(line)
        if row is None:
            raise OutputError(f"this is no operation: {line.strip()[:60]}", line=at)
        found.append(_operation(row))
    return tuple(found)


def _operation(row: re.Match[str]) -> Operation:
    name, count = row[1], whole(row[2], f"the count of {row[1]}")
    mean = 1e3 * amount(row[3], f"the mean of {name}") if count else None
    return Operation(name, count, mean, 1e3 * amount(row[4], f"the greatest time of {name}"))
