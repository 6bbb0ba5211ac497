"""Runs as pandas DataFrames: one row a trial, and requests and intervals from Parquet."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from math import nan
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from osmef.errors import InputError
from osmef.files import is_file
from osmef.results import document
from osmef.results.brief import BriefSummary, BriefTrial, brief_summary, brief_trials
from osmef.results.files import CURE
from osmef.results.measure import Measure, merge_measures
from osmef.results.observations import Request
from osmef.results.rundir import RunDirectory, find_runs
from osmef.results.trial import Interval
from osmef.scenario.base import Model

if TYPE_CHECKING:
    from pyarrow import Schema  # pyarrow is slow to load
    from pyarrow.dataset import Dataset, Expression

_AT_ONCE = 4096
_CURE = (
    "load all runs at once with osmef.load, or name the measures with"
    " osmef.results.frame.describe_columns"
)
_RUN = ("run", "scenario", "provider")
_PLACE = (
    "cell",
    "trial",
    "repetition",
    "group",
    "pair",
    "session",
    "window",
    "platform",
    "senders",
    "receivers",
    "sender_flavors",
    "receiver_flavors",
    "price_per_hour",
    "currency",
    "placement",
    "tenancy",
    "achieved_placement",
    "achieved_tenancy",
    "distance",
    "connections",
)
_COURSE = ("status", "failure_kind", "failure_message", "started_at", "wall_s")
_WORK = ("workload", "background", "limited_by", "start_spread_s", "repeat_until")
_FIXED = (*_RUN, *_PLACE, *_COURSE, *_WORK)
_FIXED_NAMES = frozenset(_FIXED)
_WHOLE = ("trial", "repetition", "group", "pair", "distance", "connections")
_KNOWN_BY = ("trial", "repetition", "group")
_NUMBERS = ("price_per_hour", "wall_s", "start_spread_s", "repeat_until")
_COPIED = 10_000  # trials whose frame may be made twice for a moment
_MADE = (
    *("trial", "senders", "receivers", "sender_flavors", "receiver_flavors"),
    *("price_per_hour", "currency", "repeat_until"),
)
_GIVEN = tuple(name for name in _FIXED if name not in {*_RUN, *_MADE} and "failure" not in name)
_SAME: Mapping[str, type] = {"placement": str, "tenancy": str, "connections": int}
"""Swept keys that are what the fixed column of their name is, and the types that say so."""
_TEXTS = tuple(name for name in _FIXED if name not in {*_WHOLE, *_NUMBERS, "started_at"})


def load(
    *paths: str | PathLike[str], keep: Callable[[Measure], bool] | None = None
) -> pd.DataFrame:
    """Return the trials of runs, one row each; within a run in the order of their ends.

    Each path is a run directory, or the summary.json or trials.jsonl in it, a directory that holds
    runs, or a pattern such as ``results/vm-*``. Columns: run, scenario, provider, cell, trial,
    repetition, group, pair (where each has trials of its own), session, window and platform of a
    campaign, senders, receivers,
    sender_flavors, receiver_flavors, price_per_hour of all VMs of the cell and its currency,
    placement, tenancy (both as requested), achieved_placement, achieved_tenancy, distance (as
    achieved), connections, each swept value of any of the runs under its key, status, failure_kind,
    failure_message, started_at, wall_s, workload, background, limited_by, start_spread_s,
    repeat_until of the cell (NaN with a fixed number of trials), and each metric with its unit in
    the name. The endpoints of a group, and their flavors, stand in one
    text, with commas. What is not known is missing (NaN, <NA> or None), and never 0.

    A column never means two things: a swept value that has the name of another column is in
    ``swept.NAME`` (a swept ``window`` of TCP in ``workload.window``), and a metric that has the
    name of a fixed one in ``measured.NAME``. With ``keep`` only metrics of whose measure it is true
    have columns; what other names mean doesn't matter then.

    ``attrs`` of the frame say what its columns are: ``measures_of`` those that were measured,
    ``swept_of`` those that were swept. Filtering keeps them, and so do ``assign`` and ``copy``;
    joining two frames only where they are equal: better load both at once.

    Raises InputError when a path leads to no run, a newer OSMeF wrote it, or two runs mean two
    things by one name.
    """
    columns = _Columns()
    measures: list[tuple[str, list[Measure]]] = []
    for run in find_runs(*paths):
        summary = brief_summary(run)
        kept = [one for one in summary.measures if keep is None or keep(one)]
        if not measures or measures[-1][1] != kept:
            measures.append((run.id, kept))
        trials = brief_trials(run)
        while some := list(islice(trials, _AT_ONCE)):
            columns.add(_with_metrics(some, summary, keep) if keep else some, run.id, summary)
    return columns.frame(merge_measures(measures))


def _with_metrics(
    trials: Sequence[BriefTrial], summary: BriefSummary, keep: Callable[[Measure], bool]
) -> list[BriefTrial]:
    """Return the trials of a run with those of their metrics that are kept."""
    declared = {one.name: one for one in summary.measures}
    names = {name for trial in trials for name in trial.get("metrics") or ()}
    kept = {name for name in names if keep(declared.get(name) or document.measure_of(name))}
    return [
        {
            **one,
            "metrics": {
                name: of for name, of in (one.get("metrics") or {}).items() if name in kept
            },
        }
        for one in trials
    ]


class _Shared(dict[str, Any]):
    """A dict without deep copies: pandas copies ``attrs`` with every frame and column."""

    def __deepcopy__(self, _memo: object) -> _Shared:
        return self


def describe_columns(
    frame: pd.DataFrame, measures: Iterable[Measure], swept: Iterable[str] = ()
) -> pd.DataFrame:
    """Describe measured and swept columns in the ``attrs`` of a frame; return it.

    They are plain: ``measures`` has the members of each by its name, ``swept`` is a list of names.
    """
    reported = {one.name: one.model_dump(mode="json") for one in measures}
    frame.attrs = {**frame.attrs, "measures": _Shared(reported), "swept": list(swept)}
    return frame


def measures_of(frame: pd.DataFrame) -> dict[str, Measure]:
    """Return the measures of a frame's columns by name, the main ones first.

    Raises InputError for a frame that does not say so: one that ``load`` has not made, or that was
    joined of several.
    """
    reported = _described(frame)
    return {name: Measure.model_validate(one) for name, one in reported.items() if name in frame}


def measure_named(frame: pd.DataFrame, name: str) -> Measure:
    """Return a measure of a frame by name, whether or not it has such a column.

    Raises InputError as ``measures_of``.
    """
    reported = _described(frame)
    if name not in reported:
        raise InputError(f"this frame has no definition of {name!r}", cure=_CURE)
    return Measure.model_validate(reported[name])


def _described(frame: pd.DataFrame) -> Mapping[str, Any]:
    if "measures" not in frame.attrs:
        what = "this frame has no definitions of its metrics (frame.attrs['measures'])"
        raise InputError(what, cure=_CURE)
    reported: Mapping[str, Any] = frame.attrs["measures"]
    return reported


def swept_of(frame: pd.DataFrame) -> list[str]:
    """Return the swept columns of a frame. Raises InputError as ``measures_of``."""
    _described(frame)
    return [name for name in frame.attrs.get("swept", ()) if name in frame]


def described_like(frame: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Copy the description of columns from a frame to one derived from it; return that."""
    frame.attrs = {**frame.attrs, **other.attrs}
    return frame


