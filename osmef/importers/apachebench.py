"""Results of ApacheBench: its text output, and CSV rows of it.

The rows are those of the database of Kratzke, "About Microservices, Containers and their
Underestimated Impact on Network Performance", 2015: one run of ab each, with a Tag. The transfer
rate of ab is KiB/s with the headers; ``Time per request`` of the rows, in ms, is that ``across all
concurrent requests``: the time of the run over the requests, 1 / requests per second, and not what
one request took.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from osmef.errors import InputError
from osmef.importers.messages import message, message_metrics
from osmef.importers.record import (
    RECEIVER,
    Oddity,
    Parsed,
    Record,
    Text,
    csv_rows,
    positive,
    refuse,
    whole,
)
from osmef.results.exchange import Request
from osmef.results.trial import Failure
from osmef.scenario.study import Scalar

COLUMNS = (
    "Tag",
    "Document Path",
    "Document Length",
    "Time taken for tests",
    "Complete requests",
    "Failed requests",
    "Concurrency Level",
    "Time per request",
)
_BANNER = "This is ApacheBench"
_NUMBERS = {
    "concurrency": r"Concurrency Level: +([0-9]+)",
    "elapsed_s": r"Time taken for tests: +([0-9.]+) seconds",
    "complete": r"Complete requests: +([0-9]+)",
    "failed": r"Failed requests: +([0-9]+)",
}
_LENGTH = re.compile(r"^Document Length: +(?:([0-9]+) bytes|Variable)", re.MULTILINE | re.ASCII)
_DOCUMENTS = re.compile(r"^HTML transferred: +([0-9]+) bytes", re.MULTILINE | re.ASCII)
_BAD_STATUS = re.compile(r"^Non-2xx responses: +([0-9]+)", re.MULTILINE | re.ASCII)
_HOST = re.compile(r"^Server Hostname: +(\S+)", re.MULTILINE)
_SETTINGS = {
    "path": re.compile(r"^Document Path: +(\S+)", re.MULTILINE),
    "port": re.compile(r"^Server Port: +([0-9]{1,5})\b", re.MULTILINE | re.ASCII),
    "tls": re.compile(r"^SSL/TLS Protocol: +(\S+)", re.MULTILINE),
}
_KEPT_ALIVE = re.compile(r"^Keep-Alive requests: ", re.MULTILINE)
_BEGUN = re.compile(r"^Benchmarking (\S+) (?:\[.*?\] )?\(be patient\)(?:\.\.\.)?(.*)", re.MULTILINE)
_SENT_BODIES = re.compile(r"^Total body sent: ", re.MULTILINE)
_NOTHING = re.compile(r"^Total transferred: +0 bytes", re.MULTILINE | re.ASCII)
_DIFFER = re.compile(r"^ +\(Connect: .*\bLength: [1-9]", re.MULTILINE | re.ASCII)
_QUANTILE = re.compile(r"^ +(50|90|99|100)% +([0-9]+)\b", re.MULTILINE | re.ASCII)
_NAMES = {
    "50": "request_p50_us",
    "90": "request_p90_us",
    "99": "request_p99_us",
    "100": "request_max_us",
}


def parse(text: Text) -> Parsed:
    """Read the output of ab, of one run or several, or a CSV file of rows.

    A row, and an output, is one row of the requests, with the document's length and the time of
    the run over its requests; so transfer rate and requests per second are those of all concurrent
    requests together, without headers. An output of ab that ended with an error is a failed trial.
    Raises InputError.
    """
    return _of_output(text) if _BANNER in text.text else _of_rows(text)


def _of_rows(text: Text) -> Parsed:
    series: dict[tuple[str, int], list[Request]] = defaultdict(list)
    counts: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    lines: dict[tuple[str, int], list[int]] = defaultdict(list)
    oddities: list[Oddity] = []
    for line, row in csv_rows(text, COLUMNS, oddities):
        try:
            request, concurrency, complete, failed = _row(row, text.line(line))
        except InputError as error:
            oddities.append(Oddity(text.line(line), error.message, False))
            continue
        of = (row["Tag"], concurrency)
        series[of].append(request)
        lines[of].append(line)
        counts[of][0] += complete
        counts[of][1] += failed
        if failed:
            oddities.append(
                Oddity(text.line(line), f"{failed} of {complete} requests failed", True)
            )
    records = [
        Record(
            workload="pingpong",
            metrics={
                "requests": float(counts[of][0]),
                "failed_requests": float(counts[of][1]),
                **message_metrics(rows),
            },
            place=f"lines {lines[of][0]} to {lines[of][-1]}",
            values={"experiment": of[0], "connections": of[1]},
            connections=of[1],
            requests=rows,
        )
        for of, rows in series.items()
    ]
    return Parsed(records, oddities)


def _row(row: Mapping[str, str], where: str) -> tuple[Request, int, int, int]:
    size, complete, failed, concurrency = (
        whole(row[column], column, where)
        for column in (
            "Document Length",
            "Complete requests",
            "Failed requests",
            "Concurrency Level",
        )
    )
    time_s = positive(row["Time per request"], "Time per request", where) / 1000
    bad = failed >= complete
    return (
        message(size, time_s=None if bad else time_s, length=size, error="status" if bad else None,
                code=None if bad else 200),
        concurrency,
        complete,
        failed,
    )  # fmt: skip


def _of_output(text: Text) -> Parsed:
    records, oddities = [], []
    start = text.text.index(_BANNER)
    line = text.text.count("\n", 0, start) + 1
    for output in text.text[start:].split(_BANNER)[1:]:
        try:
            records.append(_output(output, text.line(line)))
        except InputError as error:
            oddities.append(Oddity(error.where or text.line(line), error.message, False))
        line += output.count("\n")
    return Parsed(records, oddities)


def _output(output: str, where: str) -> Record:
    if "<table" in output:
        raise refuse(where, "this is HTML, of -w; ab without it is read")
    begun, reported = _BEGUN.search(output), _HOST.search(output) is not None
    if begun and (_NOTHING.search(output) or not reported):
        return _failed(begun, output, where, reported=reported)
    told = {name: _number(output, name, where) for name in _NUMBERS}
    complete = max(1, int(told["complete"]))
    length = _length(output, complete, where)
    status = _BAD_STATUS.search(output)
    bad = whole(status[1], "Non-2xx responses", where) if status else 0
    failed = max(int(told["failed"]), bad)  # ab may count one answer as both
    request = message(
        length,
        time_s=None if failed >= complete else told["elapsed_s"] / complete,
        length=length,
        code=None if bad else 200,
        error="status" if failed >= complete else None,
    )
    host = _HOST.search(output)
    return Record(
        workload="pingpong",
        metrics={
            "requests": told["complete"],
            "failed_requests": float(failed),
            "requests_per_s": complete / told["elapsed_s"],
            **message_metrics([request]),
            **{_NAMES[q]: 1000 * float(ms) for q, ms in _QUANTILE.findall(output) if len(ms) < 16},
        },
        place=where.rpartition(":")[2] and f"line {where.rpartition(':')[2]}",
        values=_values(output, int(told["concurrency"])),
        receivers=(host[1] if host else RECEIVER,),
        connections=int(told["concurrency"]),
        wall_s=told["elapsed_s"],
        requests=[request],
    )


def _failed(begun: re.Match[str], output: str, where: str, *, reported: bool) -> Record:
    concurrency = int(_number(output, "concurrency", where)) if reported else None
    broken = begun[2].strip(" .") or "ab did not come to its end"
    message = "no request was answered" if reported else broken
    return Record(
        workload="pingpong",
        metrics={},
        place=f"line {where.rpartition(':')[2]}",
        values={} if concurrency is None else _values(output, concurrency),
        receivers=(begun[1],),
        connections=concurrency,
        failure=Failure(kind="ab", message=message),
    )


def _number(output: str, name: str, where: str) -> float:
    found = re.search(rf"^{_NUMBERS[name]}", output, re.MULTILINE | re.ASCII)
    if found is None:
        raise _ended(name, where)
    return positive(found[1], name, where) if name == "elapsed_s" else whole(found[1], name, where)


def _ended(name: str, where: str) -> InputError:
    return refuse(where, f"ab did not come to its end: there is no {name}")


def _length(output: str, complete: int, where: str) -> int:
    """Return the length of a document; the mean of those that may differ (-l), or did."""
    told, all_of_them = _LENGTH.search(output), _DOCUMENTS.search(output)
    differ = _DIFFER.search(output) and all_of_them
    if told is not None and told[1] and not differ:
        return whole(told[1], "length", where)
    if told is None or all_of_them is None:
        raise _ended("length", where)
    return round(whole(all_of_them[1], "HTML transferred", where) / complete)


def _values(output: str, concurrency: int) -> dict[str, Scalar]:
    """Return the settings that ab tells."""
    found = {name: one[1] for name, what in _SETTINGS.items() if (one := what.search(output))}
    values: dict[str, Scalar] = {"path": None, **found}
    if _KEPT_ALIVE.search(output):
        values["keep_alive"] = True
    if _SENT_BODIES.search(output):
        values["sends_body"] = True
    return {**values, "connections": concurrency}
