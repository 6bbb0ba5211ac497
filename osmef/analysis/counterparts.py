"""Counterparts: the most similar machine types of other providers, with uncertainty and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd

from osmef.analysis.price import PriceTable
from osmef.analysis.similarity import (
    machine_name,
    machine_vectors,
    resampled,
    similarity_interval,
    similarity_matrix,
)
from osmef.errors import InputError
from osmef.results.measure import Component

LOWER = {Component.CPU}
"""Components of which less is better; of all others more is."""


def counterparts(measured: pd.DataFrame, *, within: bool = False) -> pd.DataFrame:
    """Rank, for each machine type, those of other providers by similarity.

    ``measured`` is that of ``machine_vectors``; ``within`` takes those of the same provider, too.
    Columns: machine and counterpart, as texts;
    similarity; rank, from 1, those that are equally similar share the better one; ci95_low and
    ci95_high, NaN where there are too few measurements; tied, whether the interval reaches that of
    the first one, so that nobody can tell which of the two comes closer; decided_by, the components
    that make up the difference, the largest first: component, ratio (the counterpart's to the
    machine's) and share of the whole difference. Raises InputError as ``similarity_matrix``.

    Assumed is what ``similarity_interval`` assumes.

    Source: OSMeF, with the similarity of Kratzke and Quint, 2015.
    """
    vectors = machine_vectors(measured)
    similar = similarity_matrix(vectors).to_numpy(dtype="float64")
    draws = resampled(measured, vectors)
    names = list(vectors.index)
    rows: list[Counterpart] = []
    for i, one in enumerate(names):
        of_one = []
        for j, other in enumerate(names):
            if one[0] != other[0] or (within and i != j):
                low, high = similarity_interval(draws[one], draws[other]) or (np.nan, np.nan)
                parts = _decided_by(vectors.iloc[i], vectors.iloc[j])
                pair = (machine_name(one), machine_name(other))
                of_one.append(Counterpart(*pair, float(similar[i, j]), low, high, parts))
        rows += _ranked(of_one)
    columns = [field.name for field in fields(Counterpart)]
    return pd.DataFrame(map(vars, rows), columns=pd.Index(columns))


@dataclass(frozen=True)
class Counterpart:
    """A machine type of another provider, and its similarity."""

    machine: str
    counterpart: str
    similarity: float
    ci95_low: float
    ci95_high: float
    decided_by: list[dict[str, object]]
    rank: int = 0
    tied: bool = False


def _ranked(rows: list[Counterpart]) -> list[Counterpart]:
    """Return the counterparts of one machine type in their order, with rank and ties."""
    table = sorted(rows, key=lambda row: -row.similarity)
    return [
        replace(
            row,
            rank=1 + sum(one.similarity > row.similarity for one in table),
            tied=row is not table[0] and row.ci95_high >= table[0].ci95_low,
        )
        for row in table
    ]


def _decided_by(one: pd.Series[float], other: pd.Series[float]) -> list[dict[str, object]]:
    """Return the components in which two machine types differ, the largest difference first."""
    ratios = {str(name): float(other[name] / one[name]) for name in one.index}
    apart = {name: (1 - min(ratio, 1 / ratio)) ** 2 for name, ratio in ratios.items()}
    whole = sum(apart.values())
    return [
        {"component": name, "ratio": ratios[name], "share": apart[name] / whole}
        for name in sorted(apart, key=lambda name: -apart[name])
        if apart[name] > 0
    ]


def cheapest(
    measured: pd.DataFrame, prices: pd.DataFrame, *, tolerance: float = 0.1
) -> pd.DataFrame:
    """Return the cheapest counterpart of each machine type that is at least of its class.

    It is of another provider, and in each component as good as the machine type, or less by at
    most the ``tolerance``, a part of 1. ``prices`` are those of ``osmef.analysis.price``. Columns:
    machine, price_per_hour, counterpart, counterpart_price_per_hour, saving (a part of the
    machine's price, below 0 where it costs more), currency, similarity. A machine type without a
    price is left out; one without such a counterpart has None and NaN there.

    Raises InputError where prices are in several currencies, and as ``similarity_matrix``.

    Assumed is that medians are what a user gets.

    Source: OSMeF.
    """
    vectors = machine_vectors(measured)
    similar = similarity_matrix(vectors)
    known = PriceTable(prices)
    found = {name: known.find(*name) for name in vectors.index}
    priced = {name: price for name, price in found.items() if price is not None}
    currencies = sorted({str(price["currency"]) for price in priced.values()})
    if len(currencies) > 1:
        raise InputError(
            f"the prices are in several currencies: {', '.join(currencies)}",
            cure="give prices in one of them: none is ever converted",
        )
    rows = []
    for one, price in priced.items():
        good = [
            other
            for other in priced
            if other[0] != one[0] and _is_as_good(vectors.loc[other], vectors.loc[one], tolerance)
        ]
        costs = {other: float(priced[other]["price_per_hour"]) for other in good}
        best = min(good, key=lambda other: (costs[other], -similar[other][one]), default=None)
        rows.append(_row(one, price, best, costs, similar))
    columns = [
        *("machine", "price_per_hour", "counterpart", "counterpart_price_per_hour"),
        *("saving", "currency", "similarity"),
    ]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def _row(
    one: tuple[str, str],
    price: Mapping[Any, Any],
    best: tuple[str, str] | None,
    costs: Mapping[tuple[str, str], float],
    similar: pd.DataFrame,
) -> dict[str, object]:
    own = float(price["price_per_hour"])
    row: dict[str, object] = {
        "machine": machine_name(one),
        "price_per_hour": own,
        "counterpart": None,
        "currency": price["currency"],
    }
    if best is not None:
        row |= {
            "counterpart": machine_name(best),
            "counterpart_price_per_hour": costs[best],
            "saving": 1 - costs[best] / own,
            "similarity": float(similar[best][one]),
        }
    return row


def _is_as_good(one: pd.Series[float], wanted: pd.Series[float], tolerance: float) -> bool:
    ratios = [
        float(wanted[name] / one[name] if name in LOWER else one[name] / wanted[name])
        for name in wanted.index
    ]
    return min(ratios) >= 1 - tolerance
