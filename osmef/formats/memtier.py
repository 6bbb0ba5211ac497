"""Reader of the table that memtier_benchmark prints.

Source: memtier_benchmark's run_stats.cpp, 1.2 to 2.1. Latencies are ms. 1.2 has their mean alone; a
cluster has columns of its own. ``---`` is what a kind of request has none of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import failed, shows_tail
from osmef.formats.reading import amount, positive

_HEAD = re.compile(r"^Type(?: {2,}\S.*)$", re.MULTILINE)
_COLUMN = re.compile(r"\S+(?: \S+)*")
_NONE = "---"
_RATE = "Ops/sec"
_MEAN = ("Avg. Latency", "Latency")
_TIMES = {"p50_us": "p50 Latency", "p99_us": "p99 Latency", "p99_9_us": "p99.9 Latency"}
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
class Memtier:
    """A run: sets, gets, hits among these, and totals."""

    sets: Requests | None
    gets: Requests | None
    hits_per_s: float | None
    misses_per_s: float | None
    total: Requests


@shows_tail
def read(text: str) -> Memtier:
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
    return Memtier(
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
    times = {key: 1e3 * amount(row[name], what) for key, name in _TIMES.items() if name in row}
    order = list(times.values())
    if order != sorted(order):
        raise OutputError(f"{what} is not in its order")
    latency = Latency(1e3 * positive(mean, what), *(times.get(key) for key in _TIMES))
    return Requests(positive(rate, f"the rate of {row['Type']}"), latency)


def _rate(row: Mapping[str, str], name: str) -> float | None:
    told = row.get(name, _NONE)
    return None if told == _NONE else amount(told, name)
