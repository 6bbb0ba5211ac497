"""Importers of ping-pong: events of ``osmef-agent siege --json``, and the CSV files of ppbench.

Source of the latter, with a row a message size: Kratzke and Quint, "ppbench, A Visualizing Network
Benchmark for Microservices", CLOSER 2016. Time per request is the mean in ms of some repetitions,
transfer rate bytes/s, and Total transferred the length of one message, other than its name says.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from osmef.agent.messages import ErrorEvent, OutputEnded, RequestsEvent, SiegeResult, parse_event
from osmef.errors import InputError
from osmef.importers.record import (
    RECEIVER,
    SENDER,
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
from osmef.results.observations import Purpose, Request
from osmef.results.trial import Failure
from osmef.workloads.metrics import endpoint_cpu_percent
from osmef.workloads.siege import request_metrics


def parse_siege(text: Text) -> Parsed:
    """Read the sieges in a file, a trial each, with all of its requests.

    The metrics are those of a siege that OSMeF has run itself. The events have neither the request
    nor the server. A siege that ended with an error, or without any success, is a failed trial; one
    without its end is reported as odd, and left out.
    """
    records: list[Record] = []
    odd: list[Oddity] = []
    reported: list[RequestsEvent] = []
    begun = 1
    for line, written in enumerate(text.text.splitlines(), start=1):
        if not written.strip():
            continue
        begun = begun if reported else line
        event = parse_event(written)
        match event:
            case OutputEnded():
                odd.append(Oddity(text.line(line), "this is no event of the agent", kept=False))
            case RequestsEvent():
                reported.append(event)
            case SiegeResult() if sum(len(one.size) for one in reported) != event.requests:
                what = (
                    f"the siege made {event.requests} requests, and other numbers are in the file"
                )
                odd.append(Oddity(text.line(line), what, kept=False))
                reported = []
            case SiegeResult():
                try:
                    records.append(_siege_record(event, reported, f"lines {begun} to {line}"))
                except (ArithmeticError, ValueError, OSError) as error:
                    what = f"its numbers make no sense: {error!r:.80}"
                    odd.append(Oddity(text.line(line), what, kept=False))
                reported = []
            case ErrorEvent():
                records.append(_failed(event.kind, event.message, f"line {line}"))
                reported = []
    if reported:
        odd.append(Oddity(text.line(begun), "the end of this siege is missing", kept=False))
    return Parsed(records, odd)


def _siege_record(siege: SiegeResult, reported: Sequence[RequestsEvent], place: str) -> Record:
    from osmef.workloads.siege import as_batch, requests_table  # noqa: PLC0415 - pyarrow is slow

    if siege.failed == siege.requests:
        what = f"none of {siege.requests} requests got a good answer"
        return _failed("siege", what, place)
    table = requests_table(
        [as_batch(event) for event in reported], 0, Purpose.MEASURED, SENDER, RECEIVER
    )
    metrics = request_metrics([table], [siege.elapsed_s])
    if not all(value is None or 0 <= value < math.inf for value in metrics.values()):
        raise ValueError("a time or a length below 0, or none at all")
    used = siege.process.cpu_user_s + siege.process.cpu_system_s
    began_s = siege.start_realtime_ns / 1e9
    return Record(
        workload="pingpong",
        metrics={
            **metrics,
            "cpu_sender_percent": 100 * used / siege.elapsed_s,
            "endpoint_cpu_sender_percent": endpoint_cpu_percent([(SENDER, siege.endpoint)]),
        },
        place=place,
        values={} if siege.connections is None else {"connections": siege.connections},
        connections=siege.connections,
        started_at=datetime.fromtimestamp(began_s, UTC),
        wall_s=siege.elapsed_s,
        requests=[Request.model_validate(row) for row in table.to_pylist()],
    )


def _failed(kind: str, message: str, place: str) -> Record:
    return Record(
        workload="pingpong",
        metrics={},
        place=place,
        failure=Failure(kind=kind, message=message),
    )


PPBENCH_COLUMNS = (
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

PpbenchSeries = tuple[str, str, int]


def parse_ppbench(text: Text) -> Parsed:
    """Read a trial for each machine, experiment and concurrency, with rows as requests.

    A row is the mean of several requests, and counts as one: their number is not in the file. A row
    without a good answer counts as one failed request at least, and in no time.
    Raises InputError.
    """
    series: dict[PpbenchSeries, list[Request]] = defaultdict(list)
    lines: dict[PpbenchSeries, list[int]] = defaultdict(list)
    failed: dict[PpbenchSeries, int] = defaultdict(int)
    oddities: list[Oddity] = []
    for line, row in csv_rows(text, PPBENCH_COLUMNS, oddities):
        where = text.line(line)
        try:
            request = _request(row, where)
            of = (
                row["Machine Tag"],
                row["Experiment Tag"],
                _whole(row, "Concurrency Level", where),
            )
            reported = _whole(row, "Failed requests", where)
        except InputError as error:
            oddities.append(Oddity(where, error.message, False))
            continue
        # A row without a successful response has failed, whatever its column says.
        failed[of] += max(reported, 1 if request.error else 0)
        series[of].append(request)
        lines[of].append(line)
        oddities += [Oddity(where, what, True) for what in _odd(row, request, where)]
    records = [_ppbench_record(of, rows, lines[of], failed[of]) for of, rows in series.items()]
    return Parsed(records, oddities)


def _whole(row: Mapping[str, str], column: str, where: str) -> int:
    return whole(row[column], column, where)


def _request(row: Mapping[str, str], where: str) -> Request:
    path = _PATH.fullmatch(row["Document Path"])
    if path is None:
        raise refuse(where, f"the path is {row['Document Path'][:40]!r}, and not /mping/SIZE")
    reported = row["Time per request"].strip()
    time_s = number(reported, "Time per request", where) / 1000 if reported else None
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
        reported = row["Time per request"].strip()
        below = bool(reported) and number(reported, "Time per request", where) <= 0
        why = f": its time is {reported[:40]} ms" if below else ""
        return [f"no good answer{why}, counted as failed"]
    odd = []
    time = request.relay_s or request.duration_s or 0
    if request.length and row["Transfer rate"].strip():
        rate = number(row["Transfer rate"], "Transfer rate", where)
        if abs(rate * time - request.length) > _TOLERANCE * request.length:
            odd.append(f"transfer rate {rate:g} B/s is not the length over the time")
    return odd


def _ppbench_record(
    of: PpbenchSeries, rows: list[Request], lines: list[int], failed: int
) -> Record:
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
