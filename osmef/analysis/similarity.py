"""Similarity of machine types, by vectors of their components, and counterparts in other clouds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from osmef.analysis.price import PriceTable
from osmef.errors import InputError
from osmef.results.measure import Component

COMPONENT_WORDS = {
    "threads": "threads",
    "cpu_s": "CPU time",
    "memory_mb": "memory",
    "memory_mb_per_s": "memory rate",
    "disk_read_mb_per_s": "disk read",
    "disk_write_mb_per_s": "disk write",
    "network_mb_per_s": "network",
}
COMPONENTS = tuple(Component)
"""EasyCompare's vector: threads at once, Tachyon's seconds, memory and its STREAM triad, IOzone's
reads and writes, iperf's rate."""
MACHINE = ["provider", "flavor"]
GIVEN = (Component.THREADS, Component.MEMORY)
"""Components that a flavor has, and that no measurement spreads."""

LEAST_N = 6
"""Measurements of a component that an interval needs, as the exact one of a median does."""
_SMALLEST, _LARGEST = 1e-100, 1e100
"""Of two components between these each ratio is a number above 0."""
_DRAWS = 1000
_LEVEL = 0.99
_SEED = 20151117

Floats = npt.NDArray[np.float64]


def machine_vectors(measured: pd.DataFrame) -> pd.DataFrame:
    """Return the vector of each machine type: the median of each component's measurements.

    ``measured`` has a row for each measurement: provider, flavor, component (of ``COMPONENTS``) and
    value, which is in one unit for all of a component. The answer has one row a machine type and a
    column for each component that occurs; one that a machine type has no measurement of is NaN.

    Assumed is that measurements of a component are of one kind, so that their median is typical.

    Source: Kratzke and Quint, "How to Operate Container Clusters more Efficiently?", 2015, equation
    1 (EasyCompare).
    """
    medians = measured.groupby([*MACHINE, "component"], sort=False)["value"].median()
    # pandas 2 confuses components where unstack does not sort.
    machines = medians.groupby(level=MACHINE, sort=False).size().index
    vectors = medians.unstack("component").reindex(machines)
    return vectors[[one for one in COMPONENTS if one in vectors]].rename_axis(columns=None)


def similarity_matrix(vectors: pd.DataFrame) -> pd.DataFrame:
    """Return how similar each two of the machine types are, from 0 to 1; with themselves 1.

    ``vectors`` has one row a machine type and one column for each of its m components, all in one
    unit a column; the answer has the machine types as rows and as columns, and the names of the
    components in ``attrs["components"]``. s(i, j) = 1 - 1/m * sum
    (1 - min(i, j) / max(i, j))^2 over the components: symmetric, and no unit or direction matters.
    It is defined for positive components only: raises InputError with the machine and the component
    of each that is missing, zero or negative, or so large or small that ratios have no number.

    Assumed is that all components matter alike.

    Source: Kratzke and Quint 2015, equation 2.
    """
    values = vectors.to_numpy(dtype="float64")
    odd = [
        f"{machine_name(vectors.index[i])}: {vectors.columns[j]} is {_amount(values[i, j])}"
        for i, j in np.argwhere(~((values >= _SMALLEST) & (values <= _LARGEST)))
    ]
    if odd:
        raise InputError(
            f"similarity needs all components above 0, of {_SMALLEST:g} to {_LARGEST:g}:\n"
            + "\n".join(f"  {one}" for one in odd),
            cure="measure what is missing, or leave out the machine or the component everywhere",
        )
    one, other = values[:, None, :], values[None, :, :]
    apart = 1 - np.minimum(one, other) / np.maximum(one, other)
    similar = 1 - (apart**2).mean(axis=2) if values.shape[1] else np.ones((len(values),) * 2)
    matrix = pd.DataFrame(similar, index=vectors.index, columns=vectors.index)
    matrix.attrs["components"] = [str(name) for name in vectors.columns]
    return matrix


@dataclass(frozen=True)
class Resampled:
    """Logarithms of a machine type's vector, and of bootstrap samples of it.

    ``logs`` has m components, ``draws`` a row for each draw; ``is_enough`` says whether there are
    measurements enough for an interval, all above 0.
    """

    logs: Floats
    draws: Floats
    is_enough: bool


