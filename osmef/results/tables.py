"""Tables of a run, one Parquet file each, written in parts as the trials end.

A part is in Parquet, or in JSON, an object of columns: ``{"trial": [1, 1], "bytes": [..], ..}``,
where Arrow need not be loaded to write it.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from pyarrow import parquet

from osmef.errors import InputError
from osmef.files import exists, open_file

if TYPE_CHECKING:
    from osmef.scenario.base import Model  # pydantic is not needed to merge

TABLES: dict[str, pa.Schema] = {
    "intervals": pa.schema(
        [
            pa.field("trial", pa.int64(), nullable=False),
            pa.field("purpose", pa.string()),
            pa.field("endpoint", pa.string(), nullable=False),
            pa.field("peer", pa.string()),
            pa.field("role", pa.string(), nullable=False),
            pa.field("flow", pa.int32(), nullable=False),
            pa.field("start_s", pa.float64(), nullable=False),
            pa.field("length_s", pa.float64(), nullable=False),
            pa.field("warmup", pa.bool_()),
            pa.field("bytes", pa.int64(), nullable=False),
            pa.field("retransmits", pa.int64()),
            pa.field("rtt_us", pa.float64()),
            pa.field("cwnd", pa.int64()),
            pa.field("datagrams", pa.int64()),
            pa.field("send_refused", pa.int64()),
            pa.field("behind_us", pa.float64()),
            pa.field("lost", pa.int64()),
            pa.field("reordered", pa.int64()),
            pa.field("duplicates", pa.int64()),
            pa.field("dropped", pa.int64()),
            pa.field("jitter_us", pa.float64()),
            pa.field("began_s", pa.float64()),
            pa.field("exchanges", pa.int64()),
            pa.field("protocol", pa.string()),
            pa.field("rtt_p99_us", pa.float64()),
            pa.field("rtt_max_us", pa.float64()),
        ]
    ),
    "requests": pa.schema(
        [
            pa.field("trial", pa.int64(), nullable=False),
            pa.field("purpose", pa.string(), nullable=False),
            pa.field("sender", pa.string(), nullable=False),
            pa.field("receiver", pa.string(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
            pa.field("intended_start_s", pa.float64()),
            pa.field("duration_s", pa.float64()),
            pa.field("relay_s", pa.float64()),
            pa.field("code", pa.int32()),
            pa.field("length", pa.int64()),
            pa.field("retries", pa.int32()),
            pa.field("error", pa.string()),
        ]
    ),
}
"""The columns of each table by its name: those of ``Interval`` and of ``Request``."""


def as_table(table: str, rows: Sequence[Model]) -> pa.Table:
    """Return rows as a table of Arrow."""
    fields = (field.name for field in TABLES[table])
    return _from_columns(table, {name: [getattr(row, name) for row in rows] for name in fields})


def _from_columns(table: str, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return columns as a table; one that is missing has no values. Raises ValueError."""
    schema = TABLES[table]
    number = len(columns.get("trial", ()))
    values = [columns.get(field.name, [None] * number) for field in schema]
    if any(len(column) != number for column in values):
        raise ValueError("its columns have different lengths")
    arrays = [_column(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


_CODES = {pa.int64(): "q", pa.int32(): "i", pa.float64(): "d"}


def _column(values: Sequence[Any], of: pa.DataType) -> pa.Array:
    """Return a column as ``pyarrow.array`` does, without its import of pandas.

    Source: Arrow Columnar Format, "Physical Memory Layout": whether there is a value, a bit each,
    the lowest first; offsets of texts; the values.
    """
    known = _bits(value is not None for value in values)
    if of == pa.string():
        texts = [(value or "").encode() for value in values]
        offsets = array("i", [0, *accumulate(map(len, texts))])
        parts: list[Any] = [offsets, b"".join(texts)]
    elif of == pa.bool_():
        parts = [_bits(bool(value) for value in values)]
    else:
        parts = [array(_CODES[of], [0 if value is None else value for value in values])]
    buffers = [pa.py_buffer(part) for part in (known, *parts)]
    return pa.Array.from_buffers(of, len(values), buffers)


def _bits(values: Iterable[bool]) -> bytes:
    digits = "".join("1" if value else "0" for value in values)[::-1]
    return int(digits or "0", 2).to_bytes(-(-len(digits) // 8), "little")


def write_part(file: BinaryIO, tables: Sequence[pa.Table]) -> None:
    """Write the rows of one trial. Raises OSError."""
    parquet.write_table(pa.concat_tables(tables), file)


def merge(table: str, file: BinaryIO, merged: Path, parts: Sequence[Path]) -> None:
    """Merge the file so far, if any, and the parts after it into ``file``.

    A trial that has a part is taken from there alone, so that merging again after a crash, or
    after the trial was run again, doubles no row. One trial at a time is in memory. Raises OSError,
    and InputError for a damaged file.
    """
    again = [int(part.stem) for part in parts]
    with parquet.ParquetWriter(file, TABLES[table]) as writer:
        for group in _row_groups(table, [merged] if exists(merged) else []):
            kept = _without(group, again)
            if kept.num_rows:
                writer.write_table(kept)
        for group in _row_groups(table, parts):
            writer.write_table(group)


def _without(rows: pa.Table, trials: Sequence[int]) -> pa.Table:
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to load, and few runs are merged again

    these = _column(trials, pa.int64())
    return rows.filter(pc.invert(pc.is_in(rows["trial"], value_set=these)))


_LARGEST = 4 << 30
"""Of a part in JSON, in bytes: some 20 million rows of one trial."""
_NO_COLUMNS = (ValueError, TypeError, AttributeError, OverflowError)
"""Raised of JSON that is none, or that has other values than columns of a table."""


def _row_groups(table: str, files: Sequence[Path]) -> Iterator[pa.Table]:
    for path in files:
        try:
            if path.suffix == ".json":
                with open_file(path, _LARGEST) as file:
                    yield _from_columns(table, json.load(file))
                continue
            with parquet.ParquetFile(path) as file:
                for number in range(file.num_row_groups):
                    yield _completed(file.read_row_group(number), TABLES[table])
        except (pa.ArrowException, OSError, *_NO_COLUMNS) as error:
            raise InputError(
                f"this is damaged, or can't be read: {error}",
                where=str(path),
                cure="put it back from a copy; or remove it: with it these rows are lost, and no"
                " trial and no metric",
            ) from error


def _completed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows of an older version with nulls in newer columns."""
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    rows = rows.select(schema.names)
    return rows if rows.schema.equals(schema) else rows.cast(schema)  # which loads pyarrow.compute
