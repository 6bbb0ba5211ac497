"""Requests of a siege as columns, and the metrics of ping-pong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from osmef.agent.messages import (
    REQUEST_COLUMNS,
    REQUEST_ERRORS,
    ExecResult,
    PingResult,
    PongResult,
    RequestsEvent,
    SiegeResult,
)
from osmef.errors import AgentError
from osmef.results.measure import Measure
from osmef.results.observations import EndpointUse, Purpose
from osmef.workloads.base import PartResult
from osmef.workloads.failing import ASKED_CURE, CLOSED_CURE
from osmef.workloads.metrics import CPU, endpoint_cpu_percent

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import Table


@cache
def _request_schema() -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415

    return pa.schema(
        [
            ("size", pa.int64()),
            ("start_us", pa.float64()),
            ("duration_us", pa.float64()),
            ("relay_us", pa.float64()),
            ("code", pa.int32()),
            ("length", pa.int64()),
            ("retries", pa.int32()),
            ("error", pa.int8()),
        ]
    )


def as_batch(event: RequestsEvent) -> pa.RecordBatch:
    """Return a batch of requests, in the agent's units."""
    import pyarrow as pa  # noqa: PLC0415

    columns = {name: getattr(event, name) for name in REQUEST_COLUMNS}
    return pa.RecordBatch.from_pydict(columns, schema=_request_schema())


def requests_table(
    batches: Sequence[pa.RecordBatch], trial: int, purpose: Purpose, sender: str, receiver: str
) -> pa.Table:
    """Return the requests of a pair as rows of ``requests.parquet``."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    from osmef.results.tables import TABLES  # noqa: PLC0415

    reported = pa.Table.from_batches(batches, schema=_request_schema())
    same = {"trial": trial, "purpose": purpose.value, "sender": sender, "receiver": receiver}
    columns = {
        **{name: pa.repeat(value, reported.num_rows) for name, value in same.items()},
        "intended_start_s": pc.divide(reported["start_us"], 1e6),
        "duration_s": pc.divide(reported["duration_us"], 1e6),
        "relay_s": pc.divide(reported["relay_us"], 1e6),
        "error": pc.take(pa.array(REQUEST_ERRORS, pa.string()), reported["error"]),
        **{name: reported[name] for name in ("size", "code", "length", "retries")},
    }
    schema = TABLES["requests"]
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


_PPBENCH = "Kratzke and Quint, *ppbench*, CLOSER 2016"


def _time(what: str, text: str, source: str, **more: object) -> Measure:
    return Measure(
        name=f"time_{what}_us", unit="us", better="lower", label=f"time {what}", help=text,
        source=source, over_pairs="pooled", **more,
    )  # fmt: skip


def _quantile(what: str, percent: str, **more: object) -> Measure:
    message = f"{percent} % of the times of a message are not longer"
    return _time(what, message, "Hyndman and Fan, definition 7", **more)


def _request(what: str, text: str, **more: object) -> Measure:
    return Measure(
        name=f"request_{what}_us", unit="us", better="lower", label=f"request {what}", help=text,
        source="Tene, *How NOT to Measure Latency*, 2013", over_pairs="pooled", **more,
    )  # fmt: skip


MEASURES = (
    Measure(
        name="goodput_bps", unit="bit/s", better="higher", label="goodput", head="goodput",
        over_pairs="sum", leading=True,
        help="bits of the messages, divided by the time from the start to the last answer; summed"
        " over the pairs",
        source="RFC 2647 for the term",
    ),
    Measure(
        name="requests_per_s", unit="1/s", better="higher", label="requests",
        head="requests\n/s", digits=".0f", over_pairs="sum",
        help="requests that went well, divided by the time from the start to the last answer;"
        " summed over the pairs", source="OSMeF",
    ),
    Measure(
        name="transfer_rate_bytes_per_s", unit="B/s", better="higher", label="transfer rate",
        over_pairs="pooled",
        help="sum(length) / sum(time): what one connection moves while it waits for a message",
        source=_PPBENCH,
    ),
    _time("mean", "mean of the times of a message", _PPBENCH),
    _quantile("p50", "50", head="time\np50\nµs", digits=".0f", leading=True),
    _quantile("p90", "90"),
    _quantile("p99", "99", head="time\np99\nµs", digits=".0f"),
    _time("max", "longest of the times of a message", _PPBENCH),
    _request(
        "p50", "50 % of what siege measured, from when the request was due, ping's work included,"
        " are not longer",
    ),
    _request(
        "p99", "99 % of what siege measured, likewise, are not longer",
        head="request\np99\nµs", digits=".0f",
    ),
    _request("max", "longest of what siege measured, likewise"),
    Measure(
        name="failed_requests", unit="1", better="lower", head="failed", digits=".0f",
        over_pairs="sum", least=1, help="requests without an answer of status 200", source="OSMeF",
    ),
    Measure(
        name="retries", unit="1", better="lower", head="retries", digits=".0f", over_pairs="sum",
        least=1,
        help="how often ping had to ask pong again, for all requests; `null` without ping",
        source=_PPBENCH,
    ),
    Measure(
        name="requests", unit="1", better="neither", label="request count", over_pairs="sum",
        least=1,
        help="requests of the trial, all of them", source="OSMeF",
    ),
    CPU[0].model_copy(update={
        "help": "CPU time of the processes siege and ping, divided by the time of the siege, in"
        " percent of one CPU"}),
    CPU[1].model_copy(update={"help": "as `cpu_sender_percent`, of the process pong"}),
    *CPU[2:],
)  # fmt: skip
"""Of the requests of all pairs that went well."""


def siege_of(ran: PartResult) -> SiegeResult:
    """Return the siege's results of a part. Raises AgentError without any."""
    siege = ran.results[-1]
    if not isinstance(siege, SiegeResult):
        raise AgentError(
            "the agent made no requests",
            where=ran.sender,
            cure="use the agent that belongs to this version of osmef",
        )
    return siege


