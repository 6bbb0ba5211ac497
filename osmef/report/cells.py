"""Cells of a frame of trials for figures: places, names and points."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from osmef.analysis.replication import (
    PLACE,
    describe_replicates,
    fill_platforms,
    has_sessions,
    independent,
    platform_columns,
    platform_names,
)
from osmef.errors import InputError, NothingToDrawError
from osmef.report.options import Look
from osmef.report.summary import (
    PLACEMENTS,
    TENANCIES,
    Point,
    ShownPlacement,
    Variant,
    has_axis,
    point,
    short_names,
    written,
)
from osmef.results.frame import measures_of, swept_of
from osmef.results.measure import PREFIXED, Measure, shown_unit
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.names import nearest_or_all
from osmef.units import rate_unit

_MOST_NAMED = 3  # scenarios whose runs a figure draws
_ALWAYS = ("placement", "tenancy", "connections", "workload")
_WORKLOAD = "swept.workload"  # which shows its kind, too


@dataclass(frozen=True)
class ShownCell:
    """A cell of a run or a platform: its trials, and its distinguishing values.

    A platform is that of several runs that are its sessions, of which ``run`` is the first.
    ``source`` names the run or the platform among several, and is empty for one.
    """

    run: str
    key: str
    source: str
    label: str
    variant: Variant
    placement: ShownPlacement
    connections: int | None
    trials: pd.DataFrame

    def point(self, x: float, metric: str) -> Point:
        """Return a metric of its trials as a point at ``x``."""
        found = point(x, describe_replicates(self.trials, metric))
        return replace(found, values=tuple(self.values(metric)))

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Its runs with its key in each, as the other frames name it."""
        return [(str(run), self.key) for run in dict.fromkeys(self.trials["run"])]

    def values(self, metric: str) -> list[float]:
        """Return a metric of its trials, or the medians of its sessions (``independent``)."""
        return independent(self.trials, metric)


def cells_of(trials: pd.DataFrame, look: Look, *, by_run: bool = False) -> list[ShownCell]:
    """Return the cells of the trials of ``osmef.load``, in the order in which they occur.

    Runs that are sessions of one platform have their cells together, or, ``by_run``, each its own.
    Raises InputError where ``look`` calls two cells alike.
    """
    placed_each = has_sessions(trials) and not by_run  # a cloud may place each session otherwise
    trials = fill_platforms(trials) if placed_each else trials
    owners, sources = _owners(trials, by_run=by_run)
    where = [name for name in PLACE if placed_each and name in trials]
    keys = [np.array(owners, dtype="object"), "cell", *where]
    groups = dict(list(trials.groupby(keys, sort=False, dropna=False)))
    firsts = {key: rows.iloc[0] for key, rows in groups.items()}
    swept = _swept(trials)
    own = {name.rpartition(".")[2] for name in swept if has_axis(name) or name == _WORKLOAD}
    swept += [name for name in _ALWAYS if name in trials and name not in own]
    reported = {key: _values_of(row, swept) for key, row in firsts.items()}
    varying = [name for name in swept if len({one.get(name) for one in reported.values()}) > 1]
    names = short_names(varying)
    found = []
    for key, rows in groups.items():
        values, first = reported[key], firsts[key]
        source = look.named(sources[str(key[0])])
        parts = [_part(names[name], values[name], look) for name in varying if name in values]
        placement = _placement(first)
        parts += [f"asked for: {placement.asked}"] if placement.asked else []
        label = ", ".join(filter(None, [source, *parts])) or str(first.get("scenario") or key[1])
        found.append(
            ShownCell(
                run=str(first["run"]),
                key=str(key[1]),
                source=source,
                label=look.named(label),
                variant=tuple((name, values[name]) for name in varying
                              if name in values and not has_axis(name)),
                placement=placement,
                connections=_known(first.get("connections")),
                trials=rows,
            )
        )  # fmt: skip
    found = _disambiguated(found, look)
    look.check(cell.label for cell in found)
    return found


def _disambiguated(cells: Sequence[ShownCell], look: Look) -> list[ShownCell]:
    """Return the cells with placement and tenancy added to ambiguous labels."""
    alike: dict[str, set[str]] = defaultdict(set)
    words = [
        ", ".join(filter(None, (one.placement.placement, one.placement.tenancy))) for one in cells
    ]
    for cell, where in zip(cells, words, strict=True):
        alike[cell.label].add(where)
    return [
        replace(cell, label=look.named(f"{cell.label}, {where}"))
        if len(alike[cell.label]) > 1 else cell
        for cell, where in zip(cells, words, strict=True)
    ]  # fmt: skip


def source_of(trials: pd.DataFrame) -> str:
    """Return the source line of a figure: its run, or how many there are and of what scenarios."""
    runs = list(dict.fromkeys(trials["run"]))
    if len(runs) == 1:
        return str(runs[0])
    names = list(dict.fromkeys(map(str, trials["scenario"])))
    of = ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} scenarios"
    return f"{len(runs)} runs of {of}"


def nothing(what: str, cure: str) -> NothingToDrawError:
    """Return the error for runs without data for a figure."""
    return NothingToDrawError(f"these runs have no {what}", cure=cure)


