"""Importer of the CSV files of ppbench: a row a message size.

Source: Kratzke and Quint, "ppbench, A Visualizing Network Benchmark for Microservices", CLOSER
2016. Time per request is the mean in ms of some repetitions, transfer rate bytes/s, and Total
transferred the length of one message, other than its name says.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from osmef.errors import InputError
from osmef.importers.record import (
    Oddity,
    Parsed,
    Record,
    Text,
    csv_rows,
    message,
    message_metrics,
    number,
    refuse,
    whole,
)
from osmef.results.observations import Request

COLUMNS = (
    "Machine Tag",
    "Experiment Tag",
    "Document Path",
    "Failed requests",
    "Concurrency Level",
    "Total transferred",
    "Time per request",
    "Transfer rate",
    "Retries",
    "Response Code",
)
_PATH = re.compile(r"/(m?ping|pong)/([0-9]{1,12})", re.ASCII)
_TOLERANCE = 0.02

Series = tuple[str, str, int]


def parse(text: Text) -> Parsed:
    """Read a trial for each machine, experiment and concurrency, with rows as requests.

    A row is the mean of several requests, and counts as one: their number is not in the file. A row
    without a good answer counts as one failed request at least, and in no time.
    Raises InputError.
    """
    series: dict[Series, list[Request]] = defaultdict(list)
    lines: dict[Series, list[int]] = defaultdict(list)
    failed: dict[Series, int] = defaultdict(int)
    oddities: list[Oddity] = []
    for line, row in csv_rows(text, COLUMNS, oddities):
        where = text.line(line)
        try:
            request = _request(row, where)
            of = (
                row["Machine Tag"],
                row["Experiment Tag"],
                _whole(row, "Concurrency Level", where),
            )
            told = _whole(row, "Failed requests", where)
        except InputError as error:
            oddities.append(Oddity(where, error.message, False))
            continue
        # A row without a good answer has failed, whatever its column says.
        failed[of] += max(told, 1 if request.error else 0)
        series[of].append(request)
        lines[of].append(line)
        oddities += [Oddity(where, what, True) for what in _odd(row, request, where)]
    records = [_record(of, rows, lines[of], failed[of]) for of, rows in series.items()]
    return Parsed(records, oddities)


def _whole(row: Mapping[str, str], column: str, where: str) -> int:
    return whole(row[column], column, where)


def _request(row: Mapping[str, str], where: str) -> Request:
    path = _PATH.fullmatch(row["Document Path"])
    if path is None:
        raise refuse(where, f"the path is {row['Document Path'][:40]!r}, and not /mping/SIZE")
    told = row["Time per request"].strip()
    time_s = number(told, "Time per request", where) / 1000 if told else None
    length = row["Total transferred"].strip()
    code = _whole(row, "Response Code", where) if row["Response Code"].strip() else None
    bad = code != 200 or time_s is None or time_s <= 0 or not length
    return message(
        int(path[2]),
        time_s=None if bad else time_s,
        length=whole(length, "Total transferred", where) if length else None,
        relayed=path[1] != "pong",
        code=code,
        retries=_whole(row, "Retries", where) if row["Retries"].strip() else None,
        error="status" if bad else None,
    )


def _odd(row: Mapping[str, str], request: Request, where: str) -> list[str]:
    if request.error:
        told = row["Time per request"].strip()
        below = bool(told) and number(told, "Time per request", where) <= 0
        why = f": its time is {told[:40]} ms" if below else ""
        return [f"no good answer{why}, counted as failed"]
    odd = []
    time = request.relay_s or request.duration_s or 0
    if request.length and row["Transfer rate"].strip():
        rate = number(row["Transfer rate"], "Transfer rate", where)
        if abs(rate * time - request.length) > _TOLERANCE * request.length:
            odd.append(f"transfer rate {rate:g} B/s is not the length over the time")
    return odd


def _record(of: Series, rows: list[Request], lines: list[int], failed: int) -> Record:
    machine, experiment, concurrency = of
    rates = message_metrics(rows)
    return Record(
        workload="pingpong",
        metrics={"requests": float(len(rows)), "failed_requests": float(failed), **rates},
        place=f"lines {lines[0]} to {lines[-1]}",
        values={"machine": machine, "experiment": experiment, "connections": concurrency},
        connections=concurrency,
        requests=rows,
    )
