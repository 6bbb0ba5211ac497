"""Price-performance: results over hourly prices, with unknown prices apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from osmef.errors import InputError
from osmef.results.measure import Better, Measure

if TYPE_CHECKING:  # slow to load, and each run needs price-performance
    import pandas as pd


def per_price(measure: Measure, value: float | None, hourly: Sequence[float]) -> float | None:
    """Return a result over the hourly price of the VM that gave it: price-performance.

    ``hourly`` are the prices of all VMs that took part, in one currency; with several prices it is
    their mean, so that a pair of equal VMs has the price of one of them, as in Deval's work. The
    unit is that of the value for a unit of the currency an hour. None unless it is a rate of which
    higher is better and all prices are known.

    Assumed is that all VMs were needed for the result alike.

    Source: Deval, 2017, section 5.2.
    """
    good = measure.better is Better.HIGHER and measure.is_rate
    if not good or value is None or not hourly:
        return None
    return value / (sum(hourly) / len(hourly))


KEY = ("provider", "flavor")
PRICE = ("price_per_hour", "currency", "region", "date", "source")
"""What is known of a price, in this order in a table of prices, after ``KEY``."""


@dataclass(frozen=True)
class PricePerformance:
    """``ranking``: the best first. ``unpriced``: results without a price, which have no rank."""

    ranking: pd.DataFrame
    unpriced: pd.DataFrame


class PriceTable:
    """The known prices of a table with the columns of ``KEY`` and ``PRICE``.

    Raises InputError where a column is not there, a price is not above 0 or has no currency, or a
    flavor has two of them in one region.
    """

    def __init__(self, prices: pd.DataFrame) -> None:
        missing = [name for name in (*KEY, *PRICE) if name not in prices]
        if missing:
            raise InputError(
                f"the table of prices has no column {', '.join(missing)}",
                cure=f"give it the columns {', '.join((*KEY, *PRICE))}",
            )
        known = prices.loc[prices["price_per_hour"].notna(), [*KEY, *PRICE]]
        rows = known.astype(object).where(known.notna(), None).to_dict("records")
        self._known: dict[tuple[Any, Any], dict[Any, dict[Any, Any]]] = defaultdict(dict)
        problems = []
        for row in rows:
            name = f"{row['provider']} {row['flavor']}"
            if not row["price_per_hour"] > 0:
                problems.append(f"{name}: a price of {row['price_per_hour']:g}")
            if not str(row["currency"] or "").strip():
                problems.append(f"{name}: a price without a currency")
            of = self._known[row["provider"], row["flavor"]]
            if row["region"] in of:
                problems.append(f"{name}: several prices")
            of[row["region"]] = row
        if problems:
            raise InputError(
                "these prices can't be used:\n" + "\n".join(f"  {one}" for one in problems),
                cure="give each flavor one price above 0 in a region, with its currency; leave out"
                " unknown ones",
            )

    def find(self, provider: Any, flavor: Any, region: Any = None) -> dict[Any, Any] | None:
        """Return the price of a flavor in a region, or that for all regions; None if unknown.

        Where the region is not known (None), it is the only price that there is. Raises InputError
        where there are several.
        """
        of = self._known.get((provider, flavor), {})
        if region in of or region is not None:
            return of.get(region, of.get(None))
        if len(of) > 1:
            raise InputError(
                f"{provider} {flavor} has several prices, of {', '.join(map(str, of))}, and the"
                " runs don't report their region",
                cure="leave all but one of them out of the table",
            )
        return next(iter(of.values()), None)


def price_performance(
    results: pd.DataFrame, prices: pd.DataFrame, measure: Measure
) -> PricePerformance:
    """Return the price-performance of each flavor.

    ``results`` has the columns of ``KEY`` and that of ``measure``, one row a result, and may have
    ``region``, None where it is not known; ``prices`` those of ``KEY`` and ``PRICE``. The ranking
    has all these columns, and ``per_price`` = result / price_per_hour, in the measure's unit for a
    unit of the currency an hour, and ``rank`` from 1. An unknown price (no row, or NaN) is unknown,
    never 0: such results stand in ``unpriced``. So do unknown results of a known price.

    Raises InputError as ``PriceTable``, and where the prices are in several currencies, or higher
    values are not better. Prices are data: with the date, the region and the source.

    Assumed is that a price was valid when the result was measured, and that results grow with what
    is paid for.

    Source: Deval, "Empirical Evaluation of Cloud IaaS Platforms using System-level Benchmarks",
    2017, section 5.2.
    """
    import pandas as pd  # noqa: PLC0415 - slow to load

    value = measure.name
    if measure.better is not Better.HIGHER:
        why = "is better lower" if measure.better is Better.LOWER else "is better neither way"
        raise InputError(
            f"{value} {why}, so a price per unit of it means nothing",
            cure="rank by a rate, or give a budget instead",
        )
    known = PriceTable(prices)
    rows = []
    for row in results.astype(object).where(results.notna(), None).to_dict("records"):
        found = known.find(row["provider"], row["flavor"], row.get("region"))
        rows.append({**dict.fromkeys(PRICE), **row, **(found or {})})
    columns = dict.fromkeys([*results.columns, *PRICE])
    table = pd.DataFrame(rows, columns=pd.Index(list(columns)))
    table = table.astype(dict.fromkeys((value, "price_per_hour"), "float64"))
    currencies = sorted(map(str, table["currency"].dropna().unique()))
    if len(currencies) > 1:
        raise InputError(
            f"the prices are in several currencies: {', '.join(currencies)}",
            cure="rank the results of each currency separately: currencies are never converted",
        )
    whole = table["price_per_hour"].notna() & table[value].notna()
    ranking = table[whole].assign(per_price=lambda rows: rows[value] / rows["price_per_hour"])
    ranking = ranking.sort_values("per_price", ascending=False, kind="stable", ignore_index=True)
    ranks = ranking["per_price"].rank(method="min", ascending=False).astype("int64")
    return PricePerformance(ranking.assign(rank=ranks), table[~whole].reset_index(drop=True))