def _owners(trials: pd.DataFrame, *, by_run: bool) -> tuple[list[str], dict[str, str]]:
    """Return the owner of each trial, by run name, and a distinguishing name.

    A run is its own, or belongs to the first of the runs that are sessions of its platform.
    """
    runs = [str(run) for run in trials["run"]]
    sessions = trials["session"].notna().tolist() if "session" in trials else [False] * len(runs)
    if by_run or not any(sessions):
        return runs, _sources(trials, dict(zip(runs, runs, strict=True)))
    names = platform_names(trials, platform_columns(trials[sessions]))
    first: dict[tuple[str, str], str] = {}
    owners: list[str] = []
    called: dict[str, str] = {}
    for run, scenario, name, of_session in zip(
        runs, trials["scenario"], names, sessions, strict=True
    ):
        owner = first.setdefault((str(scenario), name), run) if of_session else run
        owners.append(owner)
        called.setdefault(owner, (name or str(scenario)) if of_session else run)
    return owners, _sources(trials, called)


def _sources(trials: pd.DataFrame, called: Mapping[str, str]) -> dict[str, str]:
    """Return the scenario of each owner, or its name where scenarios repeat."""
    every = dict(zip(trials["run"], trials["scenario"], strict=True))
    if len(called) == 1:
        return dict.fromkeys(called, "")
    scenarios = {owner: str(every[owner]) for owner in called}
    many = len(set(scenarios.values())) < len(scenarios)
    return {owner: called[owner] if many else scenarios[owner] for owner in called}


def _swept(trials: pd.DataFrame) -> list[str]:
    """Return the swept keys of a frame of ``osmef.load``, without those of all frames."""
    return [name for name in swept_of(trials) if name not in _ALWAYS]


def _values_of(row: Mapping[Hashable, Any] | pd.Series, names: Sequence[str]) -> dict[str, Any]:
    """Return the known values of a cell, with placement and tenancy as achieved."""
    reported = {name: value for name in names if (value := _known(row.get(name))) is not None}
    for name in ("placement", "tenancy"):
        achieved = _known(row.get(f"achieved_{name}"))
        if name in reported and achieved is not None:
            reported[name] = achieved
    return reported


def _part(name: str, value: Any, look: Look) -> str:
    text = written(value)
    if look.named(text) != text:
        return look.named(text)
    if name in {"placement", "tenancy"}:
        return _PLURALS.get(text) or text.replace("-", " ")
    return text if name == "workload" else f"{name} {text}"


_PLURALS = {
    str(Placement.DIFFERENT_HOST): PLACEMENTS[Placement.DIFFERENT_HOST],
    str(Tenancy.DIFFERENT_TENANT): TENANCIES[Tenancy.DIFFERENT_TENANT],
}


def _known(value: Any) -> Any:
    """Return a value of a frame, None where it is missing."""
    if value is None or value is pd.NA or value != value:  # noqa: PLR0124 - NaN is not itself
        return None
    return value.item() if hasattr(value, "item") else value


def _placement(row: Any) -> ShownPlacement:
    distance = _known(row.get("distance"))
    senders = _known(row.get("senders"))
    if senders == _known(row.get("receivers")) is not None and "," not in senders:
        return ShownPlacement(distance, "loopback", None)
    asked, found = _known(row.get("placement")), _known(row.get("achieved_placement"))
    wanted, achieved = _known(row.get("tenancy")), _known(row.get("achieved_tenancy"))
    reported = [
        *([PLACEMENTS[Placement(asked)]] if asked not in (None, found) else []),
        *([TENANCIES[Tenancy(wanted)]] if wanted not in (None, achieved) else []),
    ]
    return ShownPlacement(
        distance,
        PLACEMENTS[Placement(found) if found else None],
        TENANCIES[Tenancy(achieved)] if achieved else None,
        ", ".join(reported) or None,
    )


_FEW = 3  # of the measures of runs in which none leads


@dataclass(frozen=True)
class Unit:
    """Display of a measure: the divisor of its values, and the label of its axis."""

    divisor: float
    label: str


def measured(trials: pd.DataFrame) -> list[Measure]:
    """Return the measures of the trials of ``osmef.load``, the main ones first."""
    return [one for name, one in measures_of(trials).items() if trials[name].notna().any()]


def leading(trials: pd.DataFrame) -> list[Measure]:
    """Return the leading measures; without any, the first few."""
    known = measured(trials)
    return [one for one in known if one.leading] or known[:_FEW]


def leading_of_each(trials: pd.DataFrame) -> list[Measure]:
    """Return the first leading measure of each workload, each measure once.

    Raises InputError where no trial has any.
    """
    kinds = trials.groupby("workload", sort=False) if "workload" in trials else [("", trials)]
    found = [chosen(rows, None) for _kind, rows in kinds if measured(rows)]
    return list(dict.fromkeys(found)) or [chosen(trials, None)]


def chosen(trials: pd.DataFrame, metric: str | None) -> Measure:
    """Return the measure of a name, or by default the leading one.

    Raises InputError where no trial has it.
    """
    known = {one.name: one for one in measured(trials)}
    if not known:
        raise nothing("metric", "give runs with trials that went well")
    if metric is not None and metric not in known:
        raise InputError(
            f"no trial has a metric {metric!r}",
            where="--metric",
            cure=nearest_or_all(metric, known),
        )
    return known[metric] if metric else leading(trials)[0]


def unit(measure: Measure, top: float) -> Unit:
    """Return the display of a measure for values up to ``top``."""
    if measure.unit in PREFIXED:
        divisor, name = rate_unit(top, measure.unit)
        return Unit(divisor, f"{measure.words} in {name}")
    if measure.unit == "1/s":
        return Unit(1.0, f"{measure.words} per second")
    name = shown_unit(measure.unit)
    return Unit(1.0, f"{measure.words} in {name}" if name else measure.words)
