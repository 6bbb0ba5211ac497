"""What performance costs: results over hourly prices, unknown prices apart."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from osmef.analysis.direction import Direction, direction
from osmef.errors import InputError

KEY = ("provider", "flavor")
PRICE = ("price_per_hour", "currency", "region", "date", "source")
"""What is known of a price, in this order in a table of prices, after ``KEY``."""


@dataclass(frozen=True)
class PricePerformance:
    """``ranking``: the best first. ``unpriced``: results without a price, which have no rank."""

    ranking: pd.DataFrame
    unpriced: pd.DataFrame


def price_performance(results: pd.DataFrame, prices: pd.DataFrame, value: str) -> PricePerformance:
    """Return what each flavor gives for an hour's price.

    ``results`` has the columns of ``KEY`` and ``value``, one row a result, in one unit and better
    higher; ``prices`` those of ``KEY`` and ``PRICE``. The ranking has all these columns, and
    ``per_price`` = value / price_per_hour, in the value's unit for a unit of the currency an hour,
    and ``rank`` from 1. An unknown price (no row, or NaN) is unknown, never 0: such results stand
    in ``unpriced``. So do unknown results of a known price.

    Raises InputError where prices are in several currencies, a flavor has two of them, one is not
    above 0, or lower values are better. Prices are data: with the date, the region and the source.

    Source: Deval, "Empirical Evaluation of Cloud IaaS Platforms using System-level Benchmarks",
    2017, section 5.2.
    """
    if direction(value) is Direction.LOWER:
        raise InputError(
            f"{value} is better lower, so a price per unit of it says nothing",
            cure="rank by a rate, or give a budget instead",
        )
    known = known_prices(prices)
    table = results.merge(known, on=list(KEY), how="left", validate="many_to_one")
    whole = table["price_per_hour"].notna() & table[value].notna()
    ranking = table[whole].assign(per_price=lambda rows: rows[value] / rows["price_per_hour"])
    ranking = ranking.sort_values("per_price", ascending=False, kind="stable", ignore_index=True)
    ranks = ranking["per_price"].rank(method="min", ascending=False).astype("int64")
    return PricePerformance(ranking.assign(rank=ranks), table[~whole].reset_index(drop=True))


def known_prices(prices: pd.DataFrame) -> pd.DataFrame:
    """Return the prices that are known, the columns of ``KEY`` and ``PRICE``.

    Raises InputError as ``price_performance`` does, and where a column is not there.
    """
    missing = [name for name in (*KEY, *PRICE) if name not in prices]
    if missing:
        raise InputError(
            f"the table of prices has no column {', '.join(missing)}",
            cure=f"give it the columns {', '.join((*KEY, *PRICE))}",
        )
    known = prices.loc[prices["price_per_hour"].notna(), [*KEY, *PRICE]]
    problems = [
        f"{row.provider} {row.flavor}: a price of {row.price_per_hour:g}"
        for row in known[~(known["price_per_hour"] > 0)].itertuples()
    ]
    twice = known[known.duplicated(list(KEY), keep="first")]
    problems += [f"{row.provider} {row.flavor}: several prices" for row in twice.itertuples()]
    currencies = sorted(map(str, known["currency"].unique()))
    if len(currencies) > 1:
        problems.append(f"several currencies: {', '.join(currencies)}")
    if problems:
        raise InputError(
            "these prices can't be used:\n" + "\n".join(f"  {one}" for one in problems),
            cure="give each flavor one price above 0, all of one currency; leave out unknown ones",
        )
    return known
