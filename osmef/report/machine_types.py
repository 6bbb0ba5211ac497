"""Machine types of runs and files: their measurements, prices and price-performance."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from osmef.analysis.describe import describe
from osmef.analysis.price import KEY, PRICE, PricePerformance, PriceTable, price_performance
from osmef.analysis.replication import (
    cell_names,
    describe_replicates,
    fill_platforms,
    has_runs,
    has_sessions,
    independent,
    is_loopback,
    place_columns,
    platform_columns,
)
from osmef.analysis.similarity import COMPONENTS, GIVEN, MACHINE, machine_name
from osmef.errors import InputError
from osmef.files import is_file
from osmef.prices.price_list import read_prices
from osmef.report.cells import chosen, nothing
from osmef.report.data import Data, read_machines, read_table
from osmef.results.frame import measures_of
from osmef.results.measure import Better, Component, Measure
from osmef.results.summary import EndpointInfo, HourlyPrice, RunInfo
from osmef.scenario.fields import Price
from osmef.scenario.names import nearest_or_all
from osmef.units import convert

UNKNOWN = "unknown"
"""The cloud of an imported run whose files do not say."""

Clouds = Mapping[tuple[str, str], str]


def kind_of(run: RunInfo, end: EndpointInfo) -> str:
    """Return the kind of the cloud in which an endpoint was, by which prices are listed."""
    return run.sites.get(end.requested.site or "") or run.provider or UNKNOWN


def cloud_of(run: RunInfo, end: EndpointInfo) -> str:
    """Return the name of the cloud in which an endpoint was: its kind.

    With the name of its site, where the run has several sites of that kind: two regions, or two
    clouds whose flavors have nothing to do with each other.
    """
    kind = kind_of(run, end)
    return f"{kind} {end.requested.site}" if [*run.sites.values()].count(kind) > 1 else kind


def clouds_of_trial(ends: str, run: str, of: Clouds, otherwise: object) -> str:
    """Return the clouds of the endpoints of a trial, each once, as in ``aws+gce``.

    ``ends`` are their names, with commas between; ``otherwise`` is that of the whole run, where
    none of them is known.
    """
    names = (of.get((run, name)) for name in ends.split(","))
    found = dict.fromkeys(name for name in names if name is not None)
    return "+".join(found) or str(otherwise or UNKNOWN)


SPREAD = ("n", "ci95_low", "ci95_high", "cov_percent")
"""How sure a result is, of ``osmef.analysis.describe``; in the result's unit and percent."""


def price_table(data: Data, file: Path | None) -> pd.DataFrame:
    """Return the prices of a file, or else those recorded by the runs, one row a flavor.

    The columns are those of ``osmef.analysis.price``. The file is a price list in YAML, or a CSV
    file with these columns. Of several recorded prices of a flavor in a region the latest counts.
    Raises InputError where the file is neither.
    """
    if file is not None:
        return _read(file)
    recorded = _table(
        [
            _row(kind_of(summary.run, end), end.flavor, end.price)
            for summary in data.summaries.values()
            for end in summary.endpoints
            if end.price is not None
        ]
    )
    latest = recorded.sort_values("date", kind="stable")
    return latest.drop_duplicates([*KEY, "region", "currency"], keep="last")


def _read(file: Path) -> pd.DataFrame:
    if file.suffix.lower() not in {".yaml", ".yml"}:
        optional = ("region", "date", "currency", "source")
        table = read_table(file, ("price_per_hour",), optional)
        try:
            PriceTable(table)  # which says what is wrong with it
        except InputError as error:
            raise InputError(error.message, where=str(file), cure=error.cure) from error
        for row, day in table["date"].dropna().items():
            _check_day(str(day), f"{file}:{int(str(row)) + 2}")
        return table
    if not is_file(file):
        raise InputError("there is no such price list", where=str(file), cure="check the path")
    return _table([_listed(price) for price in read_prices(file)])


