"""Measurements of machine types, from a CSV file or from runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from osmef.analysis.describe import describe
from osmef.analysis.price import PriceTable
from osmef.analysis.replication import has_runs, has_sessions, independent, is_loopback
from osmef.analysis.similarity import COMPONENTS, GIVEN, MACHINE, machine_name
from osmef.errors import InputError
from osmef.report.cells import nothing
from osmef.report.clouds import cloud_of, kind_of, together
from osmef.report.data import Data, read_machines
from osmef.results.frame import measures_of
from osmef.results.measure import Better, Component, Measure
from osmef.results.summary import EndpointInfo
from osmef.units import convert

_COLUMNS = pd.Index([*MACHINE, "component", "value", "by"])
_Row = tuple[str, str, Component, float, str]
_GIVEN = "what the cloud and the system say"
_LASTING = ("duration", "deadline", "most_output", "ways")
_UNITS = {
    Component.CPU: "s",
    Component.MEMORY: "MB",
    Component.MEMORY_RATE: "MB/s",
    Component.DISK_READ: "MB/s",
    Component.DISK_WRITE: "MB/s",
    Component.NETWORK: "MB/s",
}


def table_among(paths: Sequence[Path]) -> Path | None:
    """Return the CSV file of measurements if paths name one; None for runs.

    Raises InputError for one among others.
    """
    tables = [path for path in paths if path.suffix.lower() == ".csv"]
    if tables and len(paths) > 1:
        message = "a table of measurements can't be combined with runs"
        cure = "give one CSV file with all machine types, or runs of them"
        raise InputError(message, where=str(tables[0]), cure=cure)
    return tables[0] if tables else None


def measured_machines(data: Data, file: Path | None = None) -> pd.DataFrame:
    """Return comparable measurements of machine types, of a CSV file or of runs.

    One row a measurement: provider, flavor, component, value in the component's unit, and by, what
    measured it. Of runs a component is left out that not all machine types have; ``attrs["left"]``
    says of whom it is missing. Raises InputError for a file that is none, and where a component
    of the machine types was measured by different programs, whose numbers mean different things;
    NothingToDrawError where runs know no two machine types, or nothing of both.
    """
    if file is not None:
        return _long(read_machines(file), str(file))
    return _comparable(machines_of(data))


def vector_table(measured: pd.DataFrame) -> pd.DataFrame:
    """Return the vectors of machine types with statistics of each component.

    ``measured`` is that of ``machines_of``. One row a machine type, component and program:
    provider, flavor, component, by, n, median, ci95_low and ci95_high in the component's unit.
    Unknown properties of a machine type are left out.
    """
    known = measured[measured["value"].notna()]
    rows = []
    for keys, group in known.groupby([*MACHINE, "component", "by"], sort=False):
        told = describe(group["value"].astype(float))
        given = group["component"].iloc[0] in GIVEN
        spread = (None, None) if given else (told.ci95_low, told.ci95_high)
        rows.append((*keys, 1 if given else told.n, told.median, *spread))
    columns = [*MACHINE, "component", "by", "n", "median", "ci95_low", "ci95_high"]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def _long(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return a wide table of components in long form, a row each measurement.

    What a machine type has none of stays, unknown, so that it is named.
    """
    here = [name for name in COMPONENTS if name in table]
    long = table.melt(MACHINE, here, "component", "value")
    medians = long.groupby([*MACHINE, "component"], sort=False)["value"].transform("count")
    return long[long["value"].notna() | medians.eq(0)].assign(by=by)