class _Words:
    """Builder of a dictionary-encoded column of texts."""

    def __init__(self) -> None:
        self._numbers = array("i")
        self._known: dict[str | None, int] = {}

    def extend(self, texts: Iterable[str | None]) -> None:
        """Append rows."""
        known = self._known
        self._numbers.extend([known.setdefault(text, len(known)) for text in texts])

    def column(self) -> pd.Series:
        """Return all rows."""
        words = np.array(list(self._known), dtype="object")
        return pd.Series(words[np.frombuffer(self._numbers, dtype="i")], dtype="object")


class _Columns:
    """Builder of a frame, column by column: rows of a million trials would not fit."""

    def __init__(self) -> None:
        self._count = 0
        self._words = {name: _Words() for name in _TEXTS}
        self._numbers = {name: array("d") for name in (*_WHOLE, *_NUMBERS)}
        self._started: list[str | None] = []
        self._started_in: list[str] = []
        self._times: list[pd.Series] = []
        self._swept: dict[str, list[Any]] = {}
        self._varied: dict[str, None] = {}
        self._texts: dict[str, str] = {}
        self._metrics: dict[str, array[float]] = {}

    def add(self, trials: Sequence[BriefTrial], run: str, summary: BriefSummary) -> None:
        """Append trials of a run."""
        columns = _columns(trials, run, summary)
        values = [_renamed(trial["values"]) for trial in trials]
        for name in dict.fromkeys(key for one in values for key in one):
            self._varied[name] = None
            if name in columns:
                own = zip(values, columns[name], strict=True)
                columns[name] = [one.get(name, reported) for one, reported in own]
            elif name not in self._swept:
                self._swept[name] = [None] * self._count
        for name, words in self._words.items():
            words.extend(columns[name])
        for name, numbers in self._numbers.items():
            try:
                _check_whole(name, columns[name])
                numbers.extend([nan if one is None else one for one in columns[name]])
            except (TypeError, OverflowError) as error:  # a swept value may be of any kind
                what = f"this is damaged: {name} of one of its trials is no number that it can be"
                raise InputError(what, where=run, cure=CURE) from error
        self._started.extend(columns["started_at"])
        self._started_in.extend(columns["run"])
        if len(self._started) >= _AT_ONCE:
            self._read_times()
        for name, column in self._swept.items():
            column.extend(self._shared(one.get(name)) for one in values)
        self._add_metrics([trial.get("metrics") or {} for trial in trials])
        self._count += len(trials)

    def _read_times(self) -> None:
        """Parse the times so far, vectorised over many runs."""
        try:
            self._times.append(_times(self._started))
        except _NO_TIME:
            for run, text in zip(self._started_in, self._started, strict=True):
                _check_time(text, run)
            raise
        self._started, self._started_in = [], []

    def _shared(self, value: Any) -> Any:
        """Return an interned value."""
        return self._texts.setdefault(value, value) if isinstance(value, str) else value

    def _add_metrics(self, metrics: list[dict[str, float | None]]) -> None:
        for name in dict.fromkeys(key for one in metrics for key in one):
            if name not in self._metrics:
                self._metrics[name] = array("d", [nan]) * self._count
        for name, column in self._metrics.items():
            found = [one.get(name) for one in metrics]
            column.extend([nan if value is None else value for value in found])

    def frame(self, reported: Mapping[str, Measure]) -> pd.DataFrame:
        """Return the frame, and release the columns to save memory."""
        names = [*(name for name in reported if name in self._metrics),
                 *(name for name in self._metrics if name not in reported)]  # fmt: skip
        self._rename_swept()
        measures = [
            (reported.get(name) or document.measure_of(name)).model_copy(
                update={"name": metric_column(name)}
            )
            for name in names
        ]
        words = list(self._words)
        columns: dict[str, Any] = {name: self._words.pop(name).column() for name in words}
        columns |= {name: _whole(np.frombuffer(self._numbers[name])) for name in _WHOLE}
        columns |= {name: np.frombuffer(self._numbers[name]) for name in _NUMBERS}
        if self._started or not self._times:
            self._read_times()
        columns["started_at"] = pd.concat(self._times, ignore_index=True)
        columns |= {name: _swept(values) for name, values in self._swept.items()}
        columns |= {name: np.frombuffer(column) for name, column in self._metrics.items()}
        order = (*_RUN, *_PLACE, *self._swept, *_COURSE, *_WORK, *self._metrics)
        small = self._count <= _COPIED  # one block a type, to which columns may be added
        frame = pd.DataFrame({name: columns.pop(name) for name in order}, copy=small)
        return describe_columns(frame, measures, self._varied)

    def _rename_swept(self) -> None:
        """Rename swept columns that have the name of a metric."""
        names = {name: f"swept.{name}" for name in self._swept if name in self._metrics}
        if names:
            self._swept = {names.get(name, name): of for name, of in self._swept.items()}
            self._varied = {names.get(name, name): None for name in self._varied}
        self._metrics = {metric_column(name): of for name, of in self._metrics.items()}