def _check_day(day: str, where: str) -> None:
    try:
        date.fromisoformat(day)
    except ValueError as error:
        cure = "write it like 2026-03-01"
        raise InputError(f"date is no day: {day!r}", where=where, cure=cure) from error


def price_ranking(
    data: Data, metric: str | None, file: Path | None, flavor: str = "sender_flavors"
) -> tuple[Measure, PricePerformance]:
    """Return a measure, and the price-performance of each flavor by it.

    The result of a flavor is the median of the trials of one cell, or of its sessions, where there
    are any, or of its runs, if several; each platform, cell and achieved place has a row. The
    tables have the columns of ``price_performance``, ``cell``, ``SPREAD``, trials and how many of
    these failed. ``flavor`` is the column that names flavors apart. Without ``metric`` it is what
    leads. Raises InputError.
    """
    measure = chosen(data.trials, metric)
    if flavor not in data.trials:
        raise InputError(
            f"the trials have no column {flavor!r}",
            where="--flavor",
            cure=nearest_or_all(flavor, map(str, data.trials.columns)),
        )
    results = _results(data, measure.name, flavor)
    if results["flavor"].isna().all():
        raise nothing("flavors", "name the column that has them with --flavor")
    return measure, price_performance(results, price_table(data, file), measure)


def _results(data: Data, metric: str, flavor: str) -> pd.DataFrame:
    trials = fill_platforms(data.trials)
    trials = trials.assign(
        _provider=_cloud_names(data, trials, kind_of),
        _region=pd.Series(_regions(data), index=trials.index, dtype="object"),
    )
    sessions, rows = has_sessions(trials), []
    several = trials["scenario"].nunique() > 1  # whose cells may be called alike
    platforms = platform_columns(trials, columns=("platform",))
    columns = [*(["scenario"] if several else []), *platforms, *place_columns(trials)]
    trials = trials.assign(cell=cell_names(trials, columns))
    keys = ["_provider", flavor, "_region", "cell"]
    for key, group in trials.groupby(keys, sort=False, dropna=False):
        by_session = sessions or has_runs(group)
        reported = describe_replicates(group, metric, by_session=by_session).model_dump()
        known = dict(zip(("provider", "flavor", "region", "cell"), key, strict=True))
        counts = {"trials": len(group), "failed": int((group["status"] != "ok").sum())}
        spread = {one: reported[one] for one in SPREAD}
        rows.append({**known, metric: reported["median"], **spread, **counts})
    return pd.DataFrame(rows)


