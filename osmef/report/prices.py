"""Prices of flavors, recorded by runs or told by a file, and what flavors give for them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from osmef.analysis.price import KEY, PRICE, PricePerformance, price_performance
from osmef.errors import InputError
from osmef.prices.book import read_prices
from osmef.report.cells import nothing
from osmef.report.data import Data, read_table
from osmef.report.metric import chosen
from osmef.results.summary import HourlyPrice
from osmef.scenario.money import Price


def price_table(data: Data, file: Path | None) -> pd.DataFrame:
    """Return the prices of a file, or else those that the runs recorded, one row a flavor.

    The columns are those of ``osmef.analysis.price``. The file is a price list in YAML, or a CSV
    file with these columns. Raises InputError where it is neither.
    """
    if file is None:
        recorded = _table(
            [
                _row(summary.run.provider, end.flavor, end.price)
                for summary in data.summaries.values()
                for end in summary.endpoints
                if end.price is not None
            ]
        )
        return recorded.drop_duplicates([*KEY, "price_per_hour", "currency"], keep="last")
    if file.suffix.lower() not in {".yaml", ".yml"}:
        return read_table(file)
    if not file.is_file():
        raise InputError("there is no such price list", where=str(file), cure="check the path")
    return _table([_listed(price) for price in read_prices(file)])


def price_ranking(
    data: Data, metric: str | None, file: Path | None, flavor: str = "sender_flavors"
) -> tuple[str, PricePerformance]:
    """Return a metric's name, and what each flavor gives of it for the price of an hour.

    The result of a flavor is the median of its trials; ``flavor`` is the column that tells flavors
    apart. Without ``metric`` it is the first one of ``PREFERRED``. Raises InputError.
    """
    name = chosen(data.trials, metric)
    if flavor not in data.trials:
        raise InputError(
            f"the trials have no column {flavor!r}",
            where="--flavor",
            cure="give the column of the flavors, or of what is as good as one",
        )
    known = pd.DataFrame(
        {
            "provider": data.trials["provider"].fillna("unknown"),
            "flavor": data.trials[flavor],
            name: data.trials[name],
        }
    )
    results = known.groupby(list(KEY), sort=False)[name].median().reset_index()
    if results.empty:
        raise nothing("flavors", "say with --flavor which column tells them apart")
    return name, price_performance(results, price_table(data, file), name)


def _listed(price: Price) -> dict[str, object]:
    known = HourlyPrice(
        amount=price.money.amount,
        currency=price.money.currency,
        region=price.region,
        date=price.date,
        source=price.source,
    )
    return _row(price.provider, price.flavor, known)


def _row(provider: str | None, flavor: str | None, price: HourlyPrice) -> dict[str, object]:
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