def _check_whole(name: str, numbers: Sequence[int]) -> None:
    """Raise OverflowError for integers that exceed a column's type."""
    if name in _KNOWN_BY and max(map(abs, numbers)) >= 2**53:
        raise OverflowError


_NO_TIME = (ValueError, OverflowError, NotImplementedError)  # the last of the year 0


def _times(texts: Sequence[str | None]) -> pd.Series:
    return pd.to_datetime(pd.Series(list(texts), dtype="object"), utc=True, format="ISO8601")


def _check_time(text: str | None, run: str) -> None:
    try:
        _times([text])
    except _NO_TIME as error:
        what = f"this is damaged: started_at of one of its trials is no time: {ascii(text)[:60]}"
        raise InputError(what, where=run, cure=CURE) from error


def _renamed(values: dict[str, Any]) -> dict[str, Any]:
    """Return swept values under names that no fixed column of another meaning has."""
    if _FIXED_NAMES.isdisjoint(values):
        return values
    return {_parted(name, value): value for name, value in values.items()}


def _parted(name: str, value: Any) -> str:
    if name not in _FIXED_NAMES or type(value) is _SAME.get(name):
        return name
    return "workload.window" if name == "window" else f"swept.{name}"


def metric_column(name: str) -> str:
    """Return the name of a metric's column."""
    return f"measured.{name}" if name in _FIXED_NAMES else name