def with_cloud_names(data: Data, trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with the names of their clouds (``cloud_of``) as the column ``provider``."""
    names = _cloud_names(data, trials, cloud_of)
    return trials.assign(provider=names.where(names != UNKNOWN, None))


def _cloud_names(
    data: Data, trials: pd.DataFrame, name: Callable[[RunInfo, EndpointInfo], str]
) -> pd.Series:
    """Return the clouds in which the machines of each trial were, by ``name``."""
    names = {
        (run, end.name): name(summary.run, end)
        for run, summary in data.summaries.items()
        for end in summary.endpoints
    }
    whose = trials["senders"] + "," + trials["receivers"]
    runs = zip(whose, trials["run"], trials["provider"], strict=True)
    found = [clouds_of_trial(ends, run, names, of) for ends, run, of in runs]
    return pd.Series(found, index=trials.index, dtype="object")


def _regions(data: Data) -> list[str | None]:
    """Return the region of each trial's machines, None where it is unknown."""
    ends = _endpoints(data)
    found: list[str | None] = []
    for run, *names in _machines(data.trials):
        prices = [end.price for name in names if (end := ends.get((run, name)))]
        regions = {price.region for price in prices if price}
        found.append(next(iter(regions)) if len(regions) == 1 else None)
    return found


def _endpoints(data: Data) -> dict[tuple[str, str], EndpointInfo]:
    return {
        (run, end.name): end for run, summary in data.summaries.items() for end in summary.endpoints
    }


def _machines(trials: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return run and names of each trial's machines."""
    columns = zip(trials["run"], trials["senders"], trials["receivers"], strict=True)
    return [
        (str(run), *dict.fromkeys(f"{senders},{receivers}".split(",")))
        for run, senders, receivers in columns
    ]


def priced(data: Data, file: Path | None) -> pd.DataFrame:
    """Return the trials with the hourly price of all their machines, and its currency.

    It is what the runs recorded, or that of a file as for ``price_table``: NaN where the flavor of
    a machine, or its price, or which one of several holds, is not known. Raises InputError.
    """
    if file is None:
        return data.trials
    table, ends = PriceTable(_read(file)), _endpoints(data)
    runs = {run: summary.run for run, summary in data.summaries.items()}
    known: dict[tuple[str, ...], tuple[float, str | None]] = {}
    machines = _machines(data.trials)
    for key in dict.fromkeys(machines):
        run, *names = key
        known[key] = _sum([_find(table, runs.get(run), ends.get((run, one))) for one in names])
    return data.trials.assign(
        price_per_hour=[known[key][0] for key in machines],
        currency=pd.Series([known[key][1] for key in machines], data.trials.index, "object"),
    )


def _find(
    table: PriceTable, run: RunInfo | None, end: EndpointInfo | None
) -> tuple[float, str] | None:
    if run is None or end is None or end.flavor is None:
        return None
    try:
        row = table.find(kind_of(run, end), end.flavor, end.price.region if end.price else None)
    except InputError:  # in which region it stood is not known
        return None
    return (float(row["price_per_hour"]), str(row["currency"])) if row else None


def _sum(prices: list[tuple[float, str] | None]) -> tuple[float, str | None]:
    found = [price for price in prices if price is not None]
    currencies = {currency for _amount, currency in found}
    if len(found) < len(prices) or len(currencies) != 1:
        return math.nan, None
    return math.fsum(amount for amount, _currency in found), currencies.pop()


def _listed(price: Price) -> dict[str, object]:
    known = HourlyPrice(
        amount=price.money.amount,
        currency=price.money.currency,
        region=price.region,
        date=price.date,
        source=price.source,
    )
    return _row(price.provider, price.flavor, known)


def _row(provider: str, flavor: str | None, price: HourlyPrice) -> dict[str, object]:
    return {
        "provider": provider,
        "flavor": flavor,
        "price_per_hour": price.amount,
        "currency": price.currency,
        "region": price.region,
        "date": str(price.date),
        "source": price.source,
    }


def _table(rows: list[dict[str, object]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=pd.Index([*KEY, *PRICE]))


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
    measured it. Of runs a component is left out that not all machine types have, with a median
    above 0; ``attrs["left"]`` says of whom it is missing. Raises InputError for a file that is
    none, and where a component of the machine types was measured by different programs, whose
    numbers mean different things; NothingToDrawError where runs know no two machine
    types, or nothing of both.
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
        reported = describe(group["value"].astype(float))
        given = group["component"].iloc[0] in GIVEN
        spread = (None, None) if given else (reported.ci95_low, reported.ci95_high)
        rows.append((*keys, 1 if given else reported.n, reported.median, *spread))
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
    for component in COMPONENTS if names else ():
        rows = table[table["component"].eq(component) & table["value"].notna()]
        medians = rows.groupby([*MACHINE, "by"], sort=False)["value"].transform("median")
        rows = rows[medians > 0]  # the others have no ratio
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
        reported = [
            f"{machine_name(name)} by {' and '.join(sorted(by))}" for name, by in programs.items()
        ]
        raise InputError(
            f"{component.value} was measured by different programs, or with different settings:\n"
            + "\n".join(f"  {one}" for one in reported),
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
    # Without a summary, as after a kill, the settings of a cell are not known.
    trials = data.trials[data.trials["run"].isin(list(data.summaries))]
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
    return pd.Series(
        [clouds_of_trial(*row[:2], of, row[2]) for row in columns], trials.index, "object"
    )


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
