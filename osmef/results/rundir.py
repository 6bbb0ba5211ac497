"""The run directory: everything known of one run, durable from the moment it is known.

    RUN/  scenario.yaml  journal.jsonl  trials.jsonl  intervals.parquet  requests.parquet
          facts/  measures.json  raw/  summary.json  lock

It is ``scenario.json`` where the scenario was written in JSON. Trials are
appended as they end; one that was measured again has several lines, of which the newest counts.
The intervals of each trial are a part of their own, in ``intervals/``, until
``finish`` merges them, and so are its requests, if it has any. ``raw`` has what external programs
printed, a file each: its trial, its number in it, where it ran, and what it is. ``lock`` is held
while a controller works on the run.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import chain, compress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic_core import to_json

from osmef.errors import InputError
from osmef.files import exists, is_directory, remove_stale_drafts
from osmef.results import files
from osmef.results.document import read_document, read_json, refuse_newer
from osmef.results.files import append_line, read_lines, read_whole, storage, write_atomically
from osmef.results.merging import merge
from osmef.results.summary import Declared, Summary
from osmef.results.trial import Interval, Status, Trial
from osmef.units import parse_count

if TYPE_CHECKING:
    from pyarrow import Table


_TRIALS = "trials.jsonl"
_FILES = ("summary.json", _TRIALS)
_CURE = "name a run that `osmef list` shows, `latest`, a run directory, or a directory of runs"
LATEST = "latest"
_RUN_FILES = ("lock", "summary.json", "trials.jsonl")
_STAMP = re.compile(r"-(\d{8}T\d{6}Z)-[0-9a-f]{4}$")
_MOST_NAMED = 5
_ALIKE = 0.75  # of names, by difflib
_FACTS_CURE = "put it back from a copy, or remove it: with it these facts are lost, and no trial"
_NO_RUN_CURE = "osmef run SCENARIO makes one; osmef list DIR shows those of another directory"


def find_runs(*paths: str | PathLike[str]) -> list[RunDirectory]:
    """Return the runs with trials that the paths name, each once, in their order.

    A path is what ``run_called`` takes for a run: such as a run directory, or
    the beginning of its name, a summary.json or trials.jsonl in one, a directory that holds runs at
    any depth, which come sorted, or a pattern of such paths with ``*``, ``?``, ``[...]`` and
    ``**``. Of several paths a run without trials is left out, see ``left_out``. Raises InputError
    for a path that leads to no run, for two runs of one name, and without any path.
    """
    if not paths:
        raise InputError("no run was named", cure=_CURE)
    found: dict[Path, RunDirectory] = {}
    for path in paths:
        for run in _runs(path, one_of_many=len(paths) > 1):
            found.setdefault(run.resolve(), RunDirectory(run))
    if not found:
        raise InputError("none of these runs has trials yet", where=str(paths[0]), cure=_CURE)
    _check_names(found)
    return list(found.values())


def left_out(paths: Sequence[str | PathLike[str]]) -> list[Path]:
    """Return the runs without trials that ``find_runs`` leaves out among several paths."""
    named = [run_called(path) for path in paths] if len(paths) > 1 else []
    return [run for run in named if is_run(run) and not _at(run)]


def _check_names(runs: Mapping[Path, RunDirectory]) -> None:
    """Raise InputError for two runs of one name, which frames could not distinguish."""
    known: dict[str, Path] = {}
    for path, run in runs.items():
        other = known.setdefault(run.id, path)
        if other != path:
            raise InputError(
                f"two runs are called {run.id}: {other} and {path}",
                cure="leave one of them out if it is a copy, or rename its directory",
            )


def _runs(path: str | PathLike[str], *, one_of_many: bool) -> list[Path]:
    """Return the runs with trials of a path; of many a run without trials is left out."""
    here = run_called(path)
    if not exists(here) and glob.has_magic(str(here)):
        # A pattern may also match what lies beside the runs.
        runs = [run for match in sorted(glob.glob(str(here), recursive=True)) for run in _at(match)]  # noqa: PTH207 - a pattern may be absolute
        what = "no run matches"
    else:
        runs = _at(here)
        what = "this run has no trials yet" if is_directory(here) else "there is no such run"
    if not runs and one_of_many and is_run(here):
        return []
    if not runs:
        if is_directory(here):
            with storage("look into", here), os.scandir(here):  # os.walk ignores that it can't
                pass
        raise InputError(what, where=str(path), cure=_CURE)
    return runs


def _at(path: str | PathLike[str]) -> list[Path]:
    here = Path(path)
    if here.name in _FILES and not is_directory(here):
        here = here.parent
    return list(_below(here))


def _below(directory: Path) -> Iterator[Path]:
    for path, names, there in os.walk(directory, onerror=_refuse_unreadable):
        if _TRIALS in there:
            names.clear()  # there are no runs in a run
            yield Path(path)
        names.sort()


def _refuse_unreadable(error: OSError) -> None:
    """Raise StorageError for what may hold runs; ``lost+found`` and hidden ones do not."""
    path = Path(error.filename)
    is_closed = isinstance(error, PermissionError)
    if is_run(path) or (is_closed and not files.holds_no_results(path)):
        refused = files.storage_error("look into", path, error)
        cure = str(refused.cure).removesuffix(".")
        refused.cure = f"{cure}. Or name a directory that is closer to the runs"
        raise refused from error


RESULTS = Path("results")
"""Where runs are looked for by their names alone; ``osmef run`` puts them there."""


def runs_in(directory: Path) -> list[Path]:
    """Return the runs in a directory, the oldest first."""
    if not is_directory(directory):
        return []
    found = [path for path in directory.iterdir() if is_run(path)]
    return sorted(found, key=lambda path: (_begun(path), path.name))


def run_called(name: str | PathLike[str]) -> Path:
    """Resolve the path or name of a run.

    A path that exists is itself. Else it is the only run whose name begins so, in the directory of
    the path, or, without one, in ``results``; ``latest`` is the newest there. What is none of these
    is returned as it is, for the reader to refuse. Raises InputError where several begin so,
    and for a name that nearly is one of a scenario, and StorageError.
    """
    path = Path(name)
    with storage("look into", path):
        if exists(path):
            return path
    folder = path.parent if len(path.parts) > 1 else RESULTS
    runs = runs_in(folder)
    if path.name == LATEST:
        if not runs:
            raise InputError(f"there is no run in {folder}/", where=str(path), cure=_NO_RUN_CURE)
        return runs[-1]
    alike = [run for run in runs if run.name.startswith(path.name)]
    if len(alike) > 1:
        names = ", ".join(run.name for run in reversed(alike[-_MOST_NAMED:]))
        more = f", and {len(alike) - _MOST_NAMED} older ones" if len(alike) > _MOST_NAMED else ""
        raise InputError(
            f"{len(alike)} runs begin so, the newest first: {names}{more}",
            where=str(path),
            cure=f"write more of the name; the newest is {alike[-1]}",
        )
    if not alike and not glob.has_magic(str(path)):
        _refuse_near(path, runs)
    return alike[0] if alike else path


def _refuse_near(path: Path, runs: Iterable[Path]) -> None:
    """Raise InputError where a name is close to ``latest`` or to a scenario's."""
    names = {LATEST, *(_STAMP.sub("", run.name) for run in runs)}
    if near := get_close_matches(path.name.lower(), names, n=1, cutoff=_ALIKE):
        raise InputError(
            "there is no such run",
            where=str(path),
            cure=f"did you mean {near[0]!r}? `osmef list` shows the runs",
        )