def check(ran: PartResult, siege: SiegeResult, requests: Table) -> None:
    """Raise for incomplete requests, or without a successful one."""
    if requests.num_rows != siege.requests:
        raise AgentError(
            f"the agent made {siege.requests} requests and reported {requests.num_rows}",
            where=ran.sender,
            cure="use the agent that belongs to this version of osmef",
        )
    if siege.failed == siege.requests:
        whose = ASKED_CURE if len(ran.results) == 1 else CLOSED_CURE
        ((most, count),) = Counter(requests["error"].to_pylist()).most_common(1)
        raise AgentError(
            f"none of {siege.requests} requests got a good answer; {count} of them: {most}",
            where=f"{ran.sender} and {ran.receiver}",
            cure=f"{whose} is the timeout long enough?",
        )


def request_metrics(tables: Sequence[Table], elapsed_s: Sequence[float]) -> dict[str, float | None]:
    """Return the metrics of concurrent requests of pairs.

    A pair has a table, rows of ``requests.parquet``, and a time from its start to its last answer,
    in seconds. Failed requests are counted, and left out of all else.

    - ``time_*`` is the time of a message, what ping measured; without ping, what siege did.
    - ``request_*`` is what siege measured, from when the request was due: with a rate that is free
      of coordinated omission (Tene, "How NOT to Measure Latency", 2013).
    - ``transfer_rate_bytes_per_s`` = sum(length) / sum(time), as in ppbench (Kratzke and Quint,
      "ppbench, A Visualizing Network Benchmark for Microservices", CLOSER 2016): what one
      connection moves while it waits for a message.
    - ``requests_per_s`` and ``goodput_bps`` are the sums over the pairs of the requests, and of
      eight times their lengths, over the pair's time.

    Quantiles are linear between the values (Hyndman and Fan 1996, definition 7).
    """
    import numpy as np  # noqa: PLC0415 - slow to load
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    good = [table.filter(pc.is_null(table["error"])) for table in tables]
    rows = pa.concat_tables(good)
    request_us = 1e6 * rows["duration_s"].to_numpy()
    time_us = 1e6 * pc.coalesce(rows["relay_s"], rows["duration_s"]).to_numpy()
    p50, p90, p99 = (float(q) for q in np.quantile(time_us, [0.5, 0.9, 0.99]))
    request_p50, request_p99 = (float(q) for q in np.quantile(request_us, [0.5, 0.99]))
    length = [pc.sum(table["length"]).as_py() or 0 for table in good]
    total = sum(table.num_rows for table in tables)
    return {
        "requests": total,
        "failed_requests": total - rows.num_rows,
        "retries": pc.sum(pa.concat_tables(tables)["retries"]).as_py(),
        "goodput_bps": sum(8 * n / s for n, s in zip(length, elapsed_s, strict=True)),
        "requests_per_s": sum(t.num_rows / s for t, s in zip(good, elapsed_s, strict=True)),
        "transfer_rate_bytes_per_s": 1e6 * sum(length) / float(time_us.sum()),
        "time_mean_us": float(time_us.mean()),
        "time_p50_us": p50,
        "time_p90_us": p90,
        "time_p99_us": p99,
        "time_max_us": float(time_us.max()),
        "request_p50_us": request_p50,
        "request_p99_us": request_p99,
        "request_max_us": float(request_us.max()),
    }


def cpu_metrics(
    ran: Sequence[PartResult], sieges: Sequence[SiegeResult]
) -> dict[str, float | None]:
    """Return the CPU usage of siege and ping, and of pong, in percent of one CPU.

    Of a program of another language it is all CPU time that it took, its start included, in percent
    of its own time. With a server that OSMeF has not started, the CPU time of pong is unknown.
    """
    here: list[float] = []
    there: list[float] = []
    pongs: list[tuple[str, EndpointUse]] = []
    for one, siege in zip(ran, sieges, strict=True):
        for number, result in enumerate(one.results):
            if not isinstance(result, PongResult | PingResult | SiegeResult | ExecResult):
                continue
            used = result.process.cpu_user_s + result.process.cpu_system_s
            lasted = result.elapsed_s if isinstance(result, ExecResult) else siege.elapsed_s
            is_pong = number == 0 and not isinstance(result, SiegeResult)
            (there if is_pong else here).append(100 * used / lasted)
            if is_pong:
                pongs.append((one.receiver, result.endpoint))
    return {
        "cpu_sender_percent": math.fsum(here),
        "cpu_receiver_percent": math.fsum(there) if pongs else None,
        "endpoint_cpu_sender_percent": endpoint_cpu_percent(
            (one.sender, siege.endpoint) for one, siege in zip(ran, sieges, strict=True)
        ),
        "endpoint_cpu_receiver_percent": endpoint_cpu_percent(pongs) if pongs else None,
    }
