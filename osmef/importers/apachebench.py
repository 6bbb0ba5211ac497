"""Importer of ApacheBench: its text output, and CSV rows of it.

The rows are those of the database of Kratzke, "About Microservices, Containers and their
Underestimated Impact on Network Performance", 2015: one run of ab each, with a Tag. The transfer
rate of ab is KiB/s with the headers; ``Time per request`` of the rows, in ms, is that ``across all
concurrent requests``: the time of the run over the requests, 1 / requests per second, and not what
one request took.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from osmef.errors import InputError
from osmef.importers.record import (
    RECEIVER,
    Oddity,
    Parsed,
    Record,
    Text,
    csv_rows,
    message,
    message_metrics,
    placed,
    positive,
    whole,
)
from osmef.results.measure import Measure
from osmef.results.observations import Request
from osmef.results.trial import Failure
from osmef.scenario.study import Scalar
from osmef.workloads import siege
from osmef.workloads.kinds.apachebench import BANNER, ApachebenchOutput, Failed, read_all

MEASURES = (
    *siege.MEASURES,
    Measure(
        name="request_p90_us", unit="us", better="lower", label="request p90",
        help="90 % of the requests did not take longer, in whole milliseconds", source="ab(1)",
    ),
)  # fmt: skip

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
_NAMES = {
    50: "request_p50_us",
    90: "request_p90_us",
    99: "request_p99_us",
    100: "request_max_us",
}


def parse(text: Text) -> Parsed:
    """Read the output of ab, of one run or several, or a CSV file of rows.

    A row, and an output, is one row of the requests, with the document's length and the time of
    the run over its requests; so transfer rate and requests per second are those of all concurrent
    requests together, without headers. An output of ab that ended with an error is a failed trial.
    Raises InputError.
    """
    return _of_output(text) if BANNER in text.text else _of_rows(text)


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
    outputs = read_all(text.text)
    return Parsed([_record(run) for run in outputs.found], placed(text, outputs))


def _record(run: ApachebenchOutput | Failed) -> Record:
    if isinstance(run, Failed):
        return Record(
            workload="pingpong",
            metrics={},
            place=f"line {run.line}",
            values=_values(run),
            receivers=(run.host,),
            connections=run.concurrency,
            failure=Failure(kind="ab", message=run.error),
        )
    complete = max(1, run.complete)
    bad = run.failed >= complete
    request = message(
        run.document_bytes,
        time_s=None if bad else run.elapsed_s / complete,
        length=run.document_bytes,
        code=None if run.bad_status else 200,
        error="status" if bad else None,
    )
    return Record(
        workload="pingpong",
        metrics={
            "requests": run.complete,
            "failed_requests": float(run.failed),
            "requests_per_s": complete / run.elapsed_s,
            **message_metrics([request]),
            **{name: run.quantiles_us[q] for q, name in _NAMES.items() if q in run.quantiles_us},
        },
        place=f"line {run.line}",
        values=_values(run),
        receivers=(run.host or RECEIVER,),
        connections=run.concurrency,
        wall_s=run.elapsed_s,
        requests=[request],
    )


def _values(run: ApachebenchOutput | Failed) -> dict[str, Scalar]:
    """Return the settings that ab reports."""
    return {} if run.concurrency is None else {**run.settings, "connections": run.concurrency}
