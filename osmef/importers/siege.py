"""Importer of ``osmef-agent siege --json``: events, one a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from osmef.agent.messages import ErrorEvent, OutputEnded, RequestsEvent, SiegeResult, parse_event
from osmef.importers.record import RECEIVER, SENDER, Oddity, Parsed, Record, Text
from osmef.results.observations import Purpose, Request
from osmef.results.trial import Failure
from osmef.workloads.metrics import endpoint_cpu_percent
from osmef.workloads.siege import request_metrics


def parse(text: Text) -> Parsed:
    """Read the sieges in a file, a trial each, with all of its requests.

    The metrics are those of a siege that OSMeF has run itself. What was asked of which server the
    events don't tell. A siege that ended with an error is a failed trial, as is one in which
    nothing went well; one whose end is missing is odd, and left out.
    """
    records: list[Record] = []
    odd: list[Oddity] = []
    told: list[RequestsEvent] = []
    begun = 1
    for line, written in enumerate(text.text.splitlines(), start=1):
        if not written.strip():
            continue
        begun = begun if told else line
        event = parse_event(written)
        match event:
            case OutputEnded():
                odd.append(Oddity(text.line(line), "this is no event of the agent", kept=False))
            case RequestsEvent():
                told.append(event)
            case SiegeResult() if sum(len(one.size) for one in told) != event.requests:
                what = (
                    f"the siege made {event.requests} requests, and other numbers are in the file"
                )
                odd.append(Oddity(text.line(line), what, kept=False))
                told = []
            case SiegeResult():
                try:
                    records.append(_record(event, told, f"lines {begun} to {line}"))
                except (ArithmeticError, ValueError, OSError) as error:
                    what = f"its numbers make no sense: {error!r:.80}"
                    odd.append(Oddity(text.line(line), what, kept=False))
                told = []
            case ErrorEvent():
                records.append(_failed(event.kind, event.message, f"line {line}"))
                told = []
    if told:
        odd.append(Oddity(text.line(begun), "the end of this siege is missing", kept=False))
    return Parsed(records, odd)


def _record(siege: SiegeResult, told: Sequence[RequestsEvent], place: str) -> Record:
    from osmef.workloads.siege import as_batch, requests_table  # noqa: PLC0415 - pyarrow is slow

    if siege.failed == siege.requests:
        what = f"none of {siege.requests} requests got a good answer"
        return _failed("siege", what, place)
    table = requests_table(
        [as_batch(event) for event in told], 0, Purpose.MEASURED, SENDER, RECEIVER
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
