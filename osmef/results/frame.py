"""A run as a pandas DataFrame, for analysis."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import pandas as pd

from osmef.errors import InputError
from osmef.results.files import storage
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Trial

_FILES = ("summary.json", "trials.jsonl")


def load(path: str | PathLike[str]) -> pd.DataFrame:
    """Return the trials of a run, one row each, in the order in which they ended.

    ``path`` is a run directory, or the summary.json or trials.jsonl in it. Columns: run, scenario,
    cell, index, repetition, group, senders, receivers, placement, tenancy (both as requested),
    achieved_placement, achieved_tenancy, distance (as achieved), connections, each swept value
    under its key, status, failure_kind, failure_message, started_at, wall_s, workload, background,
    start_spread_s, and each metric with its unit in the name. The endpoints of a group stand in one
    text, with commas. What is not known is missing (NaN, <NA> or None), and never 0. Raises
    InputError when the path is no run, or a newer OSMeF wrote it.
    """
    run = _run_directory(Path(path))
    trials = run.read_trials().trials
    # The run's name is SCENARIO-TIME-ID; the directory may have another one by now.
    scenario = run.read_summary().run.scenario if run.summary.exists() else None
    scenario = scenario or run.id.rsplit("-", 2)[0]
    swept = list(dict.fromkeys(key for trial in trials for key in trial.values))
    metrics = list(dict.fromkeys(key for trial in trials for key in trial.metrics))
    rows = [{"run": run.id, "scenario": scenario, **_row(trial)} for trial in trials]
    columns = ["run", "scenario", *_PLACE, *swept, *_COURSE, *_WORK, *metrics]
    frame = pd.DataFrame(rows, columns=pd.Index(list(dict.fromkeys(columns))))
    whole = dict.fromkeys(("index", "repetition", "group", "distance", "connections"), "Int64")
    numbers = dict.fromkeys(["wall_s", "start_spread_s", *metrics], "float64")
    frame["started_at"] = pd.to_datetime(frame["started_at"], utc=True)
    return frame.astype({**whole, **numbers})


def load_requests(directory: RunDirectory) -> pd.DataFrame:
    """Return the requests of a run, one row each, with the ``cell`` of their trial.

    The other columns are those of ``requests.parquet``, with NaN for null. Raises InputError where
    there are none, or they are damaged.
    """
    import pyarrow as pa  # noqa: PLC0415 - pyarrow is slow to load
    from pyarrow import parquet  # noqa: PLC0415

    if not directory.requests.is_file():
        raise InputError(
            "this run made no requests",
            where=str(directory.path),
            cure="give a run of `workload: pingpong` that has ended",
        )
    cells = {trial.index: trial.cell for trial in directory.read_trials().trials}
    try:
        with storage("read", directory.requests):
            # Millions of rows repeat a few words.
            table = parquet.read_table(directory.requests, read_dictionary=_WORDS)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"this is no whole Parquet file: {error}",
            where=str(directory.requests),
            cure="put the file back as the run wrote it",
        ) from error
    frame: pd.DataFrame = table.to_pandas()
    return frame.assign(cell=frame["trial"].map(cells))


_WORDS = ["purpose", "sender", "receiver", "error"]


_PLACE = (
    "cell",
    "index",
    "repetition",
    "group",
    "senders",
    "receivers",
    "placement",
    "tenancy",
    "achieved_placement",
    "achieved_tenancy",
    "distance",
    "connections",
)
_COURSE = ("status", "failure_kind", "failure_message", "started_at", "wall_s")
_WORK = ("workload", "background", "limited_by", "start_spread_s")


def _row(trial: Trial) -> dict[str, object]:
    return {
        **{name: getattr(trial, name) for name in _PLACE},
        "senders": ",".join(trial.senders),
        "receivers": ",".join(trial.receivers),
        "placement": trial.placement.value,
        "tenancy": trial.tenancy.value,
        "achieved_placement": trial.achieved_placement and trial.achieved_placement.value,
        "achieved_tenancy": trial.achieved_tenancy and trial.achieved_tenancy.value,
        "status": trial.status.value,
        "failure_kind": trial.failure.kind if trial.failure else None,
        "failure_message": trial.failure.message if trial.failure else None,
        "started_at": trial.started_at,
        "wall_s": trial.wall_s,
        **{name: getattr(trial, name) for name in _WORK},
        "limited_by": trial.limited_by.value if trial.limited_by else None,
        **trial.values,  # a sweep over whole workloads tells more than their kind
        **trial.metrics,
    }


def _run_directory(path: Path) -> RunDirectory:
    run = RunDirectory(path.parent if path.name in _FILES and not path.is_dir() else path)
    if not run.trials.is_file():
        what = "this run has no trials yet" if run.path.is_dir() else "there is no such run"
        raise InputError(
            what,
            where=str(path),
            cure="give a run directory, or the summary.json or trials.jsonl in it",
        )
    return run
