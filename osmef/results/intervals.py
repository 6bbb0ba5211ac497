"""The time series of a run: one Parquet file, written in parts as the trials end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from osmef.results.trial import Interval

SCHEMA = pa.schema(
    [
        pa.field("trial", pa.int64(), nullable=False),
        pa.field("endpoint", pa.string(), nullable=False),
        pa.field("role", pa.string(), nullable=False),
        pa.field("flow", pa.int32(), nullable=False),
        pa.field("start_s", pa.float64(), nullable=False),
        pa.field("length_s", pa.float64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("retransmits", pa.int64()),
        pa.field("rtt_us", pa.float64()),
        pa.field("cwnd", pa.int64()),
    ]
)


def write_part(path: Path, rows: Sequence[Interval]) -> None:
    """Write the rows of one trial. Raises OSError."""
    columns = {name: [getattr(row, name) for row in rows] for name in SCHEMA.names}
    parquet.write_table(pa.table(columns, schema=SCHEMA), path)


def merge(path: Path, merged: Path, parts: Sequence[Path]) -> None:
    """Write to ``path`` the rows of the merged file so far, if any, and of the parts after it.

    A trial that has a part is taken from there alone, so that merging again after a crash, or
    after the trial was run again, doubles no row. One trial at a time is in memory. Raises OSError.
    """
    again = pa.array([int(part.stem) for part in parts], pa.int64())
    with parquet.ParquetWriter(path, SCHEMA) as writer:
        for table in _row_groups([merged] if merged.exists() else []):
            kept = table.filter(pc.invert(pc.is_in(table["trial"], value_set=again)))
            if kept.num_rows:
                writer.write_table(kept)
        for table in _row_groups(parts):
            writer.write_table(table)


def _row_groups(files: Sequence[Path]) -> Iterator[pa.Table]:
    for path in files:
        with parquet.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number)
