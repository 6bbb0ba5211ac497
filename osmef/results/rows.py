"""Requests and intervals of runs from Parquet, read by columns."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

import pandas as pd

from osmef.errors import InputError
from osmef.results.brief import brief_trials
from osmef.results.find import find_runs
from osmef.results.rundir import RunDirectory

if TYPE_CHECKING:
    from pyarrow import Schema  # pyarrow is slow to load
    from pyarrow.dataset import Dataset, Expression

_WORDS = ("run", "purpose", "sender", "receiver", "endpoint", "peer", "role", "protocol", "error")
_CURES = {
    "requests": "give a run of `workload: pingpong` that has ended",
    "intervals": "give a run of `workload: btc` or `udp` that has ended",
}


def scan_requests(*paths: str | PathLike[str]) -> Dataset:
    """Return the requests of runs as a lazy dataset of pyarrow.

    The paths are those of ``osmef.load``; runs without requests are passed over. Columns: ``run``,
    and those of ``requests.parquet``. Raises InputError where no run has any.
    """
    return _scan("requests", find_runs(*paths))


def scan_intervals(*paths: str | PathLike[str]) -> Dataset:
    """Return the intervals of runs as ``scan_requests`` does: ``run``, and ``intervals.parquet``'s.

    Runs of older versions have nulls in the columns that they did not have.
    """
    return _scan("intervals", find_runs(*paths))


def load_requests(
    *paths: str | PathLike[str],
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
) -> pd.DataFrame:
    """Return the requests of runs, one row each, with the ``run`` and the ``cell`` of their trial.

    Only the wanted ``columns`` are read, of ``scan_requests`` and ``cell``, and only rows
    ``where`` an expression of pyarrow holds, such as ``pyarrow.dataset.field("size") < 1000``. Null
    is NaN or None. Texts are categories. Raises InputError where there are none, a file is damaged,
    or there is no such column.
    """
    return _load("requests", find_runs(*paths), columns, where)


def load_intervals(
    *paths: str | PathLike[str],
    columns: Sequence[str] | None = None,
    where: Expression | None = None,
) -> pd.DataFrame:
    """Return the intervals of runs, one row each, as ``load_requests`` does."""
    return _load("intervals", find_runs(*paths), columns, where)


def _load(
    table: str,
    runs: Sequence[RunDirectory],
    columns: Sequence[str] | None,
    where: Expression | None,
) -> pd.DataFrame:
    import pyarrow as pa  # noqa: PLC0415 - slow to load

    dataset = _scan(table, runs)
    wanted = list(columns or (*dataset.schema.names, "cell"))
    read = [name for name in wanted if name != "cell"]
    keys = ["run", "trial"] if "cell" in wanted else []
    try:
        scanner = dataset.scanner(columns=list(dict.fromkeys([*read, *keys])), filter=where)
    except pa.ArrowException as error:
        raise InputError(
            f"can't read these {table}: {str(error).splitlines()[0]}",
            cure=f"take columns and rows by {', '.join(dataset.schema.names)}; also a column cell",
        ) from error
    try:
        rows = scanner.to_table()
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(str(error), runs) from error
    frame: pd.DataFrame = rows.to_pandas()
    if "cell" in wanted:
        frame["cell"] = _cells(frame, runs)
    return frame[wanted]


def _cells(frame: pd.DataFrame, runs: Sequence[RunDirectory]) -> pd.Categorical:
    """Return the cell of each row's trial, vectorised."""
    known = {(run.id, trial["index"]): trial["cell"] for run in runs for trial in brief_trials(run)}
    names = list(frame["run"].cat.categories)
    first = int(frame["trial"].min()) if len(frame) else 0
    span = int(frame["trial"].max()) - first + 1 if len(frame) else 1
    keys = frame["run"].cat.codes.to_numpy("int64") * span + (frame["trial"].to_numpy() - first)
    codes, found = pd.factorize(keys)
    cells = [known.get((names[key // span], key % span + first)) for key in found]
    words = pd.Categorical(cells)
    return pd.Categorical.from_codes(words.codes[codes], dtype=words.dtype)


def _scan(table: str, runs: Sequence[RunDirectory]) -> Dataset:
    import pyarrow as pa  # noqa: PLC0415 - slow to load
    from pyarrow import dataset, fs  # noqa: PLC0415

    files = {str(path): run for run in runs if (path := run.path / f"{table}.parquet").is_file()}
    if not files:
        raise InputError(
            f"no {table} here" if len(runs) > 1 else f"this run made no {table}",
            where=", ".join(str(run.path) for run in runs[:3]),
            cure=_CURES[table],
        )
    reading = dataset.ParquetReadOptions(dictionary_columns=set(_WORDS))
    try:
        return dataset.FileSystemDataset.from_paths(
            list(files),
            schema=_schema(table),
            format=dataset.ParquetFileFormat(read_options=reading),
            filesystem=fs.LocalFileSystem(),
            partitions=[dataset.field("run") == run.id for run in files.values()],
        )
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(str(error), runs) from error


def _schema(table: str) -> Schema:
    """Return the schema of a table with the run as first, dictionary-encoded column."""
    import pyarrow as pa  # noqa: PLC0415 - slow to load

    from osmef.results.tables import TABLES  # noqa: PLC0415 - loads pyarrow

    words = pa.dictionary(pa.int32(), pa.string())
    fields = [pa.field("run", pa.string()), *TABLES[table]]
    return pa.schema([pa.field(f.name, words if f.name in _WORDS else f.type) for f in fields])


def _damaged(message: str, runs: Sequence[RunDirectory]) -> InputError:
    return InputError(
        f"this is no whole Parquet file: {message}",
        where=", ".join(str(run.path) for run in runs[:3]),
        cure="put the file back as the run wrote it",
    )
