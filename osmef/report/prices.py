"""Prices of flavors, recorded by runs or listed in a file, and price-performance."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from osmef.analysis.describe import describe
from osmef.analysis.price import KEY, PRICE, PricePerformance, PriceTable, price_performance
from osmef.analysis.replicates import (
    cell_names,
    has_runs,
    has_sessions,
    independent,
    place_columns,
    platform_columns,
    settled,
)
from osmef.errors import InputError
from osmef.prices.price_list import read_prices
from osmef.report.cells import chosen, nothing
from osmef.report.clouds import kind_of, together
from osmef.report.data import Data, read_table
from osmef.results.measure import Measure
from osmef.results.summary import EndpointInfo, HourlyPrice, RunInfo
from osmef.scenario.fields import Price
from osmef.scenario.names import nearest_or_all

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
        table = read_table(file, numbers=("price_per_hour",))
        PriceTable(table)  # which says what is wrong with it
        return table
    if not file.is_file():
        raise InputError("there is no such price list", where=str(file), cure="check the path")
    return _table([_listed(price) for price in read_prices(file)])


def price_ranking(
    data: Data, metric: str | None, file: Path | None, flavor: str = "sender_flavors"
) -> tuple[Measure, PricePerformance]:
    """Return a measure, and the price-performance of each flavor by it.

    The result of a flavor is the median of the trials of one cell, or of its sessions, where there
    are any, or of its runs, if several; each platform, cell and achieved place has a row. The
    tables have the columns of ``price_performance``, ``cell``, ``SPREAD``, trials and how many of
    these failed. ``flavor`` is
    the column that tells flavors apart. Without ``metric`` it is what leads. Raises InputError.
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
    trials = settled(data.trials)
    trials = trials.assign(
        _provider=pd.Series(_kinds(data, trials), index=trials.index, dtype="object"),
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
        told = describe(independent(group, metric, by_session=by_session)).model_dump()
        known = dict(zip(("provider", "flavor", "region", "cell"), key, strict=True))
        counts = {"trials": len(group), "failed": int((group["status"] != "ok").sum())}
        spread = {one: told[one] for one in SPREAD}
        rows.append({**known, metric: told["median"], **spread, **counts})
    return pd.DataFrame(rows)


def _kinds(data: Data, trials: pd.DataFrame) -> list[str]:
    """Return the kind of the cloud in which the machines of each trial were."""
    kinds = {
        (run, end.name): kind_of(summary.run, end)
        for run, summary in data.summaries.items()
        for end in summary.endpoints
    }
    whose = trials["senders"] + "," + trials["receivers"]
    runs = zip(whose, trials["run"], trials["provider"], strict=True)
    return [together(names, run, kinds, of) for names, run, of in runs]


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
