"""The requests of a siege as columns: a million of them are a few dozen megabytes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from osmef.agent.messages import REQUEST_COLUMNS, REQUEST_ERRORS, RequestsEvent
from osmef.results.exchange import Purpose
from osmef.results.tables import TABLES

_TOLD = pa.schema(
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
    """Return what an agent told of some requests, in its own units."""
    columns = {name: getattr(event, name) for name in REQUEST_COLUMNS}
    return pa.RecordBatch.from_pydict(columns, schema=_TOLD)


def requests_table(
    batches: Sequence[pa.RecordBatch], trial: int, purpose: Purpose, sender: str, receiver: str
) -> pa.Table:
    """Return the requests of a pair as rows of ``requests.parquet``."""
    told = pa.Table.from_batches(batches, schema=_TOLD)
    same = {"trial": trial, "purpose": purpose.value, "sender": sender, "receiver": receiver}
    columns = {
        **{name: pa.repeat(value, told.num_rows) for name, value in same.items()},
        "intended_start_s": pc.divide(told["start_us"], 1e6),
        "duration_s": pc.divide(told["duration_us"], 1e6),
        "relay_s": pc.divide(told["relay_us"], 1e6),
        "error": pc.take(pa.array(REQUEST_ERRORS, pa.string()), told["error"]),
        **{name: told[name] for name in ("size", "code", "length", "retries")},
    }
    schema = TABLES["requests"]
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)