def resampled(measured: pd.DataFrame, vectors: pd.DataFrame) -> dict[object, Resampled]:
    """Bootstrap the measurements of each machine type, component by component.

    ``measured`` and ``vectors`` are those of ``machine_vectors``, all medians above 0. The seed is
    fixed, so that the same measurements give the same intervals.

    Assumed is that measurements are independent.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 6.
    """
    random = np.random.default_rng(_SEED)
    by_machine: Mapping[object, pd.DataFrame] = dict(iter(measured.groupby(MACHINE, sort=False)))
    return {
        name: _resampled(by_machine[name], list(vectors.columns), random) for name in vectors.index
    }


def _resampled(
    measured: pd.DataFrame, components: list[str], random: np.random.Generator
) -> Resampled:
    logs, draws, is_enough = [], [], True
    for component in components:
        values = measured["value"][measured["component"] == component].to_numpy("float64")
        is_given = component in GIVEN
        # Of a measurement of 0 the median may be 0, too, and then the ratio has no bound.
        is_spread = not is_given and values.min() > 0
        is_enough = is_enough and (is_given or (is_spread and len(values) >= LEAST_N))
        logs.append(np.log(np.median(values)))
        if not is_spread:
            draws.append(np.full(_DRAWS, logs[-1]))
        else:
            drawn = values[random.integers(0, len(values), (_DRAWS, len(values)))]
            draws.append(np.log(np.median(drawn, axis=1)))
    return Resampled(np.array(logs), np.column_stack(draws), is_enough)


def similarity_interval(one: Resampled, other: Resampled) -> tuple[float, float] | None:
    """Return the 95 % interval of the similarity of two machine types, or None.

    There is none for too few trials, nor where one has measured 0.

    Of each component the ratio of the two medians gets an interval, all of them together at the
    level of 99 % (the largest standardized deviation of the resampled ratios); the answer is from
    the least to the greatest similarity that these allow. Resampling the similarity itself would
    not do: noise makes two machines differ, so that the interval of two equal ones would never
    hold 1. Simulated, it holds the true value in at least 93 of 100 cases of normal, skewed,
    bimodal and rounded measurements, and in 80 for an autocorrelation of 0.5,
    which is what sessions are for (docs/methods.md).

    Assumed is that measurements are independent.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 12; the
    simultaneous box is OSMeF's.
    """
    if not (one.is_enough and other.is_enough):
        return None
    ratio = one.logs - other.logs
    off = np.abs(one.draws - other.draws - ratio)
    spread = np.sqrt((off**2).mean(axis=0))
    largest = (off / np.where(spread > 0, spread, 1)).max(axis=1)
    reach = float(np.quantile(largest, _LEVEL)) * spread
    low, high = np.abs(ratio - reach), np.abs(ratio + reach)
    far = np.maximum(low, high)
    near = np.where(np.abs(ratio) <= reach, 0, np.minimum(low, high))
    least, greatest = (1 - float((np.expm1(-apart) ** 2).mean()) for apart in (far, near))
    return least, greatest


def machine_name(machine: object) -> str:
    """Return the name of a machine type: its provider and flavor."""
    return " ".join(map(str, machine)) if isinstance(machine, tuple) else str(machine)


def _amount(value: float) -> str:
    return "missing" if np.isnan(value) else f"{value:g}"


LOWER = {Component.CPU}
"""Components of which less is better; of all others more is."""


def counterparts(measured: pd.DataFrame, *, within: bool = False) -> pd.DataFrame:
    """Rank, for each machine type, those of other providers by similarity.

    ``measured`` is that of ``machine_vectors``; ``within`` takes those of the same provider, too.
    Columns: machine and counterpart, as texts;
    similarity; rank, from 1, those that are equally similar share the better one; ci95_low and
    ci95_high, NaN where there are too few measurements; tied, whether the interval reaches that of
    the first one, so that it is undecided which of the two comes closer; decided_by, the components
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
            cure="give prices in one of them: currencies are never converted",
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