def original_name(column: str) -> str:
    """Return the name of a column's swept key or metric in the scenario and the summary."""
    if column == "workload.window":
        return "window"
    return column.removeprefix("measured.").removeprefix("swept.")


def _swept(values: list[Any]) -> Any:
    """Return swept values as a column: integers stay so where some cells have none."""
    mixed = set(map(type, values)) == {int, type(None)}
    return pd.array(values, dtype="Int64") if mixed else values


def _whole(numbers: np.ndarray) -> pd.api.extensions.ExtensionArray:
    unknown = ~(np.abs(numbers) < 2**63)
    return pd.arrays.IntegerArray(np.where(unknown, 0, numbers).astype("int64"), unknown)


def _columns(trials: Sequence[BriefTrial], run: str, summary: BriefSummary) -> dict[str, list[Any]]:
    """Return the fixed columns of trials of a run."""
    rows: Sequence[Mapping[str, Any]] = trials
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in _GIVEN}
    columns["trial"] = [row["index"] for row in rows]
    same = {"run": run, "scenario": summary.scenario, "provider": summary.provider}
    columns |= {name: [value] * len(rows) for name, value in same.items()}
    for end in ("sender", "receiver"):
        ends = [tuple(row[f"{end}s"]) for row in rows]
        names = {one: ",".join(one) for one in set(ends)}
        flavors = {one: _flavors(one, summary) for one in names}
        columns[f"{end}s"] = [names[one] for one in ends]
        columns[f"{end}_flavors"] = [flavors[one] for one in ends]
    prices = [summary.prices.get(row["cell"], (None, None)) for row in rows]
    columns["connections"] = [
        summary.connections.get(row["cell"]) if own is None else own
        for own, row in zip(columns["connections"], rows, strict=True)
    ]
    columns["repeat_until"] = [summary.repeat_until.get(row["cell"]) for row in rows]
    columns["price_per_hour"] = [amount for amount, _currency in prices]
    columns["currency"] = [currency for _amount, currency in prices]
    failures = [row.get("failure") or {} for row in rows]
    for name in ("kind", "message"):
        columns[f"failure_{name}"] = [one.get(name) for one in failures]
    return columns


def _flavors(names: Iterable[str], summary: BriefSummary) -> str | None:
    """Return the distinct flavors of endpoints; None if all are unknown."""
    found = dict.fromkeys(summary.flavors.get(name) for name in names)
    return ",".join(flavor for flavor in found if flavor) or None


_WORDS = ("run", "purpose", "sender", "receiver", "endpoint", "peer", "role", "protocol", "error")
_MODELS: dict[str, type[Model]] = {"requests": Request, "intervals": Interval}
_MEANINGS = {"run": "id of the run", "cell": "name of the trial's cell"}
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
    is NaN or None. Texts are categories. What each column means is in ``attrs["columns"]``. Raises
    InputError where there are none, a file is damaged, or there is no such column.
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
    found = frame[wanted]
    found.attrs["columns"] = {name: _MEANINGS.get(name) or _meaning(table, name) for name in wanted}
    return found


def _meaning(table: str, column: str) -> str:
    return str(_MODELS[table].model_fields[column].description)


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

    files = {str(path): run for run in runs if is_file(path := run.path / f"{table}.parquet")}
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
        f"this Parquet file is truncated or damaged: {message}",
        where=", ".join(str(run.path) for run in runs[:3]),
        cure="put the file back as the run wrote it",
    )
