"""Runs as pandas DataFrames, for analysis: one row a trial."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import islice
from math import nan
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from osmef.results.brief import BriefSummary, BriefTrial, brief_summary, brief_trials
from osmef.results.find import find_runs

_AT_ONCE = 4096
_RUN = ("run", "scenario", "provider")
_PLACE = (
    "cell",
    "index",
    "repetition",
    "group",
    "session",
    "senders",
    "receivers",
    "sender_flavors",
    "receiver_flavors",
    "placement",
    "tenancy",
    "achieved_placement",
    "achieved_tenancy",
    "distance",
    "connections",
)
_COURSE = ("status", "failure_kind", "failure_message", "started_at", "wall_s")
_WORK = ("workload", "background", "limited_by", "start_spread_s")
_FIXED = (*_RUN, *_PLACE, *_COURSE, *_WORK)
_WHOLE = ("index", "repetition", "group", "distance", "connections")
_NUMBERS = ("wall_s", "start_spread_s")


def load(*paths: str | PathLike[str]) -> pd.DataFrame:
    """Return the trials of runs, one row each; within a run in the order in which they ended.

    Each path is a run directory, or the summary.json or trials.jsonl in it, a directory that holds
    runs, or a pattern such as ``results/vm-*``. Columns: run, scenario, provider, cell, index,
    repetition, group, session, senders, receivers, sender_flavors, receiver_flavors, placement,
    tenancy (both as requested), achieved_placement, achieved_tenancy, distance (as achieved),
    connections, each swept value of any of the runs under its key, status, failure_kind,
    failure_message, started_at, wall_s, workload, background, limited_by, start_spread_s, and each
    metric with its unit in the name. The endpoints of a group, and their flavors, stand in one
    text, with commas. What is not known is missing (NaN, <NA> or None), and never 0. Raises
    InputError when a path leads to no run, or a newer OSMeF wrote it.
    """
    columns = _Columns()
    for run in find_runs(*paths):
        summary = brief_summary(run)
        trials = brief_trials(run)
        while some := list(islice(trials, _AT_ONCE)):
            columns.add(some, run.id, summary)
    return columns.frame()


class _Columns:
    """Grows column by column: rows of a million trials would not fit."""

    def __init__(self) -> None:
        self._count = 0
        self._fixed: dict[str, list[Any]] = {name: [] for name in _FIXED}
        self._swept: dict[str, list[Any]] = {}
        self._metrics: dict[str, array[float]] = {}

    def add(self, trials: Sequence[BriefTrial], run: str, summary: BriefSummary) -> None:
        """Add trials of a run."""
        names = {"run": run, "scenario": summary.scenario, "provider": summary.provider}
        rows = [_row(trial, summary) for trial in trials]
        for name, column in self._fixed.items():
            same = names.get(name)
            column.extend([same] * len(rows) if name in names else [row.get(name) for row in rows])
        self._add_swept([trial["values"] for trial in trials])
        self._add_metrics([trial.get("metrics") or {} for trial in trials])
        self._count += len(rows)

    def _add_swept(self, values: list[dict[str, Any]]) -> None:
        for name in dict.fromkeys(key for one in values for key in one if key not in self._fixed):
            self._swept.setdefault(name, [None] * self._count)
        for name, column in self._swept.items():
            column.extend([one.get(name) for one in values])

    def _add_metrics(self, metrics: list[dict[str, float | None]]) -> None:
        for name in dict.fromkeys(key for one in metrics for key in one):
            if name not in self._metrics:
                self._metrics[name] = array("d", [nan]) * self._count
        for name, column in self._metrics.items():
            found = (one.get(name) for one in metrics)
            column.extend(nan if value is None else value for value in found)

    def frame(self) -> pd.DataFrame:
        """Return all of it."""
        fixed = {name: _typed(name, column) for name, column in self._fixed.items()}
        metrics = {name: np.frombuffer(column) for name, column in self._metrics.items()}
        order = (*_RUN, *_PLACE, *self._swept, *_COURSE, *_WORK, *metrics)
        return pd.DataFrame({**fixed, **self._swept, **metrics})[list(dict.fromkeys(order))]


def _typed(name: str, column: list[Any]) -> Any:  # whatever a frame takes for a column
    if name in _WHOLE:
        return pd.array(column, dtype="Int64")
    if name in _NUMBERS:
        return np.array(column, dtype="float64")
    if name == "started_at":
        return pd.to_datetime(pd.Series(column, dtype="object"), utc=True, format="ISO8601")
    return pd.Series(column, dtype="object")


def _row(trial: BriefTrial, summary: BriefSummary) -> dict[str, Any]:
    failure = trial.get("failure")
    return {
        **trial,
        "senders": ",".join(trial["senders"]),
        "receivers": ",".join(trial["receivers"]),
        "sender_flavors": _flavors(trial["senders"], summary),
        "receiver_flavors": _flavors(trial["receivers"], summary),
        "failure_kind": failure["kind"] if failure else None,
        "failure_message": failure["message"] if failure else None,
        **trial["values"],  # a sweep over whole workloads tells more than their kind
    }


def _flavors(names: Iterable[str], summary: BriefSummary) -> str | None:
    """Return the flavors of endpoints, each once; None where none has any that is known."""
    found = dict.fromkeys(summary.flavors.get(name) for name in names)
    return ",".join(flavor for flavor in found if flavor) or None