def _comparable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of components that all machine types have, by one program each."""
    names = list(dict.fromkeys(zip(table["provider"], table["flavor"], strict=True)))
    kept, left = [], {}
    for component in COMPONENTS:
        rows = table[table["component"].eq(component) & table["value"].gt(0)]
        programs = {name: set[str]() for name in names}
        for provider, flavor, by in zip(rows["provider"], rows["flavor"], rows["by"], strict=True):
            programs[provider, flavor].add(by)
        missing = [machine_name(name) for name in names if not programs[name]]
        if missing:
            if len(missing) < len(names):
                left[component.value] = missing
            continue
        kept.append(rows[rows["by"] == _common(component, programs, list(rows["by"]))])
    if len(names) < 2 or not kept:
        cure = "give runs of two flavors, or a CSV file of measurements"
        raise nothing("two machine types with a component in common", cure)
    found = pd.concat(kept, ignore_index=True)
    found.attrs["left"] = left
    return found


def _common(
    component: Component, programs: Mapping[tuple[str, str], set[str]], order: list[str]
) -> str:
    """Return the first program that measured a component of all machine types."""
    common = set.intersection(*programs.values())
    if not common:
        told = [
            f"{machine_name(name)} by {' and '.join(sorted(by))}" for name, by in programs.items()
        ]
        raise InputError(
            f"{component.value} was measured by different programs, or with different settings:\n"
            + "\n".join(f"  {one}" for one in told),
            cure="measure all machine types with the same: their numbers mean different things",
        )
    return next(by for by in order if by in common)


def machines_of(data: Data) -> pd.DataFrame:
    """Return the measurements of machine types in runs, as ``measured_machines``.

    A machine type is a flavor of a cloud, and each site of a run is a cloud. The threads and the
    memory are the endpoints' CPUs and, by their facts, their memory. The others are the metrics
    whose measure names a component, between machines of one type (those of the network never of one
    with itself) without a background: the trials, or the sessions where there are any, of that cell
    whose median is best.
    """
    rows = [*_given(data), *_measured(data, _settings(data))]
    return pd.DataFrame(rows, columns=_COLUMNS)


def machine_prices(data: Data, prices: pd.DataFrame) -> pd.DataFrame:
    """Return the prices of machine types by the names that they have in ``machines_of``.

    ``prices`` are those of ``osmef.analysis.price``, by kinds of clouds. Of each machine type
    counts the price in the region in which it was. Raises InputError as ``PriceTable``.
    """
    known, rows = PriceTable(prices), []
    for summary in data.summaries.values():
        for end in summary.endpoints:
            if end.flavor:
                region = end.price.region if end.price else end.achieved.region
                found = known.find(kind_of(summary.run, end), end.flavor, region)
                if found is not None:
                    rows.append({**found, "provider": cloud_of(summary.run, end)})
    return pd.DataFrame(rows, columns=prices.columns).drop_duplicates()


def _settings(data: Data) -> dict[tuple[str, str], str]:
    """Return the settings in which each cell deviates from the others of its workload.

    What a run sweeps does not count, for the best of it is taken; neither does how long it lasts.
    """
    fixed: dict[str, dict[tuple[str, str], dict[str, Any]]] = defaultdict(dict)
    for run, summary in data.summaries.items():
        for workload in {cell.workload for cell in summary.cells}:
            cells = {c.key: c.settings for c in summary.cells if c.workload == workload}
            left = {*_LASTING, *_differing(cells.values())}
            for key, settings in cells.items():
                fixed[workload][run, key] = {k: v for k, v in settings.items() if k not in left}
    return {
        cell: ", ".join(f"{key} {settings.get(key, 'by default')}" for key in names)
        for of in fixed.values()
        for names in (_differing(of.values()),)
        for cell, settings in of.items()
    }


def _differing(every: Collection[Mapping[str, Any]]) -> list[str]:
    """Return the keys with several values."""
    keys = sorted({key for one in every for key in one})
    first: Mapping[str, Any] = next(iter(every), {})
    return [key for key in keys if any(one.get(key) != first.get(key) for one in every)]


def _given(data: Data) -> Iterator[_Row]:
    for summary in data.summaries.values():
        for end in summary.endpoints:
            if end.flavor:
                of = (cloud_of(summary.run, end), end.flavor)
                vcpus = math.nan if end.vcpus is None else float(end.vcpus)
                yield (*of, Component.THREADS, vcpus, _GIVEN)
                yield (*of, Component.MEMORY, _memory_mb(end), _GIVEN)


def _memory_mb(end: EndpointInfo) -> float:
    memory = (end.facts.get("before") or {}).get("memory") or {}
    return float(memory.get("total_bytes") or math.nan) / 1e6


def _measured(data: Data, settings: Mapping[tuple[str, str], str]) -> Iterator[_Row]:
    trials = data.trials
    measures = [one for one in measures_of(trials).values() if one.component is not None]
    alike = trials["sender_flavors"].eq(trials["receiver_flavors"]) & trials["background"].isna()
    one = ~trials["sender_flavors"].str.contains(",", na=True)
    senders, receivers = (_clouds(data, trials, side) for side in ("senders", "receivers"))
    own = trials[alike & one & senders.eq(receivers)]
    sessions = has_sessions(own)
    set_ = pd.Series(
        [settings.get(cell, "") for cell in zip(own["run"], own["cell"], strict=True)],
        index=own.index,
        dtype="object",
    )
    keys = [senders[own.index], own["sender_flavors"], own["workload"], set_]
    between = own[~is_loopback(own)]
    for measure in measures:
        rows = between if measure.component is Component.NETWORK else own
        for (provider, flavor, workload, how), group in rows.groupby(keys, sort=False):
            by = f"{measure.name} of {workload}" + (f" ({how})" if how else "")
            for value in _best(group, measure, by_session=sessions):
                if measure.component is not None:
                    amount = _in_unit(value, measure)
                    yield (str(provider), str(flavor), measure.component, amount, by)


def _clouds(data: Data, trials: pd.DataFrame, side: str) -> pd.Series[str]:
    """Return the name of the cloud of each trial's endpoints, of those of one side."""
    of = {
        (run, end.name): cloud_of(summary.run, end)
        for run, summary in data.summaries.items()
        for end in summary.endpoints
    }
    columns = zip(trials[side], trials["run"], trials["provider"], strict=True)
    return pd.Series([together(*row[:2], of, row[2]) for row in columns], trials.index, "object")


def _in_unit(value: float, measure: Measure) -> float:
    """Convert a number to the component's unit; a rate of events to the time of one."""
    unit = _UNITS.get(measure.component) if measure.component else None
    if unit is None or measure.unit is None:
        return value
    if unit == "s" and measure.unit == "1/s":
        return 1 / value if value > 0 else math.nan
    return convert(value, measure.unit, unit)


def _best(group: pd.DataFrame, measure: Measure, *, by_session: bool) -> Sequence[float]:
    """Return the replicates of the cell with the best median."""
    results = [
        independent(cell, measure.name, by_session=by_session or has_runs(cell))
        for _, cell in group.groupby(["scenario", "cell"], sort=False)
    ]
    known = [values for values in results if values]
    if not known:
        return []
    sign = -1 if measure.better is Better.LOWER else 1
    return max(known, key=lambda values: sign * median(values))