def is_run(path: Path) -> bool:
    """Return whether a directory is a run's; of an unreadable one its name decides."""
    try:
        return is_directory(path) and any(exists(path / name) for name in _RUN_FILES)
    except PermissionError:
        return _STAMP.search(path.name) is not None


def _begun(path: Path) -> str:
    """Return the start of a run, by its name, or else its directory's mtime."""
    if found := _STAMP.search(path.name):
        return found[1]
    return f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y%m%dT%H%M%SZ}"


def begun_at(path: Path) -> datetime:
    """Return the sort key of ``runs_in``: the start of a run."""
    return datetime.strptime(_begun(path), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


_TABLES = ("intervals", "requests")


def new_path(out: Path, scenario_name: str) -> Path:
    """Return the path of a new run directory: its name is the run's id, of time and chance."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return out / f"{scenario_name}-{stamp}-{secrets.token_hex(2)}"


def _refuse_undecodable(path: Path) -> None:
    """Raise InputError for a path in another encoding: pyarrow could not read the tables there."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        cure = "name a directory in UTF-8, or go there and name it ."
        raise InputError("this path is not UTF-8", where=str(path), cure=cure) from error


@dataclass(frozen=True)
class TrialLog:
    """The trials of a run in the order of their ends, and notes for the reader.

    Of a trial that was measured again it is the newest record; ``replaced`` counts those before.
    """

    trials: list[Trial]
    warnings: list[str]
    replaced: int = 0


class RunDirectory:
    """One run on disk. Every method raises StorageError when the disk fails.

    Safe to use from several threads as long as one at a time appends trials.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: files.Lock | None = None

    @classmethod
    def create(cls, out: Path, scenario_name: str, study_text: str | None, suffix: str) -> Self:
        """Create a run directory under ``out`` with the scenario file, and lock it.

        ``suffix`` is the scenario file's (".yaml" or ".json"). An imported run has none.
        """
        return cls.create_at(new_path(out, scenario_name), study_text, suffix)

    @classmethod
    def create_at(cls, path: Path, study_text: str | None, suffix: str) -> Self:
        """Create a run directory at a path of ``new_path``, as ``create`` does."""
        _refuse_undecodable(path)
        run = cls(path)
        with storage("make a run directory", run.path):
            run.path.mkdir(parents=True)
        try:
            run.acquire()
            if study_text is not None:
                write_atomically(run.path / f"scenario{suffix}", study_text.encode())
        except BaseException:
            run.close()
            shutil.rmtree(run.path, ignore_errors=True)  # it is ours, and holds nothing yet
            raise
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return an existing run directory; raises InputError when it is none."""
        run = cls(path)
        with storage("look into", path):
            has_run_files = any(exists(path / name) for name in ("lock", "summary.json"))
        if not has_run_files:
            raise InputError(
                "this is no run directory" if is_directory(path) else "there is no such run",
                where=str(path),
                cure="name a run that `osmef list` shows, or `latest`",
            )
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        """The run's name, such as ``quickstart-20261121T031500Z-3f9a``."""
        return self.path.resolve().name

    @property
    def scenario(self) -> Path:
        """The scenario file as of the run's start. Raises InputError if it is missing."""
        found = min(self.path.glob("scenario.*"), default=None)
        if found is None:
            raise InputError(
                "the scenario file of the run is missing",
                where=str(self.path),
                cure="put the file back as scenario.yaml, unchanged, or start a new run",
            )
        return found

    @property
    def journal(self) -> Path:
        """The path of the journal."""
        return self.path / "journal.jsonl"

    @property
    def trials(self) -> Path:
        """The path of the log of trials, one JSON line each."""
        return self.path / "trials.jsonl"

    @property
    def intervals(self) -> Path:
        """The path of all trials' time series, once ``finish`` has merged them."""
        return self.path / "intervals.parquet"

    @property
    def requests(self) -> Path:
        """The path of all trials' requests, if any, once ``finish`` has merged them."""
        return self.path / "requests.parquet"

    @property
    def summary(self) -> Path:
        """The path of the summary."""
        return self.path / "summary.json"

    @property
    def measures(self) -> Path:
        """The path of what is declared, used while there is no summary."""
        return self.path / "measures.json"

    def acquire(self) -> None:
        """Lock it until ``close`` or the end of this process; refused while it is locked."""
        self._lock = files.hold(self.path)
        remove_stale_drafts(self.path)

    def close(self) -> None:
        """Release the lock, if this object holds it."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def is_live(self) -> bool | None:
        """Return whether a controller holds the lock; None without permission to look.

        It delays no other process. To keep others off, ``acquire``.
        """
        return files.is_held(self.path)

    def append_trial(self, trial: Trial) -> None:
        """Append a trial to the log, durably.

        A trial's intervals belong onto the disk before it, since a trial in the log is done.
        """
        append_line(self.trials, trial.model_dump_json().encode())

    def read_trials(self) -> TrialLog:
        """Return the trials so far. An incomplete last line is dropped.

        Raises InputError for a line that is damaged or of a newer version.
        """
        records, warnings = self._records()
        newest = {trial.index: number for number, trial in enumerate(records)}
        counts = [newest[trial.index] == number for number, trial in enumerate(records)]
        replaced = len(records) - len(newest)
        return TrialLog(list(compress(records, counts)), warnings, replaced)

    def _records(self) -> tuple[list[Trial], list[str]]:
        """Return all records of the log, and notes for the reader."""
        records, warnings = [], []
        for number, text, is_whole in read_lines(self.trials):
            where = f"{self.trials}:{number}"
            if is_whole:
                records.append(read_document(Trial, text, where))
            else:
                warnings.append(f"{where}: dropped a trial that was not written whole")
        return records, warnings

    def correct_trials(self, corrected: Sequence[Trial]) -> None:
        """Replace the newest records of trials in the log.

        One that failed after all loses its time series, too. The log is the old one or the new one
        at any time; it must not be appended to meanwhile. Raises InputError for a damaged log.
        """
        changed = {trial.index: trial for trial in corrected}
        if not changed:
            return
        records, _ = self._records()
        newest = {trial.index: number for number, trial in enumerate(records)}
        for index, trial in changed.items():
            if index in newest:
                records[newest[index]] = trial
        text = "".join(trial.model_dump_json() + "\n" for trial in records)
        write_atomically(self.trials, text.encode())
        for index in (trial.index for trial in corrected if trial.status is Status.FAILED):
            for table in _TABLES:
                if index in self._parts(table):
                    write_atomically(self._part(table, index, "json"), b"{}")

    def _part(self, table: str, trial: int, suffix: str) -> Path:
        return self.path / table / f"{trial:05d}.{suffix}"

    def _parts(self, table: str) -> dict[int, list[Path]]:
        """Return the files of each trial, the one that counts last.

        Those in JSON are newer: a trial that failed after all, or that was measured again after an
        older version, which wrote all in Parquet.
        """
        files: dict[int, list[Path]] = {}
        for suffix in ("parquet", "json"):
            for path in sorted((self.path / table).glob(f"*.{suffix}")):
                if (trial := parse_count(path.stem)) is not None:
                    files.setdefault(trial, []).append(path)
        return files

    def write_intervals(self, trial: int, rows: Sequence[Interval]) -> None:
        """Write the time series of one trial, of all its connections at both ends."""
        columns = {name: [getattr(row, name) for row in rows] for name in Interval.model_fields}
        text = to_json(columns, inf_nan_mode="constants")
        write_atomically(self._part("intervals", trial, "json"), text)

    def write_requests(self, trial: int, tables: Sequence[Table]) -> None:
        """Write the requests of one trial, if any."""
        if tables:
            from osmef.results.tables import write_part  # noqa: PLC0415 - pyarrow is slow to load

            part = self._part("requests", trial, "parquet")
            write_atomically(part, lambda file: write_part(file, tables))
            with storage("tidy up", part.parent):
                self._part("requests", trial, "json").unlink(missing_ok=True)

    def write_raw(self, trial: int, name: str, printed: bytes) -> None:
        """Write a program's output of a trial as ``raw/TRIAL-NAME``, replacing an older one.

        Nothing makes no file.
        """
        path = self.path / "raw" / f"{trial}-{name}"
        if not printed:
            with storage("remove", path):
                path.unlink(missing_ok=True)
            return
        with storage("make a directory", path.parent):
            path.parent.mkdir(exist_ok=True)
        write_atomically(path, printed)

    def write_facts(self, moment: str, endpoint: str, facts: Mapping[str, Any]) -> None:
        """Write the facts of an endpoint at one moment, as ``facts/MOMENT/ENDPOINT.json``."""
        path = self.path / "facts" / moment / f"{endpoint}.json"
        with storage("make a directory", path.parents[1]):
            path.parents[1].mkdir(exist_ok=True)
        write_atomically(path, to_json(facts, indent=1) + b"\n")  # json takes twenty times as long

    def read_facts(self, moment: str, endpoint: str) -> dict[str, Any] | None:
        """Return the facts of an endpoint at one moment, None without any.

        Raises InputError if they are damaged.
        """
        path = self.path / "facts" / moment / f"{endpoint}.json"
        if not exists(path):
            return None
        facts = read_json(read_whole(path), str(path), _FACTS_CURE)
        if not isinstance(facts, dict):
            message = "this is damaged: it holds no facts"
            raise InputError(message, where=str(path), cure=_FACTS_CURE)
        return facts

    def fact_moments(self, endpoint: str) -> list[str]:
        """Return the moments of an endpoint's facts, in order."""
        found = (self.path / "facts").glob(f"*/{endpoint}.json")
        return sorted(path.parent.name for path in found)

    def keep(self, name: str, text: str) -> str:
        """Write a text of an endpoint, such as its console, and return its path."""
        path = self.path / "logs" / name
        with storage("make a directory", path.parent):
            path.parent.mkdir(exist_ok=True)
        write_atomically(path, text.encode(errors="backslashreplace"))
        return str(path)

    def declare(self, declared: Declared) -> None:
        """Write what frames need of trials, before there is a summary."""
        write_atomically(self.measures, f"{declared.model_dump_json(indent=1)}\n".encode())

    def read_declared(self) -> Declared:
        """Return what is declared of a run without a summary; nothing of older ones.

        Raises InputError if that is damaged or of a newer version.
        """
        if not exists(self.measures):
            return Declared(measures=[])
        return read_document(Declared, read_whole(self.measures), str(self.measures))

    def write_summary(self, summary: Summary) -> None:
        """Write the summary, replacing an older one."""
        text = summary.model_dump_json(indent=1)
        write_atomically(self.summary, f"{text}\n".encode())

    def read_summary(self) -> Summary:
        """Return the summary. Raises InputError if it is damaged or of a newer version."""
        return read_document(Summary, read_whole(self.summary), str(self.summary))

    def refuse_newer_summary(self) -> None:
        """Raise InputError where there is a summary of a newer version, which stays as it is."""
        if not exists(self.summary):
            return
        try:
            text = read_whole(self.summary)
        except InputError:  # too long, so it is damaged
            return
        refuse_newer(text, str(self.summary))

    def finish(self) -> None:
        """Merge the parts of each table into one file; may be called again.

        Raises StorageError, and InputError where one is damaged: then all stay as they are.
        """
        for table in _TABLES:
            if parts := self._parts(table):
                self._merge(table, [parts[trial] for trial in sorted(parts)])

    def _merge(self, table: str, parts: list[list[Path]]) -> None:
        merged, newest = self.path / f"{table}.parquet", [files[-1] for files in parts]
        write_atomically(merged, lambda file: merge(table, file, merged, newest))
        with storage("tidy up", self.path / table):
            for part in chain.from_iterable(parts):
                part.unlink()
            with contextlib.suppress(OSError):  # a draft of another thread keeps it
                (self.path / table).rmdir()
